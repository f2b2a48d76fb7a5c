"""Names for interests and items, from the attributes of the items."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.data.attributes import title_column
from tastespace.data.categories import Categories, category_column, item_categories
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, nearest

_SHARE = 0.2  # a category must hold this much of an interest to name it
_WORDS = 2


class Labeler:
    """Says in words what a set of items has in common.

    Categories come from ``column``, by default the one that looks like categories: see `tastespace.data.categories`.
    """

    def __init__(
        self, train: Interactions, column: str | None = None, popularity_source: Interactions | None = None
    ) -> None:
        self._train = train
        self._popularity_source = popularity_source or train  # whose interactions say what is common
        self._frame = train.item_attributes
        if column is not None and (self._frame is None or column not in self._frame.columns):
            known = [] if self._frame is None else self._frame.columns
            raise DataError(
                f"the items have no attribute {column!r}; they have {', '.join(map(repr, known)) or 'none'}."
                + nearest(column, known)
            )
        self._column = column if column is not None else category_column(self._frame)

    def label(self, rows: NDArray[np.integer[Any]]) -> str | None:
        """What the items at these rows have more of than the rest, such as "Film-Noir, Crime"; None: nothing known.

        A category counts by p log(p / q), with p its share among these items and q its share of all interactions: what
        is common here and rare elsewhere.
        """
        if self._categories is None or not len(rows):
            return None
        categories, base = self._categories
        share = np.asarray(categories.membership[rows].sum(axis=0)).ravel() / len(rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(share > base, share * np.log(share / np.maximum(base, 1e-6)), 0.0)
        best = [c for c in np.argsort(-gain, kind="stable")[:_WORDS] if gain[c] > 0 and share[c] >= _SHARE]
        return ", ".join(categories.names[c] for c in best) or None

    def titles(self, rows: NDArray[np.integer[Any]]) -> list[str]:
        """Titles of these items where there are any, else their ids."""
        at = pl.Series(np.ascontiguousarray(rows), dtype=pl.UInt32)
        ids = [str(item) for item in self._train.items.take(rows).to_list()]
        column = title_column(self._frame)
        if column is None or self._frame is None:
            return ids
        names = self._frame[column].gather(at).cast(pl.String, strict=False).to_list()
        return [name or item for name, item in zip(names, ids, strict=True)]

    @cached_property
    def _categories(self) -> tuple[Categories, NDArray[np.float64]] | None:
        """The items' categories, and the share of interactions with each."""
        if self._column is None or self._frame is None:
            return None
        categories = item_categories(self._frame[self._column])
        if not categories.names:
            return None
        counts = self._popularity_source.item_counts
        return categories, np.asarray(counts @ categories.membership).ravel() / max(1, counts.sum())
