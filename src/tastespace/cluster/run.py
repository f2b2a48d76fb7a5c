"""The driver of a run: round after round, it hands out partitions, combines their changes and writes the items.

It never holds the vectors of all users. Where it is killed, the same call resumes after the last finished round.
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

from tastespace.cluster.answers import PartEvaluation, evaluate_part, keep_best
from tastespace.cluster.executors import Executor
from tastespace.cluster.items import (
    ShardResult,
    ShardTask,
    change_name,
    combine_shard,
    default_shards,
    read_shards,
    shard_name,
    write_shards,
)
from tastespace.cluster.model_parts import least_epochs, named_model, shared_result, shared_start
from tastespace.cluster.rounds import (
    PartTask,
    RoundResult,
    best_name,
    shards_of,
    shared_name,
    state_name,
    train_round,
)
from tastespace.cluster.storage import DamagedFileError, Storage, library_version
from tastespace.errors import Argument, ClusterError, ParameterError
from tastespace.models.bpr import BPR
from tastespace.models.dpcml.model import DPCML
from tastespace.models.trained import _NOT_IN_CHECKPOINT_IDENTITY
from tastespace.training.loop import Arrays, Callback, EpochBar

log = logging.getLogger(__name__)


@dataclass
class RoundCosts:
    """Costs of one round."""

    round: int
    seconds: float
    """Time from handing out the partitions to the new items on the storage."""
    compute: float
    """Sum over partitions of the time in the kernel."""
    files: float
    """Sum over partitions of reading and writing their files."""
    combine: float
    """Sum over shards of combining the changes, with their files."""
    n_fetched: int
    """Sum of the items that partitions read."""
    n_bytes: int
    """Sum of the changes that partitions sent."""
    n_rows: int
    """Items that changed."""


@dataclass
class Progress:
    """State of a run after a round, written with the items of the next."""

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
        self.shards = shards_of(facts)
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
        """Return the tasks of the partitions in a round."""
        return [
            PartTask(self.storage.root, self.facts["token"], library_version(), partition, number, self._threads)
            for partition in range(self.n_partitions)
        ]

    def result(self) -> tuple[Arrays, int]:
        """The shared arrays of the model that is kept, and its epoch."""
        if self.progress.best_epoch:
            return self.storage.read_arrays(f"best/shared-{self.progress.best_epoch:05}")[0], self.progress.best_epoch
        return shared_result(self.model, self.shared()), len(self.progress.history)

    def shared(self) -> Arrays:
        """The shared arrays as they are now."""
        return read_shards(self.storage, self.shards, self.progress.round)

    # ---- rounds ------------------------------------------------------------------------------------------------

    def _one_round(self, callbacks: Sequence[Callback], began: float) -> dict[str, Any] | None:
        now = self.progress
        start = time.perf_counter()
        results: list[RoundResult] = list(self.executor.run(train_round, self.tasks(now.round)))
        for result in results:
            for name, value in result.totals.items():
                now.loss[name] = now.loss.get(name, 0.0) + value
        epoch, share = divmod(now.round, self.facts["rounds_per_epoch"])
        ends_epoch = share == self.facts["rounds_per_epoch"] - 1
        combined = self._combine(now.round, epoch if ends_epoch else None)
        now.round += 1
        row = None
        if ends_epoch:
            row = self._end_epoch(epoch, time.perf_counter() - start, callbacks, began)
        self._write()
        self.costs.append(
            RoundCosts(
                now.round - 1,
                time.perf_counter() - start,
                sum(result.seconds["compute"] for result in results),
                sum(result.seconds["read"] + result.seconds["write"] for result in results),
                sum(shard.seconds for shard in combined),
                sum(result.n_fetched for result in results),
                sum(result.n_bytes for result in results),
                sum(shard.n_rows for shard in combined),
            )
        )
        return row

    def _combine(self, number: int, ends_epoch: int | None) -> list[ShardResult]:
        """Combine the changes of a round: here where there is one shard, else where the workers are."""
        tasks = [
            ShardTask(self.storage.root, library_version(), shard, number, self.n_partitions, self.model, ends_epoch)
            for shard in range(self.shards.n_shards)
        ]
        return [combine_shard(tasks[0])] if len(tasks) == 1 else list(self.executor.run(combine_shard, tasks))

    def _end_epoch(self, epoch: int, seconds: float, callbacks: Sequence[Callback], began: float) -> dict[str, Any]:
        now, model = self.progress, self.model
        n = max(1.0, now.loss.get("n_steps", 0.0))
        row: dict[str, Any] = {"epoch": epoch + 1}
        row |= {name: value / n for name, value in now.loss.items() if name != "n_steps"}
        row["seconds"] = seconds
        now.loss = {}
        due = (epoch + 1) % model.validate_every == 0 or epoch + 1 == model.epochs
        if self.facts["has_valid"] and due:
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
            raise ParameterError(
                Argument("monitor", self.model.monitor), ": no user of the validation data counts for it."
            )
        score = math.fsum(part.total for part in parts) / count
        if now.best_score is None or score > now.best_score:
            old = now.best_epoch
            now.best_score, now.best_epoch, now.without_improvement = score, epoch + 1, 0
            list(self.executor.run(keep_best, [(task, epoch + 1) for task in self.tasks(now.round)]))
            self.storage.write_arrays(f"best/shared-{epoch + 1:05}", shared_result(self.model, self.shared()))
            self._write(between=True)  # the new best one is known before the old one is deleted
            for partition in range(self.n_partitions if old else 0):
                self.storage.delete(best_name(partition, old))
            if old:
                self.storage.delete(f"best/shared-{old:05}")
        elif epoch >= least_epochs(self.model):
            now.without_improvement += 1
        return score

    def _mean_loss(self) -> float:
        return self.progress.loss.get("loss", 0.0) / max(1.0, self.progress.loss.get("n_steps", 0.0))

    # ---- files -------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        for name in reversed(self.storage.names("shared/")):
            try:
                stored = self.storage.read_arrays(name)[1]
                if stored["between"]:  # written after validation, in the middle of a step
                    continue
                self.progress = Progress(**stored["progress"])
                self.shared()  # whether all can be read
            except (DamagedFileError, FileNotFoundError) as problem:
                log.warning("%s The round before is taken.", problem)
                continue
            if self.progress.round:
                log.info("%s: resumes after round %d", self.storage.root, self.progress.round)
            return
        self.progress = Progress()
        write_shards(self.storage, self.shards, 0, shared_start(self.model, self.facts["n_items"]))
        self._write()

    def _write(self, between: bool = False) -> None:
        """Write the state, which finishes the round, and remove files of rounds that are no longer needed."""
        now = self.progress
        self.storage.write_arrays(shared_name(now.round), {}, {"progress": vars(now), "between": between})
        if between or not now.round:
            return
        for shard in range(self.shards.n_shards):
            for partition in range(self.n_partitions):
                self.storage.delete(change_name(shard, now.round - 1, partition))
        if now.round < 2:
            return
        self.storage.delete(shared_name(now.round - 2))
        for shard in range(self.shards.n_shards):
            self.storage.delete(shard_name(shard, now.round - 2))
        for partition in range(self.n_partitions):
            self.storage.delete(state_name(partition, now.round - 2))


def new_run(
    storage: Storage,
    model: DPCML | BPR,
    *,
    partitions: int,
    rounds_per_epoch: int,
    compress: bool,
    item_shards: int | None,
    data: dict[str, Any],
    write: Callable[[], dict[str, Any]],
) -> None:
    """Begin a run, or find the same one and leave it as it is; another one in the same place is an error.

    ``data`` says which data it is, ``write`` writes the partitions and returns the numbers of all users and items.
    """
    parameters = model.get_params(deep=False)
    identity: dict[str, Any] = {
        "model": type(model).__name__,
        "parameters": {k: _plain(v) for k, v in parameters.items() if k not in _NOT_IN_CHECKPOINT_IDENTITY},
        "partitions": partitions,
        "rounds_per_epoch": rounds_per_epoch,
        "compress": compress,
        "data": data,
    }
    known = storage.read_facts("run.json")
    if known is not None:
        old, new = ({**facts, **facts["parameters"], **facts["data"]} for facts in (known, identity))
        for name, value in new.items():
            if name not in ("parameters", "data") and old.get(name) != value:
                raise ClusterError(
                    f"{storage.root} holds another run: its {name} is {old.get(name)!r}, now it is {value!r}. Give "
                    "another storage, restore the setting, or delete the old run."
                )
        return
    facts = write()
    facts["item_shards"] = min(item_shards or default_shards(facts["n_items"]), facts["n_items"])  # cost, not result
    storage.write_facts("run.json", {**identity, **facts, "token": secrets.token_hex(8)})


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
