"""Ranks and top-k lists of any model, block by block: the one way from a model to an ordered list.

Order: larger score first; equal scores by ascending item index. An item scored -infinity stays a candidate, the
worst one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.errors import DataError
from tastespace.models.base import Recommender
from tastespace.models.vector_space import ScoringVectors, VectorSpace

_USERS_PER_BLOCK = 4096
_SCORES_PER_BLOCK = 8_000_000  # 32 MB of float32


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
    must be no test items then.
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
    ) -> None:
        self._model = model
        self._excluded = (excluded_offsets, excluded_items)
        self._test = (test_offsets, test_items)
        self._k = k
        self._threads = threads
        self._candidates = candidates
        self._space = model.vectors()
        self._vectors = None if self._space is None else self._checked(self._space)
        if candidates is not None:
            self._excluded = _among(self._excluded, candidates, model.train_.n_items)
            if self._vectors is not None:
                self._vectors = self._among_candidates(self._vectors)

    def _among_candidates(self, vectors: ScoringVectors) -> ScoringVectors:
        at = self._candidates
        return vectors if at is None else vectors._replace(items=vectors.items[at], item_terms=vectors.item_terms[at])

    def _checked(self, space: VectorSpace) -> ScoringVectors:
        """Arguments of the kernels, which do not check sizes and numbers: a model's mistakes must be found here."""
        train, name = self._model.train_, type(self._model).__name__
        given, expected = (len(space.user_offsets) - 1, len(space.item_vectors)), (train.n_users, train.n_items)
        misfit = space.user_offsets[-1] != len(space.user_vectors) or (np.diff(space.user_offsets) < 0).any()
        if given != expected or misfit:
            raise DataError(
                f"{name}.vectors gave {given[0]:,} users (who own {space.user_offsets[-1]:,} of "
                f"{len(space.user_vectors):,} vectors) and {given[1]:,} items, expected {expected[0]:,} users and "
                f"{expected[1]:,} items as in its training data."
            )
        vectors = space.for_scoring()
        # Squares that overflow, or a NaN bias: both would vanish in the maximum over a user's vectors.
        users, items = np.flatnonzero(~np.isfinite(vectors.user_terms)), np.flatnonzero(np.isnan(vectors.item_terms))
        if space.metric == "l2":
            items = np.flatnonzero(~np.isfinite(vectors.item_terms))
        if len(users):
            owner = train.users[int(np.searchsorted(space.user_offsets, users[0], side="right")) - 1]
            raise DataError(f"{name} gave a NaN score for user {owner!r}: its vectors are too large to be squared.")
        if len(items):
            raise DataError(f"{name} gave NaN scores for item {train.items[int(items[0])]!r}. Did training diverge?")
        return vectors

    def blocks(self, users: NDArray[np.int32], k: int | None = None) -> Iterator[Block]:
        """The blocks of these users, in order; lists of another length where k is given."""
        size = self._block_size
        for first in range(0, len(users), size):
            yield self._block(np.ascontiguousarray(users[first : first + size]), self._k if k is None else k)

    @property
    def _block_size(self) -> int:
        if self._space is not None:
            return _USERS_PER_BLOCK
        return max(1, min(_USERS_PER_BLOCK, _SCORES_PER_BLOCK // self._model.train_.n_items))

    def _block(self, users: NDArray[np.int32], k: int) -> Block:
        source: VectorSpace | NDArray[np.float32]
        if self._vectors is not None and self._space is not None:
            source = self._space
            test_ranks, top, nan_user = _native.rank_with_vectors(
                *self._vectors, users, *self._excluded, *self._test, k, self._threads
            )
        else:
            source = self._scores(users)
            ranked = source if self._candidates is None else np.ascontiguousarray(source[:, self._candidates])
            test_ranks, top, nan_user = _native.rank_with_scores(
                ranked, users, *self._excluded, *self._test, k, self._threads
            )
        if self._candidates is not None:
            top = np.where(top >= 0, self._candidates[top], np.int32(-1))
        self._require_numbers(users, nan_user)
        starts_of_user, items = self._test
        n_test = starts_of_user[users + 1] - starts_of_user[users]
        starts = np.cumsum(n_test) - n_test
        at = np.repeat(starts_of_user[users] - starts, n_test) + np.arange(int(n_test.sum()))
        return Block(users, top, n_test, test_ranks, items[at], source)

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


def _among(
    lists: tuple[NDArray[np.int64], NDArray[np.int32]], candidates: NDArray[np.int32], n_items: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Lists of items as positions among the candidates; other items are left out."""
    position = np.full(n_items, -1, dtype=np.int32)
    position[candidates] = np.arange(len(candidates), dtype=np.int32)
    offsets, items = lists
    found = position[items]
    kept_before = np.concatenate([[0], np.cumsum(found >= 0, dtype=np.int64)])
    return kept_before[offsets], found[found >= 0]


def no_items(n_users: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """An empty list for every user, as offsets and items."""
    return np.zeros(n_users + 1, dtype=np.int64), np.empty(0, dtype=np.int32)
