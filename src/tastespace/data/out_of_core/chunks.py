"""Files of interactions in chunks of rows, for tables that are built out of core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tastespace.data.reading.options import ANY_LAYOUT, FileLayout
from tastespace.data.reading.tables import (
    ParquetTable,
    Table,
    common_type,
    open_each,
    raise_all,
)
from tastespace.errors import DataError

_BYTES_OF_TEXT = 40  # of a column of text, where its rows cannot be looked at


@dataclass
class _Chunk:
    """Some rows of a file, as a table."""

    name: str
    columns: list[str]
    frame: pl.DataFrame
    first: int
    table: Table
    backend: str = "polars"

    def read(self, column: str) -> pl.Series:
        """One column."""
        return self.frame[column]

    def row(self, position: int) -> str:
        """The row in its file."""
        return self.table.row(self.first + position)


class FileChunks:
    """One or more files whose rows are read in chunks.

    ``columns`` are the columns that are read, by their role. Parquet is read in chunks; a text file or one of JSON
    lines is parsed as a whole, one file at a time.
    """

    def __init__(
        self, paths: Sequence[str | Path], columns: Mapping[str, str | None], layout: FileLayout = ANY_LAYOUT
    ) -> None:
        self._tables = open_each(paths, columns, layout)
        self._columns = list(dict.fromkeys(column for column in columns.values() if column is not None))
        self.name = self._tables[0].name + (f" and {len(self._tables) - 1} more" if len(self._tables) > 1 else "")
        self._lengths = [self._length(table) for table in self._tables]
        self.n_rows = sum(self._lengths)
        self._types = {column: self._type(column) for column in self._columns}

    def type_of(self, column: str) -> pl.DataType:
        """The type that a column has over all files."""
        return self._types[column]

    def bytes_per_row(self) -> int:
        """Estimate the bytes of a row of the columns in memory."""
        return sum(_BYTES_OF_TEXT if not kind.is_numeric() else 8 for kind in self._types.values())

    def chunks(self, n_rows: int, all_problems: bool = False) -> Iterator[Table]:
        """All rows in their order, at most ``n_rows`` at a time.

        With ``all_problems`` a file that cannot be read does not end the walk: all of them are named at its end.
        """
        problems: list[DataError] = []
        for table, length in zip(self._tables, self._lengths, strict=True):
            for first in range(0, length, n_rows):
                try:
                    frame = self._rows(table, first, min(n_rows, length - first))
                except DataError as problem:
                    problems.append(problem)
                    if not all_problems:
                        raise
                    break
                yield _Chunk(table.name, self._columns, frame, first, table)
        raise_all(problems)

    def _rows(self, table: Table, first: int, n_rows: int) -> pl.DataFrame:
        if not isinstance(table, ParquetTable):
            columns = [table.read(column)[first : first + n_rows] for column in self._columns]
            found = pl.DataFrame([column.alias(name) for name, column in zip(self._columns, columns, strict=True)])
        else:
            found = table.read_rows(self._columns, first, n_rows)
        return pl.DataFrame([found[name].cast(kind) for name, kind in self._types.items()])

    def _length(self, table: Table) -> int:
        return table.n_rows() if isinstance(table, ParquetTable) else len(table.read(self._columns[0]))

    def _type(self, column: str) -> pl.DataType:
        tables = self._tables
        kinds = [t.type_of(column) if isinstance(t, ParquetTable) else t.read(column).dtype for t in tables]
        return common_type(column, kinds, [table.name for table in tables])
