"""The feedback store: interactions and profiles that people have given since the model was fitted, kept durably.

What was appended is on disk before `append` returns, as a whole or not at all; an event whose id is known already
for its user changes nothing. Several processes may share a store:
`changes` returns what the others have appended.
"""

from __future__ import annotations

import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar

from tastespace._util.limits import EVENT_YEARS, STORE_ROWS
from tastespace.answers.ids import json_id
from tastespace.errors import ParameterError, require_path
from tastespace.serve.feedback import impressions, removals
from tastespace.serve.feedback.ids import id_text, read_id
from tastespace.serve.feedback.removals import RemovedUser, StoredItem

log = logging.getLogger(__name__)

UNDO = "undo"
"""Kind of an event that takes back a dislike of the same user and item."""


@dataclass(frozen=True)
class FeedbackEvent:
    """One interaction: user, item, weight and time."""

    user: Any
    item: Any
    event_id: str
    """Names the event among those of its user: one that is sent twice is stored once."""
    weight: float = 1.0
    time: str = ""
    """In ISO form, UTC; empty: when it was stored."""
    kind: str = ""
    """Such as purchase, dislike or `UNDO`; empty: an interaction of no kind in particular."""
    recommendation: str = ""
    """Id of the answer whose list it came from; empty: none is named."""


@dataclass(frozen=True)
class StoredProfile:
    """Interests that a user has muted and boosted."""

    user: Any
    mute: tuple[int, ...] = ()
    boost: dict[int, float] = field(default_factory=dict)
    tastes: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """Past items of each interest when this was said: by them the interests are known again in another model."""
    model: str = ""
    """Checksum of the model whose interests have these numbers; empty: not known."""


@dataclass(frozen=True)
class Cursor:
    """Place up to which a reader has read the store."""

    event: int = 0
    profile: int = 0
    removal: int = 0
    item: int = 0


@dataclass(frozen=True)
class Changes:
    """Rows that were appended after a cursor. All events and profiles are later than the removals of their users."""

    events: list[FeedbackEvent]
    profiles: list[StoredProfile]
    cursor: Cursor
    n_unreadable: int = 0
    """Rows that are no events or profiles, which something else has written: they are left out."""
    removals: list[RemovedUser] = field(default_factory=list)
    items: list[StoredItem] = field(default_factory=list)


def event_time(text: str) -> datetime:
    """The time of an event in UTC; a ValueError where there is none, or out of bounds.

    >>> event_time("2024-05-01T14:00:00+02:00")
    datetime.datetime(2024, 5, 1, 12, 0, tzinfo=datetime.timezone.utc)
    """
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    try:
        found = moment.astimezone(timezone.utc)
    except OverflowError as problem:
        raise ValueError("out of bounds") from problem
    if not EVENT_YEARS[0] <= found.year <= EVENT_YEARS[1]:
        raise ValueError("out of bounds")
    return found


