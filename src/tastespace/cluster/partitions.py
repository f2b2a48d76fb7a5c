"""Users divided into partitions by a hash of their ids, from `Interactions` or from Parquet files."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_whole
from tastespace.cluster.executors import Executor
from tastespace.cluster.rounds import data_name
from tastespace.cluster.storage import Storage, library_version, require_version
from tastespace.data.ids import IdMap, encode
from tastespace.data.interactions import Interactions
from tastespace.data.out_of_core.chunks import FileChunks
from tastespace.data.reading.build import read_ids as checked_ids
from tastespace.data.reading.tables import raise_all
from tastespace.errors import Argument, DataError, ParameterError
from tastespace.models.dpcml.start import rows_of_users
from tastespace.training.loop import Arrays

# ---------------------------------------------------------------------------------------------------------------------
# Users divided into partitions, by a hash of their ids: the same user is in the same partition everywhere.

ITEMS = "item-ids"
"""Name of the file with the ids of all items."""
_BLOCK = 1 << 20


def partition_of(ids: pl.Series, n_partitions: int) -> NDArray[np.int32]:
    """The partition of each id, shape ``(n,)``; a function of the id alone, in every version and on every machine.

    >>> partition_of(pl.Series(["ann", "bob", "ann"]), 4).tolist()
    [3, 0, 3]
    """
    values = ids.to_physical() if ids.dtype.is_temporal() else ids
    if values.dtype.is_integer() and values.dtype not in (pl.UInt64, pl.Int128):
        mixed = values.cast(pl.Int64).to_numpy().astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finalizer of splitmix64
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
        return (mixed % np.uint64(n_partitions)).astype(np.int32)
    texts = values.cast(pl.String).to_list()
    return np.fromiter((zlib.crc32(text.encode()) % n_partitions for text in texts), np.int32, len(texts))


def require_users(n_users: int, n_partitions: int) -> None:
    """Raise where there are more partitions than users."""
    if n_users < n_partitions:
        raise ParameterError(
            Argument("partitions", n_partitions),
            f": the data has {n_users:,} users. Take fewer partitions: at most as many, and a "
            "thousand users or more in each are better.",
        )


def write_partitions(storage: Storage, train: Interactions, valid: Interactions | None, n_partitions: int) -> None:
    """Write the rows of each partition's users; one partition at a time is in memory."""
    require_users(train.n_users, n_partitions)
    of_user = np.concatenate(
        [
            partition_of(train.users.series[first : first + _BLOCK], n_partitions)
            for first in range(0, train.n_users, _BLOCK)
        ]
    )
    for partition in range(n_partitions):
        rows = np.flatnonzero(of_user == partition)
        held_out = None if valid is None else valid.rows_of(rows)
        write_partition(storage, partition, train.users.take(rows), *train.rows_of(rows), train.n_items, held_out)
    write_whole(storage, train.items.series, train.n_users, train.n_interactions, train.item_counts)


def write_partition(
    storage: Storage,
    partition: int,
    users: pl.Series,
    offsets: NDArray[np.int64],
    indices: NDArray[np.int32],
    n_items: int,
    valid: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None,
) -> None:
    """Write the rows and the ids of one partition's users."""
    arrays: Arrays = {"offsets": offsets, "indices": indices}
    if valid is not None:
        arrays |= {"valid_offsets": valid[0], "valid_indices": valid[1]}
    storage.write_arrays(data_name(partition), arrays, {"n_items": n_items})
    storage.write_frame(_users_name(partition), users.alias("user").to_frame())


def write_whole(
    storage: Storage, items: pl.Series, n_users: int, n_interactions: int, item_counts: NDArray[np.int64]
) -> None:
    """Write the items and their counts, which all partitions have in common."""
    storage.write_frame(ITEMS, items.alias("item").to_frame())
    storage.write_arrays(
        "whole", {"item_counts": item_counts}, {"n_users": int(n_users), "n_interactions": int(n_interactions)}
    )


def read_ids(storage: Storage, name: str) -> pl.Series:
    """Ids that were written."""
    return storage.read_frame(name).to_series()


def user_ids(storage: Storage, partition: int) -> pl.Series:
    """The ids of a partition's users."""
    return read_ids(storage, _users_name(partition))


def _users_name(partition: int) -> str:
    return f"users/{partition:05}"


