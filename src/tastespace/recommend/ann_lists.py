"""Lists of users by approximate search: one search for each of a user's vectors, and an exact ranking of what is found.

The best k items under the smallest distance lie in the union of the best k of each vector, so all that an approximate
search can lose is what the searches of single vectors miss. Where that would be much, or nothing would be gained, all
items are compared as always: for narrow filters and for users of whom very many items are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.checks import require_choice
from tastespace.models.base import Recommender
from tastespace.models.ranking import Block, ScoredLists, ranges
from tastespace.recommend.ann_index import AnnIndex, find_index
from tastespace.recommend.scoring import ItemLists, Ranker, ScoringIndex

log = logging.getLogger(__name__)

INDEXES = ("exact", "ann")
_USERS_AT_ONCE = 1024
_FEW_VECTORS = 16  # searched for by one thread: those of faiss wait busily for one that has no core
_NARROW = 0.1  # share of all items below which candidates are compared one by one
_DEEPEST = 0.02  # share of all items that one search may ask for, and a number that it always may
_ALWAYS = 1_000
_MARGIN = 16  # items asked for beyond those needed: in the index vectors have half precision


class AnnScoringIndex(ScoringIndex):
    """`ScoringIndex` whose lists of users come from an index of the items, which is built where there is none."""

    def __init__(self, model: Recommender, threads: int = 0) -> None:
        super().__init__(model, threads)
        self._ann = find_index(model, threads)

    def ranker(self, k: int, excluded: ItemLists, candidates: NDArray[np.int32] | None) -> Ranker:
        """What finds the lists of `top_k`: exact among few candidates."""
        if candidates is not None and len(candidates) < _NARROW * self.train.n_items:
            log.info("index='ann': %d candidates are compared one by one", len(candidates))
            return super().ranker(k, excluded, candidates)
        return AnnRanker(self, self._ann, k, excluded, candidates)

    def exact_ranker(self, k: int, excluded: ItemLists, candidates: NDArray[np.int32] | None) -> Ranker:
        """What compares all items."""
        return super().ranker(k, excluded, candidates)


class _Lists(NamedTuple):
    """Lists with their scores, each of shape ``(n_users, k)``; see `ScoredLists`."""

    top: NDArray[np.int32]
    scores: NDArray[np.float32]
    interests: NDArray[np.int32]

    @classmethod
    def empty(cls, n_users: int, k: int) -> _Lists:
        """Lists without items."""
        none = np.full((n_users, k), -1, dtype=np.int32)
        return cls(none, np.full((n_users, k), np.nan, dtype=np.float32), none.copy())

    def put(
        self,
        at: NDArray[np.int64],
        top: NDArray[np.int32],
        scores: NDArray[np.float32],
        interests: NDArray[np.int32],
    ) -> None:
        """Set the lists at these positions."""
        self.top[at], self.scores[at], self.interests[at] = top, scores, interests


class AnnRanker:
    """Finds lists of users by searches; arguments as in `ScoringIndex.ranker`."""

    def __init__(
        self,
        scoring: AnnScoringIndex,
        ann: AnnIndex,
        k: int,
        excluded: ItemLists,
        candidates: NDArray[np.int32] | None,
    ) -> None:
        space = scoring.space
        assert space is not None  # `find_index` raises for models without vectors
        self._scoring, self._ann, self._space = scoring, ann, space
        self._k, self._excluded, self._candidates = k, excluded, candidates
        self._n_items = scoring.train.n_items
        self._n_candidates = self._n_items if candidates is None else len(candidates)
        self._wider = -(-self._n_items // max(1, self._n_candidates))

    def blocks(self, users: NDArray[np.int32], k: int | None = None) -> Iterator[Block]:
        """The blocks of these users, in order; lists of another length where k is given."""
        for first in range(0, len(users), _USERS_AT_ONCE):
            part = np.ascontiguousarray(users[first : first + _USERS_AT_ONCE])
            yield self._block(part, self._k if k is None else k)

    def _block(self, users: NDArray[np.int32], k: int) -> Block:
        lists = _Lists.empty(len(users), k)
        offsets, _ = self._excluded
        n_excluded = offsets[users + 1] - offsets[users]
        depth = k + n_excluded + _MARGIN
        left = depth > max(_ALWAYS, _DEEPEST * self._n_items)  # of whom all items are compared
        asked = np.ceil(np.log2(depth)).astype(np.int64)  # users of about the same depth are searched for together
        for size in np.unique(asked[~left]):
            at = np.flatnonzero((asked == size) & ~left)
            lists.put(at, *self._found(users[at], k, int(depth[at].max())))
            # Nothing more is left for the user, or the search has not looked far enough.
            left[at] = lists.top[at, -1] < 0
        if left.any():
            log.info("index='ann': all items are compared for %d of %d users", int(left.sum()), len(users))
            rest = np.flatnonzero(left)
            first = 0
            for block in self._exact.blocks(users[rest], k):
                at = rest[first : first + len(block.users)]
                assert block.scored is not None  # the exact ranker was made to give scores
                lists.put(at, block.top, block.scored.scores, block.scored.interests)
                first += len(block.users)
        none = np.empty(0, dtype=np.int32)
        no_tests = (np.zeros(len(users), dtype=np.int64), none.reshape(0, 3), none)
        scored = ScoredLists(lists.scores, lists.interests, int((lists.top >= 0).sum()))
        return Block(users, lists.top, *no_tests, self._space, scored)

    def _found(self, users: NDArray[np.int32], k: int, depth: int) -> _Lists:
        """The best k items in the union of the searches of each user's vectors, -1 where fewer were found."""
        starts = self._space.user_offsets[users]
        rows = ranges(starts, self._space.user_offsets[users + 1] - starts)
        threads = 1 if len(rows) <= _FEW_VECTORS else self._scoring.threads
        queries = self._space.user_vectors[rows]
        items = self._ann.search(queries, min(depth, self._n_items), threads, self._allowed, self._wider)
        offsets, exact = self._space.user_offsets, self._space.exact_items
        top, scores, interests, nan_user = _native.list_found(
            self._user_vectors, offsets, exact.vectors, exact.by_distance, exact.bias, users, items, *self._excluded, k,
            threads,
        )  # fmt: skip
        # Of a NaN score the exact ranker says what is wrong.
        return _Lists(top, scores, interests) if nan_user < 0 else _Lists.empty(len(users), k)

    @cached_property
    def _user_vectors(self) -> NDArray[np.float32]:
        return np.ascontiguousarray(self._space.user_vectors, dtype=np.float32)

    @cached_property
    def _allowed(self) -> NDArray[np.uint8] | None:
        """A bit for each item that is a candidate; None where all are."""
        if self._candidates is None:
            return None
        allowed = np.zeros(self._n_items, dtype=bool)
        allowed[self._candidates] = True
        return np.packbits(allowed, bitorder="little")

    @cached_property
    def _exact(self) -> Ranker:
        return self._scoring.exact_ranker(self._k, self._excluded, self._candidates)


def scoring_index(model: Recommender, threads: int, index: str) -> ScoringIndex:
    """What answers a request with ``index="exact"`` or ``"ann"``."""
    require_choice("index", index, INDEXES)
    return ScoringIndex(model, threads) if index == "exact" else AnnScoringIndex(model, threads)
