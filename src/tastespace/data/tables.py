"""Tables of any kind seen as named columns: data frames of any library, Parquet, CSV and TSV files.

A table is read one column at a time where its kind allows that, so that building `Interactions` never holds
more than the column at hand.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Protocol

import narwhals as nw
import numpy as np
import polars as pl

from tastespace.data.ids import plain_series
from tastespace.errors import DataError, nearest

_SNIFF_BYTES = 64 * 1024
_DELIMITERS = ("\t", ",", ";", "|", "::", " ")


class Table(Protocol):
    """What the builder needs to know of a table."""

    name: str
    """For messages: the file's path or the kind of frame."""
    backend: str
    """Library in which answers go back: ``"polars"``, ``"pandas"`` or ``"pyarrow"``."""
    columns: list[str]

    def read(self, column: str) -> pl.Series:
        """One column."""

    def row(self, position: int) -> str:
        """How a person finds that row again: "row 7", or "line 9" of a text file."""


class FrameTable:
    """A data frame that narwhals understands (pandas, polars, pyarrow, ...), lazy ones included."""

    def __init__(self, frame: Any) -> None:
        try:
            wrapped = nw.from_native(frame)
        except TypeError as problem:
            raise DataError(
                f"expected a data frame (polars, pandas, pyarrow, ...), given {type(frame).__name__}. "
                "For a file use Interactions.from_file, for a sparse matrix Interactions.from_scipy."
            ) from problem
        self.backend = str(wrapped.implementation.value)
        self.name = f"{self.backend} frame"
        self._frame: nw.DataFrame[Any] = wrapped.collect() if isinstance(wrapped, nw.LazyFrame) else wrapped
        self.columns = self._frame.columns

    def read(self, column: str) -> pl.Series:
        """One column, converted to polars."""
        native = self._frame.get_column(column).to_native()
        if isinstance(native, pl.Series):
            return native
        if self.backend == "pyarrow":
            return pl.Series(column, native)
        return _from_pandas_like(column, native)

    def row(self, position: int) -> str:
        """Rows of a frame count from 0."""
        return f"row {position}"


class ParquetTable:
    """A Parquet file, each column decoded by itself."""

    backend = "polars"

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        try:
            self.columns = list(pl.read_parquet_schema(path))
        except (pl.exceptions.PolarsError, OSError) as problem:
            raise _unreadable(path, "Parquet file", problem) from problem

    def read(self, column: str) -> pl.Series:
        """One column."""
        try:
            return pl.read_parquet(self._path, columns=[column]).to_series()
        except (pl.exceptions.PolarsError, OSError) as problem:
            raise _unreadable(self._path, "Parquet file", problem) from problem

    def row(self, position: int) -> str:
        """Rows of a Parquet file count from 0."""
        return f"row {position}"


class TextTable:
    """A CSV or TSV file; delimiter and header are recognised unless they are given.

    A file without a header has the columns ``column_1``, ``column_2``, ...
    """

    backend = "polars"

    def __init__(self, path: Path, delimiter: str | None = None, header: bool | None = None) -> None:
        self.name = str(path)
        self._path = path
        head = _head(path)
        self._delimiter = delimiter or _sniff_delimiter(head)
        first = head[0].split(self._delimiter)
        self._header = _looks_like_header(head, self._delimiter) if header is None else header
        self.columns = (
            [field.strip().strip('"') for field in first]
            if self._header
            else [f"column_{i + 1}" for i in range(len(first))]
        )
        self._frame: pl.DataFrame | None = None

    def read(self, column: str) -> pl.Series:
        """One column; the file is parsed on the first call."""
        if self._frame is None:
            self._frame = self._parse()
        return self._frame.get_column(column)

    def row(self, position: int) -> str:
        """Lines of a text file count from 1, the header included."""
        return f"line {position + 1 + self._header}"

    def _parse(self) -> pl.DataFrame:
        if len(self._delimiter) > 1:
            return self._parse_long_delimiter()
        try:
            return pl.read_csv(
                self._path,
                separator=self._delimiter,
                has_header=self._header,
                new_columns=self.columns,
                infer_schema_length=10_000,
                truncate_ragged_lines=False,
            )
        except (pl.exceptions.PolarsError, OSError) as problem:
            where = self._first_ragged_line()
            raise DataError(
                f"{self._path}{where or ''}: cannot be read as text with delimiter {self._delimiter!r} "
                f"({str(problem).splitlines()[0]}). Mend the file, or give delimiter= and header=."
            ) from problem

    def _parse_long_delimiter(self) -> pl.DataFrame:
        """Files like MovieLens' ``user::item::rating``: split by polars, then typed as if it were CSV."""
        lines = pl.Series(self._path.read_text(encoding="utf-8", errors="replace").splitlines()[self._header :])
        parts = lines.str.split(self._delimiter)
        ragged = (parts.list.len() != len(self.columns)).arg_true()
        if len(ragged):
            raise DataError(
                f"{self._path}, {self.row(ragged[0])}: {len(parts[ragged[0]])} fields, expected "
                f"{len(self.columns)}. Was the file cut off?"
            )
        frame = pl.DataFrame({name: parts.list.get(i) for i, name in enumerate(self.columns)})
        return frame.with_columns(_typed(frame[name]) for name in frame.columns)

    def _first_ragged_line(self) -> str | None:
        """Where the number of fields changes, as ", line 17: 1 field, expected 4"."""
        with self._path.open(newline="", encoding="utf-8", errors="replace") as file:
            for fields in (reader := csv.reader(file, delimiter=self._delimiter)):
                if len(fields) != len(self.columns):
                    return f", line {reader.line_num}: {len(fields)} fields, expected {len(self.columns)}"
        return None


