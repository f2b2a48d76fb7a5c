"""Users of a model who have taken more since: their interests stay, and only those with new items move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.interactions import Interactions
from tastespace.models.user_vector_init import nearest_interests, rows_of_users
from tastespace.models.vector_space import VectorSpace
from tastespace.threads import resolve_threads
from tastespace.training.anchors import bare_state

if TYPE_CHECKING:
    from tastespace.models.dpcml import DPCML


@dataclass(frozen=True, eq=False)
class LongerHistories:
    """Where the fold-in of users of a model starts. A user keeps the number of interests of training."""

    offsets: NDArray[np.int64]
    """User ``u`` of the histories has the rows ``offsets[u]:offsets[u + 1]`` of the vectors."""
    vectors: NDArray[np.float32]
    """As the model has them, shape ``(n_vectors, dim)``."""
    free: NDArray[np.float32]
    """The part of them that is learned, where the other part is the mean of past items."""
    assignments: NDArray[np.int32]
    """The interest of each interaction of the histories, counted within the user."""
    has_new: NDArray[np.bool_]
    """Which vectors are the nearest to a new item."""

    @classmethod
    def of(cls, model: DPCML, histories: Interactions, rows: NDArray[np.int64]) -> LongerHistories:
        """Users at these rows of the model; an item that training had belongs to the interest nearest to it."""
        own = rows_of_users(model.user_offsets_, rows)
        offsets = model._vector_offsets(np.diff(model.user_offsets_)[rows])
        vectors = model.user_vectors_[own]
        space = VectorSpace(vectors, offsets, model.item_vectors_)
        everybody = np.ones(histories.n_users, dtype=bool)
        assignments = nearest_interests(space, histories, everybody, resolve_threads(model.threads))
        has_new = np.zeros(len(vectors), dtype=bool)
        for user, row in enumerate(rows.tolist()):
            here = slice(int(histories.offsets[user]), int(histories.offsets[user + 1]))
            past = model.train_.indices[model.train_.offsets[row] : model.train_.offsets[row + 1]]
            is_new = ~np.isin(histories.indices[here], past)
            has_new[offsets[user] + assignments[here][is_new]] = True
        free = model.free_vectors_[own] if hasattr(model, "free_vectors_") else vectors
        return cls(offsets, vectors, free, assignments, has_new)

    def means(
        self,
        data: _native.DpcmlData,
        settings: _native.DpcmlSettings,
        items: NDArray[np.float32],
        anchors: _native.AnchorState,
        threads: int,
    ) -> NDArray[np.float32]:
        """Where anchored vectors start: free ones, or the means of past items where they are nothing else."""
        anchors.assignments[:] = self.assignments
        state = bare_state(self.free.copy(), items, anchors)
        _native.refresh_anchors(data, state, settings, iterations=0, threads=threads)  # assignments stay
        if settings.anchor < 1:
            return self.free.copy()
        means: NDArray[np.float32] = _native.anchored_user_vectors(data, state, settings, threads=threads)
        return means

    def with_moved(self, model: DPCML) -> DPCML:
        """The model with the vectors that have new items, and all others as they were."""
        model.user_vectors_ = np.where(self.has_new[:, None], model.user_vectors_, self.vectors)
        return model
