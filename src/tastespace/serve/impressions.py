"""Ids of answers, and the log of lists that were shown: written in groups beside the requests.

An id is a number that says which answer it was, and a random secret without which nobody can name the answer of
somebody else. What an answer costs is its id and an entry of a queue; a thread writes the queue about once a second.
Where it cannot, or the queue is full, lists are counted as dropped, and answers go on.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import groupby
from typing import Any, cast

import msgspec
import numpy as np

from tastespace._util.limits import IMPRESSIONS_WAITING
from tastespace.answers.types import Recommendations, ShelfAnswer
from tastespace.errors import TastespaceError
from tastespace.serve.feedback.ids import id_text
from tastespace.serve.feedback.impressions import LIST_SECONDS, SECRET_DIGITS
from tastespace.serve.feedback.store import FeedbackStore
from tastespace.serve.metrics import RequestCounts
from tastespace.serve.served_model import ServedModel

log = logging.getLogger(__name__)

SECONDS = 1.0
"""Between two writes."""
_PURGE_SECONDS = 3_600
_SECRETS = 512
_DAY = 86_400_000_000
_JSON = msgspec.json.Encoder()
_now = time.time_ns


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """Origin of lists, and how their places were drawn: the same for many lists, or for one."""

    served: ServedModel
    arm: str = ""
    """Of the experiment; empty: there is none."""
    kind: str = "recommendations"
    propensities: Sequence[float] | None = None
    candidates: int = 0
    explored: Sequence[int] = ()


class Shown:
    """A list as it is shown, perhaps several times. Made with every list: it has no more fields than it needs."""

    __slots__ = ("items", "made", "number", "source", "tastes", "user")

    def __init__(self, source: Source, user: Any, items: bytes | Sequence[Any], tastes: Any = None) -> None:
        """Items and tastes by row, as bytes of int32, or ids and numbers."""
        self.source, self.user, self.items, self.tastes = source, user, items, tastes
        self.number = 0  # of its first answer, which is that of its row in the store; 0: it has none
        self.made = 0  # when it was shown first, in microseconds


def abouts(lists: Sequence[Shown]) -> list[str]:
    """The contents of lists as JSON; ids and tastes of many rows are looked up at once."""
    found: list[str] = []
    for source, group in groupby(lists, key=lambda one: one.source):
        some = list(group)
        by_row = [one for one in some if type(one.items) is bytes]
        ids = source.served.ids_at(np.frombuffer(b"".join([cast("bytes", one.items) for one in by_row]), np.int32))
        tastes = np.frombuffer(b"".join([one.tastes for one in by_row if one.tastes is not None]), np.int32).tolist()
        generation, first, first_taste = source.served.generation, 0, 0
        drawn = source.propensities, generation, source.arm, source.kind, source.candidates, source.explored
        for one in some:
            items, own = one.items, one.tastes
            if type(items) is bytes:
                n = len(items) // 4
                items, first = ids[first : first + n], first + n
                if own is not None:
                    own, first_taste = tastes[first_taste : first_taste + n], first_taste + n
            found.append(_JSON.encode((items, own, *drawn)).decode())
    return found


def shown_list(source: Source, given: Recommendations) -> Shown:
    """Return a list of values as it is logged."""
    tastes = [one.interest for one in given.items]
    return Shown(source, given.user, [one.item for one in given.items], None if set(tastes) <= {None} else tastes)


def shown_shelves(source: Source, user: Any, shelves: Sequence[ShelfAnswer]) -> Shown:
    """Return shelves as they are logged: one list, from the first shelf to the last."""
    found = [(one.item, one.interest) for shelf in shelves for one in shelf.items]
    of_shelves = replace(source, kind="shelves")
    return Shown(of_shelves, user, [item for item, _ in found], [taste for _, taste in found])


def _user_text(user: Any) -> str | None:
    return None if user is None else str(user) if type(user) is int else id_text(user)


class ImpressionLog:
    """Gives ids to answers and writes what was shown; `new_id` is for one thread, that of the event loop."""

    def __init__(
        self, store: FeedbackStore, counts: RequestCounts, days: float, most: int, seconds: float = SECONDS
    ) -> None:
        """Begin.

        Args:
            store: Where lists are written.
            counts: Where they are counted.
            days: Lists shown longer ago are deleted.
            most: Most lists that are kept: the oldest are deleted.
            seconds: Between two writes.
        """
        self._store, self._counts, self._seconds = store, counts, seconds
        self._days, self._most = days, most
        # The first half of the number is the worker's: 31 bits, so that it is positive in a database.
        self._worker = f"{random.SystemRandom().getrandbits(31):08x}"
        self._counter, self._base = 0, int(self._worker, 16) << 32
        self._purged = 0
        self._secrets: list[str] = []
        self._waiting: deque[tuple[int, str, int, Shown]] = deque()
        self._wanted, self._write_lock, self._is_closed = threading.Event(), threading.Lock(), False
        self._next_purge = time.monotonic() + 60 + random.random() * 600
        self.problem: str | None = None
        """Why lists are not logged at the moment."""
        self._thread = threading.Thread(target=self._run, name="tastespace-impressions", daemon=True)
        self._thread.start()

    def new_id(self, shown: Shown) -> str:
        """Return the id of an answer, and note that its list is shown."""
        if not self._secrets:
            digits = os.urandom(_SECRETS * 8).hex()
            self._secrets = [digits[at : at + SECRET_DIGITS] for at in range(0, len(digits), 16)]
        secret, counter, waiting = self._secrets.pop(), self._counter, self._waiting
        self._counter = counter + 1
        if len(waiting) < IMPRESSIONS_WAITING:
            waiting.append((counter, secret, _now(), shown))
        else:
            self._counts.count("tastespace_impressions_dropped_total")
        return f"{self._worker}{counter:08x}{secret}"

    def signed(self, text: bytes, shown: Shown) -> bytes:
        """Return an answer whose JSON ends before the value of ``recommendation`` with its id."""
        return b'%b"%b"}' % (text, self.new_id(shown).encode())

    def write(self) -> None:
        """Write what is waiting."""
        with self._write_lock:
            waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not waiting:
                return
            fresh: list[tuple[int, int, int, Shown]] = []
            again: list[tuple[int, int, int, int]] = []
            base, renewed = self._base, max(self._purged, waiting[0][2] // 1_000 - LIST_SECONDS * 1_000_000)
            for counter, secret, nanoseconds, shown in waiting:
                number, key, now = base + counter, int(secret, 16), nanoseconds // 1_000
                if shown.number and shown.made >= renewed:
                    again.append((number, key, now, shown.number))
                else:
                    shown.number, shown.made = number, now
                    fresh.append((number, key, now, shown))
            try:
                contents = abouts([one[3] for one in fresh])
                rows = [
                    (number, key, now, _user_text(shown.user), about)
                    for (number, key, now, shown), about in zip(fresh, contents, strict=True)
                ]
                since = datetime.fromtimestamp(waiting[0][2] / 1e9, timezone.utc).isoformat()
                self._store.add_impressions(rows, again, since)
            except Exception as problem:  # lists go on, whatever is wrong with the store
                for _, _, _, shown in waiting:
                    shown.number = 0
                self._counts.count("tastespace_impressions_dropped_total", len(waiting))
                if self.problem is None:
                    log.warning("lists that are shown are not logged: %s", problem)
                self.problem = "lists that are shown are not logged"
                return
            self.problem = None
            self._counts.count("tastespace_impressions_total", len(waiting))

    def close(self) -> None:
        """Write what is waiting, and stop."""
        self._is_closed = True
        self._wanted.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._is_closed:
            self._wanted.wait(self._seconds)
            self.write()
            if time.monotonic() > self._next_purge:
                self._purge()
        self.write()

    def _purge(self) -> None:
        self._next_purge = time.monotonic() + _PURGE_SECONDS
        try:
            self._purged = self._store.purge_impressions(int(time.time() * 1e6 - self._days * _DAY), self._most)
        except TastespaceError as problem:
            log.warning("old lists are not deleted: %s", problem)
