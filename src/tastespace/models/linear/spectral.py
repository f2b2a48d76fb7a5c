"""Graph filter without training: a linear filter and a low-pass filter of the normalized matrix of interactions."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tastespace import _native
from tastespace._util.checks import require_nonnegative_weights, require_number, require_seed, require_whole
from tastespace._util.computed_once import computed_once, freeze
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, DataError, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.linear._exponents import MOST_RATIO, require_power
from tastespace.models.linear._parts import in_parts
from tastespace.models.past_rows import vector_rows
from tastespace.models.stored_values import Declared, Numbers, Sparse
from tastespace.models.vector_space import VectorSpace

log = logging.getLogger(__name__)

_SMALL = 1_000  # users or items up to which the decomposition is exact, from a matrix of all their pairs
_ROWS_AT_ONCE = 2_048  # rows of one product of a thread
_USERS_AT_ONCE = 64  # users whose coefficients stay in the cache while the matrix passes by
_LEAST_EXACT, _LEAST = 1e-10, 1e-6  # squared singular values, of at most 1, that are not rounding errors


class Spectral(Recommender):
    """Graph filter in closed form, for large sparse catalogs (Shen et al., "How Powerful is Graph Convolution for
    Recommendation?", CIKM 2021, GF-CF).

    With X the matrix of ones, or of the data's weights, D_u and D_i the diagonal matrices of its sums by user and by
    item, R = D_u^-1/2 X D_i^-1/2, and V the first `dim` right singular vectors of R, the scores are

        X D_i^(1/2 - linear_power) R'R D_i^(linear_power - 1/2)
        + low_pass_weight X D_i^-low_pass_power V V' D_i^low_pass_power

    The first term is the linear filter, the second the ideal low-pass filter; GF-CF has 1/2 for both powers. The
    larger a power, the more popular items are favored. Nothing is trained: new users have the scores of their
    histories, and a score is a sum over past items. An item that nobody took has scores of 0.

    Args:
        dim: Singular vectors V; at most as many as there are users or items, more are left out with a warning.
        low_pass_weight: Weight of the second term, 0 or more; 0 leaves it out.
        low_pass_power: Power of the items' sums in the second term, from -2 to 2.
        linear_power: Power of the items' sums in the first term, from -2 to 2.
        linear: Have the first term. Without it users and items have vectors, whose inner products are the scores, for
            `vectors` and for export.
        iterations: Passes of the subspace iteration by which V is found; more are more exact. Where users or items are
            1,000 or fewer V is exact without.
        seed: Of the vectors from which it starts.
        threads: 0 means all cores; the result is the same for every number.
        weight_power: A weight w of the data counts as ``w ** weight_power``: 0 ignores weights.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = Spectral(dim=8).fit(town)
    >>> model.item_vectors_.shape
    (50, 8)
    >>> bool(np.allclose(model.evidence(7, np.array([3])).sum(), model.score_block(np.array([7]))[0, 3]))
    True
    """

    uses_weights = True
    _fits_in_one_call = True
    item_vectors_: NDArray[np.float32]
    """V times the items' sums to the low-pass power, shape ``(n_items, dim)``, with fewer columns where R has them."""
    low_pass_scale_: NDArray[np.float64]
    """Factors of past items in the sum of their vectors that is a user's vector, shape ``(n_items,)``."""
    by_item_: sp.csr_array
    """R', shape ``(n_items, n_users)``, of the users of `fit`; only with the linear filter, as `linear_scale_`."""
    linear_scale_: NDArray[np.float64]
    """Factors of past items in the linear filter, by which scores are divided again, ``(n_items,)``; 0: no users."""
    user_vectors_: NDArray[np.float32]
    """Vectors of the users, ``(n_users, dim)``; only without the linear filter."""

    def __init__(
        self,
        dim: int = 256,
        low_pass_weight: float = 0.3,
        low_pass_power: float = 0.5,
        linear_power: float = 0.5,
        linear: bool = True,
        iterations: int = 4,
        seed: int = 0,
        threads: int = 0,
        weight_power: float = 1.0,
    ) -> None:
        self.dim = dim
        self.low_pass_weight = low_pass_weight
        self.low_pass_power = low_pass_power
        self.linear_power = linear_power
        self.linear = linear
        self.iterations = iterations
        self.seed = seed
        self.threads = threads
        self.weight_power = weight_power

    def _check(self) -> None:
        super()._check()
        require_whole("dim", self.dim)
        require_whole("iterations", self.iterations)
        require_number("low_pass_weight", self.low_pass_weight, least=0.0)
        require_power("low_pass_power", self.low_pass_power, 0.5)
        require_power("linear_power", self.linear_power, 0.5)
        if not isinstance(self.linear, bool):
            raise ParameterError(Argument("linear", self.linear), ": expected True or False.")
        if not self.linear and self.low_pass_weight == 0:
            raise ParameterError("linear=False with low_pass_weight=0 leaves no scores: set one of them.")
        require_seed(self.seed)
        require_number("weight_power", self.weight_power, least=0.0)

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        require_nonnegative_weights("Spectral", train.weights)
        train = train.powered(self.weight_power)
        for name in ("by_item_", "linear_scale_", "user_vectors_"):
            vars(self).pop(name, None)  # of an earlier fit, which may have had the other terms
        matrix, threads = train.matrix.astype(np.float64), resolve_threads(self.threads)
        of_items = np.asarray(matrix.sum(axis=0)).ravel()
        if not of_items.any():
            raise DataError(f"Spectral cannot learn from {train!r}: all weights are 0.")
        normalized = normalized_matrix(matrix)
        relative = of_items / of_items[of_items > 0].mean()  # scores do not depend on the unit of the sums
        self.low_pass_scale_ = self.low_pass_weight * self._factors(relative, -2.0 * self.low_pass_power, train)
        self.item_vectors_ = np.zeros((train.n_items, 0), dtype=np.float32)
        if self.low_pass_weight > 0:
            vectors = self._right_vectors(train, normalized, threads)
            self.item_vectors_ = np.ascontiguousarray(vectors * _powers(relative, self.low_pass_power)[:, None], "f4")
        if self.linear:
            self.by_item_ = normalized.T.tocsr().astype(np.float32)
            self.linear_scale_ = self._factors(relative, 0.5 - self.linear_power, train)
        else:
            self.user_vectors_ = self._vectors_of(train.matrix)

    def _right_vectors(self, train: Interactions, normalized: sp.csr_array, threads: int) -> NDArray[np.float32]:
        most = min(normalized.shape)
        if self.dim > most:
            log.warning(
                "Spectral: dim=%d is more than a matrix of %d users and %d items has; taking %d.",
                self.dim,
                *normalized.shape,
                most,
            )
        if train.weights is None:
            return singular_vectors_of(train, self.dim, self.iterations, self.seed, threads)
        return right_singular_vectors(normalized, min(self.dim, most), self.iterations, self.seed, threads)

    def _factors(self, sums: NDArray[np.float64], power: float, train: Interactions) -> NDArray[np.float64]:
        """Sums of items to a power; an error where scores may be beyond the numbers of 32 bits."""
        found = _powers(sums, power)
        low, high, heaviest = found[sums > 0].min(), found.max(), float(np.abs(train.matrix.data).max())
        if not high / low * max(heaviest, 1.0) <= MOST_RATIO:
            raise DataError(
                f"{self!r} cannot be computed from {train!r}: the factors of its items go from {low:.3g} to "
                f"{high:.3g}, and weights up to {heaviest:.3g}. Take powers nearer to 0.5, or logarithms of the "
                "weights."
            )
        return found

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        common = {
            "item_vectors_": Numbers("float32", ("items", "dim")),
            "low_pass_scale_": Numbers("float64", ("items",), least=0.0),
        }
        if "user_vectors_" in learned:
            return {**common, "user_vectors_": Numbers("float32", ("users", "dim"))}
        return {
            **common,
            "by_item_": Sparse("items", "solved"),  # users who are folded in are not those of R
            "linear_scale_": Numbers("float64", ("items",), least=0.0),
        }

    def vectors(self) -> VectorSpace | None:
        """Vectors of users and items with ``linear=False``; None otherwise, as scores have a second term then."""
        self.require_fitted()
        if not hasattr(self, "user_vectors_"):
            return None
        return VectorSpace.single(self.user_vectors_, self.item_vectors_, "dot")

    def _vectors_of(self, histories: sp.csr_array) -> NDArray[np.float32]:
        """Sums of the vectors of past items, with their factors: ``(n_rows, dim)``."""
        return np.ascontiguousarray(_with_factors(histories, self.low_pass_scale_) @ self.item_vectors_)

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Scores of all items from the histories of these users, by both filters."""
        space = self.vectors()
        threads = resolve_threads(self.threads)
        if space is not None:
            return space.scores(users, threads)
        return self.history_scores(self.weighted_train.matrix[users])

    def history_scores(self, histories: sp.csr_array) -> NDArray[np.float32]:
        """Scores of these rows, by both filters."""
        threads = resolve_threads(self.threads)
        if not hasattr(self, "by_item_"):
            return self._inner_products(self._vectors_of(histories), threads)
        scores = self._linear_scores(histories, threads)
        if self.item_vectors_.shape[1]:
            scores += self._inner_products(self._vectors_of(histories), threads)
        return scores

    def past_rows(self) -> _native.PastRows | None:
        """The low pass as products of vectors; None with the linear filter, which is no matrix of the items."""
        return None if hasattr(self, "by_item_") else vector_rows(self.item_vectors_, self.low_pass_scale_)

    def _inner_products(self, vectors: NDArray[np.float32], threads: int) -> NDArray[np.float32]:
        """Inner products of vectors with those of all items, the same bits however vectors are grouped."""
        freeze(self.item_vectors_)  # their order in the kernels is kept
        return VectorSpace.single(vectors, self.item_vectors_, "dot").scores(np.arange(len(vectors)), threads)

    def _linear_scores(self, rows: sp.csr_array, threads: int) -> NDArray[np.float32]:
        """The linear filter of histories; products of sparse matrices, not of BLAS, as in `EASE`."""
        scaled, divisor = _with_factors(rows, self.linear_scale_), _reciprocals(self.linear_scale_)
        out = np.empty(rows.shape, dtype=np.float32)

        def one(first: int, last: int) -> None:
            of_users = (scaled[first:last] @ self.by_item_).toarray()
            out[first:last] = (self.by_item_ @ np.ascontiguousarray(of_users.T)).T * divisor

        in_parts(rows.shape[0], _USERS_AT_ONCE, threads, one)
        return out

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Amount by which each item raises the scores of the items at these rows, ``(len(rows), n_items)``."""
        self.require_fitted()
        items = np.asarray(rows)
        found = np.zeros((len(items), self.train_.n_items), dtype=np.float32)
        if self.item_vectors_.shape[1]:
            products = self._inner_products(np.ascontiguousarray(self.item_vectors_[items]), 1)
            found += (products * self.low_pass_scale_).astype(np.float32)
        if hasattr(self, "by_item_"):
            of_users = np.ascontiguousarray(self.by_item_[items].toarray().T)
            products = (self.by_item_ @ of_users).T * self.linear_scale_
            found += (products * _reciprocals(self.linear_scale_)[items][:, None]).astype(np.float32)
        return found

    def evidence(self, user: int, items: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Contribution of each past item to the scores of the items by both filters, times the interaction's weight."""
        self.require_fitted()
        row = self.weighted_train.matrix[[user]]
        past = row.indices
        found = self.low_pass_scale_[past][:, None] * (self.item_vectors_[past] @ self.item_vectors_[items].T)
        if hasattr(self, "by_item_"):
            products = self.by_item_[past] @ np.ascontiguousarray(self.by_item_[items].toarray().T)
            found = found + self.linear_scale_[past][:, None] * products * _reciprocals(self.linear_scale_)[items]
        return np.asarray(row.data[:, None] * found, dtype=np.float32)

    def _fold_in(self, histories: Interactions) -> Spectral:
        new = copy.copy(self)  # scores come from the histories and what was learned alone
        if hasattr(self, "user_vectors_"):
            new.user_vectors_ = self._vectors_of(histories.matrix)
        return new


def normalized_matrix(matrix: sp.csr_array) -> sp.csr_array:
    """The matrix divided by the square roots of the sums of its rows and columns, in double precision."""
    roots = (
        sp.diags_array(_powers(np.asarray(matrix.sum(axis=axis)).ravel().astype(np.float64), -0.5)) for axis in (1, 0)
    )
    return sp.csr_array(next(roots) @ matrix.astype(np.float64) @ next(roots))


def singular_vectors_of(train: Interactions, k: int, iterations: int, seed: int, threads: int) -> NDArray[np.float32]:
    """`right_singular_vectors` of the normalized matrix of ones, at most k: computed once for the same data."""
    freeze(train.indices)
    key = "right singular vectors", id(train.offsets), k, iterations, seed

    def make() -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        matrix = normalized_matrix(train.without_weights().matrix)
        found = right_singular_vectors(matrix, min(k, *matrix.shape), iterations, seed, threads)
        return train.offsets, found  # held with the vectors, so that no other array has its number

    return computed_once(train.indices, key, make)[1]


def right_singular_vectors(
    matrix: sp.csr_array, k: int, iterations: int, seed: int, threads: int
) -> NDArray[np.float32]:
    """Return the right singular vectors of the k largest singular values, ``(n_columns, k)``, the same for all threads.

    The matrix has singular values of at most 1; those that are 0 up to rounding have no vectors, so there may be fewer.
    Up to 1,000 rows or columns they are exact, beyond they come from a subspace iteration with a quarter more vectors
    (Halko, Martinsson and Tropp, "Finding Structure with Randomness", SIAM Review 2011).

    >>> matrix = sp.csr_array(np.array([[0.0, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    >>> np.abs(right_singular_vectors(matrix, 3, 4, 0, 1)).round(6).tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """
    with threadpool_limits(1, "blas"):  # the same bits for every number of threads
        if min(matrix.shape) <= _SMALL:
            return _exact_vectors(matrix.astype(np.float64), k)
        by_row = matrix.astype(np.float32)
        by_column = by_row.T.tocsr()
        rng = np.random.default_rng(seed)
        width = min(*matrix.shape, k + max(16, k // 4))
        block = rng.standard_normal((matrix.shape[1], width), dtype=np.float32)
        for _ in range(iterations):
            block = np.linalg.qr(_product(by_column, _product(by_row, block, threads), threads)).Q
        image = _product(by_row, block, threads)
        squares, rotation = np.linalg.eigh(_gram(image))
        kept = _largest(squares, k, _LEAST)
        return np.ascontiguousarray(block @ rotation[:, kept].astype(np.float32))


def _exact_vectors(matrix: sp.csr_array, k: int) -> NDArray[np.float32]:
    """Right singular vectors from the eigenvectors of the smaller of the two products with the transpose."""
    few_rows = matrix.shape[0] < matrix.shape[1]
    squares, vectors = np.linalg.eigh((matrix @ matrix.T if few_rows else matrix.T @ matrix).toarray())
    kept = _largest(squares, k, _LEAST_EXACT)
    found = vectors[:, kept]
    if few_rows:
        found = (matrix.T @ found) / np.sqrt(squares[kept])
    return np.ascontiguousarray(found, dtype=np.float32)


def _largest(squares: NDArray[np.float64], k: int, least: float) -> NDArray[np.int64]:
    """Places of the k largest of ascending eigenvalues, the largest first, as far as they are not rounding errors."""
    kept: NDArray[np.int64] = np.arange(len(squares))[::-1][:k]
    return kept[squares[kept] > least]


def _product(matrix: sp.csr_array, block: NDArray[np.float32], threads: int) -> NDArray[np.float32]:
    """``matrix @ block``, by parts of the rows."""
    out = np.empty((matrix.shape[0], block.shape[1]), dtype=np.float32)

    def one(first: int, last: int) -> None:
        out[first:last] = matrix[first:last] @ block

    in_parts(matrix.shape[0], _ROWS_AT_ONCE, threads, one)
    return out


def _gram(block: NDArray[np.float32]) -> NDArray[np.float64]:
    """``block' block`` in double precision, without a copy of the block in it."""
    found = np.zeros((block.shape[1], block.shape[1]))
    for first in range(0, len(block), _ROWS_AT_ONCE):
        part = block[first : first + _ROWS_AT_ONCE].astype(np.float64)
        found += part.T @ part
    return found


def _powers(sums: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """Sums to a power, 0 where a sum is 0."""
    return np.power(sums, power, out=np.zeros_like(sums), where=sums > 0)


def _reciprocals(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / scale, 0 where it is 0."""
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)


def _with_factors(rows: sp.csr_array, factors: NDArray[np.float64]) -> sp.csr_array:
    """Rows whose columns are multiplied by these factors, in single precision."""
    values = (rows.data * factors[rows.indices]).astype(np.float32)
    return sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
