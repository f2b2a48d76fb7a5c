"""Tables as named columns: data frames of any library, Parquet, CSV, TSV and JSON lines.

A table is read one column at a time where its format allows that, so that building `Interactions` never holds
more than the column being read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import unquote

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.addresses import is_address
from tastespace.data.ids import plain_series
from tastespace.data.reading._json_lines import JsonLinesTable, is_json_lines
from tastespace.data.reading.options import ANY_LAYOUT, FileLayout
from tastespace.data.reading.text_tables import TextTable, shown_names
from tastespace.errors import Argument, DataError, ParameterError, nearest, require_path

if TYPE_CHECKING:
    import narwhals as nw
    from narwhals.typing import IntoFrame


Given = TypeVar("Given")
Found = TypeVar("Found")
# Damaged Parquet files: polars may also panic, or fail to decode text.
_MOST_NAMED = 20  # files, in one error
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError)

# Numbers that NumPy has: neither decimals nor integers of 128 bits.
_OF_NUMPY = (
    *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
    *(pl.Float32, pl.Float64),
)


class Table(Protocol):
    """The interface of a table that the builder uses."""

    name: str
    """Name in messages: the file's path or the kind of frame."""
    backend: str
    """Library of the frames that are returned: ``"polars"``, ``"pandas"`` or ``"pyarrow"``."""
    columns: list[str]

    def read(self, column: str) -> pl.Series:
        """One column."""

    def row(self, position: int) -> str:
        """The row in words, for messages: "row 7", or "line 9" of a text file."""


class FrameTable:
    """A data frame that narwhals supports (pandas, polars, pyarrow, ...), lazy ones included."""

    def __init__(self, frame: IntoFrame) -> None:
        import narwhals as nw  # here, because it would make `import tastespace` a tenth slower

        try:
            wrapped = nw.from_native(frame)
        except nw.exceptions.DuplicateError as problem:
            raise DataError(f"two columns of the frame have the same name ({problem}). Rename one.") from problem
        except TypeError as problem:
            raise DataError(
                f"expected a data frame (polars, pandas, pyarrow, ...), given {type(frame).__name__}. "
                "For a file use Interactions.from_file, for a sparse matrix Interactions.from_scipy."
            ) from problem
        self._frame: nw.DataFrame[Any] = wrapped.collect() if isinstance(wrapped, nw.LazyFrame) else wrapped
        self.backend = str(self._frame.implementation.value)
        self.name = f"{self.backend} frame"
        self.columns = list(self._frame.columns)
        if len(set(self.columns)) < len(self.columns):
            raise DataError(f"two columns of the {self.name} have the same name: {', '.join(map(repr, self.columns))}.")

    def read(self, column: str) -> pl.Series:
        """One column, converted to polars."""
        native = self._frame.get_column(column).to_native()
        if isinstance(native, pl.Series):
            return native
        if self.backend == "pyarrow":
            return pl.Series(column, native)
        return _from_pandas_like(column, native)

    def read_any(self, column: str) -> pl.Series:
        """One column, as text where its values are of several types."""
        try:
            return self.read(column)
        except DataError:
            values = self._frame.get_column(column).to_list()
            return pl.Series(column, [None if value is None else str(value) for value in values])

    def values(self, column: str) -> list[Any]:
        """One column as Python values, of whatever types, such as lists."""
        return list(self._frame.get_column(column).to_list())

    def row(self, position: int) -> str:
        """Rows of a frame count from 0."""
        return f"row {position}"


