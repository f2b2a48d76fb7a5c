"""Lists of users by approximate search: one search for each of a user's vectors, and an exact ranking of what is found.

The best k items under the smallest distance lie in the union of the best k of each vector, so all that an approximate
search can lose is what the searches of single vectors miss. Where that would be much, or nothing would be gained, all
items are compared as always: for narrow filters and for users of whom very many items are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tastespace.checks import require_choice
from tastespace.models.base import Recommender
from tastespace.models.ranking import Block, ranges
from tastespace.recommend.ann_index import AnnIndex, find_index
from tastespace.recommend.scoring import ItemLists, Ranker, ScoringIndex

log = logging.getLogger(__name__)

INDEXES = ("exact", "ann")
_USERS_AT_ONCE = 1024
_FEW_VECTORS = 16  # that one thread has found before others have started
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
        top = np.full((len(users), k), -1, dtype=np.int32)
        offsets, _ = self._excluded
        n_excluded = offsets[users + 1] - offsets[users]
        depth = k + n_excluded + _MARGIN
        left = depth > max(_ALWAYS, _DEEPEST * self._n_items)  # of whom all items are compared
        asked = np.ceil(np.log2(depth)).astype(np.int64)  # users of about the same depth are searched for together
        for size in np.unique(asked[~left]):
            at = np.flatnonzero((asked == size) & ~left)
            top[at] = self._found(users[at], k, int(depth[at].max()))
            left[at] = top[at, -1] < 0  # nothing more is left for the user, or the search has not looked far enough
        if left.any():
            log.info("index='ann': all items are compared for %d of %d users", int(left.sum()), len(users))
            rest = np.flatnonzero(left)
            first = 0
            for block in self._exact.blocks(users[rest], k):
                top[rest[first : first + len(block.users)]] = block.top
                first += len(block.users)
        none = np.empty(0, dtype=np.int32)
        return Block(users, top, np.zeros(len(users), dtype=np.int64), none.reshape(0, 3), none, self._space)

    def _found(self, users: NDArray[np.int32], k: int, depth: int) -> NDArray[np.int32]:
        """The best k items in the union of the searches of each user's vectors, -1 where fewer were found."""
        space, n = self._space, self._n_items
        starts = space.user_offsets[users]
        counts = space.user_offsets[users + 1] - starts
        rows = ranges(starts, counts)
        threads = 1 if len(rows) <= _FEW_VECTORS else self._scoring.threads
        items = self._ann.search(space.user_vectors[rows], min(depth, n), threads, self._allowed, self._wider)
        position = np.repeat(np.arange(len(users)), counts)
        keys = (position[:, None] * n + items)[(items >= 0) & (items < n)]
        keys = np.setdiff1d(keys, self._keys_excluded(users))  # each pair once, by user
        position, found = keys // n, (keys % n).astype(np.int32)
        scores, _ = space.pair_scores(users[position], found, threads)
        order = np.lexsort((found, -scores, position))
        position, found = position[order], found[order]
        first = np.searchsorted(position, np.arange(len(users)))
        place = np.arange(len(position)) - first[position]
        top = np.full((len(users), k), -1, dtype=np.int32)
        inside = place < k
        top[position[inside], place[inside]] = found[inside]
        return top

    def _keys_excluded(self, users: NDArray[np.int32]) -> NDArray[np.int64]:
        offsets, items = self._excluded
        counts = offsets[users + 1] - offsets[users]
        position = np.repeat(np.arange(len(users)), counts)
        return position * self._n_items + items[ranges(offsets[users], counts)]

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
