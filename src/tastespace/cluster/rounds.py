"""One round of training on one partition: a plain function from files to files. No engine is needed to call it.

A run is a folder or address (`Storage`):

    run.json                      model, partitions, what must be equal to resume it
    whole                         numbers of all users and interactions, users of each item
    data/<partition>              rows of the partition's users, and their validation items
    users/<partition>             ids of these users, in ascending order
    item-ids                      ids of all items
    shared/<round>                the history so far: a round that has this file is finished
    items/<shard>-<round>         items before the round, a range of rows (`item_shards`)
    changes/<shard>-<round>-<p>   what partition p changed of them in the round
    state/<partition>-<round>     user vectors before the round, and their optimizer's state
    best/<partition>-<epoch>      user vectors of the best epoch so far

What a round computes depends on the files, the partition and the number of the round alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tastespace._util.threads import resolve_threads
from tastespace.cluster.items import (
    Shards,
    all_items,
    halved,
    read_item_rows,
    shard_name,
    sparse_change,
    write_change,
)
from tastespace.cluster.model_parts import (
    Whole,
    is_shared,
    named_model,
    part_trainer,
    rows_only,
    splits_before,
    touched_rows,
)
from tastespace.cluster.storage import DamagedFileError, Storage, require_version
from tastespace.data.interactions import Interactions
from tastespace.data.out_of_core.mapped_arrays import all_finite
from tastespace.errors import ClusterError, TrainingError
from tastespace.models.bpr import BPR
from tastespace.models.dpcml.model import DPCML
from tastespace.training.loop import Arrays


@dataclass(frozen=True)
class PartTask:
    """Task of a worker: the storage of the run, and the part to compute."""

    root: str
    token: str
    """Identity of the run, so that files of another run in the same place are not used."""
    version: str
    """Version of the library on the driver."""
    partition: int
    round: int
    threads: int = 1
    """Threads of the kernels; 0: all cores of the worker's machine."""
    replay: bool = True
    """True if a damaged state may be computed again from the round before."""


@dataclass(frozen=True)
class RoundResult:
    """Result of a partition's round, for the driver."""

    partition: int
    n_fetched: int
    """Bytes of items that were read."""
    n_bytes: int
    """Size of the change that was written, see `tastespace.cluster.items`."""
    totals: dict[str, float]
    seconds: dict[str, float]
    """Seconds of reading, training and writing."""


def train_round(task: PartTask) -> RoundResult:
    """Train one partition for one round: reads its state and the items, writes its new state and the change."""
    require_version(task.version)
    storage = Storage(task.root)
    began = time.perf_counter()
    model, run = run_facts(task)
    train, whole = training_rows(storage, task), whole_of(task.root, task.token)
    threads = resolve_threads(task.threads)
    trainer = part_trainer(model, train, whole, task.partition, threads)
    epoch, share = divmod(task.round, run["rounds_per_epoch"])
    shards = shards_of(run)
    state = trainer.state()
    if shards.n_shards == 1:
        rows, before = np.arange(train.n_items), shared_state(task)
        before = {name: array for name, array in before.items() if not name.startswith("mean_") and array.size}
    else:
        places = trainer.range_of_share(share, run["rounds_per_epoch"])
        rows = touched_rows(model, train, whole, task.partition, epoch, places, threads)
        if share == 0 and splits_before(model, epoch):
            rows = np.union1d(rows, train.indices)  # the vectors of a user start at clusters of the whole history
        before = read_item_rows(storage, shards, task.round, rows)
        if not len(rows):
            before = {name: array[:0] for name, array in state.items() if is_shared(name) and array.size}
    for name, array in before.items():
        state[name][rows] = array
    residual: Arrays = {}
    if task.round:
        stored = part_state(storage, task)
        residual = {name.removeprefix("lost."): one for name, one in stored.items() if name.startswith("lost.")}
        for name, array in state.items():
            if not is_shared(name):
                np.copyto(array, stored[name])
    read = time.perf_counter()
    totals = trainer.train_share(epoch, share, run["rounds_per_epoch"])
    if share == run["rounds_per_epoch"] - 1:
        trainer.end_epoch(epoch)
    after = {name: state[name][rows] for name in before}
    own = {name: array for name, array in state.items() if not is_shared(name)}
    for name, array in (after | own).items():
        if not all_finite(array):
            raise TrainingError(
                f"training diverged in epoch {epoch + 1}: {name!r} of partition {task.partition} became NaN or "
                "infinite. Lower learning_rate."
            )
    change = sparse_change(before, after)
    change["rows"] = rows[change["rows"]].astype(np.int32)
    if run["compress"]:
        change, residual = halved(change, residual)
    trained = time.perf_counter()
    if task.replay:  # else the round is finished, and only the state is wanted
        write_change(storage, shards, task.round, task.partition, change)
    own |= {f"lost.{name}": one for name, one in residual.items()}
    storage.write_arrays(state_name(task.partition, task.round + 1), own, flush=False)  # `part_state` replays it
    seconds = {"read": read - began, "compute": trained - read, "write": time.perf_counter() - trained}
    fetched, sent = (sum(array.nbytes for array in arrays.values()) for arrays in (before, change))
    return RoundResult(task.partition, fetched, sent, totals, seconds)


