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


def merge_lists(
    lists: list[tuple[NDArray[np.int64], NDArray[np.int32]]], n_users: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The union per user; empty for all users if there are no lists."""
    if not lists:
        return no_items(n_users)
    if len(lists) == 1:
        return lists[0]
    owner = np.concatenate([np.repeat(np.arange(n_users), np.diff(offsets)) for offsets, _ in lists])
    items = np.concatenate([items for _, items in lists])
    width = int(items.max(initial=0)) + 1
    key = np.unique(owner * width + items)
    offsets = np.searchsorted(key, np.arange(n_users + 1) * width)
    return offsets.astype(np.int64), (key % width).astype(np.int32)
