"""Content neighbors against loops."""

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.models.content_knn import ContentKNN


@pytest.fixture
def shop():
    pairs = [("ann", "a"), ("ann", "b"), ("bob", "c"), ("cy", "c"), ("cy", "d")]
    data = Interactions.from_frame(pl.DataFrame(pairs, schema=["user", "item"], orient="row"))
    items = pl.DataFrame({"item": ["d", "c", "b", "a"], "tags": [["x"], ["x", "y"], ["z"], ["z", "y"]]})
    users = pl.DataFrame({"user": ["ann", "bob", "cy"], "town": ["Ulm", "Bonn", "Bonn"]})
    return data, users, items


def fitted(shop, **parameters):
    data, users, items = shop
    return ContentKNN(**parameters).fit(data, user_features=users, item_features=items)


def test_a_user_profile_is_the_sum_of_item_content(shop):
    weights = np.log1p(4 / np.array([2, 2, 2]))  # x, y and z are in two items each
    rows = {"a": [0, 1, 1], "b": [0, 0, 1], "c": [1, 1, 0], "d": [1, 0, 0]}
    unit = {item: weights * row / np.linalg.norm(weights * row) for item, row in rows.items()}
    expected = [(unit["a"] + unit["b"]) @ unit[item] for item in "abcd"]
    model = fitted(shop)
    np.testing.assert_allclose(model.score_block(np.array([0]))[0], expected, rtol=1e-6)
    assert model.similar_items("a", k=1)["similar"].to_list() == ["b"]


def test_cold_start_users_get_the_items_of_similar_users(shop):
    model = fitted(shop)
    found = model.recommend_for(features=pl.DataFrame({"user": ["new"], "town": ["Bonn"]}), k=2)
    assert found["item"].to_list() == ["c", "d"]
    assert found["score"].to_list() == pytest.approx([2.0, 1.0])
    nearest = fitted(shop, n_neighbors=1).fold_in(features=pl.DataFrame({"user": [1], "town": ["Ulm"]}))
    assert nearest.score_block(np.array([0])).tolist() == [[1, 1, 0, 0]]
    warm = model.recommend_for({"new": ["d"]}, features=pl.DataFrame({"user": ["new"], "town": ["Ulm"]}), k=1)
    assert warm["item"].to_list() == ["c"]  # a history counts for more


def test_added_items_are_scored_by_their_content(shop):
    model = fitted(shop).add_items(pl.DataFrame({"item": ["bb"], "tags": [["z"]]}))
    assert model.train_.items.series.to_list() == ["a", "b", "bb", "c", "d"]
    assert model.recommend("ann", k=1)["item"].to_list() == ["bb"]
    assert model.recommend("cy", k=1, items=["a", "bb"])["item"].to_list() == ["a"]
    with pytest.raises(DataError, match="known already"):
        model.add_items(pl.DataFrame({"item": ["bb"], "tags": [["z"]]}))


def test_bad_parameters(shop):
    with pytest.raises(ParameterError, match="n_neighbors"):
        fitted(shop, n_neighbors=0)

    for name in ("min_count", "max_vocabulary"):
        with pytest.raises(ParameterError, match=name):
            fitted(shop, **{name: 0})
    with pytest.raises(ParameterError, match=r"item_columns=\['tags'\]: expected a dict"):
        fitted(shop, item_columns=["tags"])
    with pytest.raises(ParameterError, match="has no named columns"):
        ContentKNN(user_columns={"town": "category"}).fit(shop[0])


def test_columns_are_read_by_their_kinds(shop):
    data, users, items = shop
    users = users.with_columns(age=pl.Series([20, 30, 40]))
    model = ContentKNN(user_columns={"town": "category"}, item_columns={"tags": "tags"}, min_count=2)
    model.fit(data, user_features=users, item_features=items)
    assert model.encoders_["user"].names == ["town=Bonn"]
    assert model.encoders_["item"].names == ["tags=x", "tags=y", "tags=z"]
    assert ContentKNN(max_vocabulary=1).fit(data, item_features=items).encoders_["item"].n_features == 1
    assert model.clone().get_params() == model.get_params()


def test_users_may_be_added(shop, tmp_path):
    new = pl.DataFrame({"user": ["zoe", "abe"], "town": ["Bonn", "Ulm"]})
    expected = fitted(shop).recommend_for(features=new, k=2)
    model = fitted(shop).add_users(new)
    assert model.train_.users.series.to_list() == ["abe", "ann", "bob", "cy", "zoe"]
    assert model.recommend(["zoe", "abe"], k=2).equals(expected)
    assert model.recommend("ann", k=1).equals(fitted(shop).recommend("ann", k=1))
    # Added users are nobody's neighbors.
    more = pl.DataFrame({"user": ["new"], "town": ["Bonn"]})
    assert model.recommend_for(features=more, k=4).equals(fitted(shop).recommend_for(features=more, k=4))
    model.add_items(pl.DataFrame({"item": ["bb"], "tags": [["z"]]}))
    assert model.recommend("zoe", k=2)["item"].to_list() == ["c", "d"]
    model.save(tmp_path / "a.model")
    assert ts.load(tmp_path / "a.model").recommend(k=3).equals(model.recommend(k=3))
    with pytest.raises(DataError, match="known already"):
        model.add_users(new)
    with pytest.raises(ParameterError, match="the model has no user content"):
        ContentKNN().fit(shop[0], item_features=shop[2]).add_users(new)


def test_a_cold_start_user_without_features_gets_popular_items(shop, caplog):
    model = fitted(shop)
    new = pl.DataFrame({"user": ["new", "newer"], "town": ["Rome", None]})
    found = model.recommend_for(features=new, k=1)
    assert found["item"].to_list() == ["c", "c"]
    assert found["score"].to_list() == [2.0, 2.0]
    assert "1 values of user column 'town' were not there in training" in caplog.text
    assert "2 of 2 new users have no feature at all" in caplog.text
    assert model.add_users(new).recommend("new", k=1)["item"].to_list() == ["c"]
    folded = fitted(shop).fold_in(features=new).add_items(pl.DataFrame({"item": ["bb"], "tags": [["z"]]}))
    assert folded.recommend("new", k=1)["item"].to_list() == ["c"]


def test_empty_rows_in_training_give_a_warning(shop, caplog):
    data, users, items = shop
    ContentKNN().fit(data, user_features=users.with_columns(town=pl.Series(["Ulm", None, "Ulm"])), item_features=items)
    assert "1 of 3 users have no feature at all" in caplog.text
