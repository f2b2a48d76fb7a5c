"""What the training runs of native kernels share: arrays, epochs in ranges, the optimizer's memory, running means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions

Arrays = dict[str, NDArray[Any]]

# Positives between two looks at the keyboard and the progress bar; the kernels work through whole blocks.
_POSITIVES_PER_CALL = 1 << 16


@dataclass(frozen=True)
class Rates:
    """How the learning rate moves over the epochs."""

    learning_rate: float
    schedule: str
    epochs: int

    def at(self, epoch: int) -> float:
        """Learning rate of this epoch, counted from 0."""
        done = epoch / max(1, self.epochs)
        factor = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + float(np.cos(np.pi * done)))}
        return self.learning_rate * factor[self.schedule]


@dataclass(frozen=True)
class Pace:
    """How a run goes on: rates, averaging, randomness, resources."""

    rates: Rates
    average: int
    """Window of the running mean over epochs: after epoch e the mean takes in the new values with weight
    ``1 / min(e, average)``. 1 switches it off, and the values themselves are the result."""
    seed: int
    threads: int


class KernelRun(ABC):
    """One training run: what is learned, the optimizer's memory of it, and its running mean.

    ``learned`` are the arrays that move; ``kernel`` is what else the kernel reads or remembers. A subclass names the
    learned arrays and their memory in `sides` and calls its kernel in `_range`.
    """

    sides: ClassVar[dict[str, str]]
    """Name of each learned array -> prefix of its memory."""
    remembered: tuple[str, ...] = ()
    """Arrays besides these that another epoch depends on."""

    def __init__(
        self, train: Interactions, learned: Arrays, kernel: Arrays, settings: dict[str, Any], pace: Pace
    ) -> None:
        self._n = train.n_interactions
        self._settings, self._pace = settings, pace
        self.arrays: Arrays = {"offsets": train.offsets, "positives": train.indices, **learned, **kernel}
        self._averaged = False
        self._means: Arrays = (
            {} if pace.average <= 1 else {f"mean_{name}": array.copy() for name, array in learned.items()}
        )

    @abstractmethod
    def _range(self, settings: dict[str, Any], epoch: int, first: int, last: int) -> Sequence[float]:
        """Train on these positives of the epoch; gives sums, the first of the loss, the third of positives visited."""

    @abstractmethod
    def _figures(self, sums: NDArray[np.float64]) -> dict[str, float]:
        """The epoch's row of the training log, from the sums over all ranges."""

    def train_epoch(self, epoch: int, tick: Callable[[int, float], None]) -> dict[str, float]:
        """One pass over all positives; ``tick(done, loss)`` is called every now and then."""
        settings = {**self._settings, "learning_rate": self._pace.rates.at(epoch)}
        step = max(1, _POSITIVES_PER_CALL // settings["block_size"]) * settings["block_size"]
        sums: NDArray[np.float64] = np.zeros(1)
        for first in range(0, self._n, step):
            last = min(self._n, first + step)
            sums = sums + np.array(self._range(settings, epoch, first, last), dtype=np.float64)
            tick(last - first, float(sums[0] / max(1.0, sums[2])))
        self._averaged = True
        for name, mean in self._means.items():
            mean += (self.arrays[name.removeprefix("mean_")] - mean) / min(epoch + 1, self._pace.average)
        return self._figures(sums)

    def result(self) -> Arrays:
        """What is learned as the model would use it now: new arrays."""
        # Interrupted in the first epoch there is no mean yet, only values that have begun to learn.
        means = self._means if self._averaged else {}
        return {name: means.get(f"mean_{name}", self.arrays[name]).copy() for name in self.sides}

    def state(self) -> Arrays:
        """Everything that another epoch depends on (views, not copies)."""
        memory = [f"{side}_{part}" for side in self.sides.values() for part in ("first", "second", "steps")]
        return {name: self.arrays[name] for name in (*self.sides, *self.remembered, *memory)} | self._means

    def load_state(self, state: Arrays) -> None:
        """Continue from what `state` gave."""
        self._averaged = True
        for name, own in self.state().items():
            np.copyto(own, state[name])


def optimizer_memory(method: str, **sides: NDArray[np.float32]) -> Arrays:
    """Zeroed memory of an optimizer for each side, such as ``user=``; what the method does not need is empty.

    >>> {name: array.shape for name, array in optimizer_memory("adagrad", item=np.ones((3, 2), np.float32)).items()}
    {'item_first': (3, 2), 'item_second': (0,), 'item_steps': (0,)}
    """
    memory: Arrays = {}
    for side, values in sides.items():
        memory[f"{side}_first"] = np.zeros(0 if method == "sgd" else values.shape, dtype=np.float32)
        memory[f"{side}_second"] = np.zeros(values.shape if method == "adam" else 0, dtype=np.float32)
        memory[f"{side}_steps"] = np.zeros(len(values) if method == "adam" else 0, dtype=np.int32)
    return memory
