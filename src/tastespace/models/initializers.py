"""Where vectors start."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.training.metric import place


def start_users(rng: np.random.Generator, n: int, dim: int, region: int, radius: float) -> NDArray[np.float32]:
    """The paper's N(0, 0.01^2), brought to where users live: on the sphere that is a uniform direction."""
    return place((0.01 * rng.standard_normal((n, dim))).astype(np.float32), region, radius)


def start_items(rng: np.random.Generator, n: int, dim: int, region: int, radius: float) -> NDArray[np.float32]:
    """The paper's N(0, 1/d), brought to where items live."""
    return place((rng.standard_normal((n, dim)) * radius / np.sqrt(dim)).astype(np.float32), region, radius)


def spread_over_items(
    items: NDArray[np.float32], histories: Interactions, offsets: NDArray[np.int64], region: int, radius: float
) -> NDArray[np.float32]:
    """Vectors of newcomers, each at an item of the own history, far from each other.

    The first at the item nearest to the middle of the history, each next one at the item farthest from those before.
    """
    users = np.empty((int(offsets[-1]), items.shape[1]), dtype=np.float32)
    for row in range(histories.n_users):
        mine = items[histories.indices[histories.offsets[row] : histories.offsets[row + 1]]]
        at = np.square(mine - mine.mean(axis=0)).sum(axis=1).argmin()
        gaps = np.full(len(mine), np.inf, dtype=np.float32)
        for new in range(offsets[row], offsets[row + 1]):
            users[new] = mine[at]
            gaps = np.minimum(gaps, np.square(mine - mine[at]).sum(axis=1))
            at = gaps.argmax()
    return place(users, region, radius)


def grow(
    model: Any,
    whole: Interactions,
    users: NDArray[np.float32],
    offsets: NDArray[np.int64],
    old_rows: NDArray[np.int64],
    had: NDArray[np.int64],
    items: NDArray[np.float32],
    where: tuple[int, float],
) -> NDArray[np.int64]:
    """Copy a fitted model's user vectors into a larger table and start the additional ones of known users.

    An additional vector starts at the user's own item that lies farthest from the vectors already there: what they
    serve worst. Returns the rows of ``users`` that were copied.
    """
    copied = []
    for row in np.flatnonzero(old_rows >= 0):
        first, last, count = offsets[row], offsets[row + 1], int(had[row])
        start = model.user_offsets_[old_rows[row]]
        users[first : first + count] = model.user_vectors_[start : start + count]
        copied.append(np.arange(first, first + count))
        mine = items[whole.indices[whole.offsets[row] : whole.offsets[row + 1]]]
        for new in range(first + count, last):
            gaps = ((mine[:, None, :] - users[None, first:new, :]) ** 2).sum(axis=2).min(axis=1)
            users[new] = mine[int(gaps.argmax())]
        place(users[first + count : last], *where)
    return np.concatenate(copied) if copied else np.empty(0, dtype=np.int64)
