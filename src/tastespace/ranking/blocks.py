"""Ranks and top-k lists of any model, block by block: the one way from a model to an ordered list.

Order: larger score first; equal scores by ascending item index. An item scored -infinity stays a candidate, the
worst one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.computed_once import computed_once
from tastespace._util.csr import no_items, ranges
from tastespace.data.ids import IdMap
from tastespace.data.out_of_core.mapped_arrays import release
from tastespace.errors import DataError
from tastespace.models.base import Recommender
from tastespace.models.vector_space import ScoringVectors, VectorSpace

_USERS_PER_BLOCK = 4096
_USERS_PER_RELEASE = 1 << 14  # after whom the pages of mapped user vectors leave memory
_SCORES_PER_BLOCK = 8_000_000  # 32 MB of float32
_FEW_USERS = 16  # for whom all items are scored and some left out: to choose the vectors of candidates takes longer
_FEW_CANDIDATES = 1 / 16  # share of all items below which their vectors are chosen for the fewest users, too
_PRODUCTS_PER_BLOCK = 1_000_000_000  # multiplications in one call, some tenths of a second: Ctrl-C waits for its end
_FEWEST_USERS = 64


class ScoredLists(NamedTuple):
    """Scores of lists from vectors, taken from the differences themselves; the lists are in the order of these."""

    scores: NDArray[np.float32]
    """Shape ``(n, k)``; NaN where there are fewer candidates."""
    interests: NDArray[np.int32]
    """Which of the user's vectors gives each score, -1 where there is none."""
    n_found: int
    """Entries of the lists that are items."""


_BlockLists: TypeAlias = tuple[
    NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]
]
"""Rows of users, and what is excluded and tested for each as offsets and items."""


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
    source: VectorSpace | NDArray[np.float32]
    """Where the scores came from."""
    scored: ScoredLists | None = None
    """Where the ranker was made to give it: what each entry of `top` scores."""

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
        return self.source[position, items], None


