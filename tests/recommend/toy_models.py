"""Models made by hand, and answers worked out the long way."""

from __future__ import annotations

import numpy as np
import polars as pl

from tastespace import Interactions
from tastespace.models import Recommender, VectorSpace


class Given(Recommender):
    """A model with given vectors, or with given scores."""

    def __init__(self, space=None, scores=None, several=True):
        self.space = space
        self.scores = scores
        self.several = several

    @property
    def has_interests(self):
        return self.several

    def _fit(self, train, valid, progress):
        pass

    def vectors(self):
        return self.space

    def score_block(self, users):
        return super().score_block(users) if self.scores is None else self.scores[users]

    def can_serve(self, users):
        return np.ones(len(users), dtype=bool)  # what is given does not come from a history


class Blend(Recommender):
    """A model that ranks by other scores than its vectors: their scores plus a given table ``(n_users, n_items)``."""

    has_interests = True

    def __init__(self, space, table):
        self.space = space
        self.table = table

    def _fit(self, train, valid, progress):
        pass

    def interest_space(self):
        return self.space

    def score_block(self, users):
        return self.space.scores(users) + self.table[users]

    def scores_by(self, user, interests):
        return super().scores_by(user, interests) + self.table[user]


def space_of(users, items, metric="l2", bias=None):
    """Vectors of each user and of each item, as a space."""
    offsets = np.concatenate([[0], np.cumsum([len(vectors) for vectors in users])]).astype(np.int64)
    flat = np.array([vector for vectors in users for vector in vectors], dtype=np.float32)
    bias = None if bias is None else np.array(bias, dtype=np.float32)
    return VectorSpace(flat, offsets, np.array(items, dtype=np.float32), metric, bias)


def taken(histories, items, **rest):
    """Interactions of ``{user: [item, ...]}`` over a catalog, whose order must be ascending."""
    rows = [(user, item) for user, mine in histories.items() for item in mine]
    frame = pl.DataFrame(rows, schema=["user", "item"], orient="row")
    return Interactions.from_frame(frame, catalog=list(items), **rest)


def own_vectors(space, row):
    """Vectors of the user at a row, in double precision."""
    return space.user_vectors[space.user_offsets[row] : space.user_offsets[row + 1]].astype(np.float64)


def by_vector(space, row):
    """Score of every item by each vector of a user, in double precision: ``(n_vectors, n_items)``."""
    mine, items = own_vectors(space, row), space.item_vectors.astype(np.float64)
    if space.metric == "l2":
        return -((mine[:, None, :] - items[None, :, :]) ** 2).sum(axis=2)
    return mine @ items.T + (0 if space.item_bias is None else space.item_bias)


def blend_of(model, seed=0, scale=1.0):
    """A blend over the vectors of a fitted model, with random numbers as its other scores."""
    data = model.train_
    table = np.random.default_rng(seed).normal(scale=scale, size=(data.n_users, data.n_items)).astype(np.float32)
    return Blend(model.vectors(), table).fit(data)


def past_rows(data, row):
    """Rows of the items that a user has."""
    return data.indices[data.offsets[row] : data.offsets[row + 1]].tolist()


def in_order(values, allowed, k):
    """The k best allowed rows: larger first, then the smaller row."""
    return sorted(allowed, key=lambda row: (-values[row], row))[:k]


def assert_best(found, values, allowed, k, tolerance=1e-5):
    """``found`` are rows of k best allowed values in order; what differs by rounding may change places."""
    expected = in_order(values, allowed, k)
    assert len(found) == len(set(found)) == len(expected)
    assert set(found) <= set(allowed)
    np.testing.assert_allclose(values[found], values[expected], atol=tolerance, rtol=0)


def lists_of(frame, column="item", by="user"):
    """A column of a frame of answers as one list per user: ``{user: [...]}``."""
    frame = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame.to_dict("list"))
    return dict(frame.group_by(by, maintain_order=True).agg(column).iter_rows())
