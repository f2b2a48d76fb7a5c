"""How close items are to an item and users to a user, from vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.computed_once import computed_once, freeze
from tastespace.models.vector_space import VectorSpace

Rows = NDArray[np.integer[Any]]


def items_as_queries(space: VectorSpace, items: Rows) -> VectorSpace:
    """These items as queries with one vector each, against all items: by distance, or by cosine."""
    vectors = item_directions(space)
    return VectorSpace.single(vectors[items], vectors, space.metric)


def item_directions(space: VectorSpace) -> NDArray[np.float32]:
    """What items are compared by, shape ``(n_items, dim)``: vectors, of length 1 where inner products are compared."""
    return space.item_vectors if space.metric == "l2" else _unit(space.item_vectors)


class UserCloseness:
    """How close users are to each other.

    Two users are as close as a vector is to the nearest of the other's (minus the squared distance, or the cosine): the
    mean over the vectors of either user, and the mean of the two.
    """

    def __init__(self, space: VectorSpace, threads: int) -> None:
        self._largest = 0.0 if space.metric == "l2" else 1.0
        vectors = space.user_vectors if space.metric == "l2" else _unit(space.user_vectors)
        self._offsets, self._threads = space.user_offsets, threads
        self._as_items = VectorSpace(vectors, space.user_offsets, vectors, space.metric)

    def of(self, user: int) -> NDArray[np.float32]:
        """Closeness of all users to the one at this row, shape ``(n_users,)``."""
        offsets, counts = self._offsets, np.diff(self._offsets)
        users, vectors = np.arange(len(counts), dtype=np.int32), np.arange(offsets[-1], dtype=np.int32)
        own = np.arange(offsets[user], offsets[user + 1], dtype=np.int32)
        there, _ = self._as_items.pair_scores(np.tile(users, len(own)), np.repeat(own, len(users)), self._threads)
        back, _ = self._as_items.pair_scores(np.full(len(vectors), user), vectors, self._threads)
        to_them = there.reshape(len(own), len(users)).mean(axis=0)
        to_me = np.add.reduceat(back, offsets[:-1]) / counts
        return np.minimum(0.5 * (to_them + to_me), self._largest).astype(np.float32)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same directions with a length of 1, computed once for vectors that do not change."""
    return computed_once(vectors, "unit", lambda: _normalized(vectors))


def _normalized(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    freeze(unit)
    return unit
