"""Items that the same people take, and the next item of a session."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace._util.checks import require_k
from tastespace._util.computed_once import computed_once, freeze
from tastespace._util.csr import ranges
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.data.reading.dates import Duration, duration_in
from tastespace.data.reading.tables import from_polars
from tastespace.errors import DataError, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.blend.model import Blend
from tastespace.models.list_options import Filter, Ids
from tastespace.recommend.fold_in import folded
from tastespace.recommend.request import as_list, candidate_rows

SHRINK = 10.0
"""Pairs that an item and its companion would have to have more than by chance before they count fully."""
DECAY = 0.8
"""Weight of a past item of a session, compared with the one after it."""
_LAST = 50  # items of a session that count
_STEPS = 10  # items after another that count as its followers
_FOLDED = 10  # last items that models are given which cannot weigh them
_COMPANIONS = 5  # last items whose companions count, where there are no times

# ---------------------------------------------------------------------------------------------------------------------
# Taken together.


class Companions(NamedTuple):
    """Items that people take with another, best first."""

    rows: NDArray[np.int32]
    lifts: NDArray[np.float32]
    users: NDArray[np.int64]
    """Users of both."""


def companions(
    train: Interactions,
    item: int,
    k: int,
    *,
    within: Duration | None = None,
    candidates: NDArray[np.int32] | None = None,
    shrink: float = SHRINK,
) -> Companions:
    """Rank items by their lift with the item at this row, shrunken: ``c_ij / (n_i n_j / N + shrink)``.

    c_ij is the number of users of both, n_i and n_j those of either, N all of them: without ``shrink`` 1 is what chance
    gives, and one common user of two rare items would come first; with it a pair needs more than ``shrink`` common
    users to stand out. ``within``: both were taken within this length of time.
    """
    lists, counts = _of_users(train, item, within)
    common = np.bincount(lists, minlength=train.n_items)
    common[item] = 0
    expected = counts * train.item_counts / max(1, train.n_users)
    lifts = common / (expected + shrink)
    rows = np.flatnonzero(common).astype(np.int32)
    if candidates is not None:
        rows = rows[np.isin(rows, candidates)]
    order = np.lexsort((rows, -lifts[rows]))[:k]
    return Companions(rows[order], lifts[rows[order]].astype(np.float32), common[rows[order]])


def _of_users(train: Interactions, item: int, within: Duration | None) -> tuple[NDArray[np.int32], int]:
    """The items of all users of an item, near it in time where that is asked for; and the number of these users."""
    by_item = _users_of_items(train)
    places = by_item.data[by_item.indptr[item] : by_item.indptr[item + 1]]
    users = by_item.indices[by_item.indptr[item] : by_item.indptr[item + 1]]
    counts = np.diff(train.offsets)[users]
    at = ranges(train.offsets[users], counts)
    if within is not None:
        if train.timestamps is None:
            raise ParameterError("within= needs times, and the model was fitted without. Leave it out.")
        width = duration_in(within, train.timestamps, "within")
        own = np.repeat(train.timestamps[places], counts)
        at = at[np.abs(train.timestamps[at] - own) <= width]
    return train.indices[at], len(users)


def _users_of_items(train: Interactions) -> sp.csr_array:
    """For each item its users, and the places of these interactions in ``train``."""

    def make() -> sp.csr_array:
        order = np.argsort(train.indices, kind="stable")
        starts = np.concatenate([[0], np.cumsum(train.item_counts)])
        return sp.csr_array((order, train.row_of_each()[order], starts), shape=(train.n_items, train.n_users))

    return computed_once(train, "users of items", make)


def taken_together(model: Recommender, items: Ids, k: int, within: Duration | None, filter: Filter | None) -> Any:
    """Implement `Recommender.taken_together`."""
    model.require_fitted()
    train, k = model.train_, require_k(k)
    wanted = train.items.index_of(as_list(items))
    if not len(wanted):
        raise DataError("the list of items is empty.")
    candidates = candidate_rows(train, None, filter)
    found = [companions(train, int(row), k, within=within, candidates=candidates) for row in wanted]
    lengths = [len(one.rows) for one in found]
    columns = [
        train.items.take(np.repeat(wanted, lengths)).alias("item"),
        train.items.take(np.concatenate([one.rows for one in found])).alias("together"),
        pl.Series("rank", np.concatenate([np.arange(1, n + 1) for n in lengths]).astype(np.int32)),
        pl.Series("lift", np.concatenate([one.lifts for one in found])),
        pl.Series("users", np.concatenate([one.users for one in found])),
    ]
    return from_polars(pl.DataFrame(columns), train.backend)


# ---------------------------------------------------------------------------------------------------------------------
# The next item of a session.


def next_scores(model: Recommender, session: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Scores of all items after the items at these rows, oldest first: shape ``(n_items,)``.

    The mean of two standardized scores. What the model says of the session, where a past item weighs 0.8 times as much
    as the one after it: exactly for models whose scores are sums over past items, for others by a fold-in of the last
    items. And what came after these items in the training data: an item counts as a follower of the ten before it, by
    one over the distance. Without times it is what was taken together with the last items.
    """
    last = np.asarray(session)[-_LAST:]
    weights: NDArray[np.float64] = np.power(DECAY, np.arange(len(last))[::-1], dtype=np.float64)
    by_model = _model_scores(model, last, weights)
    by_order = _order_scores(model.train_, last, weights)
    return _standardized(by_order) if by_model is None else _standardized(by_model) + _standardized(by_order)


