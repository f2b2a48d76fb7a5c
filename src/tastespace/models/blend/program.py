"""The members of a blend as one program: a kernel that goes from the members to lists, user by user.

Members whose scores are sums over past items are matrices, others are vectors; both are computed by the kernel. What is
neither (models of your own, some forms of EASE and Spectral, networks) is asked for its scores, which the kernel then
mixes. The answers are the same either way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.threads import resolve_threads
from tastespace.errors import DataError
from tastespace.models.base import Recommender
from tastespace.models.blend.weights import require_finite_scores
from tastespace.tastes import TasteParts

if TYPE_CHECKING:
    from tastespace.models.blend.model import Blend

log = logging.getLogger(__name__)

_VALUES_AT_ONCE = 8_000_000  # scores of members that are held at once: 32 MB
_KEPT = 64  # users of the last call whose scales are kept
_OF_BLEND = ("members_", "weights_", "taste_of_past_", "train_", "focus", "lift", "category_balance", "threads")

Rows = NDArray[np.integer[Any]]


class FoundLists(NamedTuple):
    """The best items of some users, ``(n_users, k)`` each; -1, NaN and -1 where there are fewer."""

    top: NDArray[np.int32]
    scores: NDArray[np.float32]
    tastes: NDArray[np.int32]
    n_found: int
    nan_user: int
    """Position of the first user with a NaN score, -1: there is none."""


class _Call(NamedTuple):
    """One call of the kernel."""

    users: NDArray[np.int32]
    given: list[NDArray[np.float32] | None]
    """Scores of the members that the kernel does not compute."""
    nearest: NDArray[np.int32] | None
    """The nearest taste of each item, where no member is a sum over past items."""
    factors: NDArray[np.float64] | None
    """Of the tastes of these users."""


@dataclass(frozen=True)
class _Given:
    """A member that the kernel does not compute."""

    member: Recommender
    of_past: bool
    """True if its scores are sums over past items."""


class Program:
    """The scores of a fitted blend. It does not change: a blend that changes has a new one."""

    def __init__(self, blend: Blend) -> None:
        self._blend, self._train, self._tastes = blend, blend.train_, blend.tastes()
        self._threads = resolve_threads(blend.threads)
        self._kept_scales: dict[int, NDArray[np.float64]] = {}
        self._members: list[Recommender] = []
        self._at: list[int] = []  # of each of these among the members of the blend
        self._given: list[_Given | None] = []
        sources: list[tuple[Any, float, NDArray[np.float32] | None, float]] = []
        self._splits = False
        for at, (member, weight) in enumerate(zip(blend.members_, blend.weights_.tolist(), strict=True)):
            if weight == 0:
                continue
            source, temperature = _source_of(member)
            given = _Given(member, _is_of_past(member)) if source is None else None
            of_past = isinstance(source, _native.PastRows) if given is None else given.of_past
            weights = member.weighted_train.weights if of_past else None
            weights = None if weights is None else np.ascontiguousarray(weights, dtype=np.float32)
            sources.append((source if given is None else given.of_past, weight, weights, temperature))
            self._splits |= of_past
            self._at.append(at)
            self._members.append(member)
            self._given.append(given)
        balance = blend._balance_now()
        categories: dict[str, Any] = {}
        if balance is not None:
            categories = {"balance": blend.category_balance, **balance.categories}
        train = self._train
        self.native = _native.BlendProgram(
            members=sources,
            n_items=train.n_items,
            past=_native.ItemLists(train.offsets, train.indices),
            disliked=_native.ItemLists(*train.disliked),
            taste_of_past=self._tastes.of_past,
            taste_offsets=self._tastes.offsets,
            focus=blend.focus,
            lift=blend.lift,
            **categories,
        )
        """The program as the kernels take it."""
        self._state = [(vars(blend), name, vars(blend)[name]) for name in _OF_BLEND]
        for member in self._members:
            self._state += [(vars(member), name, value) for name, value in vars(member).items() if name[0] != "_"]

    @property
    def is_current(self) -> bool:
        """True if the blend and its members are as they were when this was made."""
        return all(now.get(name) is value for now, name, value in self._state)

    @property
    def is_whole(self) -> bool:
        """True if the kernel computes the scores of all members, so that it makes a list in one call."""
        return self.native.is_whole

    @property
    def given_members(self) -> list[Recommender]:
        """Members that the kernel does not compute."""
        return [one.member for one in self._given if one is not None]

    def parts(self, users: Rows, threads: int) -> TasteParts:
        """Scores of all items for these users, split by taste."""
        values, added = [], []
        for call in self._calls(users):
            own, of_items, scales, bad = self.native.parts(call.users, call.given, call.nearest, threads)
            self._require_finite(call.users, bad)
            values.append(own)
            added.append(of_items)
            self._keep_scales(call.users, scales)
        width = max(one.shape[1] for one in added)
        wide = [np.broadcast_to(one, (len(one), width)) for one in added]
        return TasteParts(self._tastes.first_rows(users), _joined(values), _joined(wide), self._blend.focus)

    def totals(
        self, users: Rows, factors: NDArray[np.float64] | None, threads: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Scores of all items and the taste that says most for each, as of `TasteParts.scored`."""
        scores, strongest = [], []
        for call in self._calls(users, factors):
            found, numbers, bad = self.native.totals(call.users, call.given, call.nearest, call.factors, threads)
            self._require_finite(call.users, bad)
            scores.append(found)
            strongest.append(numbers)
        return _joined(scores), _joined(strongest)

    def lists(
        self,
        users: Rows,
        factors: NDArray[np.float64] | None,
        excluded: _native.ItemLists,
        k: int,
        threads: int,
        allowed: NDArray[np.uint8] | None = None,
    ) -> FoundLists:
        """The k best items of these users without excluded ones, of the items that are allowed."""
        parts: list[FoundLists] = []
        for call in self._calls(users, factors):
            top, scores, tastes, n_found, nan_user, scales, bad = self.native.lists(
                call.users, call.given, call.nearest, call.factors, excluded, k=k, threads=threads, allowed=allowed
            )
            self._require_finite(call.users, bad)
            parts.append(FoundLists(top, scores, tastes, n_found, nan_user))
            self._keep_scales(call.users, scales)
        if len(parts) == 1:
            return parts[0]
        first = np.cumsum([0, *(len(one.top) for one in parts)]).tolist()
        nan = [at + one.nan_user for at, one in zip(first, parts, strict=False) if one.nan_user >= 0]
        top = _joined([one.top for one in parts])
        scores, tastes = _joined([one.scores for one in parts]), _joined([one.tastes for one in parts])
        return FoundLists(top, scores, tastes, sum(one.n_found for one in parts), nan[0] if nan else -1)

    def scales(self, user: int) -> list[float]:
        """Weight of each member divided by the standard deviation of its scores for this user, 0 where that is 0."""
        kept = self._kept_scales.get(user)
        if kept is None:
            (call,) = self._calls(np.array([user]))
            _, _, scales, bad = self.native.parts(call.users, call.given, call.nearest, 1)
            self._require_finite(call.users, bad)
            kept = self._keep_scales(call.users, scales)[user]
        found = np.zeros(len(self._blend.members_))
        found[self._at] = kept
        return [float(one) for one in found]

    def _keep_scales(self, users: Rows, scales: NDArray[np.float64]) -> dict[int, NDArray[np.float64]]:
        """Keep what a call has found for its users, of whom reasons may be asked next; not of many."""
        found = dict(zip(users[:_KEPT].tolist(), scales[:_KEPT], strict=True))
        self._kept_scales = found
        return found

    @property
    def products(self) -> float:
        """Multiplications that a list takes, on average: how long it takes."""
        n_users, n_items = max(1, self._train.n_users), self._train.n_items
        found = 0.0
        for member in self._members:
            space = member.vectors()
            vectors = self._train.n_interactions if space is None else space.user_vectors.size
            found += vectors / n_users * n_items
        return found

    # ---- scores of members that the kernel does not compute ----------------------------------------------------

    def _calls(self, users: Rows, factors: NDArray[np.float64] | None = None) -> Iterator[_Call]:
        """Arguments of the kernel: one call for all users, where no member has to be asked for scores."""
        rows = np.ascontiguousarray(users, dtype=np.int32)
        if self.is_whole or not len(rows):
            nothing = None if self.is_whole else np.empty((0, self._train.n_items), np.int32)
            yield _Call(rows, [self._scores_of(one, rows) for one in self._given], nothing, factors)
            return
        counts = self._tastes.counts[rows]
        size = max(1, _VALUES_AT_ONCE // (self._train.n_items * (int(counts.max()) + 1)))
        first = np.concatenate([[0], np.cumsum(counts)])
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            nearest = None if self._splits else self._blend.interest_space().nearest_interests(some, self._threads)
            own = None if factors is None else factors[first[start] : first[start + len(some)]]
            yield _Call(some, [self._scores_of(one, some) for one in self._given], nearest, own)

    def _scores_of(self, one: _Given | None, users: NDArray[np.int32]) -> NDArray[np.float32] | None:
        if one is None:
            return None
        if not one.of_past:
            return _checked(one.member, "score_block", one.member.score_block(users), len(users))
        histories = self._tastes.histories(one.member.weighted_train, users)
        disliked = self._train.dislike_matrix[users]
        if disliked.nnz:
            histories = sp.csr_array(sp.vstack([histories, disliked]))
        return _checked(one.member, "history_scores", one.member.history_scores(histories), histories.shape[0])

    def _require_finite(self, users: Rows, bad: tuple[int, int]) -> None:
        user, member = bad
        if user >= 0:
            require_finite_scores(self._members[member], users, user)


def _joined(parts: list[NDArray[Any]]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _source_of(member: Recommender) -> tuple[Any, float]:
    """Rows or vectors from which the kernel computes a member's scores, or None; temperature of exponentials, or 0."""
    if _gives(member, "past_rows", "history_scores"):
        rows = member.past_rows()
        if rows is not None:
            return rows, 0.0
    if _gives(member, "vector_scores", "score_block") and not _is_of_past(member):
        found = member.vector_scores()
        if found is not None:
            return found[0].freeze().for_scoring(), found[1]
    return None, 0.0


def _gives(member: Recommender, form: str, scores: str) -> bool:
    """True if the class that says how scores are computed is the one that computes them."""
    for one in type(member).__mro__:
        if scores in vars(one) or form in vars(one):
            return form in vars(one)
    return False


def _is_of_past(member: Recommender) -> bool:
    """True if the scores of a member are sums over past items."""
    if type(member).history_scores is Recommender.history_scores:
        return False
    return member.history_scores(member.train_.matrix[:0]) is not None


def _checked(member: Recommender, name: str, given: Any, n_rows: int) -> NDArray[np.float32]:
    scores = np.ascontiguousarray(given, dtype=np.float32)
    expected = n_rows, member.train_.n_items
    if scores.shape != expected:
        raise DataError(
            f"{type(member).__name__}.{name} gave shape {scores.shape}, expected {expected}: a column per item, and a "
            f"row per {'user' if name == 'score_block' else 'history'}."
        )
    return scores
