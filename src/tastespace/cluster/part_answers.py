"""What is computed where the users of a partition are: metrics and lists, with the vectors of the run."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.cluster.model_parts import fitted, rows_only, shared_result, users_result
from tastespace.cluster.partitions import read_ids, user_ids
from tastespace.cluster.rounds import (
    PartTask,
    best_name,
    data_name,
    part_state,
    run_facts,
    shared_state,
)
from tastespace.cluster.storage import Storage
from tastespace.cluster.worker_version import require_version
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.evaluation import evaluate
from tastespace.models.bpr import BPR
from tastespace.models.dpcml import DPCML
from tastespace.training.loop import Arrays


@dataclass(frozen=True)
class PartEvaluation:
    """The sum of a metric over the users of a partition for whom it counts, and how many these are."""

    total: float
    n_users: int


def evaluate_part(task: PartTask) -> PartEvaluation:
    """The monitored metric on the validation data of one partition, with the vectors before a round."""
    require_version(task.version)
    storage = Storage(task.root)
    model, _ = run_facts(task)
    arrays, facts = storage.read_arrays(data_name(task.partition))
    if not len(arrays["valid_indices"]):
        return PartEvaluation(0.0, 0)
    train = rows_only(arrays["offsets"], arrays["indices"], facts["n_items"])
    held_out = Interactions(train.users, train.items, arrays["valid_offsets"], arrays["valid_indices"])
    found = _fitted_part(storage, task, model, train, users_result(model, part_state(storage, task)))
    metric = model._monitored_metric(train)
    report = evaluate(
        found, held_out, seen=[train], metrics=[metric], protocol=model.monitor_protocol, threads=task.threads
    )
    n = report.n_users[metric]
    return PartEvaluation(float(report[metric]) * n if n else 0.0, n)


def keep_best(what: tuple[PartTask, int]) -> None:
    """Keep the user vectors of an epoch as those of the best one."""
    task, epoch = what
    require_version(task.version)
    storage = Storage(task.root)
    model, _ = run_facts(task)
    state = part_state(storage, task)
    storage.write_arrays(best_name(task.partition, epoch), {"users": users_result(model, state), **_means(state)})


def kept_users(storage: Storage, task: PartTask, model: DPCML | BPR, best_epoch: int) -> Arrays:
    """The user vectors of a partition that the model keeps (``users``), and the optimizer's means of each row."""
    if best_epoch:
        return storage.read_arrays(best_name(task.partition, best_epoch))[0]
    state = part_state(storage, task)
    return {"users": users_result(model, state), **_means(state)}


def _means(state: Arrays) -> Arrays:
    """For each row the mean of the optimizer's state, which updates of the model start from."""
    return {
        name: array.mean(axis=1) if array.ndim == 2 else array
        for name, array in state.items()
        if name.startswith("user_") and array.size
    }


@dataclass(frozen=True)
class ListTask:
    """Lists of all users of one partition."""

    task: PartTask
    best_epoch: int
    k: int
    out: str
    """Folder or address of the Parquet files."""
    options: dict[str, Any]


def write_lists(lists: ListTask) -> int:
    """Write the lists of one partition as ``part-00000.parquet``; gives the number of rows."""
    task = lists.task
    require_version(task.version)
    storage = Storage(task.root)
    model, _ = run_facts(task)
    arrays, _ = storage.read_arrays(data_name(task.partition))
    users = IdMap(user_ids(storage, task.partition), "user")
    items = IdMap(read_ids(storage, "items.parquet"), "item")
    train = Interactions(users, items, arrays["offsets"], arrays["indices"])
    if not train.n_users:
        return 0
    vectors = kept_users(storage, task, model, lists.best_epoch)["users"]
    found = _fitted_part(storage, task, model, train, vectors, lists.best_epoch)
    frame: pl.DataFrame = found.recommend(None, lists.k, threads=task.threads, **lists.options)
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    Storage(lists.out).write(f"part-{task.partition:05}.parquet", buffer.getvalue())
    return len(frame)


def _fitted_part(
    storage: Storage,
    task: PartTask,
    model: DPCML | BPR,
    train: Interactions,
    users: NDArray[np.float32],
    best_epoch: int = 0,
) -> DPCML | BPR:
    if best_epoch:
        shared = storage.read_arrays(f"best/shared-{best_epoch:05}")[0]
    else:
        shared = shared_result(model, shared_state(task))
    return fitted(model, train, users, shared)
