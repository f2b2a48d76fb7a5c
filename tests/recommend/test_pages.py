"""Lists page by page: no item twice, whatever changes between the pages."""

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.errors import ParameterError
from tastespace.recommend.pages import Shown


@pytest.fixture(scope="module")
def model(town):
    return ts.EASE().fit(town.interactions)


def pages_of(model, user, k, n=100, **options):
    after, found = "", []
    for _ in range(n):
        page = model.recommend_page(user, k, after=after, **options)
        found.append(page.items)
        if page.next is None:
            return found
        after = page.next
    return found


def test_pages_are_the_whole_list_in_order(model):
    whole = model.recommend(7, k=model.train_.n_items, filter="genres is not null")
    pages = pages_of(model, 7, 30, filter="genres is not null")
    joined = pl.concat(pages)
    assert joined.select("item", "rank").equals(whole.select("item", "rank"))
    assert np.allclose(joined["score"], whole["score"])
    exact = model.recommend_page(7, 10, items=whole["item"][:10].to_list())
    assert model.recommend_page(7, 10, after=exact.next, items=whole["item"][:10].to_list()).items.height == 0


def test_no_item_comes_twice_though_the_model_has_learned(model):
    first = model.recommend_page(7, 10)
    train = model.train_
    later = ts.update(
        model, pl.DataFrame({"user": [7, 7, 8], "item": [first.items["item"][0], train.items[3], 99_999]})
    )
    second = later.recommend_page(7, 10, after=first.next)
    assert not set(first.items["item"]) & set(second.items["item"])
    assert second.items["rank"].to_list() == list(range(11, 21))


def test_tokens_of_others_and_damaged_ones(model):
    token = model.recommend_page(7, 3).next
    with pytest.raises(ParameterError, match="the token of another user's list"):
        model.recommend_page(8, 3, after=token)
    for wrong in (
        token[:-2],
        token[:5] + "A" + token[6:] if token[5] != "A" else token[:5] + "B" + token[6:],
        token * 2,
    ):
        with pytest.raises(ParameterError, match="is no token of a page: give `next` of the page before"):
            model.recommend_page(7, 3, after=wrong)
    with pytest.raises(ParameterError, match="after=7: expected the token"):
        model.recommend_page(7, 3, after=7)
    assert Shown(tuple(range(990))).token(7, range(10)) is None
    assert Shown().token(7, [f"{at * 7919 % 1009:0200x}{at**9:x}" * 3 for at in range(900)]) is None  # too long
    assert len(Shown(tuple(range(980))).token(7, range(10))) < 6_000
    other = ts.MostPopular().fit(pl.DataFrame({"user": ["a", "7"], "item": ["x", "y"]}))
    ids_of_numbers = Shown().token("7", [5, 6])
    assert other.recommend_page("7", 3, after=ids_of_numbers).items["item"].to_list() == ["x"]
