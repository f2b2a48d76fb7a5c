"""How much of a user's history an item's interest or category holds: what a blend uses to serve smaller interests."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.categories import item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.vector_space import VectorSpace
from tastespace.threads import resolve_threads

BalanceBy = Literal["interests", "categories"]
BALANCED_BY = ("interests", "categories")


class Balance:
    """Minus the logarithm of the share of a user's history that an item's interest, or its categories, hold.

    An item of an interest with a tenth of the history has log 10, one of an interest with all of it 0. With categories
    an item has the mean over its categories; a category that the history does not have counts 0, so that nothing is
    recommended for its novelty alone. Added to standardized scores, it makes up for the advantage that items of a
    user's main interest have in every list.

    Args:
        train: The interactions, with item attributes where categories are needed.
        by: ``"interests"`` or ``"categories"``.
        space: The vectors that tell which interest an item belongs to, for ``by="interests"``.
        threads: 0 means all cores.
    """

    def __init__(self, train: Interactions, by: BalanceBy, space: VectorSpace | None = None, threads: int = 0) -> None:
        self._train, self._space, self._threads = train, space, resolve_threads(threads)
        if by not in BALANCED_BY:
            raise ParameterError(f"balance_by={by!r}: expected {' or '.join(map(repr, BALANCED_BY))}.")
        self._membership: Any = None
        if by == "categories":
            column = require_category_column(
                train.item_attributes, None, purpose="balance_by='categories'", argument="column"
            )
            self._membership = item_categories(column).membership
            counts = np.maximum(np.asarray(self._membership.sum(axis=1)).ravel(), 1.0)
            self._mean_of_item = sp.csr_array(sp.diags_array(1.0 / counts) @ self._membership, dtype=np.float32)
        elif space is None:
            raise ParameterError("balance_by='interests' needs a member with several vectors per user, such as DPCML.")

    def of_users(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Of all items for these users: shape ``(len(users), n_items)``."""
        if self._membership is not None:
            return np.ascontiguousarray((self._mean_of_item @ self._category_logs(users).T).T, dtype=np.float32)
        assert self._space is not None
        nearest = self._space.nearest_interests(users, self._threads)
        found = np.empty(nearest.shape, dtype=np.float32)
        for at, user in enumerate(users):
            found[at] = self._interest_logs(user, nearest[at])[nearest[at]]
        return found

    def _category_logs(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """For each user and category: shape ``(len(users), n_categories)``."""
        taken = self._taken(users)
        totals = np.asarray((taken @ self._membership).toarray())
        with_category = np.asarray(taken @ (np.diff(self._membership.indptr) > 0).astype(np.float64))
        return _minus_log(totals, with_category[:, None])

    def _interest_logs(self, user: int, nearest: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """For each interest of a user: shape ``(n_interests,)``."""
        assert self._space is not None
        own = self._train.indices[self._train.offsets[user] : self._train.offsets[user + 1]]
        n_interests = int(self._space.user_offsets[user + 1] - self._space.user_offsets[user])
        counts = np.bincount(nearest[own], minlength=n_interests).astype(np.float64)
        return _minus_log(counts, np.float64(len(own)))

    def _taken(self, users: NDArray[np.integer[Any]]) -> Any:
        """The histories of these users as a matrix of ones, ``(len(users), n_items)``."""
        first, counts = self._train.offsets[users], self._train.user_counts[users]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(first - offsets[:-1], counts) + np.arange(offsets[-1])
        items = self._train.indices[places]
        return sp.csr_array((np.ones(len(items)), items, offsets), shape=(len(users), self._train.n_items))


def _minus_log(counts: NDArray[np.float64], total: Any) -> NDArray[np.float32]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(counts > 0, -np.log(np.minimum(counts / np.maximum(total, 1.0), 1.0)), 0.0).astype(np.float32)
