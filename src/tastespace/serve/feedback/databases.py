"""The feedback store in a database: a file of SQLite by default, PostgreSQL for servers on several machines."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tastespace._util.addresses import shown_address
from tastespace._util.extras import missing
from tastespace._util.limits import STORE_READ_SECONDS, STORE_WRITE_SECONDS
from tastespace.serve.errors import StoreError
from tastespace.serve.feedback.store import (
    Changes,
    Cursor,
    Dialect,
    FeedbackStore,
)

_SECONDS = {"reader": STORE_READ_SECONDS, "writer": STORE_WRITE_SECONDS}
_LOOK_SECONDS = 0.25  # between two looks at connections that wait
_OF_VALUES = ("22", "23", "54")  # classes of errors: data, constraints, limits such as that of a row of an index
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
    _snapshot = "BEGIN"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._is_open = path, False
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._nothing_after: tuple[int, Cursor] | None = None  # data_version, and a cursor that nothing follows
        with self._translated():
            self._writer, self._reader = self._connection(), self._connection()
            self._writer.executescript(self._tables)
            for table, column, kind in self._added:
                names = [row[1] for row in self._writer.execute(f"PRAGMA table_info({table})")]
                if column not in names:
                    with contextlib.suppress(sqlite3.OperationalError):  # another worker has added it since
                        self._writer.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        self._is_open = True
        self._files = self._files_now()

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
                self._require_files()
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            self._require_files(is_uncertain=True)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._read_lock, self._translated(is_reading=True):
            self._require_files(is_reading=True)
            yield self._reader

    def _files_now(self) -> list[tuple[int, int] | None]:
        """Files that the names of database and log lead to; None where there is none."""
        found: list[tuple[int, int] | None] = []
        for name in (self._path, Path(f"{self._path}-wal")):
            try:
                facts = name.stat()
                found.append((facts.st_dev, facts.st_ino))
            except OSError:
                found.append(None)
        return found

    def _require_files(self, is_reading: bool = False, is_uncertain: bool = False) -> None:
        """Raise if the files were deleted or replaced: SQLite would go on writing to what nobody can open again."""
        now = self._files_now()
        if self._files[1] is None:  # nothing was written before
            self._files[1] = now[1]
        if now != self._files:
            raise StoreError(
                "its file was deleted, moved or replaced while the server used it",
                str(self._path),
                "Put the files back, or start the server again.",
                is_reading=is_reading,
                is_uncertain=is_uncertain,
            )

    @contextlib.contextmanager
    def _translated(self, is_reading: bool = False) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.Error as problem:
            advice = "Give the name of a new file, or of one that a server has made." if not self._is_open else ""
            is_refusal = isinstance(problem, (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError))
            raise StoreError(
                str(problem), str(self._path), advice, is_reading=is_reading, is_refusal=is_refusal
            ) from problem


class _TimedConnection:
    """A connection of psycopg that is lost where the answer to a statement does not come in time."""

    def __init__(self, connection: Any, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._until = math.inf

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> Any:
        """The cursor of a statement."""
        self._until = time.monotonic() + self._seconds
        try:
            return self._connection.execute(statement, values)
        finally:
            self._until = math.inf

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """A statement for each of many rows."""
        self._until = time.monotonic() + self._seconds
        try:
            with self._connection.cursor() as cursor:
                cursor.executemany(statement, rows)
        finally:
            self._until = math.inf

    @property
    def is_lost(self) -> bool:
        """True where nothing can be asked any more."""
        return bool(self._connection.closed)

    def end_if_late(self) -> None:
        """Let a statement that takes too long fail, in its own thread."""
        if time.monotonic() > self._until:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as own:
                own.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


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
    _snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    _has_no_limit = False

    def __init__(self, address: str) -> None:
        super().__init__()
        try:
            import psycopg
        except ImportError as problem:
            raise missing("postgresql", "a store in PostgreSQL needs psycopg") from problem
        self._psycopg = psycopg
        self._address = address
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._connections: dict[str, _TimedConnection] = {}
        self._is_closed = threading.Event()
        threading.Thread(target=self._end_late, name="tastespace-store-times", daemon=True).start()
        try:
            with self._transaction() as connection:
                connection.execute(self._tables)
                for table, column, kind in self._added:
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} {kind}")
        except StoreError:
            self._is_closed.set()
            raise

    def close(self) -> None:
        """Give back the connections."""
        self._is_closed.set()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _end_late(self) -> None:
        """End connections whose answers do not come: a hung server does not keep its own time limits."""
        while not self._is_closed.wait(_LOOK_SECONDS):
            for connection in list(self._connections.values()):
                connection.end_if_late()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._write_lock, self._connected("writer") as connection:
            connection.execute("BEGIN")
            try:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                yield connection
            except BaseException:
                with contextlib.suppress(self._psycopg.Error):
                    connection.execute("ROLLBACK")
                raise
            try:
                connection.execute("COMMIT")
            except self._psycopg.OperationalError as problem:
                raise self._error(problem, "writer", is_uncertain=True) from problem

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Any]:
        with self._read_lock, self._connected("reader") as connection:
            yield connection

    @contextlib.contextmanager
    def _connected(self, role: str) -> Iterator[_TimedConnection]:
        """A connection for reading or writing; one that is lost is dropped, and the error is ours."""
        try:
            connection = self._connections.get(role)
            if connection is None or connection.is_lost:
                self._connections[role] = connection = self._opened(_SECONDS[role])
            yield connection
        except self._psycopg.Error as problem:
            found = self._error(problem, role)
            if not found.is_refusal:
                lost = self._connections.pop(role, None)
                if lost is not None:
                    lost.close()
            raise found from problem

    def _error(self, problem: Any, role: str, is_uncertain: bool = False) -> StoreError:
        """An error of psycopg as ours."""
        return StoreError(
            self._reason(problem),
            f"{shown_address(self._address)} (PostgreSQL)",
            shown_reason=type(problem).__name__,
            is_reading=role == "reader",
            is_refusal=(problem.sqlstate or "")[:2] in _OF_VALUES,
            is_uncertain=is_uncertain,
        )

    def _opened(self, seconds: float) -> _TimedConnection:
        milliseconds = int(1000 * seconds)
        opened = self._psycopg.connect(
            self._address,
            autocommit=True,
            connect_timeout=int(seconds),
            keepalives_idle=30,
            tcp_user_timeout=milliseconds,
        )
        connection = _TimedConnection(opened, seconds)
        try:
            connection.execute("SET synchronous_commit = on")
            # What a stopped worker holds is free again, and nothing runs on for a client that has given up.
            connection.execute(f"SET statement_timeout = {milliseconds}")
            connection.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
        except BaseException:
            connection.close()
            raise
        return connection

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
