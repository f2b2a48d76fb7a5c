"""Lists of models of extreme sizes: one or a thousand dimensions, one item, more negatives than items, nobody."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.recommend.toy_models import Given

import tastespace as ts
from tastespace.data.ids import IdMap
from tastespace.errors import DataError
from tastespace.models import VectorSpace

pytestmark = pytest.mark.usefixtures("one_core")
INDEXES = ("exact", "ann")


@pytest.fixture(scope="module")
def town():
    return ts.synthetic.multi_interest(n_users=40, n_items=30, n_interactions=500, seed=1).interactions


def by_hand(model, user, k):
    """The k nearest items of a user that are not in the history, in double precision."""
    space, row = model.vectors(), model.train_.users.index_of([user])[0]
    mine = space.user_vectors[space.user_offsets[row] : space.user_offsets[row + 1]].astype(np.float64)
    distances = ((mine[:, None] - space.item_vectors) ** 2).sum(axis=2).min(axis=0)
    distances[model.train_.indices[model.train_.offsets[row] : model.train_.offsets[row + 1]]] = np.inf
    return np.argsort(distances, kind="stable")[:k].tolist(), np.sort(distances)[:k]


@pytest.mark.parametrize("dim", [1, 1_000])
def test_one_dimension_and_a_thousand(town, dim, tmp_path):
    model = ts.DPCML(dim=dim, n_interests=2, epochs=2, threads=1, seed=0).fit(town)
    items, distances = by_hand(model, 7, 5)
    for index in INDEXES:
        found = model.recommend(7, k=5, index=index)
        np.testing.assert_allclose(found["distance"], distances, rtol=1e-4, atol=1e-6)
        if dim > 1:  # in one dimension vectors coincide at the ends
            assert found["item"].to_list() == items
    assert len(model.shelves(7, k=3)) >= 1
    assert model.similar_items(3, k=4).height == 4
    assert model.recommend_for([[3, 7, 9]], k=5).height == 5


def test_more_negatives_than_items(town):
    for sampler in ("hard", "uniform"):
        model = ts.DPCML(dim=4, n_negatives=200, sampler=sampler, epochs=2, threads=1, seed=0).fit(town)
        for index in INDEXES:
            assert model.recommend(7, k=5, index=index)["item"].to_list() == by_hand(model, 7, 5)[0]


def one_item(past):
    """A model of one item, which is among the past items of some users."""
    data = ts.Interactions(
        IdMap(pl.Series(range(len(past))), "user"),
        IdMap(pl.Series(["only"]), "item"),
        np.concatenate([[0], np.cumsum(past)]).astype(np.int64),
        np.zeros(sum(past), dtype=np.int32),
    )
    users = np.ones((2 * len(past), 3), dtype=np.float32)
    space = VectorSpace(users, np.arange(len(past) + 1, dtype=np.int64) * 2, np.zeros((1, 3), dtype=np.float32))
    return Given(space).fit(data)


@pytest.mark.parametrize("index", INDEXES)
def test_one_item(index):
    model = one_item([0, 1])
    assert model.recommend(k=10, index=index)["item"].to_list() == ["only"]
    assert model.recommend(1, k=10, index=index).height == 0
    assert model.recommend(k=10, exclude_seen=False, index=index)["distance"].to_list() == [3.0, 3.0]
    top, scores = model.recommend_indices(k=3, index=index)
    assert top.tolist() == [[0, -1, -1], [-1, -1, -1]]
    assert np.isnan(scores[1]).all()


def test_nothing_can_be_learned_from_one_item():
    with pytest.raises(DataError, match="1 item; at least 2 are needed"):
        ts.Interactions.from_frame(pl.DataFrame({"user": [1, 2], "item": ["only", "only"]}))


@pytest.mark.parametrize("index", INDEXES)
def test_a_model_without_users(index):
    items = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    model = Given(VectorSpace(np.empty((0, 3), dtype=np.float32), np.zeros(1, dtype=np.int64), items))
    model.train_ = ts.Interactions(
        IdMap(pl.Series([], dtype=pl.Int64), "user"),
        IdMap(pl.Series(range(20)), "item"),
        np.zeros(1, dtype=np.int64),
        np.empty(0, dtype=np.int32),
    )
    model.valid_ = None
    found = model.recommend(k=5, index=index)
    assert found.height == 0
    assert found.columns == ["user", "item", "rank", "score", "distance", "interest"]
    assert model.recommend_indices(k=5, index=index)[0].shape == (0, 5)
    assert model.recommend([3], k=5, on_unknown="popular", index=index)["user"].to_list() == [3] * 5
    with pytest.raises(ts.errors.UnknownIdError):
        model.recommend([3], k=5, index=index)
    assert model.similar_items(3, k=4).height == 4
