"""The feedback store: interactions and profiles that people have given since the model was fitted, kept durably.

What was appended is on disk before `append` returns, as a whole or not at all; an event whose id is known already
for its user changes nothing (in stores of earlier versions: for any user). Several processes may share a store:
`changes` gives each of them what the others have appended.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from tastespace.errors import ParameterError, require_path
from tastespace.serve.http_errors import StoreError


@dataclass(frozen=True)
class Event:
    """One interaction: who took what, how strongly, when."""

    user: Any
    item: Any
    event_id: str
    """Names the event among those of its user: one that is sent twice is stored once."""
    weight: float = 1.0
    time: str = ""
    """In ISO form, UTC; empty: when it was stored."""


@dataclass(frozen=True)
class StoredProfile:
    """What a user has muted and boosted."""

    user: Any
    mute: tuple[int, ...] = ()
    boost: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Cursor:
    """How far somebody has read the store."""

    event: int = 0
    profile: int = 0


@dataclass(frozen=True)
class Changes:
    """What was appended after a cursor."""

    events: list[Event]
    profiles: list[StoredProfile]
    cursor: Cursor


class FeedbackStore(Protocol):
    """What the server needs of a store. Threads may share one."""

    is_local: bool
    """Whether it can be read in less time than another thread takes to start."""

    def append(self, events: Sequence[Event], profiles: Sequence[StoredProfile] = ()) -> list[bool]:
        """Store all of these durably, or nothing; gives for each event whether it is new."""

    def changes(self, after: Cursor) -> Changes | None:
        """What was appended after ``after``; None where that is nothing."""

    def announce_model(self, server: str, path: str, checksum: str) -> int:
        """Note that a server serves a model from now on, unless it does already; gives the model's generation."""

    def served_model(self, server: str) -> tuple[int, str, str] | None:
        """Generation, path and checksum of the model that was noted last for a server."""

    def note_learned(self, checksum: str, event: int) -> None:
        """Note that the model with this checksum has learned all events up to this number."""

    def learned(self, checksum: str) -> int:
        """Up to which event a model has learned; 0 where nothing was noted."""

    def close(self) -> None:
        """Give back files and connections."""


def open_store(location: str) -> FeedbackStore:
    """The store at a file name (SQLite) or at ``postgresql://...``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(f"{folder}/shop.feedback.sqlite")
    ...     stored = store.append([Event("ann", "tea", "e1"), Event("ann", "tea", "e1")])
    ...     found = store.changes(Cursor())
    ...     store.close()
    >>> stored, [(one.user, one.item) for one in found.events]
    ([True, False], [('ann', 'tea')])
    """
    if location.startswith(("postgresql://", "postgres://")):
        from tastespace.serve.postgresql_store import PostgresqlStore

        return PostgresqlStore(location)
    if "://" in location:
        raise ParameterError(
            f"store {location.partition('://')[0]}://...: expected the name of a file, or postgresql://user@host/name."
        )
    return SqliteStore(require_path(location, "store"))


def shown_address(location: str) -> str:
    """The location of a store as it may be shown: without user, password and options.

    >>> shown_address("postgresql://ann:secret@db/shop?sslmode=require"), shown_address("shop.sqlite")
    ('postgresql://...@db/shop', 'shop.sqlite')
    """
    kind, is_address, rest = location.partition("://")
    if not is_address:
        return location
    _, has_user, place = rest.rpartition("@")
    return f"{kind}://{'...@' if has_user else ''}{place.partition('?')[0]}"


def encoded_id(value: Any) -> str:
    """An id as JSON, so that 7 and "7" stay different; dates and other types as their text."""
    return json.dumps(value if isinstance(value, (str, int, float, bool)) else str(value), ensure_ascii=False)


def utc_now() -> str:
    """The time in ISO form."""
    return datetime.now(timezone.utc).isoformat()


_TABLES = """
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL, user_id TEXT NOT NULL, item_id TEXT NOT NULL,
    weight REAL NOT NULL, time TEXT NOT NULL, UNIQUE (user_id, event_id)) STRICT;
CREATE TABLE IF NOT EXISTS profiles (
    user_id TEXT PRIMARY KEY, mute TEXT NOT NULL, boost TEXT NOT NULL, version INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS profiles_version ON profiles (version);
CREATE TABLE IF NOT EXISTS models (
    generation INTEGER PRIMARY KEY AUTOINCREMENT, server TEXT NOT NULL, path TEXT NOT NULL,
    checksum TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS learned (checksum TEXT PRIMARY KEY, event INTEGER NOT NULL) STRICT;
"""


