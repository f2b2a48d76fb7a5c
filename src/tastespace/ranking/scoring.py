"""Ordered lists of a fitted model: of users, of single interests, of items like an item, of users like a user.

All of them are the same question: which k rows score best against a query? `ranking.blocks` finds them with the native
kernels, the scores of what was found are then computed again from the differences themselves, and that is the order in
which they are given.

A user's interests are vectors, the nearest of which scores an item, or tastes, which are groups of past items
(`Recommender.tastes`): the score of an item is then split among them, and the item belongs to the one that says most
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.computed_once import computed_once, freeze
from tastespace._util.threads import resolve_threads
from tastespace.data.ids import IdMap
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.models.blend.program import FoundLists, Program
from tastespace.models.vector_space import VectorSpace
from tastespace.ranking.blocks import Block, BlockRanker, ItemLists, ScoredLists
from tastespace.ranking.source import Matched, Rows, Scores, ScoreSource
from tastespace.tastes import TasteParts, Tastes

# ---------------------------------------------------------------------------------------------------------------------
# Closeness of items to an item and of users to a user, from vectors.


def items_as_queries(space: VectorSpace, items: Rows) -> VectorSpace:
    """These items as queries with one vector each, against all items: by distance, or by cosine."""
    vectors = item_directions(space)
    return VectorSpace.single(vectors[items], vectors, space.metric)


def item_directions(space: VectorSpace) -> NDArray[np.float32]:
    """Vectors that items are compared by, shape ``(n_items, dim)``; of length 1 where inner products are compared."""
    return space.item_vectors if space.metric == "l2" else _unit(space.item_vectors)


class UserCloseness:
    """Closeness of users to each other.

    Two users are as close as a vector is to the nearest of the other's (minus the squared distance, or the cosine): the
    mean over the vectors of either user, and the mean of the two.
    """

    def __init__(self, space: VectorSpace, threads: int) -> None:
        self._largest = 0.0 if space.metric == "l2" else 1.0
        vectors = space.user_vectors if space.metric == "l2" else _unit(space.user_vectors)
        self._offsets, self._threads = space.user_offsets, threads
        self._as_items = VectorSpace(vectors, space.user_offsets, vectors, space.metric)

    def of(self, user: int) -> NDArray[np.float32]:
        """Closeness of all users to the one at this row, shape ``(n_users,)``."""
        offsets, counts = self._offsets, np.diff(self._offsets)
        users, vectors = np.arange(len(counts), dtype=np.int32), np.arange(offsets[-1], dtype=np.int32)
        own = np.arange(offsets[user], offsets[user + 1], dtype=np.int32)
        there, _ = self._as_items.pair_scores(np.tile(users, len(own)), np.repeat(own, len(users)), self._threads)
        back, _ = self._as_items.pair_scores(np.full(len(vectors), user), vectors, self._threads)
        to_them = there.reshape(len(own), len(users)).mean(axis=0)
        to_me = np.add.reduceat(back, offsets[:-1]) / counts
        return np.minimum(0.5 * (to_them + to_me), self._largest).astype(np.float32)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same directions with a length of 1, computed once for vectors that do not change."""
    return computed_once(vectors, "unit", lambda: _normalized(vectors))


