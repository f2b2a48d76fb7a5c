"""Stores that are queried in SQL, with tables of items, of users, and of metric and dimension: DuckDB, PostgreSQL."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Sequence
from typing import Any
from urllib.parse import urlencode

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.extras import missing
from tastespace.errors import DataError, ParameterError, nearest
from tastespace.recommend.stores._address import StoreAddress
from tastespace.recommend.stores._base import Candidates, VectorStore, candidates_of
from tastespace.recommend.stores.vectors import ExportedVectors, plain_id, storable

CHUNK = 10_000  # rows that are sent at a time
_CONNECT_SECONDS = 10


def union_of_searches(distance: str, table: str, n_vectors: int, limit: int, columns: str = "number, item") -> str:
    """SQL that searches once for each vector of a user; ``distance`` is an expression with one parameter.

    >>> print(union_of_searches("vector <-> %s", "shop_items", 2, 11))
    SELECT * FROM (SELECT number, item, 0 AS interest, vector <-> %s AS distance FROM shop_items
    ORDER BY distance, number LIMIT 11) AS search_0
    UNION ALL
    SELECT * FROM (SELECT number, item, 1 AS interest, vector <-> %s AS distance FROM shop_items
    ORDER BY distance, number LIMIT 11) AS search_1
    """
    return "\nUNION ALL\n".join(
        f"SELECT * FROM (SELECT {columns}, {at} AS interest, {distance} AS distance FROM {table}\n"
        f"ORDER BY distance, number LIMIT {limit}) AS search_{at}"
        for at in range(n_vectors)
    )


class SqlStore(VectorStore):
    """A database with the tables NAME_items, NAME_users and NAME_about."""

    parameter = "?"
    """Placeholder of a parameter."""
    integer = "BIGINT"
    text = "TEXT"

    def __init__(self, address: StoreAddress) -> None:
        super().__init__(address)
        self.items, self.users, self.about = (f"{address.name}_{part}" for part in ("items", "users", "about"))

    # ---- implemented by each engine --------------------------------------------------------------------------

    @abstractmethod
    def _vector_type(self, dim: int) -> str:
        """The type of a column of vectors."""

    @abstractmethod
    def _distance(self) -> str:
        """The expression by which a search orders: distance, or minus the inner product."""

    @abstractmethod
    def _run(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run one statement and return its rows."""

    @abstractmethod
    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert many rows."""

    @abstractmethod
    def _table_exists(self, table: str) -> bool:
        """Return true if the table exists."""

    def _sent(self, vector: NDArray[np.float32]) -> Any:
        """A vector as a parameter."""
        return vector.tolist()

    def _received(self, value: Any) -> NDArray[np.float32]:
        """A vector as it comes back."""
        return np.asarray(value, dtype=np.float32)

    # ---- writing and opening -------------------------------------------------------------------------------

    def _write_tables(self, vectors: ExportedVectors, replace: bool) -> None:
        """Write all tables, within a transaction of the caller."""
        there = [table for table in (self.items, self.users, self.about) if self._table_exists(table)]
        if there:
            if self.about not in there:
                raise self._foreign(f"the table {there[0]}")
            stored = self._stored_about()
            self._require_same(vectors, stored["metric"], int(stored["dim"]), replace)
        for table in (self.items, self.users, self.about):
            self._run(f"DROP TABLE IF EXISTS {table}")
        kind = self._vector_type(vectors.dim)
        item, user = (self.integer if _whole(ids) else self.text for ids in (vectors.items, vectors.users))
        self._run(f"CREATE TABLE {self.items} (number {self.integer} PRIMARY KEY, item {item}, vector {kind})")
        self._run(f"CREATE TABLE {self.users} (user_id {user}, interest {self.integer}, vector {kind})")
        self._run(f"CREATE TABLE {self.about} (name {self.text}, value {self.text})")
        for first in range(0, len(vectors.items), CHUNK):
            part = slice(first, first + CHUNK)
            rows = [self._sent(row) for row in vectors.item_vectors[part]]
            numbers = range(first, first + len(rows))
            ids = vectors.items[part]
            self._insert(self.items, ("number", "item", "vector"), list(zip(numbers, ids, rows, strict=True)))
        for first in range(0, len(vectors.users), CHUNK):
            part = slice(first, first + CHUNK)
            rows = [self._sent(row) for row in vectors.user_vectors[part]]
            people = list(zip(vectors.users[part], vectors.interests[part], rows, strict=True))
            self._insert(self.users, ("user_id", "interest", "vector"), people)
        self._numbered_users = _whole(vectors.users)
        about = {
            "metric": vectors.metric,
            "dim": vectors.dim,
            "items": len(vectors.items),
            "user_ids": "numbers" if self._numbered_users else "text",
            **self._more_about(vectors),
        }
        self._insert(self.about, ("name", "value"), [(name, str(value)) for name, value in about.items()])
        self._run(f"CREATE INDEX {self.users}_by_user ON {self.users} (user_id)")

    def _more_about(self, vectors: ExportedVectors) -> dict[str, Any]:
        return {}

    def _stored_about(self) -> dict[str, str]:
        try:
            found = dict(self._run(f"SELECT name, value FROM {self.about}"))
        except DataError as problem:
            raise self._foreign(f"the table {self.about}") from problem
        if not {"metric", "dim", "items", "user_ids"} <= found.keys():
            raise self._foreign(f"the table {self.about}")
        return found

    def _read_about(self) -> dict[str, str]:
        if not self._table_exists(self.about):
            raise self._not_ours(f"there is no table {self.about}")
        about = self._stored_about()
        self.metric, self.dim, self.n_items = about["metric"], int(about["dim"]), int(about["items"])
        self._numbered_users = about["user_ids"] == "numbers"
        return about

    # ---- lists ---------------------------------------------------------------------------------------------

    def user_vectors(self, user: Hashable) -> NDArray[np.float32]:
        """The stored vectors of a user, shape ``(n_interests, dim)``; an unknown user is an error."""
        sql = f"SELECT vector FROM {self.users} WHERE user_id = {self.parameter} ORDER BY interest"
        wanted = plain_id(user)
        possible = isinstance(wanted, int) == self._numbered_users and storable(wanted)
        rows = self._run(sql, [wanted]) if possible else []
        if not rows:
            raise self._unknown_user(user)
        return np.stack([self._received(row[0]) for row in rows])

    def sql(self, n_interests: int, k: int, n_seen: int = 0) -> str:
        """The statement that searches for a user: one search for each vector, which are its parameters in order.

        Its rows are number, item, interest and distance. An item that several searches find counts with its smallest
        distance.
        """
        return union_of_searches(self._distance(), self.items, n_interests, k + n_seen)

    def _candidates(self, vectors: NDArray[np.float32], n: int, seen: Collection[Any]) -> Candidates:
        limit = n + len(seen)
        rows = self._run(self.sql(len(vectors), n, len(seen)), [self._sent(vector) for vector in vectors])
        lists: list[tuple[list[int], list[Any], list[float]]] = [([], [], []) for _ in vectors]
        for number, item, interest, distance in rows:
            found = lists[interest]
            found[0].append(number)
            found[1].append(item)
            found[2].append(-(distance**2) if self.metric == "l2" else -distance)
        return candidates_of(lists, limit, self.n_items)


def _whole(ids: Sequence[Any]) -> bool:
    return all(isinstance(one, int) for one in ids)


class DuckDBStore(SqlStore):
    """``duckdb://shop.duckdb``: tables in one file, exact searches by `array_distance`, which needs no extension."""

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


class PgvectorStore(SqlStore):
    """``pgvector://user:password@host:5432/database``; options of PostgreSQL may follow, such as ``?sslmode=require``.

    PostgreSQL with the extension pgvector. Without an index searches are exact. An HNSW or IVFFlat index on the column
    ``vector`` makes them faster, and approximate.
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
