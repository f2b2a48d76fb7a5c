"""The most popular items, of all time or of a window of time, and those whose popularity rises."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.checks import require_k
from tastespace.data.interactions import Interactions
from tastespace.data.reading.dates import Duration, duration_in, size_unit
from tastespace.data.reading.tables import from_polars
from tastespace.errors import Argument, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.list_options import Filter
from tastespace.recommend.request import candidate_rows

_DAYS = 7.0  # the window of trending items unless another is given
_BEFORE = 4.0  # windows before the present one to which it is compared
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_DAY = 86_400.0


class Popularity(NamedTuple):
    """Items from the most popular on."""

    rows: NDArray[np.int32]
    scores: NDArray[np.float32]
    users: NDArray[np.int64]
    """Interactions of each item within the window, each pair of user and item once."""


class Recent(NamedTuple):
    """Pairs of user and item that the training data does not have, each once."""

    items: NDArray[np.int32]
    """Row of the item of each."""
    seconds: NDArray[np.float64]
    """Its time, in seconds since 1970."""


def popularity(
    train: Interactions,
    k: int,
    *,
    since: Duration | None = None,
    trending: bool = False,
    candidates: NDArray[np.int32] | None = None,
    recent: Recent | None = None,
) -> Popularity:
    """Rank items by their interactions within a window of time, or by how far these are above what was usual.

    The window ends with the latest interaction that is not in the future: clocks that are wrong move nothing. For
    trending items n is the number of interactions of an item in the window, e the number that it would have with its
    share of the four windows before, and the score is (n - e) / sqrt(e + 1): how many standard deviations of a Poisson
    count n is above e. Items without any interaction in the window are in no list of a window.

    Args:
        train: Interactions; with ``since`` or ``trending`` they need times.
        k: Length of the list.
        since: Length of the window, such as ``"7d"``; None: all of the time, or 7 days where trending.
        trending: Rank by the rise.
        candidates: Rows of the items that may be in the list; None: all.
        recent: Interactions to add.
    """
    rows = np.arange(train.n_items, dtype=np.int32) if candidates is None else candidates
    if since is None and not trending:
        counts = train.item_counts.astype(np.int64)
        if recent is not None:
            counts = counts + np.bincount(recent.items, minlength=train.n_items)
        return _best(rows, counts[rows].astype(np.float64), counts, k)
    times, items = _times(train, recent)
    width = duration_in(_DAYS if since is None else since, times, "since")
    end = float(times.max(initial=-np.inf))
    in_window = times > end - width
    counts = np.bincount(items[in_window], minlength=train.n_items)
    scores = counts.astype(np.float64)
    if trending:
        before = np.bincount(items[~in_window & (times > end - (1 + _BEFORE) * width)], minlength=train.n_items)
        expected = before * (counts.sum() / max(1, before.sum()))
        scores = (counts - expected) / np.sqrt(expected + 1)
    rows = rows[counts[rows] > 0]
    return _best(rows, scores[rows], counts, k)


def _best(rows: NDArray[np.int32], scores: NDArray[np.float64], counts: NDArray[np.int64], k: int) -> Popularity:
    order = np.lexsort((rows, -scores))[:k]
    return Popularity(rows[order], scores[order].astype(np.float32), counts[rows[order]])


def _times(train: Interactions, recent: Recent | None) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Times and items of all interactions that are not in the future, by more than a day."""
    if train.timestamps is None:
        raise ParameterError(
            "popular items of a window need times, and the model was fitted without: fit it with ",
            Argument("timestamp"),
            ", the column of times, or leave out ",
            Argument("since"),
            " and ",
            Argument("trending"),
            ".",
        )
    times, items = train.timestamps.astype(np.float64), train.indices
    unit = size_unit(train.timestamps)
    if unit is None:
        return times, items
    if recent is not None and len(recent.items):
        times = np.concatenate([times, recent.seconds * _PER_SECOND[unit]])
        items = np.concatenate([items, recent.items])
    possible = times <= (time.time() + _DAY) * _PER_SECOND[unit]
    return (times, items) if possible.all() or not possible.any() else (times[possible], items[possible])


def popular_items(model: Recommender, k: int, since: Duration | None, trending: bool, filter: Filter | None) -> Any:
    """Implement `Recommender.popular_items`."""
    model.require_fitted()
    train = model.train_
    found = popularity(
        train, require_k(k), since=since, trending=trending, candidates=candidate_rows(train, None, filter)
    )
    columns = [
        train.items.take(found.rows).alias("item"),
        pl.Series("rank", np.arange(1, len(found.rows) + 1, dtype=np.int32)),
        pl.Series("score", found.scores),
        pl.Series("users", found.users),
    ]
    return from_polars(pl.DataFrame(columns), train.backend)
