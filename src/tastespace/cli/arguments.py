"""Arguments of the commands as the library needs them: models, parameters, ids and files of attributes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
import typer

from tastespace.data.attributes import aligned_attributes, title_column
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.data.tables import open_file, to_polars
from tastespace.errors import DataError, ParameterError, nearest
from tastespace.models import Recommender
from tastespace.recommend.interest_labels import Labeler
from tastespace.store import load

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

ModelArgument = Annotated[Path, typer.Argument(help="Directory of a saved model.")]


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
        except json.JSONDecodeError as problem:
            raise ParameterError(
                f"--set {setting}: {text.strip()!r} is no JSON ({problem}); expected a list such as [16, 8] or an "
                'object such as {"epochs": 1}.'
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


def read_attributes(path: Path, column: str, kind: str) -> pl.DataFrame:
    """A file of attributes: Parquet, JSON lines, or text with a header, in which ids stay as they are written."""
    if path.suffix in (".jsonl", ".ndjson") and path.is_file():
        try:
            return pl.read_ndjson(path.read_bytes())  # the bytes, because polars takes a[1].jsonl for a pattern
        except pl.exceptions.PolarsError as problem:
            reason = str(problem).partition("\n")[0]
            raise DataError(
                f"{path}: cannot be read as JSON lines ({reason}): expected an object in each line."
            ) from None
    columns = open_file(path, header=True).columns
    ids = [name for name in (column, kind) if name in columns][:1]
    table = open_file(path, header=True, ids=ids, others=columns)
    return pl.DataFrame([table.read(name).alias(name) for name in columns])


def read_user_features(path: Path, train: Interactions, column: str = "user") -> pl.DataFrame:
    """A file with the features of cold-start users, their ids in the type of the model's user ids where possible."""
    return _with_ids(path, read_attributes(path, column, "user"), train.users, column, "user")


def read_item_attributes(path: Path, train: Interactions, column: str = "item") -> pl.DataFrame | None:
    """A file of item attributes in the order of the model's items; ids are in this column, else in ``item``."""
    frame = read_attributes(path, column, "item")
    key = next((name for name in (column, "item") if name in frame.columns), column)
    return aligned_attributes(_with_ids(path, frame, train.items, key, "item"), train.items, "item", "item")


def _with_ids(path: Path, frame: pl.DataFrame, ids: IdMap, column: str, kind: str) -> pl.DataFrame:
    """The frame with its ids in the column ``kind``, in the type of ``ids`` where possible."""
    if column not in frame.columns:
        raise DataError(
            f"{path} has no column {column!r} of {kind} ids; its columns are {', '.join(map(repr, frame.columns))}."
            + nearest(column, frame.columns)
        )
    if column != kind:
        frame = frame.drop(kind, strict=False).rename({column: kind})
    return frame.with_columns(_cast(ids, frame[kind]).alias(kind))


def parse_ids(ids: IdMap, texts: list[str]) -> list[Any]:
    """Ids given as text in the type of the model's, which may be numbers or dates."""
    typed = _parsed(pl.Series("id", texts, dtype=pl.String), ids.series.dtype)
    # What cannot be converted stays text, so that the error names it as it was given.
    return [text if value is None else value for text, value in zip(texts, typed.to_list(), strict=True)]


def parse_known(ids: IdMap, texts: list[str], on_unknown: str) -> list[Any]:
    """As `parse_ids`; an unknown id is an error if ``on_unknown`` is ``"error"``, else it is left out."""
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
    return replace(
        Interactions.from_frame(typed, weight=weight, timestamp=timestamp, part=True, **tables), cleaning=data.cleaning
    )


def _cast(ids: IdMap, column: pl.Series) -> pl.Series:
    kind = ids.series.dtype
    if kind == pl.String and column.dtype.is_integer():
        return column.cast(pl.String)
    typed = _parsed(column, kind) if column.dtype == pl.String else column
    return column if typed.null_count() else typed


def _parsed(texts: pl.Series, kind: Any) -> pl.Series:
    """Texts as values of this type, null where that is impossible."""
    if kind == pl.Boolean:
        return texts.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    if isinstance(kind, (pl.Date, pl.Datetime, pl.Time)):
        return texts.str.strptime(kind, strict=False)
    return texts.cast(kind, strict=False)


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
