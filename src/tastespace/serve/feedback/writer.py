"""Writing feedback: requests that come together are committed together, and each is answered after the commit."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Sequence

from tastespace._util.limits import WRITES_WAITING
from tastespace.serve.errors import HttpError, StoreError
from tastespace.serve.feedback.store import FeedbackEvent, FeedbackStore, StoredProfile

log = logging.getLogger(__name__)

_MOST_TOGETHER = 500

_Waiting = tuple[
    Sequence[FeedbackEvent], Sequence[StoredProfile], "asyncio.Future[list[bool]]", asyncio.AbstractEventLoop
]


class FeedbackWriter:
    """One thread that writes to the store. A commit takes as long for many events as for one (group commit)."""

    def __init__(self, store: FeedbackStore) -> None:
        self._store = store
        self.problem: str | None = None
        """Why the last write failed; None after one that did not."""
        self._waiting: queue.Queue[_Waiting | None] = queue.Queue(WRITES_WAITING)
        self._thread = threading.Thread(target=self._run, name="tastespace-feedback", daemon=True)
        self._thread.start()

    async def write(self, events: Sequence[FeedbackEvent], profiles: Sequence[StoredProfile] = ()) -> list[bool]:
        """Store durably; return for each event whether it is new."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[bool]] = loop.create_future()
        try:
            self._waiting.put_nowait((events, profiles, done, loop))
        except queue.Full:
            raise HttpError(
                503, "overloaded", "too much feedback is waiting to be stored.", "Nothing was stored. Send it again.",
                {"Retry-After": "1"},
            ) from None  # fmt: skip
        return await done

    def close(self) -> None:
        """Write what is waiting, then stop."""
        self._waiting.put(None)
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while True:
            together = [self._waiting.get()]
            while together[-1] is not None and len(together) < _MOST_TOGETHER and not self._waiting.empty():
                together.append(self._waiting.get())
            last = together[-1] is None
            self._commit([one for one in together if one is not None])
            if last:
                return

    def _commit(self, together: Sequence[_Waiting]) -> None:
        if not together:
            return
        try:
            is_new = self._store.append(
                [event for events, _, _, _ in together for event in events],
                [profile for _, profiles, _, _ in together for profile in profiles],
            )
        except Exception as problem:  # every waiting request gets an answer
            if len(together) > 1 and not (isinstance(problem, StoreError) and not problem.is_refusal):
                # What one client sends is no reason to refuse the others: the halves are tried by themselves.
                half = len(together) // 2
                self._commit(together[:half])
                self._commit(together[half:])
                return
            if not (isinstance(problem, StoreError) and problem.is_refusal):
                self._note(problem)
            for _, _, done, loop in together:
                _call(loop, _fail, done, problem)
            return
        if self.problem is not None:
            log.warning("feedback is stored again")
            self.problem = None
        first = 0
        for events, _, done, loop in together:
            _call(loop, _succeed, done, is_new[first : first + len(events)])
            first += len(events)

    def _note(self, problem: Exception) -> None:
        """A line in the log for each new reason, with the place of the store, which clients are not told."""
        shown = problem.for_clients if isinstance(problem, StoreError) else type(problem).__name__
        found = f"feedback is not being stored: {shown}"
        if found != self.problem:
            log.error("feedback is not being stored: %s", problem)
        self.problem = found


def _call(loop: asyncio.AbstractEventLoop, what: object, done: object, value: object) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(what, done, value)  # type: ignore[arg-type]


def _succeed(done: asyncio.Future[list[bool]], value: list[bool]) -> None:
    if not done.done():
        done.set_result(value)


def _fail(done: asyncio.Future[list[bool]], problem: BaseException) -> None:
    if not done.done():
        done.set_exception(problem)
