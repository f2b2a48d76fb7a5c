"""PostgreSQL with the extension pgvector: a search is a union of one search for each vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from tastespace._util.extras import missing
from tastespace.errors import DataError, ParameterError, nearest
from tastespace.recommend.stores._sql import SqlStore
from tastespace.recommend.stores.vectors import ExportedVectors

_CONNECT_SECONDS = 10


class PgvectorStore(SqlStore):
    """``pgvector://user:password@host:5432/database``; options of PostgreSQL may follow, such as ``?sslmode=require``.

    Without an index searches are exact. An HNSW or IVFFlat index on the column ``vector`` makes them faster, and
    approximate.
    """

    parameter = "%s"

    def _connect(self) -> None:
        try:
            import psycopg
        except ImportError as problem:
            raise missing("postgresql", "pgvector:// addresses need psycopg") from problem
        self._error = psycopg.Error
        known = ["name", *(one.keyword.decode() for one in psycopg.pq.Conninfo.get_defaults())]
        for option, value in self.address.options.items():
            if option not in known:
                raise ParameterError(
                    f"{option}={value}: pgvector addresses take name and the options of PostgreSQL, such as "
                    f"sslmode=require.{nearest(option, known)}"
                )
        options = {"connect_timeout": str(_CONNECT_SECONDS), **self.address.options}
        try:
            self._connection = psycopg.connect(f"postgresql://{self.address.place}?{urlencode(options)}")
        except psycopg.Error as problem:
            raise self._unreachable(problem, "Is the server running, and the database there?") from problem

    def _vector_type(self, dim: int) -> str:
        return f"vector({dim})"

    def _distance(self) -> str:
        return f"vector {'<->' if self.metric == 'l2' else '<#>'} %s::vector"

    def write(self, vectors: ExportedVectors, replace: bool) -> None:
        """Write all vectors in one transaction: readers see the old ones until it ends."""
        self._connect()
        try:
            try:
                self._run("CREATE EXTENSION IF NOT EXISTS vector")
            except DataError as problem:
                raise DataError(
                    f"{self.address}: the extension pgvector is not there and cannot be created ({problem.__cause__}). "
                    "Install it on the server, then CREATE EXTENSION vector as its owner."
                ) from problem
            self._write_tables(vectors, replace)
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            self.close()
            raise
        self._remember(vectors)

    def open(self) -> None:
        """Read metric, dimension and number of items of what is stored."""
        self._connect()
        self._connection.autocommit = True
        self._read_about()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _sent(self, vector: NDArray[np.float32]) -> Any:
        return "[" + ",".join(map(str, vector.tolist())) + "]"

    def _received(self, value: Any) -> NDArray[np.float32]:
        return np.array(value.strip("[]").split(","), dtype=np.float32)

    def _table_exists(self, table: str) -> bool:
        return self._run("SELECT to_regclass(%s)", [table.lower()])[0][0] is not None

    def _run(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        try:
            # psycopg's own types say that SQL is a literal, against injection; names are checked by parse_address.
            cursor = self._connection.execute(sql, parameters or None)
            return list(cursor.fetchall()) if cursor.description else []
        except self._error as problem:
            raise DataError(f"{self.address}: PostgreSQL refused a statement: {problem}") from problem

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        copy = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        try:
            with self._connection.cursor() as cursor, cursor.copy(copy) as stream:
                for row in rows:
                    stream.write_row(row)
        except self._error as problem:
            raise DataError(f"{self.address}: PostgreSQL refused rows of {table}: {problem}") from problem
