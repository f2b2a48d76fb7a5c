"""Feedback as training data, for `tastespace update --feedback`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import polars as pl

from tastespace._util.limits import EVENT_WEIGHT
from tastespace.answers.ids import new_id_in_type, type_with_new
from tastespace.answers.types import AnswerError
from tastespace.data.interactions import Interactions
from tastespace.data.reading.dates import size_unit
from tastespace.data.reading.options import DISLIKE, EVENTS
from tastespace.models.base import Recommender
from tastespace.serve.feedback.store import UNDO, Cursor, FeedbackStore, event_time

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
    last: int
    """Number of the last event."""


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
    train, after = model.train_, Cursor(store.learned(checksum))
    found = store.changes(after)
    if found is None or not found.events:
        last = after.event if found is None else found.cursor.event
        return Feedback(None, 0, 0, 0, 0 if found is None else found.n_unreadable, last)
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
    n_events = len(found.events) + found.n_unreadable
    n_other, n_new_items = n_events - n_unreadable - n_ignored - len(rows), 0
    if rows and not new_items:
        is_known = train.items.find([row[1] for row in rows]) >= 0
        rows = [row for row, known in zip(rows, is_known, strict=True) if known]
        n_new_items = int((~is_known).sum())
    if not rows:
        return Feedback(None, n_events, n_other, n_new_items, n_unreadable, found.cursor.event)
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
    return Feedback(data, n_events, n_other, n_new_items, n_unreadable, found.cursor.event)
