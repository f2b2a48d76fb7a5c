"""Item-based nearest neighbors: by co-occurrence, and by random walks of three steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_number, require_whole
from tastespace._util.interrupts import time_check
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.models.base import Recommender
from tastespace.models.past_rows import past_entries, sparse_rows
from tastespace.models.stored_values import Declared, Sparse

_PAIRS_AT_ONCE = 2_000_000  # pairs of items that a thread compares in one block: up to 100 MB

Similarity = Callable[[NDArray[np.float64], NDArray[np.int64], NDArray[np.int32]], NDArray[np.float64]]
"""Similarities of pairs of items from their products: values of a product, its rows, its columns."""


class ItemNeighbors(Recommender):
    """Base of the models that keep the most similar items of every item: a score is a sum over the user's items."""

    uses_weights = True
    _fits_in_one_call = True
    n_neighbors: int
    threads: int
    similarity_: sp.csr_array
    """Similarities of each item (row) to its neighbors, float32, shape ``(n_items, n_items)``."""

    def _keep_nearest(
        self, left: sp.csr_array, right: sp.csr_array, similarity: Similarity, normalize: bool = False
    ) -> None:
        """Set `similarity_` to the largest entries of each row of ``left @ right``, compared by ``similarity``."""
        n_items = left.shape[0]
        # By blocks of items: all pairs at once do not fit into memory for large catalogs.
        entries = sp.csr_array((np.ones(left.nnz), left.indices, left.indptr), shape=left.shape)
        bounds = _blocks(entries @ np.diff(right.indptr), n_items)
        check = time_check()

        def one(block: tuple[int, int]) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int64]]:
            check()
            first, last = block
            product = left[first:last] @ right
            product.sort_indices()  # ties are broken by index
            rows = np.repeat(np.arange(first, first + product.shape[0]), np.diff(product.indptr))
            values = similarity(product.data, rows, product.indices)
            values[product.indices == rows] = 0.0
            return _largest_of_rows(values, product, self.n_neighbors, normalize)

        with ThreadPoolExecutor(resolve_threads(self.threads)) as pool:
            parts = list(pool.map(one, pairwise(bounds)))
        kept, columns, lengths = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.similarity_ = sp.csr_array((kept, columns, offsets), shape=(n_items, n_items))

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {"similarity_": Sparse("items", "items")}

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """X S for the rows of these users."""
        self.require_fitted()
        return self.history_scores(self.weighted_train.matrix[users])

    def history_scores(self, histories: sp.csr_array) -> NDArray[np.float32]:
        """X S for these rows."""
        return np.ascontiguousarray((histories @ self.similarity_).toarray(), dtype=np.float32)

    def past_rows(self) -> _native.PastRows:
        """The similarities."""
        return sparse_rows(self.similarity_)

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Similarities of the items at these rows to all others, 0 to those that are not neighbors."""
        self.require_fitted()
        return np.ascontiguousarray(self.similarity_[np.asarray(rows)].toarray(), dtype=np.float32)

    def evidence(self, user: int, items: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The similarity of each past item to each item, 0 unless that is its neighbor, times the weight, if any."""
        self.require_fitted()
        return past_entries(self, sparse_rows(self.similarity_), user, items)

    def _fold_in(self, histories: Interactions) -> ItemNeighbors:
        return copy.copy(self)  # scores come from the histories and S alone


class ItemKNN(ItemNeighbors):
    """Item-based neighborhoods (Linden, Smith and York, "Amazon.com Recommendations", IEEE Internet Computing 2003;
    Deshpande and Karypis, "Item-Based Top-N Recommendation Algorithms", TOIS 2004).

    With c_ij the number of users of both items and n_i that of item i, the similarity is the shrunken cosine
    ``s_ij = c_ij / (sqrt(n_i n_j) + shrink)``. Every item keeps its k most similar others, ties by index, and the score
    of item j for a user is the sum of s_ij over the user's items i that have j among their neighbors. With weights w,
    ``c_ij = sum_u w_ui w_uj``, ``n_i = sum_u w_ui^2``, and s_ij counts w_ui times in a score.

    Linden et al. leave the number of neighbors and the treatment of rare items open; shrinkage is the usual answer to
    the latter, because two items whose only user is the same would otherwise have the similarity 1.

    Args:
        n_neighbors: k, how many neighbors an item keeps.
        shrink: Added to the denominator of every pair, in users; 0 gives the plain cosine.
        normalize: Divide each item's similarities by their sum (Deshpande and Karypis, Section 4.2), so that every item
            of a history has the same influence whatever its number of neighbors.
        threads: For the comparison of items; 0 means all cores.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> ItemKNN(n_neighbors=5).fit(town).similarity_.shape
    (40, 40)
    """

    def __init__(self, n_neighbors: int = 100, shrink: float = 10.0, normalize: bool = False, threads: int = 0) -> None:
        self.n_neighbors = n_neighbors
        self.shrink = shrink
        self.normalize = normalize
        self.threads = threads

    def _check(self) -> None:
        super()._check()
        require_whole("n_neighbors", self.n_neighbors)
        require_number("shrink", self.shrink, least=0.0)

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        matrix = train.matrix
        norms = train.item_counts.astype(np.float64)
        if train.weights is not None:
            norms = np.asarray(matrix.astype(np.float64).power(2).sum(axis=0)).ravel()

        def similarity(
            common: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int32]
        ) -> NDArray[np.float64]:
            with np.errstate(divide="ignore"):
                return common / (np.sqrt(norms[rows] * norms[columns]) + self.shrink)

        self._keep_nearest(matrix.T.tocsr(), matrix, similarity, self.normalize)


