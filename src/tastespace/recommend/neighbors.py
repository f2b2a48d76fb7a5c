"""Items similar to an item, users similar to a user."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.checks import require_k
from tastespace.data.ids import IdMap
from tastespace.data.reading.tables import from_polars
from tastespace.errors import DataError
from tastespace.models.base import Recommender
from tastespace.models.vector_space import VectorSpace
from tastespace.ranking.scoring import ScoringIndex, TopK, require_interest_space
from tastespace.recommend.request import as_list, require_history


def similar_items(model: Recommender, items: Any, k: int = 10) -> Any:
    """Implement `Recommender.similar_items`."""
    k = require_k(k)
    model.require_fitted()
    rows = _rows(model.train_.items, items, "item")
    found = ScoringIndex(model).similar_items(rows, k)
    return _frame(model, model.train_.items, "item", rows, found, model.item_space())


def similar_users(model: Recommender, users: Any, k: int = 10) -> Any:
    """Implement `Recommender.similar_users`."""
    k = require_k(k)
    space = require_interest_space(model, "similar users")
    rows = _rows(model.train_.users, users, "user")
    for row in rows[~model.can_serve(rows)][:1]:
        require_history(model, int(row), "similar users")
    return _frame(model, model.train_.users, "user", rows, ScoringIndex(model).similar_users(rows, k), space)


def _rows(ids: IdMap, wanted: Any, kind: str) -> NDArray[np.int64]:
    rows = ids.index_of(as_list(wanted))
    if not len(rows):
        raise DataError(f"the list of {kind}s is empty.")
    return rows


def _frame(
    model: Recommender, ids: IdMap, kind: str, rows: NDArray[np.int64], found: TopK, space: VectorSpace | None
) -> Any:
    columns = [
        ids.take(rows[found.query]).alias(kind),
        ids.take(found.rows).alias("similar"),
        pl.Series("rank", found.rank),
        pl.Series("score", found.scores),
    ]
    if space is not None and space.metric == "l2":
        columns.append(pl.Series("distance", -found.scores))
    return from_polars(pl.DataFrame(columns), model.train_.backend)