def part_state(storage: Storage, task: PartTask) -> Arrays:
    """The state of a partition before a round. A damaged or missing one is computed again from the round before."""
    name = state_name(task.partition, task.round)
    try:
        return storage.read_arrays(name)[0]
    except (DamagedFileError, FileNotFoundError) as problem:
        last = PartTask(task.root, task.token, task.version, task.partition, task.round - 1, task.threads, replay=False)
        can_replay = (
            task.replay
            and (last.round == 0 or storage.has(state_name(task.partition, last.round)))
            and storage.has(shard_name(0, last.round))
        )
        if not can_replay:
            raise ClusterError(
                f"{storage.root}/{name} cannot be used ({problem}), nor computed again from the round before. Delete "
                f"{storage.root} to train from the start."
            ) from problem
        train_round(last)
        return storage.read_arrays(name)[0]


def training_rows(storage: Storage, task: PartTask, kind: str = "") -> Interactions:
    """The rows of a partition's users: training data or, with ``kind="valid_"``, validation data."""
    name = data_name(task.partition)
    try:
        arrays, facts = storage.read_arrays(name)
    except (DamagedFileError, FileNotFoundError) as problem:
        raise ClusterError(
            f"partition {task.partition} cannot be read ({problem}). Delete {storage.root} to divide the data again, "
            "or restore the file: what is learned is kept."
        ) from problem
    return rows_only(arrays[f"{kind}offsets"], arrays[f"{kind}indices"], facts["n_items"])


def shared_state(task: PartTask) -> Arrays:
    """The shared arrays before a round."""
    return all_items(task.root, task.token, shards_of(run_facts(task)[1]), task.round)


def shards_of(facts: dict[str, Any]) -> Shards:
    """Return the division of the items of a run."""
    return Shards(facts["n_items"], facts["item_shards"])


@lru_cache(maxsize=2)
def whole_of(root: str, token: str) -> Whole:
    """Return the facts about all partitions that each partition needs."""
    arrays, facts = Storage(root).read_arrays("whole")
    return Whole(facts["n_users"], facts["n_interactions"], arrays["item_counts"])


def run_facts(task: PartTask) -> tuple[DPCML | BPR, dict[str, Any]]:
    """Return the model of a run and the facts written with it."""
    return _run_facts(task.root, task.token)


@lru_cache(maxsize=2)
def _run_facts(root: str, token: str) -> tuple[DPCML | BPR, dict[str, Any]]:
    facts = Storage(root).read_facts("run.json")
    if facts is None or facts["token"] != token:
        raise ClusterError(
            f"{root} holds no such run. Workers and driver must see the same files: give storage= an address that all "
            "of them reach, such as a shared folder or s3://bucket/run."
        )
    return named_model(facts["model"], facts["parameters"]), facts


def state_name(partition: int, number: int) -> str:
    """The file of a partition's state before a round."""
    return f"state/{partition:05}-{number:07}"


def shared_name(number: int) -> str:
    """Name the file of the run's state before a round."""
    return f"shared/{number:07}"


def data_name(partition: int) -> str:
    """The file of a partition's rows."""
    return f"data/{partition:05}"


def best_name(partition: int, epoch: int) -> str:
    """The file of a partition's user vectors of the best epoch."""
    return f"best/{partition:05}-{epoch:05}"
