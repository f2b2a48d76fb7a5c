"""Adding ids of new users and items to existing ones."""

import numpy as np
import polars as pl
import pytest

from tastespace.data.interactions import Interactions
from tastespace.data.merge import append_ids, new_ids
from tastespace.errors import DataError, ParameterError


@pytest.fixture
def data():
    return Interactions.from_frame(
        pl.DataFrame({"user": [1, 1, 5], "item": ["b", "d", "b"], "w": [2.0, 3.0, 4.0]}),
        weight="w",
        item_attributes=pl.DataFrame({"item": ["b", "d"], "kind": ["x", "y"]}),
    )


def test_new_ids_are_inserted_in_ascending_order(data):
    frame = pl.DataFrame({"item": ["c", "a"], "kind": ["z", "w"], "extra": [1, 2]})
    whole = append_ids(data, "item", frame["item"], frame)
    assert whole.items.series.to_list() == ["a", "b", "c", "d"]
    assert whole.item_attributes["kind"].to_list() == ["w", "x", "z", "y"]
    assert whole.items_of(1) == ["b", "d"]
    assert whole.weights.tolist() == [2.0, 3.0, 4.0]
    with_user = append_ids(data, "user", pl.Series([3]), None)
    assert with_user.users.series.to_list() == [1, 3, 5]
    assert with_user.items_of(3) == []


def test_ids_come_from_the_frame_or_beside_a_matrix(data):
    assert new_ids(data, "item", pl.DataFrame({"item": ["z", "a"]}), None).to_list() == ["z", "a"]
    assert new_ids(data, "user", np.eye(2), [9, 7]).to_list() == [9, 7]


@pytest.mark.parametrize(
    ("side", "features", "ids", "message"),
    [
        ("item", pl.DataFrame({"item": ["b", "z"]}), None, "1 of 2 items are known already, such as 'b'"),
        ("item", np.eye(2), None, "needs as many ids=, given none"),
        ("item", np.eye(2), ["x"], "needs as many ids=, given 1"),
        ("item", np.eye(2), ["x", "x"], "several rows"),
        ("item", pl.DataFrame({"item": []}, schema={"item": pl.String}), None, "at least one new item"),
    ],
)
def test_ids_that_cannot_be_added(data, side, features, ids, message):
    with pytest.raises(DataError, match=message):
        new_ids(data, side, features, ids)


def test_ids_belong_to_matrices(data):
    with pytest.raises(ParameterError, match="ids= belongs to a matrix"):
        new_ids(data, "item", pl.DataFrame({"item": ["z"]}), ["z"])
