"""Anchored interests of DPCML: user vectors that mix a learned vector with the mean of the user's own items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.interactions import Interactions
from tastespace.training.loop import Arrays
from tastespace.training.native_trainer import DpcmlTrainer, TrainingSettings

REFRESH_ITERATIONS = 1  # of Lloyd's algorithm at the start of an epoch
CLUSTER_ITERATIONS = 10  # for new users, whose clusters are not refreshed later


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


class AnchoredTrainer(DpcmlTrainer):
    """A training run of DPCML with ``anchor`` above 0: the learned user vectors are the free ones."""

    def __init__(
        self,
        train: Interactions,
        data: _native.DpcmlData,
        state: _native.DpcmlState,
        settings: _native.DpcmlSettings,
        run: TrainingSettings,
    ) -> None:
        super().__init__(train, data, state, settings, run)
        assert state.anchors is not None
        self._anchors = state.anchors
        self._state["assignments"] = state.anchors.assignments
        if settings.anchor == 1:  # without its only item a user has no vector
            self.n_without_others = int(((train.user_counts == 1) & (train.user_counts < train.n_items)).sum())

    def _before_epoch(self) -> None:
        _native.refresh_anchors(*self._arguments, iterations=REFRESH_ITERATIONS, threads=self._run.threads)

    def result(self) -> Arrays:
        """As the model would use it now: ``users`` anchored at the whole history, ``free``, ``items``, ``assignments``.

        The assignments are refreshed once more, with the items of the result.
        """
        data, _, settings = self._arguments
        found = super().result()
        own, threads = self._anchors, self._run.threads
        # Snapshot, sums and counts are computed anew before the next epoch: no need for others of that size here.
        anchors = _native.AnchorState(
            assignments=own.assignments.copy(), snapshot=own.snapshot, sums=own.sums, counts=own.counts
        )
        state = bare_state(found["users"], found["items"], anchors)
        _native.refresh_anchors(data, state, settings, iterations=REFRESH_ITERATIONS, threads=threads)
        return {
            "users": _native.anchored_user_vectors(data, state, settings, threads=threads),
            "free": found["users"],
            "items": found["items"],
            "assignments": anchors.assignments,
        }
