"""Pools of a fitted model re-ranked: distances, popularity and categories of the items as arrays."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace._util.threads import resolve_threads
from tastespace.data.attributes import item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, ParameterError, nearest
from tastespace.models.base import Recommender
from tastespace.models.vector_space import VectorSpace
from tastespace.recommend.rerank import _algorithms
from tastespace.recommend.rerank._algorithms import (
    Positions,
    Values,
    calibrated_lists,
    category_sets,
    pool_relevance,
)

METHODS = ("dd", "pd", "mmr", "dpp", "calibrated")
_OPTIONS = {"calibrated": ("column", "smoothing")}

_ENTRIES_AT_ONCE = 4_000_000  # of a table of pairs
_MOST_ITEMS = 4096  # of one pool, and in the table of cosines: 128 MB
_ROWS_AT_ONCE = 512
_NEAREST = 1e-6  # smaller distances count as this one, so that 1/d stays finite


def check_method(how: Any, weight: Any, options: dict[str, Any]) -> None:
    """Raise unless this is the name of a re-ranking algorithm."""
    if how not in METHODS:
        raise ParameterError(Argument("how", how), f": expected one of {', '.join(METHODS)}.{nearest(how, METHODS)}")
    number = isinstance(weight, (int, float, np.integer, np.floating)) and not isinstance(weight, bool)
    if not number or not 0 <= weight <= 1:
        raise ParameterError(
            Argument("weight", weight),
            ": expected the share of diversity from 0 (the original order) to 1 (diversity only).",
        )
    known = _OPTIONS.get(how, ())
    for name in options:
        if name not in known:
            raise ParameterError(
                f"{how} has no option {name!r}; it has {', '.join(known) or 'none'}.{nearest(name, known)}"
            )
    smoothing = options.get("smoothing", 0.01)
    if not isinstance(smoothing, (int, float, np.floating)) or not 0 < smoothing < 1:
        raise ParameterError(Argument("smoothing", smoothing), ": expected a number between 0 and 1, such as 0.01.")


def category_shares(train: Interactions, column: str | None = None) -> Values:
    """Return the share of each category in each item, p(g|i): ``(n_items, n_categories)``, rows sum to 1, or to 0.

    ``column`` names the item attribute; by default the one that looks like categories: see
    `tastespace.data.attributes`.
    """
    found = require_category_column(train.item_attributes, column, purpose="how='calibrated'", argument="column")
    member = item_categories(found).membership.toarray()
    if not member.any():
        raise ParameterError(Argument("column", found.name), ": no item has a value in it. Name another column.")
    return member / np.maximum(member.sum(axis=1, keepdims=True), 1.0)


class PoolReranker:
    """Re-orders pools of a fitted model by one algorithm, some users at a time."""

    def __init__(self, model: Recommender, how: str, weight: float, options: dict[str, Any], threads: int = 0) -> None:
        check_method(how, weight, options)
        self._threads = resolve_threads(threads)
        self._how, self._weight = how, float(weight)
        self._smoothing = float(options.get("smoothing", 0.01))
        self._train, self._catalog = model.train_, model.popularity_source
        if how == "calibrated":
            self._shares = category_shares(self._catalog, options.get("column"))
            self._sets, self._set_of_item = category_sets(self._shares)
        self._cosines = _Cosines(self._catalog)
        self._space = model.item_space()

    def choose(
        self, users: NDArray[Any], offsets: NDArray[np.int64], items: NDArray[Any], scores: NDArray[Any], k: int
    ) -> NDArray[np.int64]:
        """Choose the first k entries of each pool, user by user in their new order.

        The pool of ``users[i]`` is ``items[offsets[i]:offsets[i + 1]]``, best first, with these scores.
        """
        sizes = np.diff(offsets)
        kept = np.minimum(sizes, k)
        starts = np.cumsum(kept) - kept
        if self._weight == 0 or not len(items):
            return np.repeat(offsets[:-1] - starts, kept) + np.arange(int(kept.sum()))
        if self._how == "calibrated":
            return self._calibrated(users, offsets, items, scores, k)
        self._require_small(int(sizes.max()))
        paper = self._how in ("dd", "pd") and self._by_distance and not scores.max() > 0
        table_for_all = self._without_vectors and self._cosines.hold(np.unique(items))
        chosen = np.empty(int(kept.sum()), dtype=np.int64)
        by_size = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]  # alike pools need little padding
        first = 0
        while first < len(by_size):
            size = int(sizes[by_size[first]])
            n = _ENTRIES_AT_ONCE // (size * max(size, self._width))
            if self._without_vectors and not table_for_all:
                n = min(n, _MOST_ITEMS // size)
            part = by_size[first : first + max(1, n)]
            first += len(part)
            place = np.arange(size)
            there = place < sizes[part, None]
            # A place without an item holds the pool's first, which changes no largest distance.
            at = offsets[part, None] + np.where(there, place, 0)
            score = np.where(there, np.minimum.accumulate(scores[at].astype(np.float64), axis=1), np.nan)
            found = self._select(items[at], there, self._relevance(score, paper), k, paper)
            rows, columns = np.nonzero(found >= 0)
            chosen[starts[part[rows]] + columns] = offsets[part[rows]] + found[rows, columns]
        return chosen

    def _calibrated(
        self, users: NDArray[Any], offsets: NDArray[np.int64], items: NDArray[Any], scores: NDArray[Any], k: int
    ) -> NDArray[np.int64]:
        relevance = pool_relevance(offsets, scores, self._threads)
        set_of = self._set_of_item[items]
        chosen = []
        step = max(1, _ENTRIES_AT_ONCE // self._shares.shape[1])
        for first in range(0, len(users), step):
            own = offsets[first : first + step + 1]
            pools = slice(own[0], own[-1])
            target = self._history(users[first : first + step])
            found = calibrated_lists(
                own - own[0], relevance[pools], set_of[pools], self._sets, target,
                weight=self._weight, k=k, smoothing=self._smoothing, threads=self._threads,
            )  # fmt: skip
            chosen.append(found + own[0])
        return np.concatenate(chosen)

    @property
    def _by_distance(self) -> bool:
        return self._space is not None and self._space.metric == "l2"

    @property
    def _without_vectors(self) -> bool:
        return self._space is None and self._how in ("dd", "mmr", "dpp")

    @property
    def _width(self) -> int:
        return 1 if self._space is None else self._space.item_vectors.shape[1]

    def _require_small(self, largest: int) -> None:
        if largest > _MOST_ITEMS:
            raise ParameterError(
                f"a user has {largest:,} recommendations; {self._how} compares all pairs of a pool and takes up to "
                f"{_MOST_ITEMS:,}. Ask for shorter lists first, such as recommend(k=100)."
            )

    def _relevance(self, scores: Values, paper: bool) -> Values:
        if not paper:
            return _algorithms.unit_range(scores)
        inverse = 1.0 / np.maximum(np.sqrt(-scores), _NEAREST)
        return np.where(np.isnan(scores), -np.inf, inverse)

    def _select(
        self, items: NDArray[Any], there: NDArray[np.bool_], relevance: Values, k: int, paper: bool
    ) -> Positions:
        weight = self._weight
        if self._how == "pd":
            counts = self._catalog.item_counts
            popularity = counts[items] / max(1, counts.max())
            return _algorithms.bounded_greedy(
                relevance, np.abs(popularity[:, :, None] - popularity[:, None, :]), weight, k
            )
        distance = self._distances(items)
        if self._how == "dpp":
            pairs = there[:, :, None] & there[:, None, :]
            n_pairs = np.maximum(1, pairs.sum(axis=(1, 2)) - there.sum(axis=1))
            np.square(distance, out=distance)
            mean = np.sum(distance, axis=(1, 2), where=pairs) / n_pairs
            np.divide(distance, np.where(mean > 0, mean, 1.0)[:, None, None], out=distance)
            return _algorithms.determinantal(relevance, np.exp(-distance), weight, k)
        if not paper:
            largest = distance.max(axis=(1, 2), keepdims=True)
            distance /= np.where(largest > 0, largest, 1.0)
        if self._how == "dd":
            return _algorithms.bounded_greedy(relevance, distance, weight, k)
        return _algorithms.maximal_marginal_relevance(relevance, 1.0 - distance, weight, k)

    def _distances(self, items: NDArray[Any]) -> Values:
        """Euclidean distances within each pool, shape ``(n, P, P)``."""
        space = self._space
        squares = 2.0 - 2.0 * self._cosines.of(items) if space is None else _squares(space, items)
        np.maximum(squares, 0.0, out=squares)
        same = np.arange(items.shape[1])
        squares[:, same, same] = 0.0
        return np.sqrt(squares, out=squares)

    @cached_property
    def _taken(self) -> sp.csr_array:
        """1 where a user took an item."""
        train = self._train
        return sp.csr_array(
            (np.ones(train.n_interactions), train.indices, train.offsets), shape=(train.n_users, train.n_items)
        )

    def _history(self, users: NDArray[Any]) -> Values:
        """Shares of the categories in what the users had, p(g|u): shape ``(n, n_categories)``."""
        total = np.asarray(self._taken[users] @ self._shares)
        return total / np.maximum(total.sum(axis=1, keepdims=True), 1.0)


def _squares(space: VectorSpace, items: NDArray[Any]) -> Values:
    vectors = space.item_vectors[items].astype(np.float64)
    length = np.einsum("upd,upd->up", vectors, vectors)
    if space.metric == "dot":
        vectors /= np.where(length > 0, np.sqrt(length), 1.0)[:, :, None]
        length = (length > 0).astype(np.float64)
    return length[:, :, None] + length[:, None, :] - 2.0 * (vectors @ vectors.transpose(0, 2, 1))


class _Cosines:
    """Cosines between items as vectors over users, 1 for users who took them; kept for the items used so far."""

    def __init__(self, train: Interactions) -> None:
        self._train = train
        self._place = np.full(train.n_items, -1, dtype=np.int64)
        self._items = np.empty(0, dtype=np.int64)
        self._table = np.empty((0, 0))

    def of(self, items: NDArray[Any]) -> Values:
        """Cosines within each pool, shape ``(n, P, P)``."""
        self.hold(np.unique(items))
        at = self._place[items]
        return self._table[at[:, :, None], at[:, None, :]]

    def hold(self, items: NDArray[Any]) -> bool:
        """Compute and keep the cosines between these items, unless they are too many."""
        if len(items) > _MOST_ITEMS:
            return False
        new = items[self._place[items] < 0]
        if len(new) and len(new) + len(self._items) > _MOST_ITEMS:
            self._place[:] = -1
            self._items, self._table, new = self._items[:0], self._table[:0, :0], items
        if len(new):
            self._add(new)
        return True

    def _add(self, new: NDArray[Any]) -> None:
        n_old = len(self._items)
        self._items = np.concatenate([self._items, new])
        self._place[new] = np.arange(n_old, len(self._items))
        columns = sp.csc_array(self._train.matrix)[:, self._items]
        counts = np.maximum(1, np.diff(columns.indptr))
        columns.data = np.repeat(1.0 / np.sqrt(counts), np.diff(columns.indptr))
        table = np.empty((len(self._items), len(self._items)))
        table[:n_old, :n_old] = self._table
        by_user = columns.tocsr()
        for first in range(n_old, len(table), _ROWS_AT_ONCE):  # strips, for a product is nearly dense
            table[first : first + _ROWS_AT_ONCE] = (columns[:, first : first + _ROWS_AT_ONCE].T @ by_user).toarray()
        table[:n_old, n_old:] = table[n_old:, :n_old].T
        np.fill_diagonal(table, 1.0)
        self._table = table
