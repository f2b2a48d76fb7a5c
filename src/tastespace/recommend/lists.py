"""Top-k lists of users as frames, arrays and files, and the neighbors of items and users, from any model."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from tastespace import _native
from tastespace._util.addresses import is_address
from tastespace._util.atomic import atomic_write
from tastespace._util.checks import is_whole, require_k, require_on_unknown
from tastespace._util.threads import require_polars, resolve_threads
from tastespace.data.attributes import item_titles
from tastespace.data.ids import IdMap, rows_at
from tastespace.data.reading.tables import (
    frame_of,
    from_polars,
    reordered,
    stacked,
)
from tastespace.errors import Argument, DataError, ParameterError, require_path
from tastespace.models.base import Recommender
from tastespace.models.list_options import ListOptions
from tastespace.models.vector_space import VectorSpace
from tastespace.ranking.ann import scoring_index
from tastespace.ranking.blocks import BlockRanker
from tastespace.ranking.scoring import Lists, ScoringIndex, TopK, merged, require_interest_space
from tastespace.recommend.interests import (
    NO_CHOICES,
    InterestChoices,
    interest_choices,
    is_by_user,
    is_given,
    with_profiles,
)
from tastespace.recommend.mix import Mix, MixedLists, block_of, boosted_mix, resolve_mix
from tastespace.recommend.request import RequestedUsers, as_list, candidate_rows, requested_users, require_history
from tastespace.recommend.rules.lists import RuledLists, apply_rules, pin_lists
from tastespace.recommend.rules.tables import rule_tables
from tastespace.recommend.stores.lists import write_lists

# ---------------------------------------------------------------------------------------------------------------------
# Frames that are computed one after the other, written to one file.

STREAMED = {".parquet": "sink_parquet", ".csv": "sink_csv", ".jsonl": "sink_ndjson"}
"""Endings of the files that can be written, and how."""
_AHEAD = 2  # frames that wait to be written


def write_frames(frames: Iterable[pl.DataFrame], schema: dict[str, Any], file: IO[bytes], ending: str) -> int:
    r"""Write frames as they come, in order, and give the number of rows.

    polars writes in a thread while the caller's computes: the main thread has to run Python for Ctrl-C to be handled,
    which inside of polars it does only at the end.

    >>> import io
    >>> text = io.BytesIO()
    >>> write_frames([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})], {"a": pl.Int64}, text, ".csv")
    2
    >>> text.getvalue()
    b'a\n1\n2\n'
    """
    waiting: queue.Queue[pl.DataFrame | None] = queue.Queue(_AHEAD)
    ended_early = threading.Event()
    problems: list[BaseException] = []

    def source(with_columns: Any, predicate: Any, n_rows: Any, batch_size: Any) -> Iterator[pl.DataFrame]:
        while True:
            if ended_early.is_set():
                raise OSError("the frames ended early")
            try:
                frame = waiting.get(timeout=0.1)
            except queue.Empty:
                continue
            if frame is None:
                return
            yield frame

    def write() -> None:
        try:
            getattr(register_io_source(io_source=source, schema=schema), STREAMED[ending])(file, maintain_order=True)
        except BaseException as problem:
            problems.append(problem)

    def put(frame: pl.DataFrame | None) -> None:
        while writer.is_alive():
            try:
                waiting.put(frame, timeout=0.2)
                break
            except queue.Full:  # is it alive?
                continue

    writer = threading.Thread(target=write, name="tastespace-writer", daemon=True)
    writer.start()
    written = 0
    try:
        for frame in frames:
            put(frame)
            written += len(frame)
            if not writer.is_alive():
                break
        put(None)
        while writer.is_alive():  # as in `tastespace._util.interrupts`: a wait without an end may not notice Ctrl-C
            writer.join(0.1)
    except BaseException:  # Ctrl-C as well: the caller removes what was written
        ended_early.set()
        writer.join(0.5)
        raise
    if problems:
        raise problems[0]
    return written


log = logging.getLogger(__name__)

_MUTED_AT_ONCE = 50_000_000  # items of users with muted interests
_USERS_AT_ONCE = 4096
_EXACT_MIXES = ("proportional", "scaled")


class TopKLists:
    """Lists of one request, block by block. It is immutable, so threads may share it."""

    def __init__(self, model: Recommender, request: ListOptions) -> None:
        self._model = model
        self._request = request
        self._index = scoring_index(model, request.threads, request.index)
        train = model.train_
        self._tables = rule_tables(train, request.rules, require_k(request.k))
        self._candidates = candidate_rows(train, request.items, request.filter, self._tables)
        n_candidates = train.n_items if self._candidates is None else len(self._candidates)
        self._k = min(require_k(request.k), n_candidates)
        self._mute, self._boost = request.mute, request.boost
        self._exclude_seen = request.exclude_seen
        self._mix = resolve_mix(self._index, request)
        if request.index == "ann" and self._mix.name in _EXACT_MIXES:
            index, mix = Argument("index", "ann"), Argument("mix", self._mix.name)
            log.warning("%s: %s needs the distances to all items; they are all compared", index, mix)
        self._boosted_mix = boosted_mix(self._index, self._mix, request)
        self._lists = self._mixed(self._mix)
        self._titles = item_titles(train.item_attributes, request.titles) if request.titles else None

    def answers(self, model: Recommender, request: ListOptions, threads: int) -> bool:
        """Return True where these are the lists of this request: its options are equal and the model is unchanged."""
        if self._model is not model or self._index.threads != threads or self._request != request:
            return False
        then, now = self._index.space, model.vectors()
        if now is None and self._index.tastes is not None:
            return self.is_of(model) and (
                model.program() is self._index.program if model.splits_scores else model.tastes() is self._index.tastes
            )
        return (
            now is not None
            and then is not None
            and self.is_of(model)
            and (now is then or now.is_same(then))
            and now.is_frozen
        )

    def is_of(self, model: Recommender) -> bool:
        """Return True where rows are those of this model, which another thread may have fitted again."""
        return self._index.train is model.train_

    def _mixed(self, mix: Mix) -> MixedLists:
        return MixedLists(self._index, mix, self._k, exclude_seen=self._exclude_seen, candidates=self._candidates)

    def blocks(self, rows: NDArray[np.int32], requested: NDArray[np.int32] | None = None) -> Lists:
        """Return the lists of the users at these rows; ``requested`` are rows too, -1 for those not in the model."""
        choices = self._choices(rows if requested is None else requested)
        if choices is NO_CHOICES:
            return self.plain(rows)
        muted = sorted(row for row, one in choices.muted.items() if one)
        boosted = [row for row, one in choices.boosts.items() if one] if self._boosted_mix != self._mix else []
        at_once = max(1, _MUTED_AT_ONCE // self._index.train.n_items)
        if not boosted and len(muted) <= at_once:
            return self._ruled(self._lists, choices)(rows)
        # Lists of items that are left out are long: not of too many users at once.
        ends = np.flatnonzero(np.isin(rows, muted))[at_once::at_once].tolist()
        parts = np.split(rows, ends)
        return itertools.chain.from_iterable(self._part(part, choices, np.isin(part, boosted)) for part in parts)

    def _part(self, rows: NDArray[np.int32], choices: InterestChoices, boosted: NDArray[np.bool_]) -> Lists:
        """Yield the lists of some users, of whom those with boosts have another mix."""
        here = set(rows.tolist())
        own = InterestChoices(
            {row: one for row, one in choices.muted.items() if row in here},
            {row: one for row, one in choices.boosts.items() if row in here},
        )
        plain = self._ruled(self._lists, own)
        if not boosted.any():
            yield from plain(rows)
            return
        mixed = self._ruled(self._mixed(self._boosted_mix), own)
        for start in range(0, len(rows), _USERS_AT_ONCE):
            users, is_boosted = rows[start : start + _USERS_AT_ONCE], boosted[start : start + _USERS_AT_ONCE]
            found = []
            for lists, of in ((plain, ~is_boosted), (mixed, is_boosted)):
                at, first = np.flatnonzero(of), 0
                for block, some in lists(users[at]):
                    found.append(some.moved(at[first : first + len(block.users)]))
                    first += len(block.users)
            yield block_of(users), merged(found)

    @cached_property
    def plain(self) -> Callable[[NDArray[np.int32]], Lists]:
        """Function from rows of users to their lists, where no user has muted or boosted interests."""
        return self._ruled(self._lists, NO_CHOICES)

    def _ruled(self, lists: MixedLists, choices: InterestChoices) -> Callable[[NDArray[np.int32]], Lists]:
        """Return a function from rows of users to their lists, under the rules where there are any."""
        excluded = lists.excluded(choices)
        lister = lists.lister(choices, excluded)
        if self._tables is None or not self._tables.reorders:
            return lambda rows: lister(rows, self._k)
        return RuledLists(self._index, self._tables, self._k, lister, excluded, self._candidates).blocks

    def _choices(self, requested: NDArray[np.int32]) -> InterestChoices:
        """Return interests muted and boosted by request and profiles; ``requested``: rows of users, -1 for unknown."""
        asked = is_given(self._request.mute) or is_given(self._request.boost)
        stored = self._model.profiles if self._request.profile else None
        profiles = stored.by_row(self._model.train_.users, requested) if stored else {}
        if not asked and not profiles:
            return NO_CHOICES
        offsets = require_interest_space(self._model, "interests to mute or boost").user_offsets
        users = self._model.train_.users
        found = interest_choices(users, offsets, self._mute, self._boost, requested) if asked else InterestChoices()
        return with_profiles(found, profiles, offsets, users)

    def of_one(self, user: Any) -> pl.DataFrame | None:
        """Return the frame of one user where a kernel returns it in one call.

        None where it cannot: for unknown users, users without a history, and options that the kernel does not have.
        `frames` covers these.
        """
        model, lists = self._model, self._one_user_lists
        users = self._index.train.users  # not those of a model that another thread has fitted since
        if lists is None or not users.is_plain(user) or (self._request.profile and model.profiles):
            return None
        row = users.find_one(user)
        if row < 0 or not self.is_of(model) or not model.can_serve_one(row):
            return None
        columns = lists.columns(row) if users.numbers is not None else lists.columns(row, user)
        return None if columns is None else pl.DataFrame(columns)

    @cached_property
    def _one_user_lists(self) -> _native.OneUserLists | _native.OneUserBlendLists | None:
        """Kernel for lists of one user by score alone; None where the options ask for more."""
        reorders = self._tables is not None and self._tables.reorders
        choices = is_given(self._mute) or is_given(self._boost)
        if self._mix.name != "nearest" or reorders or choices or self._titles is not None:
            return None
        ranker = self._index.ranker(self._k, self._lists.excluded(NO_CHOICES), self._candidates)
        train = self._index.train
        if not isinstance(ranker, BlockRanker) or not self.is_of(self._model):
            return None
        return ranker.one_user_lists(train.users, train.items, self._model.has_interests)

    def frames(self, users: RequestedUsers) -> Iterator[pl.DataFrame]:
        """Return lists as frames: user, item, rank, score and, where the model has them, distance and interest.

        Users that are not in the model have the most popular items with ``on_unknown="popular"``, else no rows.
        """
        known = np.flatnonzero(users.rows >= 0)
        lists = self.blocks(users.rows[known], users.rows)  # invalid vectors are an error now
        if self._request.on_unknown == "popular" and len(known) < len(users.rows):
            return self._frames_with_popular(users)
        return self._frames(users, known, lists)

    def _frames_with_popular(self, users: RequestedUsers) -> Iterator[pl.DataFrame]:
        """Yield the frames of some users at a time, in the order of the request."""
        # By position in the request, because a user may be in it twice; ids come in when all are in order.
        positions, ids = pl.Series(np.arange(len(users.rows))), users.ids
        numbered = RequestedUsers(positions, users.rows)
        for start in range(0, len(users.rows), _USERS_AT_ONCE):
            rows = users.rows[start : start + _USERS_AT_ONCE]
            known, unknown = (start + np.flatnonzero(of) for of in (rows >= 0, rows < 0))
            lists = self.blocks(users.rows[known], users.rows)
            parts = [*self._frames(numbered, known, lists), self.popular(positions.gather(pl.Series(unknown)))]
            found = stacked(parts)
            found = reordered(found, np.argsort(found["user"].to_numpy(), kind="stable"))
            named = ids.gather(found["user"].cast(pl.UInt32)).alias("user")
            yield pl.DataFrame([named, *found.get_columns()[1:]])

    def _frames(self, users: RequestedUsers, known: NDArray[np.int64], blocks: Lists) -> Iterator[pl.DataFrame]:
        first = 0
        for block, found in blocks:
            at = known[first : first + len(block.users)]
            first += len(block.users)
            columns = {
                "user": users.column(at[found.query]),
                **self._item_columns(found.rows),
                "rank": found.rank,
                "score": found.scores,
            }
            if self._index.has_distances:
                assert found.distances is not None
                columns["distance"] = found.distances
            if self._model.has_interests:
                assert found.interests is not None
                columns["interest"] = found.interests
            yield frame_of(columns)

    def _item_columns(self, rows: NDArray[np.int32]) -> dict[str, NDArray[Any] | pl.Series]:
        """Return the ids of items and, if requested, their titles."""
        ids = {"item": self._model.train_.items.column(rows)}
        return ids if self._titles is None else {**ids, "title": rows_at(self._titles, rows)}

    def popular(self, users: pl.Series) -> pl.DataFrame:
        """Return the most popular items, with null scores, for users who are not in the model."""
        best = self.most_popular()
        n = len(users) * len(best)
        nothing = {
            name: pl.Series(name, [None], dtype=kind).new_from_index(0, n)
            for name, kind in self._value_columns().items()
        }
        return frame_of(
            {
                "user": users.gather(pl.Series(np.repeat(np.arange(len(users)), len(best)), dtype=pl.UInt32)),
                **self._item_columns(np.tile(best, len(users))),
                "rank": np.tile(np.arange(1, len(best) + 1, dtype=np.int32), len(users)),
                **nothing,
            }
        )

    def most_popular(self) -> NDArray[np.int32]:
        """Return the rows of the k most popular items that the request and the rules allow."""
        train, tables = self._model.train_, self._tables
        rows = np.arange(train.n_items, dtype=np.int32) if self._candidates is None else self._candidates
        ordered = rows[np.argsort(-self._model.popularity_source.item_counts[rows], kind="stable")]
        if tables is None or not tables.reorders:
            return ordered[: self._k]
        pinned = pin_lists(tables.pins, tables.places, np.isin(tables.pins, rows)[None, :], tables.on_top)
        offsets, lengths = np.array([0, len(ordered)]), np.array([self._k], dtype=np.int32)
        return apply_rules(tables, offsets, ordered, lengths, pinned, self._candidates, threads=1)[1]

    def schema(self, id_type: pl.DataType) -> dict[str, Any]:
        """Return the columns of `frames` and their types, for users with ids of this type."""
        ids = {"user": id_type, "item": self._model.train_.items.series.dtype}
        titles = {} if self._titles is None else {"title": pl.String}
        return {**ids, **titles, "rank": pl.Int32, **self._value_columns()}

    def _value_columns(self) -> dict[str, Any]:
        return {
            "score": pl.Float32,
            **({"distance": pl.Float32} if self._index.has_distances else {}),
            **({"interest": pl.Int32} if self._model.has_interests else {}),
        }


def top_k_lists(model: Recommender, request: ListOptions) -> TopKLists:
    """Return the lists of a request. Those of the last plain one are kept with the model.

    Requests for one user after the other mostly have the same options; then only the users differ.
    """
    if not request.is_plain:
        return TopKLists(model, request)
    model.require_fitted()
    kept: TopKLists | None = model._kept_lists
    if kept is None or not kept.answers(model, request, resolve_threads(request.threads)):
        kept = model._kept_lists = TopKLists(model, request)
    return kept


def recommend(model: Recommender, users: Any, request: ListOptions) -> Any:
    """Implement `Recommender.recommend`."""
    lists = top_k_lists(model, request)
    require_on_unknown(request.on_unknown)
    one = lists.of_one(users)
    if one is not None:
        return from_polars(one, model.train_.backend)
    requested = requested_users(model, users, request.on_unknown)
    if not lists.is_of(model):  # their rows would be those of other users
        lists = top_k_lists(model, request)
    parts = list(lists.frames(requested))
    found = stacked(parts) if parts else pl.DataFrame(schema=lists.schema(requested.id_type))
    return from_polars(found, model.train_.backend)


def recommend_indices(
    model: Recommender, rows: Any, request: ListOptions
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Implement `Recommender.recommend_indices`."""
    model.require_fitted()
    mute, boost = (_by_id(model, "mute", request.mute), _by_id(model, "boost", request.boost))
    if mute is not request.mute or boost is not request.boost:
        request = replace(request, mute=mute, boost=boost)
    lists = top_k_lists(model, request)
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
    served, first = np.flatnonzero(model.can_serve(wanted)), 0
    for block, found in lists.blocks(wanted[served].astype(np.int32)):
        at = served[first : first + len(block.users)]
        if len(found.rows) == len(at) * request.k:  # full lists, which is the rule
            top[at] = found.rows.reshape(len(at), request.k)
            scores[at] = found.scores.reshape(len(at), request.k)
        else:
            top[at[found.query], found.rank - 1] = found.rows
            scores[at[found.query], found.rank - 1] = found.scores
        first += len(block.users)
    return top, scores


