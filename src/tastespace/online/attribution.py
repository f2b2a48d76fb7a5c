"""Events joined to the lists they came from: by the id of the answer, and the item."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl

from tastespace.answers.ids import json_id
from tastespace.serve.feedback.ids import id_text
from tastespace.serve.feedback.impressions import read_recommendation_id

if TYPE_CHECKING:
    from tastespace.serve.feedback.store import FeedbackStore

NOT_TASTES = ("dislike",)
"""Kinds of events that are no success of a list."""


@dataclass(frozen=True, eq=False)
class Attributed:
    """Lists that were shown, and what came of them."""

    shown: pl.DataFrame
    """A row for each time that a list was shown: ``number``, ``list``, ``time`` (microseconds since 1970), ``unit`` (a
    number for each user; for each list of somebody without an id), ``arm``, ``model`` (generation), ``kind``."""
    places: pl.DataFrame
    """A row for each item of each list: ``list``, ``rank`` (from 1), ``taste``, ``propensity``, ``explored`` (whether
    the item was drawn), ``candidates`` (items that exploration drew from, 0: none)."""
    events: pl.DataFrame
    """A row for each event that belongs to a list: ``number``, ``list``, ``rank``, ``event`` (its kind)."""
    counts: dict[str, int]
    """Events that name a list: ``attributed``; and those that do not belong to it: ``unknown`` (no such id: of another
    store, or older than what is kept), ``other_user``, ``not_in_list``, ``repeated`` (the same on the same item of the
    same list)."""


def attribute(store: FeedbackStore, since: int = 0) -> Attributed:
    """Join the events of a store to the lists that they name.

    An event belongs to a list where it names its id, is of the user to whom it was shown (of anybody, where nobody
    in particular), and on one of its items. Everything else is counted and left out.

    Args:
        store: An open feedback store.
        since: Lists shown before this time are left out, in microseconds since 1970.
    """
    lists = {one.number: one for one in store.shown_lists()}
    users: dict[str, int] = {}
    shown: dict[int, tuple[int, int]] = {}
    rows: list[tuple[int, int, int, int]] = []
    first = ((one.number, one.secret, one.made, one.number) for one in lists.values())
    for number, secret, time, made in chain(first, store.impressions()):
        one = lists.get(made)
        if one is None or time < since:
            continue
        name = f"#{number}" if one.user is None else id_text(one.user)
        shown[number] = secret, made
        rows.append((number, made, time, users.setdefault(name, len(users))))
    counts = Counter(dict.fromkeys(("attributed", "unknown", "other_user", "not_in_list", "repeated"), 0))
    found: list[tuple[int, int, int, str]] = []
    known: set[tuple[int, int, str]] = set()
    for event in store.attributed_events():
        named = read_recommendation_id(event.recommendation)
        answer = None if named is None else shown.get(named[0])
        if named is None or answer is None or answer[0] != named[1]:
            counts["unknown"] += 1
            continue
        shown_list = lists[answer[1]]
        if shown_list.user is not None and json_id(shown_list.user) != event.user:
            counts["other_user"] += 1
        elif event.item not in shown_list.items:
            counts["not_in_list"] += 1
        else:
            rank = shown_list.items.index(event.item) + 1
            if (named[0], rank, event.kind) in known:
                counts["repeated"] += 1
                continue
            known.add((named[0], rank, event.kind))
            counts["attributed"] += 1
            found.append((named[0], answer[1], rank, event.kind))
    used = {row[1] for row in rows}
    about = {
        number: (one.arm or f"model {one.model}", one.model, one.kind)
        for number, one in lists.items()
        if number in used
    }
    return Attributed(
        pl.DataFrame(
            [(*row, *about[row[1]]) for row in rows],
            schema={"number": pl.Int64, "list": pl.Int64, "time": pl.Int64, "unit": pl.Int64, "arm": pl.String,
                    "model": pl.Int64, "kind": pl.String},
            orient="row",
        ),
        pl.DataFrame(
            [
                (number, at + 1, taste, propensity, at + 1 in one.explored, one.candidates)
                for number, one in lists.items() if number in used
                for at, (taste, propensity) in enumerate(zip(one.tastes, one.propensities, strict=True))
            ],
            schema={"list": pl.Int64, "rank": pl.Int64, "taste": pl.Int64, "propensity": pl.Float64,
                    "explored": pl.Boolean, "candidates": pl.Int64},
            orient="row",
        ),
        pl.DataFrame(
            found, schema={"number": pl.Int64, "list": pl.Int64, "rank": pl.Int64, "event": pl.String}, orient="row"
        ),
        dict(counts),
    )  # fmt: skip


def successes(events: pl.DataFrame, kinds: tuple[str, ...] | None = None) -> pl.DataFrame:
    """Events that count: of these kinds; None: all but dislikes."""
    if kinds is None:
        return events.filter(~pl.col("event").is_in(NOT_TASTES))
    return events.filter(pl.col("event").is_in(kinds))
