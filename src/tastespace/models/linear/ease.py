"""EASE, the linear item-item model in closed form, from the side of the items and from that of the users."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tastespace import _native
from tastespace._util.checks import require_choice, require_number
from tastespace._util.memory import available_gb
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError
from tastespace.models.base import Recommender
from tastespace.models.linear._exponents import MOST_RATIO, count_powers, require_dropout, require_power
from tastespace.models.linear._parts import in_parts
from tastespace.models.linear.inverse import blocked_inverse, inverse_in_place
from tastespace.models.past_rows import dense_rows, past_entries
from tastespace.models.stored_values import (
    REAL,
    TRUTH,
    Declared,
    Numbers,
    Sparse,
)

# ---------------------------------------------------------------------------------------------------------------------
# The linear algebra of EASE, from the side of the items and from that of the users.

MOST_FOR_COMPARISON = 6_000
"""Users or items, whichever are fewer, up to which EASE is tried along with other models: its time is cubic."""
LARGE = 8_000
"""Rows from which matrices are inverted block by block, for items in single precision where that suffices."""
_STRIP = 1024  # columns that are worked on at once, to avoid a second full matrix of doubles
_GRAM_ROWS = 256  # rows of a product of sparse matrices, which may be dense, at once
_NUMBERS_AT_ONCE = 1_000_000  # doubles that a thread holds besides
_USERS_AT_ONCE = 64  # users whose rows stay in the cache while the matrix passes by
_LIMIT = 1e-4  # of errors of scores, relative to the largest score of a user
_SINGLE_LIMIT = 2e-5  # stricter: what is checked is a sample
_CHECKED_USERS = 64


def item_weights(matrix: sp.csr_array, regularization: float, threads: int) -> NDArray[np.float32]:
    """B = I - P / diag(P) with P the inverse of X'X + regularization * I, shape ``(n_items, n_items)``."""
    return _weights_from_lower(_inverse(matrix.T.tocsr(), regularization, threads))


def single_item_weights(
    matrix: sp.csr_array, regularization: float, threads: int, item_scale: NDArray[np.float64] | None = None
) -> NDArray[np.float32] | None:
    """`item_weights` in single precision, in the memory of the result; None where that is too imprecise.

    That is measured: scores of some users, divided by ``item_scale`` if any, and the diagonal of P at some items, are
    improved by a step of iterative refinement in double precision, and must not change by more than 1e-4 of the largest
    score.
    """
    lower = _gram(matrix.T.tocsr().astype(np.float32), threads)
    lower[np.diag_indices_from(lower)] += np.float32(regularization)
    if blocked_inverse(lower, threads):
        return None
    _mirror_lower(lower, threads)
    inverse = lower.T  # the same matrix, with contiguous rows
    diagonal = inverse.diagonal().astype(np.float64)
    if not (diagonal > 0).all() or not _is_precise(inverse, diagonal, matrix, regularization, threads, item_scale):
        return None

    def divide(first: int, last: int) -> None:
        inverse[first:last] /= -diagonal
        inverse[np.arange(first, last), np.arange(first, last)] = 0.0

    in_parts(len(inverse), _GRAM_ROWS, threads, divide)
    return inverse


def _is_precise(
    inverse: NDArray[np.float32],
    diagonal: NDArray[np.float64],
    matrix: sp.csr_array,
    regularization: float,
    threads: int,
    item_scale: NDArray[np.float64] | None,
) -> bool:
    """Return whether scores x - x P / diag(P) of some users, and some of diag(P), are close enough to better ones."""
    n = len(inverse)
    users = np.unique(np.linspace(0, matrix.shape[0] - 1, _CHECKED_USERS).astype(np.int64))
    items = np.unique(np.linspace(0, n - 1, _CHECKED_USERS).astype(np.int64))
    given = np.zeros((len(users) + len(items), n))
    given[: len(users)] = matrix[users].toarray()
    given[np.arange(len(users), len(given)), items] = 1.0
    with threadpool_limits(threads):
        found = (given.astype(np.float32) @ inverse).astype(np.float64)
        rest = given - (matrix.T @ (matrix @ found.T)).T - regularization * found
        change = (rest.astype(np.float32) @ inverse).astype(np.float64)
    of_diagonal = change[np.arange(len(users), len(given)), items] / diagonal[items]
    scores, changes = (given - found / diagonal)[: len(users)], (change / diagonal)[: len(users)]
    if item_scale is not None:
        scores, changes = scores / item_scale, changes / item_scale
    return bool((np.abs(of_diagonal) <= _LIMIT).all()) and _agree(scores + changes, scores, _LIMIT)


