"""Lists that obey rules: the lists of a mix, made longer and cut down by the rules.

Limits and shares leave out items of a list, so lists are first made longer than requested, and much longer for users
whose list then is too short.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.ranking.blocks import Block, ItemLists
from tastespace.ranking.scoring import (
    Lister,
    Lists,
    ScoringIndex,
    TopK,
    merged,
)
from tastespace.recommend.rules.tables import RuleTables

log = logging.getLogger(__name__)

_LONGER = 4  # length of the first lists, in multiples of the requested length
_GROWTH = 8  # growth of each further attempt
_MORE = 50  # least growth, for short lists
_ENTRIES_AT_ONCE = 20_000_000  # of longer lists


class RuledLists:
    """Lists of ``lister`` under rules, at most k items each.

    ``excluded`` are the items that a user's list must not hold, as offsets and rows for all users of the model,
    ascending for each; ``candidates`` ascending rows of the items allowed in the lists (None: all).
    """

    def __init__(
        self,
        index: ScoringIndex,
        tables: RuleTables,
        k: int,
        lister: Lister,
        excluded: ItemLists,
        candidates: NDArray[np.int32] | None,
    ) -> None:
        self._index, self._tables, self._k = index, tables, k
        self._lister, self._excluded, self._candidates = lister, excluded, candidates
        self._longest = index.train.n_items if candidates is None else len(candidates)
        at = np.isin(tables.pins, candidates) if candidates is not None else np.ones(len(tables.pins), dtype=bool)
        self._pins, self._places = tables.pins[at], tables.places[at]
        if not at.all():
            names = ", ".join(map(repr, index.train.items.take(tables.pins[~at]).to_list()))
            log.warning("rules: pinned items that other rules or the request leave out are not shown: %s", names)

    def blocks(self, rows: NDArray[np.int32]) -> Lists:
        """Yield the lists of the users at these rows."""
        length = min(self._longest, max(_LONGER * self._k, self._k + _MORE) if self._tables.may_skip else self._k)
        return ((block, self._settled(block, pool, length)) for block, pool in self._lister(rows, length))

    def _settled(self, block: Block, pool: TopK, length: int) -> TopK:
        """Return the lists of a block, from pools of this length or from longer ones for users who need them."""
        found, incomplete = self._ruled(block, pool)
        sizes = np.bincount(pool.query, minlength=len(block.users))
        short = (
            np.flatnonzero(incomplete & (sizes == length)) if length < self._longest else np.empty(0, dtype=np.int64)
        )
        if not len(short):
            return found
        longer = min(self._longest, _GROWTH * length)
        parts = [found.take(np.flatnonzero(~np.isin(found.query, short)))]
        at_once = max(1, _ENTRIES_AT_ONCE // longer)
        for start in range(0, len(short), at_once):
            at, first = short[start : start + at_once], 0
            for some, their_pool in self._lister(block.users[at], longer):
                parts.append(self._settled(some, their_pool, longer).moved(at[first : first + len(some.users)]))
                first += len(some.users)
        return merged(parts)

    def _ruled(self, block: Block, pool: TopK) -> tuple[TopK, NDArray[np.bool_]]:
        """Return the lists of a block from these pools, and a mask of those that longer pools could change."""
        pins_of = self._pins_of(block.users)
        offsets = _offsets(np.bincount(pool.query, minlength=len(block.users)))
        lengths = np.full(len(block.users), self._k, dtype=np.int32)
        starts, rows, entries, incomplete = apply_rules(
            self._tables, offsets, pool.rows, lengths, pins_of, self._candidates, self._index.threads
        )
        query = np.repeat(np.arange(len(block.users)), np.diff(starts))
        rank = (np.arange(len(rows)) - starts[query] + 1).astype(np.int32)
        pinned = np.flatnonzero(entries < 0)
        if not len(pinned):
            return pool.take(entries, rank), incomplete
        scores, interests = block.scores_of(query[pinned], rows[pinned], self._index.threads)
        pins = TopK(query[pinned], rank[pinned], rows[pinned], scores, interests)
        others = np.flatnonzero(entries >= 0)
        return merged([pool.take(entries[others], rank[others]), self._index.matched(block.users, pins)]), incomplete

    def _pins_of(self, users: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Offsets, rows and places of the pinned items that each of these users may get."""
        shown = np.ones((len(users), len(self._pins)), dtype=bool)
        if len(self._pins):
            offsets, items = self._excluded
            pin_of = np.full(self._tables.n_items, -1, dtype=np.int64)
            pin_of[self._pins] = np.arange(len(self._pins))
            counts = offsets[users + 1] - offsets[users]
            owner = np.repeat(np.arange(len(users)), counts)
            at = np.arange(len(owner)) + np.repeat(offsets[users] - (np.cumsum(counts) - counts), counts)
            pin = pin_of[items[at]]
            shown[owner[pin >= 0], pin[pin >= 0]] = False
        return pin_lists(self._pins, self._places, shown, self._tables.on_top)


