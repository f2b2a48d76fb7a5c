"""Items like an item, users like a user."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.data.ids import IdMap
from tastespace.data.tables import from_polars
from tastespace.errors import DataError, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.vectors import VectorSpace
from tastespace.recommend.request import as_list, check_k
from tastespace.recommend.user_view import best_rows, space_of

_QUERIES = 256  # at a time


def closeness(
    space: VectorSpace, rows: NDArray[np.integer[Any]], to: NDArray[np.integer[Any]] | slice = slice(None)
) -> NDArray[np.float32]:
    """How close items are, larger is closer: minus the squared distance, or the cosine. Shape ``(len(rows), n)``."""
    items = space.item_vectors[to]
    if space.metric == "l2":
        return np.stack([-np.square(items - space.item_vectors[row]).sum(axis=1) for row in rows])
    return _unit(space.item_vectors[rows]) @ _unit(items).T


def similar_items(model: Recommender, items: Any, k: int = 10) -> Any:
    """`Recommender.similar_items`."""
    k = check_k(k)
    model.require_fitted()
    space = model.item_space()
    wanted = as_list(items)
    rows = model.train_.items.index_of(wanted)

    def scores(part: NDArray[np.int64]) -> NDArray[np.float32]:
        if space is not None:
            return closeness(space, part)
        found = model.item_scores(part)
        if found is None:
            raise ParameterError(f"{type(model).__name__} does not compare items, so it knows no similar ones.")
        return found

    return _frame(model, model.train_.items, "item", rows, k, scores, space)


def similar_users(model: Recommender, users: Any, k: int = 10) -> Any:
    """`Recommender.similar_users`."""
    k = check_k(k)
    space = space_of(model, "similar users")
    rows = model.train_.users.index_of(as_list(users))
    offsets = space.user_offsets
    counts = np.diff(offsets)
    vectors = np.ascontiguousarray(space.user_vectors, dtype=np.float32)
    by_distance = space.metric == "l2"
    terms = np.einsum("ij,ij->i", vectors, vectors)
    unit = vectors if by_distance else _unit(vectors)

    def one(row: int) -> NDArray[np.float32]:
        mine = slice(offsets[row], offsets[row + 1])
        if by_distance:
            close = 2.0 * (vectors[mine] @ vectors.T) - terms[mine, None] - terms[None, :]
        else:
            close = unit[mine] @ unit.T
        # Each of my vectors to their nearest, and each of theirs to my nearest; everybody has at least one.
        to_them = np.maximum.reduceat(close, offsets[:-1], axis=1).mean(axis=0)
        to_me = np.add.reduceat(close.max(axis=0), offsets[:-1]) / counts
        return np.minimum(0.5 * (to_them + to_me), 0.0 if by_distance else 1.0)

    def scores(part: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.stack([one(int(row)) for row in part])

    def exact(row: int, others: NDArray[np.int64]) -> NDArray[np.float32]:
        mine = vectors[offsets[row] : offsets[row + 1], None]
        gaps = [np.square(mine - vectors[offsets[x] : offsets[x + 1]]).sum(axis=2) for x in others]
        return np.array([-0.5 * (g.min(axis=1).mean() + g.min(axis=0).mean()) for g in gaps], dtype=np.float32)

    return _frame(model, model.train_.users, "user", rows, k, scores, space, exact if by_distance else None)


def _frame(
    model: Recommender,
    ids: IdMap,
    kind: str,
    rows: NDArray[np.int64],
    k: int,
    scores: Any,
    space: VectorSpace | None,
    exact: Any = None,
) -> Any:
    if not len(rows):
        raise DataError(f"the list of {kind}s is empty.")
    asked, found, ranks, values = [], [], [], []
    for first in range(0, len(rows), _QUERIES):
        part = rows[first : first + _QUERIES]
        for row, mine in zip(part, scores(part), strict=True):
            allowed = np.ones(len(ids), dtype=bool)
            allowed[row] = False
            best = best_rows(mine, allowed, k)
            found_scores = mine[best]
            if exact is not None:  # found by the expanded square, shown by the differences themselves
                found_scores = exact(row, best)
                order = np.lexsort((best, -found_scores))
                best, found_scores = best[order], found_scores[order]
            asked.append(np.full(len(best), row))
            found.append(best)
            ranks.append(np.arange(1, len(best) + 1, dtype=np.int32))
            values.append(found_scores.astype(np.float32))
    frame = pl.DataFrame(
        [
            ids.take(np.concatenate(asked)).alias(kind),
            ids.take(np.concatenate(found)).alias("similar"),
            pl.Series("rank", np.concatenate(ranks)),
            pl.Series("score", np.concatenate(values)),
        ]
    )
    if space is not None and space.metric == "l2":
        frame = frame.with_columns(distance=-pl.col("score"))
    return from_polars(frame, model.train_.backend)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
