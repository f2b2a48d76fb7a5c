"""Users of a model who have taken more since: their interests stay, and only those with new items move."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.models.user_vector_init import rows_of_users
from tastespace.models.vector_space import VectorSpace


def moved_to_new_items(
    space: VectorSpace,
    train: Interactions,
    histories: Interactions,
    rows: NDArray[np.int64],
    project: Callable[[NDArray[np.float32]], NDArray[np.float32]],
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Vectors of users with more past items than in training, and their offsets.

    New items come one after the other, by their timestamps where there are any. Each belongs to the interest that is
    nearest to it by then, which moves there by one part in the number of its items; an interest without new items
    stays as it is, bit for bit. So interests keep their numbers, and what one of them stands for does not depend on
    what the others get.

    Args:
        space: The model's vectors, which are compared by distances.
        train: The histories of training.
        histories: The longer histories.
        rows: The users of ``histories`` as rows of ``train``.
        project: Puts vectors back to where user vectors lie.
    """
    offsets = np.concatenate([[0], np.cumsum(np.diff(space.user_offsets)[rows])]).astype(np.int64)
    vectors = space.user_vectors[rows_of_users(space.user_offsets, rows)]
    for user, row in enumerate(rows.tolist()):
        own = vectors[offsets[user] : offsets[user + 1]]
        past = train.indices[train.offsets[row] : train.offsets[row + 1]]
        counts = np.bincount(_distances(own, space.item_vectors[past]).argmin(axis=0), minlength=len(own))
        here = slice(int(histories.offsets[user]), int(histories.offsets[user + 1]))
        is_new = ~np.isin(histories.indices[here], past)
        new = histories.indices[here][is_new]
        if histories.timestamps is not None:
            new = new[np.argsort(histories.timestamps[here][is_new], kind="stable")]
        for item in space.item_vectors[new]:
            nearest = int(_distances(own, item[None]).argmin())
            counts[nearest] += 1
            moved = own[nearest] + (item - own[nearest]) / counts[nearest]
            own[nearest] = project(moved[None])[0]
    return vectors, offsets


def _distances(vectors: NDArray[np.float32], items: NDArray[np.float32]) -> NDArray[np.float32]:
    """Squared distances, but for a term of each item. Shape ``(len(vectors), len(items))``."""
    found: NDArray[np.float32] = np.einsum("ij,ij->i", vectors, vectors)[:, None] - 2 * (vectors @ items.T)
    return found