def _by_id(model: Recommender, name: str, choice: Any) -> Any:
    """Return a choice by index of the user as one by id; a choice of one user unchanged."""
    if not is_by_user(name, choice):
        return choice
    users = model.train_.users
    for row in choice:
        if not is_whole(row, 0) or row >= len(users):
            raise ParameterError(f"{name}: user index {row!r} was given, expected 0 to {len(users) - 1}.")
    return {users[int(row)]: one for row, one in choice.items()}


def recommend_to(model: Recommender, path: str | Path, users: Any, request: ListOptions) -> int:
    """Implement `Recommender.recommend_to`."""
    if not is_address(path):
        path = require_path(path)
        if path.suffix not in STREAMED:
            raise ParameterError(f"{path}: expected a name that ends in {', '.join(STREAMED)}.")
    require_polars("recommend_to")
    lists = TopKLists(model, request)
    requested = requested_users(model, users, request.on_unknown)
    frames = lists.frames(requested)  # a model with invalid vectors is an error before anything is written
    if isinstance(path, str):
        return write_lists(path, frames, lists.schema(requested.id_type), all_users=users is None)
    try:
        # An open file, not its name: after an error polars may still create the file that it was to write.
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            return write_frames(frames, lists.schema(requested.id_type), file, path.suffix)
    except (OSError, pl.exceptions.PolarsError) as problem:
        raise DataError(f"{path} could not be written: {str(problem).splitlines()[0]}") from problem


# ---------------------------------------------------------------------------------------------------------------------
# Items similar to an item, users similar to a user.


def similar_items(model: Recommender, items: Any, k: int = 10) -> Any:
    """Implement `Recommender.similar_items`."""
    k = require_k(k)
    model.require_fitted()
    rows = _neighbor_rows(model.train_.items, items, "item")
    found = ScoringIndex(model).similar_items(rows, k)
    return _neighbor_frame(model, model.train_.items, "item", rows, found, model.item_space())


def similar_users(model: Recommender, users: Any, k: int = 10) -> Any:
    """Implement `Recommender.similar_users`."""
    k = require_k(k)
    space = require_interest_space(model, "similar users")
    rows = _neighbor_rows(model.train_.users, users, "user")
    for row in rows[~model.can_serve(rows)][:1]:
        require_history(model, int(row), "similar users")
    return _neighbor_frame(model, model.train_.users, "user", rows, ScoringIndex(model).similar_users(rows, k), space)


def _neighbor_rows(ids: IdMap, wanted: Any, kind: str) -> NDArray[np.int64]:
    rows = ids.index_of(as_list(wanted))
    if not len(rows):
        raise DataError(f"the list of {kind}s is empty.")
    return rows


def _neighbor_frame(
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
