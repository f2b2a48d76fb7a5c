"""Metrics for users with several tastes, by item categories and by the interests that a model has learned.

A user's interests are tastes (groups of past items, `Recommender.tastes`), or vectors in models without tastes.

As in `tastespace.evaluation.metrics`, each function takes a block of ranked lists and returns one value per user, NaN
for users who do not count. Items without a category are left out of all metrics by category.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.evaluation._inputs import MetricInputs, entries_of
from tastespace.models.interest_use import InterestUse, interest_use
from tastespace.ranking.blocks import Block

Values = NDArray[np.float64]
Divergence = Callable[[Values, Values], Values]

TASTE_METRICS = (
    "MinorityRecall",
    "CalibrationKL",
    "CalibrationJS",
    "SubtopicRecall",
    "AlphaNDCG",
    "CategoryILD",
    "TasteAlphaNDCG",
    "InterestCoverage",
    "EffectiveInterests",
    "DeadInterests",
    "CollapsedInterests",
    "TruthOfReasons",
    "StableNames",
)
"""Metrics that say how well lists serve users with several tastes."""

_ENTRIES_AT_ONCE = 4_000_000  # of a temporary table
_SMOOTHING = 0.01  # Steck's alpha: share of the history's mix in the list's mix, which keeps the divergence finite
_REPEATED = 0.5  # 1 - alpha of alpha-NDCG: what a category is worth again after each hit of it


def _portions(n: int, entries_each: int) -> Iterator[slice]:
    """Consecutive parts of n users whose temporary tables, of so many entries each, stay small."""
    at_once = max(1, _ENTRIES_AT_ONCE // max(1, entries_each))
    return (slice(first, first + at_once) for first in range(0, n, at_once))


# ---- the categories of a list against those of the history -------------------------------------------------------


def calibration_kl(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Calibration error of Steck (2018), in nats: 0 (the list has the history's mix of categories) to ln 100.

    KL(p || 0.99 q + 0.01 p), p the mix of the categories of the user's training items, q that of the first k items; an
    item of several categories counts for each with an equal share. Users without a category in the history or in the
    list are left out.
    """
    return _calibration(block, inputs, k, _kullback_leibler)


