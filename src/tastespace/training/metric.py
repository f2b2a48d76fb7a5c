"""The state of a DPCML training run and its epochs, run by the native kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.interactions import Interactions
from tastespace.training.kernel_run import Arrays, KernelRun, Pace

BALL, SPHERE = 1, 2
"""Regions in which vectors live, as in native/optimizer.hpp."""


def place(rows: NDArray[np.float32], region: int, radius: float) -> NDArray[np.float32]:
    """Rows brought into the ball or onto the sphere, in place."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, norms / radius, out=rows, where=(norms > radius) if region == BALL else (norms > 0))
    return rows


class MetricTrainer(KernelRun):
    """Vectors, optimizer memory, gamma and the running mean of one training run."""

    sides: ClassVar[dict[str, str]] = {"users": "user", "items": "item"}
    remembered = ("gamma",)

    def __init__(
        self,
        train: Interactions,
        users: NDArray[np.float32],
        user_offsets: NDArray[np.int64],
        items: NDArray[np.float32],
        kernel: Arrays,
        settings: dict[str, Any],
        pace: Pace,
    ) -> None:
        kernel = {"vector_offsets": user_offsets, **kernel}
        super().__init__(train, {"users": users, "items": items}, kernel, settings, pace)
        # Positives of users who have every item; a run that resumes at its end visits nobody, so they are counted here.
        self.skipped = int(train.user_counts[train.user_counts == train.n_items].sum())

    def _range(self, settings: dict[str, Any], epoch: int, first: int, last: int) -> Sequence[float]:
        return _native.train_range(self.arrays, settings, self._pace.seed, epoch, first, last, self._pace.threads)

    def _figures(self, sums: NDArray[np.float64]) -> dict[str, float]:
        hinge, dcrs, visited, _, pulls = (float(value) for value in sums)
        n = max(1.0, visited)
        return {"loss": (hinge + dcrs) / n, "hinge": hinge / n, "dcrs": dcrs / n, "active": pulls / n}

    def result(self) -> Arrays:
        """The vectors as the model would use them now: new arrays, means brought back to where vectors live."""
        regions = (self._settings["user_region"], self._settings["item_region"])
        found = super().result()
        return {
            name: place(rows, region, self._settings["radius"])
            for (name, rows), region in zip(found.items(), regions, strict=True)
        }
