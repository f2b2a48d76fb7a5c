"""What the page says of items: ids as JSON has them, titles, one category each, popularity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.computed_once import computed_once
from tastespace.data.attributes import category_column, item_categories, item_titles, title_column
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions

Rows = NDArray[np.integer[Any]]
_FREQUENT = 0.03  # share of the items from which on a category stands for an item before larger ones do


def json_ids(ids: pl.Series) -> list[int | str]:
    """Ids as JSON has them: whole numbers as they are, all others as text.

    >>> json_ids(pl.Series([3, 5])), json_ids(pl.Series(["a", "b"]))
    ([3, 5], ['a', 'b'])
    """
    if ids.dtype.is_integer():
        return ids.to_list()
    return [str(one) for one in ids.to_list()]


def row_of_text(ids: IdMap, text: str) -> int:
    """Row of the id that is written like this in a path; -1 where there is none.

    >>> row_of_text(IdMap(pl.Series([3, 5])), "5"), row_of_text(IdMap(pl.Series([3, 5])), "five")
    (1, -1)
    """
    if ids.series.dtype.is_integer():
        try:
            return int(ids.find([int(text)])[0])
        except (ValueError, OverflowError):
            return -1
    if ids.series.dtype == pl.String:
        return int(ids.find([text])[0])
    found = [row for row, one in enumerate(json_ids(ids.series)) if one == text]
    return found[0] if found else -1


def row_of_value(ids: IdMap, value: Any) -> int:
    """Row of an id as JSON has it; -1 where there is none, or the type is another."""
    if ids.series.dtype.is_integer() != (isinstance(value, int) and not isinstance(value, bool)):
        return -1
    return row_of_text(ids, str(value))


@dataclass(frozen=True, eq=False)
class ItemColumns:
    """Columns of all items, in the order of ``train.items``."""

    train: Interactions
    source: Interactions
    """Whose interactions say what is popular."""

    @cached_property
    def ids(self) -> list[int | str]:
        """Ids as JSON has them."""
        return json_ids(self.train.items.series)

    @cached_property
    def titles(self) -> list[str | None]:
        """Titles, where the items have any."""
        frame = self.train.item_attributes
        if title_column(frame) is None:
            return [None] * self.train.n_items
        return item_titles(frame, True).to_list()

    @cached_property
    def category_column(self) -> str | None:
        """The attribute that holds categories."""
        return category_column(self.train.item_attributes)

    @cached_property
    def _categories(self) -> tuple[list[str], NDArray[np.int64]]:
        frame, column = self.train.item_attributes, self.category_column
        if frame is None or column is None:
            return [], np.full(self.train.n_items, -1)
        return computed_once(frame, ("one category", column), lambda: one_category(frame[column]))

    @property
    def category_names(self) -> list[str]:
        """Categories that stand for at least one item, the most frequent first."""
        return self._categories[0]

    @property
    def category_codes(self) -> NDArray[np.int64]:
        """Place of each item's category in `category_names`, -1 without one."""
        return self._categories[1]

    def ids_at(self, rows: Rows) -> list[int | str]:
        """Ids of the items at these rows, as JSON has them."""
        return [self.ids[row] for row in rows.tolist()]

    def titles_at(self, rows: Rows) -> list[str | None]:
        """Their titles."""
        return [self.titles[row] for row in rows.tolist()]

    def categories_at(self, rows: Rows) -> list[str | None]:
        """One category each."""
        return [None if code < 0 else self.category_names[code] for code in self.category_codes[rows].tolist()]

    def named(self, row: int) -> dict[str, Any]:
        """Id and title of the item at this row."""
        return {"item": self.ids[row], "title": self.titles[row]}

    def described(self, row: int) -> dict[str, Any]:
        """Id, title and category of the item at this row."""
        code = int(self.category_codes[row])
        return {**self.named(row), "category": None if code < 0 else self.category_names[code]}

    @cached_property
    def _searched(self) -> pl.Series:
        """What a search looks at: title and id in small letters."""
        ids = pl.Series([str(one) for one in self.ids])
        titles = pl.Series([title or "" for title in self.titles], dtype=pl.String)
        return (titles + " " + ids).str.to_lowercase()

    def search(self, words: str, limit: int) -> list[dict[str, Any]]:
        """Items whose title or id holds all of these words, the most popular first; all items without words."""
        found = np.ones(self.train.n_items, dtype=bool)
        for word in words.lower().split():
            found &= self._searched.str.contains(word, literal=True).to_numpy()
        rows, counts = np.flatnonzero(found), self.source.item_counts
        rows = rows[np.argsort(-counts[rows], kind="stable")][:limit]
        return [{**self.described(row), "popularity": int(counts[row])} for row in rows.tolist()]


def one_category(column: pl.Series) -> tuple[list[str], NDArray[np.int64]]:
    """One category for each item that has some: the rarest of its frequent ones, which says most; and their names.

    Frequent are categories of at least 3 % of the items; an item without such has the most frequent it has.

    >>> one_category(pl.Series([["a", "b"], ["a"], ["a"], None]))
    (['a', 'b'], array([ 1,  0,  0, -1]))
    """
    found = item_categories(column)
    membership = found.membership
    sizes = np.asarray(membership.sum(axis=0)).ravel()
    frequent = sizes >= _FREQUENT * len(column)
    # Smallest key first: frequent ones by size, then the others by falling size.
    key = np.where(frequent, sizes, 4.0 * len(column) - sizes)
    chosen = np.full(len(column), -1, dtype=np.int64)
    owner = np.repeat(np.arange(len(column)), np.diff(membership.indptr))
    order = np.lexsort((key[membership.indices], owner))
    first = order[np.unique(owner[order], return_index=True)[1]]
    chosen[owner[first]] = membership.indices[first]
    counts = np.bincount(chosen[chosen >= 0], minlength=len(found.names))
    by_size = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    place = np.full(len(found.names) + 1, -1, dtype=np.int64)
    place[by_size] = np.arange(len(by_size))
    return [found.names[code] for code in by_size], place[chosen]
