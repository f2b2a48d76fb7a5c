"""Lists in which all interests of a user have a part, block by block, for any model with interests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.csr import no_items
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.models.vector_space import VectorSpace
from tastespace.ranking.blocks import Block, BlockRanker

Weights = Callable[[NDArray[np.int32]], NDArray[np.float64]]
"""Weights of the interests of some users: one for each of their vectors in turn, 0 or more, of any scale."""

_DEPTH = 100  # fixed rather than k, so that a shorter list is the head of a longer one


class InterestRanker(BlockRanker):
    """Shares the places of a list among a user's interests by the method of Sainte-Lague.

    An item belongs to the interest that it is nearest to. A place goes to the interest with the largest quotient
    w / (2 n + 1), w its weight and n the places it has, which puts its next best item there; ``diversity`` below 1
    weighs the quotient against the relevance of that item: see native/lists/share_places.hpp. Other arguments as in
    `BlockRanker`.
    """

    def __init__(
        self,
        model: Recommender,
        excluded_offsets: NDArray[np.int64],
        excluded_items: NDArray[np.int32],
        k: int,
        threads: int,
        candidates: NDArray[np.int32] | None = None,
        diversity: float = 1.0,
    ) -> None:
        nothing = no_items(model.train_.n_users)
        super().__init__(model, excluded_offsets, excluded_items, *nothing, k, threads, candidates)
        space = model.interest_space() if self._space is None else self._space
        if space is None:
            raise ParameterError(f"{type(model).__name__} has no vectors, so users have no interests.")
        self._diversity = diversity
        self._interest_space = space
        self._interest_vectors = self._vectors or self._checked(space)

    def mixed_blocks(
        self, users: NDArray[np.int32], weights: Weights, k: int | None = None
    ) -> Iterator[tuple[Block, NDArray[np.int32]]]:
        """The lists of these users and the interest that has each place, shape ``(n, k)``, -1 where there is no item.

        Items are found with distances by the expanded square, so one that is equally far from two interests but for
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
        rest = (self._diversity, _DEPTH, k, self._threads)
        vectors = self._among_candidates(self._interest_space, self._interest_vectors, users)
        rows, offsets, items, _, _ = self._lists_of(users)
        if self._space is not None:
            source = self._space
            top, interests, nan_user = _native.mix_with_vectors(*vectors, rows, weights, offsets, items, *rest)
        else:
            source = self._scores(users)
            top, interests, nan_user = _native.mix_with_scores(
                *vectors, self._columns(source), rows, weights, offsets, items, *rest
            )
        self._require_numbers(users, nan_user)
        top = self._item_rows(top)
        none = np.empty(0, dtype=np.int32)
        return Block(users, top, np.zeros(len(users), dtype=np.int64), none.reshape(0, 3), none, source), interests
