"""Building `Interactions` from a table: checks, rating threshold, ids, de-duplication, filters, attributes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_whole
from tastespace._util.threads import require_polars, resolve_threads
from tastespace.data.attributes import aligned_attributes, attribute_ids
from tastespace.data.ids import (
    IdMap,
    encode,
    id_series,
    plain_series,
)
from tastespace.data.interactions import Cleaning, Interactions
from tastespace.data.reading.dates import parse_times
from tastespace.data.reading.options import DISLIKE, ReadOptions
from tastespace.data.reading.sources import local_files
from tastespace.data.reading.tables import Table, open_files, require_columns
from tastespace.errors import Argument, DataError, ParameterError, nearest

log = logging.getLogger(__name__)


def read_files(paths: Sequence[str | Path], options: ReadOptions) -> Interactions:
    """`Interactions` from one or more files, addresses of files, or a query."""
    with local_files(paths, options.query) as files:
        if options.spill is None:
            return build(open_files(files, options.columns(), options.layout()), options)
        from tastespace.data.out_of_core.build import build_spilled
        from tastespace.data.out_of_core.chunks import FileChunks

        return build_spilled(FileChunks(files, options.columns(), options.layout()), options)


def build(table: Table, options: ReadOptions) -> Interactions:
    """`Interactions` from a table."""
    require_polars("reading a table of interactions")
    require_columns(table, options.columns())
    if not len(table.read(options.user)):
        raise DataError(f"{table.name} has no rows. Expected one row per interaction.")
    keep = _rows_above(table, options)
    n_read = len(table.read(options.user))
    cleaning = Cleaning(rows=n_read, below_min_rating=n_read - int(keep.sum()) if keep is not None else 0)
    kinds = None if options.kind is None else read_kinds(table, options, keep)
    if kinds is not None:
        keep = kinds != 0
        cleaning = replace(cleaning, by_kind=n_read - cleaning.below_min_rating - int(keep.sum()))
    users, user_codes = encode(read_ids(table, options.user, keep), "user")
    items, item_codes = encode(read_ids(table, options.item, keep), "item")
    if options.catalog is not None:
        items, place = catalog_of(items, options)
        item_codes = place[item_codes]
    dislikes = None
    if kinds is not None and keep is not None:
        is_dislike = kinds[keep] == DISLIKE
        dislikes, is_undone = _dislikes(table, options, keep, is_dislike, users, items, user_codes, item_codes)
        cleaning = replace(cleaning, dislikes=int(is_dislike.sum()))
        user_codes, item_codes = user_codes[~is_undone], item_codes[~is_undone]
        keep[np.flatnonzero(keep)[is_undone]] = False

    data, n_repeats = merge_repeats(table, options, keep, users, items, user_codes, item_codes, kinds)
    del user_codes, item_codes
    if kinds is not None:
        data = replace(data, dislikes=dislikes, events=options.weight_of_kind)
    data = replace(data, backend=table.backend, cleaning=replace(cleaning, duplicates=n_repeats))
    data = drop_rare(data, options.min_user, options.min_item, options.core, keep_items=options.catalog is not None)
    require_size(data, 1 if options.part else 2)
    return with_attributes(data, options, table.name)


def with_attributes(data: Interactions, options: ReadOptions, name: str) -> Interactions:
    """The interactions of a table of this name with the attributes that were given; logs what was dropped."""
    data = replace(
        data,
        item_attributes=aligned_attributes(options.item_attributes, data.items, "item", options.item),
        user_attributes=aligned_attributes(options.user_attributes, data.users, "user", options.user),
    )
    if options.item_attributes is not None and options.catalog is None and not options.part:
        named = attribute_ids(options.item_attributes, "item", options.item)
        unused = len(named) - int((data.items.find(named) >= 0).sum())
        if unused:
            data = replace(data, cleaning=replace(data.cleaning, items_without_rows=unused))
            log.warning(
                "%s of %s items with attributes have no interactions here and are left out, so they are never "
                "recommended. catalog='attributes' (--all-items) keeps them.",
                f"{unused:,}",
                f"{len(named):,}",
            )
    log.info("%s: %s", name, data.cleaning)
    return data


def build_from_scipy(matrix: Any, users: Any, items: Any, weight: bool) -> Interactions:
    """`Interactions.from_scipy`."""
    if not isinstance(weight, bool):
        raise ParameterError(Argument("weight", weight), ": expected True (the values are weights) or False.")
    if not sp.issparse(matrix):
        raise DataError(f"expected a SciPy sparse matrix, given {type(matrix).__name__}.")
    coo = sp.coo_array(matrix)
    if coo.ndim != 2 or np.iscomplexobj(coo.data):
        raise DataError(f"expected a matrix of real numbers with 2 dimensions, given {coo.ndim} of {coo.data.dtype}.")
    if not np.isfinite(coo.data.astype(np.float64)).all():
        raise DataError("the matrix holds NaN or infinite values; expected finite weights.")
    taken = coo.data != 0
    if not taken.any():
        raise DataError(f"the matrix of shape {coo.shape} holds no non-zero value.")
    n_users, n_items = coo.shape
    user_ids, user_place = _ids_of_axis(users, n_users, "user")
    item_ids, item_place = _ids_of_axis(items, n_items, "item")
    rows = user_place[coo.row[taken]]
    columns = item_place[coo.col[taken]]
    offsets, indices, sources, starts = _native.build_csr_with_sources(rows, columns, n_users, resolve_threads(0))
    weights = None
    if weight:
        weights = _single_precision(np.add.reduceat(coo.data[taken].astype(np.float64)[sources], starts[:-1]))
    cleaning = Cleaning(rows=len(rows), duplicates=len(rows) - len(indices))
    data = Interactions(user_ids, item_ids, offsets, indices, weights, cleaning=cleaning)
    require_size(data, 2)
    return data


def drop_rare(data: Interactions, min_user: int, min_item: int, core: bool, keep_items: bool) -> Interactions:
    """Drop users and items with too few interactions, and the ids that are left without any.

    Users are counted first and items among what remains; ``core`` repeats that until nothing changes.
    With ``keep_items`` the item ids stay as they are (a given catalog).
    """
    require_whole("min_user", min_user, 0)
    require_whole("min_item", min_item, 0)
    if min_user <= 1 and min_item <= 1:
        return data
    rows, columns = data.row_of_each(), data.indices
    keep = np.ones(len(rows), dtype=bool)
    dropped = {"by_min_user": 0, "by_min_item": 0}
    while True:
        before = int(keep.sum())
        for side, n, minimum, name in (
            (rows, data.n_users, min_user, "by_min_user"),
            (columns, data.n_items, min_item, "by_min_item"),
        ):
            here = int(keep.sum())
            counts = np.bincount(side[keep], minlength=n)
            keep &= counts[side] >= minimum
            dropped[name] += here - int(keep.sum())
            if here and not keep.any():
                raise drops_everything(name, minimum, here, int(counts.max()), core)
        if not core or int(keep.sum()) == before:
            break
    cleaning = replace(
        data.cleaning,
        by_min_user=data.cleaning.by_min_user + dropped["by_min_user"],
        by_min_item=data.cleaning.by_min_item + dropped["by_min_item"],
    )
    return _without_empty(replace(data.subset(keep), cleaning=cleaning), keep_items)


def drops_everything(name: str, minimum: int, n_left: int, most: int, core: bool) -> DataError:
    """The error of a filter, ``by_min_user`` or ``by_min_item``, that leaves nothing of ``n_left`` interactions."""
    return DataError(
        Argument(name.removeprefix("by_"), minimum),
        f" drops everything: {n_left:,} interactions were left and no {name.removeprefix('by_min_')} has more than "
        f"{most:,} of them{' (k-core)' if core else ''}. Lower it.",
    )


def _rows_above(table: Table, options: ReadOptions) -> NDArray[np.bool_] | None:
    """Mask of the rows that reach the rating threshold; None without a threshold."""
    if options.rating is None:
        return None
    ratings = read_numbers(table, options.rating)
    if options.min_rating is None:
        warn_of_ratings(options, *np.unique(ratings, return_counts=True))
        return None
    keep = ratings >= options.min_rating
    if len(ratings) and not keep.any():
        raise DataError(
            Argument("min_rating", options.min_rating),
            f" drops everything: the largest of {len(ratings):,} ratings in column {options.rating!r} is "
            f"{ratings.max():g}. Lower it.",
        )
    return keep


def read_kinds(table: Table, options: ReadOptions, keep: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """Weight of the kind of each row; 0 for rows that are not kept."""
    assert options.kind is not None
    weights, column = options.weight_of_kind, table.read(options.kind)
    if column.null_count():
        first = int(column.is_null().arg_true()[0])
        raise DataError(f"{table.name}, {table.row(first)}: the kind in column {options.kind!r} is null.")
    names = column.cast(pl.String)
    unknown = names.is_in(list(weights)).not_().arg_true()
    if len(unknown):
        kind = names[int(unknown[0])]
        raise DataError(
            f"{table.name}, {table.row(int(unknown[0]))}: the kind {kind!r} in column {options.kind!r} is unknown; "
            f"the kinds are {', '.join(weights)}.{nearest(kind, list(weights))} Give it a weight: ",
            Argument("events", {kind: 1}),
            ", 0 leaves its rows out.",
        )
    if options.target is not None:
        weights = {name: weight if name == options.target else 0.0 for name, weight in weights.items()}
    found = (
        names.replace_strict({name: float(one) for name, one in weights.items()}, return_dtype=pl.Float64)
        .to_numpy()
        .copy()
    )
    if keep is not None:
        found[~keep] = 0.0
    if not found.any():
        given = ", ".join(names.unique(maintain_order=True).head(5).to_list())
        wanted = options.target or ", ".join(name for name, weight in weights.items() if weight)
        raise DataError(f"{table.name}: no row has a kind that counts ({wanted}); there are {given}.")
    return found


def _dislikes(
    table: Table,
    options: ReadOptions,
    keep: NDArray[np.bool_],
    is_dislike: NDArray[np.bool_],
    users: IdMap,
    items: IdMap,
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
) -> tuple[pl.DataFrame | None, NDArray[np.bool_]]:
    """The pairs that are disliked, and a mask of the rows kept that are no interactions.

    Of a pair with both the last one holds where there are times, else the dislike; a time that is the same for both is
    none.
    """
    if not is_dislike.any():
        return None, is_dislike
    pair = rows.astype(np.int64) * len(items) + columns
    disliked, of_disliked = np.unique(pair[is_dislike], return_inverse=True)
    at = np.minimum(np.searchsorted(disliked, pair), len(disliked) - 1)
    is_both = (disliked[at] == pair) & ~is_dislike
    holds = np.ones(len(disliked), dtype=bool)
    if options.timestamp is not None and is_both.any():
        times = read_times(table, options.timestamp, options.date_format)[keep].astype(np.float64)
        last_dislike, last_other = (np.full(len(disliked), -np.inf) for _ in range(2))
        np.maximum.at(last_dislike, of_disliked, times[is_dislike])
        np.maximum.at(last_other, at[is_both], times[is_both])
        holds = last_dislike >= last_other
    held = disliked[holds]
    frame = pl.DataFrame([users.take(held // len(items)).alias("user"), items.take(held % len(items)).alias("item")])
    return frame, is_dislike | (is_both & holds[at])


def warn_of_ratings(options: ReadOptions, ratings: NDArray[np.floating[Any]], counts: NDArray[np.integer[Any]]) -> None:
    """Warn where ratings are read and select nothing; these are the distinct ratings and how many rows have each."""
    if len(ratings) < 2 or options.weight == options.rating:
        return
    middle = (float(ratings[0]) + float(ratings[-1])) / 2
    low = int(counts[ratings < middle].sum())
    log.warning(
        "rating=%r without min_rating= (--min-rating): all %s rows count as liked, %.0f %% of them with a rating below "
        "%g, the middle of %g to %g. Give the least rating that means liked, or leave it out; min_rating=%g keeps all.",
        options.rating,
        f"{int(counts.sum()):,}",
        100 * low / int(counts.sum()),
        middle,
        ratings[0],
        ratings[-1],
        ratings[0],
    )


def read_ids(table: Table, column: str, keep: NDArray[np.bool_] | None) -> pl.Series:
    """An id column without nulls, of the rows that are kept."""
    series = table.read(column)
    if series.null_count():
        first = int(series.is_null().arg_true()[0])
        raise DataError(
            f"{table.name}, {table.row(first)}: the id in column {column!r} is null ({series.null_count():,} such "
            f"rows of {len(series):,}). Drop those rows or give them an id; a text file may be cut off there."
        )
    series = id_series(series, column)
    return series if keep is None else series.filter(pl.Series(keep))


def read_numbers(table: Table, column: str) -> NDArray[np.float64]:
    """A column of finite numbers."""
    series = table.read(column)
    if not series.dtype.is_numeric():
        raise DataError(f"{table.name}: column {column!r} has type {series.dtype}, expected numbers.")
    bad = (series.is_null() | ~series.cast(pl.Float64).is_finite()).fill_null(True).arg_true()
    if len(bad):
        raise DataError(
            f"{table.name}, {table.row(int(bad[0]))}: {series[int(bad[0])]} in column {column!r} ({len(bad):,} such "
            f"rows of {len(series):,}), expected finite numbers. Drop or correct those rows."
        )
    return series.cast(pl.Float64).to_numpy()


def read_times(table: Table, column: str, date_format: str | None) -> NDArray[np.int64] | NDArray[np.float64]:
    """A column of times: whole numbers and dates as int64, other numbers as float64."""
    series = table.read(column)
    if series.null_count():
        first = int(series.is_null().arg_true()[0])
        raise DataError(f"{table.name}, {table.row(first)}: the time in column {column!r} is null.")
    try:
        if series.dtype == pl.String:
            series = parse_times(series, f"{table.name}, column {column!r}", date_format)
        if series.dtype in (pl.Date, pl.Datetime):
            return series.cast(pl.Datetime("us")).to_physical().to_numpy()
        if series.dtype.is_integer():
            return series.cast(pl.Int64).to_numpy()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
        raise DataError(
            f"{table.name}: column {column!r} of type {series.dtype} cannot be used as timestamps "
            f"({str(problem).splitlines()[0][:200]}). Expected numbers, dates, or dates as text such as "
            "2024-12-31 23:59:59."
        ) from problem
    return read_numbers(table, column)


def merge_repeats(
    table: Table,
    options: ReadOptions,
    keep: NDArray[np.bool_] | None,
    users: IdMap,
    items: IdMap,
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    kinds: NDArray[np.float64] | None = None,
) -> tuple[Interactions, int]:
    """Sort the pairs into rows and merge repeats; returns the data and the number of repeats.

    ``kinds``: the weight of the kind of each row of the table.
    """
    n_threads = resolve_threads(options.threads)
    if options.weight is None and options.timestamp is None and kinds is None:
        offsets, indices = _native.build_csr(rows, columns, len(users), n_threads)
        weights = times = None
    else:
        offsets, indices, sources, starts = _native.build_csr_with_sources(rows, columns, len(users), n_threads)
        times = weights = None
        if options.timestamp:
            times = _in_csr_order(read_times(table, options.timestamp, options.date_format), keep, sources)
        if options.weight or kinds is not None:
            weights = _in_csr_order(_row_weights(table, options, kinds), keep, sources)
        latest = _latest(times, starts)
        if weights is not None:
            merge = {"sum": np.add.reduceat, "max": np.maximum.reduceat}.get(options.duplicates)
            weights = weights[latest] if merge is None else merge(weights, starts[:-1])
        times = None if times is None else times[latest]
    n_repeats = len(rows) - len(indices)
    if n_repeats and options.duplicates == "error":
        raise DataError(f"{table.name}: {n_repeats:,} rows repeat a pair of user and item; duplicates='error'.")
    return Interactions(users, items, offsets, indices, _single_precision(weights), times), n_repeats


def _row_weights(table: Table, options: ReadOptions, kinds: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Weight of each row of the table, times that of its kind where there are kinds."""
    if options.weight is None:
        assert kinds is not None
        return kinds
    numbers = read_numbers(table, options.weight)
    if kinds is None:
        return numbers
    wrong = np.flatnonzero((numbers < 0) & (kinds != 0))
    if len(wrong):
        raise DataError(
            f"{table.name}, {table.row(int(wrong[0]))}: the weight {numbers[wrong[0]]:g} in column {options.weight!r} "
            f"is negative ({len(wrong):,} such rows). Beside kinds of events weights are 0 or more: what people do not "
            "want is a kind with the weight -1."
        )
    return numbers * kinds


