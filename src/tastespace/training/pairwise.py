"""The state of a BPR training run and its epochs, run by the native kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.interactions import Interactions
from tastespace.training.metric import Arrays, Rates

# Positives between two looks at the keyboard and the progress bar; the kernel works through whole blocks.
_POSITIVES_PER_CALL = 1 << 17
_SIDES = {"users": "user", "items": "item", "bias": "bias"}


class PairwiseTrainer:
    """Vectors, biases, optimiser memory and the running average of one training run.

    ``average`` is the window of the running mean over epochs, as in `MetricTrainer`; 1 switches it off.
    """

    def __init__(
        self,
        train: Interactions,
        users: NDArray[np.float32],
        items: NDArray[np.float32],
        bias: NDArray[np.float32],
        settings: dict[str, Any],
        memory: Arrays,
        rates: Rates,
        average: int,
        seed: int,
        threads: int,
    ) -> None:
        self._n = train.n_interactions
        self._settings, self._rates = settings, rates
        self._average, self._averaged = average, False
        self._seed, self._threads = seed, threads
        self.arrays: Arrays = {
            "offsets": train.offsets,
            "positives": train.indices,
            "users": users,
            "items": items,
            "bias": bias,
            **memory,
        }
        self._means: Arrays = {} if average <= 1 else {f"mean_{name}": self.arrays[name].copy() for name in _SIDES}

    def train_epoch(self, epoch: int, tick: Callable[[int, float], None]) -> dict[str, float]:
        """One pass over all positives; ``tick(done, loss)`` is called every now and then."""
        settings = {**self._settings, "learning_rate": self._rates.at(epoch)}
        step = max(1, _POSITIVES_PER_CALL // settings["block"]) * settings["block"]
        loss, right, visited = 0.0, 0, 0
        for first in range(0, self._n, step):
            last = min(self._n, first + step)
            part = _native.bpr_range(self.arrays, settings, self._seed, epoch, first, last, self._threads)
            loss, right, visited = loss + part[0], right + part[1], visited + part[2]
            tick(last - first, loss / max(1, visited))
        self._averaged = True
        for name, mean in self._means.items():
            mean += (self.arrays[name.removeprefix("mean_")] - mean) / min(epoch + 1, self._average)
        return {"loss": loss / max(1, visited), "right": right / max(1, visited)}

    def result(self) -> Arrays:
        """Users, items and bias as the model would use them now, as new arrays."""
        # Interrupted in the first epoch there is no mean yet, only vectors that have begun to learn.
        means = self._means if self._averaged else {}
        return {name: means.get(f"mean_{name}", self.arrays[name]).copy() for name in _SIDES}

    def state(self) -> Arrays:
        """Everything that another epoch depends on (views, not copies)."""
        memory = [f"{side}_{part}" for side in _SIDES.values() for part in ("first", "second", "steps")]
        return {name: self.arrays[name] for name in (*_SIDES, *memory)} | self._means

    def load_state(self, state: Arrays) -> None:
        """Continue from what `state` gave."""
        self._averaged = True
        for name, own in self.state().items():
            np.copyto(own, state[name])


def pairwise_memory(method: str, **sides: NDArray[np.float32]) -> Arrays:
    """Zeroed memory of an optimiser for ``user``, ``item`` and ``bias``; what it does not need is empty."""
    memory: Arrays = {}
    for side, values in sides.items():
        memory[f"{side}_first"] = np.zeros(0 if method == "sgd" else values.shape, dtype=np.float32)
        memory[f"{side}_second"] = np.zeros(values.shape if method == "adam" else 0, dtype=np.float32)
        memory[f"{side}_steps"] = np.zeros(len(values) if method == "adam" else 0, dtype=np.int32)
    return memory
