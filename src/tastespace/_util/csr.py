"""Lists of different lengths in one array: offsets, and the entries list by list."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``starts[0], starts[0] + 1, ...`` of each length in turn, as one array.

    >>> ranges(np.array([10, 0]), np.array([2, 3])).tolist()
    [10, 11, 0, 1, 2]
    """
    return np.arange(int(counts.sum())) + np.repeat(starts - (np.cumsum(counts) - counts), counts)


@lru_cache(maxsize=8)
def no_items(n_users: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """An empty list for every user, as offsets and items that nobody may change."""
    offsets, items = np.zeros(n_users + 1, dtype=np.int64), np.empty(0, dtype=np.int32)
    offsets.flags.writeable = items.flags.writeable = False
    return offsets, items
