"""Attributes of users and items, brought into the order of their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tastespace.data.ids import IdMap, id_series
from tastespace.data.tables import to_polars
from tastespace.errors import DataError

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

_TITLES = ("title", "name")
_TEXT = (pl.String, pl.Categorical, pl.Enum)
_MOST_CATEGORIES = 1000


def aligned_attributes(frame: IntoFrame | None, ids: IdMap, kind: str, column: str) -> pl.DataFrame | None:
    """A frame of attributes in the order of ``ids``; ids without a row get nulls."""
    if frame is None:
        return None
    given, _ = to_polars(frame)
    key = next((name for name in (column, kind) if name in given.columns), None)
    if key is None:
        names = " or ".join(map(repr, dict.fromkeys((column, kind))))
        raise DataError(
            f"the {kind} attributes have no column {names} to join by; their columns are "
            f"{', '.join(map(repr, given.columns))}."
        )
    given = given.rename({key: kind}).with_columns(id_series(given[key], key).alias(kind))
    repeated = given[kind].is_duplicated()
    if repeated.any():
        raise DataError(f"the {kind} attributes hold {given[kind].filter(repeated)[0]!r} more than once.")
    place = ids.find(given[kind])
    if (place < 0).all() and len(place):
        raise DataError(
            f"none of the {len(place):,} rows of {kind} attributes belongs to one of the {len(ids):,} {kind}s: ids "
            f"such as {given[kind][0]!r} against {ids[0]!r}. Give both the same type."
        )
    row_of = np.full(len(ids), -1, dtype=np.int64)
    row_of[place[place >= 0]] = np.flatnonzero(place >= 0)
    rows = pl.Series(row_of)
    taken = given.select(pl.all().gather(pl.select(pl.when(rows >= 0).then(rows)).to_series()))
    return taken.with_columns(ids.series.alias(kind)).select(kind, pl.exclude(kind))


def title_column(attributes: pl.DataFrame | None) -> str | None:
    """The attribute that names an item, if there is one."""
    columns = [] if attributes is None else attributes.columns
    return next((name for name in _TITLES if name in columns), None)


def category_column(attributes: pl.DataFrame | None) -> str | None:
    """The attribute that looks like categories: the first of lists of text, else the first text that repeats itself.

    >>> category_column(pl.DataFrame({"item": [1, 2], "title": ["A", "B"], "genres": [["x"], ["x", "y"]]}))
    'genres'
    """
    columns = [] if attributes is None else [c for c in attributes.get_columns()[1:] if c.name not in _TITLES]
    lists = (c.name for c in columns if isinstance(c.dtype, (pl.List, pl.Array)) and c.dtype.inner in _TEXT)
    return next(lists, None) or next((c.name for c in columns if c.dtype in _TEXT and is_category(c)), None)


def is_category(column: pl.Series) -> bool:
    """Whether the values of a column of text repeat themselves, as categories do."""
    known = column.drop_nulls()
    # Free text hardly ever repeats; a category has two items or more on average.
    return 0 < 2 * known.n_unique() <= len(known) and known.n_unique() <= _MOST_CATEGORIES
