"""The feedback store in a file of SQLite: the default."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from tastespace.serve.errors import StoreError
from tastespace.serve.feedback.store import (
    Changes,
    Cursor,
    Dialect,
    FeedbackStore,
)


class SqliteStore(FeedbackStore):
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
        """What was appended after ``after``; None where that is nothing. Reads only a file that has changed."""
        if self._has_nothing(after):
            return None
        with self._reading() as connection:
            key = connection.execute("PRAGMA data_version").fetchone()[0], after
            found = self._changes(connection, after)
            self._nothing_after = key if found is None else None
        return found

    def _has_nothing(self, after: Cursor) -> bool:
        """Whether the file has not changed since nothing was found after this cursor. Asked with every list."""
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
