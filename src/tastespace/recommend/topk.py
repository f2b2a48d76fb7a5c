"""Top-k lists of users as frames, arrays and files, from any model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from tastespace.atomic import atomic_write
from tastespace.checks import is_whole, require_k
from tastespace.data.tables import from_polars
from tastespace.errors import DataError, ParameterError, require_path
from tastespace.models.base import Recommender
from tastespace.models.ranking import Block
from tastespace.recommend.interest_choices import InterestChoices, interest_choices, is_by_user, is_given
from tastespace.recommend.mix import MixedLists
from tastespace.recommend.mix_options import resolve_mix
from tastespace.recommend.request import Request, RequestedUsers, candidate_rows, requested_users
from tastespace.recommend.scoring import ScoringIndex, TopK, require_interest_space

STREAMED = {".parquet": "sink_parquet", ".csv": "sink_csv", ".jsonl": "sink_ndjson"}
"""Files that `recommend_to` writes, and how."""


class TopKLists:
    """The lists of one request, block by block."""

    def __init__(self, model: Recommender, request: Request) -> None:
        self._model = model
        self._index = ScoringIndex(model, request.threads)
        train = model.train_
        self._candidates = candidate_rows(train, request.items, request.filter)
        n_candidates = train.n_items if self._candidates is None else len(self._candidates)
        self._k = min(require_k(request.k), n_candidates)
        self._mute, self._boost = request.mute, request.boost
        self._lists = MixedLists(
            self._index,
            resolve_mix(self._index, request),
            self._k,
            exclude_seen=request.exclude_seen,
            candidates=self._candidates,
        )

    def blocks(self, rows: NDArray[np.int32]) -> Iterator[tuple[Block, TopK]]:
        """The lists of the users at these rows."""
        return self._lists.blocks(rows, self._choices(rows))

    def _choices(self, requested: NDArray[np.int32]) -> InterestChoices:
        """What the request says about interests; ``requested`` are rows of users, -1 for those not in the model."""
        if not is_given(self._mute) and not is_given(self._boost):
            return InterestChoices()
        space = require_interest_space(self._model, "interests to mute or boost")
        return interest_choices(self._model.train_.users, space.user_offsets, self._mute, self._boost, requested)

    def frames(self, users: RequestedUsers) -> Iterator[pl.DataFrame]:
        """The lists as frames: user, item, rank, score and, where the model has them, distance and interest.

        Users that are not in the model have no rows.
        """
        known = np.flatnonzero(users.rows >= 0)
        lists = self._lists.blocks(users.rows[known], self._choices(users.rows))
        return self._frames(users.ids, known, lists)

    def _frames(
        self, ids: pl.Series, known: NDArray[np.int64], blocks: Iterator[tuple[Block, TopK]]
    ) -> Iterator[pl.DataFrame]:
        first = 0
        for block, found in blocks:
            at = known[first : first + len(block.users)]
            first += len(block.users)
            columns = [
                ids.gather(pl.Series(at[found.query], dtype=pl.UInt32)).alias("user"),
                self._model.train_.items.take(found.rows).alias("item"),
                pl.Series("rank", found.rank),
                pl.Series("score", found.scores),
            ]
            if self._index.has_distances:
                columns.append(pl.Series("distance", found.distances))
            if self._model.has_interests:
                columns.append(pl.Series("interest", found.interests))
            yield pl.DataFrame(columns)

    def popular(self, users: pl.Series) -> pl.DataFrame:
        """The most popular items, for users who are not in the model: their scores are null."""
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
            **({"distance": pl.Float32} if self._index.has_distances else {}),
            **({"interest": pl.Int32} if self._model.has_interests else {}),
        }


def recommend(model: Recommender, users: Any, request: Request, on_unknown: str = "error") -> Any:
    """`Recommender.recommend`."""
    lists = TopKLists(model, request)
    requested = requested_users(model.train_, users, on_unknown)
    unknown = np.flatnonzero(requested.rows < 0)
    if len(unknown) and on_unknown == "popular":
        # By position in the request, because a user may be in it twice; ids come in when all are in order.
        numbered = RequestedUsers(pl.Series(np.arange(len(requested.rows))), requested.rows)
        parts = [*lists.frames(numbered), lists.popular(pl.Series(unknown))]
        found = pl.concat(parts).sort("user", maintain_order=True)
        found = found.with_columns(requested.ids.gather(found["user"]).alias("user"))
        return from_polars(found, model.train_.backend)
    parts = list(lists.frames(requested))
    empty = pl.DataFrame(schema=lists.schema(requested.ids))
    return from_polars(pl.concat(parts) if parts else empty, model.train_.backend)


def recommend_indices(model: Recommender, rows: Any, request: Request) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """`Recommender.recommend_indices`."""
    model.require_fitted()
    mute, boost = (_by_id(model, "mute", request.mute), _by_id(model, "boost", request.boost))
    lists = TopKLists(model, replace(request, mute=mute, boost=boost))
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
    for block, found in lists.blocks(wanted.astype(np.int32)):
        top[first + found.query, found.rank - 1] = found.rows
        scores[first + found.query, found.rank - 1] = found.scores
        first += len(block.users)
    return top, scores


def _by_id(model: Recommender, name: str, choice: Any) -> Any:
    """A choice by index of the user as one by id; a choice of one user as it is."""
    if not is_by_user(name, choice):
        return choice
    users = model.train_.users
    for row in choice:
        if not is_whole(row, 0) or row >= len(users):
            raise ParameterError(f"{name}: user index {row!r} was given, expected 0 to {len(users) - 1}.")
    return {users[int(row)]: one for row, one in choice.items()}


def recommend_to(model: Recommender, path: str | Path, users: Any, request: Request) -> int:
    """`Recommender.recommend_to`."""
    path = require_path(path)
    if path.suffix not in STREAMED:
        raise ParameterError(f"{path}: expected a name that ends in {', '.join(STREAMED)}.")
    lists = TopKLists(model, request)
    requested = requested_users(model.train_, users, "error")
    frames = lists.frames(requested)  # a model whose vectors make no sense is an error before anything is written
    written = 0

    def source(with_columns: Any, predicate: Any, n_rows: Any, batch_size: Any) -> Iterator[pl.DataFrame]:
        nonlocal written
        for frame in frames:
            written += len(frame)
            yield frame

    streamed = register_io_source(io_source=source, schema=lists.schema(requested.ids))
    try:
        # An open file, not its name: after an error polars may still create the file that it was to write.
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            getattr(streamed, STREAMED[path.suffix])(file, maintain_order=True)
    except (OSError, pl.exceptions.PolarsError) as problem:
        raise DataError(f"{path} could not be written: {str(problem).splitlines()[0]}") from problem
    return written
