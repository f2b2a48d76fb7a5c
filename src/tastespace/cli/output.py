"""Output of the commands: rows for programs, formatted tables, progress bars."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import polars as pl
from rich import box
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tastespace._util.atomic import atomic_write
from tastespace._util.terminal import Console, neutralized
from tastespace.errors import DataError, ParameterError

# ---------------------------------------------------------------------------------------------------------------------
# Texts that a spreadsheet would take for formulas: `=HYPERLINK(...)` in a title runs when it opens a CSV file.

_FORMULA = r"^[=+\-@\t\r\n]"


def formula_safe(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with an apostrophe before each text that starts like a formula; numbers are numbers and stay.

    Spreadsheets show such a cell as text. Other programs see the apostrophe, so this is not the default.

    >>> formula_safe(pl.DataFrame({"title": ["=1+1", "jam"], "score": [-1.0, 2.0]}))["title"].to_list()
    ["'=1+1", 'jam']
    """

    def safe(text: pl.Expr) -> pl.Expr:
        return pl.when(text.str.contains(_FORMULA)).then(pl.concat_str(pl.lit("'"), text)).otherwise(text)

    changed = []
    for column in frame:
        if column.dtype in (pl.String, pl.Categorical, pl.Enum):
            changed.append(safe(pl.col(column.name).cast(pl.String)).alias(column.name))
        elif column.dtype == pl.List(pl.String):
            joined = pl.col(column.name).list.join("|")
            changed.append(safe(joined).alias(column.name))
    return frame.with_columns(changed)


class Format(str, Enum):
    """Form of printed rows."""

    auto = "auto"
    table = "table"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"
    csv_safe = "csv-safe"
    parquet = "parquet"


FORMAT_HELP = (
    "table: formatted text; json, jsonl, csv, parquet: rows; csv-safe: csv in which no text is a formula for a "
    "spreadsheet; auto: table on a terminal, else csv."
)


_ENDINGS = (Format.json, Format.jsonl, Format.csv, Format.parquet)


def is_table_output(format: Format, out: Path | None = None) -> bool:
    """Return True where the output is a formatted table."""
    return out is None and (format is Format.table or (format is Format.auto and sys.stdout.isatty()))


def print_rows(rows: Sequence[dict[str, Any]], format: Format) -> None:
    """Rows for a program, on standard output."""
    emit(pl.DataFrame(list(rows)), format)


def emit(frame: pl.DataFrame, format: Format, out: Path | None = None) -> None:
    """A frame for a program, on standard output or in a file whose name says the format."""
    if out is not None and format is Format.auto:
        endings = {f".{kind.value}": kind for kind in Format if kind in _ENDINGS}
        if out.suffix not in endings:
            raise ParameterError(f"--out {out}: expected a name that ends in {', '.join(endings)}, or --format.")
        format = endings[out.suffix]
    if format is Format.table:
        raise ParameterError(f"--out {out}: a table is formatted for a terminal; give --format csv or another.")
    text = _encoded(frame, Format.csv if format is Format.auto else format)
    if out is None:
        if format is Format.parquet and sys.stdout.isatty():
            raise ParameterError("--format parquet is for files and pipes, not for a terminal: give --out or use >.")
        sys.stdout.buffer.write(neutralized(text.decode()).encode() if sys.stdout.isatty() else text)
        sys.stdout.buffer.flush()
        return
    try:
        write_file(out, text)
    except OSError as problem:
        raise DataError(f"--out {out}: cannot be written ({problem.strerror}).") from problem


def write_file(path: Path, content: bytes) -> None:
    """Write a whole file at once: what stood there before is replaced only when the new content is complete."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a device or a pipe is written to, not replaced
        return
    with atomic_write(path.resolve()) as temporary:  # the file a link points to, not the link
        temporary.write_bytes(content)


def _encoded(frame: pl.DataFrame, format: Format) -> bytes:
    if format is Format.json:
        return (json.dumps(frame.to_dicts(), indent=1, default=str, ensure_ascii=False) + "\n").encode()
    if format is Format.jsonl:
        return frame.write_ndjson().encode()
    if format is Format.parquet:
        import io

        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        return buffer.getvalue()
    if format is Format.csv_safe:
        frame = formula_safe(frame)
    lists = [pl.col(c.name).cast(pl.List(pl.String)).list.join("|") for c in frame if c.dtype == pl.List]
    return frame.with_columns(lists).write_csv().encode()


def show(frame: pl.DataFrame, title: str | None = None) -> None:
    """A frame as a formatted table."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in frame:
        table.add_column(column.name, justify="right" if column.dtype.is_numeric() else "left")
    for row in frame.iter_rows():
        table.add_row(*(_cell(value) for value in row))
    Console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "[dim]-[/]"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list):
        return escape(", ".join(map(str, value)))
    return escape(str(value))


def progress_bar(description: str) -> Progress:
    """A progress bar on standard error; silent where that is not a terminal."""
    return Progress(
        TextColumn(f"{description} [bold]{{task.description}}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )


def require_writable(flag: str, path: Path, keep: bool = True) -> None:
    """Raise, before hours of training, unless a file can be written; ``keep`` leaves the new, empty file there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        path.open("a", encoding="utf-8").close()
        if new and not keep:
            path.unlink()
    except OSError as problem:
        raise ParameterError(f"{flag} {path}: cannot be written ({problem.strerror}).") from problem
