"""Top lists for users, from any model, in blocks: never a users x items matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tastespace import threads as threading
from tastespace.data.tables import from_polars
from tastespace.errors import DataError, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.ranking import BlockRanker, no_items


def recommend(model: Recommender, users: Any = None, k: int = 10, threads: int = 0) -> Any:
    """`Recommender.recommend`."""
    model.require_fitted()
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ParameterError(f"k={k!r}: expected how many items to recommend, 1 or more.")
    train = model.train_
    rows = _rows(model, users)
    nothing = no_items(train.n_users)
    ranker = BlockRanker(
        model, train.offsets, train.indices, *nothing, min(k, train.n_items), threading.resolve(threads)
    )
    parts = []
    for block in ranker.blocks(rows):
        owner, place = np.nonzero(block.top >= 0)
        items = block.top[owner, place]
        scores = block.scores_of(owner, items)
        parts.append(
            pl.DataFrame(
                [
                    train.users.take(block.users[owner]).alias("user"),
                    train.items.take(items).alias("item"),
                    pl.Series("rank", place + 1, dtype=pl.Int32),
                    pl.Series("score", scores, dtype=pl.Float32),
                ]
            )
        )
    return from_polars(pl.concat(parts), train.backend)


def _rows(model: Recommender, users: Any) -> Any:
    if users is None:
        return np.arange(model.train_.n_users, dtype=np.int32)
    wanted = [users] if isinstance(users, (str, bytes, int, np.integer)) else users
    rows = model.train_.users.index_of(wanted).astype(np.int32)
    if not len(rows):
        raise DataError("recommend was given an empty list of users; leave users out for everybody.")
    return rows
