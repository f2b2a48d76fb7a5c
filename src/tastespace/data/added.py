"""What new interactions add to those that a model knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tastespace.data.concat import concat_with_sources
from tastespace.data.interactions import Interactions


@dataclass(frozen=True, eq=False)
class Added:
    """Old and new interactions together, and which of them are new."""

    data: Interactions
    """The union of both, as `tastespace.data.concat.concat` gives it."""
    is_new: NDArray[np.bool_]
    """Which interactions of `data` the old ones do not have, shape ``(n_interactions,)``."""
    old_users: NDArray[np.int64]
    """Index of each user of `data` among the old users, -1 for new users, shape ``(n_users,)``."""
    old_items: NDArray[np.int64]
    """The same of items, shape ``(n_items,)``."""
    learned_users: NDArray[np.int64]
    """As `old_users`, but -1 also for users who have their first interactions now: a model has learned nothing yet."""
    learned_items: NDArray[np.int64]
    """The same of items."""
    n_duplicates: int
    """Interactions of the update that were known already."""

    @property
    def n_users(self) -> int:
        """New users."""
        return int((self.old_users < 0).sum())

    @property
    def n_items(self) -> int:
        """New items."""
        return int((self.old_items < 0).sum())

    @property
    def n_interactions(self) -> int:
        """New pairs of user and item."""
        return int(self.is_new.sum())

    @property
    def nothing(self) -> bool:
        """Whether users, items and pairs were all known."""
        return not (self.n_interactions or self.n_users or self.n_items)

    def __str__(self) -> str:
        return (
            f"{self.n_interactions:,} new interactions, {self.n_users:,} new users, {self.n_items:,} new items; "
            f"{self.n_duplicates:,} interactions were known"
        )


def added(old: Interactions, new: Interactions) -> Added:
    """Compare new interactions with old ones.

    >>> import polars as pl
    >>> old = Interactions.from_frame(pl.DataFrame({"user": ["ann", "bob"], "item": ["tea", "jam"]}))
    >>> new = Interactions.from_frame(pl.DataFrame({"user": ["ann", "ann"], "item": ["tea", "rye"]}), part=True)
    >>> print(added(old, new))
    1 new interactions, 0 new users, 1 new items; 1 interactions were known
    """
    data, first = concat_with_sources(old, new)
    is_new = first >= old.n_interactions
    users, items = old.users.find(data.users.series), old.items.find(data.items.series)
    return Added(
        data,
        is_new,
        users,
        items,
        np.where((old.user_counts[users] == 0) & (data.user_counts > 0), -1, users),
        np.where((old.item_counts[items] == 0) & (data.item_counts > 0), -1, items),
        new.n_interactions - int(is_new.sum()),
    )