def calibration_js(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Jensen-Shannon divergence, in bits, of the mixes that `calibration_kl` compares: 0 (the same) to 1 (disjoint)."""
    return _calibration(block, inputs, k, _jensen_shannon)


def _calibration(block: Block, inputs: MetricInputs, k: int, divergence: Divergence) -> Values:
    values = np.full(len(block.users), np.nan)
    for part in _portions(len(values), len(inputs.categories)):
        history, listed = inputs.history_mix(block.users[part]), inputs.list_mix(block.top[part, :k])
        counts = history.any(axis=1) & listed.any(axis=1)
        # Rounding may give -1e-17 for equal mixes.
        values[part][counts] = np.maximum(divergence(history[counts], listed[counts]), 0.0)
    return values


def _kullback_leibler(history: Values, listed: Values) -> Values:
    return _relative_entropy(history, (1 - _SMOOTHING) * listed + _SMOOTHING * history)


def _jensen_shannon(history: Values, listed: Values) -> Values:
    middle = (history + listed) / 2
    return (_relative_entropy(history, middle) + _relative_entropy(listed, middle)) / (2 * np.log(2))


def _relative_entropy(p: Values, q: Values) -> Values:
    """Sum of p ln(p / q) over each row, in nats; q is positive wherever p is."""
    ratio = np.divide(p, q, out=np.ones_like(p), where=p > 0)
    return np.asarray((p * np.log(ratio)).sum(axis=1))


# ---- the categories of the test items ----------------------------------------------------------------------------


def minority_recall(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Recall at k, 0 to 1, over the test items outside the category that holds most of the user's training items.

    Test items without any category are left out; so are users without a test item of a minority category.
    """
    main = inputs.main_category[block.users]
    sets = inputs.membership[block.test_items]
    main_of_owner = main[block.owner]
    minority = (main_of_owner >= 0) & sets.any(axis=1) & ~sets[np.arange(len(sets)), np.maximum(main_of_owner, 0)]
    n_users = len(block.users)
    total = np.bincount(block.owner, weights=minority, minlength=n_users)
    found = np.bincount(block.owner, weights=minority & (block.test_ranks[:, 0] <= k), minlength=n_users)
    return np.where(total > 0, found / np.maximum(total, 1), np.nan)


def subtopic_recall(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Share of the categories of a user's test items that a hit among the first k has (Zhai et al. 2003): 0 to 1.

    Users without a test item that has a category are left out.
    """
    item, category = inputs.categories_of(block.test_items)
    n_categories = len(inputs.categories)
    key = block.owner[item] * n_categories + category
    wanted, found = np.unique(key), np.unique(key[block.test_ranks[item, 0] <= k])
    n_wanted, n_found = (np.bincount(keys // n_categories, minlength=len(block.users)) for keys in (wanted, found))
    return np.where(n_wanted > 0, n_found / np.maximum(n_wanted, 1), np.nan)


def alpha_ndcg(block: Block, inputs: MetricInputs, k: int) -> Values:
    """alpha-NDCG of Clarke et al. (2008) with the categories of the test items as subtopics, alpha = 0.5: 0 to 1.

    A hit gains 1 / log2(rank + 1) for each of its categories, half as much for a category that one hit above it has, a
    quarter for one that two have. The ideal list is found greedily, as in TREC's ndeval; where a better list exists,
    which is rare, a value may be slightly above 1. Users without a test item that has a category are left out.
    """
    item, category = inputs.categories_of(block.test_items)
    return _alpha_ndcg(block, item, category, len(inputs.categories), k)


def taste_alpha_ndcg(block: Block, inputs: MetricInputs, k: int) -> Values:
    """`alpha_ndcg` with the user's own tastes as subtopics: a test item is of the one that says most for it.

    0 to 1. Users without a test item are left out; for a user with one taste it rewards the first hit most.
    """
    _, taste = inputs.index.pair_interests(block.users[block.owner], block.test_items)
    most = int(taste.max(initial=0)) + 1
    return _alpha_ndcg(block, np.arange(len(taste)), taste.astype(np.int64), most, k)


def _alpha_ndcg(
    block: Block, item: NDArray[np.int64], category: NDArray[np.int64], n_categories: int, k: int
) -> Values:
    """alpha-NDCG from all (position of the test item, category) pairs."""
    owner, rank = block.owner[item], block.test_ranks[item, 0].astype(np.int64)
    hit = rank <= k
    key = owner[hit] * n_categories + category[hit]
    order = np.lexsort((rank[hit], key))
    gain = _REPEATED ** _place_in_group(key[order]) / np.log2(rank[hit][order] + 1.0)
    gained = np.bincount(owner[hit][order], weights=gain, minlength=len(block.users))
    ideal = np.zeros(len(block.users))
    for part in _portions(len(block.users), n_categories):
        own = slice(*np.searchsorted(owner, [part.start, part.stop]))
        ideal[part] = _greedy_ideal(
            owner[own] - part.start, item[own], category[own], len(ideal[part]), n_categories, k
        )
    return np.where(ideal > 0, gained / np.where(ideal > 0, ideal, 1.0), np.nan)


def _place_in_group(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, 2, ... within each run of equal keys."""
    places = np.arange(len(keys))
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return places - np.repeat(starts, np.diff(starts, append=len(keys)))


def _greedy_ideal(
    owner: NDArray[Any], item: NDArray[Any], category: NDArray[Any], n_users: int, n_categories: int, k: int
) -> Values:
    """Discounted gain of the list that takes the test item with the largest gain at each of k places, per user.

    The arguments are the (user, test item, category) triples, in the order of users and items; of items with the same
    gain the first is taken.
    """
    ideal = np.zeros(n_users)
    if not len(item):
        return ideal
    cell = owner * n_categories + category
    worth = np.ones(n_users * n_categories)  # of each category to each user
    first_of_item = np.flatnonzero(np.diff(item, prepend=-1))
    row = np.cumsum(np.diff(item, prepend=item[0]) != 0)  # items, numbered without gaps
    user = owner[first_of_item]
    first_of_user = np.flatnonzero(np.diff(user, prepend=-1))
    items_of_user = np.diff(first_of_user, append=len(user))
    taken = np.zeros(len(user), dtype=bool)
    for place in range(min(k, int(items_of_user.max()))):
        gain = np.add.reduceat(worth[cell], first_of_item)
        gain[taken] = 0.0  # that of every other item is positive
        best = np.repeat(np.maximum.reduceat(gain, first_of_user), items_of_user)
        candidates = np.flatnonzero((gain == best) & ~taken)
        chosen = candidates[np.flatnonzero(np.diff(user[candidates], prepend=-1))]
        ideal[user[chosen]] += gain[chosen] / np.log2(place + 2.0)
        now = np.zeros(len(user), dtype=bool)
        now[chosen] = True
        taken |= now
        worth[cell[now[row]]] *= _REPEATED
    return ideal


# ---- the categories within a list --------------------------------------------------------------------------------


def category_ild(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Mean Jaccard distance between the category sets of two of the first k items: 0 (the same) to 1 (disjoint).

    Items without a category are left out; so are users with fewer than two others.
    """
    # Each user takes a table of k items by categories and one of k by k pairs.
    parts = _portions(len(block.top), k * (k + len(inputs.categories)))
    return np.concatenate([_jaccard_distance(block.top[part, :k], inputs) for part in parts])


def _jaccard_distance(top: NDArray[np.int32], inputs: MetricInputs) -> Values:
    sets = inputs.membership[np.maximum(top, 0)] & (top >= 0)[:, :, None]
    sets = sets.astype(np.float32)
    common = sets @ sets.transpose(0, 2, 1)
    size = sets.sum(axis=2)
    union = size[:, :, None] + size[:, None, :] - common
    pair = (size[:, :, None] > 0) & (size[:, None, :] > 0) & ~np.eye(top.shape[1], dtype=bool)
    distance = np.where(pair, 1.0 - common / np.maximum(union, 1.0), 0.0)
    n_pairs = pair.sum(axis=(1, 2))
    return np.where(n_pairs > 0, distance.sum(axis=(1, 2)) / np.maximum(n_pairs, 1), np.nan)


# ---- the interests that the model has learned --------------------------------------------------------------------


def interest_coverage_of_list(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Share of the user's interests that at least one of the first k items belongs to: 0 to 1.

    An item belongs to the taste that says most for it, or to the nearest vector. Only interests with a training item of
    the user count. Users without training items and users whose list is empty are left out; where everybody has one
    interest the value is always 1.
    """
    most = int(np.diff(inputs.require_interests("InterestCoverage").user_offsets).max())

    def interests(position: NDArray[Any], items: NDArray[Any]) -> NDArray[np.int64]:
        """The distinct interests, as position * most + interest, that these items of the users belong to."""
        return np.unique(position * most + inputs.index.pair_interests(block.users[position], items)[1])

    position, place = np.nonzero(block.top[:, :k] >= 0)
    shown = interests(position, block.top[position, place])
    if inputs.index.tastes is None:
        used = interests(*inputs.history(block.users))
    else:
        position, at = entries_of(inputs.train.offsets, block.users)
        used = np.unique(position * most + inputs.index.tastes.of_past[at])
    n_users = len(block.users)
    n_used = np.bincount(used // most, minlength=n_users)
    n_covered = np.bincount(used[np.isin(used, shown, assume_unique=True)] // most, minlength=n_users)
    counts = (n_used > 0) & (block.top[:, :k] >= 0).any(axis=1)
    return np.where(counts, n_covered / np.maximum(n_used, 1), np.nan)


def effective_interests(block: Block, inputs: MetricInputs, _: None) -> Values:
    """Effective number of the user's interests: exp of the entropy of their shares of the training items.

    1 (one interest has them all) to the number of interests (each has the same share). Users without training items are
    left out.
    """
    return _interest_use(block, inputs, "EffectiveInterests").effective


def dead_interests(block: Block, inputs: MetricInputs, _: None) -> Values:
    """Share of the user's interests that no training item of the user belongs to: 0 to 1, and 0 for tastes.

    Users without training items are left out.
    """
    use = _interest_use(block, inputs, "DeadInterests")
    return np.where(use.n_past > 0, 1.0 - use.n_used / np.maximum(use.n_vectors, 1), np.nan)


def collapsed_interests(block: Block, inputs: MetricInputs, _: None) -> Values:
    """1 where the user's interests are nearly equal, else 0: vectors, or the centers of tastes.

    Users with one interest or one training item are left out.
    """
    use = _interest_use(block, inputs, "CollapsedInterests")
    return np.where((use.n_vectors > 1) & (use.n_past > 1), use.collapsed, np.nan)


def _interest_use(block: Block, inputs: MetricInputs, metric: str) -> InterestUse:
    space = inputs.require_interests(metric)
    return interest_use(space, inputs.train, block.users, inputs.threads, inputs.index.tastes)


# ---- what is said of the lists -----------------------------------------------------------------------------------


def truth_of_reasons(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Share of the items on the user's shelves of k whose two strongest past items belong to the taste of the shelf.

    0 to 1; see `tastespace.evaluation.shelf_checks`. Users outside a fixed sample of 200 are left out.
    """

    def share(row: int) -> float:
        n_items = sum(len(shelf.items) for shelf in inputs.shelves.shelves(row, k))
        return sum(inputs.shelves.n_true(row, k)) / n_items if n_items else np.nan

    return _of_sample(block, inputs, share)


def stable_names(block: Block, inputs: MetricInputs, _: None) -> Values:
    """Share of the user's shelves with the same name for lengths of 5, 8 and 20: 0 to 1.

    Users outside a fixed sample of 200 are left out.
    """

    def share(row: int) -> float:
        found = inputs.shelves.stable(row)
        return float(np.mean(list(found.values()))) if found else np.nan

    return _of_sample(block, inputs, share)


def _of_sample(block: Block, inputs: MetricInputs, value: Callable[[int], float]) -> Values:
    """The value of each user of the block who is in the sample, NaN for the others."""
    values = np.full(len(block.users), np.nan)
    for at in np.flatnonzero(np.isin(block.users, inputs.sample)).tolist():
        values[at] = value(int(block.users[at]))
    return values