class SqliteStore:
    """A file of SQLite in WAL mode; a commit returns when the log is on disk (``synchronous=FULL``)."""

    is_local = True

    def __init__(self, path: Path) -> None:
        self._path, self._is_open = path, False
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._nothing_after: tuple[int, Cursor] | None = None  # data_version, and a cursor that nothing follows
        with self._translated():
            self._writer, self._reader = self._connection(), self._connection()
            self._writer.executescript(_TABLES)
        self._is_open = True

    def _connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=20.0, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def append(self, events: Sequence[Event], profiles: Sequence[StoredProfile] = ()) -> list[bool]:
        """Store all of these durably, or nothing; gives for each event whether it is new."""
        now, is_new = utc_now(), []
        with self._transaction() as connection:
            for one in events:
                done = connection.execute(
                    "INSERT INTO events (event_id, user_id, item_id, weight, time) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    (one.event_id, encoded_id(one.user), encoded_id(one.item), one.weight, one.time or now),
                )
                is_new.append(done.rowcount == 1)
            for profile in profiles:
                connection.execute(
                    "INSERT INTO profiles (user_id, mute, boost, version) VALUES (?, ?, ?, "
                    "(SELECT coalesce(max(version), 0) + 1 FROM profiles)) ON CONFLICT (user_id) DO UPDATE SET "
                    "mute = excluded.mute, boost = excluded.boost, version = excluded.version",
                    (encoded_id(profile.user), *profile_columns(profile)),
                )
        return is_new

    def changes(self, after: Cursor) -> Changes | None:
        """What was appended after ``after``; None where that is nothing."""
        with self._reading, self._translated():
            version = self._reader.execute("PRAGMA data_version").fetchone()[0]
            key = (version, after)
            if key == self._nothing_after:
                return None
            events = self._reader.execute(
                "SELECT seq, user_id, item_id, event_id, weight, time FROM events WHERE seq > ? ORDER BY seq",
                (after.event,),
            ).fetchall()
            profiles = self._reader.execute(
                "SELECT version, user_id, mute, boost FROM profiles WHERE version > ? ORDER BY version",
                (after.profile,),
            ).fetchall()
            self._nothing_after = key if not events and not profiles else None
        return changes_of(events, profiles, after)

    def announce_model(self, server: str, path: str, checksum: str) -> int:
        """Note that a server serves a model from now on, unless it does already; gives the model's generation."""
        with self._transaction() as connection:
            last = connection.execute(_LAST_MODEL, (server,)).fetchone()
            if last is not None and last[1:] == (path, checksum):
                return int(last[0])
            done = connection.execute(
                "INSERT INTO models (server, path, checksum) VALUES (?, ?, ?)", (server, path, checksum)
            )
            return int(done.lastrowid or 0)

    def served_model(self, server: str) -> tuple[int, str, str] | None:
        """Generation, path and checksum of the model that was noted last for a server."""
        with self._reading, self._translated():
            found = self._reader.execute(_LAST_MODEL, (server,)).fetchone()
        return None if found is None else tuple(found)

    def note_learned(self, checksum: str, event: int) -> None:
        """Note that the model with this checksum has learned all events up to this number."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO learned (checksum, event) VALUES (?, ?)", (checksum, event))

    def learned(self, checksum: str) -> int:
        """Up to which event a model has learned; 0 where nothing was noted."""
        with self._reading, self._translated():
            found = self._reader.execute("SELECT event FROM learned WHERE checksum = ?", (checksum,)).fetchone()
        return 0 if found is None else int(found[0])

    def close(self) -> None:
        """Give back the file."""
        with self._writing, self._reading:
            self._writer.close()
            self._reader.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._writing, self._translated():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.Error as problem:
            advice = "Give the name of a new file, or of one that a server has made." if not self._is_open else ""
            raise StoreError(str(problem), str(self._path), advice) from problem


_LAST_MODEL = "SELECT generation, path, checksum FROM models WHERE server = ? ORDER BY generation DESC LIMIT 1"


def profile_columns(profile: StoredProfile) -> tuple[str, str]:
    """What is muted and boosted, as JSON."""
    boost = {str(x): factor for x, factor in profile.boost.items()}
    return json.dumps(sorted(profile.mute)), json.dumps(boost)


def changes_of(events: Sequence[Any], profiles: Sequence[Any], after: Cursor) -> Changes | None:
    """Rows of both tables, as `SqliteStore.changes` selects them, as changes."""
    if not events and not profiles:
        return None
    return Changes(
        [Event(json.loads(row[1]), json.loads(row[2]), row[3], row[4], row[5]) for row in events],
        [
            StoredProfile(json.loads(row[1]), tuple(json.loads(row[2])), _factors(json.loads(row[3])))
            for row in profiles
        ],
        Cursor(events[-1][0] if events else after.event, profiles[-1][0] if profiles else after.profile),
    )


def _factors(stored: dict[str, float]) -> dict[int, float]:
    return {int(x): float(factor) for x, factor in stored.items()}
