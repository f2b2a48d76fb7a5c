"""Feedback as training data, for `tastespace update --feedback`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from tastespace._util.limits import EVENT_WEIGHT
from tastespace.answers.ids import id_in_type, new_id_in_type, type_with_new
from tastespace.answers.types import AnswerError
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.data.reading.dates import size_unit
from tastespace.data.reading.options import DISLIKE, EVENTS
from tastespace.models.base import Recommender
from tastespace.serve.feedback.store import UNDO, Changes, Cursor, FeedbackStore, event_time

_NO_KIND = "interaction"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, eq=False)
class Feedback:
    """Feedback in a store that a model has not learned yet."""

    data: Interactions | None
    """None where there is nothing."""
    n_events: int
    n_other: int
    """Events whose ids are blank, or of other types than the model's."""
    n_new_items: int
    """Events with items that are not in the model's catalog, which were left out."""
    n_unreadable: int
    """Rows of the store that are no events, and events whose time or weight is out of bounds."""
    last: Cursor
    """Numbers of the last event and the last removal."""
    removed: tuple[Any, ...] = ()
    """Users of the model who were deleted since: it has to be fitted again without them."""
    deleted_items: tuple[Any, ...] = ()
    """Items of the model that were deleted."""


def feedback_for(store: FeedbackStore, model: Recommender, checksum: str, new_items: bool = False) -> Feedback:
    """The events that the model with this checksum has not learned, as interactions with the model's kind of data.

    ``new_items``: with events on items that are not in the model's catalog, which anyone with a token can name.

    >>> import tempfile
    >>> from tastespace import EASE, synthetic
    >>> from tastespace.serve.feedback.store import FeedbackEvent, open_feedback_store
    >>> model = EASE().fit(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_feedback_store(f"{folder}/feedback.sqlite")
    ...     _ = store.append([FeedbackEvent(7, 3, "a"), FeedbackEvent("ann", 3, "b"), FeedbackEvent(7, 999, "c")])
    ...     found = feedback_for(store, model, "")
    ...     store.close()
    >>> found.data.n_interactions, found.n_events, found.n_other, found.n_new_items
    (1, 3, 1, 1)
    """
    train, after = model.train_, store.learned(checksum)
    found = store.changes(after) or Changes([], [], after)
    removed = tuple(_known(train.users, [one.user for one in found.removals], "user"))
    deleted = tuple(_known(train.items, [one.item for one in found.items if one.is_deleted], "item"))
    if not found.events:
        return Feedback(None, 0, 0, 0, found.n_unreadable, found.cursor, removed, deleted)
    rows: list[tuple[Any, Any, float, datetime, str]] = []
    kinds = {**EVENTS, **(train.events or {}), _NO_KIND: 1.0, UNDO: 0.0}
    dislikes: dict[tuple[Any, Any], list[int]] = {}  # places in rows
    undone: set[int] = set()
    n_unreadable, n_ignored = found.n_unreadable, 0
    for event in found.events:
        try:
            time = event_time(event.time)
        except ValueError:
            n_unreadable += 1
            continue
        if not 0 < event.weight <= EVENT_WEIGHT or (event.kind or _NO_KIND) not in kinds:
            n_unreadable += 1
            continue
        try:
            pair = new_id_in_type(train.users, event.user, "user"), new_id_in_type(train.items, event.item, "item")
        except AnswerError:
            continue
        if event.kind == UNDO:
            undone.update(dislikes.pop(pair, ()))
        if kinds[event.kind or _NO_KIND]:  # not of a kind that does not count
            if kinds[event.kind or _NO_KIND] == DISLIKE:
                dislikes.setdefault(pair, []).append(len(rows))
            rows.append((*pair, event.weight, time, event.kind or _NO_KIND))
        else:
            n_ignored += 1
    rows, n_ignored = [row for at, row in enumerate(rows) if at not in undone], n_ignored + len(undone)
    gone = {one.item for one in found.items if one.is_deleted}
    n_gone = sum(row[1] in gone for row in rows)
    rows = [row for row in rows if row[1] not in gone]
    n_events = len(found.events) + found.n_unreadable
    n_other, n_new_items = n_events - n_unreadable - n_ignored - n_gone - len(rows), 0
    if rows and not new_items:
        is_known = train.items.find([row[1] for row in rows]) >= 0
        rows = [row for row, known in zip(rows, is_known, strict=True) if known]
        n_new_items = int((~is_known).sum())
    if not rows:
        return Feedback(None, n_events, n_other, n_new_items, n_unreadable, found.cursor, removed, deleted)
    columns = {
        "user": pl.Series([row[0] for row in rows], dtype=type_with_new(train.users)),
        "item": pl.Series([row[1] for row in rows], dtype=type_with_new(train.items)),
    }
    options: dict[str, Any] = {}
    has_kinds = train.events is not None or any(row[4] != _NO_KIND for row in rows)
    if train.weights is not None:
        columns["weight"] = pl.Series([row[2] for row in rows])
        options["weight"] = "weight"
    unit = None if train.timestamps is None else size_unit(train.timestamps)
    if unit in _PER_SECOND:
        columns["time"] = pl.Series([row[3].timestamp() * _PER_SECOND[unit] for row in rows])
        if train.timestamps is not None and train.timestamps.dtype.kind == "i":
            columns["time"] = columns["time"].cast(pl.Int64)
        options["timestamp"] = "time"
    if has_kinds:
        columns["kind"] = pl.Series([row[4] for row in rows])
        columns["when"] = pl.Series([row[3].timestamp() for row in rows])  # of a like and a dislike the last one holds
        options |= {"kind": "kind", "events": kinds, "timestamp": options.get("timestamp", "when")}
    data = Interactions.from_frame(pl.DataFrame(columns), part=True, **options)
    if has_kinds:
        data = replace(
            data,
            events=train.events,
            weights=None if train.weights is None else data.weights,
            timestamps=data.timestamps if "time" in columns else None,
        )
    return Feedback(data, n_events, n_other, n_new_items, n_unreadable, found.cursor, removed, deleted)