def _model_scores(
    model: Recommender, last: NDArray[np.integer[Any]], weights: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    n_items = model.train_.n_items
    # Of an item that is there twice the later place counts.
    rows, place = np.unique(last[::-1], return_index=True)
    found = sp.csr_array(
        (weights[::-1][place].astype(np.float32), rows.astype(np.int32), [0, len(rows)]), shape=(1, n_items)
    )
    if isinstance(model, Blend):
        total = np.zeros(n_items)
        for member, weight in zip(model.members_, model.weights_, strict=True):
            own = _model_scores(member, last, weights) if weight > 0 else None
            if own is not None:
                total += weight * _standardized(own)
        return total
    scores = model.history_scores(found)
    if scores is not None:
        return np.asarray(scores[0], dtype=np.float64)
    if not model.supports_fold_in:
        return None
    recent = np.unique(last[-_FOLDED:]).astype(np.int32)
    users = IdMap(pl.Series([0]), "user")
    history = Interactions(users, model.train_.items, np.array([0, len(recent)]), recent)
    return np.asarray(folded(model, history).score_block(np.array([0]))[0], dtype=np.float64)


def _order_scores(
    train: Interactions, last: NDArray[np.integer[Any]], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    if train.timestamps is None:
        scores = np.zeros(train.n_items)
        for item, weight in zip(last[-_COMPANIONS:].tolist(), weights[-_COMPANIONS:].tolist(), strict=True):
            lists, n_users = _of_users(train, item, None)
            scores += weight * np.bincount(lists, minlength=train.n_items) / (n_users + SHRINK)
        return scores
    return np.asarray(weights @ followers(train)[last])


def followers(train: Interactions) -> sp.csr_array:
    """Weight of each item after another, ``(n_items, n_items)``: one over their distance in histories, shrunken.

    Of the rows of an item, each entry is divided by their sum and a constant.
    """

    def make() -> sp.csr_array:
        assert train.timestamps is not None
        users = train.row_of_each()
        order = np.lexsort((train.timestamps, users))
        users, items = users[order], train.indices[order]
        found = sp.csr_array((train.n_items, train.n_items), dtype=np.float32)
        for step in range(1, _STEPS + 1):
            same = users[step:] == users[:-step]
            ones = np.full(int(same.sum()), 1 / step, dtype=np.float32)
            places = (items[:-step][same], items[step:][same])
            found = found + sp.csr_array((ones, places), shape=found.shape)
        sums = np.asarray(found.sum(axis=1)).ravel()
        return sp.csr_array(sp.diags_array((1 / (sums + 2 * SHRINK)).astype(np.float32)) @ found)

    freeze(train.indices)
    return computed_once(train, "followers", make)


def _standardized(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    deviation = scores.std()
    return (scores - scores.mean()) / deviation if deviation > 0 else np.zeros_like(scores)


class NextItems(NamedTuple):
    """Items that come next, best first."""

    rows: NDArray[np.int32]
    scores: NDArray[np.float32]


def best_next(
    model: Recommender,
    session: NDArray[np.integer[Any]],
    k: int,
    candidates: NDArray[np.int32] | None = None,
    include_seen: bool = False,
) -> NextItems:
    """The k best items after a session of rows, oldest first."""
    scores = next_scores(model, session)
    allowed = np.ones(len(scores), dtype=bool) if candidates is None else np.zeros(len(scores), dtype=bool)
    if candidates is not None:
        allowed[candidates] = True
    if not include_seen:
        allowed[session] = False
    rows = np.flatnonzero(allowed).astype(np.int32)
    order = np.lexsort((rows, -scores[rows]))[:k]
    return NextItems(rows[order], scores[rows[order]].astype(np.float32))


def next_items(
    model: Recommender, session: Iterable[Hashable], k: int, filter: Filter | None, include_seen: bool
) -> Any:
    """Implement `Recommender.next_items`."""
    model.require_fitted()
    train, k = model.train_, require_k(k)
    rows = known_session(train, as_list(session))
    found = best_next(model, rows, k, candidate_rows(train, None, filter), include_seen)
    columns = [
        train.items.take(found.rows).alias("item"),
        pl.Series("rank", np.arange(1, len(found.rows) + 1, dtype=np.int32)),
        pl.Series("score", found.scores),
    ]
    return from_polars(pl.DataFrame(columns), train.backend)


def known_session(train: Interactions, session: Sequence[Hashable]) -> NDArray[np.int64]:
    """Rows of the items of a session that the model knows, in their order; none at all is an error."""
    rows = train.items.find(session) if len(session) else np.empty(0, dtype=np.int64)
    known = rows[rows >= 0]
    if not len(known):
        raise DataError("the session holds no item of the model: expected one or more item ids, oldest first.")
    return known
