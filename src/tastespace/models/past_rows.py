"""Matrices of models whose scores are sums over past items, as the kernels of blends take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.computed_once import computed_once, freeze
from tastespace.models.vector_space import VectorSpace

if TYPE_CHECKING:
    from tastespace.models.base import Recommender


def dense_rows(matrix: NDArray[np.float32]) -> _native.PastRows:
    """A matrix whose row i is what item i adds to the scores of all items, ``(n_items, n_items)``."""
    return _native.PastRows(dense=np.ascontiguousarray(matrix, dtype=np.float32))


def sparse_rows(matrix: sp.csr_array) -> _native.PastRows:
    """The same for a sparse matrix, whose arrays are read-only from now on: its columns are checked once.

    >>> sparse_rows(sp.csr_array(np.eye(3, dtype=np.float32))).n_items
    3
    """

    def make() -> _native.PastRows:
        offsets = np.ascontiguousarray(matrix.indptr, dtype=np.int64)
        columns = np.ascontiguousarray(matrix.indices, dtype=np.int32)
        values = np.ascontiguousarray(matrix.data, dtype=np.float32)
        for array in (offsets, columns, values):
            freeze(array)
        return _native.PastRows(offsets=offsets, columns=columns, values=values)

    return computed_once(matrix, "past rows", make)


def vector_rows(vectors: NDArray[np.float32], factors: NDArray[np.float64]) -> _native.PastRows:
    """The matrix of the inner products of the items' vectors, its rows times these factors."""
    freeze(vectors)  # their order in the kernels is kept
    packed = VectorSpace.single(vectors[:0], vectors, "dot").packed_items
    return _native.PastRows(vectors=np.ascontiguousarray(vectors), factors=factors, items=packed)


def past_entries(
    model: Recommender, rows: _native.PastRows, user: int, items: NDArray[np.integer[Any]]
) -> NDArray[np.float32]:
    """Contribution of each past item of a user to the scores of some items, ``(n_past, len(items))``."""
    train = model.weighted_train
    own = slice(int(train.offsets[user]), int(train.offsets[user + 1]))
    weights = None if train.weights is None else np.ascontiguousarray(train.weights[own], dtype=np.float32)
    return rows.entries(train.indices[own], weights, np.ascontiguousarray(items, dtype=np.int32))
