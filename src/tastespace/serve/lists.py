"""Lists over HTTP: simple ones written as JSON from arrays, cached answers, and many requests in one batch."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.lru import LruCache
from tastespace.answers.ids import json_id
from tastespace.answers.lists import AnswerOptions, ListAnswers
from tastespace.answers.people import Person
from tastespace.answers.types import AnswerError, Item, Recommendations
from tastespace.ranking.scoring import TopK
from tastespace.recommend.explanations import list_reasons
from tastespace.serve.impressions import Shown, Source, shown_list
from tastespace.serve.items import inserted
from tastespace.serve.metrics import RequestCounts
from tastespace.serve.people import PeopleWithFeedback

_JSON = msgspec.json.Encoder()
Listed: TypeAlias = tuple[bytes, Shown]
"""A list as JSON, which ends before the value of its last field, the id; and as it is logged."""
NO_ID = b"null}"
"""End of such a JSON without an id."""
_END = b'],"fallback":null,"unknown_items":[],"next":null,"recommendation":'
_MOST_READ = 500  # queries whose options are kept
_MOST_ANSWER = 8_192  # bytes of an answer that is kept


class ServedLists(ListAnswers):
    """Lists of one served model, as values or as JSON."""

    def __init__(self, people: PeopleWithFeedback, keep_answers: int = 0, arm: str = "") -> None:
        super().__init__(people)
        self.source = Source(people.served, arm)
        """Of the lists, in the log of those that are shown."""
        self.people: PeopleWithFeedback = people
        self.served, self._keep_answers = people.served, keep_answers
        self._answers: LruCache[tuple[Any, AnswerOptions], Listed] = LruCache(keep_answers)
        self.known_options: LruCache[Any, AnswerOptions] = LruCache(_MOST_READ)
        """Options of earlier queries, by the text of the query."""
        self._version, self._is_plain = 0, True  # no item is new
        self._is_quick = self.served.is_small and people.is_local
        # Reasons of models without vectors are computed one by one, and lists of large models take longer than JSON.
        self._writes_text = self.served.is_small and self.served.index.interest_space is not None
        if self._writes_text:
            _ = self._item_texts

    def kept_answer(self, user: Any, options: AnswerOptions) -> Listed | None:
        """Return the cached JSON of this request, unless feedback or a profile of the user was stored since."""
        found = self._answers.get((user, options))
        if found is None:
            return None
        self.people.refresh()
        if self._follow_items():
            return None
        return found if self.people.is_unchanged(user) else None

    def _follow_items(self) -> bool:
        """Forget cached lists where items were changed or users deleted since; return whether that is so."""
        version = self.people.items.version
        if version == self._version:
            return False
        self._answers.clear()
        self._version, self._is_plain = version, not self.people.items.unplaced
        return True

    def allowed(self, options: AnswerOptions) -> NDArray[np.bool_] | None:
        """Items that the options leave and that are available, shape ``(n_items,)``; None: all of them."""
        found, gone = super().allowed(options), self.people.items.gone
        if len(gone):
            found = np.ones(self.served.train.n_items, dtype=bool) if found is None else found
            found[gone] = False
        return found

    def kept_key(self) -> Any:
        """Key of the state that lists depend on besides their options."""
        return self.people.items.version

    def for_people(self, people: Sequence[Person], options: AnswerOptions) -> list[list[Item]]:
        """The lists of people, with new items among them, see `tastespace.serve.items`."""
        lists, new = super().for_people(people, options), self.people.new_items()
        if new is None:
            return lists
        allowed = np.flatnonzero(new.allowed(options)).tolist()
        for at, person in enumerate(people):
            changes = self.people.items
            usable = [row for row in allowed if not changes.has_taken(new.ids[row], person.user)]
            mute, boost = self.choices(person, options)
            if usable and not mute and not boost:
                lists[at] = inserted(new, options, self.index_of(person.model), person, lists[at], usable)
        return lists

    def is_quick(self, options: AnswerOptions) -> bool:
        """True where `quick_texts` is faster than handing the work to another thread."""
        return self._is_quick and self._is_plain and options.is_length_only

    def quick_texts(self, users: Sequence[Any], options: AnswerOptions) -> list[Listed | None]:
        """Return lists as JSON and cache them; None for users who are unknown or have feedback or a profile."""
        self.people.refresh()
        self._follow_items()
        found: list[Listed | None] = [None] * len(users)
        if not self._is_plain:
            return found
        row_of, is_unchanged = self.served.user_row, self.people.is_unchanged
        rows = [row_of(user) if is_unchanged(user) else -1 for user in users]
        at = [place for place, row in enumerate(rows) if row >= 0]
        if not at:
            return found
        asked = [users[place] for place in at]
        texts: Sequence[Listed | None]
        if self._writes_text:
            texts = self._texts(asked, np.array([rows[place] for place in at], dtype=np.int32), options)
        else:
            texts = [None if isinstance(one, AnswerError) else one for one in self.texts(asked, options)]
        for place, user, text in zip(at, asked, texts, strict=True):
            found[place] = text
            if text is not None:
                self._keep(user, options, text)
        return found

    def texts(self, users: Sequence[Any], options: AnswerOptions) -> list[Listed | AnswerError]:
        """A list for each user as JSON, or the error of one; plain lists are cached."""
        texts: list[Listed | AnswerError] = [
            one if isinstance(one, AnswerError) else (_unsigned(one), shown_list(self.source, one))
            for one in self.for_users(users, options)
        ]
        self._follow_items()
        if options.is_length_only and self.people.is_local and self._is_plain:
            for user, text in zip(users, texts, strict=True):
                is_usual = self.served.user_row(user) >= 0 and self.people.is_unchanged(user)
                if not isinstance(text, AnswerError) and is_usual:
                    self._keep(user, options, text)
        return texts

    def _keep(self, user: Any, options: AnswerOptions, text: Listed) -> None:
        if self._keep_answers and len(text[0]) <= _MOST_ANSWER:
            self._answers.put((user, options), text)

    def _texts(self, users: Sequence[Any], rows: NDArray[np.int32], options: AnswerOptions) -> list[Listed | None]:
        """Lists of users with these ids, at these rows of the model, without an object for each item."""
        made: list[Listed | None] = []
        for block, some in self._usual_lists(self.served.model, options, self.allowed(options)).plain(rows):
            made += self._block_texts(
                users[len(made) : len(made) + len(block.users)], block.users, some, options.because
            )
        return made

    def _block_texts(
        self, users: Sequence[Any], rows: NDArray[np.int32], found: TopK, because: bool
    ) -> list[Listed | None]:
        """The lists of a block; None where a number is not finite, which JSON cannot express."""
        ends = np.searchsorted(found.query, np.arange(len(users) + 1))
        reasons, weights = None, None
        if because:
            reasons, weights = list_reasons(
                self.served.index, np.repeat(rows, np.diff(ends)), found.rows, tastes=found.interests
            )
        entries = _native.ListEntries(
            rows=found.rows,
            ranks=found.rank,
            scores=found.scores,
            interests=found.interests if self.served.model.has_interests else None,
            distances=found.distances,
            reasons=reasons,
            weights=weights,
        )
        listed = _native.list_texts(self._item_texts, entries, ends)
        middle = b',"model":%d,"items":[' % self.served.generation
        items = found.rows.astype(np.int32, copy=False).tobytes()
        tastes = None if not self.served.model.has_interests or found.interests is None else found.interests
        of_items = None if tastes is None else tastes.astype(np.int32, copy=False).tobytes()
        places, made = pairwise((4 * ends).tolist()), list[Listed | None]()
        for user, text, (start, end) in zip(users, listed, places, strict=True):
            if text is None:
                made.append(None)
                continue
            own = None if of_items is None else of_items[start:end]
            shown = Shown(self.source, user, items[start:end], own)
            made.append((b'{"user":%b%b%b%b' % (_JSON.encode(json_id(user)), middle, text, _END), shown))
        return made

    @cached_property
    def _item_texts(self) -> _native.ItemTexts:
        """Id, title and category of all items as JSON, where each begins, and where its category begins.

        Objects without their closing brace: rank, score and the rest follow.
        """
        served, rows = self.served, np.arange(self.served.train.n_items)
        texts, ends, cuts = [], [0], []
        for item, title, category in zip(
            served.ids_at(rows), served.titles_at(rows), served.categories_at(rows), strict=True
        ):
            named = _JSON.encode({"item": item, "title": title})[:-1]
            texts += [named, b',"category":', _JSON.encode(category)]
            cuts.append(ends[-1] + len(named))
            ends.append(cuts[-1] + len(texts[-2]) + len(texts[-1]))
        offsets, places = np.array(ends, dtype=np.int64), np.array(cuts, dtype=np.int64)
        return _native.ItemTexts(text=b"".join(texts), offsets=offsets, cuts=places)


# ---------------------------------------------------------------------------------------------------------------------
# Micro-batches: requests that arrive while others are computed are computed together as the next batch.
#
# Nothing waits for a batch to fill. Simple lists of small models are made on the event loop, together for all requests
# that were read at once: handing them to a thread and back costs more than making them. All others go to one thread,
# and requests that arrive while it works are its next batch. Under load, lists of many users take one call of the
# kernels, which costs far less than one call for each.

MOST_TOGETHER = 64
MOST_INLINE = 64
"""Lists made at once on the event loop; other requests wait meanwhile."""


@dataclass(eq=False, slots=True)
class _Job:
    lists: ServedLists
    user: Any
    options: AnswerOptions
    done: asyncio.Future[Any]


class MicroBatches:
    """Lists of single users as JSON, many in one call."""

    def __init__(self, counts: RequestCounts | None = None) -> None:
        self._counts = RequestCounts() if counts is None else counts
        self._waiting: list[_Job] = []
        self._running = False
        self._quick: list[_Job] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tastespace-lists")

    async def quick_text(self, lists: ServedLists, user: Any, options: AnswerOptions) -> Listed | None:
        """The list of one user, see `ServedLists.quick_texts`."""
        loop = asyncio.get_running_loop()
        job = _Job(lists, user, options, loop.create_future())
        if not self._quick:
            loop.call_soon(self._make_quick, loop)  # after the requests that have been read by now
        self._quick.append(job)
        found: Listed | None = await job.done
        return found

    async def text(self, lists: ServedLists, user: Any, options: AnswerOptions) -> Listed:
        """The list of one user, made in a thread; raises `AnswerError` for an unknown one."""
        loop = asyncio.get_running_loop()
        job = _Job(lists, user, options, loop.create_future())
        self._waiting.append(job)
        if not self._running:
            self._start(loop)
        found: Listed = await job.done
        return found

    def _make_quick(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs = self._quick[:MOST_INLINE]
        del self._quick[:MOST_INLINE]
        if self._quick:
            loop.call_soon(self._make_quick, loop)
        self._count(jobs)
        _deliver(_computed([one for one in jobs if not one.done.done()], quick=True))

    def _count(self, jobs: Sequence[_Job]) -> None:
        self._counts.count("tastespace_batches_total")
        self._counts.count("tastespace_batched_requests_total", len(jobs))

    def close(self) -> None:
        """Stop the thread after its batch."""
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


def _computed(jobs: Sequence[_Job], quick: bool = False) -> list[tuple[_Job, Any]]:
    """The answers of all jobs; those with the same options together."""
    groups: dict[tuple[int, AnswerOptions], list[_Job]] = defaultdict(list)
    for job in jobs:
        groups[id(job.lists), job.options].append(job)
    found: list[tuple[_Job, Any]] = []
    for (_, options), group in groups.items():
        found += zip(group, _answers(group, options, quick), strict=True)
    return found


def _answers(group: Sequence[_Job], options: AnswerOptions, quick: bool) -> Sequence[Any]:
    """The answers of jobs with the same options. Where one of them cannot be answered, the others can."""
    lists = group[0].lists
    try:
        return (lists.quick_texts if quick else lists.texts)([job.user for job in group], options)
    except Exception as problem:  # of the options, of the model, or of one user: the answer to that request
        if len(group) == 1:
            return [problem]
    return [answer for job in group for answer in _answers([job], options, quick)]


def _unsigned(one: Recommendations) -> bytes:
    return _JSON.encode(one)[: -len(NO_ID)]