class ParquetTable:
    """A Parquet file, each column decoded by itself.

    A file of a partitioned folder, such as ``clicks/day=2024-12-31/0.parquet``, has the columns that its path names.
    """

    backend = "polars"

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        try:
            # An open file, because polars takes a path such as a[1].parquet for a pattern.
            with path.open("rb") as file:
                self._types = dict(pl.read_parquet_schema(file))
        except _UNREADABLE as problem:
            raise _unreadable(path, "Parquet file", problem) from problem
        named = (part.partition("=") for part in path.parent.parts)
        self._of_path = {name: value for name, equals, value in named if equals and name and name not in self._types}
        self.columns = [*self._types, *self._of_path]

    def read(self, column: str) -> pl.Series:
        """One column."""
        if column in self._of_path:
            return self._constant(column, self.n_rows())
        try:
            with self._path.open("rb") as file:
                return pl.read_parquet(file, columns=[column]).to_series()
        except _UNREADABLE as problem:
            raise _unreadable(self._path, "Parquet file", problem) from problem

    def read_rows(self, columns: Sequence[str], first: int, n_rows: int) -> pl.DataFrame:
        """Some rows of some columns."""
        own = [column for column in columns if column not in self._of_path]
        try:
            found = self._scan().select(own).slice(first, n_rows).collect()
        except _UNREADABLE as problem:
            raise _unreadable(self._path, "Parquet file", problem) from problem
        if len(found) != n_rows:
            raise DataError(f"{self.name} changed while it was read: expected {n_rows:,} rows, found {len(found):,}.")
        return pl.DataFrame([found[c] if c in self._types else self._constant(c, n_rows) for c in columns])

    def n_rows(self) -> int:
        """Return the number of rows that the footer of the file gives."""
        try:
            return int(self._scan().select(pl.len()).collect().item())
        except _UNREADABLE as problem:
            raise _unreadable(self._path, "Parquet file", problem) from problem

    def type_of(self, column: str) -> pl.DataType:
        """The type of a column."""
        return self._types[column] if column in self._types else self._constant(column, 1).dtype

    def _scan(self) -> pl.LazyFrame:
        return pl.scan_parquet(self._path, glob=False, hive_partitioning=False)

    def _constant(self, column: str, n_rows: int) -> pl.Series:
        text = unquote(self._of_path[column])
        value = int(text) if text.isdecimal() and str(int(text)) == text else text
        return pl.Series(column, [value]).new_from_index(0, n_rows)

    def row(self, position: int) -> str:
        """Rows of a Parquet file count from 0."""
        return f"row {position}"


class JoinedTable:
    """Several tables of the same columns, one below the other."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._lengths = [0] * len(tables)
        self.name = f"{tables[0].name} and {len(tables) - 1} more"
        self.backend = tables[0].backend
        self.columns = [name for name in tables[0].columns if all(name in table.columns for table in tables)]

    def read(self, column: str) -> pl.Series:
        """One column of all tables; text where it is text in one of them."""
        parts = of_all(lambda table: table.read(column), self._tables)
        self._lengths = [len(part) for part in parts]
        kind = common_type(column, [part.dtype for part in parts], [table.name for table in self._tables])
        return pl.concat([part.cast(kind).to_frame(column) for part in parts]).to_series()

    def row(self, position: int) -> str:
        """The row in its own file."""
        for table, length in zip(self._tables, self._lengths, strict=True):
            if position < length:
                return f"{table.name}, {table.row(position)}"
            position -= length
        return f"row {position}"


def open_files(paths: Sequence[str | Path], columns: Mapping[str, str | None], layout: FileLayout) -> Table:
    """Return the tables of one or more files as one; see `open_each`."""
    tables = open_each(paths, columns, layout)
    return tables[0] if len(tables) == 1 else JoinedTable(tables)


def open_each(paths: Sequence[str | Path], columns: Mapping[str, str | None], layout: FileLayout) -> list[Table]:
    """Return the tables of one or more files that have these columns, given by their roles.

    The error names all files that cannot be read or that lack a column.
    """
    if isinstance(paths, (str, Path)) or not isinstance(paths, Sequence) or not paths:
        raise ParameterError(f"expected a list of one or more files, given {paths!r}.")

    def opened(path: str | Path) -> Table:
        table = open_file(path, layout)
        require_columns(table, columns)
        return table

    return of_all(opened, paths)


def of_all(function: Callable[[Given], Found], files: Sequence[Given]) -> list[Found]:
    """Return the result of a function for each of several files; the error names all that cannot be read."""
    found: list[Found] = []
    problems: list[DataError] = []
    for file in files:
        try:
            found.append(function(file))
        except DataError as problem:
            problems.append(problem)
    raise_all(problems)
    return found


def raise_all(problems: Sequence[DataError]) -> None:
    """Raise one error for several files, which names all of them; nothing where there is none."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        shown = [part for problem in problems[:_MOST_NAMED] for part in ("\n  ", *problem.args)]
        more = f"\n  and {len(problems) - _MOST_NAMED:,} more" if len(problems) > _MOST_NAMED else ""
        raise DataError(f"{len(problems):,} files cannot be read:", *shown, more)


