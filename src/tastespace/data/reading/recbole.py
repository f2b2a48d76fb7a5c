"""Atomic files of RecBole: ``.inter``, ``.item`` and ``.user``, tab-separated, with ``name:type`` as headers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tastespace.data.attributes import TITLES
from tastespace.data.reading.options import COLUMNS, FrameArguments, require_arguments
from tastespace.errors import DataError, nearest, require_path

if TYPE_CHECKING:
    from tastespace.data.interactions import Interactions

TYPES = ("token", "token_seq", "float", "float_seq")
ENDING = ".inter"


def is_recbole(path: str | Path) -> bool:
    """Return True if this is an ``.inter`` file, or a folder that holds one."""
    found = require_path(path)
    return (found.suffix == ENDING and found.is_file()) or (found.is_dir() and any(found.glob(f"*{ENDING}")))


def read_recbole(path: str | Path, options: FrameArguments) -> Interactions:
    """Read atomic files as `Interactions.from_recbole` describes it."""
    from tastespace.data.interactions import Interactions

    require_arguments("from_recbole", FrameArguments, options)
    events_file = _events_file(require_path(path))
    events = _read(events_file)
    if not len(events):
        raise DataError(f"{events_file} has no rows. Expected one row per interaction.")
    given: dict[str, Any] = {"user": "user_id", "item": "item_id", **options}
    for role in COLUMNS:
        column = given.get(role)
        if column is not None and column not in events.columns:
            raise DataError(
                f"{events_file} has no field {column!r} for {role}; its fields are {', '.join(events.columns)}."
                f"{nearest(column, events.columns)}"
            )
    if given.get("timestamp") is None and "timestamp" in events.columns:
        given["timestamp"] = "timestamp"
    for kind in ("item", "user"):
        key, beside = given[kind], events_file.with_suffix(f".{kind}")
        table = _read(beside) if beside.is_file() else None
        if table is not None and key not in table.columns:
            raise DataError(f"{beside} has no field {key!r}, the ids of {kind}s; it has {', '.join(table.columns)}.")
        ids = _numbers_if_all([events[key]] if table is None else [events[key], table[key]])
        events = events.with_columns(ids[0])
        if table is not None and given.get(f"{kind}_attributes") is None:
            given[f"{kind}_attributes"] = table.with_columns(ids[1]).rename({key: kind})
    return Interactions.from_frame(events, **given)


def _events_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = sorted(path.glob(f"*{ENDING}"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise DataError(f"{path}: expected a folder with one {ENDING} file, found {names}. Name the file.")
    return found[0]


def _read(path: Path) -> pl.DataFrame:
    """A file, with columns of the types that its header names."""
    try:
        with path.open("rb") as file:  # polars takes some names for patterns
            table = pl.read_csv(file, separator="	", infer_schema=False, quote_char=None)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except (OSError, pl.exceptions.PolarsError) as problem:
        raise DataError(f"{path}: cannot be read as an atomic file ({problem}).") from problem
    columns = []
    for header in table.columns:
        name, colon, kind = header.rpartition(":")
        if not colon or kind not in TYPES:
            raise DataError(
                f"{path}: the field {header!r} has no type of RecBole; expected name:type with one of "
                f"{', '.join(TYPES)}, such as user_id:token. A plain table is read with Interactions.from_file."
            )
        columns.append(_typed(table[header].fill_null(""), kind, path, name).alias(name))
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise DataError(f"{path}: two fields have the same name: {', '.join(names)}.")
    return pl.DataFrame(columns)


def _typed(values: pl.Series, kind: str, path: Path, name: str) -> pl.Series:
    frame = values.alias("value").to_frame()
    value = pl.col("value")
    try:
        if kind == "token" or (kind == "token_seq" and name in TITLES):  # the words of a title are one text
            return values
        if kind == "float":
            text = pl.when(value == "").then(None).otherwise(value)
            numbers = frame.select(text.cast(pl.Float64)).to_series()
            # Times and counts are whole numbers in the files of RecBole, which only knows one type of number.
            whole = numbers.drop_nulls()
            fits = bool(((whole == whole.floor()) & (whole.abs() < 2**53)).all())
            return numbers.cast(pl.Int64) if fits and len(whole) else numbers
        parts = pl.when(value == "").then(pl.lit([], dtype=pl.List(pl.String))).otherwise(value.str.split(" "))
        return frame.select(parts if kind == "token_seq" else parts.cast(pl.List(pl.Float64))).to_series()
    except pl.exceptions.PolarsError as problem:
        reason = str(problem).splitlines()[0]  # below it polars shows its own expression
        raise DataError(f"{path}: the field {values.name!r} holds what is no number ({reason}).") from problem


def _numbers_if_all(columns: list[pl.Series]) -> list[pl.Series]:
    """Ids of several files as whole numbers where all of them are, and none loses anything (007 is text)."""
    plain = r"^(0|-?[1-9][0-9]{0,17})$"
    if all(column.str.contains(plain).all() for column in columns):
        return [column.cast(pl.Int64) for column in columns]
    return columns