_STATEMENTS = {
    "add event": "INSERT INTO {events} (event_id, user_id, item_id, weight, time, kind, recommendation) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    "positions": "SELECT (SELECT max(seq) FROM {events}), (SELECT max(version) FROM {profiles}), "
    "(SELECT max(seq) FROM {removals}), (SELECT max(version) FROM {items})",
    "put profile": "INSERT INTO {profiles} (user_id, mute, boost, tastes, version) VALUES (?, ?, ?, ?, "
    "(SELECT coalesce(max(version), 0) + 1 FROM {profiles})) ON CONFLICT (user_id) DO UPDATE SET "
    "mute = excluded.mute, boost = excluded.boost, tastes = excluded.tastes, version = excluded.version",
    "events": "SELECT seq, user_id, item_id, event_id, weight, time, kind FROM {events} WHERE seq > ? "
    "ORDER BY seq LIMIT ?",
    "profiles": "SELECT version, user_id, mute, boost, tastes FROM {profiles} WHERE version > ? "
    "ORDER BY version LIMIT ?",
    "last model": "SELECT generation, path, checksum FROM {models} WHERE server = ? ORDER BY generation DESC LIMIT 1",
    "add model": "INSERT INTO {models} (server, path, checksum, time, metrics) VALUES (?, ?, ?, ?, ?) "
    "RETURNING generation",
    "models": "SELECT generation, path, time, metrics FROM {models} WHERE server = ? ORDER BY generation DESC LIMIT ?",
    "put learned": "INSERT INTO {learned} (checksum, event, removal) VALUES (?, ?, ?) "
    "ON CONFLICT (checksum) DO UPDATE SET event = excluded.event, removal = excluded.removal",
    "learned": "SELECT event, removal FROM {learned} WHERE checksum = ?",
    **removals.STATEMENTS,
    **impressions.STATEMENTS,
}
_ADDED = {
    "events": {"kind": "TEXT NOT NULL DEFAULT ''", "recommendation": "TEXT NOT NULL DEFAULT ''"},
    "models": {"time": "TEXT NOT NULL DEFAULT ''", "metrics": "TEXT NOT NULL DEFAULT '{{}}'"},
    "learned": {"removal": "{whole} NOT NULL DEFAULT 0"},
}
"""Columns that tables of earlier versions lack."""
_TABLES = """
CREATE TABLE IF NOT EXISTS {events} (
    seq {serial}, event_id TEXT NOT NULL, user_id TEXT NOT NULL, item_id TEXT NOT NULL,
    weight {real} NOT NULL, time TEXT NOT NULL, kind TEXT NOT NULL DEFAULT '',
    recommendation TEXT NOT NULL DEFAULT '', UNIQUE (user_id, event_id)){strict};
CREATE TABLE IF NOT EXISTS {profiles} (
    user_id TEXT PRIMARY KEY, mute TEXT NOT NULL, boost TEXT NOT NULL, version {whole} NOT NULL,
    tastes TEXT NOT NULL DEFAULT '{{}}'){strict};
CREATE INDEX IF NOT EXISTS {profiles}_version ON {profiles} (version);
CREATE TABLE IF NOT EXISTS {models} (
    generation {serial}, server TEXT NOT NULL, path TEXT NOT NULL, checksum TEXT NOT NULL,
    time TEXT NOT NULL DEFAULT '', metrics TEXT NOT NULL DEFAULT '{{}}'){strict};
CREATE TABLE IF NOT EXISTS {learned} (
    checksum TEXT PRIMARY KEY, event {whole} NOT NULL, removal {whole} NOT NULL DEFAULT 0){strict};
"""
_NAMES = ("events", "profiles", "models", "learned", "removals", "items", "lists", "impressions")


@dataclass(frozen=True)
class Dialect:
    """Spelling of SQL in one kind of database."""

    prefix: str
    """Of the names of tables."""
    mark: str
    """Of a parameter."""
    words: Mapping[str, str]
    """Types of columns and the like."""

    def sql(self, text: str) -> str:
        """A statement in this dialect.

        >>> Dialect("shop_", "%s", {}).sql("SELECT event FROM {learned} WHERE checksum = ?")
        'SELECT event FROM shop_learned WHERE checksum = %s'
        """
        tables = {name: self.prefix + name for name in _NAMES}
        return text.format(**tables, **self.words).replace("?", self.mark)


