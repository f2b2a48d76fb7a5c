"""Two strong and simple baselines: most popular items, and the linear item-item model EASE."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.checks import require_choice, require_number
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError
from tastespace.memory import available_gb
from tastespace.models.base import Recommender
from tastespace.models.ease_sides import LARGE, UserSide, item_weights, single_item_weights
from tastespace.models.stored_values import REAL, TRUTH, Declared, Numbers, Sparse
from tastespace.threads import resolve_threads

log = logging.getLogger(__name__)

_BYTES_PER_PAIR = 12  # a matrix of doubles while it is inverted, and the result in single precision
_BYTES_IN_SINGLE = (4.2, 16_000)  # per pair of items and per item: one matrix, and what is worked on at once
_SIDES = ("auto", "items", "users")


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

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {"item_scores_": Numbers("float32", ("items",))}

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The same row for every user."""
        self.require_fitted()
        return np.tile(self.item_scores_, (len(users), 1))

    def can_serve(self, users: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """All users: the list depends on no history."""
        return np.ones(len(users), dtype=bool)

    def _fold_in(self, histories: Interactions) -> MostPopular:
        return copy.copy(self)


class EASE(Recommender):
    """Linear item-item model with a zero diagonal, in closed form (Steck, "Embarrassingly Shallow
    Autoencoders for Sparse Data", WWW 2019).

    With X the matrix of ones, or of the data's weights, G = X'X + regularization * I and P = inverse of G, the learned
    weights are B = I - P / diag(P), and the scores are X B. Where users are fewer than items, the same scores come
    from the inverse of XX' + regularization * I, so that time and memory depend on the smaller of the two numbers: a
    catalog may have any size where users are few.

    Args:
        regularization: lambda > 0; larger means smoother. 50 suits Steam-200k, several hundred MovieLens: the denser
            the data, the more. ``7000 * density**0.75`` is a start that follows the data; see
            ``benchmarks/ease_regularization.py``.
        memory_limit_gb: Refuse to fit where more is needed (12 bytes per pair of items, or of users; less than half
            from 8,000 items on); by default three quarters of the memory that is available when `fit` is called.
        threads: For the linear algebra; 0 means all cores.
        side: Which inverse is computed: of the ``"items"``, of the ``"users"``, or ``"auto"``, of the fewer. The
            scores are the same up to rounding. Weights that are huge beside the regularization can make the side of the
            users imprecise; ``"auto"`` then takes that of the items.

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
    """The regularization at the time of `fit`."""
    folded_in_: bool
    """Whether the users of `train_` are others than those of `inverse_`."""

    def __init__(
        self,
        regularization: float = 100.0,
        memory_limit_gb: float | None = None,
        threads: int = 0,
        *,
        side: Literal["auto", "items", "users"] = "auto",
    ) -> None:
        self.regularization = regularization
        self.memory_limit_gb = memory_limit_gb
        self.threads = threads
        self.side = side

    def _check(self) -> None:
        super()._check()
        require_number("regularization", self.regularization, above=0.0)
        if self.memory_limit_gb is not None:
            require_number("memory_limit_gb", self.memory_limit_gb, above=0.0)
        require_choice("side", self.side, _SIDES)

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        by_users = self.side == "users" or (self.side == "auto" and train.n_users < train.n_items)
        self._require_memory(train, by_users)
        for name in ("weights_", "inverse_", "diagonal_", "by_item_", "regularization_", "folded_in_"):
            vars(self).pop(name, None)  # of an earlier fit, which may have taken the other side
        matrix, n_threads = train.matrix.astype(np.float64), resolve_threads(self.threads)
        solved = UserSide.solve(matrix, self.regularization, n_threads) if by_users else None
        if solved is not None:
            self.inverse_, self.diagonal_, self.by_item_ = solved.inverse, solved.diagonal, solved.by_item
            self.regularization_, self.folded_in_ = solved.regularization, False
            return
        if by_users:
            self._require_other_side(train)
        if train.n_items >= LARGE:
            weights = single_item_weights(matrix, self.regularization, n_threads)
            if weights is not None:
                self.weights_ = weights
                return
            log.warning(
                "EASE with regularization=%r cannot be computed precisely in single precision; double precision takes "
                "more time and memory.",
                self.regularization,
            )
            self._require_memory(train, by_users=False, in_single=False)
        self.weights_ = item_weights(matrix, self.regularization, n_threads)

    def _require_other_side(self, train: Interactions) -> None:
        """Raise unless the side of the items may be taken where that of the users is too imprecise."""
        problem = (
            f"EASE with regularization={self.regularization!r} cannot be computed precisely from the side of the "
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
        """What was learned from the side of the users; None where it was that of the items."""
        if not hasattr(self, "inverse_"):
            return None
        return UserSide(self.inverse_, self.diagonal_, self.by_item_, self.regularization_)

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        if "weights_" in learned:
            return {"weights_": Numbers("float32", ("items", "items"))}
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
        }

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """X B for the rows of these users."""
        self.require_fitted()
        rows, side = self.train_.matrix[users], self._user_side
        if side is None:
            return np.ascontiguousarray(rows @ self.weights_, dtype=np.float32)
        n_threads = resolve_threads(self.threads)
        return side.scores(rows, n_threads) if self.folded_in_ else side.training_scores(users, rows, n_threads)

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Columns of B: how much each item raises the scores of the items at these rows."""
        self.require_fitted()
        side = self._user_side
        return np.ascontiguousarray(self.weights_[:, rows].T) if side is None else side.columns(np.asarray(rows))

    def evidence(self, user: int, item: int) -> NDArray[np.float32]:
        """x_ui B_ij of each past item i of the user, with j the item; an item adds nothing to its own score."""
        self.require_fitted()
        row, side = self.train_.matrix[[user]], self._user_side
        entries = self.weights_[row.indices, item] if side is None else side.entries(row.indices, item)
        return np.asarray(row.data * entries, dtype=np.float32)

    def _fold_in(self, histories: Interactions) -> EASE:
        new = copy.copy(self)  # scores come from the histories and what was learned alone
        if self._user_side is not None:
            new.folded_in_ = True
        return new