def common_type(column: str, types: Sequence[pl.DataType], names: Sequence[str]) -> pl.DataType:
    """The type that holds the values of a column of several files: text where it is text in one of them."""
    kinds = [pl.String() if kind in (pl.Categorical, pl.Enum) else kind for kind in types]
    if any(kind == pl.String for kind in kinds):
        return pl.String()
    try:
        return pl.concat([pl.Series(column, [], dtype=kind).to_frame() for kind in kinds], how="vertical_relaxed")[
            column
        ].dtype
    except pl.exceptions.PolarsError as problem:
        given = ", ".join(f"{kind} in {name}" for kind, name in zip(types, names, strict=True))
        raise DataError(f"column {column!r} has types that do not fit together: {given}.") from problem


def open_file(path: str | Path, layout: FileLayout = ANY_LAYOUT) -> Table:
    """Return the table in a file: Parquet by its ending or first bytes, JSON lines by its ending, text otherwise.

    Of text and JSON lines only the columns that the layout names are kept.
    """
    path = require_path(path)
    try:
        if path.is_dir():
            raise DataError(f"{path}: this is a folder, expected a file.")
        if not path.is_file():
            siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
            pattern = " A path is one file; for several give a pattern to Interactions.from_files." * is_pattern(path)
            raise DataError(f"{path}: no such file.{nearest(path.name, siblings)}{pattern}")
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({problem.strerror or problem}).") from problem
    if not magic:
        raise DataError(f"{path}: the file is empty.")
    if magic == b"PAR1" or path.suffix in (".parquet", ".pq"):
        return ParquetTable(path)
    if is_json_lines(path):
        return JsonLinesTable(path, (*layout.ids, *layout.others), layout.encoding)
    return TextTable(path, layout)


def is_pattern(path: str | Path) -> bool:
    """Return True if the name holds characters of patterns: ``*``, ``?`` or ``[``."""
    return any(one in str(path) for one in "*?[")


def files_of(path: str | Path) -> list[str | Path]:
    """The files that a name stands for: itself or, of a folder, the Parquet files in it and in its subfolders.

    An address stands for itself, see `tastespace.data.reading.sources`.
    """
    if is_address(path):
        return [path]
    whole = require_path(path)
    if not whole.is_dir():
        return [whole]
    found: list[str | Path] = sorted(
        file
        for ending in ("*.parquet", "*.pq")
        for file in whole.rglob(ending)
        if file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(whole).parts)
    )
    if not found:
        raise DataError(f"{path}: this is a folder without Parquet files, expected a file or a folder of them.")
    return found


def named_files(file: str | Path) -> list[str | Path]:
    """The files that a name stands for: a file, a folder of Parquet files, a pattern, or an address."""
    return (
        files_of(file)
        if is_address(file) or require_path(file).exists() or not is_pattern(file)
        else matching_files(file)
    )


def matching_files(pattern: str | Path) -> list[str | Path]:
    """The files that a pattern matches, by name; none at all is an error."""
    if is_address(pattern):
        return [pattern]
    whole = require_path(pattern)
    try:
        # relative to the root or the current folder: Path.glob takes no absolute patterns
        start = Path(whole.anchor)
        found: list[str | Path] = sorted(path for path in start.glob(str(whole.relative_to(start))) if path.is_file())
    except (ValueError, OSError, NotImplementedError) as problem:
        raise DataError(f"{pattern}: no pattern of files ({problem}).") from problem
    if not found:
        raise DataError(f"{pattern}: no file matches this pattern.")
    return found


