"""The best items of each of a user's interests, block by block, for any model with interests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.models.ranking import BlockRanker, no_items
from tastespace.models.vector_space import VectorSpace

_ENTRIES_PER_BLOCK = 2_000_000  # items found for one block of users


@dataclass(frozen=True, eq=False)
class InterestBlock:
    """The best items of some users, found for each interest.

    An item belongs to the interest that it is nearest to. The lists are found with distances by the expanded square, so
    an item that is equally far from two interests but for rounding may be in the list of either; `scores` and
    `interests` are computed again from the differences.
    """

    users: NDArray[np.int32]
    """Indices of the users, shape ``(n,)``."""
    offsets: NDArray[np.int64]
    """User i of the block has the entries ``offsets[i]:offsets[i + 1]``. Shape ``(n + 1,)``."""
    items: NDArray[np.int32]
    """Items found, shape ``(offsets[-1],)``."""
    scores: NDArray[np.float32]
    """The model's scores of them, larger is better."""
    interests: NDArray[np.int32]
    """The interest that each is nearest to."""
    closeness: NDArray[np.float32]
    """Score of each by that interest's vector: minus the squared distance, or the inner product."""
    range: NDArray[np.float32]
    """Best and ``depth``-th best score of each user, shape ``(n, 2)``."""
    source: VectorSpace | NDArray[np.float32]
    """Where the scores came from."""


class InterestRanker(BlockRanker):
    """The k best items of each interest of a user. Arguments as in `BlockRanker`.

    ``depth`` is the place in a user's list whose score is the second of `InterestBlock.range`; 0 leaves it out.
    """

    def __init__(
        self,
        model: Recommender,
        excluded_offsets: NDArray[np.int64],
        excluded_items: NDArray[np.int32],
        k: int,
        threads: int,
        candidates: NDArray[np.int32] | None = None,
        depth: int = 0,
    ) -> None:
        nothing = no_items(model.train_.n_users)
        super().__init__(model, excluded_offsets, excluded_items, *nothing, k, threads, candidates)
        space = model.interest_space() if self._space is None else self._space
        if space is None:
            raise ParameterError(f"{type(model).__name__} has no vectors, so users have no interests.")
        self._interest_space, self._depth = space, depth
        self._interest_vectors = self._vectors
        if self._interest_vectors is None:
            self._interest_vectors = self._among_candidates(self._checked(space))

    def interest_blocks(self, users: NDArray[np.int32]) -> Iterator[InterestBlock]:
        """The blocks of these users, in order."""
        most = int(np.diff(self._interest_space.user_offsets).max(initial=1))
        size = max(1, min(self._block_size, _ENTRIES_PER_BLOCK // (most * self._k)))
        for first in range(0, len(users), size):
            yield self._interest_block(np.ascontiguousarray(users[first : first + size]))

    def _interest_block(self, users: NDArray[np.int32]) -> InterestBlock:
        assert self._interest_vectors is not None
        space, source = self._interest_space, self._space if self._space is not None else self._scores(users)
        rest = (users, *self._excluded, self._k, self._depth, self._threads)
        if isinstance(source, VectorSpace):
            top, best, nan_user = _native.interest_lists_with_vectors(*self._interest_vectors, *rest)
        else:
            ranked = source if self._candidates is None else np.ascontiguousarray(source[:, self._candidates])
            top, best, nan_user = _native.interest_lists_with_scores(*self._interest_vectors, ranked, *rest)
        self._require_numbers(users, nan_user)
        n_vectors = space.user_offsets[users + 1] - space.user_offsets[users]
        found = top.ravel() >= 0
        n_found = np.add.reduceat(found, (np.cumsum(n_vectors) - n_vectors) * self._k, dtype=np.int64)
        position = np.repeat(np.arange(len(users)), n_found)
        items = top.ravel()[found]
        items = items if self._candidates is None else self._candidates[items]
        closeness, interests = space.pair_scores(users[position], items, self._threads)
        scores = closeness if isinstance(source, VectorSpace) else source[position, items]
        offsets = np.concatenate([[0], np.cumsum(n_found)])
        return InterestBlock(users, offsets, items, scores, interests, closeness, best, source)
