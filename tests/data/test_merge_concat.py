import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace import Interactions
from tastespace.data.merge import concat
from tastespace.errors import DataError

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=40).filter(
    lambda pairs: len({u for u, _ in pairs}) > 1 and len({i for _, i in pairs}) > 1
)


def table(pairs, **more):
    users, items = zip(*pairs, strict=True)
    return pl.DataFrame({"user": users, "item": items, **more})


@given(PAIRS, PAIRS)
def test_the_union_has_all_pairs_once_and_all_ids(old, new):
    whole = concat(Interactions.from_frame(table(old)), Interactions.from_frame(table(new)))
    assert set(whole.to_frame().rows()) == set(old) | set(new)
    assert whole.n_interactions == len(set(old) | set(new))
    assert whole.users.series.to_list() == sorted({u for u, _ in old + new})


def test_what_is_new_decides_and_attributes_are_filled_in():
    old = Interactions.from_frame(
        table([(1, 1), (2, 2)], w=[1.0, 2.0]), weight="w", item_attributes=pl.DataFrame({"item": [1], "title": ["one"]})
    )
    new = Interactions.from_frame(
        table([(1, 1), (3, 3)], w=[9.0, 4.0]),
        weight="w",
        item_attributes=pl.DataFrame({"item": [1, 3], "title": ["x", "three"]}),
    )
    whole = concat(old, new)
    assert whole.weights.tolist() == [9.0, 2.0, 4.0]
    assert whole.item_attributes["title"].to_list() == ["one", None, "three"]


def test_ids_of_different_types_cannot_be_united():
    numbers, words = (
        Interactions.from_frame(table([(1, 1), (2, 2)])),
        Interactions.from_frame(table([("a", 1), ("b", 2)])),
    )
    with pytest.raises(DataError, match="the user ids have type Int64 in one table and String in the other"):
        concat(numbers, words)
