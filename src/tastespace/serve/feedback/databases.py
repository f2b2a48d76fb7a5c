"""The feedback store in a database: a file of SQLite by default, PostgreSQL for servers on several machines."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tastespace._util.extras import missing
from tastespace.serve.errors import StoreError
from tastespace.serve.feedback.store import (
    Changes,
    Cursor,
    Dialect,
    FeedbackStore,
    shown_address,
)

_SECONDS = {"reader": 2, "writer": 10}  # for a connection: lists can do without, feedback cannot
_LOCK = 7_402_315_011  # one writer at a time: numbers are then visible in their order, and none is missed


class SqliteFeedbackStore(FeedbackStore):
    """A file of SQLite in WAL mode; a commit returns when the log is on disk (``synchronous=FULL``)."""

    is_local = True
    _dialect = Dialect(
        "",
        "?",
        {
            "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
            "whole": "INTEGER",
            "real": "REAL",
            "strict": " STRICT",
        },
    )

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._is_open = path, False
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._nothing_after: tuple[int, Cursor] | None = None  # data_version, and a cursor that nothing follows
        with self._translated():
            self._writer, self._reader = self._connection(), self._connection()
            self._writer.executescript(self._tables)
        self._is_open = True

    def _connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=20.0, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def changes(self, after: Cursor) -> Changes | None:
        """Return what was appended after ``after``, None where that is nothing. Reads only a file that has changed."""
        if self._has_nothing(after):
            return None
        with self._reading() as connection:
            key = connection.execute("PRAGMA data_version").fetchone()[0], after
            found = self._changes(connection, after)
            self._nothing_after = key if found is None else None
        return found

    def _has_nothing(self, after: Cursor) -> bool:
        """Return whether the file is unchanged since nothing was found after this cursor. Called for every list."""
        known = self._nothing_after
        if known is None or known[1] is not after:
            return False
        try:
            with self._read_lock:
                return bool(self._reader.execute("PRAGMA data_version").fetchone()[0] == known[0])
        except sqlite3.Error:  # `_reading` says what is wrong
            return False

    def close(self) -> None:
        """Give back the file."""
        with self._write_lock, self._read_lock:
            self._writer.close()
            self._reader.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._write_lock, self._translated():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._read_lock, self._translated(is_reading=True):
            yield self._reader

    @contextlib.contextmanager
    def _translated(self, is_reading: bool = False) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.Error as problem:
            advice = "Give the name of a new file, or of one that a server has made." if not self._is_open else ""
            raise StoreError(str(problem), str(self._path), advice, is_reading=is_reading) from problem


class PostgresqlFeedbackStore(FeedbackStore):
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
        """Message of PostgreSQL without a password; only the kind of error where the address cannot be read."""
        kind = type(problem).__name__
        try:
            password = self._psycopg.conninfo.conninfo_to_dict(self._address).get("password")
        except self._psycopg.Error:
            return f"{kind}: the address cannot be read"
        text = " ".join(str(problem).split())
        for secret in {str(password), quote(str(password))} if password else ():
            text = text.replace(secret, "...")
        return f"{kind}: {text}" if text else kind