def _single_precision(weights: NDArray[Any] | None) -> NDArray[np.float32] | None:
    if weights is None:
        return None
    with np.errstate(over="ignore"):
        small = weights.astype(np.float32)
    if not np.isfinite(small).all():
        raise DataError(f"the largest weight is {np.abs(weights).max():g}; at most {np.finfo(np.float32).max:g} fits.")
    return small


def _in_csr_order(values: NDArray[Any], keep: NDArray[np.bool_] | None, sources: NDArray[np.int64]) -> NDArray[Any]:
    return (values if keep is None else values[keep])[sources]


def _latest(times: NDArray[Any] | None, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of each cell's latest input: by time where it is known, ties and the rest by row."""
    size, last = np.diff(starts), starts[1:] - 1
    repeated = np.flatnonzero(size > 1)
    if times is None or not len(repeated):
        return last
    n = size[repeated]
    ends = np.cumsum(n)
    rows = np.repeat(starts[:-1][repeated] - (ends - n), n) + np.arange(ends[-1])
    order = np.lexsort((rows, times[rows], np.repeat(np.arange(len(repeated)), n)))
    last[repeated] = rows[order[ends - 1]]
    return last


def catalog_of(items: IdMap, options: ReadOptions) -> tuple[IdMap, NDArray[np.int32]]:
    """The id map of the catalog that the options name, and the place of each item in it."""
    catalog: Any = options.catalog
    if isinstance(catalog, str) and options.item_attributes is not None:
        named = attribute_ids(options.item_attributes, "item", options.item)
        aligned_attributes(options.item_attributes, items, "item", options.item)  # ids of another type are an error
        both = pl.concat([items.series.alias("id").to_frame(), named.alias("id").to_frame()], how="vertical_relaxed")
        whole = IdMap(both["id"].unique().sort(), "item")
        return whole, whole.index_of(items.series).astype(np.int32)
    given = id_series(catalog if isinstance(catalog, pl.Series) else plain_series("catalog", catalog), "item")
    whole = IdMap(given.unique().sort(), "item")
    position = whole.find(items.series)
    if (position < 0).any():
        unknown = items[int(np.flatnonzero(position < 0)[0])]
        raise DataError(
            f"{int((position < 0).sum()):,} items of the interactions are not in the catalog, the first is "
            f"{unknown!r}. Expected every item in catalog=."
        )
    return whole, position.astype(np.int32)


def _without_empty(data: Interactions, keep_items: bool) -> Interactions:
    """Drop users without interactions and, unless a catalog was given, items too."""
    user_kept = data.user_counts > 0
    users = IdMap(data.users.series.filter(pl.Series(user_kept)), "user")
    offsets = np.concatenate([[0], np.cumsum(data.user_counts[user_kept])]).astype(np.int64)
    if data.user_attributes is not None:
        data = replace(data, user_attributes=data.user_attributes.filter(pl.Series(user_kept)))
    if keep_items:
        return replace(data, users=users, offsets=offsets)
    item_kept = data.item_counts > 0
    place = (np.cumsum(item_kept) - 1).astype(np.int32)
    if data.item_attributes is not None:
        data = replace(data, item_attributes=data.item_attributes.filter(pl.Series(item_kept)))
    return replace(
        data,
        users=users,
        offsets=offsets,
        items=IdMap(data.items.series.filter(pl.Series(item_kept)), "item"),
        indices=place[data.indices],
    )


def _ids_of_axis(given: Any, n: int, kind: str) -> tuple[IdMap, NDArray[np.int32]]:
    """Id map of a matrix axis and the place of each row (column) in it."""
    if given is None:
        return IdMap(pl.Series(np.arange(n, dtype=np.int64)), kind), np.arange(n, dtype=np.int32)
    ids, codes = encode(id_series(given, f"{kind}s"), kind)
    if len(codes) != n or len(ids) != n:
        raise DataError(f"{len(codes):,} {kind} ids ({len(ids):,} distinct) for {n:,} {kind}s of the matrix.")
    return ids, codes


def require_size(data: Interactions, least: int) -> None:
    """Raise unless there are at least so many users and items."""
    for n, kind in ((data.n_users, "user"), (data.n_items, "item")):
        if n < least:
            why = f", since recommendations come from comparing {kind}s" if least > 1 else ""
            raise DataError(
                f"the data holds {n} {kind}{'' if n else 's'}; at least {least} {'is' if least == 1 else 'are'} "
                f"needed{why} ({data.cleaning}). Loosen the filters, or check that ",
                Argument("user"),
                " and ",
                Argument("item"),
                " are not swapped.",
            )