# ---------------------------------------------------------------------------------------------------------------------
# From Parquet files to partitions without a driver that reads them: each file and each partition is a task.
#
# 1. A task for each file divides its rows by a hash of the user ids and writes them, a file for each partition.
# 2. The driver merges the distinct items of all files, which are few compared with the rows.
# 3. A task for each partition sorts its rows; users with few interactions are dropped there.
# 4. Where items with few interactions are dropped, the counts of all partitions are added first.
#
# The partitions are those that `write_partitions` makes of the same table, so that training gives the same bits.


@dataclass(frozen=True)
class FileTask:
    """Task of dividing one file."""

    root: str
    version: str
    """Version of the library on the driver."""
    path: str
    number: int
    user: str
    item: str
    user_type: str
    item_type: str
    n_partitions: int


@dataclass(frozen=True)
class SortTask:
    """Task of sorting one partition, with the filters."""

    root: str
    version: str
    """Version of the library on the driver."""
    partition: int
    n_files: int
    min_user: int = 1
    keep_items: bool = True
    """True if all items stay; False: those of ``kept-items`` only, from what was sorted already."""


@dataclass(frozen=True)
class SortedPart:
    """Content of a partition."""

    n_users: int
    n_interactions: int
    item_counts: NDArray[np.int64]


def divide_file(task: FileTask) -> tuple[str | Argument, ...] | None:
    """Write the rows of a file, one file for each partition, and its distinct items.

    Returns the parts of the error of a file that cannot be read, else None.
    """
    require_version(task.version)
    storage = Storage(task.root)
    try:
        chunk = next(iter(FileChunks([task.path], {"user": task.user, "item": task.item}).chunks(1 << 40)), None)
        if chunk is None:
            return None
        users, items = (checked_ids(chunk, column, None) for column in (task.user, task.item))
    except DataError as problem:
        return problem.args  # not raised, so that the driver can name all such files
    rows = pl.DataFrame({"user": _as(users, task.user_type), "item": _as(items, task.item_type)})
    of_row = partition_of(rows["user"], task.n_partitions)
    for partition in range(task.n_partitions):
        part = rows.filter(pl.Series(of_row == partition))
        if len(part):
            storage.write_frame(f"shards/{partition:05}-{task.number:06}", part, flush=False)
    storage.write_frame(f"shards/items-{task.number:06}", rows.select(pl.col("item").unique()), flush=False)
    return None


def sort_partition(task: SortTask) -> SortedPart:
    """Sort the rows of a partition by user, each pair once, and write them."""
    require_version(task.version)
    storage = Storage(task.root)
    items = IdMap(read_ids(storage, ITEMS), "item")
    if task.keep_items:
        users, offsets, indices = _sorted_rows(storage, task, items)
        kept = np.diff(offsets) >= task.min_user
    else:
        arrays, _ = storage.read_arrays(data_name(task.partition))
        users, offsets = IdMap(user_ids(storage, task.partition), "user"), arrays["offsets"]
        wanted = storage.read_arrays("kept-items")[0]["kept"]
        place = (np.cumsum(wanted) - 1).astype(np.int32)
        stays = wanted[arrays["indices"]]
        before = np.concatenate([[0], np.cumsum(stays)])
        offsets, indices = before[offsets].astype(np.int64), place[arrays["indices"][stays]]
        items = IdMap(items.series.filter(pl.Series(wanted)), "item")
        kept = np.diff(offsets) > 0
    rows = np.flatnonzero(kept)
    indices = indices[rows_of_users(offsets, rows)]
    offsets = np.concatenate([[0], np.cumsum(np.diff(offsets)[rows])]).astype(np.int64)
    write_partition(storage, task.partition, users.take(rows), offsets, indices, len(items))
    return SortedPart(len(rows), len(indices), np.bincount(indices, minlength=len(items)))