def _normalized(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    freeze(unit)
    return unit


class Ranker(Protocol):
    """An object that finds lists: `BlockRanker`, or a search that does not look at all items."""

    def blocks(self, users: NDArray[np.int32], k: int | None = None) -> Iterator[Block]:
        """The lists of these users, in blocks; of another length than it was made for where k is given."""


_PARTS_AT_ONCE = 8_000_000  # parts of scores held at once: 32 MB
_MORE, _FEWEST_LOOKED_AT = 2, 20  # items of a shelf, times its length or at least, whose reasons are looked at first
_NONE, _UNKNOWN = -1, -2  # in place of a taste
_DEEPER = 8  # how much longer a list gets where one group of interests found too few items in it


@dataclass(frozen=True, eq=False)
class TopK:
    """The lists of several queries, one entry per row found, best first within a query. All of shape ``(n,)``."""

    query: NDArray[np.int64]
    """Position of the query that the entry answers."""
    rank: NDArray[np.int32]
    """From 1 within each query."""
    rows: NDArray[np.int32]
    """Rows of what was found: items, or users where users are compared."""
    scores: NDArray[np.float32]
    """Larger is better."""
    interests: NDArray[np.int32] | None
    """The user's vector that the item is nearest to; None for models without vectors."""
    distances: NDArray[np.float32] | None = None
    """Squared distance to that vector; None where vectors are compared by inner products, or there are none."""

    def of(self, query: int) -> NDArray[np.int32]:
        """The rows found for one query, best first."""
        return self.rows[self.query == query]

    def take(self, at: NDArray[np.integer[Any]], rank: NDArray[np.int32] | None = None) -> TopK:
        """Some entries, in this order; with new ranks where they are given."""
        return TopK(
            self.query[at],
            self.rank[at] if rank is None else rank,
            self.rows[at],
            self.scores[at],
            None if self.interests is None else self.interests[at],
            None if self.distances is None else self.distances[at],
        )

    def moved(self, positions: NDArray[np.int64]) -> TopK:
        """The same lists, with query q at ``positions[q]``."""
        return replace(self, query=positions[self.query])


_ByTaste = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]
Lists = Iterator[tuple[Block, TopK]]
"""The lists of some users, block by block."""
Lister = Callable[[NDArray[np.int32], int], Lists]
"""From rows of users and a length to their lists."""


def merged(parts: Sequence[TopK]) -> TopK:
    """Lists of different queries, or of different places, as one: by query, then by rank."""
    query = np.concatenate([part.query for part in parts])
    rank = np.concatenate([part.rank for part in parts])
    order = np.lexsort((rank, query))

    def column(name: str) -> NDArray[np.float32] | None:
        values = [getattr(part, name) for part in parts]
        return None if any(one is None for one in values) else np.concatenate(values)[order]

    return TopK(
        query[order],
        rank[order],
        np.concatenate([part.rows for part in parts])[order],
        np.concatenate([part.scores for part in parts])[order],
        column("interests"),  # type: ignore[arg-type]
        column("distances"),
    )


def require_vectors(model: Recommender, what: str) -> VectorSpace:
    """The model's vectors; for a model without any an error that says what needs them."""
    model.require_fitted()
    space = model.vectors()
    if space is None:
        raise ParameterError(
            f"{type(model).__name__} has no vectors, so it has no {what}. Models with vectors are DPCML (several per "
            "user), CML and others."
        )
    return space


def require_interest_space(model: Recommender, what: str) -> VectorSpace:
    """The vectors that tell which interest an item matches; without any, an error that says what needs them."""
    model.require_fitted()
    space = model.interest_space()
    return require_vectors(model, what) if space is None else space


def _times(values: NDArray[np.float32], factors: NDArray[np.float64]) -> NDArray[np.float32]:
    """Parts of tastes, times their factors; minus infinity for those with 0, which say nothing."""
    return np.where(factors[:, None] == 0, -np.inf, values * factors[:, None]).astype(np.float32)


def frozen(space: VectorSpace | None) -> VectorSpace | None:
    """The same vectors, read-only from now on, where there are any."""
    return None if space is None else space.freeze()


