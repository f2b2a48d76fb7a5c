"""LanceDB: tables in a folder; several vectors are one request, whose answer names the vector of each hit."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.extras import missing
from tastespace.errors import TastespaceError
from tastespace.recommend.stores._base import Candidates, VectorStore, candidates_of
from tastespace.recommend.stores.vectors import ExportedVectors, plain_id, storable

_METRIC = b"tastespace.metric"


class LanceStore(VectorStore):
    """``lance://folder``. Without an index searches are exact."""

    def _connect(self) -> None:
        try:
            import lancedb
        except ImportError as problem:
            raise missing("export", "lance:// addresses need LanceDB") from problem
        try:
            self._database = lancedb.connect(str(self.address.path))
        except Exception as problem:  # its own errors come from Rust, as plain exceptions of many kinds
            raise self._unreachable(problem) from problem

    def _table(self, part: str) -> Any:
        name = f"{self.address.name}_{part}"
        try:
            return self._database.open_table(name)
        except Exception as problem:
            raise self._not_ours(f"there is no table {name}") from problem

    def _own_tables(self) -> dict[str, Any]:
        """Tables of both names that are there; an error where somebody else wrote one."""
        there = {}
        for part in ("items", "users"):
            try:
                there[part] = self._table(part)
            except TastespaceError:
                continue
            if _METRIC not in (there[part].schema.metadata or {}):
                raise self._foreign(f"the table {self.address.name}_{part}")
        return there

    def write(self, vectors: ExportedVectors, replace: bool) -> None:
        """Write both tables, each in place of the one that was there."""
        self._connect()
        there = self._own_tables()
        if "items" in there:
            self._require_same(vectors, *_kind(there["items"]), replace)
        items = pl.DataFrame({"number": range(len(vectors.items)), "item": vectors.items})
        people = pl.DataFrame({"user": vectors.users, "interest": vectors.interests})
        try:
            for part, frame, rows in (
                ("items", items, vectors.item_vectors),
                ("users", people, vectors.user_vectors),
            ):
                column = pl.Series("vector", rows, dtype=pl.Array(pl.Float32, vectors.dim))
                # Arrow's text of 64-bit offsets, so that all versions of the engine can filter it.
                table = frame.with_columns(column).to_arrow()
                table = table.replace_schema_metadata({_METRIC: vectors.metric.encode()})
                mode = "overwrite" if part in there else "create"
                self._database.create_table(f"{self.address.name}_{part}", table, mode=mode)
        except Exception as problem:
            raise self._unreachable(problem) from problem
        self.open()

    def open(self) -> None:
        """Read metric, dimension and number of items of what is stored."""
        if not self.address.path.is_dir():
            raise self._not_ours("there is no such folder")
        self._connect()
        self._items, self._users = self._table("items"), self._table("users")
        if _METRIC not in (self._items.schema.metadata or {}):
            raise self._not_ours("the table of items was not written by tastespace")
        self.metric, self.dim = _kind(self._items)
        self.n_items = self._items.count_rows()

    def user_vectors(self, user: Hashable) -> NDArray[np.float32]:
        """The stored vectors of a user, shape ``(n_interests, dim)``; an unknown user is an error."""
        wanted = plain_id(user)
        whole = str(self._users.schema.field("user").type).startswith(("int", "uint"))
        if isinstance(wanted, int) != whole or not storable(wanted):
            raise self._unknown_user(user)
        text = str(wanted) if whole else "'" + wanted.replace("'", "''") + "'"
        found = self._users.search().where(f"user = {text}").limit(1_000_000).to_arrow()
        if not found.num_rows:
            raise self._unknown_user(user)
        frame = pl.DataFrame(found).sort("interest")
        return np.asarray(frame["vector"].to_numpy(), dtype=np.float32)

    def _candidates(self, vectors: NDArray[np.float32], n: int, seen: Collection[Any]) -> Candidates:
        limit = min(n + len(seen), self.n_items)
        # A matrix is several queries; of a single vector the answer has no query_index.
        query = self._items.search(vectors if len(vectors) > 1 else vectors[0], vector_column_name="vector")
        found = pl.DataFrame(query.distance_type(self.metric).limit(limit).to_arrow())
        if "query_index" not in found.columns:
            found = found.with_columns(pl.lit(0).alias("query_index"))
        # LanceDB's distances: squared, and 1 minus the inner product.
        scores = -found["_distance"] if self.metric == "l2" else 1 - found["_distance"]
        found = found.with_columns(scores.alias("score"))
        lists = []
        for at in range(len(vectors)):
            mine = found.filter(pl.col("query_index") == at)
            lists.append((mine["number"].to_list(), mine["item"].to_list(), mine["score"].to_list()))
        return candidates_of(lists, limit, self.n_items)


def _kind(table: Any) -> tuple[str, int]:
    """Metric and dimension of a table of ours."""
    schema = table.schema
    return schema.metadata[_METRIC].decode(), schema.field("vector").type.list_size
