"""Anchored interests of DPCML: user vectors that mix a learned vector with the mean of the user's own items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.interactions import Interactions
from tastespace.models.dpcml._clusters import bare_state
from tastespace.models.dpcml.growing import GrowingTrainer
from tastespace.training.loop import Arrays
from tastespace.training.native_trainer import TrainingSettings
from tastespace.training.phases import Phases

REFRESH_ITERATIONS = 1  # of Lloyd's algorithm at the start of an epoch


class AnchoredTrainer(GrowingTrainer):
    """A training run of DPCML with ``anchor`` above 0: the learned user vectors are the free ones."""

    def __init__(
        self,
        train: Interactions,
        data: _native.DpcmlData,
        state: _native.DpcmlState,
        settings: _native.DpcmlSettings,
        run: TrainingSettings,
        phases: Phases,
        offsets: NDArray[np.int64],
    ) -> None:
        super().__init__(train, data, state, settings, run, phases, offsets)
        assert state.anchors is not None
        self._anchors = state.anchors
        self._state["assignments"] = state.anchors.assignments
        if settings.anchor == 1:  # without its only item a user has no vector
            self.n_without_others = int(((train.user_counts == 1) & (train.user_counts < train.n_items)).sum())

    def _begin_epoch(self, epoch: int, share: int = 0) -> None:
        super()._begin_epoch(epoch, share)
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
        users = _native.anchored_user_vectors(data, state, settings, threads=threads)
        if settings.first_vector_only:
            self._repeat_first([users], 0, len(self._vector_offsets) - 1)
        return {
            "users": users,
            "free": found["users"],
            "items": found["items"],
            "assignments": anchors.assignments,
        }