class ScoringIndex:
    """Scores and ranks of a fitted model, for every kind of list.

    It takes no time to make one. What depends on all users or all items (that vectors are finite, their squares, the
    items in the order of the kernels) is computed with the first list and kept with the model's arrays, which are
    read-only from then on (`VectorSpace.freeze`); a model that learns has new ones. Threads may share a model.

    >>> from tastespace import CML, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> index = ScoringIndex(CML(dim=8, epochs=2).fit(town))
    >>> [len(found.rows) for _, found in index.top_k(np.array([7, 3], dtype=np.int32), k=3)]
    [6]
    """

    def __init__(self, model: Recommender, threads: int = 0) -> None:
        model.require_fitted()
        self.model = model
        self.train = model.train_
        self.factors: dict[int, dict[int, float]] = {}
        self._kept_parts: tuple[int, TasteParts] | None = None
        self._kept_reasons: tuple[int, NDArray[np.int32]] | None = None
        self._kept_evidence: tuple[int, NDArray[np.int32], NDArray[np.float32]] | None = None
        self._kept_order: tuple[Any, Any, _ByTaste] | None = None
        self.threads = resolve_threads(threads)
        _ = self.interest_space  # frozen before anything is computed from it

    @cached_property
    def space(self) -> VectorSpace | None:
        """The model's vectors; None for models without any."""
        return frozen(self.model.vectors())

    @cached_property
    def interest_space(self) -> VectorSpace | None:
        """The vectors of the interests, which for tastes are centers of past items; None for models without any."""
        return frozen(self.model.interest_space()) if self.space is None else self.space

    @cached_property
    def tastes(self) -> Tastes | None:
        """The tastes whose parts of a score tell which interest an item matches; None where vectors tell."""
        return self.model.tastes()

    @property
    def source(self) -> ScoreSource:
        """The scores that users are ranked by."""
        found = ScoreSource.of(self.model, self.space)
        if self.program is None:
            return found
        return replace(found, scores=self._scored_by_taste, program=_TasteLists(self.program, self))

    @cached_property
    def program(self) -> Program | None:
        """The kernel for models that split their scores; an index is made again for a model that has changed."""
        return self.model.program() if self.model.splits_scores else None

    def with_factors(self, factors: Mapping[int, Mapping[int, float]]) -> ScoringIndex:
        """The same with the parts of these users' tastes times these factors, 0 as if a taste were not there.

        ``factors`` are by row of the user and number of the taste. Models without tastes stay as they are.
        """
        if self.tastes is None or not any(factors.values()):
            return self
        found = ScoringIndex(self.model, self.threads)
        found.factors = {row: dict(one) for row, one in factors.items() if one}
        return found

    def _scored_by_taste(self, users: Rows) -> Matched:
        """Scores of all items for some users, and the taste that says most for each."""
        assert self.program is not None
        return Matched(*self.program.totals(users, self._factors_of(users), self.threads))

    @property
    def _users_at_once(self) -> int:
        """Users whose parts of scores are held at once."""
        most = 1 if self.tastes is None else int(self.tastes.counts.max(initial=1))
        return max(1, _PARTS_AT_ONCE // (self.train.n_items * most))

    def _parts(self, users: Rows) -> TasteParts:
        """Scores of all items for some users, split by taste; those of the last single user are kept."""
        if len(users) != 1:
            return self.model.taste_parts(users)
        row, kept = int(users[0]), self._kept_parts
        if kept is None or kept[0] != row:
            kept = self._kept_parts = row, self.model.taste_parts(users)
        return kept[1]

    def _factors_of(self, users: Rows) -> NDArray[np.float64] | None:
        """Factor of each taste of these users; None where all are 1."""
        if not self.factors or self.tastes is None:
            return None
        first = self.tastes.first_rows(users)
        found = np.ones(int(first[-1]))
        for at, user in enumerate(users.tolist()):
            for number, factor in self.factors.get(user, {}).items():
                found[first[at] + number] = factor
        return found

    @property
    def interest_vectors(self) -> VectorSpace:
        """`interest_space` of a model that has one; an error for the others."""
        space = self.interest_space
        return require_interest_space(self.model, "interests") if space is None else space

    @property
    def has_distances(self) -> bool:
        """True if items have a distance to a user's interests, which need not be what they are ranked by."""
        return self.tastes is None and self.interest_space is not None and self.interest_space.metric == "l2"

    # ---- lists of users --------------------------------------------------------------------------------------

    def top_k(
        self,
        users: NDArray[np.int32],
        k: int,
        *,
        exclude_seen: bool = True,
        candidates: NDArray[np.int32] | None = None,
        excluded: ItemLists | None = None,
    ) -> Iterator[tuple[Block, TopK]]:
        """The k best items of the users at these rows, block by block, for any model.

        ``candidates`` are ascending rows of the items allowed in the lists; None allows all. ``excluded`` are the items
        that a user's list must not hold, as offsets and rows for all users of the model; by default what each has seen.
        """
        if excluded is None:
            excluded = self.train.left_out if exclude_seen else self.train.disliked
        return self.ranked(self.ranker(k, excluded, candidates), users)

    def ranker(self, k: int, excluded: ItemLists, candidates: NDArray[np.int32] | None) -> Ranker:
        """The object that finds the lists of `top_k`; invalid vectors are an error."""
        return BlockRanker(self.source, k, excluded, threads=self.threads, candidates=candidates, scored=True)

    def ranked(self, ranker: Ranker, users: NDArray[np.int32], k: int | None = None) -> Iterator[tuple[Block, TopK]]:
        """The lists of `top_k` from a `ranker`, of another length where k is given."""
        return ((block, self.matched(block.users, self._scored(block))) for block in ranker.blocks(users, k))

    def pair_interests(self, users: Rows, items: Rows) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Number of the interest that each (user, item) pair matches best, and the score of the item by it alone."""
        if self.tastes is None:
            return self.interest_vectors.pair_scores(users, items, self.threads)
        scores, numbers = np.empty(len(users), np.float32), np.empty(len(users), np.int32)
        size = self._users_at_once
        distinct, place = np.unique(users, return_inverse=True)
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(len(distinct) + 1))
        for start in range(0, len(distinct), size):
            some = distinct[start : start + size].astype(np.int32)
            parts, factors = self._parts(some), self._factors_of(some)
            values = parts.values if factors is None else _times(parts.values, factors)
            for at in range(len(some)):
                pairs = order[ends[start + at] : ends[start + at + 1]]
                own = values[parts.first[at] : parts.first[at + 1]][:, items[pairs]]
                numbers[pairs] = own.argmax(axis=0)
                scores[pairs] = own.max(axis=0)
        return scores, numbers

    def matched(self, users: NDArray[np.int32], found: TopK) -> TopK:
        """The lists of users at these rows, with the interest that each item matches and its distance."""
        if self.interest_space is None:
            return found
        closeness, interests = found.scores, found.interests
        if interests is None:
            closeness, interests = self.pair_interests(users[found.query], found.rows)
        distances = -closeness if self.has_distances else None
        return TopK(found.query, found.rank, found.rows, found.scores, interests, distances)

    # ---- lists of one user's interests -----------------------------------------------------------------------

    def vectors_of(self, user: int) -> NDArray[np.float32]:
        """The vectors of the user at this row, one per interest: ``(n_interests, dim)``."""
        space = self.interest_vectors
        return space.user_vectors[space.user_offsets[user] : space.user_offsets[user + 1]]

    @property
    def item_vectors(self) -> NDArray[np.float32]:
        """The vectors of all items, shape ``(n_items, dim)``."""
        return self.interest_vectors.item_vectors

    def seen(self, user: int) -> NDArray[np.int32]:
        """Rows of the items that the user had in training, ascending."""
        return self.train.indices[self.train.offsets[user] : self.train.offsets[user + 1]]

    def left_out(self, user: int, exclude_seen: bool = True) -> NDArray[np.int32]:
        """Rows of the items that the user's lists leave out, ascending: seen ones, if so asked, and disliked ones."""
        offsets, items = self.train.left_out if exclude_seen else self.train.disliked
        return items[offsets[user] : offsets[user + 1]]

    def interest_scores(self, user: int, items: Rows) -> NDArray[np.float32]:
        """Score of each item by each of a user's interests alone: ``(n_interests, len(items))``."""
        if self.tastes is not None:
            rows = np.array([user], dtype=np.int32)
            factors = self._factors_of(rows)
            values = self._parts(rows).values[:, items]
            return values if factors is None else values * factors[:, None].astype(np.float32)
        n = len(self.vectors_of(user))
        space = self._queries(user, [[x] for x in range(n)])
        scores, _ = space.pair_scores(np.repeat(np.arange(n), len(items)), np.tile(items, n), self.threads)
        return scores.reshape(n, len(items))

    def interest_top_k(
        self,
        user: int,
        k: int,
        interests: Sequence[Sequence[int]] | None = None,
        *,
        exclude_seen: bool = True,
        candidates: NDArray[np.int32] | None = None,
    ) -> TopK:
        """The k best items of a user by each of these sets of interests, as if the user had no others.

        Query q of the answer is ``interests[q]``; by default each interest is a set of its own. ``interests`` of the
        answer are the numbers of the user's interests.
        """
        sets = [[x] for x in range(len(self.vectors_of(user)))] if interests is None else interests
        seen = self.left_out(user, exclude_seen)
        if self.tastes is not None:
            return self._top_k_of_tastes(user, sets, seen, k, candidates)
        found = self._lists(self._queries(user, sets), self.train.items, [seen] * len(sets), k, candidates)
        assert found.interests is not None  # they come from vectors
        first = np.cumsum([0, *map(len, sets)])[:-1]
        numbers = np.concatenate([np.asarray(one, dtype=np.int32) for one in sets])
        interests_found = numbers[first[found.query] + found.interests]
        return TopK(found.query, found.rank, found.rows, found.scores, interests_found)

    def _top_k_of_tastes(
        self,
        user: int,
        sets: Sequence[Sequence[int]],
        seen: NDArray[np.int32],
        k: int,
        candidates: NDArray[np.int32] | None,
    ) -> TopK:
        """`interest_top_k` of a model with tastes."""
        parts = self._parts(np.array([user], dtype=np.int32))

        def scores(queries: Rows) -> NDArray[np.float32]:
            return np.concatenate([parts.totals(_only(sets[q], len(parts.values))) for q in queries])

        found = self._lists(scores, self.train.items, [seen] * len(sets), k, candidates)
        numbers = np.empty(len(found.rows), dtype=np.int32)
        for query, one in enumerate(sets):
            at = found.query == query
            numbers[at] = np.asarray(one, dtype=np.int32)[parts.values[list(one)][:, found.rows[at]].argmax(axis=0)]
        return replace(found, interests=numbers)

    def split_top_k(
        self,
        user: int,
        groups: Sequence[Sequence[int]],
        lengths: Sequence[int],
        *,
        exclude_seen: bool = True,
        candidates: NDArray[np.int32] | None = None,
    ) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """One list of a user, split by interests: rows and scores of the best ``lengths[g]`` items of each group.

        An item belongs to the group of the interest that it matches best, so each item is in one list at most;
        those that match an interest in no group are in none. Lists of tastes are ordered by what the taste itself says
        for an item, and hold only items whose two strongest past items are of that taste.
        """
        if self.tastes is not None:
            return self._split_by_taste(user, groups, lengths, exclude_seen, candidates)
        group_of = np.full(len(self.vectors_of(user)), -1)
        for at, group in enumerate(groups):
            group_of[list(group)] = at
        most = self.train.n_items + 1  # a list shorter than k is complete
        k = min(most, _DEEPER * max(1, sum(lengths)))
        while True:
            found = self._own_list(user, k, exclude_seen, candidates)
            assert found.interests is not None
            of = group_of[found.interests]
            if len(of) < k or (np.bincount(of[of >= 0], minlength=len(groups)) >= lengths).all():
                break
            k = min(most, _DEEPER * k)
        return [(found.rows[of == at][:length], found.scores[of == at][:length]) for at, length in enumerate(lengths)]

    def _split_by_taste(
        self,
        user: int,
        groups: Sequence[Sequence[int]],
        lengths: Sequence[int],
        exclude_seen: bool,
        candidates: NDArray[np.int32] | None,
    ) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """`split_top_k` of a model with tastes."""
        order, strongest, largest = self._by_taste(user, exclude_seen, candidates)
        assert self.tastes is not None
        of_group = np.full(int(self.tastes.counts[user]) + 1, len(groups))  # the last: of `_NONE`
        for at, group in enumerate(groups):
            of_group[list(group)] = at
        group_of = of_group[strongest[order]]
        rows_of = [order[group_of == at] for at in range(len(groups))]
        found: list[NDArray[np.int32]] = [order[:0]] * len(groups)
        looked_at = [0] * len(groups)
        while True:
            lacking = [
                at
                for at, (rows, length) in enumerate(zip(rows_of, lengths, strict=True))
                if len(found[at]) < length and looked_at[at] < len(rows)
            ]
            if not lacking:
                break
            sizes = {at: looked_at[at] + max(_MORE * lengths[at], _FEWEST_LOOKED_AT, looked_at[at]) for at in lacking}
            looked_now = np.concatenate([rows_of[at][looked_at[at] : sizes[at]] for at in lacking])
            reasons, first = self._reason_tastes(user, looked_now), 0  # of all groups at once
            for at in lacking:
                rows = rows_of[at][looked_at[at] : sizes[at]]
                looked_at[at] += len(rows)
                two = reasons[first : first + len(rows)]
                first += len(rows)
                belongs = of_group[two] == at  # without a second past item the first one decides
                supported = rows[belongs[:, 0] & (belongs[:, 1] | (two[:, 1] == _NONE))]
                found[at] = np.concatenate([found[at], supported])[: lengths[at]]
        return [(rows, largest[rows]) for rows in found]

    def _by_taste(self, user: int, exclude_seen: bool, candidates: NDArray[np.int32] | None) -> _ByTaste:
        """A user's items in the order of what their strongest taste says, and of all items that taste and what it says.

        Those of the last question are kept: names of interests and shelves ask the same.
        """
        kept = self._kept_order
        if kept is not None and kept[0] == (user, exclude_seen) and kept[1] is candidates:
            return kept[2]
        rows = np.array([user], dtype=np.int32)
        values, factors = self._parts(rows).values, self._factors_of(rows)
        values = values if factors is None else values * factors[:, None].astype(np.float32)
        allowed = np.ones(self.train.n_items, dtype=bool)
        if candidates is not None:
            allowed[:] = False
            allowed[candidates] = True
        allowed[self.left_out(user, exclude_seen)] = False
        strongest, largest = values.argmax(axis=0), values.max(axis=0)
        left = np.flatnonzero(allowed).astype(np.int32)
        order: NDArray[np.int32] = left[np.argsort(-largest[left], kind="stable")]
        self._kept_order = (user, exclude_seen), candidates, (order, strongest, largest)
        return order, strongest, largest

    def _reason_tastes(self, user: int, items: NDArray[np.int32]) -> NDArray[np.int32]:
        """Tastes of the two past items that raise the score of each item most, ``(len(items), 2)``.

        `_NONE` where there are fewer; where the model does not tell, the taste that says most for the item. What was
        found for the last user is kept.
        """
        assert self.tastes is not None
        kept = self._kept_reasons
        if kept is None or kept[0] != user:
            kept = self._kept_reasons = user, np.full((self.train.n_items, 2), _UNKNOWN, dtype=np.int32)
        known = kept[1]
        unknown = items[known[items, 0] == _UNKNOWN]
        evidence = self.evidence(user, unknown) if len(unknown) else None
        if len(unknown):
            known[unknown] = _NONE
            if evidence is None:
                known[unknown, 0] = self.pair_interests(np.full(len(unknown), user, dtype=np.int32), unknown)[1]
            elif len(evidence):
                tastes, column = self.tastes.of_user(user), np.arange(len(unknown))
                for place in range(min(2, len(evidence))):
                    best = evidence.argmax(axis=0)
                    known[unknown, place] = np.where(evidence[best, column] > 0, tastes[best], _NONE)
                    evidence[best, column] = -np.inf
        return known[items]

    def evidence(self, user: int, items: NDArray[np.int32]) -> NDArray[np.float32] | None:
        """`Recommender.evidence`; what was found for the last user is kept."""
        kept = self._kept_evidence
        if kept is None or kept[0] != user:
            kept = (
                user,
                np.full(self.train.n_items, -1, dtype=np.int32),
                np.empty((len(self.seen(user)), 0), np.float32),
            )
        _, place, known = kept
        unknown = items[place[items] < 0]
        if len(unknown):
            found = self.model.evidence(user, unknown)
            if found is None:
                return None
            place = place.copy()
            place[unknown] = np.arange(known.shape[1], known.shape[1] + len(unknown))
            known = np.concatenate([known, found], axis=1)
            self._kept_evidence = user, place, known
        return known[:, place[items]]

    def _own_list(self, user: int, k: int, exclude_seen: bool, candidates: NDArray[np.int32] | None) -> TopK:
        """The k best items of one user, as in `top_k`."""
        if self.space is not None:  # without the checks of all users' vectors, which take longer than one list
            everything = [range(len(self.vectors_of(user)))]
            return self.interest_top_k(user, k, everything, exclude_seen=exclude_seen, candidates=candidates)
        at = np.array([user], dtype=np.int32)
        ((_, found),) = self.top_k(at, min(k, self.train.n_items), exclude_seen=exclude_seen, candidates=candidates)
        return found

    def score(self, user: int, item: int) -> float:
        """The model's score of one item for the user at this row."""
        if self.space is None:
            return float(self.model.score_block(np.array([user]))[0, item])
        return float(self.space.pair_scores(np.array([user]), np.array([item]))[0][0])

    def rank(self, user: int, item: int, interests: Sequence[int]) -> int:
        """Rank of an item, from 1, among those that the user does not have, as if only these interests existed.

        Models without interests have one rank, whatever is given.
        """
        everything = np.arange(self.train.n_items, dtype=np.int32)
        if self.space is not None:
            space = self._queries(user, [interests])
            scores, _ = space.pair_scores(np.zeros(len(everything), dtype=np.int32), everything, self.threads)
        elif self.interest_space is None or len(set(interests)) == len(self.vectors_of(user)):
            scores = self.source.block(np.array([user], dtype=np.int32))[0]
        else:
            scores = self.model.scores_by(user, interests)
        before = (scores > scores[item]) | ((scores == scores[item]) & (everything < item))
        before[self.left_out(user)] = False
        return int(before.sum()) + 1

    # ---- neighbors -------------------------------------------------------------------------------------------

    def similar_items(self, items: Rows, k: int) -> TopK:
        """The k items closest to each of these: by distance, by cosine, or as the model itself compares items."""
        space = frozen(self.model.item_space())
        if space is None:
            return self._lists(lambda at: self._item_scores(items[at]), self.train.items, [[row] for row in items], k)
        return self._lists(items_as_queries(space, items), self.train.items, [[row] for row in items], k)

    def item_closeness(self, item: int, others: Rows) -> NDArray[np.float32]:
        """Closeness of other items to an item: minus the squared distance, or the cosine. Shape ``(len(others),)``."""
        space = items_as_queries(self.interest_vectors, np.array([item]))
        return space.pair_scores(np.zeros(len(others), dtype=np.int32), others, self.threads)[0]

    def similar_users(self, users: Rows, k: int) -> TopK:
        """The k users closest to each of these, see `UserCloseness`."""
        closeness = UserCloseness(self.interest_vectors, self.threads)

        def scores(at: Rows) -> NDArray[np.float32]:
            return np.stack([closeness.of(int(user)) for user in users[at]])

        return self._lists(scores, self.train.users, [[row] for row in users], k)

    # ---- the path that all of them take ----------------------------------------------------------------------

    def _lists(
        self,
        source: VectorSpace | Scores,
        ids: IdMap,
        excluded: Sequence[Any],
        k: int,
        candidates: NDArray[np.int32] | None = None,
    ) -> TopK:
        """The k best rows of ``ids`` for each query; ``excluded`` lists rows that a query must not find."""
        n = len(excluded)
        offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in excluded])]).astype(np.int64)
        rows = np.concatenate([np.asarray(rows, dtype=np.int32) for rows in excluded])
        queries = ScoreSource(source, n, len(ids), type(self.model).__name__, items=ids)
        ranker = BlockRanker(
            queries, min(k, len(ids)), (offsets, rows), threads=self.threads, candidates=candidates, scored=True
        )
        blocks = list(ranker.blocks(np.arange(n, dtype=np.int32)))
        parts = [self._scored(block) for block in blocks]
        first = np.cumsum([0, *(len(block.users) for block in blocks)])
        interests = [part.interests for part in parts if part.interests is not None]
        return TopK(
            np.concatenate([part.query + at for part, at in zip(parts, first[:-1], strict=True)]),
            np.concatenate([part.rank for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.scores for part in parts]),
            np.concatenate(interests) if interests else None,
        )

    def _scored(self, block: Block) -> TopK:
        """The lists of a block with exact scores, in the order of these."""
        if block.scored is not None:
            return _flat(block.top, block.scored)
        query, place = np.nonzero(block.top >= 0)
        rows = block.top[query, place]
        scores, interests = block.scores_of(query, rows, self.threads)
        # Ranked by the expanded square, shown by the differences themselves: neighbors may change places.
        tied = (scores[1:] == scores[:-1]) & (rows[1:] < rows[:-1])
        if (((scores[1:] > scores[:-1]) | tied) & (query[1:] == query[:-1])).any():
            offsets = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(block.top)))])
            order = _native.list_order(offsets, scores, rows, self.threads)
            rows, scores = rows[order], scores[order]
            interests = None if interests is None else interests[order]
        return TopK(query, (place + 1).astype(np.int32), rows, scores, interests)

    def _queries(self, user: int, interests: Sequence[Sequence[int]]) -> VectorSpace:
        """The model's items, and sets of one user's vectors as queries."""
        space, own_vectors = self.interest_vectors, self.vectors_of(user)
        offsets = np.cumsum([0, *map(len, interests)], dtype=np.int64)
        chosen = own_vectors[[x for one in interests for x in one]]
        return VectorSpace(chosen, offsets, space.item_vectors, space.metric, space.item_bias)

    def _item_scores(self, items: Rows) -> NDArray[np.float32]:
        scores = self.model.item_scores(items)
        if scores is None:
            raise ParameterError(f"{type(self.model).__name__} does not compare items, so it has no similar ones.")
        return scores


