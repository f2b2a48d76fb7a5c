"""What metrics may use beside a block of lists: the training data, categories of the items, item vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.categories import Categories, item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.evaluation.protocols import Protocol

# Bounds the table of users by categories that is held at once.
_USERS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class MetricInputs:
    """What metrics read beside the lists; costly parts are computed when a metric first needs them."""

    model_name: str
    train: Interactions
    protocol: Protocol
    item_vectors: NDArray[np.float32] | None
    category_column: str | None
    """Item attribute that holds the categories; None chooses the one that looks like categories."""
    n_unknown: NDArray[np.int64]
    """Test items of each user that are not in the model; they are never found. Shape ``(n_users,)``."""
    n_excluded: NDArray[np.int64]
    """Items of each user that are not candidates. Shape ``(n_users,)``."""
    threads: int

    def require(self, needs: str, metric: str) -> None:
        """Raise unless the metric has what it needs: ``"vectors"``, ``"categories"`` or nothing."""
        if needs == "vectors":
            self.require_item_vectors(metric)
        elif needs == "categories" and not self.categories:
            raise ParameterError(f"{metric}: no item has a category in the attribute {self._category_values.name!r}.")

    def require_item_vectors(self, metric: str) -> NDArray[np.float32]:
        """The item vectors, or an error that says why this metric cannot be computed."""
        if self.item_vectors is None:
            raise ParameterError(
                f"{metric} measures distances between item vectors, and {self.model_name} has none. Leave it out, or "
                "use CategoryILD, which needs only item categories."
            )
        return self.item_vectors

    @property
    def categories(self) -> list[str]:
        """Names of all categories, ascending."""
        return self._item_categories.names

    @cached_property
    def membership(self) -> NDArray[np.bool_]:
        """Whether an item belongs to a category, shape ``(n_items, n_categories)``."""
        return self._item_categories.table()

    @cached_property
    def main_category(self) -> NDArray[np.int64]:
        """Category with most of the user's training items, -1 where none has one. Shape ``(n_users,)``.

        An item of several categories counts for each; of equal ones the first by name is taken.
        """
        train = self.train
        taken = sp.csr_array(
            (np.ones(train.n_interactions, dtype=np.int32), train.indices, train.offsets),
            shape=(train.n_users, train.n_items),
        )
        membership = self.membership.astype(np.int32)
        main = np.full(train.n_users, -1, dtype=np.int64)
        for first in range(0, train.n_users, _USERS_AT_ONCE):
            totals = taken[first : first + _USERS_AT_ONCE] @ membership
            main[first : first + len(totals)] = np.where(totals.any(axis=1), totals.argmax(axis=1), -1)
        return main

    @cached_property
    def self_information(self) -> NDArray[np.float64]:
        """-log2 of the share of training users who took the item, in bits.

        An item without interactions counts as one that a single user took.
        """
        n_users = np.count_nonzero(self.train.user_counts)
        return -np.log2(np.maximum(self.train.item_counts, 1) / n_users)

    @cached_property
    def _item_categories(self) -> Categories:
        return item_categories(self._category_values)

    @cached_property
    def _category_values(self) -> pl.Series:
        attributes, name = self.train.item_attributes, self.category_column
        return require_category_column(attributes, name, purpose="a metric by category", argument="categories")