def ruled_shelves(
    index: ScoringIndex,
    user: int,
    groups: Sequence[Sequence[int]],
    lengths: Sequence[int],
    tables: RuleTables,
    exclude_seen: bool,
    candidates: NDArray[np.int32] | None,
) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
    """Return the lists of `ScoringIndex.split_top_k`, each of which obeys the rules."""
    pins = tables.pins
    shown = np.zeros((len(groups), len(pins)), dtype=bool)
    if len(pins):
        _, interests = index.pair_interests(np.full(len(pins), user), pins)
        left_out = np.isin(pins, index.left_out(user, exclude_seen))
        if candidates is not None:
            left_out |= ~np.isin(pins, candidates)
        for at, group in enumerate(groups):
            shown[at] = np.isin(interests, list(group)) & ~left_out
    pinned = pin_lists(pins, tables.places, shown, tables.on_top)
    wanted, most = np.array(lengths, dtype=np.int32), index.train.n_items
    pool_lengths = np.minimum(most, _LONGER * wanted + _MORE)
    while True:
        pools = index.split_top_k(user, groups, pool_lengths.tolist(), exclude_seen=exclude_seen, candidates=candidates)
        sizes = np.array([len(rows) for rows, _ in pools])
        rows, scores = (np.concatenate([pool[part] for pool in pools]) for part in (0, 1))
        starts, found, entries, incomplete = apply_rules(
            tables, _offsets(sizes), rows, wanted, pinned, candidates, index.threads
        )
        if not (incomplete & (sizes == pool_lengths) & (pool_lengths < most)).any():
            break
        pool_lengths = np.minimum(most, _GROWTH * pool_lengths)
    own = [
        float(scores[at]) if at >= 0 else _score_on_shelf(index, user, int(row))
        for row, at in zip(found, entries, strict=True)
    ]
    lists = zip(np.split(found, starts[1:-1]), np.split(np.array(own, dtype=np.float32), starts[1:-1]), strict=True)
    return list(lists)


def _score_on_shelf(index: ScoringIndex, user: int, item: int) -> float:
    """Score of an item as `ScoringIndex.split_top_k` gives it: of models with tastes what the item's own one says."""
    if index.tastes is None:
        return index.score(user, item)
    return float(index.pair_interests(np.array([user]), np.array([item]))[0][0])


def pin_lists(
    pins: NDArray[np.int32], places: NDArray[np.int32], shown: NDArray[np.bool_], on_top: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Offsets, rows and places of the pinned items of some lists; ``shown`` has shape ``(n_lists, n_pins)``.

    >>> pin_lists(np.array([7, 9]), np.array([1, 2]), np.array([[True, True], [False, True]]), on_top=True)[2].tolist()
    [1, 2, 1]
    """
    owner, pin = np.nonzero(shown)
    offsets = _offsets(shown.sum(axis=1))
    at = np.arange(len(pin)) - offsets[owner] + 1 if on_top else places[pin]
    return offsets, pins[pin].astype(np.int32), at.astype(np.int32)


def apply_rules(
    tables: RuleTables,
    offsets: NDArray[np.int64],
    rows: NDArray[np.int32],
    lengths: NDArray[np.int32],
    pinned: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]],
    candidates: NDArray[np.int32] | None,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
    """Cut the pools ``rows[offsets[i]:offsets[i + 1]]`` down to ``lengths[i]`` items that obey the rules.

    ``candidates`` are the rows of the items that longer pools could hold; None: all.
    Returns offsets, rows, the pool entry of each (-1: pinned), and a mask of the lists that longer pools could change.
    """
    allowed = np.full(tables.n_items, candidates is None, dtype=np.uint8)
    if candidates is not None:
        allowed[candidates] = 1
    starts, found, entries, incomplete = _native.apply_list_rules(
        _native.ItemLists(offsets, np.ascontiguousarray(rows)),
        lengths,
        _native.ItemGroups(offsets=tables.group_offsets, members=tables.groups, most=tables.most, allowed=allowed),
        _native.PinnedItems(_native.ItemLists(pinned[0], pinned[1]), pinned[2]),
        _native.NewItems(tables.is_new, tables.share),
        threads,
    )
    return starts, found, entries, incomplete.astype(bool)


def _offsets(counts: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
