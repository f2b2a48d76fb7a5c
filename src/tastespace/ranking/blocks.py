"""Ranks and top-k lists from a score source, in blocks of users; lists in which all interests of a user have a part.

Order: larger score first; equal scores by ascending item index. An item scored -infinity stays a candidate, the
worst one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.csr import no_items, ranges
from tastespace.data.ids import IdMap
from tastespace.data.out_of_core.mapped_arrays import release
from tastespace.errors import ParameterError
from tastespace.models.vector_space import VectorSpace
from tastespace.ranking.source import ScoreSource

_USERS_PER_BLOCK = 4096
_USERS_PER_RELEASE = 1 << 14  # after whom the pages of mapped user vectors leave memory
_SCORES_PER_BLOCK = 8_000_000  # 32 MB of float32
_FEW_USERS = 16  # for whom all items are scored and some left out: to choose the vectors of candidates takes longer
_FEW_CANDIDATES = 1 / 16  # share of all items below which their vectors are chosen for the fewest users, too
_PRODUCTS_PER_BLOCK = 1_000_000_000  # multiplications in one call, some tenths of a second: Ctrl-C waits for its end
_FEWEST_USERS = 64
_DEPTH = 100  # of the list by score that mixes look at: fixed, so that a shorter list is the head of a longer one


class ScoredLists(NamedTuple):
    """Scores of lists from vectors, taken from the differences themselves; the lists are in the order of these."""

    scores: NDArray[np.float32]
    """Shape ``(n, k)``; NaN where there are fewer candidates."""
    interests: NDArray[np.int32]
    """Number of the user's vector that gives each score, -1 where there is none."""
    n_found: int
    """Entries of the lists that are items."""


ItemLists: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32]]
"""A list of item rows per user, as offsets and rows."""
Weights = Callable[[NDArray[np.int32]], NDArray[np.float64]]
"""Weights of the interests of some users: one for each of their vectors in turn, 0 or more, of any scale."""


@dataclass(frozen=True, eq=False)
class Block:
    """The lists of some users."""

    users: NDArray[np.int32]
    """Indices of the users, shape ``(n,)``."""
    top: NDArray[np.int32]
    """Best items in order, -1 where there are fewer candidates. Shape ``(n, k)``."""
    n_test: NDArray[np.int64]
    """Test items of each user, shape ``(n,)``."""
    test_ranks: NDArray[np.int32]
    """Rank, negatives above, negatives tied of every test item, user by user. Shape ``(n_test.sum(), 3)``."""
    test_items: NDArray[np.int32]
    """The test items that belong to `test_ranks`."""
    source: VectorSpace | NDArray[np.float32] | ScoreSource
    """Source of the scores: vectors, or the scores of the block; where a kernel made the lists without scores of all
    items, what they are asked of."""
    scored: ScoredLists | None = None
    """Scores of the entries of `top`, where the ranker was made to give them."""
    interests: NDArray[np.int32] | None = None
    """The interest that each item matches, where `source` are scores and their function tells: ``(n, n_items)``."""

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """Position in `users` of every test item."""
        return np.repeat(np.arange(len(self.users)), self.n_test)

    @cached_property
    def sorted_ranks(self) -> NDArray[np.int64]:
        """Ranks of the test items, user by user and ascending within a user."""
        # One key per test item sorts several times faster than two columns.
        key = np.sort(self.owner << 32 | self.test_ranks[:, 0])
        return key & 0xFFFFFFFF

    def scores_of(
        self, position: NDArray[Any], items: NDArray[Any], threads: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.int32] | None]:
        """Scores of single items for the users at these positions and, from vectors, the interest of each score."""
        if isinstance(self.source, VectorSpace):
            return self.source.pair_scores(self.users[position], items, threads)
        if isinstance(self.source, ScoreSource):
            asked, at = np.unique(position, return_inverse=True)
            scores, interests = self.source.matched(self.users[asked])
            return scores[at, items], None if interests is None else interests[at, items]
        return self.source[position, items], None if self.interests is None else self.interests[position, items]


