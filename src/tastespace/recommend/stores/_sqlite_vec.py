"""SQLite with sqlite-vec: one file, exact searches by `vec_distance_L2`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.extras import missing
from tastespace.errors import DataError
from tastespace.recommend.stores._base import Candidates, candidates_of
from tastespace.recommend.stores._sql import SqlStore, union_of_searches
from tastespace.recommend.stores.vectors import ExportedVectors

_ROUNDING = 1e-5  # of distances of single precision, relative


class SqliteVecStore(SqlStore):
    """``sqlite://shop.sqlite``.

    sqlite-vec has no inner product. Items of such models get a last coordinate that makes all of them as long as the
    longest: the nearest is then the one with the largest inner product with a vector whose last coordinate is 0.
    """

    integer = "INTEGER"
    _longest = 0.0

    def _connect(self) -> None:
        try:
            import sqlite_vec
        except ImportError as problem:
            raise missing("export", "sqlite:// addresses need sqlite-vec") from problem
        sqlite3 = _sqlite_with_extensions()
        self._error = sqlite3.Error
        try:
            self._connection = sqlite3.connect(str(self.address.path), isolation_level=None)
            self._connection.enable_load_extension(True)
            sqlite_vec.load(self._connection)
            self._connection.enable_load_extension(False)
            self._connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()
        except sqlite3.Error as problem:
            raise self._unreachable(problem) from problem

    def _vector_type(self, dim: int) -> str:
        return "BLOB"

    def _distance(self) -> str:
        return "vec_distance_L2(vector, ?)"

    def write(self, vectors: ExportedVectors, replace: bool) -> None:
        """Write all vectors in one transaction."""
        self._require_folder()
        self._connect()
        self.metric, self._longest = vectors.metric, _longest(vectors)
        try:
            self._run("BEGIN IMMEDIATE")
            self._write_tables(self._extended(vectors), replace)
            self._run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self.close()
            raise
        self._remember(vectors)

    def _extended(self, vectors: ExportedVectors) -> ExportedVectors:
        if vectors.metric == "l2":
            return vectors
        squares = np.einsum("ij,ij->i", *[vectors.item_vectors.astype(np.float64)] * 2)
        last = np.sqrt(np.maximum(self._longest**2 - squares, 0)).astype(np.float32)
        return _Extended(
            vectors.metric,
            vectors.items,
            np.hstack([vectors.item_vectors, last[:, None]]),
            vectors.users,
            vectors.interests,
            vectors.user_vectors,
        )

    def _more_about(self, vectors: ExportedVectors) -> dict[str, Any]:
        return {"longest": self._longest}

    def open(self) -> None:
        """Read metric, dimension and number of items of what is stored."""
        if not self.address.path.is_file():
            raise self._not_ours("there is no such file")
        self._connect()
        self._longest = float(self._read_about()["longest"])

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _candidates(self, vectors: NDArray[np.float32], n: int, seen: Collection[Any]) -> Candidates:
        if self.metric == "l2":
            return super()._candidates(vectors, n, seen)
        limit = n + len(seen)
        sql = union_of_searches(self._distance(), self.items, len(vectors), limit, "number, item, vector")
        rows = self._run(sql, [self._sent(np.append(vector, np.float32(0))) for vector in vectors])
        lists: list[tuple[list[int], list[Any], list[float]]] = [([], [], []) for _ in vectors]
        for number, item, blob, interest, _ in rows:
            found = lists[interest]
            found[0].append(number)
            found[1].append(item)
            found[2].append(float(self._received(blob)[:-1].astype(np.float64) @ vectors[interest]))
        merged = candidates_of(lists, limit, self.n_items)
        # Searches ordered by rounded distances, so that an item a little better than the last may be missing.
        scale = float(np.linalg.norm(vectors, axis=1).max() ** 2) + self._longest**2
        return merged._replace(bound=merged.bound + _ROUNDING * scale)

    def _sent(self, vector: NDArray[np.float32]) -> Any:
        return np.ascontiguousarray(vector, dtype="<f4").tobytes()

    def _received(self, value: Any) -> NDArray[np.float32]:
        return np.frombuffer(value, dtype="<f4")

    def _table_exists(self, table: str) -> bool:
        return bool(self._run("SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE", [table]))

    def _run(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        try:
            return list(self._connection.execute(sql, parameters).fetchall())
        except self._error as problem:
            raise DataError(f"{self.address}: SQLite refused a statement: {problem}") from problem

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        try:
            self._connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
        except (self._error, OverflowError) as problem:
            raise DataError(f"{self.address}: SQLite refused rows of {table}: {problem}") from problem


class _Extended(ExportedVectors):
    """Vectors of which those of items have one coordinate more."""

    @property
    def dim(self) -> int:
        """Length of the vectors of users."""
        return int(self.user_vectors.shape[1])


def _sqlite_with_extensions() -> Any:
    """Python's sqlite3, or pysqlite3 where Python was built without extensions of SQLite."""
    import sqlite3

    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    try:
        import pysqlite3
    except ImportError as problem:
        raise missing(
            "export", "this Python's sqlite3 cannot load extensions, so sqlite:// addresses need pysqlite3"
        ) from problem
    return pysqlite3


def _longest(vectors: ExportedVectors) -> float:
    return float(np.linalg.norm(vectors.item_vectors.astype(np.float64), axis=1).max())
