"""Drop users and items with few interactions from a table in mapped files; the same as in memory (`drop_rare`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.data.interactions_builder import BuildOptions, drops_everything
from tastespace.data.mapped_arrays import release
from tastespace.data.spilled_files import ArrayWriter, array_path

_AT_ONCE = 1 << 20  # interactions


def drop_rare_spilled(data: Interactions, options: BuildOptions, table: Path, keep_items: bool) -> Interactions:
    """The table without them; new files replace the old ones. What is in memory is a few numbers per user and item."""
    if options.min_user <= 1 and options.min_item <= 1:
        return data
    users, items = np.ones(data.n_users, dtype=bool), np.ones(data.n_items, dtype=bool)
    user_counts, item_counts = _counts(data, users, items)
    dropped = {"by_min_user": 0, "by_min_item": 0}
    while True:
        before = int(user_counts.sum())
        for name, minimum in (("by_min_user", options.min_user), ("by_min_item", options.min_item)):
            here = int(user_counts.sum())
            alive, counts = (users, user_counts) if name == "by_min_user" else (items, item_counts)
            most = int(counts.max(initial=0))
            alive &= counts >= minimum
            user_counts, item_counts = _counts(data, users, items)
            left = int(user_counts.sum())
            dropped[name] += here - left
            if here and not left:
                raise drops_everything(name, minimum, here, most, options.core)
        if not options.core or int(user_counts.sum()) == before:
            break
    users &= user_counts > 0
    kept_items = np.ones_like(items) if keep_items else items & (item_counts > 0)
    place = (np.cumsum(kept_items) - 1).astype(np.int32)
    names = [name for name in ("indices", "weights", "timestamps") if getattr(data, name) is not None]
    writers = {name: ArrayWriter(array_path(table, name).with_suffix(".filtered")) for name in names}
    for first, last in _blocks(data.offsets):
        span, keep = _kept(data, users, items, first, last)
        for name in names:
            values = getattr(data, name)[span][keep]
            writers[name].append(place[values] if name == "indices" else values)
    offsets = ArrayWriter(array_path(table, "offsets").with_suffix(".filtered"))
    offsets.append(np.concatenate([[0], np.cumsum(user_counts[users])]).astype(np.int64))
    arrays = {name: writer.close() for name, writer in {**writers, "offsets": offsets}.items()}
    for name in arrays:  # mapped files keep their content under another name
        array_path(table, name).with_suffix(".filtered").replace(array_path(table, name))
    return replace(
        data,
        users=IdMap(data.users.series.filter(pl.Series(users)), "user"),
        items=data.items if keep_items else IdMap(data.items.series.filter(pl.Series(kept_items)), "item"),
        offsets=arrays["offsets"],
        indices=arrays["indices"],
        weights=arrays.get("weights"),
        timestamps=arrays.get("timestamps"),
        cleaning=replace(data.cleaning, **dropped),
    )


def _counts(
    data: Interactions, users: NDArray[np.bool_], items: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Interactions of each user and item among those of users and items that are left."""
    of_users = np.zeros(data.n_users, dtype=np.int64)
    of_items = np.zeros(data.n_items, dtype=np.int64)
    for first, last in _blocks(data.offsets):
        span, keep = _kept(data, users, items, first, last)
        rows = np.repeat(np.arange(last - first), np.diff(data.offsets[first : last + 1]))[keep]
        of_users[first:last] = np.bincount(rows, minlength=last - first)
        of_items += np.bincount(data.indices[span][keep], minlength=data.n_items)
    release(data.indices)
    return of_users, of_items


def _kept(
    data: Interactions, users: NDArray[np.bool_], items: NDArray[np.bool_], first: int, last: int
) -> tuple[slice, NDArray[np.bool_]]:
    """Where the interactions of the users ``first ... last - 1`` are, and which of them are left."""
    span = slice(int(data.offsets[first]), int(data.offsets[last]))
    counts = np.diff(data.offsets[first : last + 1])
    return span, np.repeat(users[first:last], counts) & items[data.indices[span]]


def _blocks(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Users in blocks of about `_AT_ONCE` interactions."""
    first, n_users = 0, len(offsets) - 1
    while first < n_users:
        last = int(np.searchsorted(offsets, offsets[first] + _AT_ONCE, side="right")) - 1
        last = min(n_users, max(first + 1, last))
        yield first, last
        first = last