class FeedbackStore(removals.Removals, impressions.Impressions, ABC):
    """Tables of a database. Threads may share one.

    A kind of database has a `Dialect`, a transaction of one writer at a time, and a connection for reading.
    """

    is_local: ClassVar[bool]
    """True where it can be read in less time than another thread takes to start."""
    _dialect: ClassVar[Dialect]
    _snapshot: ClassVar[str]
    """Statement after which several are answered from one state of the database, until ``COMMIT``."""

    def __init__(self) -> None:
        self._sql = {name: self._dialect.sql(text) for name, text in _STATEMENTS.items()}
        self._tables = self._dialect.sql(_TABLES + removals.TABLES + impressions.TABLES)
        self._added = [
            (self._dialect.sql(f"{{{table}}}"), column, self._dialect.sql(kind))
            for table, columns in _ADDED.items()
            for column, kind in columns.items()
        ]

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """A connection whose statements are durable at the end, or undone by an error; one at a time."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Any]:
        """A connection for reading."""

    @abstractmethod
    def close(self) -> None:
        """Give back files and connections."""

    def append(self, events: Sequence[FeedbackEvent], profiles: Sequence[StoredProfile] = ()) -> list[bool]:
        """Store all of these durably, or nothing; return for each event whether it is new."""
        now, is_new = datetime.now(timezone.utc).isoformat(), []
        with self._transaction() as connection:
            for one in events:
                values = (one.event_id, id_text(one.user), id_text(one.item), one.weight, one.time or now, one.kind,
                          one.recommendation)  # fmt: skip
                is_new.append(connection.execute(self._sql["add event"], values).rowcount == 1)
            for profile in profiles:
                connection.execute(self._sql["put profile"], (id_text(profile.user), *_profile_columns(profile)))
        return is_new

    def changes(self, after: Cursor) -> Changes | None:
        """Return what was appended after ``after``; None where that is nothing."""
        with self._reading() as connection:
            return self._changes(connection, after)

    def _changes(self, connection: Any, after: Cursor) -> Changes | None:
        newest = connection.execute(self._sql["positions"]).fetchone()
        if all(one is None or one <= known for one, known in zip(newest, _positions(after), strict=True)):
            return None
        # One state of all tables: an event that came after a removal must not be read before it.
        connection.execute(self._snapshot)
        try:
            names = ("events", "profiles", "removals", "items")
            rows = [self._rows(connection, *one) for one in zip(names, _positions(after), strict=True)]
        finally:
            connection.execute("COMMIT")
        if not any(rows):
            return None
        readers: tuple[Callable[..., Any], ...] = (_event, _profile, removals.removed_user, removals.stored_item)
        found = [[_readable(read, row) for row in some] for read, some in zip(readers, rows, strict=True)]
        events, profiles, removed, items = ([one for one in some if one is not None] for some in found)
        last = [some[-1][0] if some else known for some, known in zip(rows, _positions(after), strict=True)]
        n_unreadable = sum(some.count(None) for some in found)
        return Changes(events, profiles, Cursor(*last), n_unreadable, removed, items)

    def _rows(self, connection: Any, table: str, after: int) -> list[Any]:
        """Rows after a number, which is in their first column; many are read in several statements."""
        found: list[Any] = []
        while True:
            some = connection.execute(self._sql[table], (after, STORE_ROWS)).fetchall()
            found += some
            if len(some) < STORE_ROWS:
                return found
            after = some[-1][0]

    def announce_model(self, server: str, path: str, checksum: str, metrics: Mapping[str, Any] | None = None) -> int:
        """Note that a server serves a model from now on, unless it does already; return the model's generation.

        ``metrics``: of its evaluation, as JSON has them.
        """
        with self._transaction() as connection:
            last = connection.execute(self._sql["last model"], (server,)).fetchone()
            if last is not None and tuple(last[1:]) == (path, checksum):
                return int(last[0])
            values = (server, path, checksum, datetime.now(timezone.utc).isoformat(), json.dumps(dict(metrics or {})))
            return int(connection.execute(self._sql["add model"], values).fetchone()[0])

    def served_models(self, server: str, most: int) -> list[tuple[int, str, str, dict[str, Any]]]:
        """Generation, path, time (empty: not noted) and metrics of the last models of a server, the latest first."""
        with self._reading() as connection:
            rows = connection.execute(self._sql["models"], (server, most)).fetchall()
        return [(int(number), path, time, json.loads(metrics)) for number, path, time, metrics in rows]

    def served_model(self, server: str) -> tuple[int, str, str] | None:
        """Generation, path and checksum of the model that was noted last for a server."""
        with self._reading() as connection:
            found = connection.execute(self._sql["last model"], (server,)).fetchone()
        return None if found is None else (int(found[0]), found[1], found[2])

    def note_learned(self, checksum: str, event: int, removal: int = 0) -> None:
        """Note up to which event the model with this checksum has learned, and up to which removal it has obeyed."""
        with self._transaction() as connection:
            connection.execute(self._sql["put learned"], (checksum, event, removal))

    def learned(self, checksum: str) -> Cursor:
        """Up to which event a model has learned, and up to which removal it has obeyed; 0 where nothing was noted."""
        with self._reading() as connection:
            found = connection.execute(self._sql["learned"], (checksum,)).fetchone()
        return Cursor() if found is None else Cursor(event=int(found[0]), removal=int(found[1]))


def _positions(cursor: Cursor) -> tuple[int, int, int, int]:
    return cursor.event, cursor.profile, cursor.removal, cursor.item


def _profile_columns(profile: StoredProfile) -> tuple[str, str, str]:
    """Muted and boosted interests, and the past items of interests, as JSON."""
    items = {str(x): [json_id(item) for item in items] for x, items in profile.tastes.items()}
    tastes = {"model": profile.model, "items": items} if profile.model or items else {}
    boost = {str(x): factor for x, factor in profile.boost.items()}
    return json.dumps(sorted(profile.mute)), json.dumps(boost), json.dumps(tastes, ensure_ascii=False)


def _readable(read: Callable[..., Any], row: Sequence[Any]) -> Any:
    """A row as it was stored; None for one that something else has written, which is no reason to give no lists."""
    try:
        return read(*row) if read is removals.removed_user else read(*row[1:])
    except (ValueError, TypeError, AttributeError, RecursionError):
        log.warning("row %s of the feedback store cannot be read and is left out", row[0])
        return None


def _event(user: str, item: str, event_id: str, weight: float, time: str, kind: str) -> FeedbackEvent:
    return FeedbackEvent(read_id(user), read_id(item), event_id, float(weight), time, kind)


def _profile(user: str, mute: str, boost: str, tastes: str) -> StoredProfile:
    said_of = json.loads(tastes)
    return StoredProfile(
        read_id(user),
        tuple(json.loads(mute)),
        {int(x): float(factor) for x, factor in json.loads(boost).items()},
        {int(x): tuple(items) for x, items in said_of.get("items", {}).items()},
        said_of.get("model", ""),
    )


def open_feedback_store(location: str) -> FeedbackStore:
    """The store at a file name (SQLite) or at ``postgresql://...``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_feedback_store(f"{folder}/shop.feedback.sqlite")
    ...     stored = store.append([FeedbackEvent("ann", "tea", "e1"), FeedbackEvent("ann", "tea", "e1")])
    ...     found = store.changes(Cursor())
    ...     store.close()
    >>> stored, [(one.user, one.item) for one in found.events]
    ([True, False], [('ann', 'tea')])
    """
    from tastespace.serve.feedback.databases import PostgresqlFeedbackStore, SqliteFeedbackStore

    if location.startswith(("postgresql://", "postgres://")):
        return PostgresqlFeedbackStore(location)
    if "://" in location:
        raise ParameterError(
            f"store {location.partition('://')[0]}://...: expected the name of a file, or postgresql://user@host/name."
        )
    if re.search(r"\b(dbname|host|hostaddr|user|password|port|service)\s*=", str(location)):
        raise ParameterError(  # the words themselves may hold a password
            "store dbname=... host=...: expected the name of a file, or an address such as postgresql://user@host/name."
        )
    return SqliteFeedbackStore(require_path(location, "store"))
