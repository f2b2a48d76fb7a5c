"""Union of two sets of interactions, what new ones add to old ones, and added users and items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util import threads
from tastespace.data.attributes import aligned_attributes
from tastespace.data.features import (
    IntoFeatures,
    content_frame,
    content_ids,
    is_matrix,
)
from tastespace.data.ids import IdMap, id_series
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError

# ---------------------------------------------------------------------------------------------------------------------
# The union of two sets of interactions.


def concat(old: Interactions, new: Interactions) -> Interactions:
    """The union of two sets of interactions, with the users and items of both.

    Weights and timestamps are kept where both have them; of a pair in both, those of ``new`` count, but weights are
    added up where ``new`` has kinds of events. Dislikes are united, without those of ``old`` on pairs of ``new``.
    Attributes of
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
        if first is None or second is None:
            both[name] = None
        elif name == "weights" and new.events is not None:  # a view after a purchase adds to it
            both[name] = np.add.reduceat(np.concatenate([first, second])[sources], starts[:-1])
        else:
            both[name] = np.concatenate([first, second])[last]
    for kind, ids in (("user", users), ("item", items)):
        name = f"{kind}_attributes"
        tables = [table for table in (getattr(old, name), getattr(new, name)) if table is not None]
        if tables:
            joined = pl.concat(tables, how="diagonal_relaxed").unique(kind, keep="first", maintain_order=True)
            both[name] = aligned_attributes(joined, ids, kind, kind)
    both["dislikes"] = dislikes_of_both(old, new)
    both["events"] = new.events or old.events
    whole = Interactions(users, items, offsets, indices, backend=old.backend, **both)
    return whole, np.asarray(sources[starts[:-1]], dtype=np.int64)


def dislikes_of_both(old: Interactions, new: Interactions) -> pl.DataFrame | None:
    """The dislikes of both without those of ``old`` on items that people of ``new`` took."""
    kept = old.dislikes
    if kept is not None and new.n_interactions:
        taken = new.users.find(kept["user"]), new.items.find(kept["item"])
        known = (taken[0] >= 0) & (taken[1] >= 0)
        pairs = sp.csr_array((np.ones(new.n_interactions, bool), new.indices, new.offsets), (new.n_users, new.n_items))
        known[known] = np.asarray(pairs[taken[0][known], taken[1][known]]).ravel()
        kept = kept.filter(pl.Series(~known))
    parts = [part for part in (kept, new.dislikes) if part is not None and len(part)]
    return pl.concat(parts, how="vertical_relaxed").unique(maintain_order=True) if parts else None


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


def pairs_of(data: Interactions, wanted: Interactions | None) -> Interactions:
    """The interactions of ``data`` whose pairs of user and item are in ``wanted``; None: all.

    >>> whole = Interactions.from_frame(pl.DataFrame({"user": [1, 1, 2], "item": [7, 8, 9]}))
    >>> pairs_of(whole, Interactions.from_frame(pl.DataFrame({"user": [1, 3], "item": [8, 9]}))).n_interactions
    1
    """
    if wanted is None:
        return data
    users, items = wanted.users.find(data.users.series), wanted.items.find(data.items.series)
    rows, columns = users[data.row_of_each()], items[data.indices]
    keep = (rows >= 0) & (columns >= 0)
    pairs = wanted.row_of_each().astype(np.int64) * wanted.n_items + wanted.indices
    keep[keep] = np.isin(rows[keep] * wanted.n_items + columns[keep], pairs)
    return data.subset(keep)


# ---------------------------------------------------------------------------------------------------------------------
# Users, items and pairs that new interactions add to those that a model knows.


