"""Build `Interactions` in mapped files, in passes that hold a part of the rows at a time."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.memory import bytes_of
from tastespace._util.threads import require_polars
from tastespace.data.ids import IdMap, encode
from tastespace.data.interactions import Cleaning, Interactions
from tastespace.data.out_of_core.chunks import FileChunks
from tastespace.data.out_of_core.files import (
    ArrayWriter,
    array_path,
    finish_table,
    new_table,
    open_spilled,
)
from tastespace.data.out_of_core.mapped_arrays import release
from tastespace.data.reading.build import (
    catalog_of,
    drops_everything,
    merge_repeats,
    read_ids,
    read_numbers,
    read_times,
    require_size,
    warn_of_ratings,
    with_attributes,
)
from tastespace.data.reading.options import ReadOptions
from tastespace.data.reading.tables import Table
from tastespace.errors import Argument, DataError, ParameterError

# ---------------------------------------------------------------------------------------------------------------------
# Drop users and items with few interactions from a table in mapped files; the same as in memory (`drop_rare`).

_AT_ONCE = 1 << 20  # interactions


def drop_rare_spilled(data: Interactions, options: ReadOptions, table: Path) -> Interactions:
    """Drop rare users and items; new files replace the old ones. Memory holds a few numbers per user and item."""
    if options.min_user <= 1 and options.min_item <= 1:
        return data
    keep_items = options.catalog is not None
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
        span, keep = _kept_rows(data, users, items, first, last)
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
        span, keep = _kept_rows(data, users, items, first, last)
        rows = np.repeat(np.arange(last - first), np.diff(data.offsets[first : last + 1]))[keep]
        of_users[first:last] = np.bincount(rows, minlength=last - first)
        of_items += np.bincount(data.indices[span][keep], minlength=data.n_items)
    release(data.indices)
    return of_users, of_items


def _kept_rows(
    data: Interactions, users: NDArray[np.bool_], items: NDArray[np.bool_], first: int, last: int
) -> tuple[slice, NDArray[np.bool_]]:
    """Return the span of the interactions of the users ``first ... last - 1``, and a mask of those that are left."""
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


# ---------------------------------------------------------------------------------------------------------------------
# From files to `Interactions` in mapped files, in passes that hold a part of the rows at a time.
#
# 1. Each chunk of rows is read for the distinct items, which stay in memory, and a sample of the user ids, whose
#    quantiles divide all users into ranges of about equal numbers of rows.
# 2. Each chunk is read again and its rows are written to the files of the ranges: user id, item index, weight, time.
# 3. Range after range, in the order of the ids, is sorted into rows by the same code that builds tables in memory.
#
# The division into chunks and ranges changes the time and the memory, never the result.

log = logging.getLogger(__name__)

LEAST_MEMORY = 32_000_000
_OVERHEAD = 72  # bytes per row, for what sorting a range needs besides its columns
_SAMPLE = 4096  # user ids of a chunk, for the ranges
_MOST_RATINGS = 1_000  # distinct ones that are counted
_MOST_RANGES = 1024


def build_spilled(files: FileChunks, options: ReadOptions, rows_at_once: int | None = None) -> Interactions:
    """`Interactions` in mapped files in the folder ``options.spill``, the same as `build` returns for the same files.

    ``rows_at_once`` overrides what follows from ``options.memory``, for tests.
    """
    require_polars("reading a table of interactions")
    assert options.spill is not None
    limit = bytes_of(options.memory)
    if limit < LEAST_MEMORY:
        raise ParameterError(Argument("memory", options.memory), f": expected at least {LEAST_MEMORY // 10**6}MB.")
    if rows_at_once is None:
        rows_at_once = max(1000, int(limit / (3 * (files.bytes_per_row() + _OVERHEAD))))
    if not files.n_rows:
        raise DataError(f"{files.name} has no rows. Expected one row per interaction.")
    found = _first_pass(files, options, rows_at_once)
    items = found.items if options.catalog is None else catalog_of(found.items, options)[0]
    with new_table(options.spill) as table:
        cuts = _cuts(found.samples, found.kept, rows_at_once)
        ranges = table / "ranges"
        _second_pass(files, options, rows_at_once, items, cuts, ranges)
        data = _third_pass(table, ranges, len(cuts) + 1, options, items)
        shutil.rmtree(ranges)
        if data.cleaning.duplicates and options.duplicates == "error":
            repeats = data.cleaning.duplicates
            raise DataError(
                f"{files.name}: {repeats:,} rows repeat a pair of user and item; ", Argument("duplicates", "error"), "."
            )
        cleaning = replace(data.cleaning, rows=files.n_rows, below_min_rating=files.n_rows - found.kept)
        data = drop_rare_spilled(replace(data, cleaning=cleaning), options, table)
        require_size(data, 1 if options.part else 2)
        arrays = {name: getattr(data, name) for name in ("offsets", "indices", "weights", "timestamps")}
        there = {name: array for name, array in arrays.items() if array is not None}
        finish_table(table, there, {"user": data.users.series, "item": data.items.series}, data.cleaning)
    del data, arrays, there
    data = open_spilled(options.spill)
    return with_attributes(data, options, files.name)


@dataclass
class _Found:
    """Result of the first pass."""

    items: IdMap
    kept: int = 0
    """Rows that reach ``min_rating``."""
    samples: list[pl.Series] = field(default_factory=list)


def _first_pass(files: FileChunks, options: ReadOptions, rows_at_once: int) -> _Found:
    known: pl.Series | None = None
    found = _Found(IdMap(pl.Series([], dtype=pl.Int64), "item"))
    largest, ratings = -np.inf, Counter[float]()
    for chunk in files.chunks(rows_at_once, all_problems=True):
        keep, most = _kept(chunk, options)
        largest = max(largest, most)
        if options.rating is not None and options.min_rating is None and len(ratings) <= _MOST_RATINGS:
            ratings += Counter(read_numbers(chunk, options.rating).tolist())
        users, items = (read_ids(chunk, column, keep) for column in (options.user, options.item))
        for column, needs in ((options.weight, read_numbers), (options.timestamp, _times(options))):
            if column is not None:
                needs(chunk, column)
        found.kept += len(users)
        found.samples.append(users.gather_every(max(1, len(users) // _SAMPLE)))
        known = items.unique() if known is None else pl.concat([known, items.unique()]).unique()
    if not found.kept:
        raise DataError(
            Argument("min_rating", options.min_rating),
            f" drops everything: the largest of {files.n_rows:,} ratings in column {options.rating!r} is {largest:g}. "
            "Lower it.",
        )
    if ratings and len(ratings) <= _MOST_RATINGS:
        distinct = np.array(sorted(ratings))
        warn_of_ratings(options, distinct, np.array([ratings[one] for one in distinct.tolist()]))
    assert known is not None
    found.items = IdMap(known.sort(), "item")
    return found


def _kept(chunk: Table, options: ReadOptions) -> tuple[NDArray[np.bool_] | None, float]:
    """Return a mask of the rows that reach the rating threshold (None: all), and the largest rating."""
    if options.rating is None:
        return None, -np.inf
    ratings = read_numbers(chunk, options.rating)
    most = float(ratings.max(initial=-np.inf))
    return (None if options.min_rating is None else ratings >= options.min_rating), most


def _times(options: ReadOptions) -> Any:
    def needs(chunk: Table, column: str) -> Any:
        if options.date_format is None and chunk.read(column).dtype == pl.String:
            raise ParameterError(
                f"{chunk.name}: column {column!r} holds times as text, whose order of day and month cannot be seen in "
                "a part of the rows. With ",
                Argument("spill"),
                " give ",
                Argument("date_format"),
                ", such as '%Y-%m-%d %H:%M:%S'.",
            )
        return read_times(chunk, column, options.date_format)

    return needs


def _cuts(samples: list[pl.Series], n_rows: int, rows_at_once: int) -> pl.Series:
    """User ids that divide the rows into ranges of about ``rows_at_once``; a range ends before its id."""
    sample = pl.concat(samples)
    n_ranges = min(_MOST_RANGES, -(-n_rows // rows_at_once))
    ordered = sample.dtype.is_numeric() or sample.dtype.is_temporal() or sample.dtype == pl.String
    if n_ranges == 1 or not ordered or sample.dtype.is_decimal():
        return sample.clear()
    sample = sample.sort()
    at = np.unique(np.arange(1, n_ranges) * len(sample) // n_ranges)
    return sample.gather(at).unique().sort()


def _second_pass(
    files: FileChunks, options: ReadOptions, rows_at_once: int, items: IdMap, cuts: pl.Series, ranges: Path
) -> None:
    index = pl.DataFrame({"id": items.series, "item": np.arange(len(items), dtype=np.int32)})
    for range_number in range(len(cuts) + 1):
        (ranges / str(range_number)).mkdir(parents=True)
    for number, chunk in enumerate(files.chunks(rows_at_once)):
        keep, _ = _kept(chunk, options)
        users, ids = (read_ids(chunk, column, keep) for column in (options.user, options.item))
        codes = pl.DataFrame({"id": ids}).join(index, on="id", how="left", maintain_order="left")["item"]
        columns = [users.alias("user"), codes]
        if options.weight is not None:
            columns.append(_filtered("weight", read_numbers(chunk, options.weight), keep))
        if options.timestamp is not None:
            columns.append(_filtered("timestamp", _times(options)(chunk, options.timestamp), keep))
        rows = pl.DataFrame(columns)
        for range_number, part in _divided(rows, cuts):
            part.write_ipc(ranges / str(range_number) / f"{number:08}.arrow", compression="uncompressed")


def _filtered(name: str, values: NDArray[Any], keep: NDArray[np.bool_] | None) -> pl.Series:
    return pl.Series(name, values if keep is None else values[keep])


def _divided(rows: pl.DataFrame, cuts: pl.Series) -> Iterator[tuple[int, pl.DataFrame]]:
    """The rows of each range that has any, in their order."""
    if not len(cuts):
        yield 0, rows
        return
    at = cuts.search_sorted(rows["user"], side="right").to_numpy().astype(np.int16)
    order = np.argsort(at, kind="stable")
    ends = np.cumsum(np.bincount(at, minlength=len(cuts) + 1))
    ordered = rows[order]
    for number, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        if last > first:
            yield number, ordered[int(first) : int(last)]


class _RangeTable:
    """The rows of a range as a table for `merge_repeats`: weights and times are read when they are needed."""

    backend = "polars"

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self.columns = ["user", "item", "weight", "timestamp"]
        self._parts = sorted(folder.iterdir())

    @property
    def has_rows(self) -> bool:
        """True if the range has any row."""
        return bool(self._parts)

    def read(self, column: str) -> pl.Series:
        """One column."""
        parts = []
        for path in self._parts:
            with path.open("rb") as file:
                parts.append(pl.read_ipc(file, columns=[column]).to_series())
        return pl.concat(parts)

    def row(self, position: int) -> str:
        """Name a row; never shown, since the rows were checked when they were written."""
        return f"row {position}"


def _third_pass(table: Path, ranges: Path, n_ranges: int, options: ReadOptions, items: IdMap) -> Interactions:
    """The ranges one after the other as the rows of one table."""
    names = ["offsets", "indices", "weights", "timestamps"]
    given = [True, True, options.weight is not None, options.timestamp is not None]
    there = [name for name, is_given in zip(names, given, strict=True) if is_given]
    writers = {name: ArrayWriter(array_path(table, name)) for name in there}
    writers["offsets"].append(np.zeros(1, dtype=np.int64))
    own = replace(
        options,
        user="user",
        item="item",
        weight=None if options.weight is None else "weight",
        timestamp=None if options.timestamp is None else "timestamp",
        rating=None,
        min_rating=None,
        date_format=None,
        duplicates="sum" if options.duplicates == "error" else options.duplicates,  # counted over all ranges
    )
    ids, n_repeats, n_before = [], 0, 0
    for number in range(n_ranges):
        rows = _RangeTable(ranges / str(number))
        if not rows.has_rows:
            continue
        users, user_codes = encode(rows.read("user"), "user")
        part, repeats = merge_repeats(rows, own, None, users, items, user_codes, rows.read("item").to_numpy())
        n_repeats += repeats
        writers["offsets"].append(part.offsets[1:] + n_before)
        for name in there[1:]:
            writers[name].append(getattr(part, name))
        n_before += part.n_interactions
        ids.append(users.series)
        shutil.rmtree(ranges / str(number))
    arrays = {name: writer.close() for name, writer in writers.items()}
    return Interactions(
        IdMap(pl.concat(ids), "user"),
        items,
        arrays["offsets"],
        arrays["indices"],
        arrays.get("weights"),
        arrays.get("timestamps"),
        cleaning=Cleaning(duplicates=n_repeats),
    )
