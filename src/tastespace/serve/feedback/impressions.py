"""Lists that were shown, as a feedback store keeps them: what, to whom, when, by which model.

A list is a row of `lists`, which says also when it was shown first; each time that it is shown again, from the cache,
is a row of four numbers of `impressions`. There is no index of users: writing is frequent, deletion of a user is not.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from tastespace._util.limits import STORE_ROWS
from tastespace.serve.feedback.ids import read_id

TABLES = """
CREATE TABLE IF NOT EXISTS {lists} (
    list {whole} PRIMARY KEY, secret {whole} NOT NULL, made {whole} NOT NULL, user_id TEXT,
    about TEXT NOT NULL){strict};
CREATE TABLE IF NOT EXISTS {impressions} (
    number {whole} PRIMARY KEY, secret {whole} NOT NULL, time {whole} NOT NULL, list {whole} NOT NULL){strict};
"""
STATEMENTS = {
    "add list": "INSERT INTO {lists} (list, secret, made, user_id, about) VALUES (?, ?, ?, ?, ?)",
    "add impression": "INSERT INTO {impressions} (number, secret, time, list) VALUES (?, ?, ?, ?)",
    "removed since": "SELECT user_id FROM {removals} WHERE time >= ?",
    "delete impressions of user": "DELETE FROM {impressions} WHERE list IN "
    "(SELECT list FROM {lists} WHERE user_id = ?)",
    "delete lists of user": "DELETE FROM {lists} WHERE user_id = ?",
    "lists of user": "SELECT made, about FROM {lists} WHERE user_id = ? UNION ALL "
    "SELECT i.time, l.about FROM {impressions} i JOIN {lists} l ON l.list = i.list WHERE l.user_id = ? ORDER BY 1",
    "oldest kept": "SELECT time FROM (SELECT time FROM {impressions} UNION ALL SELECT made FROM {lists}) AS shown "
    "ORDER BY time DESC LIMIT 1 OFFSET ?",
    "delete impressions": "DELETE FROM {impressions} WHERE time < ?",
    "delete lists": "DELETE FROM {lists} WHERE made < ? AND list NOT IN (SELECT list FROM {impressions})",
    "impressions": "SELECT number, secret, time, list FROM {impressions} WHERE number > ? ORDER BY number LIMIT ?",
    "shown lists": "SELECT list, secret, made, user_id, about FROM {lists} WHERE list > ? ORDER BY list LIMIT ?",
    "attributed": "SELECT seq, user_id, item_id, recommendation, time, kind FROM {events} "
    "WHERE seq > ? AND recommendation <> '' ORDER BY seq LIMIT ?",
}
SECRET_DIGITS = 15
"""Hexadecimal digits of the second part of an id, which nobody can guess; the first has 16."""
LIST_SECONDS = 3_600
"""Seconds after which a list that is still shown gets a new row, so that old rows can be deleted."""


ListRow: TypeAlias = tuple[int, int, int, str | None, str]
"""A list as it is written: number and secret of its first answer, time (microseconds), user (JSON; None: not known),
and content as JSON, a list: items, tastes, propensities, generation, arm, kind, candidates, explored ranks."""


@dataclass(frozen=True)
class ShownList:
    """A list that was shown."""

    number: int
    secret: int
    """Of its first answer."""
    made: int
    """When it was shown first, in microseconds since 1970."""
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

    def add_impressions(self, lists: Sequence[ListRow], shown: Sequence[tuple[int, int, int, int]], since: str) -> None:
        """Store new lists, and what was shown again: number and secret of the id, time, number of the list.

        Lists of users who were deleted since a time, in ISO form, are left out.
        """
        with self._transaction() as connection:
            removed = {row[0] for row in connection.execute(self._sql["removed since"], (since,)).fetchall()}
            kept = [one for one in lists if one[3] not in removed] if removed else lists
            for name, rows in (("add list", kept), ("add impression", shown)):
                if rows:
                    connection.executemany(self._sql[name], rows)

    def purge_impressions(self, before: int, most: int) -> int:
        """Delete what was shown before a time (microseconds), and the oldest beyond a number; return that time."""
        with self._transaction() as connection:
            oldest = connection.execute(self._sql["oldest kept"], (most,)).fetchone()
            before = before if oldest is None else max(before, int(oldest[0]) + 1)
            connection.execute(self._sql["delete impressions"], (before,))
            connection.execute(self._sql["delete lists"], (before,))
        return before

    def shown_lists(self) -> Iterator[ShownList]:
        """All lists that are kept."""
        for number, secret, made, user, about in self._all("shown lists"):
            items, tastes, propensities, model, arm, kind, candidates, explored = json.loads(about)
            n, of = len(items), None if user is None else read_id(user)
            yield ShownList(
                int(number), int(secret), int(made), of, tuple(items), tuple(tastes or [None] * n),
                tuple(propensities or [1.0] * n), model, arm, kind, candidates, tuple(explored),
            )  # fmt: skip

    def impressions(self) -> Iterator[tuple[int, int, int, int]]:
        """Answers with a list that was shown before: number and secret, time (microseconds), number of the list."""
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
