"""The state of a DPCML training run and its epochs, run by the native kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.interactions import Interactions

Arrays = dict[str, NDArray[Any]]

BALL, SPHERE = 1, 2
"""Regions in which vectors live, as in native/optimiser.hpp."""

# Positives between two looks at the keyboard and the progress bar; the kernel works through whole blocks.
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


def place(rows: NDArray[np.float32], region: int, radius: float) -> NDArray[np.float32]:
    """Rows brought into the ball or onto the sphere, in place."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, norms / radius, out=rows, where=(norms > radius) if region == BALL else (norms > 0))
    return rows


class MetricTrainer:
    """Vectors, optimiser memory, gamma and the running average of one training run.

    ``average`` is the window of the running mean over epochs: after epoch e the mean takes in the new vectors with
    weight 1 / min(e, average). 1 switches it off, and the vectors themselves are the result.
    """

    def __init__(
        self,
        train: Interactions,
        users: NDArray[np.float32],
        user_offsets: NDArray[np.int64],
        items: NDArray[np.float32],
        settings: dict[str, Any],
        kernel: Arrays,
        rates: Rates,
        average: int,
        seed: int,
        threads: int,
    ) -> None:
        self._n = train.n_interactions
        self._settings = settings
        self._rates = rates
        self._average = average
        self._seed = seed
        self._threads = threads
        self.user_offsets = user_offsets
        self.arrays: Arrays = {
            "offsets": train.offsets,
            "positives": train.indices,
            "vector_offsets": user_offsets,
            "users": users,
            "items": items,
            **kernel,
        }
        self._averaged = False
        self._means: Arrays = {} if average <= 1 else {"mean_users": users.copy(), "mean_items": items.copy()}
        # Positives of users who have every item; a run that resumes at its end visits nobody, so they are counted here.
        self.skipped = int(train.user_counts[train.user_counts == train.n_items].sum())

    def train_epoch(self, epoch: int, tick: Callable[[int, float], None]) -> dict[str, float]:
        """One pass over all positives; ``tick(done, loss)`` is called every now and then."""
        settings = {**self._settings, "learning_rate": self._rates.at(epoch)}
        step = max(1, _POSITIVES_PER_CALL // settings["block"]) * settings["block"]
        loss = dcrs = 0.0
        visited = pulls = 0
        for first in range(0, self._n, step):
            last = min(self._n, first + step)
            part = _native.train_range(self.arrays, settings, self._seed, epoch, first, last, self._threads)
            loss, dcrs = loss + part[0], dcrs + part[1]
            visited, pulls = visited + part[2], pulls + part[4]
            tick(last - first, loss / max(1, visited))
        self._take_mean(epoch)
        n = max(1, visited)
        return {"loss": (loss + dcrs) / n, "hinge": loss / n, "dcrs": dcrs / n, "active": pulls / n}

    def _take_mean(self, epoch: int) -> None:
        self._averaged = True
        for name, mean in self._means.items():
            mean += (self.arrays[name.removeprefix("mean_")] - mean) / min(epoch + 1, self._average)

    def result(self) -> Arrays:
        """The vectors as the model would use them now: new arrays, means brought back to where vectors live."""
        radius = self._settings["radius"]
        # Interrupted in the first epoch there is no mean yet, only vectors that have begun to learn.
        means = self._means if self._averaged else {}
        return {
            side: place(means.get(f"mean_{side}", self.arrays[side]).copy(), self._settings[region], radius)
            for side, region in (("users", "user_region"), ("items", "item_region"))
        }

    def state(self) -> Arrays:
        """Everything that another epoch depends on (views, not copies)."""
        learnt = ("users", "items", "gamma", "user_first", "user_second", "user_steps", "item_first", "item_second")
        return {name: self.arrays[name] for name in (*learnt, "item_steps")} | self._means

    def load_state(self, state: Arrays) -> None:
        """Continue from what `state` gave."""
        self._averaged = True
        for name, own in self.state().items():
            np.copyto(own, state[name])


def optimiser_memory(method: str, users: NDArray[np.float32], items: NDArray[np.float32]) -> Arrays:
    """Zeroed memory of an optimiser for both matrices; what it does not need is empty."""
    memory: Arrays = {}
    for side, rows in (("user", users), ("item", items)):
        empty = np.empty(0, dtype=np.float32)
        memory[f"{side}_first"] = empty if method == "sgd" else np.zeros_like(rows)
        memory[f"{side}_second"] = np.zeros_like(rows) if method == "adam" else empty.copy()
        memory[f"{side}_steps"] = np.zeros(len(rows) if method == "adam" else 0, dtype=np.int32)
    return memory
