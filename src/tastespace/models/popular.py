"""Popularity: the most popular items, of all or of the categories that a user's history has."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace._util.checks import require_number
from tastespace.data.attributes import category_column, item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.models.stored_values import (
    Declared,
    Numbers,
    Sparse,
)

# ---------------------------------------------------------------------------------------------------------------------
# Most popular items.


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


# ---------------------------------------------------------------------------------------------------------------------
# The most popular items of the categories that a user's history has.

_LEAST = 1e-6  # what a score of 0 counts as in a logarithm


class CategoryPopular(Recommender):
    """Popular items, category by category, in the shares of the user's history.

    The score of item v is ``sum over its categories c of share(u, c) ** power * n_v / n_c``, with share(u, c) the part
    of the user's history that has category c (an item of several counts for each), n_v the number of users of the item
    and n_c the sum of these over the category. A power below 1 lifts smaller interests. Items without categories, and
    data without any, are ranked by popularity alone.

    Args:
        power: Exponent of the shares, 0 or more.
        logarithm: Score by the logarithm, which spreads unpopular items; it matters in a blend, not for the order.
        column: Item attribute that holds the categories; by default the one that looks like categories.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> CategoryPopular().fit(town).recommend(7, k=3)["rank"].to_list()
    [1, 2, 3]
    """

    popularity_: NDArray[np.float32]
    """Users of each item, plus a half; shape ``(n_items,)``."""
    membership_: sp.csr_array
    """Categories of the items, one more for all items without any: shape ``(n_items, n_categories)``."""

    def __init__(self, power: float = 0.5, logarithm: bool = False, column: str | None = None) -> None:
        self.power = power
        self.logarithm = logarithm
        self.column = column

    def _check(self) -> None:
        super()._check()
        require_number("power", self.power, least=0.0)
        if not isinstance(self.logarithm, bool):
            raise ParameterError(f"logarithm={self.logarithm!r}: expected True or False.")

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        self.popularity_ = train.item_counts.astype(np.float32) + np.float32(0.5)
        self.membership_ = self._categories(train)

    def _categories(self, train: Interactions) -> sp.csr_array:
        if self.column is None and category_column(train.item_attributes) is None:
            known = sp.csr_array((train.n_items, 0), dtype=np.float32)
        else:
            column = require_category_column(
                train.item_attributes, self.column, purpose="CategoryPopular", argument="column"
            )
            known = item_categories(column).membership
        without = (np.diff(known.indptr) == 0).astype(np.float32)
        return sp.csr_array(sp.hstack([known, without[:, None]]), dtype=np.float32)

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {"popularity_": Numbers("float32", ("items",)), "membership_": Sparse("items", "categories")}

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Shares of the users times the popularity within each category."""
        self.require_fitted()
        train = self.train_
        ones = np.ones(train.n_interactions, dtype=np.float32)
        shape = train.n_users, train.n_items
        taken = sp.csr_array((ones, train.indices, train.offsets), shape=shape)[users]
        counts = np.asarray((taken @ self.membership_).toarray(), dtype=np.float64)
        shares = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)) ** self.power
        shares[counts == 0] = 0.0
        shares[counts.sum(axis=1) == 0] = 1.0  # without a history all categories count alike
        totals = np.maximum(self.membership_.T @ self.popularity_, 1e-9)
        within = sp.csr_array(sp.diags_array(self.popularity_) @ self.membership_ @ sp.diags_array(1.0 / totals))
        # What no category of the user has stays in the order of popularity, below all else.
        rest = _LEAST * self.popularity_ / self.popularity_.sum()
        scores = np.asarray((within @ shares.T).T) + rest
        return np.ascontiguousarray(np.log(scores + _LEAST * _LEAST) if self.logarithm else scores, dtype=np.float32)

    def can_serve(self, users: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """All users: without a history, the popular items of all categories."""
        return np.ones(len(users), dtype=bool)

    def _fold_in(self, histories: Interactions) -> CategoryPopular:
        return copy.copy(self)
