"""The feedback store in PostgreSQL, for servers on several machines."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from tastespace._util.extras import missing
from tastespace.serve.errors import StoreError
from tastespace.serve.feedback.store import (
    Dialect,
    FeedbackStore,
    shown_address,
)

_SECONDS = {"reader": 2, "writer": 10}  # for a connection: lists can do without, feedback cannot
_LOCK = 7_402_315_011  # one writer at a time: numbers are then visible in their order, and none is missed


class PostgresqlStore(FeedbackStore):
    """Tables ``tastespace_...`` of a database; a lost connection is made again with the next call."""

    is_local = False
    _dialect = Dialect(
        "tastespace_",
        "%s",
        {
            "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
            "whole": "BIGINT",
            "real": "DOUBLE PRECISION",
            "strict": "",
        },
    )

    def __init__(self, address: str) -> None:
        super().__init__()
        try:
            import psycopg
        except ImportError as problem:
            raise missing("postgresql", "a store in PostgreSQL needs psycopg") from problem
        self._psycopg = psycopg
        self._address = address
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._connections: dict[str, Any] = {}
        with self._transaction() as connection:
            connection.execute(self._tables)

    def close(self) -> None:
        """Give back the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._write_lock, self._connected("writer") as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            yield connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Any]:
        with self._read_lock, self._connected("reader") as connection:
            yield connection

    @contextlib.contextmanager
    def _connected(self, role: str) -> Iterator[Any]:
        """A connection for reading or writing; one that is lost is dropped, and the error is ours."""
        try:
            connection = self._connections.get(role)
            if connection is None or connection.closed:
                connection = self._psycopg.connect(self._address, autocommit=True, connect_timeout=_SECONDS[role])
                self._connections[role] = connection
                connection.execute("SET synchronous_commit = on")
            yield connection
        except self._psycopg.Error as problem:
            lost = self._connections.pop(role, None)
            if lost is not None:
                with contextlib.suppress(self._psycopg.Error):
                    lost.close()
            store, kind = f"{shown_address(self._address)} (PostgreSQL)", type(problem).__name__
            raise StoreError(self._reason(problem), store, shown_reason=kind, is_reading=role == "reader") from problem

    def _reason(self, problem: Exception) -> str:
        """What PostgreSQL says, without a password; only the kind of error where the address cannot be read."""
        kind = type(problem).__name__
        try:
            password = self._psycopg.conninfo.conninfo_to_dict(self._address).get("password")
        except self._psycopg.Error:
            return f"{kind}: the address cannot be read"
        text = " ".join(str(problem).split())
        for secret in {str(password), quote(str(password))} if password else ():
            text = text.replace(secret, "...")
        return f"{kind}: {text}" if text else kind