def _known(ids: IdMap, given: list[Any], kind: str) -> list[Any]:
    """Those of some ids that a model knows."""
    found = []
    for one in given:
        try:
            found.append(id_in_type(ids, one, kind))
        except AnswerError:
            continue
    return [one for one, row in zip(found, ids.find(found).tolist(), strict=True) if row >= 0] if found else []


def without(data: Interactions, users: Sequence[Any], items: Sequence[Any]) -> Interactions:
    """Interactions without these users and items: their ids, attributes and dislikes are gone, too.

    >>> rows = pl.DataFrame({"user": ["ann", "bob", "bob"], "item": [7, 7, 9]})
    >>> without(Interactions.from_frame(rows), ["ann"], [9])
    Interactions(1 users x 1 items, 1 interactions, 100.00 % dense)
    """
    kept_users, kept_items = (
        ~np.isin(np.arange(len(ids)), ids.find(list(gone)) if gone else []) for ids, gone in
        ((data.users, users), (data.items, items))
    )  # fmt: skip
    keep = kept_users[data.row_of_each()] & kept_items[data.indices]
    found = data.subset(keep)
    rows, columns = (pl.Series(np.flatnonzero(mask)) for mask in (kept_users, kept_items))
    place = np.cumsum(kept_items) - 1
    tables = (data.user_attributes, rows), (data.item_attributes, columns)
    of_users, of_items = (None if table is None else table[kept] for table, kept in tables)
    dislikes = data.dislikes
    if dislikes is not None:
        dislikes = dislikes.filter(~pl.col("user").is_in(list(users)) & ~pl.col("item").is_in(list(items)))
    return replace(
        found,
        users=IdMap(data.users.series.gather(rows), "user"),
        items=IdMap(data.items.series.gather(columns), "item"),
        offsets=np.concatenate([[0], np.cumsum(np.diff(found.offsets)[kept_users])]).astype(np.int64),
        indices=place[found.indices].astype(np.int32),
        user_attributes=of_users,
        item_attributes=of_items,
        dislikes=dislikes,
    )


def obeying(data: Interactions, store: FeedbackStore) -> tuple[Interactions, int]:
    """Interactions without the users and items that were deleted in a store, and the number of the last tombstone.

    Where there are times, what a user did after the deletion stays.
    """
    removals = store.removed_users()
    items = _known(data.items, [one.item for one in store.changed_items() if one.is_deleted], "item")
    moments = {one.user: event_time(one.time).timestamp() for one in removals}
    users = _known(data.users, list(moments), "user")
    unit = None if data.timestamps is None else size_unit(data.timestamps)
    if users and data.timestamps is not None and unit in _PER_SECOND:
        since = np.zeros(data.n_users)
        since[data.users.find(users)] = [moments[user] * _PER_SECOND[unit] for user in users]
        data = data.subset(data.timestamps >= since[data.row_of_each()])
        users = [user for user, row in zip(users, data.users.find(users), strict=True) if not data.user_counts[row]]
    return without(data, users, items), max((one.number for one in removals), default=0)