class RP3beta(ItemNeighbors):
    """Random walks of three steps from a user to items (Paudel, Christoffel, Newell and Bernstein, "Updatable,
    Accurate, Diverse, and Scalable Recommendations for Interactive Applications", TiiS 2017).

    A walk goes from a user to one of the user's items, from there to a user of that item, and from there to one of that
    user's items. With n_i users of item i and n_u items of user u, the similarity of item i to item j is the sum over
    their common users u of ``(1 / n_i)^alpha (1 / n_u)^alpha``, divided by ``n_j^beta``, so that popular items are
    not reached more often only because they are popular. Every item keeps its ``n_neighbors`` most similar others. With
    weights, transition probabilities are proportional to them.

    On sparse data, where an item has a dozen users, it is as accurate as EASE at a small part of its time.

    Args:
        n_neighbors: How many neighbors an item keeps.
        alpha: Power of the transition probabilities, above 0; 1 gives those of the walk itself.
        beta: Power of an item's popularity that is taken out; 0 keeps it.
        threads: For the comparison of items; 0 means all cores.
        weight_power: A weight w of the data counts as ``w ** weight_power``: 0 ignores weights.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> RP3beta(n_neighbors=5).fit(town).similarity_.shape
    (40, 40)
    """

    def __init__(
        self, n_neighbors: int = 200, alpha: float = 0.6, beta: float = 0.3, threads: int = 0, weight_power: float = 1.0
    ) -> None:
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.beta = beta
        self.threads = threads
        self.weight_power = weight_power

    def _check(self) -> None:
        super()._check()
        require_whole("n_neighbors", self.n_neighbors)
        require_number("alpha", self.alpha, above=0.0)
        require_number("beta", self.beta, least=0.0)
        require_number("weight_power", self.weight_power, least=0.0)

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        matrix = train.powered(self.weight_power).matrix.astype(np.float64)
        popularity = np.maximum(np.asarray(matrix.sum(axis=0)).ravel(), np.finfo(np.float64).tiny)

        def similarity(
            walks: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int32]
        ) -> NDArray[np.float64]:
            return walks * popularity[columns] ** -self.beta

        self._keep_nearest(_transitions(matrix.T.tocsr(), self.alpha), _transitions(matrix, self.alpha), similarity)


def _blocks(pairs: NDArray[np.float64], n_items: int) -> list[int]:
    """Bounds of blocks of rows with at most so many pairs each; a row has at most ``n_items``.

    >>> _blocks(np.array([1e6, 1e6, 5e5, 1.0, 1.0]), n_items=1_000_000), _blocks(np.ones(3), n_items=3)
    ([0, 2, 5], [0, 3])
    """
    total = np.cumsum(np.minimum(pairs, n_items))
    bounds, last = [0], len(pairs)
    while bounds[-1] < last:
        before = total[bounds[-1] - 1] if bounds[-1] else 0.0
        end = int(np.searchsorted(total, before + _PAIRS_AT_ONCE, side="right"))
        bounds.append(min(max(end, bounds[-1] + 1), last))
    return bounds


def _transitions(weights: sp.csr_array, power: float) -> sp.csr_array:
    """Each row divided by its sum, and every entry to the ``power``."""
    sums = np.repeat(np.asarray(weights.sum(axis=1)).ravel(), np.diff(weights.indptr))
    return sp.csr_array(((weights.data / sums) ** power, weights.indices, weights.indptr), shape=weights.shape)


def _largest_of_rows(
    values: NDArray[np.float64], product: sp.csr_array, k: int, normalize: bool
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int64]]:
    """The k largest positive values of each row of ``product``: values, columns, and how many a row has."""
    found, columns, lengths = [], [], []
    for start, end in zip(product.indptr[:-1], product.indptr[1:], strict=True):
        chosen = start + _largest(values[start:end], k)
        mine = values[chosen]
        found.append((mine / mine.sum() if normalize and len(mine) else mine).astype(np.float32))
        columns.append(product.indices[chosen].astype(np.int32))
        lengths.append(len(chosen))
    return np.concatenate(found), np.concatenate(columns), np.array(lengths, dtype=np.int64)


def _largest(values: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Indices of the k largest positive values, ascending; of equal ones the first."""
    if len(values) > k:
        least = np.partition(values, len(values) - k)[len(values) - k]
        above = values > least
        level = np.flatnonzero(values == least)[: k - int(above.sum())]
        above[level] = True
        return np.flatnonzero(above & (values > 0))
    return np.flatnonzero(values > 0)
