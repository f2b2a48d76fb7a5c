"""Shared items of a cluster: shards of rows, the changes that partitions send, and how these are combined."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.cluster.model_parts import SHARED, epochs_averaged, projected
from tastespace.cluster.storage import Storage, require_version
from tastespace.models.bpr import BPR
from tastespace.models.dpcml.model import DPCML
from tastespace.training.loop import Arrays

# ---------------------------------------------------------------------------------------------------------------------
# Changes of the shared arrays: what a partition sends, and how those of all partitions are combined.
#
# Each partition starts a round at the same items and sends the difference, for the rows that it touched. Differences
# are added, in the order of the partitions. For Adagrad they are scaled: a partition only saw its own gradients, so its
# steps were longer than if it had seen all. With G the sum of squared gradients before the round and g_p those of
# partition p, a partition's path has about the length sqrt(G + g_p) - sqrt(G); all steps one after the other would have
# sqrt(G + sum of g_p) - sqrt(G), and the sum is shortened to that. Sums of squares and numbers of steps are added; the
# moments of Adam are averaged by the numbers of steps.

_PREFIX = {"items": "item", "bias": "bias"}
_LARGEST = 65504.0  # of half precision


def sparse_change(before: Arrays, after: Arrays) -> Arrays:
    """The rows that differ and their differences, by name; ``rows`` are their numbers.

    >>> change = sparse_change({"items": np.zeros((3, 2))}, {"items": np.array([[0, 0], [1, 0], [0, 0]])})
    >>> change["rows"].tolist(), change["items"].tolist()
    ([1], [[1.0, 0.0]])
    """
    touched = np.zeros(len(before["items"]), dtype=bool)
    for name, old in before.items():
        if old.size:
            differs = old != after[name]
            touched |= differs if differs.ndim == 1 else differs.any(axis=1)
    rows = np.flatnonzero(touched).astype(np.int32)
    changes = {name: after[name][rows] - old[rows] for name, old in before.items() if len(old) == len(touched)}
    return {"rows": rows, **changes}


def halved(change: Arrays, residual: Arrays) -> tuple[Arrays, Arrays]:
    """Return a change in half precision, and the rounding errors so far, which are added to the next change.

    ``residual`` has the form of a change, or is empty; steps are whole numbers and stay as they are.

    >>> small, lost = halved({"rows": np.array([3]), "items": np.array([[1.0001]], np.float32)}, {})
    >>> float(small["items"][0, 0]), lost["rows"].tolist(), round(float(lost["items"][0, 0]), 5)
    (1.0, [3], 0.0001)
    """
    rows, small = change["rows"], {"rows": change["rows"]}
    before = residual.get("rows", rows[:0])
    all_rows = np.union1d(before, rows).astype(rows.dtype)
    lost: Arrays = {"rows": all_rows}
    old, own = np.searchsorted(all_rows, before), np.searchsorted(all_rows, rows)
    for name, exact in change.items():
        if exact.dtype != np.float32:
            small[name] = exact
            continue
        lost[name] = np.zeros((len(all_rows), *exact.shape[1:]), np.float32)
        if len(before):
            lost[name][old] = residual[name]
        wanted = exact + lost[name][own]
        small[name] = np.clip(wanted, -_LARGEST, _LARGEST).astype(np.float16)
        lost[name][own] = wanted - small[name].astype(np.float32)
    return small, lost


def combine(shared: Arrays, changes: Sequence[Arrays], optimizer: str) -> NDArray[np.int32]:
    """Apply the changes of all partitions, in order, to the shared arrays in place; returns the rows that changed.

    >>> items = {"items": np.zeros((2, 1), np.float32), "item_first": np.zeros((2, 1), np.float32)}
    >>> one = {"rows": np.array([1]), "items": np.array([[0.5]]), "item_first": np.array([[4.0]])}
    >>> combine(items, [one], "adagrad").tolist(), items["items"].tolist(), items["item_first"].tolist()
    ([1], [[0.0], [0.5]], [[0.0], [4.0]])
    """
    rows = np.unique(np.concatenate([change["rows"] for change in changes])).astype(np.int32)
    places = [np.searchsorted(rows, change["rows"]) for change in changes]
    for name, prefix in _PREFIX.items():
        if name not in shared:
            continue
        total = _sum(rows, places, [change[name] for change in changes])
        if optimizer == "adagrad":
            total *= _shortened(shared[f"{prefix}_first"][rows], rows, places, [c[f"{prefix}_first"] for c in changes])
        shared[name][rows] += total.astype(np.float32)
        if optimizer == "adagrad":
            _add(shared, f"{prefix}_first", rows, places, changes)
        elif optimizer == "adam":
            _average_moments(shared, prefix, rows, places, changes)
    return rows


def _sum(rows: NDArray[np.int32], places: Sequence[NDArray[np.int64]], parts: Sequence[NDArray[Any]]) -> Any:
    total = np.zeros((len(rows), *parts[0].shape[1:]), dtype=np.float64)
    for at, part in zip(places, parts, strict=True):
        total[at] += part
    return total


def _add(
    shared: Arrays,
    name: str,
    rows: NDArray[np.int32],
    places: Sequence[NDArray[np.int64]],
    changes: Sequence[Arrays],
) -> None:
    shared[name][rows] += _sum(rows, places, [change[name] for change in changes]).astype(shared[name].dtype)


def _shortened(
    before: NDArray[np.float32],
    rows: NDArray[np.int32],
    places: Sequence[NDArray[np.int64]],
    squares: Sequence[NDArray[np.float32]],
) -> NDArray[np.float64]:
    """Factor of at most 1, for each number, by which a sum of Adagrad's steps is shortened."""
    start = before.astype(np.float64)
    root = np.sqrt(start)
    length = np.zeros_like(start)
    for at, square in zip(places, squares, strict=True):
        length[at] += np.sqrt(np.maximum(0.0, start[at] + square)) - root[at]
    whole = np.sqrt(np.maximum(0.0, start + _sum(rows, places, squares))) - root
    return np.divide(whole, length, out=np.ones_like(whole), where=length > 0)