class _TasteLists:
    """Lists of a model that splits its scores, with the factors of an index (`ranking.source.ListProgram`)."""

    def __init__(self, program: Program, index: ScoringIndex) -> None:
        self._program, self._index = program, index

    def lists(
        self, users: Rows, excluded: _native.ItemLists, k: int, threads: int, allowed: NDArray[np.uint8] | None
    ) -> FoundLists:
        """As `Program.lists`."""
        return self._program.lists(users, self._index._factors_of(users), excluded, k, threads, allowed)

    @property
    def native(self) -> _native.BlendProgram | None:
        """The kernel, where there are no factors and no member has to be asked for its scores."""
        return self._program.native if self._program.is_whole and not self._index.factors else None


def _only(numbers: Sequence[int], n: int) -> NDArray[np.float64]:
    """Factors of n tastes: 1 for these, 0 for all others."""
    factors = np.zeros(n)
    factors[list(numbers)] = 1.0
    return factors


def _flat(top: NDArray[np.int32], scored: ScoredLists) -> TopK:
    """Lists of shape ``(n, k)`` entry by entry."""
    if scored.n_found == top.size:
        query, rank = _places(*top.shape)
        return TopK(query, rank, top.ravel(), scored.scores.ravel(), scored.interests.ravel())
    query, place = np.nonzero(top >= 0)
    rank = (place + 1).astype(np.int32)
    return TopK(query, rank, top[query, place], scored.scores[query, place], scored.interests[query, place])


@lru_cache(maxsize=4)
def _places(n: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """`TopK.query` and `TopK.rank` of n lists of k entries each, which nobody may change."""
    query, rank = np.repeat(np.arange(n), k), np.tile(np.arange(1, k + 1, dtype=np.int32), n)
    query.flags.writeable = rank.flags.writeable = False
    return query, rank