@dataclass(frozen=True, eq=False)
class Added:
    """Old and new interactions together, and which of them are new."""

    data: Interactions
    """The union of both, as `tastespace.data.merge.concat` returns it."""
    is_new: NDArray[np.bool_]
    """Mask of the interactions of `data` that the old ones do not have, shape ``(n_interactions,)``."""
    old_users: NDArray[np.int64]
    """Index of each user of `data` among the old users, -1 for new users, shape ``(n_users,)``."""
    old_items: NDArray[np.int64]
    """Index of each item of `data` among the old items, -1 for new items, shape ``(n_items,)``."""
    learned_users: NDArray[np.int64]
    """As `old_users`, but -1 also for users whose first interactions these are: a model has learned nothing of them."""
    learned_items: NDArray[np.int64]
    """As `old_items`, but -1 also for items whose first interactions these are."""
    n_duplicates: int
    """Interactions of the update that were known already."""

    @property
    def n_users(self) -> int:
        """New users."""
        return int((self.old_users < 0).sum())

    @property
    def n_items(self) -> int:
        """New items."""
        return int((self.old_items < 0).sum())

    @property
    def n_interactions(self) -> int:
        """New pairs of user and item."""
        return int(self.is_new.sum())

    @property
    def nothing(self) -> bool:
        """True if users, items and pairs were all known."""
        return not (self.n_interactions or self.n_users or self.n_items)

    def __str__(self) -> str:
        return (
            f"{self.n_interactions:,} new interactions, {self.n_users:,} new users, {self.n_items:,} new items; "
            f"{self.n_duplicates:,} interactions were known"
        )


def added(old: Interactions, new: Interactions) -> Added:
    """Compare new interactions with old ones.

    >>> import polars as pl
    >>> old = Interactions.from_frame(pl.DataFrame({"user": ["ann", "bob"], "item": ["tea", "jam"]}))
    >>> new = Interactions.from_frame(pl.DataFrame({"user": ["ann", "ann"], "item": ["tea", "rye"]}), part=True)
    >>> print(added(old, new))
    1 new interactions, 0 new users, 1 new items; 1 interactions were known
    """
    data, first = concat_with_sources(old, new)
    is_new = first >= old.n_interactions
    users, items = old.users.find(data.users.series), old.items.find(data.items.series)
    return Added(
        data,
        is_new,
        users,
        items,
        np.where((old.user_counts[users] == 0) & (data.user_counts > 0), -1, users),
        np.where((old.item_counts[items] == 0) & (data.item_counts > 0), -1, items),
        new.n_interactions - int(is_new.sum()),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Adding users or items without interactions to `Interactions`: cold-start users and items.

_EXAMPLES = 3


def new_ids(data: Interactions, side: str, features: IntoFeatures, ids: Any) -> pl.Series:
    """Return the ids of new users or items: a frame's column ``user`` or ``item``, or the ``ids`` of a matrix."""
    if not is_matrix(features):
        if ids is not None:
            raise ParameterError(f"ids= belongs to a matrix; a frame has its ids in column {side!r}.")
        new = content_ids(content_frame(features)[0], side)
    else:
        if ids is None or len(ids) != features.shape[0]:
            given = "none" if ids is None else f"{len(ids):,}"
            raise DataError(f"a matrix of {features.shape[0]:,} rows needs as many ids=, given {given}.")
        new = content_ids(id_series(ids, side).alias(side).to_frame(), side)
    if not len(new):
        raise DataError(f"there is no row: expected at least one new {side}.")
    old = data.users if side == "user" else data.items
    known = new.filter(pl.Series(old.find(new) >= 0))
    if len(known):
        raise DataError(
            f"{len(known):,} of {len(new):,} {side}s are known already, such as "
            f"{', '.join(map(repr, known.head(_EXAMPLES).to_list()))}. Only new ones can be added: leave them out."
        )
    return new


def append_ids(data: Interactions, side: str, new: pl.Series, features: IntoFeatures | None) -> Interactions:
    """The data with ``new`` users or items added, and their attributes where the data has such columns.

    >>> data = Interactions.from_frame(pl.DataFrame({"user": [1, 2], "item": ["a", "c"]}))
    >>> append_ids(data, "item", pl.Series(["b"]), None).items.series.to_list()
    ['a', 'b', 'c']
    """
    existing = data.user_attributes if side == "user" else data.item_attributes
    attributes = None
    if existing is not None and not (features is None or is_matrix(features)):
        frame = content_frame(features)[0].with_columns(new.alias(side)).sort(side)
        attributes = frame.select([name for name in existing.columns if name in frame.columns])
    ids = IdMap(new.sort(), side)
    without_interactions = replace(
        data,
        users=ids if side == "user" else data.users,
        items=ids if side == "item" else data.items,
        offsets=np.zeros((len(ids) if side == "user" else data.n_users) + 1, dtype=np.int64),
        indices=data.indices[:0],
        weights=None if data.weights is None else data.weights[:0],
        timestamps=None if data.timestamps is None else data.timestamps[:0],
        user_attributes=attributes if side == "user" else None,
        item_attributes=attributes if side == "item" else None,
    )
    return concat(data, without_interactions)
