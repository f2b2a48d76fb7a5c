"""The feedback store in PostgreSQL, for servers on several machines."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from tastespace.extras import missing
from tastespace.serve.feedback_store import (
    Changes,
    Cursor,
    Event,
    StoredProfile,
    changes_of,
    encoded_id,
    profile_columns,
    shown_address,
    utc_now,
)
from tastespace.serve.http_errors import StoreError

_LOCK = 7_402_315_011  # one writer at a time: numbers are then visible in their order, and none is missed
_TABLES = """
CREATE TABLE IF NOT EXISTS tastespace_events (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id TEXT NOT NULL, user_id TEXT NOT NULL,
    item_id TEXT NOT NULL, weight DOUBLE PRECISION NOT NULL, time TEXT NOT NULL, UNIQUE (user_id, event_id));
CREATE TABLE IF NOT EXISTS tastespace_profiles (
    user_id TEXT PRIMARY KEY, mute TEXT NOT NULL, boost TEXT NOT NULL, version BIGINT NOT NULL);
CREATE INDEX IF NOT EXISTS tastespace_profiles_version ON tastespace_profiles (version);
CREATE TABLE IF NOT EXISTS tastespace_models (
    generation BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, server TEXT NOT NULL, path TEXT NOT NULL,
    checksum TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tastespace_learned (checksum TEXT PRIMARY KEY, event BIGINT NOT NULL);
"""
_LAST_MODEL = (
    "SELECT generation, path, checksum FROM tastespace_models WHERE server = %s ORDER BY generation DESC LIMIT 1"
)


class PostgresqlStore:
    """Tables ``tastespace_...`` of a database; a lost connection is made again with the next call."""

    is_local = False

    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError as problem:
            raise missing("postgresql", "a store in PostgreSQL needs psycopg") from problem
        self._psycopg = psycopg
        self._address = address
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._connections: dict[str, Any] = {}
        with self._transaction() as connection:
            connection.execute(_TABLES)

    def append(self, events: Sequence[Event], profiles: Sequence[StoredProfile] = ()) -> list[bool]:
        """Store all of these durably, or nothing; gives for each event whether it is new."""
        now, is_new = utc_now(), []
        with self._transaction() as connection:
            for one in events:
                done = connection.execute(
                    "INSERT INTO tastespace_events (event_id, user_id, item_id, weight, time) "
                    "VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (one.event_id, encoded_id(one.user), encoded_id(one.item), one.weight, one.time or now),
                )
                is_new.append(done.rowcount == 1)
            for profile in profiles:
                connection.execute(
                    "INSERT INTO tastespace_profiles (user_id, mute, boost, version) VALUES (%s, %s, %s, "
                    "(SELECT coalesce(max(version), 0) + 1 FROM tastespace_profiles)) ON CONFLICT (user_id) DO UPDATE "
                    "SET mute = excluded.mute, boost = excluded.boost, version = excluded.version",
                    (encoded_id(profile.user), *profile_columns(profile)),
                )
        return is_new

    def changes(self, after: Cursor) -> Changes | None:
        """What was appended after ``after``; None where that is nothing."""
        with self._reading, self._connected("reader") as connection:
            events = connection.execute(
                "SELECT seq, user_id, item_id, event_id, weight, time FROM tastespace_events WHERE seq > %s "
                "ORDER BY seq",
                (after.event,),
            ).fetchall()
            profiles = connection.execute(
                "SELECT version, user_id, mute, boost FROM tastespace_profiles WHERE version > %s ORDER BY version",
                (after.profile,),
            ).fetchall()
        return changes_of(events, profiles, after)

    def announce_model(self, server: str, path: str, checksum: str) -> int:
        """Note that a server serves a model from now on, unless it does already; gives the model's generation."""
        with self._transaction() as connection:
            last = connection.execute(_LAST_MODEL, (server,)).fetchone()
            if last is not None and last[1:] == (path, checksum):
                return int(last[0])
            insert = "INSERT INTO tastespace_models (server, path, checksum) VALUES (%s, %s, %s) RETURNING generation"
            return int(connection.execute(insert, (server, path, checksum)).fetchone()[0])

    def served_model(self, server: str) -> tuple[int, str, str] | None:
        """Generation, path and checksum of the model that was noted last for a server."""
        with self._reading, self._connected("reader") as connection:
            found = connection.execute(_LAST_MODEL, (server,)).fetchone()
        return None if found is None else (int(found[0]), found[1], found[2])

    def note_learned(self, checksum: str, event: int) -> None:
        """Note that the model with this checksum has learned all events up to this number."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO tastespace_learned (checksum, event) VALUES (%s, %s) "
                "ON CONFLICT (checksum) DO UPDATE SET event = excluded.event",
                (checksum, event),
            )

    def learned(self, checksum: str) -> int:
        """Up to which event a model has learned; 0 where nothing was noted."""
        with self._reading, self._connected("reader") as connection:
            query = "SELECT event FROM tastespace_learned WHERE checksum = %s"
            found = connection.execute(query, (checksum,)).fetchone()
        return 0 if found is None else int(found[0])

    def close(self) -> None:
        """Give back the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._writing, self._connected("writer") as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            yield connection

    @contextlib.contextmanager
    def _connected(self, role: str) -> Iterator[Any]:
        """A connection for reading or writing; one that is lost is dropped, and the error is ours."""
        try:
            connection = self._connections.get(role)
            if connection is None or connection.closed:
                connection = self._psycopg.connect(self._address, autocommit=True, connect_timeout=10)
                self._connections[role] = connection
                connection.execute("SET synchronous_commit = on")
            yield connection
        except self._psycopg.Error as problem:
            lost = self._connections.pop(role, None)
            if lost is not None:
                with contextlib.suppress(self._psycopg.Error):
                    lost.close()
            store, kind = f"{shown_address(self._address)} (PostgreSQL)", type(problem).__name__
            raise StoreError(self._reason(problem), store, shown_reason=kind) from problem

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
