"""A training run of DPCML that grows: one vector per user first, then several that start next to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.interactions import Interactions
from tastespace.models.dpcml._clusters import cluster_means, clustering_data, new_anchors
from tastespace.training.loop import Arrays
from tastespace.training.native_trainer import DpcmlTrainer, TrainingSettings, optimizer_arrays, project
from tastespace.training.phases import Phases

# Shares of the clusters' centres in the vectors after the split: where all vectors learn from every item 0.03 to 0.3
# give the same figures; where only the nearest does, they must differ more from the start.
_SMOOTH_SHARE, _SHARE = 0.1, 0.3

_VECTORS_AT_ONCE = 1 << 16  # at the split, so that vectors on disk need not fit in memory


class GrowingTrainer(DpcmlTrainer):
    """A training run of DPCML in the phases that it is given; ``offsets`` are the rows of each user's vectors.

    In the first phase the kernel sees the first vector of each user, and at the end of each epoch the others are made
    equal to it: vectors, running means and the optimizer's state have the same shapes in both phases, and are those of
    a valid model after every epoch.
    """

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
        super().__init__(train, data, state, settings, run)
        self._train, self._phases, self._vector_offsets = train, phases, offsets
        self._begin_phase(phases.epochs - 1)  # a run that is resumed after its last epoch begins none

    def _begin_phase(self, epoch: int) -> None:
        settings = self._arguments[2]
        settings.first_vector_only = self._phases.has_one_vector(epoch)
        settings.temperature = self._phases.temperature_at(epoch)

    def _begin_epoch(self, epoch: int, share: int = 0) -> None:
        self._begin_phase(epoch)
        if share == 0 and self._phases.splits_before(epoch):
            self._split()
        super()._begin_epoch(epoch, share)

    def _n_averaged(self, epoch: int) -> int:
        return self._phases.number_within(epoch)

    def end_epoch(self, epoch: int) -> None:
        """Take the epoch into the running means, which begin anew with the second phase."""
        if self._phases.has_one_vector(epoch):
            self._repeat_first_vectors()
        super().end_epoch(epoch)

    def result(self) -> Arrays:
        """The vectors as the model would use them now; in the first phase those of a user are equal."""
        if self._arguments[2].first_vector_only:
            self._repeat_first_vectors()  # an epoch may have been interrupted
        return super().result()

    def _repeat_first_vectors(self) -> None:
        """Make all vectors of a user equal to the first, and the state of their optimizer."""
        state = self._arguments[1]
        of_rows = [state.user_vectors, *optimizer_arrays(state.user_optimizer).values()]
        for first, last in self._blocks_of_users():
            self._repeat_first([array for array in of_rows if array.size], first, last)

    def _repeat_first(self, arrays: list[NDArray[Any]], first: int, last: int) -> None:
        offsets = self._vector_offsets[first : last + 1]
        for array in arrays:
            array[offsets[0] : offsets[-1]] = np.repeat(array[offsets[:-1]], np.diff(offsets), axis=0)

    def _split(self) -> None:
        """Move each user's vectors, which are equal, towards the centres of clusters of the user's own items.

        Each of C vectors gets a C-th of the gradient at first, so the optimizer's state is that of such gradients. What
        a user gets depends on the user and the items alone, so that partitions and blocks of users give the same.
        """
        _, state, settings = self._arguments
        own_optimizer = optimizer_arrays(state.user_optimizer)
        split_share = np.float32(_SMOOTH_SHARE if settings.temperature > 0 else _SHARE)
        is_adam = bool(state.user_optimizer.second.size)
        for first, last in self._blocks_of_users():
            offsets = self._vector_offsets[first : last + 1]
            rows, counts = slice(int(offsets[0]), int(offsets[-1])), np.diff(offsets)
            centres = self._centres(first, last)
            has_items = np.repeat(self._train.user_counts[first:last] > 0, counts)
            vectors = state.user_vectors[rows]
            vectors[has_items] += split_share * (centres[has_items] - vectors[has_items])
            state.user_vectors[rows] = project(vectors, settings.user_region, settings.radius)
            share = np.repeat(1 / counts, counts).astype(np.float32)[:, None]
            for part, power in (("first", 1 if is_adam else 2), ("second", 2)):
                if own_optimizer[part].size:
                    own_optimizer[part][rows] *= share**power

    def _centres(self, first: int, last: int) -> NDArray[np.float32]:
        """Centres of clusters of the users' items, one for each of their vectors; with anchors also whose is what."""
        _, state, settings = self._arguments
        positives = self._train.offsets[first : last + 1]
        offsets = self._vector_offsets[first : last + 1]
        own = self._train.indices[positives[0] : positives[-1]]
        data = clustering_data(positives - positives[0], own, offsets - offsets[0])
        anchors = new_anchors(int(positives[-1] - positives[0]), int(offsets[-1] - offsets[0]), state.item_vectors)
        centres = cluster_means(data, settings, state.item_vectors, anchors, self._run.threads)
        if state.anchors is not None:
            state.anchors.assignments[positives[0] : positives[-1]] = anchors.assignments
        return centres

    def _blocks_of_users(self) -> Iterator[tuple[int, int]]:
        """First user and last + 1 of blocks with a limited number of vectors, at least one user each."""
        offsets, first = self._vector_offsets, 0
        while first < len(offsets) - 1:
            last = int(np.searchsorted(offsets, offsets[first] + _VECTORS_AT_ONCE, side="right")) - 1
            last = max(first + 1, last)
            yield first, last
            first = last


def repeated(
    offsets: NDArray[np.int64], users: NDArray[np.float32], into: Callable[[tuple[int, int]], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Rows of users, each as often as the user has vectors; ``into`` makes the array of a shape.

    >>> repeated(np.array([0, 2, 3]), np.array([[5], [7]], np.float32), np.zeros).ravel().tolist()
    [5.0, 5.0, 7.0]
    """
    found = into((int(offsets[-1]), users.shape[1]))
    for first in range(0, len(users), _VECTORS_AT_ONCE):
        part = offsets[first : first + _VECTORS_AT_ONCE + 1]
        found[part[0] : part[-1]] = np.repeat(users[first : first + len(part) - 1], np.diff(part), axis=0)
    return found
