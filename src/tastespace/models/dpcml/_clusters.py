"""Clusters of users' own items, and the state that the kernels keep of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.training.samplers import UNIFORM

CLUSTER_ITERATIONS = 10  # of Lloyd's algorithm, for clusters that are not refreshed later


def new_anchors(n_positives: int, n_vectors: int, items: NDArray[np.float32]) -> _native.AnchorState:
    """Anchors of a run that has not begun: no positive is assigned to an interest.

    >>> new_anchors(4, 2, np.ones((3, 5), np.float32)).assignments.tolist()
    [-1, -1, -1, -1]
    """
    return _native.AnchorState(
        assignments=np.full(n_positives, -1, dtype=np.int32),
        snapshot=np.zeros_like(items),
        sums=np.zeros((n_vectors, items.shape[1]), dtype=np.float32),
        counts=np.zeros(n_vectors, dtype=np.int32),
    )


def bare_state(
    free: NDArray[np.float32], items: NDArray[np.float32], anchors: _native.AnchorState
) -> _native.DpcmlState:
    """The state that refreshes and anchored vectors need: nothing of an optimizer."""
    nothing = np.empty(0, dtype=np.float32)
    optimizer = _native.OptimizerState(first=nothing, second=nothing, steps=np.empty(0, dtype=np.int32))
    return _native.DpcmlState(
        user_vectors=free,
        item_vectors=items,
        gamma=nothing,
        user_optimizer=optimizer,
        item_optimizer=optimizer,
        anchors=anchors,
    )


def clustering_data(
    offsets: NDArray[np.int64], positives: NDArray[np.int32], vector_offsets: NDArray[np.int64]
) -> _native.DpcmlData:
    """Return histories as `cluster_means` takes them: without what the loss needs.

    User ``u`` has the items ``positives[offsets[u]:offsets[u + 1]]`` and the vectors of these rows of the others.
    """
    ones = np.ones(len(offsets) - 1, dtype=np.float32)
    return _native.DpcmlData(
        offsets=offsets,
        positives=positives,
        alias_keep=UNIFORM[0],
        alias_other=UNIFORM[1],
        vector_offsets=vector_offsets,
        loss_weight=ones,
        dcrs_weight=ones,
        n_beta=np.empty(0, dtype=np.int32),
    )


def cluster_means(
    data: _native.DpcmlData,
    settings: _native.DpcmlSettings,
    items: NDArray[np.float32],
    anchors: _native.AnchorState,
    threads: int,
) -> NDArray[np.float32]:
    """Vectors of new users at the means of clusters of their items, shape ``(n_vectors, dim)``.

    ``anchors`` receives the assignments. A user with fewer items than vectors has one at each item; the others repeat
    them.
    """
    anchor = settings.anchor
    settings.anchor = 1.0  # whatever the mix is later: there are no free vectors yet
    try:
        state = bare_state(np.zeros_like(anchors.sums), items, anchors)
        _native.refresh_anchors(data, state, settings, iterations=CLUSTER_ITERATIONS, threads=threads)
        return _native.anchored_user_vectors(data, state, settings, threads=threads)
    finally:
        settings.anchor = anchor
