"""Inputs of metrics beside a block of lists: the training data, categories of the items, vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.attributes import Categories, item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.evaluation._alignment import entries_of
from tastespace.evaluation.protocols import Protocol
from tastespace.models.vector_space import VectorSpace

# Bounds the table of users by categories that is held at once.
_USERS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class MetricInputs:
    """Inputs of metrics beside the lists; costly parts are computed when a metric first needs them."""

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
    item_attributes: pl.DataFrame | None = None
    """Attributes of the items in the order of the training data; None: those of the training data."""
    interest_space: Callable[[], VectorSpace | None] = lambda: None
    """Gives the vectors of the users' interests, None for a model without any."""

    def require(self, needs: str, metric: str) -> None:
        """Raise unless the metric has what it needs: ``"vectors"``, ``"interests"``, ``"categories"`` or nothing."""
        if needs == "vectors":
            self.require_item_vectors(metric)
        elif needs == "interests":
            self.require_interests(metric)
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

    def require_interests(self, metric: str) -> VectorSpace:
        """The vectors of the users' interests, or an error that says why this metric cannot be computed."""
        if self._interests is None:
            raise ParameterError(
                f"{metric} needs a model whose users have interests, and {self.model_name} has no vectors. Leave it "
                "out, or use a model such as DPCML."
            )
        return self._interests

    @property
    def categories(self) -> list[str]:
        """Names of all categories, ascending."""
        return self._item_categories.names

    @cached_property
    def membership(self) -> NDArray[np.bool_]:
        """Mask of the items of each category, shape ``(n_items, n_categories)``."""
        return self._item_categories.table()

    @cached_property
    def main_category(self) -> NDArray[np.int64]:
        """Category with most of the user's training items, -1 where none has one. Shape ``(n_users,)``.

        An item of several categories counts for each; of equal ones the first by name is taken.
        """
        membership = self.membership.astype(np.int32)
        main = np.full(self.train.n_users, -1, dtype=np.int64)
        for first in range(0, len(main), _USERS_AT_ONCE):
            totals = self._taken[first : first + _USERS_AT_ONCE] @ membership
            main[first : first + len(totals)] = np.where(totals.any(axis=1), totals.argmax(axis=1), -1)
        return main

    def categories_of(self, items: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All categories of these items: position in ``items`` and number of the category, both of shape ``(n,)``."""
        member = self._item_categories.membership
        position, at = entries_of(member.indptr, items)
        return position, member.indices[at].astype(np.int64)

    def history(self, users: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """All training items of these users: position in ``users`` and item, both of shape ``(n,)``."""
        position, at = entries_of(self.train.offsets, users)
        return position, self.train.indices[at]

    def history_mix(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Shares of the categories in the training items of these users, shape ``(len(users), n_categories)``.

        An item of several categories spreads its weight equally over them; a row sums to 1, or is 0 without any.
        """
        return _shares((self._taken[users] @ self._category_shares).toarray())

    def list_mix(self, top: NDArray[np.int32]) -> NDArray[np.float64]:
        """Shares of the categories in lists of items, -1 after a list's end. Shape ``(len(top), n_categories)``."""
        position, place = np.nonzero(top >= 0)
        shape = len(top), self.train.n_items
        lists = sp.csr_array((np.ones(len(position)), (position, top[position, place])), shape=shape)
        return _shares((lists @ self._category_shares).toarray())

    @cached_property
    def self_information(self) -> NDArray[np.float64]:
        """-log2 of the share of training users who took the item, in bits.

        An item without interactions counts as one that a single user took.
        """
        n_users = np.count_nonzero(self.train.user_counts)
        return -np.log2(np.maximum(self.train.item_counts, 1) / n_users)

    @cached_property
    def _taken(self) -> sp.csr_array:
        """Matrix with 1 for each item that a user has in training, whatever its weight."""
        train = self.train
        ones = np.ones(train.n_interactions, dtype=np.int32)
        return sp.csr_array((ones, train.indices, train.offsets), shape=(train.n_users, train.n_items))

    @cached_property
    def _category_shares(self) -> sp.csr_array:
        """Share of each category in each item: rows sum to 1, or are 0 for items without a category."""
        member = self._item_categories.membership
        counts = np.diff(member.indptr)
        return sp.csr_array((1.0 / np.repeat(counts, counts), member.indices, member.indptr), shape=member.shape)

    @cached_property
    def _interests(self) -> VectorSpace | None:
        return self.interest_space()

    @cached_property
    def _item_categories(self) -> Categories:
        return item_categories(self._category_values)

    @cached_property
    def _category_values(self) -> pl.Series:
        attributes, name = self.item_attributes, self.category_column
        if attributes is None:
            attributes = self.train.item_attributes
        return require_category_column(attributes, name, purpose="a metric by category", argument="categories")


def _shares(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = totals.sum(axis=1, keepdims=True)
    return np.divide(totals, whole, out=np.zeros_like(totals), where=whole > 0)
