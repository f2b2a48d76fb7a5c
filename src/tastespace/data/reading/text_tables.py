"""CSV, TSV and other text tables: delimiter and header recognized, ids kept as they are written."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import polars as pl

from tastespace.data.reading._text_files import TextFile
from tastespace.data.reading.options import ANY_LAYOUT, FileLayout
from tastespace.errors import Argument, DataError, ParameterError

log = logging.getLogger(__name__)

_SNIFF_LINES = 200
_DELIMITERS = ("\t", ",", ";", "|", " ")
_LONG_DELIMITERS = ("::",)
_LINE = "\0line"  # the column of line numbers; no header holds a zero byte


class TextTable:
    """A text file as a table; only the named columns are kept.

    Columns of ids are read as text and become whole numbers only where that loses nothing: 7 does, 007 does not.
    A file without a header has the columns ``column_1``, ``column_2``, ... Blank lines are skipped. Files that end
    in .gz are unpacked while they are read.

    """

    backend = "polars"

    def __init__(self, path: Path, layout: FileLayout = ANY_LAYOUT) -> None:
        self.name = str(path)
        self._path = path
        self._ids, self._others, self._dates = layout.ids, layout.others, layout.dates
        _require_delimiter(layout.delimiter)
        self._file = TextFile(path, layout.encoding)
        with self._file.errors():
            head = self._head()
        self._delimiter = layout.delimiter or _sniff_delimiter(head)
        first = self._split(head[0])
        wanted = set(self._ids) | set(self._others)
        header = layout.header
        if header is None:
            header = (bool(wanted) and wanted <= set(first)) or _looks_like_header(first, self._second(head))
        self._header = header
        if header and any("\ufffd" in name for name in first) and self._file.is_utf_8:
            with self._file.errors():
                self._file.text()  # raises, and the error names the encoding that the file is likely to have
        self.columns = first if header else [f"column_{i + 1}" for i in range(len(first))]
        if len(set(self.columns)) < len(self.columns):
            raise DataError(f"{path}: two columns have the same name; the header is {shown_names(first)}.")
        self._frame: pl.DataFrame | None = None

    def read(self, column: str) -> pl.Series:
        """One column; the file is parsed on the first call."""
        if self._frame is None:
            with self._file.errors():
                self._frame = self._parse()
        if column not in self._frame.columns:
            raise DataError(
                f"{self.name}: column {column!r} cannot be read; the header is {shown_names(self.columns)}. Give every "
                "column a name of its own."
            )
        found = self._frame.get_column(column)
        return _lossless_numbers(found) if column in self._ids else found

    def row(self, position: int) -> str:
        """Lines of a text file count from 1, the header included."""
        assert self._frame is not None
        return f"line {int(self._frame[_LINE][position]) + 1 + self._header}"

    # ---- parsing -------------------------------------------------------------------------------------------

    def _parse(self) -> pl.DataFrame:
        frame = self._parse_long_delimiter() if len(self._delimiter) > 1 else self._parse_csv()
        wanted = [name for name in frame.columns if name != _LINE]
        blank = frame.select(pl.all_horizontal(pl.col(wanted).is_null())).to_series()
        if blank.any():
            frame = frame.filter(~blank)
        self._require_whole_last_line()
        return frame.with_columns(_typed(frame[name]) for name in self._dates if name in frame.columns)

    def _parse_csv(self) -> pl.DataFrame:
        wanted = [name for name in self.columns if name in self._ids + self._others] or self.columns
        text = {name: pl.String for name in (*self._ids, *self._dates) if name in self.columns}
        problem: BaseException | None = None
        source = self._source()
        for n_rows in (10_000, None):  # a type that shows only in a later row is found by reading everything again
            try:
                return pl.read_csv(
                    source,
                    separator=self._delimiter,
                    has_header=self._header,
                    new_columns=self.columns,
                    columns=[self.columns.index(name) for name in wanted],
                    schema_overrides=text,
                    infer_schema_length=n_rows,
                    row_index_name=_LINE,
                    try_parse_dates=True,
                    glob=False,
                )
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as caught:
                problem = caught
        if self._file.is_utf_8:
            self._file.text()  # raises, and the error names the encoding that the file is likely to have
        reason = next(iter(str(problem).splitlines()), type(problem).__name__)[:300]  # it may quote a whole field
        raise DataError(
            f"{self._path}{self._first_long_line()}: cannot be read as text with delimiter {self._delimiter!r} "
            f"({reason}). Correct the file, or give its delimiter (",
            Argument("delimiter"),
            ") and, if its first line is not a header, ",
            Argument("header", False),
            ".",
        ) from problem

    def _parse_long_delimiter(self) -> pl.DataFrame:
        """Files like MovieLens' ``user::item::rating``, which CSV readers do not support."""
        lines = [line.rstrip("\r") for line in self._text().split("\n")][self._header :]
        kept = [(number, line.split(self._delimiter)) for number, line in enumerate(lines) if line.strip()]
        for number, fields in kept:
            if len(fields) != len(self.columns):
                raise DataError(
                    f"{self._path}, line {number + 1 + self._header}: {len(fields)} fields, expected "
                    f"{len(self.columns)}. Was the file cut off?"
                )
        columns = zip(*(fields for _, fields in kept), strict=True) if kept else ([] for _ in self.columns)
        frame = pl.DataFrame({name: list(values) for name, values in zip(self.columns, columns, strict=True)})
        typed = [frame[name] if name in self._ids else _typed(frame[name]) for name in frame.columns]
        return pl.DataFrame([pl.Series(_LINE, [number for number, _ in kept]), *typed])

    def _require_whole_last_line(self) -> None:
        """A file that was cut off ends in a line with too few fields, which readers fill up silently."""
        if len(self._delimiter) > 1:
            return
        last, number = "", 0
        with self._file.open() as file:
            for count, line in enumerate(file, 1):
                if line.strip():
                    last, number = line, count
        if last.count('"') % 2 == 0 and len(self._split(last)) < len(self.columns):
            raise DataError(
                f"{self._path}, line {number}: {len(self._split(last))} fields, expected {len(self.columns)}. "
                "Was the file cut off?"
            )

    def _first_long_line(self) -> str:
        """Name the first line with too many fields, as ", line 17: 5 fields, expected 4"."""
        try:
            with self._file.open() as file:
                for fields in (reader := csv.reader(file, delimiter=self._delimiter)):
                    if len(fields) > len(self.columns):
                        return f", line {reader.line_num}: {len(fields)} fields, expected {len(self.columns)}"
        except csv.Error:  # a field beyond the limit of that reader, such as the rest of a file after a stray quote
            pass
        return ""

    # ---- reading lines -----------------------------------------------------------------------------------

    def _source(self) -> Path | io.BytesIO:
        """Return what polars reads: the file itself, or its text in UTF-8 if it is written in another encoding."""
        if self._file.is_plain_utf_8 and self.name.isprintable():
            return self._path
        return io.BytesIO(self._file.utf_8())  # polars does not open every name that the file system has

    def text(self) -> str:
        """The whole text."""
        with self._file.errors():
            return self._file.text()

    def _text(self) -> str:
        try:
            return self._file.text()
        except UnicodeDecodeError:
            if self._file.given_encoding:
                raise
            return self._file.content().decode("latin-1")  # every byte is a letter there, so no two ids become one

    def _head(self) -> list[str]:
        lines = []
        with self._file.open() as file:
            for line in _limited(file, _SNIFF_LINES):
                if "\0" in line:
                    raise DataError(
                        f"{self._path}: neither Parquet nor text (it holds zero bytes). Expected .parquet, .csv, "
                        ".tsv or .jsonl."
                    )
                if line.strip():
                    lines.append(line.rstrip("\r\n"))
        if not lines:
            raise DataError(f"{self._path}: the file holds only blank lines.")
        return lines

    def _split(self, line: str) -> list[str]:
        return [field.strip() for field in _fields(line.rstrip("\r\n"), self._delimiter)]

    def _second(self, head: list[str]) -> list[str] | None:
        return self._split(head[1]) if len(head) > 1 else None


