"""Matrix factorization by alternating least squares, computed by the package implicit."""

from __future__ import annotations

import copy
import sys
from importlib import import_module
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tastespace.checks import require_nonnegative_weights, require_number, require_seed, require_whole
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError, TrainingError
from tastespace.models.base import Recommender
from tastespace.models.vector_space import VectorSpace
from tastespace.threads import resolve_threads


def _require_implicit() -> Any:
    try:
        return import_module("implicit.cpu.als")
    except ImportError as problem:
        raise ParameterError(
            "ALS is computed by implicit, which is not installed: pip install 'tastespace[als]'."
        ) from problem


class ALS(Recommender):
    """Weighted matrix factorization (Hu, Koren and Volinsky, "Collaborative Filtering for Implicit Feedback Datasets",
    ICDM 2008), by implicit's `AlternatingLeastSquares` with conjugate gradients.

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
        seed: Of the initial vectors.
        threads: 0 means all cores; the result does not depend on it.

    Needs the package implicit: ``pip install 'tastespace[als]'``.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> ALS(dim=8, iterations=3).fit(town).item_vectors_.shape
    (50, 8)
    """

    uses_weights = True
    extra = "als"
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
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        self.dim = dim
        self.regularization = regularization
        self.alpha = alpha
        self.iterations = iterations
        self.seed = seed
        self.threads = threads

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        self._check()
        require_nonnegative_weights("ALS", train.weights)
        implicit = _require_implicit()
        # implicit distributes rows over threads itself; a threaded BLAS below it would compete with it.
        with threadpool_limits(1, "blas"):
            solver = implicit.AlternatingLeastSquares(
                factors=self.dim,
                regularization=self.regularization,
                alpha=1.0,  # the matrix holds the confidences
                iterations=self.iterations,
                num_threads=resolve_threads(self.threads),
                random_state=self.seed,
            )
            confidence = (1.0 + self.alpha * train.matrix.data.astype(np.float64)).astype(np.float32)
            # implicit takes SciPy's older kind of matrix only.
            solver.fit(
                sp.csr_matrix((confidence, train.indices, train.offsets), shape=(train.n_users, train.n_items)),
                show_progress=sys.stderr.isatty() if progress is None else progress,
            )
        if not (np.isfinite(solver.user_factors).all() and np.isfinite(solver.item_factors).all()):
            raise TrainingError("the least squares gave NaN or infinite vectors. Raise regularization.")
        self.user_vectors_ = np.ascontiguousarray(solver.user_factors, dtype=np.float32)
        self.item_vectors_ = np.ascontiguousarray(solver.item_factors, dtype=np.float32)

    def _check(self) -> None:
        for name in ("dim", "iterations"):
            require_whole(name, getattr(self, name))
        require_number("regularization", self.regularization, above=0.0)
        require_number("alpha", self.alpha, least=0.0)
        require_seed(self.seed)

    def vectors(self) -> VectorSpace:
        """The learned vectors."""
        if not hasattr(self, "item_vectors_"):
            self.require_fitted()
        return VectorSpace.single(self.user_vectors_, self.item_vectors_, "dot")

    def _fold_in(self, histories: Interactions) -> ALS:
        """Vectors of new users: the least-squares problem of one user, solved exactly."""
        items = self.item_vectors_.astype(np.float64)
        users = np.empty((histories.n_users, items.shape[1]), dtype=np.float32)
        with threadpool_limits(1, "blas"):  # many small systems
            whole = items.T @ items + self.regularization * np.eye(items.shape[1])
            for user, (first, last) in enumerate(zip(histories.offsets[:-1], histories.offsets[1:], strict=True)):
                mine = items[histories.indices[first:last]]
                users[user] = scipy.linalg.solve(
                    whole + self.alpha * (mine.T @ mine), (1.0 + self.alpha) * mine.sum(axis=0), assume_a="pos"
                )
        new = copy.copy(self)
        new.user_vectors_ = users
        return new
