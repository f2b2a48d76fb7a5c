"""Item-based nearest neighbors by co-occurrence."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.checks import require_number, require_whole
from tastespace.data.interactions import Interactions
from tastespace.models.base import Recommender
from tastespace.threads import resolve_threads

_PAIRS_AT_ONCE = 2_000_000  # pairs of items that a thread compares in one block: up to 100 MB


class ItemKNN(Recommender):
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

    uses_weights = True
    similarity_: sp.csr_array
    """Similarities of each item (row) to its neighbors, float32, shape ``(n_items, n_items)``."""

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
        by_item = matrix.T.tocsr()
        norms = train.item_counts.astype(np.float64)
        if train.weights is not None:
            norms = np.asarray(matrix.astype(np.float64).power(2).sum(axis=0)).ravel()
        # By blocks of items: all pairs at once do not fit into memory for large catalogs.
        step = max(1, _PAIRS_AT_ONCE // train.n_items)
        firsts = range(0, train.n_items, step)

        def one(first: int) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int64]]:
            return self._nearest(by_item[first : first + step] @ matrix, first, norms)

        with ThreadPoolExecutor(resolve_threads(self.threads)) as pool:
            parts = list(pool.map(one, firsts))
        values, columns, lengths = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.similarity_ = sp.csr_array((values, columns, offsets), shape=(train.n_items, train.n_items))

    def _nearest(
        self, common: sp.csr_array, first: int, norms: NDArray[np.float64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int64]]:
        """Similarities, indices and number of the neighbors of some items, from c_ij (rows) and n_i (all items)."""
        common.sort_indices()  # ties are broken by index
        owner = np.repeat(np.arange(first, first + common.shape[0]), np.diff(common.indptr))
        with np.errstate(divide="ignore"):
            similarity = common.data / (np.sqrt(norms[owner] * norms[common.indices]) + self.shrink)
        similarity[common.indices == owner] = 0.0
        values, columns, lengths = [], [], []
        for start, end in zip(common.indptr[:-1], common.indptr[1:], strict=True):
            chosen = start + _largest(similarity[start:end], self.n_neighbors)
            mine = similarity[chosen]
            values.append((mine / mine.sum() if self.normalize and len(mine) else mine).astype(np.float32))
            columns.append(common.indices[chosen].astype(np.int32))
            lengths.append(len(chosen))
        return np.concatenate(values), np.concatenate(columns), np.array(lengths, dtype=np.int64)

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """X S for the rows of these users."""
        self.require_fitted()
        return np.ascontiguousarray((self.train_.matrix[users] @ self.similarity_).toarray(), dtype=np.float32)

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Similarities of the items at these rows to all others, 0 to those that are not neighbors."""
        self.require_fitted()
        return np.ascontiguousarray(self.similarity_[np.asarray(rows)].toarray(), dtype=np.float32)

    def evidence(self, user: int, item: int) -> NDArray[np.float32]:
        """The similarity of each past item to the item, 0 unless that is its neighbor, times the weight, if any."""
        self.require_fitted()
        row = self.train_.matrix[[user]]
        return np.asarray(row.data * self.similarity_[row.indices][:, [item]].toarray()[:, 0], dtype=np.float32)

    def _fold_in(self, histories: Interactions) -> ItemKNN:
        return copy.copy(self)  # scores come from the histories and S alone


def _largest(values: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Indices of the k largest positive values, ascending; of equal ones the first."""
    if len(values) > k:
        least = np.partition(values, len(values) - k)[len(values) - k]
        above = values > least
        level = np.flatnonzero(values == least)[: k - int(above.sum())]
        above[level] = True
        return np.flatnonzero(above & (values > 0))
    return np.flatnonzero(values > 0)
