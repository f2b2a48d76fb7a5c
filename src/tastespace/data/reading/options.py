"""Options for reading a table of interactions: columns, filters, attributes, and the layout of text files.

`ReadOptions` documents and checks all of them. The dictionaries name those that a public function accepts, so that
editors complete them and type checkers know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from tastespace._util.checks import is_whole, require_whole
from tastespace.errors import Argument, ParameterError, nearest

if TYPE_CHECKING:
    import polars as pl
    from narwhals.typing import IntoFrame
    from numpy.typing import NDArray

    from tastespace.data.interactions import Interactions

COLUMNS = ("user", "item", "rating", "weight", "timestamp", "kind")
"""Options that name a column of the table."""
EVENTS = {"view": 1.0, "click": 1.0, "play": 1.0, "like": 3.0, "cart": 3.0, "purchase": 5.0, "dislike": -1.0}
"""Weights of kinds of events, where none are given."""
DISLIKE = -1.0
"""Weight of the kinds that are dislikes."""
ALL_WITH_ATTRIBUTES = "attributes"
"""Value of ``catalog``."""
_MERGES = ("sum", "last", "max", "error")


class IdArguments(TypedDict, total=False):
    """Options of `tastespace.cluster.fit_files`; all are described in `ReadOptions`."""

    user: str | int
    item: str | int
    min_user: int
    min_item: int


class ColumnArguments(TypedDict, total=False):
    """Options of functions that take held-out interactions as a frame: `tastespace.evaluate`."""

    user: str | int
    item: str | int
    rating: str | int | None
    min_rating: float | None
    weight: str | int | None
    timestamp: str | int | None
    kind: str | int | None
    events: Mapping[str, float] | None
    target: str | Interactions | None
    duplicates: str
    date_format: str | None
    query: str | None


class TableArguments(ColumnArguments, total=False):
    """Options of functions that take a frame among other arguments: `fit`, `partial_fit`, `tune` and others."""

    min_user: int
    min_item: int
    core: bool
    catalog: Sequence[Any] | pl.Series | NDArray[Any] | str | None
    item_attributes: IntoFrame | None
    user_attributes: IntoFrame | None
    part: bool


class FrameArguments(TableArguments, total=False):
    """Options of `Interactions.from_frame` and `Interactions.from_recbole`."""

    threads: int


class FileArguments(FrameArguments, total=False):
    """Options of `Interactions.from_file` and `Interactions.from_files`."""

    delimiter: str | None
    header: bool | None
    encoding: str | None
    spill: str | Path | None
    memory: int | str


@dataclass(frozen=True)
class FileLayout:
    """Format of a file, and the columns that are read from it."""

    delimiter: str | None = None
    """Separates the fields of text; None: recognized."""
    header: bool | None = None
    """True if the first line of text names the columns; None: recognized."""
    encoding: str | None = None
    """Name of the encoding, such as ``"cp1252"``. None: UTF-8, or UTF-16 and UTF-32, which are recognized."""
    ids: tuple[str, ...] = ()
    """Columns of ids that will be read."""
    others: tuple[str, ...] = ()
    """Other columns that will be read."""
    dates: tuple[str, ...] = ()
    """Those of ``others`` that hold times: they stay text unless they are numbers."""


ANY_LAYOUT = FileLayout()


@dataclass(frozen=True, eq=False)
class ReadOptions:
    """Options for reading a table, as `Interactions.from_frame`, `Interactions.from_file` and others take them.

    `Interactions.from_frame` and `Interactions.from_recbole` take all but those of text files (``delimiter``,
    ``header``, ``encoding``), of databases (``query``), and of tables larger than memory (``spill``, ``memory``).

    >>> ReadOptions(user="who", min_rating=4)
    Traceback (most recent call last):
    tastespace.errors.ParameterError: min_rating=4 needs rating=, the name of the rating column.
    """

    user: str = "user"
    """Name of the column of user ids. Ids may be whole numbers, strings, dates, ... and are returned as they were
    given. Columns of a text file without a header may be given by their numbers, counted from 1."""
    item: str = "item"
    """Name of the column of item ids."""
    rating: str | None = None
    """Column of ratings, which only selects rows, with ``min_rating``; without it, all rows count as liked, and a
    warning says how many of them have low ratings. The ratings are not kept: for that, name the column in ``weight``,
    too."""
    min_rating: float | None = None
    """Keep the rows with at least this rating; the lowest rating keeps all of them."""
    weight: str | None = None
    """Column of finite numbers that say how strong an interaction is (play counts, hours, ...); may be the column of
    ratings. Models that can use weights do, the others refuse them (`Interactions.without_weights`)."""
    timestamp: str | None = None
    """Column of times (numbers, dates or dates as text) for `split.by_time` and `split.leave_k_out`; models do not see
    it. Of a repeated pair the latest time is kept."""
    kind: str | None = None
    """Column that says what happened: view, cart, purchase, dislike, ... An interaction then weighs as much as its kind
    in ``events``, times ``weight`` where that is given. Dislikes are kept apart, in `Interactions.dislikes`. Of a pair
    that is liked and disliked the later one holds by ``timestamp``, else the dislike."""
    events: Mapping[str, float] | None = None
    """Weight of each kind: above 0, 0 to leave its rows out, -1 for a dislike. By default view, click and play 1, like
    and cart 3, purchase 5, dislike -1. Other kinds in the table are an error."""
    target: str | None = None
    """Read the rows of this kind alone, such as ``"purchase"``, for held-out interactions."""
    min_user: int = 1
    """Drop users with fewer interactions."""
    min_item: int = 1
    """Drop items with fewer interactions, counted after users were dropped."""
    core: bool = False
    """Drop users and items again and again until ``min_user`` and ``min_item`` hold for all (the k-core); without it
    users first, then items, once."""
    duplicates: str = "sum"
    """A pair of user and item in several rows is one interaction. Its weight is their ``"sum"``, the ``"last"`` (by
    time, else by row) or the ``"max"``; ``"error"`` refuses repeats. Without ``weight`` the first three mean the same:
    the pair counts once."""
    catalog: Sequence[Any] | pl.Series | NDArray[Any] | str | None = None
    """Item ids that exist even where no user has them; with it, no item is dropped from the id map. Items outside it
    are an error. ``"attributes"``: the items of the table and those in ``item_attributes``, which by default are left
    out, with a warning, where nobody has them."""
    item_attributes: IntoFrame | None = None
    """Frame with the id in column ``item``, or in a column named as in the table, and any other columns (title, genres,
    ...)."""
    user_attributes: IntoFrame | None = None
    """Frame of the users' attributes, with the id in column ``user`` or in a column named as in the table."""
    date_format: str | None = None
    """Format of dates as text, such as ``"%m/%d/%Y"``; recognized unless given. Dates such as 01/02/2024, which can be
    read in two ways, are taken as day/month/year with a warning."""
    part: bool = False
    """The table is a part of larger data, such as an update or held-out interactions: one user or item is enough,
    otherwise two are needed."""
    threads: int = 0
    """0 means all cores."""
    delimiter: str | None = None
    """Separates the fields of text files, such as ``";"`` or ``"::"``; recognized unless given."""
    header: bool | None = None
    """True if the first line of text files names the columns; recognized unless given. Without a header the columns are
    ``column_1``, ``column_2``, ..."""
    encoding: str | None = None
    """Encoding of text files, such as ``"cp1252"``. By default UTF-8; UTF-16 and UTF-32 are recognized."""
    query: str | None = None
    """A statement for the database at an address (``postgresql://...``, ``sqlite://FILE``, ``duckdb://FILE`` or an
    address of SQLAlchemy), whose rows are the table."""
    spill: str | Path | None = None
    """A folder of its own in which the table is built, for tables larger than memory. Rows are sorted in passes that
    hold a part of them, and the arrays are mapped files; the result is the same. Only ids stay in memory.
    `tastespace.data.out_of_core.files.open_spilled` opens the folder again."""
    memory: int | str = "1GB"
    """Memory of the passes with ``spill``, besides the ids: bytes, or text such as ``"500MB"``. A text file or one of
    JSON lines is parsed as a whole, so that a large one is better written as Parquet."""

    def __post_init__(self) -> None:
        if self.duplicates not in _MERGES:
            raise ParameterError(Argument("duplicates", self.duplicates), f": expected one of {', '.join(_MERGES)}.")
        if self.min_rating is not None and (
            isinstance(self.min_rating, (bool, str)) or not np.isfinite(self.min_rating)
        ):
            raise ParameterError(Argument("min_rating", self.min_rating), ": expected a number.")
        if self.min_rating is not None and self.rating is None:
            raise ParameterError(
                Argument("min_rating", self.min_rating),
                " needs ",
                Argument("rating"),
                ", the name of the rating column.",
            )
        if isinstance(self.catalog, str):
            if self.catalog != ALL_WITH_ATTRIBUTES:
                raise ParameterError(
                    Argument("catalog", self.catalog), f": expected item ids, or {ALL_WITH_ATTRIBUTES!r} for all items "
                    "that have attributes."
                )  # fmt: skip
            if self.item_attributes is None:
                raise ParameterError(Argument("catalog", self.catalog), " needs ", Argument("item_attributes"), ".")
        if self.user == self.item:
            raise ParameterError(f"user and item are the same column, {self.user!r}.")
        if self.date_format is not None and self.timestamp is None:
            raise ParameterError(
                Argument("date_format", self.date_format),
                " needs ",
                Argument("timestamp"),
                ", the name of the column of times.",
            )
        if self.query is not None and (not isinstance(self.query, str) or not self.query.strip()):
            raise ParameterError(
                Argument("query", self.query), ": expected a statement: SELECT user, item FROM clicks."
            )
        require_whole("min_user", self.min_user, 0)
        require_whole("min_item", self.min_item, 0)
        self._check_kinds()

    def _check_kinds(self) -> None:
        for name in ("events", "target"):
            given = getattr(self, name)
            if given is not None and self.kind is None:
                raise ParameterError(
                    Argument(name, dict(given) if name == "events" else given), " needs ", Argument("kind"), ", the "
                    "name of the column of kinds of events."
                )  # fmt: skip
        if self.events is not None:
            check_events(self.events)
        if self.kind is None:
            return
        if self.target is not None and self.weight_of_kind.get(self.target, 0.0) <= 0:
            raise ParameterError(
                Argument("target", self.target), f": expected a kind that people want, one of {self._wanted_kinds()}."
            )
        if self.spill is not None:
            raise ParameterError(Argument("kind", self.kind), " cannot be read with ", Argument("spill"), " yet. "
                "Leave one of them out.")  # fmt: skip

    @property
    def weight_of_kind(self) -> dict[str, float]:
        """Weight of each kind of event."""
        return dict(EVENTS if self.events is None else self.events)

    def _wanted_kinds(self) -> str:
        return ", ".join(name for name, weight in self.weight_of_kind.items() if weight > 0)

    @classmethod
    def of(cls, function: str, accepted: type, given: Mapping[str, Any]) -> ReadOptions:
        """Return the options that a function was given; an unknown name is an error with the nearest one.

        ``accepted`` is the dictionary type of its options. Of files, columns may be given by number.

        >>> ReadOptions.of("from_file", FileArguments, {"user": 1, "item": 2}).user
        'column_1'
        >>> ReadOptions.of("fit_files", IdArguments, {"rating": "stars"})
        Traceback (most recent call last):
        tastespace.errors.ParameterError: fit_files has no argument 'rating'; it takes user, item, min_user, min_item.
        """
        require_arguments(function, accepted, given)
        if accepted is not FileArguments:
            return cls(**given)
        return cls(**{name: _column_name(value) if name in COLUMNS else value for name, value in given.items()})

    def columns(self) -> dict[str, str | None]:
        """Name of the column of each role."""
        return {role: getattr(self, role) for role in COLUMNS}

    def layout(self) -> FileLayout:
        """Format of the files, and the columns that are read from them."""
        others = tuple(column for column in (self.rating, self.weight, self.kind, self.timestamp) if column is not None)
        # A column of times may be that of ratings or weights, which are numbers.
        is_date = self.timestamp is not None and self.timestamp not in (self.rating, self.weight)
        return FileLayout(
            delimiter=self.delimiter,
            header=self.header,
            encoding=self.encoding,
            ids=(self.user, self.item),
            others=others,
            dates=others[-1:] if is_date else (),
        )


