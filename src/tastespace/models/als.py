"""Matrix factorization by alternating least squares, with native conjugate gradients."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tastespace import _native
from tastespace._util.checks import (
    require_nonnegative_weights,
    require_number,
    require_seed,
    require_whole,
)
from tastespace._util.computed_once import computed_once
from tastespace._util.interrupts import interruptible
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.errors import TrainingError
from tastespace.models.base import Recommender, TrainingData
from tastespace.models.stored_values import Declared, Numbers
from tastespace.models.updating import begin_update, carried_over, new_interactions, require_same_dimension
from tastespace.models.vector_space import VectorSpace

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments

_UPDATE_PASSES = 1  # of an update, over what it touches
_CG_STEPS = 3  # per pass and row, from the vector of the pass before; more change no figure


class ALS(Recommender):
    """Weighted matrix factorization (Hu, Koren and Volinsky, "Collaborative Filtering for Implicit Feedback Datasets",
    ICDM 2008). Each pass improves the vectors of one side by a few steps of conjugate gradients (Takacs, Pilaszy and
    Tikk, "Applications of the Conjugate Gradient Method for Implicit Feedback Collaborative Filtering", RecSys 2011).

    The score is ``<x_u, y_i>``, and the loss ``sum over all pairs of c_ui (p_ui - <x_u, y_i>)^2 + regularization *
    (sum |x_u|^2 + sum |y_i|^2)`` with p_ui = 1 and confidence ``c_ui = 1 + alpha r_ui`` for interactions, and p_ui = 0,
    c_ui = 1 for all other pairs. r_ui is the weight of the interaction, 1 where the data has no weights. Users who are
    folded in have r_ui = 1.

    The publication's alpha of 40 is for its own data, hours of television; for unweighted interactions a small alpha
    does better.

    Args:
        dim: Dimension f of the vectors.
        regularization: lambda.
        alpha: Additional confidence of an interaction, for each unit of weight.
        iterations: Passes over users and items.
        frequency_power: How much stronger rows with more interactions are regularized, 0 or more: lambda is multiplied
            by ``(m / mean m) ** frequency_power``, with m the sum of the row's confidences (Rendle et al., "Revisiting
            the Performance of iALS on Item Recommendation Benchmarks", RecSys 2022, has 1).
        seed: Of the initial vectors.
        threads: 0 means all cores; the result does not depend on it.
        weight_power: A weight w of the data counts as ``w ** weight_power``: 0 ignores weights.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> ALS(dim=8, iterations=3).fit(town).item_vectors_.shape
    (50, 8)
    """

    uses_weights = True
    user_vectors_: NDArray[np.float32]
    """x_u, shape ``(n_users, dim)``."""
    item_vectors_: NDArray[np.float32]
    """y_i, shape ``(n_items, dim)``."""

    def __init__(
        self,
        dim: int = 64,
        regularization: float = 20.0,
        alpha: float = 1.0,
        iterations: int = 15,
        frequency_power: float = 0.0,
        seed: int = 0,
        threads: int = 0,
        weight_power: float = 1.0,
    ) -> None:
        self.dim = dim
        self.regularization = regularization
        self.alpha = alpha
        self.iterations = iterations
        self.frequency_power = frequency_power
        self.seed = seed
        self.threads = threads
        self.weight_power = weight_power

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        require_nonnegative_weights("ALS", train.weights)
        matrix = train.powered(self.weight_power).matrix
        by_user = _confidence(matrix, self.alpha)
        by_item = _confidence(matrix.T.tocsr(), self.alpha)
        extra_of_users, extra_of_items = (self.alpha * np.asarray(matrix.sum(axis=axis)) for axis in (1, 0))
        rng = np.random.default_rng(self.seed)
        users, items = (
            (0.01 * rng.standard_normal((n, self.dim))).astype(np.float32) for n in (train.n_users, train.n_items)
        )
        for _ in range(self.iterations):
            self._half_step(by_user, self._regularization(extra_of_users, len(items)), items, users)
            self._half_step(by_item, self._regularization(extra_of_items, len(users)), users, items)
        _require_finite(users, items)
        self.user_vectors_, self.item_vectors_ = users, items

    def partial_fit(self, new: TrainingData, progress: bool | None = None, **columns: Unpack[TableArguments]) -> ALS:
        """Learn from more interactions, which may hold new users and items, at the cost of these interactions.

        Two passes from the vectors that are learned already, over users and items with new interactions only; all
        others stay as they are. Of a pair that is known already the new weight counts. Interactions that are all known
        leave the model as it is, with a warning. On an error nothing has changed.

        >>> from tastespace import synthetic
        >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
        >>> is_old = town.row_of_each() < 55
        >>> model = ALS(dim=8).fit(town.subset(is_old)).partial_fit(town.subset(~is_old))
        >>> model.train_.n_interactions == town.n_interactions
        True
        """
        self._check()
        new = new_interactions("partial_fit", self, new, columns)
        found = begin_update(self, new)
        if found is None:
            return self
        data = found.data
        require_nonnegative_weights("ALS", data.weights)
        require_same_dimension(self.dim, self.item_vectors_)
        users = carried_over(self.user_vectors_, found.old_users)
        items = carried_over(self.item_vectors_, found.old_items)
        matrix, rows = data.powered(self.weight_power).matrix, data.row_of_each()
        changed = found.is_new if self.train_.weights is None else np.ones(data.n_interactions, dtype=bool)
        touched_users, touched_items = np.unique(rows[changed]), np.unique(data.indices[changed])
        by_user = _confidence(matrix[touched_users], self.alpha)
        by_item = _confidence(matrix.tocsc()[:, touched_items].T.tocsr(), self.alpha)
        extra_of_users, extra_of_items = (self.alpha * np.asarray(matrix.sum(axis=axis)) for axis in (1, 0))
        user_ridge = self._regularization(extra_of_users, len(items))[touched_users]
        item_ridge = self._regularization(extra_of_items, len(users))[touched_items]
        for _ in range(_UPDATE_PASSES):
            for part, ridge, fixed, vectors, touched in (
                (by_user, user_ridge, items, users, touched_users),
                (by_item, item_ridge, users, items, touched_items),
            ):
                own = np.ascontiguousarray(vectors[touched])
                self._half_step(part, ridge, fixed, own)
                vectors[touched] = own
        _require_finite(users, items)
        self.user_vectors_, self.item_vectors_ = users, items
        self.train_, self.valid_ = data, None
        return self

    def _half_step(
        self,
        rows: dict[str, NDArray[Any]],
        regularization: NDArray[np.float32],
        fixed: NDArray[np.float32],
        vectors: NDArray[np.float32],
    ) -> None:
        """Improve the vectors of some rows of one side, in place, with those of the other side fixed."""
        gram = _gram(fixed).astype(np.float32)
        interruptible(
            lambda: _native.als_half_step(
                **rows,
                fixed=fixed,
                gram=gram,
                regularization=regularization,
                n_steps=_CG_STEPS,
                vectors=vectors,
                threads=resolve_threads(self.threads),
            )
        )

    def _regularization(
        self, extra: NDArray[np.floating[Any]], n_fixed: int, mean_extra: float | None = None
    ) -> NDArray[np.float32]:
        """The regularization of rows with these sums of extra confidences, shape ``(n_rows,)``."""
        mean_extra = float(extra.mean()) if mean_extra is None else mean_extra
        scale = ((n_fixed + extra) / (n_fixed + mean_extra)) ** self.frequency_power
        return (self.regularization * scale).astype(np.float32)

    def _check(self) -> None:
        super()._check()
        for name in ("dim", "iterations"):
            require_whole(name, getattr(self, name))
        require_number("regularization", self.regularization, above=0.0)
        for name in ("alpha", "frequency_power", "weight_power"):
            require_number(name, getattr(self, name), least=0.0)
        require_seed(self.seed)

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {
            "user_vectors_": Numbers("float32", ("users", "dim")),
            "item_vectors_": Numbers("float32", ("items", "dim")),
        }

    def vectors(self) -> VectorSpace:
        """The learned vectors."""
        if not hasattr(self, "item_vectors_"):
            self.require_fitted()
        return VectorSpace.single(self.user_vectors_, self.item_vectors_, "dot")

    def evidence(self, user: int, items: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Contributions of the past items: the user's least squares are linear in them, where confidences are given.

        With A the matrix of these least squares the score of item j is the sum over past items i of
        ``c_ui <y_j, A^-1 y_i>`` (Hu, Koren and Volinsky, Section 5), up to what the passes of the training left open.
        """
        self.require_fitted()
        train = self.weighted_train
        own = slice(int(train.offsets[user]), int(train.offsets[user + 1]))
        extra = np.full(own.stop - own.start, self.alpha)
        if train.weights is not None:
            extra *= train.weights[own]
        gram = computed_once(self.item_vectors_, "gram", lambda: _gram(self.item_vectors_))
        ridge = float(self._regularization(np.array([extra.sum()]), len(self.item_vectors_), self._mean_extra)[0])
        wanted = np.ascontiguousarray(items, dtype=np.int32)
        return _native.least_squares_evidence(self.item_vectors_, gram, ridge, train.indices[own], extra, wanted)

    @property
    def _mean_extra(self) -> float:
        """Mean sum of the extra confidences of a user in training."""
        known = self.popularity_source.powered(self.weight_power)
        return self.alpha * computed_once(known, "weight of a user", lambda: float(known.matrix.sum()) / known.n_users)

    def _fold_in(self, histories: Interactions) -> ALS:
        """Vectors of new users: the least-squares problem of one user, solved exactly."""
        items = self.item_vectors_.astype(np.float64)
        users = np.empty((histories.n_users, items.shape[1]), dtype=np.float32)
        whole, identity = _gram(items), np.eye(items.shape[1])
        ridge = self._regularization(self.alpha * histories.user_counts, len(items), self._mean_extra)
        with threadpool_limits(1, "blas"):  # many small systems
            for user, (first, last) in enumerate(zip(histories.offsets[:-1], histories.offsets[1:], strict=True)):
                mine = items[histories.indices[first:last]]
                users[user] = scipy.linalg.solve(
                    whole + ridge[user] * identity + self.alpha * (mine.T @ mine),
                    (1.0 + self.alpha) * mine.sum(axis=0),
                    assume_a="pos",
                )
        new = copy.copy(self)
        new.user_vectors_ = users
        return new


def _require_finite(*vectors: NDArray[np.float32]) -> None:
    if not all(np.isfinite(part).all() for part in vectors):
        raise TrainingError("the least squares gave NaN or infinite vectors. Raise regularization.")


def _gram(fixed: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The part of the least squares that all rows of the other side share, shape ``(dim, dim)``."""
    wide = fixed.astype(np.float64)
    with threadpool_limits(1, "blas"):  # the same bits for every number of threads
        return wide.T @ wide


def _confidence(matrix: Any, alpha: float) -> dict[str, NDArray[Any]]:
    """A CSR matrix as the kernel takes it: offsets, columns, and the confidence of each entry above 1."""
    return {
        "offsets": matrix.indptr.astype(np.int64),
        "columns": matrix.indices.astype(np.int32),
        "extra": (alpha * matrix.data.astype(np.float64)).astype(np.float32),
    }
