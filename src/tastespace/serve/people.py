"""Users of a served model: those of the training data, and those with later feedback, who are folded in."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.lru import LruCache
from tastespace.answers.ids import id_in_type, type_with_new
from tastespace.answers.people import ItemRows, People, Person, history_data
from tastespace.answers.types import AnswerError
from tastespace.data.reading.options import DISLIKE, EVENTS
from tastespace.models.profiles import Profile
from tastespace.recommend.fold_in import folded
from tastespace.recommend.interests import interests_at
from tastespace.recommend.popular import Recent
from tastespace.serve.errors import StoreError
from tastespace.serve.feedback.removals import RemovedUser
from tastespace.serve.feedback.store import (
    UNDO,
    Changes,
    Cursor,
    FeedbackStore,
    StoredProfile,
    event_time,
)
from tastespace.serve.items import ItemChanges, NewItems
from tastespace.serve.served_model import ServedModel

# ---------------------------------------------------------------------------------------------------------------------
# Interests across models: stored mutes and boosts belong to tastes, whose numbers may change with the vectors.

MOST_ITEMS = 100
"""Past items of an interest that are stored with a profile."""


@dataclass(frozen=True, eq=False)
class CurrentChoice:
    """Interests that a user has muted and boosted, by their current numbers."""

    profile: Profile = field(default_factory=Profile)
    dropped: tuple[int, ...] = ()
    """Numbers, as they were stored, of interests that the user no longer has: nothing is muted or boosted for them.

    Muted ones, too, where no other interest is left."""


def same_interests(before: Mapping[int, Sequence[int]], now: Mapping[int, int], n_interests: int) -> dict[int, int]:
    """Return the current number of each earlier interest; interests that no longer exist are left out.

    An interest is the same where more than half of its past items are in it now, and more than half of the known items
    that are in it now were in it. One that never had items keeps its number while no known item is assigned to it.

    Args:
        before: Rows of past items by the earlier number; -1 for those that the catalog no longer has.
        now: The present interest of each past item, by its row.
        n_interests: Current number of interests.

    >>> same_interests({0: [1, 2, 3], 1: [4, 5]}, {1: 1, 2: 1, 3: 0, 4: 0, 5: 0, 6: 0}, 2)
    {0: 1, 1: 0}
    >>> same_interests({0: [1, 2, 3], 1: [4, 5, 6]}, {1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0}, 2)  # they are one now
    {}
    >>> same_interests({0: [1, 2], 1: [], 2: [-1]}, {1: 0, 2: 0}, 3)  # nothing that the last one held is left
    {0: 0, 1: 1}
    """
    shared = np.zeros((max(before, default=-1) + 1, n_interests), dtype=np.int64)
    for number, rows in before.items():
        for row in rows:
            if row in now:
                shared[number, now[row]] += 1
    found = {}
    for number, rows in before.items():
        own = shared[number]
        best = int(own.argmax())
        if not rows:
            if number < n_interests and not shared[:, number].any():
                found[number] = number
        elif 2 * own[best] > own.sum() and 2 * own[best] > shared[:, best].sum():
            found[number] = best
    return found


def current_choice(
    stored: StoredProfile, before: Mapping[int, Sequence[int]] | None, now: Mapping[int, int], n_interests: int
) -> CurrentChoice:
    """Return a stored profile by the current numbers of the interests.

    Args:
        stored: Muted and boosted interests, by their numbers when stored.
        before: Rows of past items by the number when stored; None: numbers are the same.
        now: The present interest of each past item, by its row.
        n_interests: Current number of interests.
    """
    named = {*stored.mute, *stored.boost}
    same = {x: x for x in named if x < n_interests} if before is None else same_interests(before, now, n_interests)
    muted = frozenset(same[x] for x in stored.mute if x in same)
    boosts = {same[x]: factor for x, factor in stored.boost.items() if x in same}
    dropped = {x for x in named if x not in same}
    if len(muted) == n_interests:  # there are fewer now: nothing would be left to recommend
        muted, dropped = frozenset(), dropped | set(stored.mute)
    return CurrentChoice(Profile(muted, boosts), tuple(sorted(dropped)))


def tastes_of(past: Sequence[Any], interests: Sequence[int], n: int) -> dict[int, tuple[Any, ...]]:
    """Ids of past items by interest, at most `MOST_ITEMS` of each.

    >>> tastes_of(["tea", "jam", "rye"], [1, 0, 1], 3)
    {0: ('jam',), 1: ('tea', 'rye'), 2: ()}
    """
    found: dict[int, list[Any]] = {x: [] for x in range(n)}
    for item, x in zip(past, interests, strict=True):
        if len(found[x]) < MOST_ITEMS:
            found[x].append(item)
    return {x: tuple(items) for x, items in found.items()}


# ---------------------------------------------------------------------------------------------------------------------
# Users, with feedback since the model was fitted.

log = logging.getLogger(__name__)

_MOST_FOLDED = 20_000
_MOST_RECENT = 1_000_000
_RETRY = 5.0  # seconds until a store that cannot be read is tried again
_NO_CHOICE = CurrentChoice()


def _seconds(when: str) -> float:
    try:
        return event_time(when).timestamp()
    except ValueError:
        return 0.0


class PeopleWithFeedback(People):
    """Users of one served model with the feedback of a store; threads may share it.

    Only feedback that the model has not learned is kept: after an update it is part of the training data.
    """

    def __init__(self, served: ServedModel, store: FeedbackStore) -> None:
        super().__init__(served)
        self.served, self._store = served, store
        self._pending: dict[Any, list[int]] = {}
        self._disliked: dict[Any, list[int]] = {}
        self._n_events: dict[Any, int] = {}  # that count, of users of either: what was folded in is older with each
        self._recent: dict[tuple[Any, int], str] = {}  # time of each new pair of user and item, for popular items
        self._choices: dict[Any, StoredProfile] = {}
        self._with_profile = frozenset(served.model.profiles)
        self._current: LruCache[Any, tuple[StoredProfile, int, CurrentChoice]] = LruCache(_MOST_FOLDED)
        self._folded: LruCache[Any, Person] = LruCache(_MOST_FOLDED)
        self.items = ItemChanges(served)
        """What was said of items since."""
        self.hidden: set[Any] = set()
        """Users who were deleted since the model was fitted: nothing that it has learned of them counts."""
        self._cursor, self._obeyed = Cursor(), store.learned(served.checksum).removal
        self._lock = threading.RLock()
        self._one_reads, self._is_tried = threading.Lock(), threading.Lock()
        self.problem: str | None = None
        """Why feedback cannot be read at the moment."""
        self._failure = StoreError("not read", "")
        self._next_try = 0.0
        self.refresh(required=True)

    def refresh(self, required: bool = False) -> None:
        """Read what was stored since, by this process or another.

        A store that cannot be read is an error only where that is ``required``: lists are made with what is known, and
        `problem` says so. It is tried again after some seconds, and beside the lists, because an attempt may take long.
        """
        if self.problem is not None:
            is_due = time.monotonic() >= self._next_try
            if required and not is_due:  # it would fail as slowly as before, and others wait for this thread
                raise self._failure.with_traceback(None)
            if not required:
                if is_due and self._store.is_local:
                    self._read()
                elif is_due and self._is_tried.acquire(blocking=False):
                    threading.Thread(target=self._try_again, name="tastespace-store-again", daemon=True).start()
                return
        self._read(required)

    def _try_again(self) -> None:
        """Read the store where that may take long; lists do not wait for it."""
        try:
            self._read()
        finally:
            self._is_tried.release()

    def _read(self, required: bool = False) -> None:
        known_problem = self.problem
        try:
            with self._one_reads:
                if self.problem is not None and known_problem is None and not required:
                    return  # while this one waited, another found that it cannot be read
                changes = self._store.changes(self._cursor)
                if changes is not None:
                    with self._lock:
                        self._take(changes)
                        self._cursor = changes.cursor
                self.problem = None
        except StoreError as problem:
            if self.problem is None:
                log.error("feedback cannot be read, lists are made without what is new: %s", problem)
            self._failure, self._next_try = problem, time.monotonic() + _RETRY
            self.problem = f"feedback cannot be read: {problem.for_clients}"
            if required:
                raise

    def _take(self, changes: Changes) -> None:
        train = self.served.train
        for removal in changes.removals:  # what is read with them is later
            self._remove(removal)
        for item in changes.items:
            self.items.take(item)
        kinds = {**EVENTS, **(train.events or {})}
        events = []
        for event in changes.events:
            try:
                pair = id_in_type(train.users, event.user, "user"), id_in_type(train.items, event.item, "item")
                weight = kinds.get(event.kind, 0.0) if event.kind else 1.0
            except AnswerError:  # stored for another model, whose ids have other types
                continue
            events.append((*pair, weight, event))
        if events:
            users = train.users.find([one[0] for one in events]).tolist()
            items = train.items.find([one[1] for one in events]).tolist()
            for (user, item, weight, event), user_row, item_row in zip(events, users, items, strict=True):
                if event.kind == UNDO:
                    self._take_back(user, item_row)
                elif item_row < 0 and weight > 0:
                    self.items.note_taker(item, user)
                elif item_row >= 0 and weight:
                    self._take_one(user, -1 if user in self.hidden else user_row, item_row, weight)
                    self._note_time(user, item_row, event.time)
        for one in changes.profiles:
            try:
                user = id_in_type(train.users, one.user, "user")
            except AnswerError:
                continue
            self._choices[user] = one

    def _take_back(self, user: Any, item: int) -> None:
        """Note that a user no longer dislikes an item; a dislike that the model has learned stays."""
        disliked = self._disliked.get(user, [])
        if item in disliked:
            disliked.remove(item)
            if not disliked:
                del self._disliked[user]
            self._n_events[user] += 1

    def _remove(self, removal: RemovedUser) -> None:
        """Forget a user; the next feedback is that of somebody new."""
        try:
            user = id_in_type(self.served.train.users, removal.user, "user")
        except AnswerError:
            return
        if removal.number > self._obeyed:
            self.hidden.add(user)
        for kept in (self._pending, self._disliked, self._choices):
            kept.pop(user, None)
        self._folded.discard(user)
        self._current.discard(user)
        self.items.forget_user(user)
        self._recent = {pair: when for pair, when in self._recent.items() if pair[0] != user}
        if user in self._n_events:  # never the number of what was folded in before
            self._n_events[user] += 1

    def _note_time(self, user: Any, item: int, when: str) -> None:
        """Keep the last time of a pair that the model does not have, however often it comes."""
        self._recent.pop((user, item), None)
        if item in self._pending.get(user, ()):
            self._recent[user, item] = when
            if len(self._recent) > _MOST_RECENT:
                del self._recent[next(iter(self._recent))]

    def _take_one(self, user: Any, user_row: int, item: int, weight: float) -> None:
        """Note that a user took or dislikes an item; the last one holds."""
        pending, disliked = self._pending.get(user, []), self._disliked.get(user, [])
        is_seen = user_row >= 0 and _has(self.served.index.seen(user_row), item)
        is_dislike = weight == DISLIKE
        wanted, other = (disliked, pending) if is_dislike else (pending, disliked)
        if item in other:
            other.remove(item)
        elif item in wanted or (is_seen and not is_dislike):
            return
        if item not in wanted and (is_dislike or not is_seen):
            wanted.append(item)
        for kept, rows in ((self._pending, pending), (self._disliked, disliked)):
            if rows:
                kept[user] = rows
            else:
                kept.pop(user, None)
        self._n_events[user] = self._n_events.get(user, 0) + 1

    def recent(self) -> Recent:
        """New pairs of user and item since the model was fitted, with the last time of each."""
        with self._lock:
            items, times = [item for _, item in self._recent], list(self._recent.values())
        return Recent(np.array(items, dtype=np.int32), np.array([_seconds(when) for when in times]))

    # ---- users ---------------------------------------------------------------------------------------------

    def find(self, users: Sequence[Any]) -> list[Person | None]:
        """Return each of these users with the feedback so far; None for unknown ones."""
        found, model = super().find(users), self.served.model
        with self._lock:
            if self.hidden:
                found = [None if user in self.hidden else one for user, one in zip(users, found, strict=True)]
            changed = [at for at, user in enumerate(users) if user in self._n_events] if self._n_events else []
            if changed and model.supports_fold_in:  # of somebody new dislikes alone make no history
                changed = [at for at in changed if found[at] is not None or users[at] in self._pending]
            if changed and not model.supports_fold_in:
                for at in changed:
                    person, rows = found[at], self._of(self._pending, users[at]) + self._of(self._disliked, users[at])
                    if person is not None:
                        found[at] = replace(person, also_seen=np.array(rows, dtype=np.int32))
            elif changed:
                people = self._fold_in([users[at] for at in changed])
                for at in changed:
                    found[at] = people[users[at]]
        return found

    @property
    def is_local(self) -> bool:
        """True where feedback is read without asking another machine."""
        return self._store.is_local

    def is_unchanged(self, user: Any) -> bool:
        """True where a user has no feedback since training, and nothing muted or boosted."""
        return (
            user not in self._n_events
            and user not in self._choices
            and user not in self._with_profile
            and user not in self.hidden
        )

    def _fold_in(self, users: Sequence[Any]) -> dict[Any, Person]:
        """These users, folded in with all their feedback: now, or since the last of it."""
        kept = {user: self._folded.get(user) for user in users}
        people = {user: one for user, one in kept.items() if one is not None and one.n_feedback == self._n_events[user]}
        wanted = sorted(kept.keys() - people.keys())
        if wanted:
            train = self.served.train
            rows = np.where([user in self.hidden for user in wanted], -1, train.users.find(wanted))
            is_known = (rows >= 0) & self.served.model.can_serve(np.maximum(rows, 0))
            for known in (True, False):  # users of the model keep their interests; others get some
                chosen = np.flatnonzero(is_known == known)
                if len(chosen):
                    made = self._folded_people([wanted[at] for at in chosen.tolist()], rows[chosen], known)
                    people |= {one.user: one for one in made}
        for user in wanted:
            self._folded.put(user, people[user])
        return people

    def _folded_people(self, users: Sequence[Any], rows: NDArray[np.int64], known: bool) -> list[Person]:
        """Users folded in with their feedback; ``known``: users of the model, at these rows."""
        nothing = np.empty(0, np.int32)
        histories = [
            np.union1d(self.served.index.seen(row) if row >= 0 else nothing, self._of(self._pending, user)).astype(
                np.int32
            )
            for user, row in zip(users, rows.tolist(), strict=True)
        ]
        ids = pl.Series("user", users, dtype=type_with_new(self.served.train.users))
        if known:  # new items in the order in which they came
            when = [np.zeros(len(one), dtype=np.int64) for one in histories]
            for own, one, user in zip(when, histories, users, strict=True):
                pending = self._of(self._pending, user)
                own[np.searchsorted(one, pending)] = np.arange(1, len(pending) + 1)
            data = history_data(self.served.train, histories, ids, np.concatenate(when), self._dislikes_of(ids, rows))
            model = folded(self.served.model, data, rows)
        else:
            model = folded(
                self.served.model,
                history_data(self.served.train, histories, ids, dislikes=self._dislikes_of(ids, rows)),
            )
        return [
            Person(model, at, user, is_folded=True, n_feedback=self._n_events[user]) for at, user in enumerate(users)
        ]

    @staticmethod
    def _of(rows: Mapping[Any, list[int]], user: Any) -> list[int]:
        return rows.get(user, [])

    def new_items(self) -> NewItems | None:
        """Return the items that the model lacks and that can be recommended; None where there are none."""
        if not self.items.unplaced:
            return None
        if self.items.is_current:
            return self.items.new()
        with self._lock:
            return self.items.new({user: self._history(user) for item in self.items.unplaced
                                   for user in self.items.takers(item)})  # fmt: skip

    def _history(self, user: Any) -> NDArray[np.int32]:
        row = -1 if user in self.hidden else int(self.served.train.users.find([user])[0])
        seen = self.served.index.seen(row) if row >= 0 else np.empty(0, np.int32)
        return np.union1d(seen, self._of(self._pending, user)).astype(np.int32)

    def _dislikes_of(self, users: pl.Series, rows: NDArray[np.int64]) -> pl.DataFrame | None:
        """Dislikes of these users at rows of the model, -1 for new ones: those of training and of feedback."""
        train = self.served.train
        offsets, learned = train.disliked
        found = []
        for user, row in zip(users.to_list(), rows.tolist(), strict=True):
            before = learned[offsets[row] : offsets[row + 1]] if row >= 0 else learned[:0]
            own = np.union1d(np.setdiff1d(before, self._of(self._pending, user)), self._of(self._disliked, user))
            found.append(own.astype(np.int32))
        if not any(len(one) for one in found):
            return None
        owners = np.repeat(np.arange(len(users)), [len(one) for one in found])
        return pl.DataFrame(
            [users.gather(pl.Series(owners)).alias("user"), train.items.take(np.concatenate(found)).alias("item")]
        )

    # ---- profiles ------------------------------------------------------------------------------------------

    def choice_of(self, user: Any) -> CurrentChoice:
        """Interests that a user has muted and boosted; none for an unknown user."""
        self.refresh(required=True)
        (person,) = self.find([user])
        return CurrentChoice() if person is None else self.choice(person)

    def profile(self, person: Person) -> Profile:
        """Interests that a person has muted and boosted, by their current numbers."""
        return self.choice(person).profile

    def choice(self, person: Person) -> CurrentChoice:
        """Interests that a person has muted and boosted: by feedback, else in the model file."""
        user = person.user
        if user is None or (user not in self._choices and not self._with_profile):
            return _NO_CHOICE
        stored = self._choices.get(user)
        if stored is None and user in self.hidden:
            return _NO_CHOICE
        if stored is None:
            own = self.served.model.profiles.get(user, Profile())
            stored = StoredProfile(user, tuple(own.muted), dict(own.boosts), model=self.served.checksum)
        if not stored.mute and not stored.boost:
            return _NO_CHOICE
        if not person.n_interests:  # of another model, which had interests
            return CurrentChoice(dropped=tuple(sorted({*stored.mute, *stored.boost})))
        kept = self._current.get(user)
        if kept is not None and kept[0] is stored and kept[1] == person.n_feedback:
            return kept[2]
        found = self._current_choice(person, stored)
        self._current.put(user, (stored, person.n_feedback, found))
        return found

    def _current_choice(self, person: Person, stored: StoredProfile) -> CurrentChoice:
        served = self.served
        (row,) = served.train.users.find([person.user]).tolist()
        is_of_model = row >= 0 and person.user not in self.hidden and bool(served.model.can_serve(np.array([row]))[0])
        keeps_numbers = is_of_model and (not person.is_folded or person.model.keeps_interests)
        if not stored.tastes or (keeps_numbers and stored.model == served.checksum):
            return current_choice(stored, None, {}, person.n_interests)
        view = interests_at(person.model, person.row, "interests")
        before = {
            number: served.train.items.find(list(items)).tolist() if items else []  # -1: not in this catalog
            for number, items in stored.tastes.items()
        }
        now = dict(zip(view.past.tolist(), view.assigned_interest.tolist(), strict=True))
        return current_choice(stored, before, now, view.n_interests)


def checked_profile(person: Person, mute: list[int], boost: dict[int, float], model: str) -> StoredProfile:
    """Return the profile to store for a user, checked, with the past items of all current interests.

    ``model``: the checksum of the model whose interests these are.
    """
    person.require_interests(mute, boost)
    if not person.n_interests:  # a model without interests: nothing is muted or boosted
        return StoredProfile(person.user, model=model)
    view = interests_at(person.model, person.row, "interests")
    past = person.model.train_.items.take(view.past).to_list()
    return StoredProfile(
        person.user,
        tuple(sorted(set(mute))),
        {x: factor for x, factor in boost.items() if factor != 1},
        tastes_of(past, view.assigned_interest.tolist(), view.n_interests),
        model,
    )


def _has(past: ItemRows, item: int) -> bool:
    at = int(np.searchsorted(past, item))
    return at < len(past) and int(past[at]) == item