def _average_moments(
    shared: Arrays,
    prefix: str,
    rows: NDArray[np.int32],
    places: Sequence[NDArray[np.int64]],
    changes: Sequence[Arrays],
) -> None:
    steps = [change[f"{prefix}_steps"] for change in changes]
    total = np.maximum(1, _sum(rows, places, steps))
    for part in ("first", "second"):
        name = f"{prefix}_{part}"
        wide = (slice(None), *(None,) * (shared[name].ndim - 1))
        weighted = [change[name] * step[wide] for change, step in zip(changes, steps, strict=True)]
        shared[name][rows] += (_sum(rows, places, weighted) / total[wide]).astype(np.float32)
    _add(shared, f"{prefix}_steps", rows, places, changes)


# ---------------------------------------------------------------------------------------------------------------------
# Items in shards of rows: each is a file for each round, and is combined by itself, where there is room for it.
#
# A partition reads only the rows that it needs and writes its change of each shard to the storage. Shards are combined
# row by row, so their number changes the cost, never the result: with one the driver combines, with more the workers
# do.

ITEMS_PER_SHARD = 250_000
"""Items per shard unless the number of shards is given."""
_FEW = 0.25  # share of a shard's rows up to which they are read alone


@dataclass(frozen=True)
class Shards:
    """Division of the rows of items into shards.

    >>> shards = Shards(10, 3)
    >>> [(rows.start, rows.stop) for rows in shards.ranges()]
    [(0, 3), (3, 6), (6, 10)]
    """

    n_items: int
    n_shards: int

    def ranges(self) -> list[range]:
        """The rows of each shard."""
        n, cuts = self.n_shards, self.n_items
        return [range(cuts * shard // n, cuts * (shard + 1) // n) for shard in range(n)]

    def divided(self, rows: NDArray[np.integer[Any]]) -> Iterator[tuple[int, slice, int]]:
        """Divide ascending rows among the shards: yields the shard, its slice of ``rows``, and its first row."""
        for shard, own in enumerate(self.ranges()):
            first, last = np.searchsorted(rows, [own.start, own.stop])
            yield shard, slice(int(first), int(last)), own.start


@dataclass(frozen=True)
class ShardTask:
    """The changes of one shard in a round, to be combined."""

    root: str
    version: str
    """Version of the library on the driver."""
    shard: int
    round: int
    n_partitions: int
    model: DPCML | BPR
    epoch: int | None
    """The epoch that ends with this round, for the running mean; None: none does."""


@dataclass(frozen=True)
class ShardResult:
    """Cost of combining a shard."""

    n_rows: int
    seconds: float


def default_shards(n_items: int) -> int:
    """Return the number of shards of a catalog.

    >>> default_shards(1000), default_shards(1_000_000)
    (1, 4)
    """
    return max(1, math.ceil(n_items / ITEMS_PER_SHARD))


def write_shards(storage: Storage, shards: Shards, number: int, shared: Arrays) -> None:
    """Write the shared arrays before a round."""
    for shard, rows in enumerate(shards.ranges()):
        part = {name: array[rows.start : rows.stop] if array.size else array for name, array in shared.items()}
        storage.write_arrays(shard_name(shard, number), part)


def read_shards(storage: Storage, shards: Shards, number: int) -> Arrays:
    """The shared arrays before a round, all rows."""
    parts = [storage.read_arrays(shard_name(shard, number))[0] for shard in range(shards.n_shards)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@lru_cache(maxsize=2)
def all_items(root: str, token: str, shards: Shards, number: int) -> Arrays:
    """The shared arrays before a round, kept for the other partitions of this process."""
    return read_shards(Storage(root), shards, number)


def read_item_rows(storage: Storage, shards: Shards, number: int, rows: NDArray[np.int64]) -> Arrays:
    """Some rows, ascending, of the shared arrays before a round, without their means."""
    parts: list[Arrays] = []
    for shard, (_, own, start) in enumerate(shards.divided(rows)):
        here = rows[own] - start
        name = shard_name(shard, number)
        if len(here) > _FEW * len(shards.ranges()[shard]):
            found = {key: array[here] for key, array in storage.read_arrays(name)[0].items() if array.size}
        elif len(here):
            found = storage.read_rows(name, here)
        else:
            continue
        parts.append({key: array for key, array in found.items() if not key.startswith("mean_")})
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]} if parts else {}


def write_change(storage: Storage, shards: Shards, number: int, partition: int, change: Arrays) -> None:
    """Write the change of a partition, a file for each shard. It may be computed again, so it is not flushed."""
    rows = change["rows"]
    for shard, own, start in shards.divided(rows):
        part = {name: array[own] for name, array in change.items()}
        part["rows"] = (rows[own] - start).astype(np.int32)
        storage.write_arrays(change_name(shard, number, partition), part, flush=False)


def combine_shard(task: ShardTask) -> ShardResult:
    """Apply the changes of all partitions, in their order, to one shard, and write it for the next round."""
    require_version(task.version)
    began = time.perf_counter()
    storage, model = Storage(task.root), task.model
    names = [change_name(task.shard, task.round, partition) for partition in range(task.n_partitions)]
    changes = [storage.read_arrays(name)[0] for name in names]
    shard = {key: np.array(one) for key, one in storage.read_arrays(shard_name(task.shard, task.round))[0].items()}
    rows = combine(shard, changes, model.optimizer)
    shard["items"][rows] = projected(model, "items", shard["items"][rows])
    if task.epoch is not None:
        for name in SHARED:
            if f"mean_{name}" in shard:
                mean = shard[f"mean_{name}"]
                mean += (shard[name] - mean) / min(epochs_averaged(model, task.epoch), model.average)
    storage.write_arrays(shard_name(task.shard, task.round + 1), shard)
    return ShardResult(len(rows), time.perf_counter() - began)


def shard_name(shard: int, number: int) -> str:
    """The file of a shard before a round."""
    return f"items/{shard:05}-{number:07}"


def change_name(shard: int, number: int, partition: int) -> str:
    """The file of a partition's change of a shard in a round."""
    return f"changes/{shard:05}-{number:07}-{partition:05}"
