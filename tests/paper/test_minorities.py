import polars as pl
import pytest

import tastespace as ts
from tastespace.paper.minorities import category_shares, minority_categories
from tastespace.paper.runs import load_parts


def test_shares_of_categories_sum_to_one():
    names, shares = category_shares(load_parts("town").train)
    assert len(names) == 12
    assert shares.sum() == pytest.approx(1)
    assert (shares[:-1] >= shares[1:]).all()


def test_a_minority_has_less_than_half_an_even_share():
    taken = {"big": 500, "fair": 300, "small": 60, "tiny": 1}
    pairs = [(user, kind) for kind, count in taken.items() for user in range(count)]
    data = ts.Interactions.from_frame(
        pl.DataFrame(pairs, schema=["user", "item"], orient="row"),
        item_attributes=pl.DataFrame({"item": list(taken), "genres": [[kind] for kind in taken]}),
    )
    names, shares, small = minority_categories(data)
    assert names.tolist() == ["big", "fair", "small"]  # one taker says nothing
    assert shares[2] == pytest.approx(60 / 861)
    assert small.tolist() == [False, False, True]