def require_columns(table: Table, wanted: Mapping[str, str | None]) -> None:
    """Check that each role's column is there; the message says which columns exist."""
    for role, column in wanted.items():
        if column is not None and not isinstance(column, str):
            raise ParameterError(Argument(role, column), ": expected the name of a column, as text.")
        if column is not None and column not in table.columns:
            raise DataError(
                f"{table.name} has no column {column!r} (given as ",
                Argument(role),
                f"); its columns are {shown_names(table.columns)}.{nearest(column, table.columns)}",
            )


def to_polars(frame: IntoFrame) -> tuple[pl.DataFrame, str]:
    """Any frame as polars, with the name of the library it came from."""
    table = FrameTable(frame)
    return pl.DataFrame([table.read_any(name).alias(name) for name in table.columns]), table.backend


def stacked(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Frames with the same columns as one, without the threads of polars.

    >>> stacked([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})])["a"].to_list()
    [1, 2]
    """
    if len(frames) == 1:
        return frames[0]
    whole = frames[0].clone()
    for frame in frames[1:]:
        whole.vstack(frame, in_place=True)
    return whole


def frame_of(columns: Mapping[str, NDArray[Any] | pl.Series]) -> pl.DataFrame:
    """Build a frame from arrays of numbers and series, by name; for short ones many times faster than polars does.

    >>> frame_of({"user": pl.Series(["ann", "bob"]), "rank": np.array([1, 2])}).rows()
    [('ann', 1), ('bob', 2)]
    """
    arrays = {name: values for name, values in columns.items() if isinstance(values, np.ndarray)}
    if not arrays:
        return pl.DataFrame(dict(columns))
    numbers = pl.DataFrame(_native.ArrowColumns(arrays))
    if len(arrays) == len(columns):
        return numbers
    of_numbers = iter(numbers.get_columns())
    return pl.DataFrame(
        [next(of_numbers) if name in arrays else values.alias(name) for name, values in columns.items()]  # type: ignore[union-attr]
    )


def reordered(frame: pl.DataFrame, order: NDArray[np.int64]) -> pl.DataFrame:
    """The rows of a frame in this order, without the threads of polars."""
    at = pl.Series(order, dtype=pl.UInt32)
    return pl.DataFrame([column.gather(at) for column in frame])


def from_polars(frame: pl.DataFrame, backend: str) -> Any:
    """A polars frame in the library that the caller works with."""
    if backend == "pandas":
        import pandas as pd

        # Column by column, because polars' own way needs pyarrow, which pandas users may not have.
        return pd.DataFrame(
            {c.name: c.to_numpy() if c.dtype in _OF_NUMPY and not c.null_count() else c.to_list() for c in frame}
        )
    if backend == "pyarrow":
        return frame.to_arrow()
    return frame


def _from_pandas_like(name: str, native: Any) -> pl.Series:
    dtype = native.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "M":  # seconds and days, which polars' times do not have
        return pl.Series(name, native.to_numpy().astype(f"datetime64[{'ns' if dtype.str.endswith('[ns]') else 'us'}]"))
    if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
        return pl.Series(name, np.ascontiguousarray(native.to_numpy()))
    missing = native.isna().to_numpy()
    if getattr(dtype, "kind", "O") in "iu" and not missing.any():  # pandas' nullable integers
        return pl.Series(name, native.to_numpy(dtype=np.uint64 if dtype.kind == "u" else np.int64))
    if str(dtype) == "category":
        known = _from_pandas_like(name, native.cat.categories.to_series())
        codes = pl.Series(native.cat.codes.to_numpy().astype(np.int64))
        return known.gather(pl.select(pl.when(codes >= 0).then(codes)).to_series()).alias(name)
    values = zip(native.tolist(), missing, strict=True)
    return plain_series(name, [None if is_missing else value for value, is_missing in values])


def _unreadable(path: Path, kind: str, problem: BaseException) -> DataError:
    reason = next(iter(str(problem).splitlines()), type(problem).__name__)[:300]
    return DataError(
        f"{path}: cannot be read as a {kind} ({reason}). The file may be cut off or damaged; fetch or write it again."
    )