class BlockRanker:
    """Runs a model over users in blocks; memory does not grow with the number of users.

    ``excluded`` and ``test`` are lists of item indices per user of the model, as offsets and items; a user's
    test items must not be among the excluded. ``candidates`` (ascending item indices) restricts what is ranked; there
    must be no test items then. With ``scored`` lists from vectors have scores and are in the order of these
    (`ScoredLists`); there must be no test items then either.
    """

    def __init__(
        self,
        model: Recommender,
        excluded_offsets: NDArray[np.int64],
        excluded_items: NDArray[np.int32],
        test_offsets: NDArray[np.int64],
        test_items: NDArray[np.int32],
        k: int,
        threads: int,
        candidates: NDArray[np.int32] | None = None,
        scored: bool = False,
    ) -> None:
        self._model = model
        self._scored = scored
        self._excluded = (excluded_offsets, excluded_items)
        self._test = (test_offsets, test_items)
        self._k = k
        self._threads = threads
        self._candidates = candidates
        self._space = model.vectors()
        self._vectors = None if self._space is None else self._checked(self._space)
        self._exact = None if self._space is None else self._space.exact_items
        self._packed: _native.PackedItems | None = None

    def _checked(self, space: VectorSpace) -> ScoringVectors:
        """Arguments of the kernels, which do not check sizes and numbers: a model's mistakes must be found here."""
        train, name = self._model.train_, type(self._model).__name__
        given, expected = (len(space.user_offsets) - 1, len(space.item_vectors)), (train.n_users, train.n_items)
        if given != expected or not space.has_valid_offsets:
            raise DataError(
                f"{name}.vectors gave {given[0]:,} users (who own {space.user_offsets[-1]:,} of "
                f"{len(space.user_vectors):,} vectors) and {given[1]:,} items, expected {expected[0]:,} users and "
                f"{expected[1]:,} items as in its training data."
            )
        if space.metric == "l2":  # squares that overflow would vanish in the maximum over a user's vectors
            users = computed_once(space.user_vectors, "too large", lambda: _not_finite(space.user_terms))
            if len(users):
                owner = train.users[int(np.searchsorted(space.user_offsets, users[0], side="right")) - 1]
                raise DataError(f"{name} gave a NaN score for user {owner!r}: its vectors are too large to be squared.")
            items = computed_once(space.item_vectors, "too large", lambda: _not_finite(space.item_terms))
            if len(items):
                item = train.items[int(items[0])]
                raise DataError(f"{name} gave NaN scores for item {item!r}. Did training diverge?")
        return space.for_scoring()

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
        return max(1, min(_USERS_PER_BLOCK, _SCORES_PER_BLOCK // self._model.train_.n_items))

    def _block(self, users: NDArray[np.int32], k: int) -> Block:
        source: VectorSpace | NDArray[np.float32]
        if self._vectors is not None and self._space is not None:
            source = self._space
            few = _FEW_CANDIDATES * self._model.train_.n_items
            if self._candidates is None or (len(users) <= _FEW_USERS and len(self._candidates) >= few):
                rows, vectors, allowed = None, self._vectors, self._allowed
                lists: _BlockLists = (users, *self._excluded, *self._test)
            else:
                rows, allowed = self._candidates, None
                vectors = self._among_candidates(self._space, self._vectors, users)
                lists = self._lists_of(users)
            if self._scored and self._exact is not None:
                top, scores, interests, n_found, nan_user = _native.list_with_vectors(
                    *vectors, *self._exact, rows, *lists[:3], k, self._threads, allowed
                )
                self._require_numbers(users, nan_user)
                return Block(users, top, *_no_tests(len(users)), source, ScoredLists(scores, interests, n_found))
            test_ranks, top, nan_user = _native.rank_with_vectors(*vectors, *lists, k, self._threads, allowed)
            top = top if rows is None else self._item_rows(top)
        else:
            source = self._scores(users)
            test_ranks, top, nan_user = _native.rank_with_scores(
                self._columns(source), *self._lists_of(users), k, self._threads
            )
            top = self._item_rows(top)
        self._require_numbers(users, nan_user)
        starts, items = self._test
        n_test = starts[users + 1] - starts[users]
        return Block(users, top, n_test, test_ranks, items[ranges(starts[users], n_test)], source)

    def one_user_lists(self, users: IdMap, items: IdMap, with_interests: bool) -> _native.OneUserLists | None:
        """What gives the list of one user as the columns of a frame; the ids must be those of the model.

        None where that takes more than one call of a kernel: for models without vectors, for few candidates, and for
        ids that are neither numbers nor text.
        """
        n_items = self._model.train_.n_items
        if self._vectors is None or self._exact is None or not (users.is_simple and items.is_simple):
            return None
        if self._candidates is not None and len(self._candidates) < _FEW_CANDIDATES * n_items:
            return None
        text_offsets, text = items.utf8() if items.numbers is None else (None, None)
        return _native.OneUserLists(
            *self._vectors,
            *self._exact,
            *self._excluded,
            self._k,
            self._allowed,
            user_ids=users.numbers,
            item_ids=items.numbers,
            text_offsets=text_offsets,
            text=text,
            with_interests=with_interests,
        )

    # ---- among candidates: the kernels see them as the only items, and the users of a block as the only users --------

    @cached_property
    def _allowed(self) -> NDArray[np.uint8] | None:
        """1 for each candidate, 0 for other items; None where all are candidates."""
        if self._candidates is None:
            return None
        allowed = np.zeros(self._model.train_.n_items, dtype=np.uint8)
        allowed[self._candidates] = 1
        return allowed

    @cached_property
    def _position(self) -> NDArray[np.int32]:
        """Position of each item among the candidates, -1 for others."""
        assert self._candidates is not None
        position = np.full(self._model.train_.n_items, -1, dtype=np.int32)
        position[self._candidates] = np.arange(len(self._candidates), dtype=np.int32)
        return position

    def _lists_of(self, users: NDArray[np.int32]) -> _BlockLists:
        """Rows of these users, and the items excluded and tested for them as offsets and items."""
        if self._candidates is None:
            return users, *self._excluded, *self._test
        offsets, items = self._excluded
        counts = offsets[users + 1] - offsets[users]
        found = self._position[items[ranges(offsets[users], counts)]]
        before = np.concatenate([[0], np.cumsum(found >= 0, dtype=np.int64)])
        own = before[np.concatenate([[0], np.cumsum(counts)])]
        return np.arange(len(users), dtype=np.int32), own, found[found >= 0], *no_items(len(users))

    def _among_candidates(
        self, space: VectorSpace, vectors: ScoringVectors, users: NDArray[np.int32]
    ) -> ScoringVectors:
        """The vectors of these users and of the candidates."""
        if self._candidates is None:
            return vectors
        if self._packed is None:
            self._packed = space.packed(self._candidates)
        counts = vectors.offsets[users + 1] - vectors.offsets[users]
        at = ranges(vectors.offsets[users], counts)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return ScoringVectors(vectors.users[at], vectors.user_terms[at], offsets, self._packed, vectors.scale)

    def _columns(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The scores of the candidates."""
        return scores if self._candidates is None else np.ascontiguousarray(scores[:, self._candidates])

    def _item_rows(self, top: NDArray[np.int32]) -> NDArray[np.int32]:
        """Positions among the candidates as rows of items."""
        return top if self._candidates is None else np.where(top >= 0, self._candidates[top], np.int32(-1))

    def _require_numbers(self, users: NDArray[np.int32], nan_user: int) -> None:
        """Raise if a kernel found a NaN score; ``nan_user`` is the user's position."""
        if nan_user >= 0:
            user = self._model.train_.users[int(users[nan_user])]
            raise DataError(
                f"{type(self._model).__name__} gave a NaN score for user {user!r}. Scores must be numbers; did its "
                "training diverge?"
            )

    def _scores(self, users: NDArray[np.int32]) -> NDArray[np.float32]:
        scores = np.ascontiguousarray(self._model.score_block(users), dtype=np.float32)
        expected = (len(users), self._model.train_.n_items)
        if scores.shape != expected:
            raise DataError(
                f"{type(self._model).__name__}.score_block gave shape {scores.shape}, expected {expected}: a row per "
                "user and a column per item."
            )
        return scores


@lru_cache(maxsize=8)
def _no_tests(n_users: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """`Block.n_test`, `Block.test_ranks` and `Block.test_items` of users without test items."""
    nothing = np.empty(0, dtype=np.int32)
    return np.zeros(n_users, dtype=np.int64), nothing.reshape(0, 3), nothing


def _not_finite(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Where values are NaN or infinite."""
    return np.flatnonzero(~np.isfinite(values))