def ingest(
    executor: Executor,
    storage: Storage,
    paths: Sequence[Path],
    n_partitions: int,
    *,
    user: str = "user",
    item: str = "item",
    min_user: int = 1,
    min_item: int = 1,
) -> dict[str, Any]:
    """Write the partitions of the users of Parquet files; returns the numbers of items and interactions."""
    require_whole("min_user", min_user, 0)
    require_whole("min_item", min_item, 0)
    files = FileChunks(paths, {"user": user, "item": item})  # the footers of all files; names all that are damaged
    version = library_version()
    kinds = {column: _kind(files.type_of(column)) for column in (user, item)}
    tasks = [
        FileTask(storage.root, version, str(path), number, user, item, kinds[user], kinds[item], n_partitions)
        for number, path in enumerate(paths)
    ]
    raise_all([DataError(*problem) for problem in executor.run(divide_file, tasks) if problem is not None])
    known = [name for name in storage.names("shards/") if "/items-" in name]
    if not known:
        raise DataError(f"{files.name} has no rows. Expected one row per interaction.")
    items = pl.concat([read_ids(storage, name) for name in known]).unique().sort()
    write_whole(storage, items, 0, 0, np.zeros(len(items), np.int64))
    sorting = [SortTask(storage.root, version, partition, len(paths), min_user) for partition in range(n_partitions)]
    parts = list(executor.run(sort_partition, sorting))
    counts = np.sum([part.item_counts for part in parts], axis=0)
    kept = counts >= max(1, min_item)
    if not kept.any():
        raise DataError(
            Argument("min_user", min_user),
            " and ",
            Argument("min_item", min_item),
            f" drop everything: no item has more than {int(counts.max(initial=0)):,} interactions of the users that "
            "are left. Lower them.",
        )
    if not kept.all():
        storage.write_arrays("kept-items", {"kept": kept})
        parts = list(executor.run(sort_partition, [replace(task, keep_items=False) for task in sorting]))
        items = items.filter(pl.Series(kept))
        counts = np.sum([part.item_counts for part in parts], axis=0)
    for name in storage.names("shards/"):
        storage.delete(name)
    n_users, n_interactions = (sum(getattr(part, name) for part in parts) for name in ("n_users", "n_interactions"))
    require_users(n_users, n_partitions)
    write_whole(storage, items, n_users, n_interactions, counts)
    return {"n_items": len(items), "n_interactions": n_interactions, "has_valid": False}


def gathered_rows(storage: Storage, n_partitions: int) -> Interactions:
    """The interactions of all partitions as one table, as it would have been read from the files."""
    items = IdMap(read_ids(storage, ITEMS), "item")
    ids = [user_ids(storage, partition) for partition in range(n_partitions)]
    users = IdMap(pl.concat(ids).sort(), "user")
    rows = [users.find(part) for part in ids]
    found = [storage.read_arrays(data_name(partition))[0] for partition in range(n_partitions)]
    counts = np.zeros(len(users), dtype=np.int64)
    for at, arrays in zip(rows, found, strict=True):
        counts[at] = np.diff(arrays["offsets"])
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = np.zeros(int(offsets[-1]), dtype=np.int32)
    for at, arrays in zip(rows, found, strict=True):
        indices[rows_of_users(offsets, at)] = arrays["indices"]
    return Interactions(users, items, offsets, indices)


def fingerprint_of(paths: Sequence[Path], options: dict[str, Any]) -> str:
    """Identify files by their names, sizes and times of their last change."""
    facts = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return hashlib.sha256(repr((facts, sorted(options.items()))).encode()).hexdigest()[:16]


def _sorted_rows(storage: Storage, task: SortTask, items: IdMap) -> tuple[IdMap, NDArray[np.int64], NDArray[np.int32]]:
    names = [f"shards/{task.partition:05}-{number:06}" for number in range(task.n_files)]
    parts = [storage.read_frame(name) for name in names if storage.has(name)]
    if not parts:
        empty = IdMap(pl.Series([], dtype=_any_user(storage).dtype), "user")
        return empty, np.zeros(1, np.int64), np.zeros(0, np.int32)
    rows = pl.concat(parts)
    users, codes = encode(rows["user"], "user")
    columns = items.find(rows["item"]).astype(np.int32)
    offsets, indices = _native.build_csr(codes, columns, len(users), 1)
    return users, offsets, indices


def _any_user(storage: Storage) -> pl.Series:
    name = next(name for name in storage.names("shards/") if "/items-" not in name)
    return storage.read_frame(name)["user"]


def _kind(dtype: pl.DataType) -> str:
    """Name the type of ids in text, for tasks: files of different types are brought to one."""
    if dtype.is_integer():
        return str(dtype)
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "String"
    raise DataError(f"ids of type {dtype} cannot be divided among workers: turn them into whole numbers or text.")


def _as(ids: pl.Series, kind: str) -> pl.Series:
    return ids.cast(getattr(pl, kind))
