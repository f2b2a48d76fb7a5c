"""The tables of a source, alike for all sources, and the views: rules that make `Interactions` of them.

A view depends on `Tables` only, not on the source, so that every source gives the same result.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import polars as pl

from tastespace.data.interactions import Interactions
from tastespace.errors import DataError

SPLIT_NAMES = (("train",), ("val", "vali"), ("test",))
"""Names of the three parts in the published lists."""


@dataclass(frozen=True)
class Tables:
    """The rows of one source, with the publisher's ids."""

    events: pl.DataFrame | None = None
    """Everything published: ``user``, ``item`` and perhaps ``weight``, ``timestamp``, ``cold_item``."""
    authors: pl.DataFrame | None = None
    """The list published by the authors of the paper or of a split: ``user``, ``item``, perhaps ``split``."""
    items: pl.DataFrame | None = None
    """Attributes by ``item``."""
    users: pl.DataFrame | None = None
    """Attributes by ``user``."""


@dataclass(frozen=True)
class View:
    """One view of a data set: which of its rows count, and which items exist."""

    description: str
    """Description in a few words."""
    min_rating: float | None = None
    min_user: int = 1
    n_items: int | None = None
    """The catalog is 0 ... n_items - 1, items without interactions included; None: the items that occur."""
    without_pair: tuple[int, int] | None = None
    """A pair (user, item) to leave out."""
    warm_only: bool = False
    """Leave out the held-out cold-start items."""
    from_authors: bool = False
    """Take the authors' own list where the source has it; the other fields say how to rebuild it."""
    weights_and_times: bool = False
    """Keep weights and timestamps."""

    def build(self, tables: Tables) -> Interactions:
        """The view as `Interactions`."""
        if self.from_authors and tables.authors is not None:
            return self._interactions(tables.authors, tables, min_rating=None, min_user=1)
        if tables.events is None:
            raise DataError("only the authors' list is here, and this view needs the publisher's whole file")
        rows = tables.events
        if self.without_pair is not None:
            user, item = self.without_pair
            rows = rows.filter((pl.col("user") != user) | (pl.col("item") != item))
        if self.warm_only:
            rows = rows.filter(~pl.col("cold_item"))
        return self._interactions(rows, tables, self.min_rating, self.min_user)

    def split(self, tables: Tables) -> tuple[Interactions, Interactions, Interactions]:
        """The published train, validation and test parts of this view, with the same ids."""
        listed = tables.authors
        if listed is None or "split" not in listed.columns:
            raise DataError("the published split is not part of this source")
        data = self._interactions(listed, tables, min_rating=None, min_user=1)
        # Interactions are stored by user, then item: the labels follow in that order.
        order = np.lexsort((data.items.find(listed["item"]), data.users.find(listed["user"])))
        labels = listed["split"].cast(pl.String).gather(order)
        masks = [labels.is_in(names).to_numpy() for names in SPLIT_NAMES]
        if not np.logical_or.reduce(masks).all():
            raise DataError(f"unknown parts in column 'split': {labels.unique().sort().to_list()}")
        train, valid, test = (data.subset(mask) for mask in masks)
        return train, valid, test

    def _interactions(
        self, rows: pl.DataFrame, tables: Tables, min_rating: float | None, min_user: int
    ) -> Interactions:
        return Interactions.from_frame(
            rows,
            rating=None if min_rating is None else "weight",
            min_rating=min_rating,
            weight="weight" if self.weights_and_times and "weight" in rows.columns else None,
            timestamp="timestamp" if self.weights_and_times and "timestamp" in rows.columns else None,
            min_user=min_user,
            duplicates="last",
            catalog=None if self.n_items is None else pl.Series(np.arange(self.n_items)),
            item_attributes=tables.items,
            user_attributes=tables.users,
        )


def rows_sha256(events: pl.DataFrame) -> str:
    """SHA-256 of who took what, and how often, in every row order; numbers only.

    >>> rows = pl.DataFrame({"user": [2, 1], "item": [5, 7]})
    >>> rows_sha256(rows) == rows_sha256(rows.reverse()), rows_sha256(rows)[:8]
    (True, '93b99b54')
    """
    columns = [name for name in ("user", "item", "weight") if name in events.columns]
    rows = events.select(pl.col(columns).cast(pl.Float64)).sort(columns)
    return hashlib.sha256(np.ascontiguousarray(rows.to_numpy().astype("<f8")).tobytes()).hexdigest()


def require_rows(tables: Tables, expected: str | None) -> None:
    """Raise unless the publisher's rows are those whose `rows_sha256` is known; None: not known."""
    if expected is not None and tables.events is not None and rows_sha256(tables.events) != expected:
        raise DataError(
            f"the rows are not those that this data set has (their SHA-256 is not {expected}): the file was changed"
        )


def require_row_counts(tables: Tables, n_rows: int | None, n_listed: int | None) -> None:
    """Raise unless the tables have as many rows as they should: a file may be cut off, or that of another data set.

    ``n_rows`` and ``n_listed`` are the expected lengths of `Tables.events` and `Tables.authors`; None: not known.
    """
    for frame, expected in ((tables.events, n_rows), (tables.authors, n_listed)):
        if frame is not None and expected is not None and frame.height != expected:
            raise DataError(f"{frame.height:,} rows, expected {expected:,}: cut off, or the file of another data set")
