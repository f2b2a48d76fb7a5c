"""DuckDB: tables in one file, exact searches by `array_distance`, which needs no extension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from tastespace._util.extras import missing
from tastespace.errors import DataError
from tastespace.recommend.stores._sql import SqlStore
from tastespace.recommend.stores.vectors import ExportedVectors


class DuckDBStore(SqlStore):
    """``duckdb://shop.duckdb``."""

    text = "VARCHAR"

    def _connect(self) -> None:
        try:
            import duckdb
        except ImportError as problem:
            raise missing("export", "duckdb:// addresses need DuckDB") from problem
        try:
            self._connection = duckdb.connect(str(self.address.path))
        except duckdb.Error as problem:
            raise self._unreachable(problem) from problem
        self._error = duckdb.Error
        files = "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
        if self._run(files)[0][0] is None and self.address.place != ":memory:":  # a table, which DuckDB shows as a view
            self.close()
            raise self._foreign("a file that is no database of DuckDB")

    def _vector_type(self, dim: int) -> str:
        return f"FLOAT[{dim}]"

    def _distance(self) -> str:
        vector = f"?::FLOAT[{self.dim}]"
        if self.metric == "l2":
            return f"array_distance(vector, {vector})"
        return f"array_negative_inner_product(vector, {vector})"

    def write(self, vectors: ExportedVectors, replace: bool) -> None:
        """Write all vectors in one transaction."""
        self._require_folder()
        self._connect()
        try:
            self._run("BEGIN TRANSACTION")
            self._write_tables(vectors, replace)
            self._run("COMMIT")
        except BaseException:
            self._connection.rollback()
            self.close()
            raise
        self._remember(vectors)

    def open(self) -> None:
        """Read metric, dimension and number of items of what is stored."""
        if not self.address.path.is_file():
            raise self._not_ours("there is no such file")
        self._connect()
        self._read_about()

    def close(self) -> None:
        """Close the file, which other processes can then write to."""
        self._connection.close()

    def _table_exists(self, table: str) -> bool:
        return bool(self._run("SELECT 1 FROM information_schema.tables WHERE lower(table_name) = ?", [table.lower()]))

    def _run(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        try:
            return list(self._connection.execute(sql, list(parameters)).fetchall())
        except self._error as problem:
            raise DataError(f"{self.address}: DuckDB refused a statement: {problem}") from problem

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Rows go through a frame: single inserts are slow in a database of columns."""
        frame = pl.DataFrame(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
        self._connection.register("rows_to_insert", frame.to_arrow())
        try:
            self._run(f"INSERT INTO {table} SELECT * FROM rows_to_insert")
        finally:
            self._connection.unregister("rows_to_insert")