def open_file(path: str | Path, delimiter: str | None = None, header: bool | None = None) -> Table:
    """The table in a file: Parquet by its ending or its first bytes, text otherwise."""
    path = Path(path)
    if not path.is_file():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError(f"{path}: no such file.{nearest(path.name, siblings)}")
    with path.open("rb") as file:
        magic = file.read(4)
    if not magic:
        raise DataError(f"{path}: the file is empty.")
    if magic == b"PAR1" or path.suffix in (".parquet", ".pq"):
        return ParquetTable(path)
    return TextTable(path, delimiter, header)


def as_table(source: Any, delimiter: str | None = None, header: bool | None = None) -> Table:
    """A path or a frame as a table."""
    if isinstance(source, (str, Path)):
        return open_file(source, delimiter, header)
    return FrameTable(source)


def require_columns(table: Table, wanted: dict[str, str | None]) -> None:
    """Check that each role's column is there; the message says which columns exist."""
    for role, column in wanted.items():
        if column is not None and column not in table.columns:
            raise DataError(
                f"{table.name} has no column {column!r} (asked for as {role}=); its columns are "
                f"{', '.join(map(repr, table.columns))}.{nearest(column, table.columns)}"
            )


def to_polars(frame: Any) -> tuple[pl.DataFrame, str]:
    """Any frame as polars, with the name of the library it came from."""
    table = FrameTable(frame)
    return pl.DataFrame([table.read(name).alias(name) for name in table.columns]), table.backend


def from_polars(frame: pl.DataFrame, backend: str) -> Any:
    """A polars frame in the library that the user works with."""
    if backend == "pandas":
        import pandas as pd

        # Column by column, because polars' own way needs pyarrow, which pandas users may not have.
        return pd.DataFrame(
            {c.name: c.to_numpy() if c.dtype.is_numeric() and not c.null_count() else c.to_list() for c in frame}
        )
    if backend == "pyarrow":
        return frame.to_arrow()
    return frame


def _from_pandas_like(name: str, native: Any) -> pl.Series:
    dtype = native.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iufbM":
        return pl.Series(name, np.ascontiguousarray(native.to_numpy()))
    missing = native.isna().to_numpy()
    if getattr(dtype, "kind", "O") in "iu" and not missing.any():  # pandas' nullable integers
        return pl.Series(name, native.to_numpy(dtype=np.uint64 if dtype.kind == "u" else np.int64))
    return plain_series(name, [None if gone else v for v, gone in zip(native.tolist(), missing, strict=True)])


def _typed(column: pl.Series) -> pl.Series:
    for dtype in (pl.Int64, pl.Float64):
        try:
            return column.cast(dtype)
        except pl.exceptions.PolarsError:
            continue
    return column


def _head(path: Path) -> list[str]:
    with path.open("rb") as file:
        raw = file.read(_SNIFF_BYTES)
    if b"\0" in raw:
        raise DataError(f"{path}: neither Parquet nor text (it holds zero bytes). Expected .parquet, .csv or .tsv.")
    lines = raw.decode("utf-8", errors="replace").splitlines()
    # The last line may have been cut by the limit; a lone line is all there is.
    return lines[:-1] if len(raw) == _SNIFF_BYTES and len(lines) > 1 else lines


def _sniff_delimiter(lines: list[str]) -> str:
    """The delimiter that splits the first lines into the same number of fields, two at least."""
    for candidate in sorted(_DELIMITERS, key=len, reverse=True):
        if len(candidate) > 1 and all(candidate in line for line in lines[:20]):
            return candidate
    scored = []
    for order, candidate in enumerate(_DELIMITERS):
        counts = [len(next(csv.reader([line], delimiter=candidate))) for line in lines[:50] if len(candidate) == 1]
        if counts and min(counts) > 1:
            scored.append((counts.count(counts[0]) / len(counts), -order, candidate))
    return max(scored)[2] if scored else ","


def _looks_like_header(lines: list[str], delimiter: str) -> bool:
    """Whether the first line differs in kind from the second: words above numbers, or names above ids."""
    first = [field.strip().strip('"') for field in lines[0].split(delimiter)]
    if any(_is_number(field) or not field for field in first):
        return False
    if len(lines) == 1:
        return True
    second = [field.strip().strip('"') for field in lines[1].split(delimiter)]
    known = {
        "user",
        "item",
        "user_id",
        "item_id",
        "userid",
        "itemid",
        "rating",
        "timestamp",
        "movie_id",
        "title",
    }
    return any(map(_is_number, second)) or any(field.lower() in known for field in first)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _unreadable(path: Path, kind: str, problem: Exception) -> DataError:
    return DataError(
        f"{path}: cannot be read as a {kind} ({str(problem).splitlines()[0]}). "
        "The file may be cut off or damaged; fetch or write it again."
    )
