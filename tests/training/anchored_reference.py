"""Anchored interests in plain NumPy and float64, written independently of the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.training.reference import DpcmlKernel, NumpyReference


def projected(rows: Any, sphere: bool, radius: float) -> Any:
    """Rows on the sphere, or in the ball; infinite rows stay."""
    out = np.array(rows, dtype=np.float64)
    norms = np.linalg.norm(out, axis=-1, keepdims=True)
    moved = np.isfinite(norms) & (norms > 0) & (sphere | (norms > radius))
    return np.divide(out * radius, norms, out=out, where=moved)


def on_sphere(model: Any) -> bool:
    """Whether user vectors lie on the sphere."""
    return model.geometry != "ball"


def anchored(model: Any, free: Any, own: Any, assigned: Any) -> Any:
    """Vectors of one user from the free ones, the vectors of the user's items and their interests.

    Rows that do not exist (no item, anchor = 1) are infinite: no distance to them is the smallest. Where a free vector
    stands alone it is in the ball already, possibly at the border, where the projection has no derivative.
    """
    out = np.full(free.shape, np.inf)
    has_items = np.isin(np.arange(len(free)), assigned)
    for c in range(len(free)):
        members = own[assigned == c]
        if len(members):
            out[c] = (1 - model.anchor) * free[c] + model.anchor * members.mean(axis=0)
        elif model.anchor < 1:
            out[c] = free[c]
    moved = projected(out, on_sphere(model), model.radius)
    return np.where(has_items[:, None] | on_sphere(model), moved, out)


def distant_items(own: Any, count: int) -> Any:
    """Items far from each other, the first nearest to the mean; infinite rows where there are fewer items."""
    chosen = [int(np.square(own - own.mean(axis=0)).sum(axis=1).argmin())]
    while len(chosen) < min(count, len(own)):
        chosen.append(int(np.square(own[:, None] - own[None, chosen]).sum(axis=2).min(axis=1).argmax()))
    return np.concatenate([own[chosen], np.full((count - len(chosen), own.shape[1]), np.inf)])


def assign(vectors: Any, own: Any) -> Any:
    """Each item to its nearest vector; a vector without items gets the item farthest from its own vector."""
    gaps = np.square(own[:, None] - vectors[None]).sum(axis=2)
    found, to_own = gaps.argmin(axis=1), gaps.min(axis=1)
    for c in range(len(vectors)):
        if (found == c).any():
            continue
        movable = [i for i in range(len(own)) if (found == found[i]).sum() > 1]
        if not movable:
            break
        moved = max(movable, key=lambda i: (to_own[i], -i))
        found[moved], to_own[moved] = c, 0.0
    return found


def lloyd(model: Any, free: Any, own: Any, assigned: Any, iterations: int) -> Any:
    """The assignments after a refresh; ``assigned`` None: none so far."""
    if assigned is None:
        assigned = assign(distant_items(own, len(free)), own)
    for _ in range(iterations):
        assigned = assign(anchored(model, free, own, assigned), own)
    return assigned


class AnchoredReference(NumpyReference):
    """The training of a `DpcmlKernel` with anchored interests, with the anchors that the kernel has."""

    def __init__(self, kernel: DpcmlKernel) -> None:
        super().__init__(kernel)
        anchors = kernel.state.anchors
        assert anchors is not None
        self.snapshot, self.assignments = anchors.snapshot.astype(np.float64), anchors.assignments.copy()
        self.kept: dict[tuple[int, int], Any] = {}

    def vectors(self, positive: int, learned: Any) -> Any:
        """Without the positive."""
        train, user = self.kernel.train, self.owner[positive]
        others = np.arange(train.offsets[user], train.offsets[user + 1])
        others = others[others != positive]
        return anchored(self.model, learned, self.snapshot[train.indices[others]], self.assignments[others])

    def pair_gradients(self, positive: int, negatives: Any) -> list[tuple[int, int, float]]:
        """As for plain vectors; keeps the vectors, with which the items are updated."""
        own = self.rows_of(int(self.owner[positive]))
        for row, vector in enumerate(self.vectors(positive, self.state["users"][own])):
            self.kept[positive, own.start + row] = vector
        return super().pair_gradients(positive, negatives)

    def vector_for_items(self, positive: int, row: int) -> Any:
        """As it was in the step."""
        return self.kept[positive, row]

    def penalty(self, user: int, vectors: Any) -> float:
        """With anchor = 1 nothing of the users is learned, so DCRS is not computed."""
        return 0.0 if self.model.anchor == 1 else super().penalty(user, vectors)
