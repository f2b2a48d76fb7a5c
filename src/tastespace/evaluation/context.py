"""What metrics may know beside a block of lists: the training data, categories, item vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.evaluation.protocols import Protocol

# Bounds the table of users by categories that is held at once.
_USERS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Facts:
    """The surroundings of an evaluation; costly parts are made when a metric first asks."""

    model_name: str
    train: Interactions
    protocol: Protocol
    item_vectors: NDArray[np.float32] | None
    category_column: str
    n_unknown: NDArray[np.int64]
    """Test items of each user that the model cannot know and that count as never found."""
    n_excluded: NDArray[np.int64]
    """Items of each user that are not candidates."""
    threads: int

    def require(self, needs: str, metric: str) -> None:
        """Raise unless there is what a metric needs: ``"vectors"``, ``"categories"`` or nothing."""
        if needs == "vectors":
            self.require_item_vectors(metric)
        elif needs == "categories" and not self.categories:
            raise ParameterError(f"{metric}: no item has a value in the attribute {self.category_column!r}.")

    def require_item_vectors(self, metric: str) -> NDArray[np.float32]:
        """The item vectors, or an error that says why this metric cannot be had."""
        if self.item_vectors is None:
            raise ParameterError(
                f"{metric} measures distances between item vectors, and {self.model_name} has none. Leave it out, or "
                "use CategoryILD, which needs only item categories."
            )
        return self.item_vectors

    @cached_property
    def categories(self) -> list[str]:
        """Names of all categories, ascending."""
        return self._category_table[0]

    @cached_property
    def membership(self) -> NDArray[np.bool_]:
        """Whether an item belongs to a category, shape ``(n_items, n_categories)``."""
        return self._category_table[1]

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
        """-log2 of the share of training users who took the item; an item nobody took counts as one user's."""
        n_users = np.count_nonzero(self.train.user_counts)
        return -np.log2(np.maximum(self.train.item_counts, 1) / n_users)

    @cached_property
    def _category_table(self) -> tuple[list[str], NDArray[np.bool_]]:
        attributes = self.train.item_attributes
        if attributes is None or self.category_column not in attributes.columns:
            known = [] if attributes is None else attributes.columns
            raise ParameterError(
                f"metrics by category need the item attribute {self.category_column!r}; the data has "
                f"{', '.join(map(repr, known)) or 'no item attributes'}. Name another with categories=, or build the "
                "Interactions with item_attributes=."
            )
        return membership_table(attributes[self.category_column])


def membership_table(column: pl.Series) -> tuple[list[str], NDArray[np.bool_]]:
    """Category names and an (n_items, n_categories) table from a column of categories or of lists of them.

    >>> membership_table(pl.Series([["a", "b"], ["b"], None]))[1].tolist()
    [[True, True], [False, True], [False, False]]
    """
    frame = pl.DataFrame({"row": np.arange(len(column)), "name": column})
    if isinstance(column.dtype, (pl.List, pl.Array)):
        frame = frame.explode("name")
    frame = frame.drop_nulls().with_columns(pl.col("name").cast(pl.String))
    names = sorted(frame["name"].unique().to_list())
    table = np.zeros((len(column), len(names)), dtype=bool)
    place = {name: at for at, name in enumerate(names)}
    table[frame["row"].to_numpy(), [place[name] for name in frame["name"]]] = True
    return names, table
