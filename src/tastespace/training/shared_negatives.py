"""Batches for models with expensive networks: few distinct users, and negatives from a pool that the batch shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.training.samplers import popularity_weights


def in_runs(offsets: NDArray[np.int64], length: int, random: np.random.Generator) -> NDArray[np.int64]:
    """All positives at random, but up to ``length`` of a user's are adjacent; shape ``(n_interactions,)``.

    >>> in_runs(np.array([0, 4, 4, 6]), 2, np.random.default_rng(0)).reshape(3, 2).tolist()
    [[4, 5], [3, 2], [1, 0]]
    """
    counts = np.diff(offsets)
    n = int(offsets[-1])
    owner = np.repeat(np.arange(len(counts)), counts)
    shuffled = np.lexsort((random.random(n), owner))  # each user's positives in an order of their own
    run = (np.arange(n) - np.repeat(offsets[:-1], counts)) // length
    starts = np.concatenate([[0], np.cumsum(-(-counts // length))])[:-1]
    number = np.repeat(starts, counts) + run
    key = random.random(int(number[-1]) + 1 if n else 0)
    return shuffled[np.argsort(key[number], kind="stable")].astype(np.int64)


class SharedNegatives:
    """Negatives of a batch from a pool of items that is drawn anew for every batch.

    Every positive gets ``n`` different items of the pool, in a row from a random place on: each is drawn as if the
    whole catalog had been drawn from, but a batch holds few different ones. With ``power`` the pool is drawn by
    popularity to this power, without replacement.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=40, n_items=60, n_interactions=500).interactions
    >>> items, usable = SharedNegatives(town, pool=20, n=4, seed=1).draw(np.array([0, 5, 5]), epoch=0, first=0)
    >>> items.shape, usable.shape
    ((3, 4), (3, 4))
    """

    def __init__(self, data: Interactions, pool: int, n: int, seed: int, power: float | None = None) -> None:
        self._n_items, self._seed = data.n_items, seed
        self._keys = data.row_of_each().astype(np.int64) * data.n_items + data.indices
        self._chances = None if power is None else popularity_weights(data, power)
        most = data.n_items if self._chances is None else int((self._chances > 0).sum())
        self._pool = min(max(pool, n), most)
        self._n = min(n, self._pool)

    def draw(
        self, users: NDArray[np.integer[Any]], epoch: int, first: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Items of shape ``(len(users), n)`` and which of them the user does not have."""
        random = np.random.default_rng([self._seed, epoch, first, 1])
        if self._chances is None:
            pool = random.permutation(self._n_items)[: self._pool]
        else:
            # The smallest of exponential times with these rates: a draw by weight without replacement.
            with np.errstate(divide="ignore"):
                times = random.exponential(size=self._n_items) / self._chances
            pool = np.argsort(times, kind="stable")[: self._pool]
            random.shuffle(pool)
        place = random.integers(0, self._pool, (len(users), 1)) + np.arange(self._n)
        items = pool[place % self._pool]
        wanted = np.asarray(users, dtype=np.int64)[:, None] * self._n_items + items
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return items, self._keys[at] != wanted
