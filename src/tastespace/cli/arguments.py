"""Arguments of the commands as the library needs them: models, parameters, ids and files of attributes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
import typer

from tastespace._util.addresses import shown_address
from tastespace._util.terminal import Console
from tastespace.answers.display import Display
from tastespace.data.attributes import aligned_attributes, title_column
from tastespace.data.ids import IdMap, parse_ids, parsed
from tastespace.data.interactions import Interactions
from tastespace.data.reading.options import DISLIKE, FileLayout
from tastespace.data.reading.sources import local_files
from tastespace.data.reading.tables import files_of, open_file, to_polars
from tastespace.data.reading.text_tables import read_text, shown_names
from tastespace.errors import DataError, ParameterError, nearest
from tastespace.models import Recommender
from tastespace.recommend.labels import Labeler
from tastespace.store import load

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

DelimiterOption = Annotated[
    str | None,
    typer.Option(help="Separator of the fields of text files, such as ';' or tab; recognized unless given."),
]
NoHeaderOption = Annotated[
    bool,
    typer.Option("--no-header", help="The interactions have no header: name columns by number, --user 1 --item 2."),
]
EncodingOption = Annotated[str | None, typer.Option(help="Encoding of text files, such as cp1252; by default UTF-8.")]
DateFormatOption = Annotated[
    str | None, typer.Option(help="Format of the dates in --timestamp, such as %m/%d/%Y; recognized unless given.")
]
QueryOption = Annotated[
    str | None,
    typer.Option(help="Statement for the database at the address of the data: 'SELECT user, item FROM clicks'."),
]
ItemsIdOption = Annotated[
    str | None, typer.Option(help="Column of item ids in --items; by default as in the interactions, or item.")
]
_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}


@dataclass(frozen=True)
class TextFlags:
    """Form of the text files of a command: `--delimiter`, `--no-header`, `--encoding`, `--date-format`."""

    delimiter: str | None = None
    no_header: bool = False
    encoding: str | None = None
    date_format: str | None = None

    def column(self, flag: str, name: str | None, default: str | None = None) -> str | int | None:
        """A column as the library names it: with `--no-header` by its number."""
        if not self.no_header:
            return default if name is None else name
        if name is None:
            return None if default is None else _USUAL_PLACE[default]
        number = name.removeprefix("column_")
        if not number.isdecimal() or not int(number):
            raise ParameterError(f"{flag} {name}: with --no-header columns are numbers, 1, 2, ...")
        return int(number)

    def for_reader(self) -> dict[str, Any]:
        """The arguments of `Interactions.from_files`."""
        return {
            "delimiter": self._delimiter(),
            "header": False if self.no_header else None,
            "encoding": self.encoding,
            "date_format": self.date_format,
        }

    def _delimiter(self) -> str | None:
        return None if self.delimiter is None else _DELIMITER_NAMES.get(self.delimiter.lower(), self.delimiter)


_USUAL_PLACE = {"user": 1, "item": 2}
PLAIN_TEXT = TextFlags()


def print_notes(data: Interactions, messages: Console) -> None:
    """Say what was done to the rows that a person may not expect: repeated pairs."""
    if data.cleaning.duplicates:
        what = "has the sum of their weights" if data.weights is not None else "counts once"
        messages.print(
            f"note: {data.cleaning.duplicates:,} of {data.cleaning.rows:,} rows repeat a pair of user and item, which "
            f"{what}.",
            highlight=False,
            markup=False,
        )


def print_users_without_rows(frame: pl.DataFrame, users: Iterable[Any], limits: dict[str, Any]) -> None:
    """Say that nothing is left to recommend to some of these users; ``limits`` are the flags that may be the reason."""
    having = set(frame["user"].to_list())
    without = [user for user in users if user not in having]
    if not without:
        return
    named = ", ".join(map(repr, without[:3])) + (f" and {len(without) - 3:,} more" if len(without) > 3 else "")
    given = [flag for flag, value in limits.items() if value]
    among = f" that {' and '.join(given)} leave{'s' * (len(given) == 1)}" if given else ""
    Console(stderr=True, soft_wrap=True).print(
        f"note: nothing is left to recommend to user {named}, who has every item{among}. --include-seen recommends "
        "items that a user has, too.",
        highlight=False,
        markup=False,
    )


ModelArgument = Annotated[Path, typer.Argument(help="Directory of a saved model.")]
ImagesOption = Annotated[
    str,
    typer.Option(
        "--images",
        help="Item attribute with addresses of pictures, which the page loads; auto: one called image, picture, "
        "poster, ...; none: no pictures.",
    ),
]
HideCategoryOption = Annotated[
    list[str] | None,
    typer.Option("--hide-category", help="A category that is neither shown nor part of names; may be repeated."),
]


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """``["dim=50", "sampler=hars", "dcrs=none"]`` as parameters: numbers, true/false, none and JSON are understood.

    >>> parse_settings(["dim=50", "margin=0.5", "sampler=hars", "dcrs=none", "layers=[16, 8]"])
    {'dim': 50, 'margin': 0.5, 'sampler': 'hars', 'dcrs': None, 'layers': [16, 8]}
    """
    found: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise ParameterError(f"--set {setting}: expected key=value, such as --set dim=50.")
        try:
            found[name.strip()] = _setting_value(text.strip())
        except (ValueError, RecursionError) as problem:
            raise ParameterError(
                f"--set {setting}: {text.strip()!r} is not valid JSON ({problem}); expected a list such as [16, 8] or "
                'an object such as {"epochs": 1}.'
            ) from problem
    return found


def _setting_value(text: str) -> Any:
    plain = {"none": None, "true": True, "false": False}
    if text.lower() in plain:
        return plain[text.lower()]
    if text[:1] in ("[", "{"):
        return json.loads(text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def open_model(path: Path) -> Recommender:
    """The saved model at this path."""
    return load(path)


def read_attributes(path: str | Path, column: str, kind: str, text: TextFlags = PLAIN_TEXT) -> pl.DataFrame:
    """A file or address of attributes: Parquet, JSON lines, or text with a header, in which ids stay as written.

    A given delimiter that the header does not have is that of another file of the command: it is then recognized.
    """
    with local_files(files_of(path)) as files:
        return pl.concat([_read_attributes(one, column, kind, text) for one in files], how="vertical_relaxed")


def _read_attributes(path: str | Path, column: str, kind: str, text: TextFlags) -> pl.DataFrame:
    how = text.for_reader()
    delimiter, encoding = how["delimiter"], how["encoding"]
    columns = open_file(path, FileLayout(delimiter, True, encoding)).columns
    if len(columns) == 1 and delimiter is not None:
        delimiter = None
        columns = open_file(path, FileLayout(None, True, encoding)).columns
    ids = tuple(name for name in (column, kind) if name in columns)[:1]
    table = open_file(path, FileLayout(delimiter, True, encoding, ids=ids, others=tuple(columns)))
    return pl.DataFrame([table.read(name).alias(name) for name in columns])


def read_items(path: str | Path, column: str | int | None, items_id: str | None, text: TextFlags) -> pl.DataFrame:
    """`--items`: item attributes; ``items_id`` names the column of their ids, which is called ``item`` then."""
    usual = column if isinstance(column, str) else "item"
    frame = read_attributes(path, items_id or usual, "item", text)
    if items_id is None:
        return frame
    if items_id not in frame.columns:
        raise DataError(
            f"--items-id {items_id}: {shown_address(path)} has no such column; its columns are "
            f"{shown_names(frame.columns)}." + nearest(items_id, frame.columns)
        )
    return frame.drop("item" if items_id != "item" else [], strict=False).rename({items_id: "item"})


def read_user_features(
    path: Path, train: Interactions, column: str = "user", text: TextFlags = PLAIN_TEXT
) -> pl.DataFrame:
    """A file with the features of cold-start users, their ids in the type of the model's user ids where possible."""
    return _with_ids(path, read_attributes(path, column, "user", text), train.users, column, "user")


