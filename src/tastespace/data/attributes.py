"""Attributes of users and items in the order of their ids: titles, and the categories (genres, tags, ...) of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace._util.threads import require_polars
from tastespace.data.ids import IdMap, id_series
from tastespace.data.reading.tables import to_polars
from tastespace.errors import Argument, Call, DataError, ParameterError, nearest

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

# ---------------------------------------------------------------------------------------------------------------------
# Attributes of users and items, brought into the order of their ids.

TITLES = ("title", "name")


def attribute_ids(frame: IntoFrame, kind: str, column: str) -> pl.Series:
    """Ids in a frame of attributes, from ``column``, or from the one called ``kind``."""
    return _with_ids(frame, kind, column)[kind]


def _with_ids(frame: IntoFrame, kind: str, column: str) -> pl.DataFrame:
    """The frame with its ids in the column called ``kind``."""
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
    for name in TITLES:
        if name in given.columns and (given[name].dtype.is_nested() or given[name].dtype in (pl.Binary, pl.Object)):
            raise DataError(
                f"the {kind} attribute {name!r} has type {given[name].dtype}: expected text, because it names the "
                f"{kind}s. Turn it into text, or give the column another name."
            )
    return given


def aligned_attributes(frame: IntoFrame | None, ids: IdMap, kind: str, column: str) -> pl.DataFrame | None:
    """A frame of attributes in the order of ``ids``; ids without a row get nulls."""
    if frame is None:
        return None
    given = _with_ids(frame, kind, column)
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
        raise DataError(
            "the items have no attributes, so no titles; ", Call("model.set_item_attributes"), " gives them some."
        )
    known = attributes.columns
    found = title_column(attributes) if column is True else column
    if not isinstance(found, str) or found not in known:
        wanted = f"called {' or '.join(TITLES)}" if found is None else repr(found)
        raise DataError(
            Argument("titles", column),
            f": there is no item attribute {wanted}; there are {', '.join(map(repr, known[1:]))}. "
            f"Name the one that holds the titles.{nearest(found, known[1:]) if found else ''}",
        )
    titles = attributes[found]
    return titles.cast(pl.List(pl.String)).list.join(", ") if titles.dtype == pl.List else titles.cast(pl.String)


def title_column(attributes: pl.DataFrame | None) -> str | None:
    """The attribute that names an item, if there is one."""
    columns = [] if attributes is None else attributes.columns
    return next((name for name in TITLES if name in columns), None)


# ---------------------------------------------------------------------------------------------------------------------
# Categories of items (genres, tags, ...): which attribute holds them, and which item belongs to which.
#
# The one place that reads them, for metrics, labels of interests, re-ranking, features and figures:
#
# | a value is            | its categories                                                 |
# | --------------------- | -------------------------------------------------------------- |
# | a list                | its elements                                                   |
# | text                  | the parts between bars: ``"Action|Comedy"`` is Action, Comedy  |
# | a number, a date, ... | the value as text; 3.0 is ``"3"``                              |
#
# Nulls, NaN and empty text are no category, and a category that an item names twice counts once.

_TEXT = (pl.String, pl.Categorical, pl.Enum)
_NAMES = ("genres", "genre", "categories", "category")
_BAR = "|"  # between the categories in one text, as files without lists have them
_BARRED = r"\S\s*\|\s*\S"
_MANY_BARRED = 0.1  # share of texts with bars from which on a column may hold several categories in each,
_REPEATED = 1 / 3  # and share of parts that occurred before: sentences hardly ever repeat
_MOST_CATEGORIES = 1000
_LARGEST_WHOLE = 2.0**63  # from here on whole numbers do not fit into Int64


@dataclass(frozen=True, eq=False)
class Categories:
    """Categories of each item; see `item_categories`."""

    names: list[str]
    """Names of the categories, ascending."""
    membership: sp.csr_array
    """1.0 where an item belongs to a category, columns in the order of `names`: shape ``(n_items, n_categories)``."""

    def table(self) -> NDArray[np.bool_]:
        """`membership` as a dense table, shape ``(n_items, n_categories)``."""
        return np.asarray(self.membership.toarray() > 0)

    def of(self, rows: NDArray[np.integer[Any]]) -> list[list[str]]:
        """Names of the categories of the items at these rows, ascending."""
        starts, codes = self.membership.indptr, self.membership.indices
        return [[self.names[code] for code in codes[starts[row] : starts[row + 1]]] for row in rows]


def item_categories(column: pl.Series) -> Categories:
    """The categories in one item attribute, a row per item.

    >>> genres = item_categories(pl.Series(["Action|Comedy", "Comedy", None]))
    >>> genres.names
    ['Action', 'Comedy']
    >>> genres.table().tolist()
    [[True, True], [False, True], [False, False]]
    >>> genres.of([0, 2])
    [['Action', 'Comedy'], []]
    """
    require_polars("the categories of items")
    pairs = category_rows(column).unique()
    names = pairs["name"].unique().sort()
    codes = names.search_sorted(pairs["name"]).to_numpy()
    places = (pairs["row"].to_numpy(), codes)
    membership = sp.csr_array((np.ones(len(pairs)), places), shape=(len(column), len(names)))
    membership.sort_indices()
    return Categories(names.to_list(), membership)


def category_rows(column: pl.Series) -> pl.DataFrame:
    """Columns ``row`` and ``name``: every category that a row names, repeats included, in the order of the rows.

    >>> category_rows(pl.Series([["b", "a"], [], ["b", None, ""]])).rows()
    [(0, 'b'), (0, 'a'), (2, 'b')]
    """
    dtype = column.dtype
    if isinstance(dtype, pl.Array):
        column = column.arr.to_list()
    is_list = isinstance(column.dtype, pl.List)
    inner = column.dtype.inner if is_list else dtype  # type: ignore[attr-defined]
    if inner.is_nested() or inner == pl.Object:
        raise DataError(
            f"column {column.name!r} holds {dtype}, which are no categories. Give text such as 'Action|Comedy', lists "
            "of text, or single values."
        )
    if inner == pl.Null:
        return pl.DataFrame(schema={"row": pl.UInt32, "name": pl.String})
    if is_list:
        names = column.list.eval(as_text(inner))
    elif dtype in _TEXT:
        names = column.cast(pl.String).str.split(_BAR).list.eval(pl.element().str.strip_chars())
    else:
        names = column.to_frame("value").select(as_text(dtype, pl.col("value"))).to_series()
    frame = names.alias("name").to_frame().with_row_index("row")
    if isinstance(names.dtype, pl.List):
        frame = frame.explode("name")
    return frame.filter(pl.col("name") != "")  # null != "" is null, which a filter drops too


def category_column(attributes: pl.DataFrame | None) -> str | None:
    """The item attribute that holds categories, None if none looks like it; the first column is the id.

    By name: genres, genre, categories or category. Else by content: the first column of lists of text or of text with
    several categories in each, else the first column of text whose values repeat. Titles are no categories.

    >>> category_column(pl.DataFrame({"item": [1, 2], "title": ["A", "B"], "genres": [["x"], ["x", "y"]]}))
    'genres'
    """
    columns = [] if attributes is None else [c for c in attributes.get_columns()[1:] if c.name not in TITLES]
    names = [c.name for c in columns]
    named = next((name for name in _NAMES if name in names), None)
    if named is not None:
        return named
    several = (c.name for c in columns if _is_list_of_text(c) or (c.dtype in _TEXT and holds_several(c)))
    return next(several, None) or next((c.name for c in columns if c.dtype in _TEXT and values_repeat(c)), None)


def require_category_column(
    attributes: pl.DataFrame | None, name: str | None, *, purpose: str | Argument, argument: str
) -> pl.Series:
    """The item attribute called ``name``, or where that is None the one that holds categories.

    Raises `ParameterError` where there is none; ``purpose`` says what needs it, ``argument`` how the caller names it.
    """
    if attributes is None:
        raise ParameterError(
            purpose,
            " needs item categories, and the data has no item attributes. ",
            Call("Build the Interactions with item_attributes="),
            ".",
        )
    columns = attributes.columns[1:]  # the first is the id
    known = f"the item attributes are {', '.join(map(repr, columns)) or 'none'}."
    if name is not None and name not in columns:
        raise ParameterError(Argument(argument, name), f": expected an item attribute; {known}{nearest(name, columns)}")
    column = category_column(attributes) if name is None else name
    if column is None:
        raise ParameterError(
            purpose,
            " needs item categories, and no item attribute looks like categories. Name one with ",
            Argument(argument),
            f"; {known}",
        )
    return attributes[column]


def values_repeat(column: pl.Series) -> bool:
    """Return True if the values of a column of text repeat, as those of a category do and those of free text do not."""
    known = column.drop_nulls()
    # A category has two items or more on average.
    return 0 < 2 * known.n_unique() <= len(known) and known.n_unique() <= _MOST_CATEGORIES


def holds_several(column: pl.Series) -> bool:
    """Return True if texts hold several categories each: many have bars, and the parts between the bars repeat.

    >>> holds_several(pl.Series(["Action|Comedy", "Comedy", "Action|Drama"]))
    True
    >>> holds_several(pl.Series(["a film | with a bar", "another one"]))
    False
    """
    barred = column.drop_nulls().cast(pl.String).str.contains(_BARRED)
    if not barred.any() or barred.sum() < _MANY_BARRED * len(barred):
        return False
    names = category_rows(column)["name"]
    return bool(len(names) - names.n_unique() >= _REPEATED * len(names))


def as_text(dtype: Any, values: pl.Expr | None = None) -> pl.Expr:
    """Values as text; 3.0 is ``"3"`` and NaN is null, as a gap makes them of whole numbers in pandas."""
    values = pl.element() if values is None else values
    if dtype.is_float():
        whole = values.is_finite() & (values == values.round()) & (values.abs() < _LARGEST_WHOLE)
        return (
            pl.when(whole)
            .then(values.cast(pl.Int64, strict=False).cast(pl.String))
            .otherwise(pl.when(values.is_nan()).then(None).otherwise(values.cast(pl.String)))
        )
    return values.cast(pl.String)


def _is_list_of_text(column: pl.Series) -> bool:
    return isinstance(column.dtype, (pl.List, pl.Array)) and column.dtype.inner in _TEXT
