"""Lists that were shown, as a feedback store keeps them: what, to whom, when, by which model.

A list that is shown again from the cache is the same row of `lists`; each time it is shown is a row of four numbers.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tastespace._util.limits import STORE_ROWS
from tastespace.serve.feedback.ids import read_id

TABLES = """
CREATE TABLE IF NOT EXISTS {lists} (
    list {whole} PRIMARY KEY, user_id TEXT, made {whole} NOT NULL, about TEXT NOT NULL){strict};
CREATE INDEX IF NOT EXISTS {lists}_user ON {lists} (user_id);
CREATE TABLE IF NOT EXISTS {impressions} (
    number {whole} PRIMARY KEY, secret {whole} NOT NULL, time {whole} NOT NULL, list {whole} NOT NULL){strict};
"""
STATEMENTS = {
    "add list": "INSERT INTO {lists} (list, user_id, made, about) SELECT {given} WHERE NOT EXISTS "
    "(SELECT 1 FROM {removals} WHERE user_id = ? AND time >= ?)",
    "add impression": "INSERT INTO {impressions} (number, secret, time, list) VALUES (?, ?, ?, ?)",
    "delete impressions of user": "DELETE FROM {impressions} WHERE list IN "
    "(SELECT list FROM {lists} WHERE user_id = ?)",
    "delete lists of user": "DELETE FROM {lists} WHERE user_id = ?",
    "lists of user": "SELECT i.time, l.about FROM {impressions} i JOIN {lists} l ON l.list = i.list "
    "WHERE l.user_id = ? ORDER BY i.time",
    "oldest kept": "SELECT time FROM {impressions} ORDER BY time DESC LIMIT 1 OFFSET ?",
    "delete impressions": "DELETE FROM {impressions} WHERE time < ?",
    "delete lists": "DELETE FROM {lists} WHERE made < ?",
    "impressions": "SELECT number, secret, time, list FROM {impressions} WHERE number > ? ORDER BY number LIMIT ?",
    "shown lists": "SELECT list, user_id, about FROM {lists} WHERE list > ? ORDER BY list LIMIT ?",
    "attributed": "SELECT seq, user_id, item_id, recommendation, time, kind FROM {events} "
    "WHERE seq > ? AND recommendation <> '' ORDER BY seq LIMIT ?",
}
SECRET_DIGITS = 15
"""Hexadecimal digits of the second part of an id, which nobody can guess; the first has 16."""
LIST_SECONDS = 3_600
"""Seconds after which a list that is still shown gets a new row, so that old rows can be deleted."""


@dataclass(frozen=True)
class ListRow:
    """A list, as it is written: its number, user (JSON; None: not known), time (microseconds) and content (JSON)."""

    number: int
    user: str | None
    made: int
    made_text: str
    about: str


@dataclass(frozen=True)
class ShownList:
    """A list that was shown."""

    number: int
    user: Any
    """None for somebody without an id."""
    items: tuple[Any, ...]
    """In their order, from rank 1."""
    tastes: tuple[int | None, ...]
    propensities: tuple[float, ...]
    """With which probability each item got its place; 1 without exploration."""
    model: int
    """Generation."""
    arm: str
    """Of the experiment; empty: there was none."""
    kind: str
    """Of the answer: recommendations, shelves, ..."""
    candidates: int = 0
    """Items below the list that exploration drew from; 0: there was no exploration."""
    explored: tuple[int, ...] = ()
    """Ranks of the items that were drawn."""


@dataclass(frozen=True)
class AttributedEvent:
    """An event that names the list it came from."""

    user: Any
    item: Any
    recommendation: str
    time: str
    kind: str


class Impressions(ABC):
    """Lists that were shown: a part of `FeedbackStore`."""

    _sql: dict[str, str]

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """A connection whose statements are durable at the end, or undone by an error; one at a time."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Any]:
        """A connection for reading."""

    def add_impressions(self, lists: Sequence[ListRow], shown: Sequence[tuple[int, int, int, int]]) -> None:
        """Store lists, and when each was shown: number and secret of the id, time (microseconds), number of the list.

        Lists of users who were deleted since they were made are left out.
        """
        rows = [(one.number, one.user, one.made, one.about, one.user, one.made_text) for one in lists]
        with self._transaction() as connection:
            if rows:
                connection.executemany(self._sql["add list"], rows)
            connection.executemany(self._sql["add impression"], shown)

    def purge_impressions(self, before: int, most: int) -> None:
        """Delete what was shown before a time (microseconds), and the oldest beyond a number."""
        with self._transaction() as connection:
            oldest = connection.execute(self._sql["oldest kept"], (most,)).fetchone()
            before = before if oldest is None else max(before, int(oldest[0]) + 1)
            connection.execute(self._sql["delete impressions"], (before,))
            connection.execute(self._sql["delete lists"], (before - 2 * LIST_SECONDS * 1_000_000,))

    def shown_lists(self) -> Iterator[ShownList]:
        """All lists that are kept."""
        for number, user, about in self._all("shown lists"):
            said = json.loads(about)
            items, tastes = tuple(said["items"]), said["tastes"]
            yield ShownList(
                int(number), None if user is None else read_id(user), items, tuple(tastes or [None] * len(items)),
                tuple(said["propensities"] or [1.0] * len(items)), said["model"], said["arm"], said["kind"],
                said.get("candidates", 0), tuple(said.get("explored", ())),
            )  # fmt: skip

    def impressions(self) -> Iterator[tuple[int, int, int, int]]:
        """Number and secret of the id of each answer that is kept, time (microseconds), number of its list."""
        return self._all("impressions")

    def attributed_events(self) -> Iterator[AttributedEvent]:
        """All events that name a list."""
        for _, user, item, recommendation, time, kind in self._all("attributed"):
            try:
                yield AttributedEvent(read_id(user), read_id(item), recommendation, time, kind)
            except (ValueError, TypeError):  # something else has written it
                continue

    def _all(self, statement: str) -> Iterator[Any]:
        after = -1
        while True:
            with self._reading() as connection:
                rows = connection.execute(self._sql[statement], (after, STORE_ROWS)).fetchall()
            yield from rows
            if len(rows) < STORE_ROWS:
                return
            after = rows[-1][0]


def read_recommendation_id(text: str) -> tuple[int, int] | None:
    """Return number and secret of an id; None where it is none.

    >>> read_recommendation_id("00000001000000020000000000000ff"), read_recommendation_id("mine")
    ((4294967298, 255), None)
    """
    if len(text) != 16 + SECRET_DIGITS or not text.isascii():
        return None
    try:
        return int(text[:16], 16), int(text[16:], 16)
    except ValueError:
        return None
