"""Micro-batches: requests that arrive while others are computed are computed together as the next batch.

Nothing waits for a batch to fill. Plain lists of small models are made where requests are read, together for all
requests that were read at once: to hand them to a thread and back costs more than to make them. All others go to one
thread, and what arrives while it works is its next batch. Under load, lists of many users take one call of the kernels,
which costs far less than one call for each.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tastespace.answers.types import Recommendations
from tastespace.serve.lists import ListMaker, ListOptions

MOST_TOGETHER = 64
MOST_INLINE = 64
"""Lists made at once where requests are read: other requests wait meanwhile."""


@dataclass(eq=False, slots=True)
class _Job:
    lists: ListMaker
    user: Any
    options: ListOptions
    done: asyncio.Future[Any]
    as_text: bool = False


class MicroBatches:
    """Lists of single users, computed together in one thread."""

    def __init__(self) -> None:
        self._waiting: list[_Job] = []
        self._running = False
        self._quick: list[_Job] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tastespace-lists")
        self.batches = self.requests = 0
        """How many batches were computed, of how many requests."""

    async def list_of(self, lists: ListMaker, user: Any, options: ListOptions) -> Recommendations:
        """The list of one user; raises `HttpError` for an unknown one."""
        found: Recommendations = await self._made(lists, user, options, as_text=False)
        return found

    async def text_of(self, lists: ListMaker, user: Any, options: ListOptions) -> bytes:
        """The same as JSON."""
        found: bytes = await self._made(lists, user, options, as_text=True)
        return found

    async def _made(self, lists: ListMaker, user: Any, options: ListOptions, as_text: bool) -> Any:
        loop = asyncio.get_running_loop()
        job = _Job(lists, user, options, loop.create_future(), as_text)
        if lists.is_quick(user, options):
            if not self._quick:
                loop.call_soon(self._make_quick, loop)  # after the requests that have been read by now
            self._quick.append(job)
            return await job.done
        self._waiting.append(job)
        if not self._running:
            self._start(loop)
        return await job.done

    def _make_quick(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs = self._quick[:MOST_INLINE]
        del self._quick[:MOST_INLINE]
        if self._quick:
            loop.call_soon(self._make_quick, loop)
        self._count(jobs)
        _deliver(_computed([one for one in jobs if not one.done.done()]))

    def _count(self, jobs: Sequence[_Job]) -> None:
        self.batches += 1
        self.requests += len(jobs)

    def close(self) -> None:
        """Stop the thread after what it does now."""
        self._thread.shutdown(wait=True)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs = [one for one in self._waiting[:MOST_TOGETHER] if not one.done.done()]
        del self._waiting[:MOST_TOGETHER]
        self._running = bool(jobs)
        if not jobs:
            return
        self._count(jobs)
        loop.run_in_executor(self._thread, _computed, jobs).add_done_callback(lambda done: self._finish(loop, done))

    def _finish(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[list[tuple[_Job, Any]]]) -> None:
        _deliver(done.result())
        self._running = False
        if self._waiting:
            self._start(loop)


def _deliver(answers: Sequence[tuple[_Job, Any]]) -> None:
    for job, answer in answers:
        if job.done.done():  # its client has gone, or its time was up
            continue
        if isinstance(answer, BaseException):
            job.done.set_exception(answer)
        else:
            job.done.set_result(answer)


def _computed(jobs: Sequence[_Job]) -> list[tuple[_Job, Any]]:
    """The answers of all jobs; those with the same options together."""
    groups: dict[tuple[int, ListOptions, bool], list[_Job]] = defaultdict(list)
    for job in jobs:
        groups[id(job.lists), job.options, job.as_text].append(job)
    found: list[tuple[_Job, Any]] = []
    for (_, options, as_text), group in groups.items():
        found += zip(group, _answers(group, options, as_text), strict=True)
    return found


def _answers(group: Sequence[_Job], options: ListOptions, as_text: bool) -> Sequence[Any]:
    """The answers of jobs with the same options. Where one of them cannot be answered, the others can."""
    lists = group[0].lists
    try:
        return (lists.texts if as_text else lists.for_users)([job.user for job in group], options)
    except Exception as problem:  # of the options, of the model, or of one user: who asked hears of it
        if len(group) == 1:
            return [problem]
    return [answer for job in group for answer in _answers([job], options, as_text)]
