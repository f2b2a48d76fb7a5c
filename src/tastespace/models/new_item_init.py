"""Initial vectors of new items, from the users who took them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions

_ITERATIONS = 3  # which vector of each user, and their mean, in turns


def place_new_items(
    items: NDArray[np.float32],
    unplaced: NDArray[np.bool_],
    users: NDArray[np.float32],
    offsets: NDArray[np.int64],
    ready: NDArray[np.bool_],
    data: Interactions,
) -> None:
    """Put each new item at the mean of the nearest vectors of the users who took it.

    The users of an item share one interest in it: from the mean of all of their vectors, the nearest vector of each
    user is chosen and their mean taken, in turns. Items that no ready user took are left as they are.

    Args:
        items: Vectors of all items, shape ``(n_items, dim)``; those of the items placed are written.
        unplaced: Which items have no place yet, shape ``(n_items,)``; cleared for those that get one.
        users: Vectors of the users; user ``u`` has the rows ``offsets[u]:offsets[u + 1]``.
        offsets: Shape ``(n_users + 1,)``.
        ready: Which users have vectors that mean something, shape ``(n_users,)``.
        data: The interactions of all of them.

    >>> import scipy.sparse as sp
    >>> taken = Interactions.from_scipy(sp.csr_array(np.array([[1, 0], [1, 1]])))
    >>> users = np.array([[1, 0], [0, 1], [0.9, 0], [0, -1]], np.float32)  # two users with two vectors each
    >>> items = np.zeros((2, 2), np.float32)
    >>> place_new_items(items, np.array([True, False]), users, np.array([0, 2, 4]), np.array([True, True]), taken)
    >>> items.round(2).astype(float).round(2).tolist()
    [[0.95, 0.0], [0.0, 0.0]]
    """
    owners = data.row_of_each()
    wanted = np.flatnonzero(unplaced[data.indices] & ready[owners])
    if not len(wanted):
        return
    wanted = wanted[np.argsort(data.indices[wanted], kind="stable")]
    found, starts = np.unique(data.indices[wanted], return_index=True)
    for item, takers in zip(found, np.split(owners[wanted], starts[1:]), strict=True):
        first, counts = offsets[takers], offsets[takers + 1] - offsets[takers]
        of_taker = np.repeat(np.arange(len(takers)), counts)
        rows = users[np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
        center = rows.mean(axis=0)
        for _ in range(_ITERATIONS):
            distances = np.square(rows - center).sum(axis=1)
            nearest = np.lexsort((distances, of_taker))[np.cumsum(counts) - counts]
            center = rows[nearest].mean(axis=0)
        items[item] = center
        unplaced[item] = False


def place_at_items_of_users(items: NDArray[np.float32], known: NDArray[np.bool_], data: Interactions) -> None:
    """Put each new item at the mean of the known items of the users who took it: for models of inner products.

    Every user counts alike, with the mean of the user's known items. Items whose users have none are left as they are.

    Args:
        items: Vectors of all items, shape ``(n_items, dim)``; those of new items are written.
        known: Which items have a vector, shape ``(n_items,)``.
        data: The interactions of all of them.

    >>> import scipy.sparse as sp
    >>> taken = Interactions.from_scipy(sp.csr_array(np.array([[1, 1, 0], [1, 0, 1]])))
    >>> items = np.array([[0, 0], [1, 0], [0, 1]], np.float32)
    >>> place_at_items_of_users(items, np.array([False, True, True]), taken)
    >>> items[0].tolist()
    [0.5, 0.5]
    """
    taken = sp.csr_array(
        (np.ones(data.n_interactions, dtype=np.float32), data.indices, data.offsets), shape=(data.n_users, data.n_items)
    )
    new = np.flatnonzero(~known)
    takers = taken[:, new].T.tocsr()  # a row for each new item
    users = np.unique(takers.indices)
    own = taken[users] @ sp.diags_array(known.astype(np.float32))
    counts = np.asarray(own.sum(axis=1)).ravel()
    means = np.zeros((data.n_users, items.shape[1]), dtype=np.float32)
    means[users] = (own @ np.where(known[:, None], items, 0)) / np.maximum(counts, 1)[:, None]
    useful = np.zeros(data.n_users, dtype=np.float32)
    useful[users] = counts > 0
    n_takers = takers @ useful
    found = n_takers > 0
    items[new[found]] = (takers @ means)[found] / n_takers[found, None]
