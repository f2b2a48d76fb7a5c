"""Top lists for users, from any model, in blocks: never a users x items matrix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import threads as threading
from tastespace.data.tables import from_polars
from tastespace.errors import DataError, ParameterError, require_path
from tastespace.models.base import Recommender
from tastespace.models.ranking import Block, BlockRanker, no_items
from tastespace.recommend.request import Asked, Request, asked_users, candidate_rows, check_k

STREAMED = {".parquet": "sink_parquet", ".csv": "sink_csv", ".jsonl": "sink_ndjson"}
"""Files that `recommend_to` writes, and how."""


@dataclass(frozen=True, eq=False)
class Lists:
    """Finished lists of a block of users, one entry per recommendation, best first within a user."""

    owner: NDArray[np.int64]
    """Position of the user in the block."""
    rank: NDArray[np.int32]
    items: NDArray[np.int32]
    scores: NDArray[np.float32]
    interests: NDArray[np.int32] | None


class Lister:
    """Makes the lists of one request, block by block."""

    def __init__(self, model: Recommender, request: Request) -> None:
        model.require_fitted()
        train = model.train_
        self._model = model
        self._threads = threading.resolve(request.threads)
        self._candidates = candidate_rows(train, request.items, request.filter)
        n_candidates = train.n_items if self._candidates is None else len(self._candidates)
        self._k = min(check_k(request.k), n_candidates)
        self._excluded = (train.offsets, train.indices) if request.exclude_seen else no_items(train.n_users)
        space = model.vectors()
        self._by_distance = space is not None and space.metric == "l2"
        self._ranker = BlockRanker(
            model, *self._excluded, *no_items(train.n_users), self._k, self._threads, self._candidates
        )

    def blocks(self, rows: NDArray[np.int32]) -> Iterator[tuple[Block, Lists]]:
        """The lists of the users at these rows."""
        for block in self._ranker.blocks(rows):
            owner, place = np.nonzero(block.top >= 0)
            items = block.top[owner, place]
            scores, interests = block.scores_of(owner, items, self._threads)
            # Ranked by the expanded square, shown by the differences themselves: neighbors may change places.
            tied = (scores[1:] == scores[:-1]) & (items[1:] < items[:-1])
            if (((scores[1:] > scores[:-1]) | tied) & (owner[1:] == owner[:-1])).any():
                order = np.lexsort((items, -scores, owner))
                items, scores = items[order], scores[order]
                interests = None if interests is None else interests[order]
            yield block, Lists(owner, (place + 1).astype(np.int32), items, scores, interests)

    def frames(self, asked: Asked) -> Iterator[pl.DataFrame]:
        """The lists as frames: user, item, rank, score and, where the model has them, distance and interest."""
        train = self._model.train_
        known = np.flatnonzero(asked.rows >= 0)
        first = 0
        for block, lists in self.blocks(asked.rows[known]):
            at = known[first : first + len(block.users)]
            first += len(block.users)
            columns = [
                asked.ids.gather(pl.Series(at[lists.owner], dtype=pl.UInt32)).alias("user"),
                train.items.take(lists.items).alias("item"),
                pl.Series("rank", lists.rank),
                pl.Series("score", lists.scores),
            ]
            if self._by_distance:
                columns.append(pl.Series("distance", -lists.scores))
            if self._model.has_interests:
                columns.append(pl.Series("interest", lists.interests))
            yield pl.DataFrame(columns)

    def popular(self, users: pl.Series) -> pl.DataFrame:
        """What most people take, for users the model does not know: their scores are null."""
        train = self._model.train_
        rows = np.arange(train.n_items) if self._candidates is None else self._candidates
        best = rows[np.argsort(-self._model.popularity_source.item_counts[rows], kind="stable")[: self._k]]
        lists = pl.DataFrame([train.items.take(best).alias("item")]).with_columns(
            pl.Series("rank", np.arange(1, len(best) + 1, dtype=np.int32)),
            *(pl.lit(None, dtype=kind).alias(name) for name, kind in self._value_columns().items()),
        )
        return users.alias("user").to_frame().join(lists, how="cross")

    def schema(self, users: pl.Series) -> dict[str, Any]:
        """Columns of `frames` and their types."""
        ids = {"user": users.dtype, "item": self._model.train_.items.series.dtype, "rank": pl.Int32}
        return {**ids, **self._value_columns()}

    def _value_columns(self) -> dict[str, Any]:
        return {
            "score": pl.Float32,
            **({"distance": pl.Float32} if self._by_distance else {}),
            **({"interest": pl.Int32} if self._model.has_interests else {}),
        }


def recommend(model: Recommender, users: Any, request: Request, on_unknown: str = "error") -> Any:
    """`Recommender.recommend`."""
    lister = Lister(model, request)
    asked = asked_users(model.train_, users, on_unknown)
    unknown = np.flatnonzero(asked.rows < 0)
    if len(unknown) and on_unknown == "popular":
        # By place in the question, because a user may be asked for twice; ids come in when all are in order.
        numbered = Asked(pl.Series(np.arange(len(asked.rows))), asked.rows)
        parts = [*lister.frames(numbered), lister.popular(pl.Series(unknown))]
        found = pl.concat(parts).sort("user", maintain_order=True)
        found = found.with_columns(asked.ids.gather(found["user"]).alias("user"))
        return from_polars(found, model.train_.backend)
    parts = list(lister.frames(asked))
    empty = pl.DataFrame(schema=lister.schema(asked.ids))
    return from_polars(pl.concat(parts) if parts else empty, model.train_.backend)


def recommend_indices(model: Recommender, rows: Any, request: Request) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """`Recommender.recommend_indices`."""
    lister = Lister(model, request)
    n_users = model.train_.n_users
    wanted = np.arange(n_users) if rows is None else np.asarray(rows)
    if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.integer):
        raise ParameterError(f"recommend_indices expects whole numbers of shape (n,), given {wanted!r}.")
    if len(wanted) and not (wanted.min() >= 0 and wanted.max() < n_users):
        raise ParameterError(
            f"user indices from {wanted.min()} to {wanted.max()} were given, expected 0 to {n_users - 1}. For ids use "
            "recommend."
        )
    top = np.full((len(wanted), request.k), -1, dtype=np.int32)
    scores = np.full(top.shape, np.nan, dtype=np.float32)
    first = 0
    for block, lists in lister.blocks(wanted.astype(np.int32)):
        top[first + lists.owner, lists.rank - 1] = lists.items
        scores[first + lists.owner, lists.rank - 1] = lists.scores
        first += len(block.users)
    return top, scores


def recommend_to(model: Recommender, path: str | Path, users: Any, request: Request) -> int:
    """`Recommender.recommend_to`."""
    from polars.io.plugins import register_io_source

    path = require_path(path)
    if path.suffix not in STREAMED:
        raise ParameterError(f"{path}: expected a name that ends in {', '.join(STREAMED)}.")
    lister = Lister(model, request)
    asked = asked_users(model.train_, users, "error")
    written = 0

    def source(with_columns: Any, predicate: Any, n_rows: Any, batch_size: Any) -> Iterator[pl.DataFrame]:
        nonlocal written
        for frame in lister.frames(asked):
            written += len(frame)
            yield frame

    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frames = register_io_source(io_source=source, schema=lister.schema(asked.ids))
        getattr(frames, STREAMED[path.suffix])(partial, maintain_order=True)
        partial.replace(path)  # a reader sees the old file or the whole new one
    except (OSError, pl.exceptions.PolarsError) as problem:
        raise DataError(f"{path} could not be written: {str(problem).splitlines()[0]}") from problem
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return written
