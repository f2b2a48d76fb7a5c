"""Stores that are queried in SQL: tables of items, of users, and of metric and dimension."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.errors import DataError
from tastespace.recommend.stores._address import StoreAddress
from tastespace.recommend.stores._base import Candidates, VectorStore, candidates_of
from tastespace.recommend.stores.vectors import ExportedVectors, plain_id, storable

CHUNK = 10_000  # rows that are sent at a time


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