def check_events(events: Mapping[str, float]) -> None:
    """Raise unless these are weights of kinds of events.

    >>> check_events({"view": 1, "refund": -3})
    Traceback (most recent call last):
    tastespace.errors.ParameterError: events: 'refund' has weight -3; expected a number from 0, or -1 for a dislike.
    """
    if not isinstance(events, Mapping) or not events or not all(isinstance(name, str) and name for name in events):
        raise ParameterError(
            Argument("events", events), ': expected the weight of each kind, such as {"view": 1, "dislike": -1}.'
        )
    for name, weight in events.items():
        is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool) and np.isfinite(weight)
        if not is_number or (weight < 0 and weight != DISLIKE):
            raise ParameterError(
                f"events: {name!r} has weight {weight!r}; expected a number from 0, or -1 for a dislike."
            )
    if not any(weight > 0 for weight in events.values()):
        raise ParameterError(Argument("events", dict(events)), ": no kind has a weight above 0.")


def require_arguments(function: str, accepted: type, given: Iterable[str], takes: str = "it takes") -> None:
    """Raise unless all names are options of the dictionary type ``accepted``."""
    known = list(accepted.__annotations__)
    for name in given:
        if name not in known:
            raise ParameterError(
                f"{function} has no argument {name!r}; {takes} {', '.join(known)}.{nearest(name, known)}"
            )


def _column_name(column: Any) -> Any:
    """Return the name of a column; one given by its number has that of a file without a header.

    >>> _column_name(2), _column_name("sku")
    ('column_2', 'sku')
    """
    return f"column_{column}" if is_whole(column) else column
