"""Training runs of the native kernels (DPCML, BPR): epochs, learning rates, optimizer state, running means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.interactions import Interactions
from tastespace.data.out_of_core.mapped_arrays import (
    is_mapped,
    new_zeros,
    release,
    row_blocks,
)
from tastespace.training.loop import Arrays
from tastespace.training.visits import UpdateVisits, user_blocks

Schedule = Literal["constant", "linear", "cosine"]
SCHEDULES = ("constant", "linear", "cosine")
OPTIMIZERS = {"sgd": _native.Optimizer.SGD, "adagrad": _native.Optimizer.ADAGRAD, "adam": _native.Optimizer.ADAM}
_WITH_STEPS = ("adam", "dense-adam")

# Scores per call of a kernel and positives at most: between two calls the progress bar is updated. Within a call the
# kernels look for Ctrl-C themselves.
_SCORES_PER_CALL = 1 << 20
_POSITIVES_PER_CALL = 1 << 16

Totals = TypeVar("Totals", _native.DpcmlTotals, _native.BprTotals)


@dataclass(frozen=True)
class LearningRateSchedule:
    """The learning rate of each epoch.

    >>> [LearningRateSchedule(0.5, "linear", epochs=2).at(epoch) for epoch in (0, 1)]
    [0.5, 0.25]
    """

    learning_rate: float
    """Of the first epoch."""
    schedule: Schedule
    epochs: int

    def at(self, epoch: int) -> float:
        """Learning rate of this epoch, counted from 0."""
        done = epoch / max(1, self.epochs)
        factor = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + float(np.cos(np.pi * done)))}
        return self.learning_rate * factor[self.schedule]


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training run that do not depend on the kernel."""

    learning_rates: LearningRateSchedule
    average: int
    """Window of the running mean over epochs: after epoch e, ``mean += (new - mean) / min(e, average)``. 1: no
    averaging, the values themselves are the result."""
    seed: int
    threads: int
    first_epoch: int = 0
    """Epochs that went before, in a fit and its updates: random numbers go on from there."""
    visits: UpdateVisits | None = None
    """Positives that an epoch goes through; None: all."""
    users_at_once: int | None = None
    """Users whose positives are visited together (`tastespace.training.visits`); None: all of them."""
    spill: str | None = None
    """Folder of what is as large as the user vectors; None: memory."""
    without_mean: tuple[str, ...] = ()
    """Names of arrays that are learned here but averaged elsewhere."""


