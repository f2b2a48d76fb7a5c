"""Users divided into partitions, by a hash of their ids: the same user is in the same partition everywhere."""

from __future__ import annotations

import io
import zlib

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.cluster.rounds import data_name
from tastespace.cluster.storage import Storage
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.training.loop import Arrays

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
            f"partitions={n_partitions}: the data has {n_users:,} users. Take fewer partitions: at most as many, and a "
            "thousand users or more in each are better."
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
    _write_ids(storage, f"users/{partition:05}.parquet", users.alias("user"))


def write_whole(
    storage: Storage, items: pl.Series, n_users: int, n_interactions: int, item_counts: NDArray[np.int64]
) -> None:
    """Write what all partitions have in common."""
    _write_ids(storage, "items.parquet", items.alias("item"))
    storage.write_arrays(
        "whole", {"item_counts": item_counts}, {"n_users": int(n_users), "n_interactions": int(n_interactions)}
    )


def read_ids(storage: Storage, name: str) -> pl.Series:
    """Ids that were written."""
    return pl.read_parquet(io.BytesIO(storage.read(name))).to_series()


def user_ids(storage: Storage, partition: int) -> pl.Series:
    """The ids of a partition's users."""
    return read_ids(storage, f"users/{partition:05}.parquet")


def _write_ids(storage: Storage, name: str, ids: pl.Series) -> None:
    buffer = io.BytesIO()
    ids.to_frame().write_parquet(buffer)
    storage.write(name, buffer.getvalue())
