"""Users who were deleted, and items that were changed or deleted, as a feedback store keeps them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from tastespace.serve.feedback.ids import id_text, read_id

TABLES = """
CREATE TABLE IF NOT EXISTS {removals} (seq {serial}, user_id TEXT NOT NULL UNIQUE, time TEXT NOT NULL){strict};
CREATE TABLE IF NOT EXISTS {items} (
    item_id TEXT PRIMARY KEY, attributes TEXT NOT NULL, available {whole} NOT NULL, deleted {whole} NOT NULL,
    version {whole} NOT NULL, time TEXT NOT NULL){strict};
CREATE INDEX IF NOT EXISTS {items}_version ON {items} (version);
"""
STATEMENTS = {
    "delete events": "DELETE FROM {events} WHERE user_id = ?",
    "delete profile": "DELETE FROM {profiles} WHERE user_id = ?",
    "delete removal": "DELETE FROM {removals} WHERE user_id = ?",
    "add removal": "INSERT INTO {removals} (user_id, time) VALUES (?, ?) RETURNING seq",
    "removals": "SELECT seq, user_id, time FROM {removals} WHERE seq > ? ORDER BY seq LIMIT ?",
    "events of user": "SELECT item_id, event_id, weight, time, kind FROM {events} WHERE user_id = ? ORDER BY seq",
    "profile of user": "SELECT mute, boost FROM {profiles} WHERE user_id = ?",
    "put item": "INSERT INTO {items} (item_id, attributes, available, deleted, version, time) VALUES (?, ?, ?, ?, "
    "(SELECT coalesce(max(version), 0) + 1 FROM {items}), ?) ON CONFLICT (item_id) DO UPDATE SET "
    "attributes = excluded.attributes, available = excluded.available, deleted = excluded.deleted, "
    "version = excluded.version, time = excluded.time",
    "items": "SELECT version, item_id, attributes, available, deleted, time FROM {items} WHERE version > ? "
    "ORDER BY version LIMIT ?",
    "item": "SELECT version, item_id, attributes, available, deleted, time FROM {items} WHERE item_id = ?",
}


@dataclass(frozen=True)
class RemovedUser:
    """A tombstone: what a model learned of this user before this time does not count any more."""

    number: int
    """Of the tombstone, ascending in a store."""
    user: Any
    time: str
    """In ISO form, UTC."""


@dataclass(frozen=True)
class StoredItem:
    """Attributes and availability of an item, given since the model was fitted."""

    item: Any
    attributes: Mapping[str, Any] = field(default_factory=dict)
    is_available: bool = True
    """False: in no list."""
    is_deleted: bool = False
    """True: the next model that is fitted does not have it."""
    time: str = ""
    """In ISO form, UTC; empty: when it was stored."""


@dataclass(frozen=True)
class DeletedUser:
    """Numbers of rows that the deletion of a user took out of a store."""

    events: int
    has_profile: bool
    lists: int
    """Lists that were shown."""


@dataclass(frozen=True)
class UserData:
    """All that a store keeps of a user."""

    events: list[dict[str, Any]]
    profile: dict[str, Any] | None
    shown: list[dict[str, Any]]
    """Lists that were shown, the items of each."""


class Removals(ABC):
    """Deletion and export of users, and changes of items: a part of `FeedbackStore`."""

    _sql: dict[str, str]

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """A connection whose statements are durable at the end, or undone by an error; one at a time."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Any]:
        """A connection for reading."""

    def delete_user(self, user: Any) -> DeletedUser:
        """Delete all that is kept of a user, durably, and leave a tombstone; what is stored later counts again."""
        name = id_text(user)
        with self._transaction() as connection:
            events = connection.execute(self._sql["delete events"], (name,)).rowcount
            profiles = connection.execute(self._sql["delete profile"], (name,)).rowcount
            shown = connection.execute(self._sql["delete impressions of user"], (name,)).rowcount
            shown += connection.execute(self._sql["delete lists of user"], (name,)).rowcount
            connection.execute(self._sql["delete removal"], (name,))
            connection.execute(self._sql["add removal"], (name, datetime.now(timezone.utc).isoformat())).fetchone()
        return DeletedUser(events, profiles > 0, shown)

    def user_data(self, user: Any) -> UserData:
        """Return all that is kept of a user."""
        name = id_text(user)
        with self._reading() as connection:
            events = connection.execute(self._sql["events of user"], (name,)).fetchall()
            profile = connection.execute(self._sql["profile of user"], (name,)).fetchone()
            shown = connection.execute(self._sql["lists of user"], (name, name)).fetchall()
        names = ("item", "event_id", "weight", "time", "kind")
        return UserData(
            [dict(zip(names, (read_id(row[0]), *row[1:]), strict=True)) for row in events],
            None if profile is None else {"mute": json.loads(profile[0]), "boost": json.loads(profile[1])},
            [{"time": _iso(row[0]), "items": json.loads(row[1])[0]} for row in shown],
        )

    def put_item(self, item: StoredItem) -> None:
        """Store what is said of an item durably, in place of what was said before."""
        values = (
            id_text(item.item), json.dumps(dict(item.attributes), ensure_ascii=False), int(item.is_available),
            int(item.is_deleted), item.time or datetime.now(timezone.utc).isoformat(),
        )  # fmt: skip
        with self._transaction() as connection:
            connection.execute(self._sql["put item"], values)

    def item(self, item: Any) -> StoredItem | None:
        """Return what was said of an item; None where nothing was."""
        with self._reading() as connection:
            row = connection.execute(self._sql["item"], (id_text(item),)).fetchone()
        return None if row is None else stored_item(*row[1:])

    def removed_users(self, after: int = 0) -> list[RemovedUser]:
        """Users who were deleted, the tombstones after a number."""
        with self._reading() as connection:
            found = connection.execute(self._sql["removals"], (after, -1 if self._has_no_limit else None)).fetchall()
        return [RemovedUser(int(row[0]), read_id(row[1]), row[2]) for row in found]

    def changed_items(self) -> list[StoredItem]:
        """All items of which something was said."""
        with self._reading() as connection:
            found = connection.execute(self._sql["items"], (0, -1 if self._has_no_limit else None)).fetchall()
        return [stored_item(*row[1:]) for row in found]

    _has_no_limit = True
    """True where ``LIMIT -1`` is no limit (SQLite); ``LIMIT NULL`` is none in PostgreSQL."""


def stored_item(item: str, attributes: str, available: int, deleted: int, time: str) -> StoredItem:
    """Return a row of the table."""
    said = json.loads(attributes)
    if not isinstance(said, dict):
        raise TypeError("not attributes")
    return StoredItem(read_id(item), said, bool(available), bool(deleted), time)


def removed_user(seq: int, user: str, time: str) -> RemovedUser:
    """Return a row of the table."""
    return RemovedUser(int(seq), read_id(user), time)


def _iso(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, timezone.utc).isoformat()
