"""Tables of JSON lines: an object in each line, whose fields are the columns."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from tastespace._util.interrupts import interruptible
from tastespace._util.threads import require_polars
from tastespace.data.reading._text_files import TextFile
from tastespace.errors import DataError

_ENDINGS = (".jsonl", ".ndjson", ".json")
_BOM = b"\xef\xbb\xbf"
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, MemoryError)


def is_json_lines(path: Path) -> bool:
    """Return True if the name is one of JSON lines: .jsonl, .ndjson or .json, which may be packed (.jsonl.gz).

    >>> is_json_lines(Path("clicks.jsonl.gz")), is_json_lines(Path("clicks.csv"))
    (True, False)
    """
    name = path.name.lower()
    return name.removesuffix(".gz").endswith(_ENDINGS)


class JsonLinesTable:
    """A file of JSON lines as a table; only the named columns are kept.

    Values have the types that they have in the file: ``7`` is a number, ``"7"`` is text. Fields that a line does not
    have are null. Blank lines are skipped.

    Args:
        path: The file.
        wanted: Columns that will be read; none means all.
        encoding: As for `TextFile`.
    """

    backend = "polars"

    def __init__(self, path: Path, wanted: Sequence[str] = (), encoding: str | None = None) -> None:
        self.name = str(path)
        self._file = TextFile(path, encoding)
        types = self._types()
        self.columns = list(types)
        self._kept = {name: types[name] for name in types if name in wanted} or types
        self._frame: pl.DataFrame | None = None

    def read(self, column: str) -> pl.Series:
        """One column; the file is parsed on the first call."""
        if self._frame is None:
            self._frame = self._parse()
        return self._frame.get_column(column)

    def row(self, position: int) -> str:
        """Lines count from 1, blank ones included."""
        numbers = (number for number, line in enumerate(io.BytesIO(self._content()), 1) if line.strip())
        return f"line {next(islice(numbers, position, None), '?')}"

    def _types(self) -> dict[str, pl.DataType]:
        """The columns of all lines with the types that hold all of their values."""
        require_polars("reading JSON lines")
        content = self._content()
        if not content.strip():
            raise DataError(f"{self.name}: the file holds only blank lines.")
        try:
            found = dict(interruptible(lambda: pl.scan_ndjson(content, infer_schema_length=None).collect_schema()))
        except _UNREADABLE as problem:
            raise self._unreadable(content, problem) from problem
        if not found:
            raise DataError(f"{self.name}: the objects in its lines have no fields.")
        return found

    def _parse(self) -> pl.DataFrame:
        content = self._content()
        try:
            frame = interruptible(lambda: pl.scan_ndjson(content, schema=self._kept).collect())
        except _UNREADABLE as problem:
            raise self._unreadable(content, problem) from problem
        if b"\\ud" in content.lower():  # half of a surrogate pair, of which polars makes a zero character
            bad = _first_bad_line(content)
            if bad is not None:
                raise self._unreadable(content, bad[1])
        return frame

    def _content(self) -> bytes:
        with self._file.errors():
            return self._file.utf_8().removeprefix(_BOM)

    def _unreadable(self, content: bytes, problem: BaseException) -> DataError:
        with self._file.errors():
            self._file.text()  # raises where it is another encoding, and the error names that
        bad = _first_bad_line(content)
        where, reason = (f", line {bad[0]}", bad[1]) if bad else ("", problem)
        said = next(iter(str(reason).splitlines()), type(reason).__name__)[:300]
        return DataError(
            f"{self.name}{where}: cannot be read as JSON lines ({said}): expected an object in each line, and values "
            "of one type in each field. Correct the file, or write it as Parquet or CSV."
        )


def _first_bad_line(content: bytes) -> tuple[int, Exception] | None:
    """The number of the first line that is not a JSON object, and what is wrong with it."""
    for number, line in enumerate(io.BytesIO(content), 1):
        if line.strip():
            try:
                found = json.loads(line, parse_constant=_no_constant)
                if not isinstance(found, dict):
                    kind = "an array" if isinstance(found, list) else f"a {type(found).__name__}"
                    return number, ValueError(f"the line holds {kind}")
                json.dumps(found, ensure_ascii=False).encode()  # raises where text holds half of a surrogate pair
            except (ValueError, RecursionError) as problem:
                return number, problem
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no value of JSON")
