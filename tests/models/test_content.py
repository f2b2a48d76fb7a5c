"""Content neighbours against loops."""

import numpy as np
import polars as pl
import pytest

from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.models.content import ContentKNN


@pytest.fixture
def shop():
    pairs = [("ann", "a"), ("ann", "b"), ("bob", "c"), ("cy", "c"), ("cy", "d")]
    data = Interactions.from_frame(pl.DataFrame(pairs, schema=["user", "item"], orient="row"))
    items = pl.DataFrame({"item": ["d", "c", "b", "a"], "tags": [["x"], ["x", "y"], ["z"], ["z", "y"]]})
    people = pl.DataFrame({"user": ["ann", "bob", "cy"], "town": ["Ulm", "Bonn", "Bonn"]})
    return data, people, items


def fitted(shop, **parameters):
    data, people, items = shop
    return ContentKNN(**parameters).fit(data, user_features=people, item_features=items)


def test_a_user_is_the_sum_of_what_the_own_items_are(shop):
    weights = np.log1p(4 / np.array([2, 2, 2]))  # x, y and z are in two items each
    rows = {"a": [0, 1, 1], "b": [0, 0, 1], "c": [1, 1, 0], "d": [1, 0, 0]}
    unit = {item: weights * row / np.linalg.norm(weights * row) for item, row in rows.items()}
    expected = [(unit["a"] + unit["b"]) @ unit[item] for item in "abcd"]
    model = fitted(shop)
    np.testing.assert_allclose(model.score_block(np.array([0]))[0], expected, rtol=1e-6)
    assert model.similar_items("a", k=1)["similar"].to_list() == ["b"]


def test_strangers_get_what_people_like_them_took(shop):
    model = fitted(shop)
    found = model.recommend_for(features=pl.DataFrame({"user": ["new"], "town": ["Bonn"]}), k=2)
    assert found["item"].to_list() == ["c", "d"]
    assert found["score"].to_list() == pytest.approx([2.0, 1.0])
    nearest = fitted(shop, neighbours=1).fold_in(features=pl.DataFrame({"user": [1], "town": ["Ulm"]}))
    assert nearest.score_block(np.array([0])).tolist() == [[1, 1, 0, 0]]
    told = model.recommend_for({"new": ["d"]}, features=pl.DataFrame({"user": ["new"], "town": ["Ulm"]}), k=1)
    assert told["item"].to_list() == ["c"]  # a history counts for more


def test_new_items_stand_where_their_content_puts_them(shop):
    model = fitted(shop).add_items(pl.DataFrame({"item": ["bb"], "tags": [["z"]]}))
    assert model.train_.items.series.to_list() == ["a", "b", "bb", "c", "d"]
    assert model.recommend("ann", k=1)["item"].to_list() == ["bb"]
    assert model.recommend("cy", k=1, items=["a", "bb"])["item"].to_list() == ["a"]
    with pytest.raises(DataError, match="known already"):
        model.add_items(pl.DataFrame({"item": ["bb"], "tags": [["z"]]}))


def test_bad_parameters(shop):
    with pytest.raises(ParameterError, match="neighbours"):
        fitted(shop, neighbours=0)
