"""The driver of a run: round after round, it hands out partitions, combines their changes and writes the items.

It never holds the vectors of all users. Where it is killed, the same call goes on after the last finished round.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tastespace.cluster.combine import combine
from tastespace.cluster.executors import Executor
from tastespace.cluster.model_parts import SHARED, named_model, projected, shared_result, shared_start
from tastespace.cluster.part_answers import PartEvaluation, evaluate_part, keep_best
from tastespace.cluster.rounds import (
    PartTask,
    RoundResult,
    best_name,
    library_version,
    shared_name,
    state_name,
    train_round,
)
from tastespace.cluster.storage import DamagedFileError, Storage
from tastespace.errors import ClusterError, ParameterError
from tastespace.models.bpr import BPR
from tastespace.models.dpcml import DPCML
from tastespace.models.trained_base import _NOT_IN_CHECKPOINT_IDENTITY
from tastespace.training.loop import Arrays, Callback
from tastespace.training.progress import EpochBar

log = logging.getLogger(__name__)


@dataclass
class RoundCosts:
    """What one round cost."""

    round: int
    seconds: float
    """From handing out the partitions to the new items on the storage."""
    compute: float
    """Sum over partitions of the time in the kernel."""
    files: float
    """Sum over partitions of reading and writing their files."""
    combine: float
    n_bytes: int
    """Sum of the changes that partitions sent."""
    n_rows: int
    """Items that changed."""


@dataclass
class Progress:
    """What is known after a round: written with the items of the next."""

    round: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float | None = None
    without_improvement: int = 0
    loss: dict[str, float] = field(default_factory=dict)
    """Sums of the rounds of the current epoch."""
    stopped: str = ""


class ClusterRun:
    """One training run on partitions that are written already."""

    def __init__(self, storage: Storage, executor: Executor, threads: int = 0) -> None:
        facts = storage.read_facts("run.json")
        if facts is None:
            raise ClusterError(f"{storage.root} holds no run.")
        self.facts: dict[str, Any] = facts
        self.storage, self.executor = storage, executor
        self.model: DPCML | BPR = named_model(facts["model"], facts["parameters"])
        self.n_partitions: int = facts["partitions"]
        self.costs: list[RoundCosts] = []
        self._threads = threads or executor.threads
        self.shared: Arrays = {}
        self.progress = Progress()

    def train(self, callbacks: Sequence[Callback] = (), progress: bool | None = None) -> Progress:
        """Go on from the last finished round to the end."""
        self._resume()
        per_epoch, epochs = self.facts["rounds_per_epoch"], self.model.epochs
        first_epoch = self.progress.round // per_epoch
        n = self.facts["n_interactions"]
        began = time.monotonic()
        with EpochBar(epochs, first_epoch, n, progress) as bar:
            while self.progress.round < epochs * per_epoch and not self.progress.stopped:
                if self.progress.round % per_epoch == 0:
                    bar.start_epoch(self.progress.round // per_epoch + 1)
                row = self._one_round(callbacks, began)
                bar.tick(n // per_epoch, self._mean_loss())
                if row is not None:
                    bar.end_epoch(row, self.model.monitor)
        self.progress.stopped = self.progress.stopped or "finished"
        return self.progress

    def tasks(self, number: int) -> list[PartTask]:
        """What the partitions are told in a round."""
        return [
            PartTask(self.storage.root, self.facts["token"], library_version(), partition, number, self._threads)
            for partition in range(self.n_partitions)
        ]

    def result(self) -> tuple[Arrays, int]:
        """The shared arrays of the model that is kept, and its epoch."""
        if self.progress.best_epoch:
            return self.storage.read_arrays(f"best/shared-{self.progress.best_epoch:05}")[0], self.progress.best_epoch
        return shared_result(self.model, self.shared), len(self.progress.history)

    # ---- rounds ------------------------------------------------------------------------------------------------

    def _one_round(self, callbacks: Sequence[Callback], began: float) -> dict[str, Any] | None:
        now = self.progress
        start = time.perf_counter()
        results: list[RoundResult] = list(self.executor.run(train_round, self.tasks(now.round)))
        received = time.perf_counter()
        rows = combine(self.shared, [result.change for result in results], self.model.optimizer)
        self.shared["items"][rows] = projected(self.model, "items", self.shared["items"][rows])
        for result in results:
            for name, value in result.totals.items():
                now.loss[name] = now.loss.get(name, 0.0) + value
        combined = time.perf_counter()
        epoch, share = divmod(now.round, self.facts["rounds_per_epoch"])
        now.round += 1
        row = None
        if share == self.facts["rounds_per_epoch"] - 1:
            row = self._end_epoch(epoch, time.perf_counter() - start, callbacks, began)
        self._write()
        self.costs.append(
            RoundCosts(
                now.round - 1,
                time.perf_counter() - start,
                sum(result.seconds["compute"] for result in results),
                sum(result.seconds["read"] + result.seconds["write"] for result in results),
                combined - received,
                sum(result.n_bytes for result in results),
                len(rows),
            )
        )
        return row

    def _end_epoch(self, epoch: int, seconds: float, callbacks: Sequence[Callback], began: float) -> dict[str, Any]:
        now, model = self.progress, self.model
        for name in SHARED:
            if f"mean_{name}" in self.shared:
                mean = self.shared[f"mean_{name}"]
                mean += (self.shared[name] - mean) / min(epoch + 1, model.average)
        n = max(1.0, now.loss.get("n_steps", 0.0))
        row: dict[str, Any] = {"epoch": epoch + 1}
        row |= {name: value / n for name, value in now.loss.items() if name != "n_steps"}
        row["seconds"] = seconds
        now.loss = {}
        due = (epoch + 1) % model.validate_every == 0 or epoch + 1 == model.epochs
        if self.facts["has_valid"] and due:
            self._write(number=now.round)  # partitions read the items from there
            row[model.monitor] = self._validate(epoch)
        now.history.append(row)
        log.info("epoch %s", " ".join(f"{k}={v:.5g}" for k, v in row.items()))
        if 0 < model.patience <= now.without_improvement:
            now.stopped = "early"
        if any(answer is False for answer in [callback(dict(row)) for callback in callbacks]):
            now.stopped = "callback"
        if model.max_minutes is not None and time.monotonic() - began > 60 * model.max_minutes:
            now.stopped = "time"
        return row

    def _validate(self, epoch: int) -> float:
        now = self.progress
        parts: list[PartEvaluation] = list(self.executor.run(evaluate_part, self.tasks(now.round)))
        count = sum(part.n_users for part in parts)
        if not count:
            raise ParameterError(f"monitor={self.model.monitor!r}: no user of the validation data counts for it.")
        score = math.fsum(part.total for part in parts) / count
        if now.best_score is None or score > now.best_score:
            old = now.best_epoch
            now.best_score, now.best_epoch, now.without_improvement = score, epoch + 1, 0
            list(self.executor.run(keep_best, [(task, epoch + 1) for task in self.tasks(now.round)]))
            self.storage.write_arrays(f"best/shared-{epoch + 1:05}", shared_result(self.model, self.shared))
            self._write(number=now.round)  # the new best one is known before the old one is deleted
            for partition in range(self.n_partitions if old else 0):
                self.storage.delete(best_name(partition, old))
            if old:
                self.storage.delete(f"best/shared-{old:05}")
        else:
            now.without_improvement += 1
        return score

    def _mean_loss(self) -> float:
        return self.progress.loss.get("loss", 0.0) / max(1.0, self.progress.loss.get("n_steps", 0.0))

    # ---- files -------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        names = self.storage.names("shared/")
        for name in reversed(names):
            try:
                read, stored = self.storage.read_arrays(name)
            except DamagedFileError as problem:
                log.warning("%s The round before is taken.", problem)
                continue
            number = int(name.rpartition("/")[2])
            if stored.get("between"):  # written for validation, in the middle of a step
                continue
            self.shared = {key: np.array(array) for key, array in read.items()}  # which may be written to
            self.progress = Progress(**stored["progress"])
            if number:
                log.info("%s: goes on after round %d", self.storage.root, number)
            return
        self.shared = shared_start(self.model, self.facts["n_items"])
        self.progress = Progress()
        self._write()

    def _write(self, number: int | None = None) -> None:
        """Write the items and what is known; files of rounds that nobody needs any more are removed."""
        now = self.progress
        facts = {"progress": vars(now), "between": number is not None}
        self.storage.write_arrays(shared_name(now.round), self.shared, facts)
        if number is not None or now.round < 2:
            return
        self.storage.delete(shared_name(now.round - 2))
        for partition in range(self.n_partitions):
            self.storage.delete(state_name(partition, now.round - 2))


def new_run(
    storage: Storage,
    model: DPCML | BPR,
    *,
    partitions: int,
    rounds_per_epoch: int,
    compress: bool,
    data: dict[str, Any],
    write: Callable[[], dict[str, Any]],
) -> None:
    """Begin a run, or find the same one and leave it as it is; another one in the same place is an error.

    ``data`` says which data it is, ``write`` writes the partitions and gives the numbers of all users and items.
    """
    parameters = model.get_params(deep=False)
    identity = {
        "model": type(model).__name__,
        "parameters": {k: _plain(v) for k, v in parameters.items() if k not in _NOT_IN_CHECKPOINT_IDENTITY},
        "partitions": partitions,
        "rounds_per_epoch": rounds_per_epoch,
        "compress": compress,
        "data": data,
    }
    known = storage.read_facts("run.json")
    if known is not None:
        for name, value in identity.items():
            if known.get(name) != value:
                raise ClusterError(
                    f"{storage.root} holds another run: its {name} is {known.get(name)!r}, now it is {value!r}. Give "
                    "another storage, restore the setting, or delete the old run."
                )
        return
    facts = write()
    storage.write_facts("run.json", {**identity, **facts, "token": secrets.token_hex(8)})


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
