"""The smooth minimum in plain NumPy and float64, written independently of the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.training.anchored_reference import AnchoredReference
from tests.training.reference import NumpyReference, numeric_gradient, sampled_loss


def smooth_minimum(distances: Any, temperature: float) -> Any:
    """-T log(mean of exp(-distance / T)) over the first axis, the vectors of a user; infinite ones add nothing."""
    distances = np.asarray(distances, dtype=np.float64)
    least = distances.min(axis=0)
    return least - temperature * np.log(np.exp((least - distances) / temperature).mean(axis=0))


class SmoothReference(NumpyReference):
    """The training of a `DpcmlKernel` whose settings have a temperature above 0."""

    def distances(self, vectors: Any, items: Any) -> Any:
        """From each vector to each item."""
        return self.scale() * np.square(vectors[:, None] - items[None]).sum(axis=2)

    def smooth(self, distances: Any) -> Any:
        """The user's distance to each item."""
        return smooth_minimum(distances, self.kernel.settings.temperature)

    def loss(self, positive: int, negatives: Any, vectors: Any, items: Any) -> float:
        """Weighted loss; the hardest are those nearest to a vector, as without smoothing."""
        item = self.kernel.train.indices[positive]
        distances = self.distances(vectors, items[[item, *negatives]])
        inner = items[negatives] @ items[item]
        return self._of_distances(positive, self.smooth(distances), distances.min(axis=0)[1:], inner)

    def _of_distances(self, positive: int, near: Any, nearest: Any, inner: Any) -> float:
        user = self.owner[positive]
        gamma = self.state["gamma"][positive] if self.model.sampler == "dihars" else 0.0
        n_negatives = int(self.n_negatives[user])
        found = sampled_loss(self.model, near[0], near[1:], inner, gamma, n_negatives, nearest)
        return float(self.weight[user] * found)

    def excess(self, positive: int, negatives: Any) -> Any:
        """margin + d(u, positive) - d(u, negative), the largest first."""
        user, item = self.owner[positive], self.kernel.train.indices[positive]
        vectors = self.vectors(positive, self.state["users"][self.rows_of(user)])
        near = self.smooth(self.distances(vectors, self.state["items"][[item, *negatives]]))
        return np.sort(self.model.margin + near[0] - near[1:])[::-1]

    def pair_gradients(self, positive: int, negatives: Any) -> list[tuple[int, int, float]]:
        """(place among the step's items, item, derivative with respect to the squared distance to the mean vector)."""
        item, items = self.kernel.train.indices[positive], self.state["items"]
        vectors = self.vectors(positive, self.state["users"][self.rows_of(int(self.owner[positive]))])
        touched = [item, *negatives]
        distances = self.distances(vectors, items[touched])
        nearest, inner = distances.min(axis=0)[1:], items[negatives] @ items[item]
        derivatives = numeric_gradient(
            lambda near: self._of_distances(positive, near, nearest, inner), self.smooth(distances)
        )
        exists = np.isfinite(distances[:, 0])
        self.mixed = getattr(self, "mixed", {})
        for place in range(len(touched)):
            shares = numeric_gradient(lambda one: float(self.smooth(one)), distances[exists, place])
            self.mixed[positive, place] = shares @ vectors[exists]
        return [
            (place, int(v), self.scale() * s) for place, (v, s) in enumerate(zip(touched, derivatives, strict=True))
        ]

    def vector_for_items(self, positive: int, row: int) -> Any:
        """The mean of the user's vectors by their shares, as in the step."""
        return self.mixed[positive, row]


class SmoothAnchoredReference(SmoothReference, AnchoredReference):
    """The same with anchored interests."""