class BlockRanker:
    """Ranks the items of a source for users in blocks; memory does not grow with the number of users.

    Args:
        source: Scores of all items for each user.
        k: Length of the lists.
        excluded: Items that a user's list must not hold.
        test: Items whose ranks are wanted, none of which is excluded.
        threads: Number of threads, 1 or more.
        candidates: Ascending rows of the items that are ranked; None: all. There must be no test items then.
        scored: True if lists from vectors have scores and are in the order of these (`ScoredLists`). There must be no
            test items then either.

    >>> source = ScoreSource(lambda users: np.outer(users, [1.0, 2.0, 3.0]), n_users=3, n_items=3, name="table")
    >>> seen = np.array([0, 0, 1, 1]), np.array([2], dtype=np.int32)  # of user 1
    >>> [block] = BlockRanker(source, 2, seen, threads=1).blocks(np.array([1, 2], dtype=np.int32))
    >>> block.top.tolist()
    [[1, 0], [2, 1]]
    """

    def __init__(
        self,
        source: ScoreSource,
        k: int,
        excluded: ItemLists,
        test: ItemLists | None = None,
        *,
        threads: int,
        candidates: NDArray[np.int32] | None = None,
        scored: bool = False,
    ) -> None:
        self._source = source
        self._scored = scored
        self._excluded, self._test = excluded, no_items(source.n_users) if test is None else test
        self._native_excluded, self._native_test = _native.ItemLists(*excluded), _native.ItemLists(*self._test)
        self._k = k
        self._threads = threads
        self._candidates = candidates
        self._space = source.space
        self._vectors = None if self._space is None else source.checked(self._space)
        self._exact = None if self._space is None else self._space.exact_items
        self._packed: _native.PackedItems | None = None

    def blocks(self, users: NDArray[np.int32], k: int | None = None) -> Iterator[Block]:
        """The blocks of these users, in order; lists of another length where k is given."""
        size, length = self._block_size, self._k if k is None else k
        for first in range(0, len(users), size):
            yield self._block(np.ascontiguousarray(users[first : first + size]), length)
            if self._space is not None and (first + size) // _USERS_PER_RELEASE > first // _USERS_PER_RELEASE:
                release(self._space.user_vectors)  # mapped ones may be larger than memory

    @cached_property
    def _block_size(self) -> int:
        if self._space is not None:
            space = self._space
            per_user = len(space.user_vectors) / max(1, len(space.user_offsets) - 1) * space.item_vectors.size
            return int(min(_USERS_PER_BLOCK, max(_FEWEST_USERS, _PRODUCTS_PER_BLOCK / max(1.0, per_user))))
        return max(1, min(_USERS_PER_BLOCK, _SCORES_PER_BLOCK // self._source.n_items))

    def _block(self, users: NDArray[np.int32], k: int) -> Block:
        source: VectorSpace | NDArray[np.float32]
        matched: NDArray[np.int32] | None = None
        if self._vectors is not None and self._space is not None:
            source = self._space
            few = _FEW_CANDIDATES * self._source.n_items
            if self._candidates is None or (len(users) <= _FEW_USERS and len(self._candidates) >= few):
                item_rows, vectors, allowed = None, self._vectors, self._allowed
                rows, excluded, test = users, self._native_excluded, self._native_test
            else:
                item_rows, allowed = self._candidates, None
                vectors = self._among_candidates(self._space, self._vectors, users)
                rows, excluded, test = self._lists_of(users)
            if self._scored and self._exact is not None:
                top, scores, interests, n_found, nan_user = _native.list_with_vectors(
                    vectors, self._exact, rows, excluded, k=k, threads=self._threads, allowed=allowed,
                    item_rows=item_rows,
                )  # fmt: skip
                self._source.require_numbers(users, nan_user)
                return Block(users, top, *_no_tests(len(users)), source, ScoredLists(scores, interests, n_found))
            test_ranks, top, nan_user = _native.rank_with_vectors(
                vectors, rows, excluded, test, k=k, threads=self._threads, allowed=allowed
            )
            top = top if item_rows is None else self._item_rows(top)
        elif self._scored and self._source.program is not None:
            top, scores, interests, n_found, nan_user = self._source.program.lists(
                users, self._native_excluded, k, self._threads, self._allowed
            )
            self._source.require_numbers(users, nan_user)
            return Block(users, top, *_no_tests(len(users)), self._source, ScoredLists(scores, interests, n_found))
        else:
            source, matched = self._source.matched(users)
            rows, excluded, test = self._lists_of(users)
            test_ranks, top, nan_user = _native.rank_with_scores(
                self._columns(source), rows, excluded, test, k=k, threads=self._threads
            )
            top = self._item_rows(top)
        self._source.require_numbers(users, nan_user)
        starts, items = self._test
        n_test = starts[users + 1] - starts[users]
        test_items = items[ranges(starts[users], n_test)]
        return Block(users, top, n_test, test_ranks, test_items, source, interests=matched)

    def one_user_lists(
        self, users: IdMap, items: IdMap, with_interests: bool
    ) -> _native.OneUserLists | _native.OneUserBlendLists | None:
        """The object that returns the list of one user as the columns of a frame; ids are those of the source.

        None where that takes more than one call of a kernel: for models without vectors, for few candidates, and for
        ids that are neither numbers nor text.
        """
        program = None if self._source.program is None else self._source.program.native
        if not (users.is_simple and items.is_simple) or (
            program is None and (self._vectors is None or self._exact is None)
        ):
            return None
        n_candidates = self._source.n_items if self._candidates is None else len(self._candidates)
        if program is None and n_candidates < _FEW_CANDIDATES * self._source.n_items:
            return None
        if items.numbers is None:
            offsets, text = items.utf8()
            item_ids = _native.IdColumn(offsets=offsets, text=text)
        else:
            item_ids = _native.IdColumn(numbers=items.numbers)
        user_ids = None if users.numbers is None else _native.IdColumn(numbers=users.numbers)
        if program is not None:
            return _native.OneUserBlendLists(
                program, self._native_excluded, k=self._k, allowed=self._allowed, user_ids=user_ids, item_ids=item_ids
            )
        assert self._vectors is not None
        assert self._exact is not None
        return _native.OneUserLists(
            self._vectors,
            self._exact,
            self._native_excluded,
            k=self._k,
            allowed=self._allowed,
            user_ids=user_ids,
            item_ids=item_ids,
            with_interests=with_interests,
        )

    # ---- among candidates: the kernels see them as the only items, and the users of a block as the only users --------

    @cached_property
    def _allowed(self) -> NDArray[np.uint8] | None:
        """1 for each candidate, 0 for other items; None where all are candidates."""
        if self._candidates is None:
            return None
        allowed = np.zeros(self._source.n_items, dtype=np.uint8)
        allowed[self._candidates] = 1
        return allowed

    @cached_property
    def _position(self) -> NDArray[np.int32]:
        """Position of each item among the candidates, -1 for others."""
        assert self._candidates is not None
        position = np.full(self._source.n_items, -1, dtype=np.int32)
        position[self._candidates] = np.arange(len(self._candidates), dtype=np.int32)
        return position

    def _lists_of(self, users: NDArray[np.int32]) -> tuple[NDArray[np.int32], _native.ItemLists, _native.ItemLists]:
        """Rows of these users, and the items excluded and tested for them, as the kernels see them."""
        if self._candidates is None:
            return users, self._native_excluded, self._native_test
        offsets, items = self._excluded
        counts = offsets[users + 1] - offsets[users]
        found = self._position[items[ranges(offsets[users], counts)]]
        before = np.concatenate([[0], np.cumsum(found >= 0, dtype=np.int64)])
        own = before[np.concatenate([[0], np.cumsum(counts)])]
        rows = np.arange(len(users), dtype=np.int32)
        return rows, _native.ItemLists(own, found[found >= 0]), _native.ItemLists(*no_items(len(users)))

    def _among_candidates(
        self, space: VectorSpace, vectors: _native.ScoringVectors, users: NDArray[np.int32]
    ) -> _native.ScoringVectors:
        """The vectors of these users and of the candidates."""
        if self._candidates is None:
            return vectors
        if self._packed is None:
            self._packed = space.packed(self._candidates)
        counts = space.user_offsets[users + 1] - space.user_offsets[users]
        at = ranges(space.user_offsets[users], counts)
        own = np.ascontiguousarray(space.user_vectors[at], dtype=np.float32)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        terms = space.user_terms[at]
        return _native.ScoringVectors(_native.UserVectors(own, offsets), terms, self._packed, space.scale)

    def _columns(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The scores of the candidates."""
        return scores if self._candidates is None else np.ascontiguousarray(scores[:, self._candidates])

    def _item_rows(self, top: NDArray[np.int32]) -> NDArray[np.int32]:
        """Positions among the candidates as rows of items."""
        return top if self._candidates is None else np.where(top >= 0, self._candidates[top], np.int32(-1))


@lru_cache(maxsize=8)
def _no_tests(n_users: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """`Block.n_test`, `Block.test_ranks` and `Block.test_items` of users without test items."""
    nothing = np.empty(0, dtype=np.int32)
    return np.zeros(n_users, dtype=np.int64), nothing.reshape(0, 3), nothing


class InterestRanker(BlockRanker):
    """Shares the places of a list among a user's interests by the method of Sainte-Lague.

    An item belongs to the interest that it is nearest to. A place goes to the interest with the largest quotient
    w / (2 n + 1), w its weight and n the places it has, which puts its next best item there; ``diversity`` below 1
    weighs the quotient against the relevance of that item: see native/lists/share_places.hpp. ``interests`` are the
    vectors of the interests, which tell where an item belongs if the source is a function that does not. Other
    arguments as in `BlockRanker`.
    """

    def __init__(
        self,
        source: ScoreSource,
        interests: VectorSpace | None,
        k: int,
        excluded: ItemLists,
        *,
        threads: int,
        candidates: NDArray[np.int32] | None = None,
        diversity: float = 1.0,
    ) -> None:
        super().__init__(source, k, excluded, threads=threads, candidates=candidates)
        if self._space is None and interests is None:
            raise ParameterError(f"{source.name} has no vectors, so users have no interests.")
        if self._space is None and interests is not None:
            source.checked(interests)
        self._diversity = diversity
        self._interests = interests

    def mixed_blocks(
        self, users: NDArray[np.int32], weights: Weights, k: int | None = None
    ) -> Iterator[tuple[Block, NDArray[np.int32]]]:
        """The lists of these users and the interest that has each place, shape ``(n, k)``, -1 where there is no item.

        Items are found with distances by the expanded square, so one that is equally far from two interests except for
        rounding may count for either.
        """
        size = self._block_size
        for first in range(0, len(users), size):
            part = np.ascontiguousarray(users[first : first + size])
            yield self._mixed_block(part, weights(part), self._k if k is None else k)

    def _mixed_block(
        self, users: NDArray[np.int32], weights: NDArray[np.float64], k: int
    ) -> tuple[Block, NDArray[np.int32]]:
        source: VectorSpace | NDArray[np.float32]
        matched: NDArray[np.int32] | None = None
        settings = _native.MixSettings(diversity=self._diversity, depth=_DEPTH, k=k)
        rows, excluded, _ = self._lists_of(users)
        if self._space is not None and self._vectors is not None:
            source = self._space
            vectors = self._among_candidates(self._space, self._vectors, users)
            top, interests, nan_user = _native.mix_with_vectors(
                vectors, rows, weights, excluded, settings, self._threads
            )
        else:
            assert self._interests is not None
            source, matched = self._source.matched(users)
            numbers = self._interests.nearest_interests(users, self._threads) if matched is None else matched
            first = np.concatenate([[0], np.cumsum(np.diff(self._interests.user_offsets)[users])])
            among = numbers if self._candidates is None else np.ascontiguousarray(numbers[:, self._candidates])
            top, interests, nan_user = _native.mix_with_scores(
                self._columns(source), among, rows, weights, first, excluded, settings, self._threads
            )
        self._source.require_numbers(users, nan_user)
        top = self._item_rows(top)
        return Block(users, top, *_no_tests(len(users)), source, interests=matched), interests