def read_text(path: Path, encoding: str | None = None) -> str:
    """A text file as it is; arguments and errors as for tables."""
    from tastespace.data.reading.tables import open_file

    table = open_file(path, FileLayout(",", header=False, encoding=encoding))
    if not isinstance(table, TextTable):
        raise DataError(f"{path}: expected a text file.")
    return table.text()


def _require_delimiter(delimiter: str | None) -> None:
    if delimiter is None:
        return
    if not isinstance(delimiter, str) or not delimiter or set(delimiter) & set('"\r\n\0'):
        raise ParameterError(
            Argument("delimiter", delimiter),
            ": expected the character between two fields, such as ',' or '\\t', or several such as '::'.",
        )
    if len(delimiter) == 1 and not delimiter.isascii():
        raise ParameterError(Argument("delimiter", delimiter), ": expected an ASCII character, or several characters.")


def _fields(line: str, delimiter: str) -> list[str]:
    """The fields of one line; only one-character delimiters know quotes."""
    if len(delimiter) > 1 or '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a field beyond the limit of that reader
        return line.split(delimiter)


def shown_names(names: list[str]) -> str:
    """Names of columns, for messages: of many the first few."""
    shown = ", ".join(repr(name[:60]) for name in names[:20])
    return shown if len(names) <= 20 else f"{shown}, ... ({len(names):,} in all)"


def _limited(file: IO[str], n: int) -> Iterator[str]:
    for _ in range(n):
        line = file.readline()
        if not line:
            return
        yield line


def _sniff_delimiter(lines: list[str]) -> str:
    """The delimiter that splits the first lines into the same number of fields, two at least."""
    for candidate in _LONG_DELIMITERS:
        if all(candidate in line for line in lines[:20]):
            return candidate
    scored = []
    for order, candidate in enumerate(_DELIMITERS):
        counts = [len(_fields(line, candidate)) for line in lines[:50]]
        if min(counts) > 1:
            scored.append((counts.count(counts[0]) / len(counts), -order, candidate))
    return max(scored)[2] if scored else ","


def _looks_like_header(first: list[str], second: list[str] | None) -> bool:
    """Return True if the first line differs in kind from the second: words above numbers."""
    if any(_is_number(field) or not field for field in first):
        return False
    if second is None:
        return True
    usual = {"user", "item", "user_id", "item_id", "userid", "itemid", "rating", "timestamp"}
    return any(map(_is_number, second)) or any(field.lower() in usual for field in first)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _lossless_numbers(text: pl.Series) -> pl.Series:
    """Whole numbers where every text is exactly how its number is written, else the text."""
    if text.dtype != pl.String:
        return text
    numbers = text.cast(pl.Int64, strict=False)
    same = (numbers.cast(pl.String) == text) | text.is_null()
    return numbers if len(text) and same.fill_null(False).all() else text


def _typed(column: pl.Series) -> pl.Series:
    for dtype in (pl.Int64, pl.Float64):
        try:
            return column.cast(dtype)
        except pl.exceptions.PolarsError:
            continue
    return column
