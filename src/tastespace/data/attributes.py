"""Attributes of users and items, brought into the order of their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tastespace.data.ids import IdMap, id_series
from tastespace.data.tables import to_polars
from tastespace.errors import DataError, nearest
from tastespace.threads import require_polars

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

TITLES = ("title", "name")


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
    require_polars(f"a table of {kind} attributes")
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


def item_titles(attributes: pl.DataFrame | None, column: bool | str) -> pl.Series:
    """The title of each item as text: from this column, or where ``column`` is True from the one that names items."""
    if attributes is None:
        raise DataError("the items have no attributes, so no titles; model.set_item_attributes gives them some.")
    known = attributes.columns
    found = title_column(attributes) if column is True else column
    if not isinstance(found, str) or found not in known:
        wanted = f"called {' or '.join(TITLES)}" if found is None else repr(found)
        raise DataError(
            f"titles={column!r}: there is no item attribute {wanted}; there are {', '.join(map(repr, known[1:]))}. "
            f"Name the one that holds the titles.{nearest(found, known[1:]) if found else ''}"
        )
    titles = attributes[found]
    return titles.cast(pl.List(pl.String)).list.join(", ") if titles.dtype == pl.List else titles.cast(pl.String)


def title_column(attributes: pl.DataFrame | None) -> str | None:
    """The attribute that names an item, if there is one."""
    columns = [] if attributes is None else attributes.columns
    return next((name for name in TITLES if name in columns), None)
