"""The union of two sets of interactions."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native, threads
from tastespace.data.attributes import aligned_attributes
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError


def concat(old: Interactions, new: Interactions) -> Interactions:
    """The union of two sets of interactions, with the users and items of both.

    Weights and timestamps are kept where both have them; of a pair in both, those of ``new`` count. Attributes of
    ``old`` are kept, and those of ``new`` are taken for ids that ``old`` does not have.
    """
    return concat_with_sources(old, new)[0]


def concat_with_sources(old: Interactions, new: Interactions) -> tuple[Interactions, NDArray[np.int64]]:
    """`concat`, and where each interaction was first: its place in ``old`` followed by ``new``, shape ``(n,)``."""
    users, items = _union(old.users, new.users, "user"), _union(old.items, new.items, "item")
    rows, columns = [], []
    for part in (old, new):
        rows.append(users.index_of(part.users.series).astype(np.int32)[part.row_of_each()])
        columns.append(items.index_of(part.items.series).astype(np.int32)[part.indices])
    offsets, indices, sources, starts = _native.build_csr_with_sources(
        np.concatenate(rows), np.concatenate(columns), len(users), threads.available()
    )
    last = sources[starts[1:] - 1]
    both: dict[str, Any] = {}
    for name in ("weights", "timestamps"):
        first, second = getattr(old, name), getattr(new, name)
        both[name] = None if first is None or second is None else np.concatenate([first, second])[last]
    for kind, ids in (("user", users), ("item", items)):
        name = f"{kind}_attributes"
        tables = [table for table in (getattr(old, name), getattr(new, name)) if table is not None]
        if tables:
            joined = pl.concat(tables, how="diagonal_relaxed").unique(kind, keep="first", maintain_order=True)
            both[name] = aligned_attributes(joined, ids, kind, kind)
    whole = Interactions(users, items, offsets, indices, backend=old.backend, **both)
    return whole, np.asarray(sources[starts[:-1]], dtype=np.int64)


def _union(old: IdMap, new: IdMap, kind: str) -> IdMap:
    if old == new:
        return old
    if old.series.dtype != new.series.dtype and not (old.series.dtype.is_numeric() and new.series.dtype.is_numeric()):
        raise DataError(
            f"the {kind} ids have type {old.series.dtype} in one table and {new.series.dtype} in the other; give both "
            "the same type."
        )
    merged = pl.concat([old.series.rename("id").to_frame(), new.series.rename("id").to_frame()], how="vertical_relaxed")
    return IdMap(merged["id"].unique().sort(), kind)
