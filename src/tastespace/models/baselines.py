"""Two strong and simple baselines: most popular items, and the linear item-item model EASE."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.memory import available_gb
from tastespace.models.base import Recommender
from tastespace.threads import resolve_threads

_THREADED_ITEMS = 12_000


class MostPopular(Recommender):
    """The same list for all users: items by their number of users, or by their sum of weights where there are any.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> model = MostPopular().fit(town)
    >>> model.score_block(np.array([0, 1])).shape
    (2, 40)
    """

    uses_weights = True
    item_scores_: NDArray[np.float32]
    """Number of users of each item, or sum of weights; shape ``(n_items,)``."""

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        self.item_scores_ = train.item_counts.astype(np.float32)
        if train.weights is not None:
            sums = np.bincount(train.indices, weights=train.weights, minlength=train.n_items)
            self.item_scores_ = sums.astype(np.float32)

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The same row for every user."""
        self.require_fitted()
        return np.tile(self.item_scores_, (len(users), 1))

    def _fold_in(self, histories: Interactions) -> MostPopular:
        return copy.copy(self)


class EASE(Recommender):
    """Linear item-item model with a zero diagonal, in closed form (Steck, "Embarrassingly Shallow
    Autoencoders for Sparse Data", WWW 2019).

    With X the matrix of ones, or of the data's weights, G = X'X + regularization * I and P = inverse of G, the learned
    weights are B = I - P / diag(P), and the scores are X B.

    Args:
        regularization: lambda > 0; larger means smoother. 50 suits Steam-200k, several hundred MovieLens.
        memory_limit_gb: Refuse to fit where more is needed (12 bytes per pair of items); by default three
            quarters of the memory that is available when `fit` is called.
        threads: For the linear algebra; 0 means all cores.
    """

    uses_weights = True
    weights_: NDArray[np.float32]
    """B, shape ``(n_items, n_items)``."""

    def __init__(self, regularization: float = 100.0, memory_limit_gb: float | None = None, threads: int = 0) -> None:
        self.regularization = regularization
        self.memory_limit_gb = memory_limit_gb
        self.threads = threads

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        if not self.regularization > 0 or not np.isfinite(self.regularization):
            raise ParameterError(f"regularization={self.regularization!r}: expected a positive number.")
        self._require_memory(train.n_items)
        matrix = train.matrix.astype(np.float64)
        n_threads = resolve_threads(self.threads)
        # OpenBLAS 0.3.30 and 0.3.31 crash in their threaded Cholesky of large matrices (seen from 16,000 rows on).
        with threadpool_limits(n_threads if train.n_items <= _THREADED_ITEMS else 1):
            gram = (matrix.T @ matrix).toarray(order="F")
            gram[np.diag_indices_from(gram)] += self.regularization
            # Cholesky and inversion in place: memory for one matrix of doubles.
            factor, lower = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
            inverse, failed = scipy.linalg.lapack.dpotri(factor, lower=lower, overwrite_c=True)
        if failed:
            raise DataError(f"the item matrix could not be inverted (LAPACK dpotri: {failed}); raise regularization.")
        self.weights_ = _weights_from_lower(inverse)

    def _require_memory(self, n_items: int) -> None:
        needed = 12 * n_items**2 / 1e9
        limit = 0.75 * available_gb() if self.memory_limit_gb is None else self.memory_limit_gb
        if needed > limit:
            raise DataError(
                f"EASE on {n_items:,} items needs {needed:.1f} GB of memory, the limit is {limit:.1f} GB. Keep fewer "
                "items (min_item=), raise memory_limit_gb, or take a model that does not compare all pairs of items."
            )

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """X B for the rows of these users."""
        self.require_fitted()
        return np.ascontiguousarray(self.train_.matrix[users] @ self.weights_, dtype=np.float32)

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Columns of B: how much each item raises the scores of the items at these rows."""
        self.require_fitted()
        return np.ascontiguousarray(self.weights_[:, rows].T)

    def evidence(self, user: int, item: int) -> NDArray[np.float32]:
        """x_ui B_ij of each past item i of the user, with j the item; an item adds nothing to its own score."""
        self.require_fitted()
        row = self.train_.matrix[[user]]
        return np.asarray(row.data * self.weights_[row.indices, item], dtype=np.float32)

    def _fold_in(self, histories: Interactions) -> EASE:
        return copy.copy(self)  # scores come from the histories and B alone


def _weights_from_lower(inverse: NDArray[np.float64]) -> NDArray[np.float32]:
    """B = I - P / diag(P) (column j divided by P_jj, zero diagonal) from the lower triangle of P."""
    n = len(inverse)
    diagonal = inverse.diagonal().copy()
    weights = np.empty((n, n), dtype=np.float32)
    for first in range(0, n, 1024):  # by strips, to avoid a second full matrix of doubles
        last = min(n, first + 1024)
        strip = np.tril(inverse[first:, first:last])
        strip[: last - first] += np.tril(strip[: last - first], -1).T
        weights[first:, first:last] = -strip / diagonal[first:last]
        weights[first:last, last:] = -strip[last - first :].T / diagonal[last:]
    np.fill_diagonal(weights, 0.0)
    return weights
