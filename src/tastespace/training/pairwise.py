"""The state of a BPR training run and its epochs, run by the native kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.training.kernel_run import KernelRun


class PairwiseTrainer(KernelRun):
    """Vectors, biases, optimizer memory and the running mean of one training run."""

    sides: ClassVar[dict[str, str]] = {"users": "user", "items": "item", "bias": "bias"}

    def _range(self, settings: dict[str, Any], epoch: int, first: int, last: int) -> Sequence[float]:
        return _native.bpr_range(self.arrays, settings, self._pace.seed, epoch, first, last, self._pace.threads)

    def _figures(self, sums: NDArray[np.float64]) -> dict[str, float]:
        loss, right, visited = (float(value) for value in sums)
        return {"loss": loss / max(1.0, visited), "right": right / max(1.0, visited)}