@dataclass(frozen=True, eq=False)
class UserSide:
    """EASE from the inverse of a users x users matrix: the same scores, without a matrix of all pairs of items.

    With A the inverse of XX' + lambda I, the inverse P of X'X + lambda I is (I - X'AX) / lambda, and XP = AX. So the
    scores x B = x - x P / diag(P) of a training user come from one row of A, those of any other row x from x X'A, and
    column j of B is the column of X'AX divided by lambda P_jj, with a zero in its own place.
    """

    inverse: NDArray[np.floating[Any]]
    """A, shape ``(n_users, n_users)``; float64 where scores from float32 would be too far off."""
    diagonal: NDArray[np.float64]
    """Diagonal of P, shape ``(n_items,)``."""
    by_item: sp.csr_array
    """X', the training data, shape ``(n_items, n_users)``."""
    regularization: float
    """lambda."""
    item_scale: NDArray[np.float64] | None = None
    """f where scores are x F B F^-1 with F = diag(f), see `EASE._scaled_problem`, ``(n_items,)``; None means ones."""

    @classmethod
    def solve(
        cls, matrix: sp.csr_array, regularization: float, threads: int, item_scale: NDArray[np.float64] | None = None
    ) -> UserSide | None:
        """From X in double precision; None where rounding errors are too large.

        That happens where the regularization is tiny beside the eigenvalues of XX', as with large weights, and XX' is
        singular besides, as with users alike: large numbers cancel then. Two ways to the same scores tell.
        """
        full = _inverse(matrix, regularization, threads)
        _mirror_lower(full, threads)
        exact = full.T  # the same matrix, with contiguous rows
        by_item = matrix.T.tocsr()
        leverage = np.empty(matrix.shape[1])

        def one(first: int, last: int) -> None:
            rows = by_item[first:last]
            leverage[first:last] = np.asarray(rows.multiply(rows @ exact).sum(axis=1)).ravel()

        in_parts(matrix.shape[1], max(1, _NUMBERS_AT_ONCE // matrix.shape[0]), threads, one)
        by_item_single = by_item.astype(np.float32)
        double = cls(exact, (1.0 - leverage) / regularization, by_item_single, regularization, item_scale)
        single = replace(double, inverse=exact.astype(np.float32))
        as_trained, as_new = double._sample(matrix, threads)
        if not _agree(as_new, as_trained, _LIMIT):
            return None
        precise = all(_agree(found, as_trained, _SINGLE_LIMIT) for found in single._sample(matrix, threads))
        return single if precise else double

    def _sample(self, matrix: sp.csr_array, threads: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Scores of some training users, computed as for them and as for new users with the same histories."""
        users = np.unique(np.linspace(0, matrix.shape[0] - 1, _CHECKED_USERS).astype(np.int64))
        rows = sp.csr_array(matrix[users], dtype=np.float32)
        as_trained, as_new = self._scores_of_trained(users, rows, threads), self._scores_of_new(rows, threads)
        if self.item_scale is None:
            return as_trained, as_new
        return (as_trained / self.item_scale).astype(np.float32), (as_new / self.item_scale).astype(np.float32)

    def training_scores(self, users: NDArray[np.integer[Any]], rows: sp.csr_array, threads: int) -> NDArray[np.float32]:
        """Scores of the users at these indices, whose histories are these rows: ``(len(users), n_items)``.

        With an item scale they are not those of the rows that were solved for, so they are scored as new users are.
        """
        if self.item_scale is not None:
            return self.scores(rows, threads)
        return self._scores_of_trained(users, rows, threads)

    def scores(self, rows: sp.csr_array, threads: int) -> NDArray[np.float32]:
        """Scores of any histories, shape ``(n_rows, n_items)``."""
        if self.item_scale is None:
            return self._scores_of_new(rows, threads)
        values = (rows.data * self.item_scale[rows.indices]).astype(np.float32)
        scaled = sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
        found = self._scores_of_new(scaled, threads)
        np.divide(found, self.item_scale, out=found, casting="same_kind")
        return found

    def _scores_of_trained(
        self, users: NDArray[np.integer[Any]], rows: sp.csr_array, threads: int
    ) -> NDArray[np.float32]:
        """Scores x - (AX) / diag(P) of the users at these indices, with rows x of X."""
        return self._scores(lambda part: self.inverse[users[part]], -self.diagonal, rows, rows.data, threads)

    def _scores_of_new(self, rows: sp.csr_array, threads: int) -> NDArray[np.float32]:
        """Scores x - (x - x X'AX) / (lambda diag(P)) of any rows x."""
        scale = self.regularization * self.diagonal
        own = rows.data * (1.0 - 1.0 / scale[rows.indices])
        return self._scores(lambda part: rows[part] @ self.by_item @ self.inverse, scale, rows, own, threads)

    def _scores(
        self,
        combine: Callable[[slice], NDArray[np.floating[Any]]],
        divisor: NDArray[np.float64],
        rows: sp.csr_array,
        own: NDArray[np.floating[Any]],
        threads: int,
    ) -> NDArray[np.float32]:
        """``combine`` X / ``divisor``, plus ``own`` at the items of the rows.

        ``combine`` gives the coefficients of the training users for some rows. Products of sparse matrices, not of
        BLAS: the same bits however rows are grouped.
        """
        out = np.empty((rows.shape[0], len(divisor)), dtype=np.float32)
        of_row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))

        def one(first: int, last: int) -> None:
            coefficients = np.ascontiguousarray(combine(slice(first, last)).T)
            part = (self.by_item @ coefficients).T / divisor
            mine = slice(rows.indptr[first], rows.indptr[last])
            part[of_row[mine] - first, rows.indices[mine]] += own[mine]
            out[first:last] = part

        in_parts(rows.shape[0], _USERS_AT_ONCE, threads, one)
        return out

    def columns(self, items: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Columns of B at these items, as rows: ``(len(items), n_items)``."""
        coefficients = self.by_item[items] @ self.inverse
        found = (self.by_item @ np.ascontiguousarray(coefficients.T)).T
        found = found / (self.regularization * self.diagonal[items])[:, None]
        if self.item_scale is not None:
            found = found * (self.item_scale / self.item_scale[items][:, None])
        found[np.arange(len(items)), items] = 0.0
        return np.ascontiguousarray(found, dtype=np.float32)

    def entries(self, rows: NDArray[np.integer[Any]], items: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Entries of the columns of B at these items, at these rows: ``(len(rows), len(items))``."""
        coefficients = np.ascontiguousarray((self.by_item[items] @ self.inverse).T)
        found = (self.by_item[rows] @ coefficients) / (self.regularization * self.diagonal[items])
        if self.item_scale is not None:
            found = found * (self.item_scale[rows][:, None] / self.item_scale[items])
        return np.where(rows[:, None] == items, 0.0, found).astype(np.float32)


def rescale(weights: NDArray[np.float32], item_scale: NDArray[np.float64], threads: int) -> None:
    """Replace B_ij by f_i B_ij / f_j, in place."""

    def one(first: int, last: int) -> None:
        weights[first:last] *= item_scale[first:last, None] / item_scale

    in_parts(len(weights), _GRAM_ROWS, threads, one)


class NotInvertibleError(DataError, np.linalg.LinAlgError):
    """The regularization is too small beside the data."""


def _inverse(rows: sp.csr_array, regularization: float, threads: int) -> NDArray[np.float64]:
    """The inverse of rows rows' + regularization * I in its lower triangle; what is above the diagonal means nothing.

    In place: memory for one matrix of doubles.
    """
    dense = _gram(rows, threads)
    dense[np.diag_indices_from(dense)] += regularization
    if len(dense) >= LARGE:
        failed = blocked_inverse(dense, threads)
    else:
        with threadpool_limits(threads):
            failed = inverse_in_place(dense)
    if failed:
        raise NotInvertibleError(f"the matrix of EASE could not be inverted (LAPACK: {failed}); raise regularization.")
    return dense


def _gram(rows: sp.csr_array, threads: int) -> NDArray[Any]:
    """Rows rows', dense and in column order, from the diagonal on; what is above it means nothing.

    In strips: a product of sparse matrices takes more memory where most is not 0.
    """
    n, by_column = rows.shape[0], rows.T.tocsc()
    dense = np.zeros((n, n), dtype=rows.dtype, order="F")

    def multiply(first: int, last: int) -> None:
        dense[first:, first:last] = (rows[first:last] @ by_column[:, first:].tocsr()).toarray().T

    in_parts(n, _GRAM_ROWS, threads, multiply)
    return dense


def _mirror_lower(matrix: NDArray[np.floating[Any]], threads: int) -> None:
    """Copy the lower triangle to the upper one, in place."""

    def mirror(first: int, last: int) -> None:
        corner = np.tril(matrix[first:last, first:last])
        matrix[first:last, first:last] = corner + np.tril(corner, -1).T
        for start in range(last, len(matrix), last - first):  # squares: both sides stay in the cache
            rows = slice(start, start + last - first)
            matrix[first:last, rows] = matrix[rows, first:last].T

    in_parts(len(matrix), _GRAM_ROWS, threads, mirror)


def _weights_from_lower(inverse: NDArray[np.float64]) -> NDArray[np.float32]:
    """B = I - P / diag(P) (column j divided by P_jj, zero diagonal) from the lower triangle of P."""
    n = len(inverse)
    diagonal = inverse.diagonal().copy()
    weights = np.empty((n, n), dtype=np.float32)
    for first in range(0, n, _STRIP):
        last = min(n, first + _STRIP)
        strip = np.tril(inverse[first:, first:last])
        strip[: last - first] += np.tril(strip[: last - first], -1).T
        weights[first:, first:last] = -strip / diagonal[first:last]
        weights[first:last, last:] = -strip[last - first :].T / diagonal[last:]
    np.fill_diagonal(weights, 0.0)
    return weights


def _agree(found: NDArray[np.floating[Any]], expected: NDArray[np.floating[Any]], limit: float) -> bool:
    """Return whether scores differ by no more than this share of the largest one of their user."""
    gaps = np.abs(found - expected).max(axis=1)
    return bool((gaps <= limit * np.abs(expected).max(axis=1)).all())


# ---------------------------------------------------------------------------------------------------------------------
# The linear item-item model EASE.

log = logging.getLogger(__name__)

_BYTES_PER_PAIR = 12  # a matrix of doubles while it is inverted, and the result in single precision
_BYTES_IN_SINGLE = (4.2, 16_000)  # per pair of items and per item: one matrix, and what is worked on at once
_SIDES = ("auto", "items", "users")


def usual_regularization(train: Interactions) -> float:
    """The regularization of `EASE` where none is given: the denser the data, the more.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=1000, n_items=500, n_interactions=5000).interactions
    >>> round(usual_regularization(town))
    127
    """
    pairs = train.n_users * int((train.item_counts > 0).sum())
    squares = 1.0 if train.weights is None else float(np.mean(np.square(train.weights, dtype=np.float64)))
    return 4000.0 * (train.n_interactions / pairs) ** 0.75 * squares if train.n_interactions and squares else 1.0


class EASE(Recommender):
    """Linear item-item model with a zero diagonal, in closed form (Steck, "Embarrassingly Shallow
    Autoencoders for Sparse Data", WWW 2019).

    With X the matrix of ones, or of the data's weights, G = X'X + regularization * I and P = inverse of G, the learned
    weights are B = I - P / diag(P), and the scores are X B. Where users are fewer than items, the same scores come
    from the inverse of XX' + regularization * I, so that time and memory depend on the smaller of the two numbers: a
    catalog may have any size where users are few.

    Three parameters change the matrix that is inverted and the weights; `paper_form` sets them to 0, which is the model
    of the publication. With W the diagonal matrix of the users' weights and n the items' counts, G = X'WX + D, where D
    is diagonal with ``regularization + dropout / (1 - dropout) (X'WX)_ii``, and B_ij is multiplied by
    ``(n_i / n_j) ** item_power``. Dropout is that of Steck, "Autoencoders that don't overfit towards the Identity"
    (NeurIPS 2020), the powers are a normalization by counts as in arXiv 2504.05805. The defaults were chosen on
    validation data of six data sets, see ``benchmarks/ease_regularization.py``.

    Args:
        regularization: lambda > 0; larger means smoother. None: ``4000 * density**0.75``, where the density is that
            of the items with an interaction, times the mean square of the weights where the data has some;
            ``regularization_`` is the value that was taken. 60 on Steam-200k, 180 on MovieLens-1M.
        memory_limit_gb: Refuse to fit where more is needed (12 bytes per pair of items, or of users; less than half
            from 8,000 items on); by default three quarters of the memory that is available when `fit` is called.
        threads: For the linear algebra; 0 means all cores.
        side: Which inverse is computed: of the ``"items"``, of the ``"users"``, or ``"auto"``, of the fewer; with
            dropout or a power, which make scores from the side of the users slow, that of the users where they are
            fewer than half of the items. The scores are the same up to rounding. Weights that are huge beside the
            regularization can make the side of the users imprecise; ``"auto"`` then takes that of the items.
        dropout: Share of the inputs that training leaves out, in [0, 1).
        user_power: Interactions of a user with n of them have the weight ``(n / mean n) ** user_power`` in training,
            from -2 to 2: negative values give users with long histories less influence. As it applies to both factors
            of X'WX, ``user_power=-b/2`` is W = (n / mean n)^-b.
        item_power: Multiply B_ij by ``(n_i / n_j) ** item_power``, with n the numbers of interactions of past item i
            and recommended item j, from -2 to 2: positive values favor rare items.
        weight_power: A weight w of the data counts as ``w ** weight_power``: 0 ignores weights.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=30, n_items=200, n_interactions=400).interactions
    >>> few_users, all_items = EASE().fit(town), EASE(side="items").fit(town)
    >>> few_users.inverse_.shape, all_items.weights_.shape
    ((30, 30), (200, 200))
    >>> bool(np.allclose(few_users.score_block(np.arange(30)), all_items.score_block(np.arange(30)), atol=1e-6))
    True
    """

    uses_weights = True
    _fits_in_one_call = True
    weights_: NDArray[np.float32]
    """B, shape ``(n_items, n_items)``; only where the side of the items was taken, as what follows for the users."""
    inverse_: NDArray[np.floating[Any]]
    """Inverse of XX' + regularization * I, shape ``(n_users, n_users)``; float64 where float32 is too imprecise."""
    diagonal_: NDArray[np.float64]
    """Diagonal of P, shape ``(n_items,)``."""
    by_item_: sp.csr_array
    """X', shape ``(n_items, n_users)``: `train_` has other users after `fold_in`."""
    regularization_: float
    """The regularization that `fit` has taken."""
    folded_in_: bool
    """True if the users of `train_` are others than those of `inverse_`."""
    item_scale_: NDArray[np.float64]
    """f where the scores are X F B F^-1 with F = diag(f), from dropout and the powers, shape ``(n_items,)``."""

    def __init__(
        self,
        regularization: float | None = None,
        memory_limit_gb: float | None = None,
        threads: int = 0,
        *,
        side: Literal["auto", "items", "users"] = "auto",
        dropout: float = 0.5,
        user_power: float = -0.25,
        item_power: float = 0.2,
        weight_power: float = 1.0,
    ) -> None:
        self.regularization = regularization
        self.memory_limit_gb = memory_limit_gb
        self.threads = threads
        self.side = side
        self.dropout = dropout
        self.user_power = user_power
        self.item_power = item_power
        self.weight_power = weight_power

    @classmethod
    def paper_form(cls) -> dict[str, Any]:
        """Parameters that make the model that of the publication, where this library's defaults go another way.

        >>> EASE(regularization=200.0, **EASE.paper_form())
        EASE(regularization=200.0, dropout=0.0, user_power=0.0, item_power=0.0)
        """
        return {"dropout": 0.0, "user_power": 0.0, "item_power": 0.0}

    def _check(self) -> None:
        super()._check()
        if self.regularization is not None:
            require_number("regularization", self.regularization, above=0.0)
        if self.memory_limit_gb is not None:
            require_number("memory_limit_gb", self.memory_limit_gb, above=0.0)
        require_choice("side", self.side, _SIDES)
        require_dropout(self.dropout)
        require_power("user_power", self.user_power, -0.25)
        require_power("item_power", self.item_power, 0.2)
        require_number("weight_power", self.weight_power, least=0.0)

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        train = train.powered(self.weight_power)
        is_plain = not (self.dropout or self.user_power or self.item_power)
        most_users = train.n_items if is_plain else train.n_items / 2
        by_users = self.side == "users" or (self.side == "auto" and train.n_users < most_users)
        self._require_memory(train, by_users)
        for name in ("weights_", "inverse_", "diagonal_", "by_item_", "regularization_", "folded_in_", "item_scale_"):
            vars(self).pop(name, None)  # of an earlier fit, which may have taken the other side
        matrix, n_threads = train.matrix.astype(np.float64), resolve_threads(self.threads)
        regularization = usual_regularization(train) if self.regularization is None else self.regularization
        self.regularization_ = regularization
        scale = None
        if not is_plain:
            matrix, scale = self._scaled_problem(matrix, train)
        solved = UserSide.solve(matrix, regularization, n_threads, scale) if by_users else None
        if solved is not None:
            self.inverse_, self.diagonal_, self.by_item_ = solved.inverse, solved.diagonal, solved.by_item
            self.folded_in_ = False
            if scale is not None:
                self.item_scale_ = scale
            return
        if by_users:
            self._require_other_side(train)
        self.weights_ = self._solve_by_items(matrix, train, n_threads, scale)
        if scale is not None:
            rescale(self.weights_, scale, n_threads)

    def _solve_by_items(
        self, matrix: sp.csr_array, train: Interactions, threads: int, scale: NDArray[np.float64] | None
    ) -> NDArray[np.float32]:
        """B of a matrix, in single precision where there are many items and that suffices."""
        if train.n_items >= LARGE:
            weights = single_item_weights(matrix, self.regularization_, threads, scale)
            if weights is not None:
                return weights
            log.warning(
                "EASE with regularization=%r cannot be computed precisely in single precision; double precision takes "
                "more time and memory.",
                self.regularization_,
            )
            self._require_memory(train, by_users=False, in_single=False)
        return item_weights(matrix, self.regularization_, threads)

    def _scaled_problem(self, matrix: sp.csr_array, train: Interactions) -> tuple[sp.csr_array, NDArray[np.float64]]:
        """Matrix Z and vector f, with which dropout and powers are plain EASE: B = F B_Z F^-1 with F = diag(f).

        With Y the matrix X whose rows have the users' weights and S = diag(sqrt(regularization / diag(D))), Z = Y S.
        Then S^-1 (Z'Z + regularization I) S^-1 = Y'Y + D, so that P = S Q S with Q the inverse of
        Z'Z + regularization I, and P_ij / P_jj = S_ii Q_ij / (S_jj Q_jj).
        """
        if self.user_power:
            matrix = sp.csr_array(sp.diags_array(count_powers(train.user_counts, self.user_power)) @ matrix)
        scale = np.ones(train.n_items)
        if self.dropout:
            squares = np.asarray(matrix.power(2).sum(axis=0)).ravel()
            penalty = self.regularization_ + self.dropout / (1.0 - self.dropout) * squares
            scale = np.sqrt(self.regularization_ / penalty)
            matrix = sp.csr_array(matrix @ sp.diags_array(scale))
        scale = scale * count_powers(train.item_counts, self.item_power)
        if not np.isfinite(matrix.data).all() or not scale.max() <= MOST_RATIO * scale.min():
            raise DataError(
                f"{self!r} cannot be computed from {train!r}: the factors of its items go from {scale.min():.3g} to "
                f"{scale.max():.3g}. Raise regularization, lower dropout or the powers, or take logarithms of the "
                "weights."
            )
        return matrix, scale

    def _require_other_side(self, train: Interactions) -> None:
        """Raise unless the side of the items may be taken where that of the users is too imprecise."""
        problem = (
            f"EASE with regularization={self.regularization_!r} cannot be computed precisely from the side of the "
            f"users: the largest weight is {np.abs(train.matrix.data).max():g}."
        )
        if self.side == "users":
            raise DataError(f"{problem} Raise regularization, take logarithms of the weights, or set side='items'.")
        log.warning("%s Taking the side of the items, which needs more time and memory.", problem)
        self._require_memory(train, by_users=False)

    def _require_memory(self, train: Interactions, by_users: bool, in_single: bool = True) -> None:
        n = train.n_items
        needed = {"users": _BYTES_PER_PAIR * train.n_users**2 / 1e9, "items": _BYTES_PER_PAIR * n**2 / 1e9}
        if in_single and n >= LARGE:
            needed["items"] = (_BYTES_IN_SINGLE[0] * n**2 + _BYTES_IN_SINGLE[1] * n) / 1e9
        side, other = ("users", "items") if by_users else ("items", "users")
        limit = 0.75 * available_gb() if self.memory_limit_gb is None else self.memory_limit_gb
        if needed[side] > limit:
            raise DataError(
                f"EASE on {train.n_users:,} users and {train.n_items:,} items needs {needed[side]:.2g} GB of memory "
                f"from the side of the {side} and {needed[other]:.2g} GB from that of the {other}, the limit is "
                f"{limit:.2g} GB. Keep fewer items (min_item=) or users (min_user=), raise memory_limit_gb, "
                f"{f'set side={other!r}, ' if needed[other] <= limit else ''}or take a model that does not compare all "
                "pairs, such as SparseEASE."
            )

    @property
    def _user_side(self) -> UserSide | None:
        """Solution from the side of the users; None where it was that of the items."""
        if not hasattr(self, "inverse_"):
            return None
        scale = getattr(self, "item_scale_", None)
        return UserSide(self.inverse_, self.diagonal_, self.by_item_, self.regularization_, scale)

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        if "weights_" in learned:
            return {"weights_": Numbers("float32", ("items", "items")), "regularization_": REAL}
        # Users who are folded in are not those that it was solved for.
        n = "solved" if learned.get("folded_in_") is True else "users"
        # Small ones of weighted data are kept in double precision.
        precision = "float64" if getattr(learned.get("inverse_"), "dtype", None) == np.float64 else "float32"
        return {
            "inverse_": Numbers(precision, (n, n)),
            "diagonal_": Numbers("float64", ("items",)),
            "by_item_": Sparse("items", n),
            "regularization_": REAL,
            "folded_in_": TRUTH,
            "item_scale_": Numbers("float64", ("items",), least=0.0, optional=True),
        }

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """X B for the rows of these users."""
        self.require_fitted()
        rows, side = self.weighted_train.matrix[users], self._user_side
        if side is None or self.folded_in_:
            return self.history_scores(rows)
        return side.training_scores(users, rows, resolve_threads(self.threads))

    def history_scores(self, histories: sp.csr_array) -> NDArray[np.float32]:
        """X B for these rows."""
        side = self._user_side
        if side is not None:
            return side.scores(histories, resolve_threads(self.threads))
        return np.ascontiguousarray(histories @ self.weights_, dtype=np.float32)

    def past_rows(self) -> _native.PastRows | None:
        """B; None where it was not computed, from the side of the users."""
        return dense_rows(self.weights_) if hasattr(self, "weights_") else None

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Columns of B: how much each item raises the scores of the items at these rows."""
        self.require_fitted()
        side = self._user_side
        return np.ascontiguousarray(self.weights_[:, rows].T) if side is None else side.columns(np.asarray(rows))

    def evidence(self, user: int, items: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """x_ui B_ij of each past item i of the user and each item j; an item adds nothing to its own score."""
        self.require_fitted()
        side = self._user_side
        if side is None:
            return past_entries(self, dense_rows(self.weights_), user, items)
        row = self.weighted_train.matrix[[user]]
        return np.asarray(row.data[:, None] * side.entries(row.indices, np.asarray(items)), dtype=np.float32)

    def _fold_in(self, histories: Interactions) -> EASE:
        new = copy.copy(self)  # scores come from the histories and what was learned alone
        if self._user_side is not None:
            new.folded_in_ = True
        return new
