"""What a source holds, in one shape for all sources, and the rules that make `Interactions` of it.

A rule sees only `Tables`, never where they came from: that is why every source gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from tastespace.data.interactions import Interactions
from tastespace.errors import DataError

SPLIT_NAMES = (("train",), ("val", "vali"), ("test",))
"""How the published lists spell the three parts."""


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
class Rule:
    """One view of a data set: which of its rows count, and which items exist."""

    about: str
    """For people, in a few words."""
    min_rating: float | None = None
    min_user: int = 1
    n_items: int | None = None
    """The catalog is 0 ... n_items - 1, items that nobody has included; None: the items that occur."""
    without: tuple[int, int] | None = None
    """A pair (user, item) to leave out."""
    warm_only: bool = False
    """Leave out the held-out new items."""
    from_authors: bool = False
    """Take the authors' own list where the source has it; the other fields say how to rebuild it."""
    values: bool = False
    """Keep weights and timestamps."""

    def build(self, tables: Tables) -> Interactions:
        """The view as `Interactions`."""
        if self.from_authors and tables.authors is not None:
            return self._interactions(tables.authors, tables, min_rating=None, min_user=1)
        if tables.events is None:
            raise DataError("only the authors' list is here, and this view needs the publisher's whole file")
        rows = tables.events
        if self.without is not None:
            user, item = self.without
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
            weight="weight" if self.values and "weight" in rows.columns else None,
            timestamp="timestamp" if self.values and "timestamp" in rows.columns else None,
            min_user=min_user,
            duplicates="last",
            catalog=None if self.n_items is None else pl.Series(np.arange(self.n_items)),
            item_attributes=tables.items,
            user_attributes=tables.users,
        )


def checked(parse: Callable[[], Tables], rows: int | None, listed: int | None) -> Tables:
    """The tables, once their number of rows is what it should be: a cut-off or another file is refused.

    ``rows`` and ``listed`` are the expected lengths of `Tables.events` and `Tables.authors`; None: not known.
    """
    tables = parse()
    for frame, expected in ((tables.events, rows), (tables.authors, listed)):
        if frame is not None and expected is not None and frame.height != expected:
            raise DataError(f"{frame.height:,} rows, expected {expected:,}: cut off, or the file of another data set")
    return tables
