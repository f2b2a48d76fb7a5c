"""Adding users or items without interactions to `Interactions`: cold-start users and items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tastespace.data.concat import concat
from tastespace.data.features import IntoFeatures, content_frame, content_ids, is_matrix
from tastespace.data.ids import IdMap, id_series
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError

_EXAMPLES = 3


def new_ids(data: Interactions, side: str, features: IntoFeatures, ids: Any) -> pl.Series:
    """The ids of new users or items, row by row: a frame's column ``user`` or ``item``, or ``ids`` beside a matrix."""
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
