"""Initial user vectors next to items that are learned already: for fold-in and for `partial_fit`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.interactions import Interactions
from tastespace.models.vector_space import VectorSpace
from tastespace.training.native_trainer import project

_PAST_AT_ONCE = 4_000  # items whose vectors stay in the cache


def spread_over_items(
    items: NDArray[np.float32],
    histories: Interactions,
    offsets: NDArray[np.int64],
    region: _native.Region,
    radius: float,
) -> NDArray[np.float32]:
    """Vectors of new users at items of their histories, far from each other: shape ``(offsets[-1], dim)``.

    The first at the item nearest to the mean of the history, each next one at the item farthest from those before.
    """
    users = np.empty((int(offsets[-1]), items.shape[1]), dtype=np.float32)
    n_past = np.diff(histories.offsets)
    first = 0
    while first < histories.n_users:  # as many users at once as fit into the cache, at least one
        last = int(np.searchsorted(histories.offsets, histories.offsets[first] + _PAST_AT_ONCE, side="right")) - 1
        last = max(first + 1, last)
        own = items[histories.indices[histories.offsets[first] : histories.offsets[last]]]
        _spread(own, n_past[first:last], offsets[first : last + 1], users)
        first = last
    return project(users, region, radius)


def _spread(
    own: NDArray[np.float32], n_past: NDArray[np.int64], offsets: NDArray[np.int64], users: NDArray[np.float32]
) -> None:
    """`spread_over_items` of some users, whose items are ``own``, one user after the other."""
    starts, owner = np.cumsum(n_past) - n_past, np.repeat(np.arange(len(n_past)), n_past)
    means = np.add.reduceat(own, starts, axis=0) / n_past.astype(np.float32)[:, None]
    to_mean = np.square(own - means[owner]).sum(axis=1)
    at = _first_where(to_mean == np.minimum.reduceat(to_mean, starts)[owner], owner)
    distances = np.full(len(own), np.inf, dtype=np.float32)
    n_vectors = np.diff(offsets)
    for number in range(int(n_vectors.max(initial=0))):
        some = n_vectors > number
        users[offsets[:-1][some] + number] = own[at[some]]
        distances = np.minimum(distances, np.square(own - own[at][owner]).sum(axis=1))
        at = _first_where(distances == np.maximum.reduceat(distances, starts)[owner], owner)


def _first_where(found: NDArray[np.bool_], owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of the first true value of each owner, all of whom have one."""
    where = np.flatnonzero(found)
    return where[np.unique(owner[where], return_index=True)[1]]


def extend_user_vectors(
    old: VectorSpace,
    old_rows: NDArray[np.int64],
    n_old: NDArray[np.int64],
    train: Interactions,
    items: NDArray[np.float32],
    users: NDArray[np.float32],
    offsets: NDArray[np.int64],
    region: _native.Region,
    radius: float,
) -> NDArray[np.int64]:
    """Copy old vectors into a larger table of ``users`` and initialize the additional ones of known users.

    An additional vector starts at the user's own item that is farthest from the vectors the user already has.

    Args:
        old: The vectors before.
        old_rows: Index of each user among the old ones, -1 for new users. Shape ``(n_users,)``.
        n_old: How many old vectors each user has, all of which are copied; 0 for new users. Shape ``(n_users,)``.
        train: Old and new interactions.
        items: Vectors of all items.
        users: Where to write; rows of new users are left as they are.
        offsets: User ``u`` owns the rows ``offsets[u]:offsets[u + 1]`` of ``users``.
        region: Where user vectors must lie.
        radius: Of that region.

    Returns:
        The rows of ``users`` that were copied.
    """
    known = np.flatnonzero(old_rows >= 0)
    counts = n_old[known]
    before = np.cumsum(counts) - counts
    copied = np.repeat(offsets[known] - before, counts) + np.arange(counts.sum())
    users[copied] = old.user_vectors[rows_of_users(old.user_offsets, old_rows[known])]
    for row in known[np.diff(offsets)[known] > counts]:
        first, last, count = offsets[row], offsets[row + 1], int(n_old[row])
        own = items[train.indices[train.offsets[row] : train.offsets[row + 1]]]
        for new in range(first + count, last):
            distances = ((own[:, None, :] - users[None, first:new, :]) ** 2).sum(axis=2).min(axis=1)
            users[new] = own[int(distances.argmax())]
        project(users[first + count : last], region, radius)
    return copied


def rows_of_users(offsets: NDArray[np.int64], users: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of these users' vectors one after the other; user ``u`` has ``offsets[u]:offsets[u + 1]``.

    >>> rows_of_users(np.array([0, 2, 3, 6]), np.array([2, 0])).tolist()
    [3, 4, 5, 0, 1]
    """
    counts = offsets[users + 1] - offsets[users]
    before = np.cumsum(counts) - counts
    return np.repeat(offsets[users] - before, counts) + np.arange(counts.sum())


def interaction_interests(
    space: VectorSpace, train: Interactions, known: NDArray[np.bool_], threads: int
) -> NDArray[np.int32]:
    """For each interaction of ``train`` the user's nearest vector, counted within the user; -1 for unknown users.

    Args:
        space: Vectors of the users and items of ``train``.
        train: The interactions.
        known: Which users are known, shape ``(n_users,)``.
        threads: Number of threads.
    """
    owners = train.row_of_each().astype(np.int32)
    _, interests = space.pair_scores(owners, train.indices, threads)
    return np.where(known[owners], interests, -1).astype(np.int32)
