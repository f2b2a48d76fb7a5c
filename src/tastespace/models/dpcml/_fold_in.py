"""Users who were not in training, or have more past items now: vectors by DPCML's own loss, with the items fixed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.computed_once import writable
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.models.dpcml._clusters import bare_state, cluster_means, new_anchors
from tastespace.models.dpcml._cross_validated import vectors_per_user
from tastespace.models.dpcml.kernel import initial_gamma, kernel_data, kernel_settings, user_region, vector_offsets
from tastespace.models.dpcml.start import rows_of_users, spread_over_items
from tastespace.models.vector_space import VectorSpace
from tastespace.training.native_trainer import optimizer_state, project

if TYPE_CHECKING:
    from tastespace.models.dpcml.model import DPCML

_EPOCHS = 50  # enough for the vectors to converge
_PARALLEL = 2_000  # interactions from which a second thread pays


def fold_in(
    model: DPCML, histories: Interactions, epochs: int = _EPOCHS, n_vectors: NDArray[np.int64] | None = None
) -> DPCML:
    """A copy of the model whose users are those of ``histories``, with the items fixed.

    New vectors start at items of the history, far from each other, so that each has something to learn from: the
    minimum is not smoothed, also where that of training was. ``n_vectors`` are their numbers of vectors, by default
    those of the model's rule. With ``anchor`` above 0 they start at the means of clusters of the history, which stay as
    they are.
    """
    model._check()
    region = user_region(model)
    items = writable(model.item_vectors_)
    offsets = vector_offsets(vectors_per_user(model, items, histories) if n_vectors is None else n_vectors)
    data, settings = kernel_data(model, histories, offsets, model.train_), kernel_settings(model)
    threads = resolve_threads(model.threads) if histories.n_interactions > _PARALLEL else 1
    folded = copy.copy(model)
    folded.user_offsets_ = offsets
    anchors = None
    if model.anchor > 0:
        anchors = new_anchors(histories.n_interactions, int(offsets[-1]), items)
        users = cluster_means(data, settings, items, anchors, threads)
    else:
        users = spread_over_items(items, histories, offsets, region, model.radius)
    if model.anchor == 1:
        folded.user_vectors_ = users
        folded._keep_anchors(None, None if anchors is None else anchors.assignments)
        return folded
    gamma = initial_gamma(model, histories)
    gamma[:] = -1.0  # random values depend on the row, so a user's result would depend on the other users
    state = _native.DpcmlState(
        user_vectors=users,
        item_vectors=items,
        gamma=gamma,
        user_optimizer=optimizer_state(model.optimizer, users),
        item_optimizer=optimizer_state(model.optimizer, items[:0]),
        anchors=anchors,
    )
    means = np.zeros_like(users)
    _native.fold_in_dpcml(
        data,
        state,
        settings,
        mean_user_vectors=means,
        seed=model.seed,
        epochs=epochs,
        average=model.average,
        threads=threads,
    )
    folded.user_vectors_ = project(means, region, model.radius)
    if anchors is not None:
        folded._keep_anchors(folded.user_vectors_, anchors.assignments)
        learned = bare_state(folded.user_vectors_, items, anchors)
        folded.user_vectors_ = _native.anchored_user_vectors(
            data, learned, settings, repeat_vectors=True, threads=threads
        )
    return folded


def fold_in_longer(model: DPCML, histories: Interactions, rows: NDArray[np.int64]) -> DPCML:
    """A copy of the model for users of it with more past items, towards which their vectors move.

    ``rows`` are the users of ``histories`` as rows of the training data. See `moved_to_new_items`.
    """
    region = user_region(model)
    folded = copy.copy(model)
    folded.user_vectors_, folded.user_offsets_ = moved_to_new_items(
        model.vectors(), model.train_, histories, rows, lambda vectors: project(vectors, region, model.radius)
    )
    folded._keep_anchors(None, None)
    return folded


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