class NativeTrainer(ABC, Generic[Totals]):
    """One training run: what is learned, the optimizer state that belongs to it, and its running mean.

    A subclass calls its kernel in `_train_range`. The arrays are those of the kernel's state, changed in place.
    """

    def __init__(
        self,
        train: Interactions,
        data: _native.DpcmlData | _native.BprData,
        settings: _native.DpcmlSettings | _native.BprSettings,
        learned: Arrays,
        optimizers: dict[str, _native.OptimizerState],
        run: TrainingSettings,
    ) -> None:
        self._offsets, self._n_positives, self._data = train.offsets, train.n_interactions, data
        self._block_size, self._optimizer = settings.block_size, settings.optimizer
        n_negatives = settings.n_negatives if isinstance(settings, _native.DpcmlSettings) else 1
        per_call = min(_POSITIVES_PER_CALL, _SCORES_PER_CALL // (1 + n_negatives))
        self._positives_per_call = max(1, per_call // self._block_size) * self._block_size
        self._learned, self._run = learned, run
        self._state: Arrays = dict(learned)
        for side, state in optimizers.items():
            self._state |= {f"{side}_{part}": array for part, array in optimizer_arrays(state).items()}
        self._has_mean = False
        averaged = [] if run.average <= 1 else [name for name in learned if name not in run.without_mean]
        self._means: Arrays = {f"mean_{name}": self._copy(learned[name]) for name in averaged}

    def _copy(self, array: NDArray[Any]) -> NDArray[Any]:
        """A copy in memory or, of a mapped array, in another file."""
        copied = new_zeros(self._run.spill if is_mapped(array) else None, array.shape, array.dtype)
        for rows in row_blocks(array, copied):
            copied[rows] = array[rows]
        return copied

    def _begin_epoch(self, epoch: int, share: int = 0) -> None:
        """Prepare one of the shares of an epoch, or with share 0 all of it."""
        self._optimizer.learning_rate = self._run.learning_rates.at(epoch)

    def _n_averaged(self, epoch: int) -> int:
        """Number of epochs up to this one that the running means may be taken over."""
        return epoch + 1

    @abstractmethod
    def _zero_totals(self) -> Totals:
        """Totals of no steps."""

    @abstractmethod
    def _train_range(self, epoch: int, first: int, last: int) -> Totals:
        """Train on the positives number ``first ... last - 1`` of the epoch's order."""

    @abstractmethod
    def _log_row(self, totals: Totals) -> dict[str, float]:
        """The epoch's row of the training log."""

    def train_epoch(self, epoch: int, tick: Callable[[int, float], None]) -> dict[str, float]:
        """One pass over all positives; ``tick(done, loss)`` is called after each call of the kernel."""
        self._begin_epoch(epoch)
        totals = self._zero_totals()
        number = self._run.first_epoch + epoch
        for n_positives in self._visits_of(number):
            for first in range(0, n_positives, self._positives_per_call):
                last = min(n_positives, first + self._positives_per_call)
                totals = totals + self._train_range(number, first, last)
                tick(last - first, totals.loss / max(1, totals.n_steps))
        self.end_epoch(epoch)
        return self._log_row(totals)

    def train_share(self, epoch: int, share: int, n_shares: int) -> dict[str, float]:
        """One of ``n_shares`` equal parts of an epoch's order; gives sums: loss, steps, what a row of the log needs.

        After the last share of an epoch call `end_epoch`.
        """
        self._begin_epoch(epoch, share)
        totals = self._zero_totals()
        start, end = self.range_of_share(share, n_shares)
        for first in range(start, end, self._positives_per_call):
            totals = totals + self._train_range(epoch, first, min(end, first + self._positives_per_call))
        return {name: value * totals.n_steps for name, value in self._log_row(totals).items()} | {
            "n_steps": totals.n_steps
        }

    def range_of_share(self, share: int, n_shares: int) -> tuple[int, int]:
        """First and last + 1 of the places in an epoch's order that a share has."""
        return self._n_positives * share // n_shares, self._n_positives * (share + 1) // n_shares

    def end_epoch(self, epoch: int) -> None:
        """Take the epoch into the running means."""
        self._has_mean = True
        for name, mean in self._means.items():
            learned = self._learned[name.removeprefix("mean_")]
            for rows in row_blocks(mean, learned):
                mean[rows] += (learned[rows] - mean[rows]) / min(self._n_averaged(epoch), self._run.average)
        release(*self.state().values())

    def _visits_of(self, number: int) -> Iterator[int]:
        """Tell the kernel which positives it goes through, once or block after block; gives how many."""
        if self._run.visits is not None:
            visited = self._run.visits.of_epoch(number)
            self._data.visit(visited)
            yield len(visited)
        elif self._run.users_at_once is None or self._run.users_at_once >= len(self._offsets) - 1:
            yield self._n_positives
        else:
            for _, _, visited in user_blocks(self._offsets, self._run.users_at_once, self._run.seed, number):
                self._data.visit(visited)
                yield len(visited)
                release(*self.state().values())

    def result(self) -> Arrays:
        """The learned arrays as the model would use them now: new ones."""
        # Interrupted in the first epoch there is no mean yet, only values that have begun to change.
        means = self._means if self._has_mean else {}
        return {name: self._copy(means.get(f"mean_{name}", array)) for name, array in self._learned.items()}

    def state(self) -> Arrays:
        """Everything that another epoch depends on (views, not copies)."""
        return self._state | self._means

    def load_state(self, state: Arrays) -> None:
        """Continue from what `state` gave."""
        self._has_mean = True
        for name, own in self.state().items():
            np.copyto(own, state[name])


class DpcmlTrainer(NativeTrainer[_native.DpcmlTotals]):
    """A training run of DPCML."""

    def __init__(
        self,
        train: Interactions,
        data: _native.DpcmlData,
        state: _native.DpcmlState,
        settings: _native.DpcmlSettings,
        run: TrainingSettings,
    ) -> None:
        learned: Arrays = {"users": state.user_vectors, "items": state.item_vectors}
        optimizers = {"user": state.user_optimizer, "item": state.item_optimizer}
        super().__init__(train, data, settings, learned, optimizers, run)
        self._state["gamma"] = state.gamma
        self._arguments = data, state, settings
        self._regions = {"users": settings.user_region, "items": settings.item_region}
        self._radius = settings.radius
        # Positives of users who have every item. Counted here, because a run resumed at its end takes no step.
        self.n_skipped = int(train.user_counts[train.user_counts == train.n_items].sum())
        self.n_without_others = 0
        """Further positives without a step: the only item of a user whose vectors are means of other items."""

    def _zero_totals(self) -> _native.DpcmlTotals:
        return _native.DpcmlTotals()

    def _train_range(self, epoch: int, first: int, last: int) -> _native.DpcmlTotals:
        run = self._run
        return _native.train_dpcml(
            *self._arguments, seed=run.seed, epoch=epoch, first=first, last=last, threads=run.threads
        )

    def _log_row(self, totals: _native.DpcmlTotals) -> dict[str, float]:
        n = max(1, totals.n_steps)
        return {
            "loss": (totals.loss + totals.dcrs) / n,
            "hinge": totals.loss / n,
            "dcrs": totals.dcrs / n,
            "pair_gradients": totals.n_pair_gradients / n,
        }

    def result(self) -> Arrays:
        """The vectors as the model would use them now: new arrays, means projected to where vectors must lie."""
        return {name: project(rows, self._regions[name], self._radius) for name, rows in super().result().items()}


class BprTrainer(NativeTrainer[_native.BprTotals]):
    """A training run of BPR."""

    def __init__(
        self,
        train: Interactions,
        data: _native.BprData,
        state: _native.BprState,
        settings: _native.BprSettings,
        run: TrainingSettings,
    ) -> None:
        learned: Arrays = {"users": state.user_vectors, "items": state.item_vectors, "bias": state.bias}
        optimizers = {"user": state.user_optimizer, "item": state.item_optimizer, "bias": state.bias_optimizer}
        super().__init__(train, data, settings, learned, optimizers, run)
        self._arguments = data, state, settings

    def _zero_totals(self) -> _native.BprTotals:
        return _native.BprTotals()

    def _train_range(self, epoch: int, first: int, last: int) -> _native.BprTotals:
        run = self._run
        return _native.train_bpr(
            *self._arguments, seed=run.seed, epoch=epoch, first=first, last=last, threads=run.threads
        )

    def _log_row(self, totals: _native.BprTotals) -> dict[str, float]:
        n = max(1, totals.n_steps)
        return {"loss": totals.loss / n, "correct": totals.n_correct / n}


def project(rows: NDArray[np.float32], region: _native.Region, radius: float) -> NDArray[np.float32]:
    """Rows projected into the ball or onto the sphere, in place.

    >>> project(np.array([[3, 4], [0.3, 0.4]], dtype=np.float32), _native.Region.BALL, 1.0).tolist()[0]
    [0.6000000238418579, 0.800000011920929]
    """
    for block in row_blocks(rows):
        part = rows[block]
        norms = np.linalg.norm(part, axis=1, keepdims=True)
        outside = (norms > radius) if region is _native.Region.BALL else (norms > 0)
        np.divide(part, norms / radius, out=part, where=outside)
    return rows


def optimizer_state(optimizer: str, values: NDArray[np.float32], spill: str | None = None) -> _native.OptimizerState:
    """Zeros for the rows of ``values``, in files below ``spill`` where it is given; what is not needed is empty.

    >>> state = optimizer_state("adagrad", np.ones((3, 2), np.float32))
    >>> state.first.shape, state.second.shape, state.steps.shape
    ((3, 2), (0,), (0,))
    """
    return _native.OptimizerState(
        first=new_zeros(spill, 0 if optimizer == "sgd" else values.shape, np.float32),
        second=new_zeros(spill, values.shape if optimizer in _WITH_STEPS else 0, np.float32),
        steps=new_zeros(spill, len(values) if optimizer in _WITH_STEPS else 0, np.int32),
    )


def optimizer_arrays(state: _native.OptimizerState) -> dict[str, NDArray[Any]]:
    """The arrays of an optimizer state by name."""
    return {"first": state.first, "second": state.second, "steps": state.steps}
