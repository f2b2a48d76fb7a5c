"""The people a model answers: users of the training data, and everybody with feedback since, who is folded in."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from tastespace.data.ids import IdMap
from tastespace.models.base import Recommender
from tastespace.models.profiles import Profile
from tastespace.models.vector_space import VectorSpace
from tastespace.recommend.fold_in import folded
from tastespace.serve.feedback_store import Changes, Cursor, FeedbackStore
from tastespace.serve.http_errors import HttpError
from tastespace.serve.json_ids import id_in_type
from tastespace.serve.served_model import ServedModel

_MOST_FOLDED = 20_000

Rows = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Person:
    """Somebody who gets answers: a row of a model, which is the served one or one made by fold-in."""

    model: Recommender
    row: int
    user: Any
    """The id in that model."""
    is_folded: bool = False
    also_seen: Rows | None = None
    """Items of feedback that the model cannot fold in; they are left out of lists."""

    @property
    def n_interests(self) -> int:
        """How many interests, 0 for models without vectors."""
        space = self.model.interest_space()
        return 0 if space is None else int(space.user_offsets[self.row + 1] - space.user_offsets[self.row])


class People:
    """Users of one served model with the feedback of a store; threads may share it.

    Only feedback that the model has not learned is kept: after an update it is part of the training data.
    """

    def __init__(self, served: ServedModel, store: FeedbackStore) -> None:
        self.served, self._store = served, store
        self._pending: dict[Any, list[int]] = {}
        self._profiles: dict[Any, Profile] = {}
        self._folded: OrderedDict[Any, tuple[int, Person]] = OrderedDict()
        self._cursor = Cursor()
        self._lock = threading.RLock()
        self.refresh()

    def refresh(self) -> None:
        """Read what was stored since, by this process or another."""
        with self._lock:
            changes = self._store.changes(self._cursor)
            if changes is not None:
                self._take(changes)
                self._cursor = changes.cursor

    def _take(self, changes: Changes) -> None:
        train = self.served.train
        events = []
        for event in changes.events:
            try:
                pair = id_in_type(train.users, event.user, "user"), id_in_type(train.items, event.item, "item")
            except HttpError:  # stored for another model, whose ids have other types
                continue
            events.append(pair)
        if events:
            users = train.users.find([user for user, _ in events]).tolist()
            items = train.items.find([item for _, item in events]).tolist()
            for (user, _), user_row, item_row in zip(events, users, items, strict=True):
                if item_row < 0 or (user_row >= 0 and _has(self.served.index.seen(user_row), item_row)):
                    continue
                pending = self._pending.setdefault(user, [])
                if item_row not in pending:
                    pending.append(item_row)
        for one in changes.profiles:
            try:
                user = id_in_type(train.users, one.user, "user")
            except HttpError:
                continue
            self._profiles[user] = Profile(frozenset(one.mute), dict(one.boost))

    # ---- who somebody is -----------------------------------------------------------------------------------

    def find(self, users: Sequence[Any]) -> list[Person | None]:
        """Each of these users with all that is known by now; None for those of whom nothing is."""
        served, model = self.served, self.served.model
        rows = served.train.users.find(list(users)) if len(users) else np.empty(0, np.int64)
        rows[rows >= 0] = np.where(model.can_serve(rows[rows >= 0]), rows[rows >= 0], -1)
        found: list[Person | None] = [
            None if row < 0 else Person(model, row, user) for user, row in zip(users, rows.tolist(), strict=True)
        ]
        with self._lock:
            changed = [at for at, user in enumerate(users) if user in self._pending] if self._pending else []
            if changed and not model.supports_fold_in:
                for at in changed:
                    person = found[at]
                    if person is not None:
                        found[at] = replace(person, also_seen=np.array(self._pending[users[at]], dtype=np.int32))
            elif changed:
                self._fold_in([users[at] for at in changed])
                for at in changed:
                    found[at] = self._folded[users[at]][1]
        return found

    def is_quick(self, user: Any) -> bool:
        """Whether nothing has to be asked of another machine, nor folded in, to know a user."""
        return self._store.is_local and user not in self._pending and user not in self._profiles

    def require(self, user: Any) -> Person:
        """One user; 404 for somebody of whom nothing is known."""
        self.refresh()
        (found,) = self.find([user])
        if found is None:
            raise unknown_user(user)
        return found

    def _fold_in(self, users: Sequence[Any]) -> None:
        """Make sure that these users are folded in with all their feedback."""
        wanted = {user for user in users if self._folded.get(user, (0,))[0] != len(self._pending[user])}
        if wanted:
            ordered = sorted(wanted)
            train = self.served.train
            rows = train.users.find(ordered)
            histories = [
                np.union1d(
                    self.served.index.seen(int(row)) if row >= 0 else np.empty(0, np.int32), self._pending[user]
                ).astype(np.int32)
                for user, row in zip(ordered, rows, strict=True)
            ]
            ids = pl.Series("user", ordered, dtype=train.users.series.dtype)
            model = self.with_histories(histories, ids)
            for at, user in enumerate(ordered):
                if rows[at] >= 0 and train.user_counts[rows[at]] > 0:
                    _keep_numbers(model, at, self.served.model, int(rows[at]))
                self._folded[user] = len(self._pending[user]), Person(model, at, user, is_folded=True)
        for user in users:
            self._folded.move_to_end(user)
        while len(self._folded) > max(_MOST_FOLDED, len(users)):
            self._folded.popitem(last=False)

    def with_histories(self, histories: Sequence[Rows], ids: pl.Series | None = None) -> Recommender:
        """The model for people with these past items (ascending rows); without ids they are numbered from 0."""
        counts = [len(one) for one in histories]
        data = replace(
            self.served.train,
            users=IdMap(pl.Series("user", np.arange(len(counts))) if ids is None else ids, "user"),
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            indices=np.concatenate(histories).astype(np.int32),
            weights=None,
            timestamps=None,
            user_attributes=None,
        )
        return folded(self.served.model, data)

    # ---- profiles ------------------------------------------------------------------------------------------

    def profile(self, user: Any) -> Profile:
        """What a user has muted and boosted: by feedback, else in the model file."""
        found = self._profiles.get(user)
        return self.served.model.profiles.get(user, Profile()) if found is None else found

    def usable_profile(self, person: Person) -> Profile:
        """The profile without interests that the person does not have (any more), and without muting all of them."""
        if person.user is None:
            return Profile()
        profile = self.profile(person.user)
        if profile.is_empty:
            return profile
        n = person.n_interests
        muted = frozenset(x for x in profile.muted if x < n)
        boosts = {x: factor for x, factor in profile.boosts.items() if x < n and factor != 1}
        return Profile(muted if len(muted) < n else frozenset(), boosts)


def unknown_user(user: Any) -> HttpError:
    """The answer about somebody of whom nothing is known."""
    return HttpError(
        404,
        "unknown_user",
        f"there is no user {user!r} with a history.",
        "unknown=popular gives the most popular items; POST /v1/recommendations takes the history of anybody; POST "
        "/v1/feedback makes a user known.",
    )


def _has(past: Rows, item: int) -> bool:
    at = int(np.searchsorted(past, item))
    return at < len(past) and int(past[at]) == item


def _keep_numbers(model: Recommender, row: int, trained: Recommender, trained_row: int) -> None:
    """Number the interests of a user who was folded in again as those of training, so that profiles stay true.

    Of all ways to number them, the one in which most past items keep the number of their interest.
    """
    new, old = model.interest_space(), trained.interest_space()
    if new is None or old is None or not new.user_vectors.flags.writeable:
        return
    past = trained.train_.indices[trained.train_.offsets[trained_row] : trained.train_.offsets[trained_row + 1]]
    now, before = _nearest_vector(new, row, past), _nearest_vector(old, trained_row, past)
    here = slice(int(new.user_offsets[row]), int(new.user_offsets[row + 1]))
    n, n_before = here.stop - here.start, int(np.diff(old.user_offsets[trained_row : trained_row + 2])[0])
    if n < 2 or not n_before:
        return
    shared = np.zeros((n, max(n, n_before)))
    np.add.at(shared, (now, before), 1)
    ones, numbers = linear_sum_assignment(-shared[:, :n])
    new.user_vectors[here] = new.user_vectors[here][ones[np.argsort(numbers)]]


def _nearest_vector(space: VectorSpace, row: int, items: Rows) -> NDArray[np.int64]:
    """Number of the user's vector that scores each of these items best."""
    own = space.user_vectors[space.user_offsets[row] : space.user_offsets[row + 1]]
    scores = own @ space.item_vectors[items].T
    if space.metric == "l2":
        scores = 2 * scores - np.einsum("ij,ij->i", own, own)[:, None]
    nearest: NDArray[np.int64] = scores.argmax(axis=0)
    return nearest
