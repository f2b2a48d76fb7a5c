"""Items in shards of rows: each is a file for each round, and is combined by itself, where there is room for it.

A partition reads only the rows that it needs and writes its change of each shard to the storage. Shards are combined
row by row, so their number changes the cost, never the result: with one the driver combines, with more the workers do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.cluster.combine import combine
from tastespace.cluster.model_parts import SHARED, projected
from tastespace.cluster.storage import Storage
from tastespace.cluster.worker_version import require_version
from tastespace.models.bpr import BPR
from tastespace.models.dpcml import DPCML
from tastespace.training.loop import Arrays

ITEMS_PER_SHARD = 250_000
"""Of catalogs that are divided without being told how often."""
_FEW = 0.25  # share of a shard's rows up to which they are read alone


@dataclass(frozen=True)
class Shards:
    """Which rows of the items belong to which shard.

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
        """Of ascending rows: each shard, which of them it has, and its first row."""
        for shard, own in enumerate(self.ranges()):
            first, last = np.searchsorted(rows, [own.start, own.stop])
            yield shard, slice(int(first), int(last)), own.start


@dataclass(frozen=True)
class ShardTask:
    """The changes of one shard in a round, to be combined."""

    root: str
    version: str
    """Of the library of the driver."""
    shard: int
    round: int
    n_partitions: int
    model: DPCML | BPR
    epoch: int | None
    """The epoch that ends with this round, for the running mean; None: none does."""


@dataclass(frozen=True)
class ShardResult:
    """What combining a shard took."""

    n_rows: int
    seconds: float


def default_shards(n_items: int) -> int:
    """How many shards a catalog has.

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
    """Some rows, ascending, of the shared arrays before a round but for their means."""
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
                mean += (shard[name] - mean) / min(task.epoch + 1, model.average)
    storage.write_arrays(shard_name(task.shard, task.round + 1), shard)
    return ShardResult(len(rows), time.perf_counter() - began)


def shard_name(shard: int, number: int) -> str:
    """The file of a shard before a round."""
    return f"items/{shard:05}-{number:07}"


def change_name(shard: int, number: int, partition: int) -> str:
    """The file of a partition's change of a shard in a round."""
    return f"changes/{shard:05}-{number:07}-{partition:05}"