def read_item_attributes(
    path: str | Path,
    train: Interactions,
    column: str | int | None = "item",
    items_id: str | None = None,
    text: TextFlags = PLAIN_TEXT,
) -> pl.DataFrame | None:
    """A file of item attributes in the order of the model's items; ids are in this column, else in ``item``."""
    frame = read_items(path, column, items_id, text)
    usual = column if isinstance(column, str) else "item"
    key = next((name for name in (usual, "item") if items_id is None and name in frame.columns), "item")
    if items_id is None and key not in frame.columns:
        key = usual
    return aligned_attributes(_with_ids(path, frame, train.items, key, "item"), train.items, "item", "item")


def _with_ids(path: str | Path, frame: pl.DataFrame, ids: IdMap, column: str, kind: str) -> pl.DataFrame:
    """The frame with its ids in the column ``kind``, in the type of ``ids`` where possible."""
    if column not in frame.columns:
        raise DataError(
            f"{shown_address(path)} has no column {column!r} of {kind} ids; its columns are "
            f"{', '.join(map(repr, frame.columns))}." + nearest(column, frame.columns)
        )
    if column != kind:
        frame = frame.drop(kind, strict=False).rename({column: kind})
    return frame.with_columns(_cast(ids, frame[kind]).alias(kind))


def read_histories(texts: list[str], files: list[Path], text: TextFlags = PLAIN_TEXT) -> list[list[str]]:
    """`--history` and `--history-file`: lists of item ids, as text.

    Ids are separated by commas; one with a comma stands in quotes, as in CSV files. A line of a file is a history.

    >>> read_histories(["tea,jam", '"milk, 1 l",rye'], [])
    [['tea', 'jam'], ['milk, 1 l', 'rye']]
    """
    lines = [(f"--history {one}", one, ",") for one in texts]
    for path in files:
        how = text.for_reader()
        content = read_text(path, how["encoding"])
        rows = [line for line in content.splitlines() if line.strip()]
        if not rows:
            raise DataError(f"--history-file {path}: no history in it; expected lines of item ids with commas.")
        lines += [(f"--history-file {path}, line {at}", one, how["delimiter"] or ",") for at, one in enumerate(rows, 1)]
    return [_split_ids(*line) for line in lines]


def _split_ids(where: str, line: str, delimiter: str) -> list[str]:
    try:
        fields = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True), [])
    except (csv.Error, TypeError) as problem:
        raise ParameterError(
            f"{where}: cannot be split at {delimiter!r} ({problem}); an id that holds one stands in quotes."
        ) from problem
    return [field.strip() for field in fields if field.strip()]


def parse_known(ids: IdMap, texts: list[str], on_unknown: str) -> list[Any]:
    """Return ids in the type of ``ids``; unknown ones are an error if ``on_unknown`` is ``"error"``, else left out."""
    typed = parse_ids(ids, texts)
    if on_unknown == "error":
        ids.index_of(typed)
        return typed
    return [one for one in typed if one in ids]


def cast_ids(data: Interactions, train: Interactions) -> Interactions:
    """The same interactions with ids in the types of those in ``train``.

    Ids in a text file are numbers where all of them are written like numbers, which may hold for one file and not for
    the next.
    """
    frame = to_polars(data.to_frame())[0]
    disliked = data.dislikes
    if disliked is not None:
        taken, also = frame.with_columns(kind=pl.lit("taken")), disliked.with_columns(kind=pl.lit("dislike"))
        numbers = pl.col("^(weight|timestamp)$").fill_null(0)
        frame = pl.concat([taken, also], how="diagonal_relaxed").with_columns(numbers)
    typed = frame.with_columns(_cast(train.users, frame["user"]), _cast(train.items, frame["item"]))
    if typed.schema == frame.schema:
        return data
    tables: dict[str, Any] = {}
    for kind, ids, table in (
        ("user", train.users, data.user_attributes),
        ("item", train.items, data.item_attributes),
    ):
        if table is not None:
            tables[f"{kind}_attributes"] = table.with_columns(_cast(ids, table[kind]))
    weight, timestamp = (name if name in typed.columns else None for name in ("weight", "timestamp"))
    kinds: dict[str, Any] = {}
    if disliked is not None:
        kinds = {"kind": "kind", "events": {"taken": 1.0, "dislike": DISLIKE}}
    found = Interactions.from_frame(typed, weight=weight, timestamp=timestamp, part=True, **kinds, **tables)
    return replace(found, cleaning=data.cleaning, events=data.events, weights=found.weights if weight else None)


def _cast(ids: IdMap, column: pl.Series) -> pl.Series:
    kind = ids.series.dtype
    if kind == pl.String and column.dtype.is_integer():
        return column.cast(pl.String)
    typed = parsed(column, kind) if column.dtype == pl.String else column
    return column if typed.null_count() else typed


def replace_by_titles(frame: pl.DataFrame, train: Interactions, columns: tuple[str, ...]) -> pl.DataFrame:
    """A frame with titles in place of ids in these columns, which hold lists of items."""
    labeler = Labeler(train)
    for column in columns:
        lists = [labeler.titles(train.items.find(items)) if len(items) else [] for items in frame[column]]
        frame = frame.with_columns(pl.Series(column, lists, dtype=pl.List(pl.String)))
    return frame


def add_titles(frame: IntoFrame, train: Interactions, of: str = "item") -> pl.DataFrame:
    """A frame of recommendations with the titles of the items in column ``of``, where they have any."""
    found = to_polars(frame)[0]
    attributes = train.item_attributes
    column = title_column(attributes)
    if attributes is None or column is None:
        return found
    titles = attributes[column].gather(pl.Series(train.items.find(found[of]), dtype=pl.UInt32))
    at = found.columns.index(of) + 1
    return found.insert_column(at, titles.alias("title"))


def display_of(images: str, hide_categories: Sequence[str] | None) -> Display:
    """The pictures and categories that a page shows."""
    return Display(None if images == "none" else images, tuple(hide_categories or ()))
