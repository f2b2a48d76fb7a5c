"""Evaluation of lists and of tastes against the interests of users, on synthetic data, where these are known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.threads import resolve_threads
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.data.synthetic import ShopData, SyntheticData
from tastespace.errors import DataError, ParameterError
from tastespace.evaluation._evaluator import check_longest, excluded_lists
from tastespace.evaluation._inputs import entries_of
from tastespace.evaluation.metrics import check_cutoff
from tastespace.evaluation.protocols import FULL
from tastespace.evaluation.report import Report
from tastespace.models.base import Recommender
from tastespace.ranking.blocks import BlockRanker
from tastespace.ranking.source import ScoreSource

_ROUNDING = 1e-12  # a weight of 1/7 may be computed as a little less


def interest_coverage(
    model: Recommender,
    town: SyntheticData,
    k: int = 20,
    *,
    seen: Interactions | Sequence[Interactions] | None = None,
    threads: int = 0,
) -> Report:
    """Measure how the first k recommendations serve the planted interests of the users of synthetic data.

    Two metrics, for every user of the model:

    * ``PlantedCoverage@k``: of the user's planted interests with a weight of at least 1/k, the share that has at least
      one item of its category in the list: 0 to 1, larger is better. Users without such an interest are left out. An
      interest cannot be covered where the user already has all items of its category.
    * ``PlantedDistance@k``: total variation distance between the shares of the categories in the list and the planted
      weights, half the sum of the absolute differences: 0 to 1, smaller is better. Users with an empty list are left
      out.

    Args:
        model: A recommender fitted on interactions of ``town``, or on a part of them.
        town: Synthetic data of `tastespace.synthetic.multi_interest`.
        k: Length of the lists.
        seen: Items that users have and that must not be recommended; by default what the model was fitted with.
        threads: 0 means all cores; the metrics do not depend on it.

    Returns:
        A `Report` with the means and the values of each user, so that two models can be compared by
        `tastespace.compare`.

    >>> from tastespace import EASE, MostPopular, split, synthetic
    >>> town = synthetic.multi_interest(n_users=80, n_items=120, n_interactions=2000, seed=1)
    >>> train, _, _ = split.per_user(town.interactions, seed=0)
    >>> popular, ease = (interest_coverage(model.fit(train), town, k=10) for model in (MostPopular(), EASE()))
    >>> list(ease.metrics), ease.users.len()
    (['PlantedCoverage@10', 'PlantedDistance@10'], 80)
    >>> ease["PlantedDistance@10"] < popular["PlantedDistance@10"]
    True
    """
    start = time.perf_counter()
    if not isinstance(town, SyntheticData):
        raise ParameterError(
            f"town is {type(town).__name__}, expected the synthetic data itself, such as synthetic.multi_interest() "
            "gives; its interactions alone do not hold the planted interests."
        )
    model.require_fitted()
    k = check_cutoff(k)
    train = model.train_
    check_longest(k, train.n_items)
    users = _rows_in(town.interactions.users, train.users, "user")
    category = town.item_category[_rows_in(town.interactions.items, train.items, "item")]
    excluded = excluded_lists(model, seen, FULL)
    ranker = BlockRanker(ScoreSource.of(model), k, excluded, threads=resolve_threads(threads))
    parts = [
        _measure(block.top, category, _planted(town, users[block.users]), k)
        for block in ranker.blocks(np.arange(train.n_users, dtype=np.int32))
    ]
    coverage, distance = (np.concatenate(values) for values in zip(*parts, strict=True))
    per_user = {f"PlantedCoverage@{k}": coverage, f"PlantedDistance@{k}": distance}
    counts = {name: int((~np.isnan(values)).sum()) for name, values in per_user.items()}
    return Report(
        model=repr(model),
        protocol="planted interests",
        metrics={name: float(np.nanmean(v)) if counts[name] else float("nan") for name, v in per_user.items()},
        units=dict(zip(per_user, ("share of the interests", "total variation"), strict=True)),
        n_users=counts,
        users=train.users.series.alias("user"),
        per_user=per_user,
        seconds=time.perf_counter() - start,
        backend=train.backend,
    )


def taste_recovery(model: Recommender, shop: ShopData, *, threads: int = 0) -> Report:
    """Measure how well the tastes that a model finds in the users' past items agree with the planted ones.

    The metric ``TasteRecovery`` is, for every user, the adjusted Rand index of two groupings of the past items: by the
    planted taste that each was taken for, and by the model's own tastes, which are `Recommender.tastes` or the nearest
    of the user's vectors. 1 means the same groups, 0 as many agreements as by chance. Past items that were taken
    without a taste, and users with fewer than two others, are left out.

    Args:
        model: A recommender with interests, fitted on interactions of ``shop``, or on a part of them.
        shop: Synthetic data of `tastespace.synthetic.shop`.
        threads: 0 means all cores; the metric does not depend on it.

    >>> from tastespace import DPCML, synthetic
    >>> shop = synthetic.shop(n_users=60, n_items=120, n_interactions=1_200, seed=1)
    >>> model = DPCML(n_interests=3, dim=8, epochs=5, seed=0).fit(shop.interactions)
    >>> -1 < taste_recovery(model, shop)["TasteRecovery"] < 1
    True
    """
    start = time.perf_counter()
    if not isinstance(shop, ShopData):
        raise ParameterError(
            f"shop is {type(shop).__name__}, expected what synthetic.shop() gives, which knows the taste behind each "
            "interaction."
        )
    model.require_fitted()
    train, space, tastes = model.train_, model.interest_space(), model.tastes()
    owner = train.row_of_each()
    if tastes is not None:
        found = tastes.of_past
    elif space is not None:
        found = space.pair_scores(owner, train.indices, resolve_threads(threads))[1]
    else:
        raise ParameterError(f"{type(model).__name__} has no interests, so it groups no past items.")
    data = shop.interactions
    users, items = _rows_in(data.users, train.users, "user"), _rows_in(data.items, train.items, "item")
    taken = data.row_of_each().astype(np.int64) * data.n_items + data.indices
    order, wanted = np.argsort(taken), users[owner] * data.n_items + items[train.indices]
    place = order[np.searchsorted(taken, wanted, sorter=order).clip(0, len(taken) - 1)]
    if (taken[place] != wanted).any():
        raise DataError("the model was fitted on interactions that are not in the synthetic data.")
    planted = shop.interaction_category[place]
    with_taste = planted >= 0
    values = _adjusted_rand(owner[with_taste], found[with_taste], planted[with_taste], train.n_users)
    count = int((~np.isnan(values)).sum())
    return Report(
        model=repr(model),
        protocol="planted interests",
        metrics={"TasteRecovery": float(np.nanmean(values)) if count else float("nan")},
        units={"TasteRecovery": "adjusted Rand index"},
        n_users={"TasteRecovery": count},
        users=train.users.series.alias("user"),
        per_user={"TasteRecovery": values},
        seconds=time.perf_counter() - start,
        backend=train.backend,
    )


def _adjusted_rand(
    owner: NDArray[np.integer[Any]], one: NDArray[np.integer[Any]], other: NDArray[np.integer[Any]], n_users: int
) -> NDArray[np.float64]:
    """Adjusted Rand index (Hubert and Arabie 1985) of two groupings of each user's items; NaN below two items."""

    def pairs(*groupings: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Pairs of items of each user that are together in all of these groupings."""
        key = owner.astype(np.int64)
        for group in groupings:
            key = key * (int(group.max(initial=0)) + 1) + group
        _, first, counts = np.unique(key, return_index=True, return_counts=True)
        return np.asarray(np.bincount(owner[first], counts * (counts - 1) / 2, minlength=n_users), dtype=np.float64)

    total, both = pairs(), pairs(one, other)
    in_one, in_other = pairs(one), pairs(other)
    by_chance, most = in_one * in_other / np.maximum(total, 1), (in_one + in_other) / 2
    same = most == by_chance  # both are one group, or single items
    values = np.where(same, 1.0, (both - by_chance) / np.where(same, 1.0, most - by_chance))
    return np.where(total > 0, values, np.nan)


def _rows_in(town_ids: IdMap, model_ids: IdMap, kind: str) -> NDArray[np.int64]:
    """Row in the synthetic data of each user or item of the model."""
    rows = town_ids.find(model_ids.series)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown):
        raise DataError(
            f"{len(unknown):,} of the model's {len(rows):,} {kind}s, such as {model_ids[int(unknown[0])]!r}, are not "
            "in the synthetic data. Give the data whose interactions the model was fitted on."
        )
    return rows


def _planted(town: SyntheticData, users: NDArray[np.int64]) -> NDArray[np.float64]:
    """Planted weight of every category, 0 where it is not planted: shape ``(len(users), n_categories)``."""
    row, at = entries_of(town.interest_offsets, users)
    weights = np.zeros((len(users), len(town.categories)))
    weights[row, town.interest_categories[at]] = town.interest_weights[at]
    return weights


def _measure(
    top: NDArray[np.int32], category: NDArray[np.int32], weights: NDArray[np.float64], k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coverage and total variation distance of each list."""
    row, place = np.nonzero(top >= 0)
    n_users, n_categories = weights.shape
    cell = row * n_categories + category[top[row, place]]
    shown = np.bincount(cell, minlength=n_users * n_categories).reshape(n_users, n_categories)
    n_shown = shown.sum(axis=1)
    wanted = weights >= 1 / k - _ROUNDING
    n_wanted, n_covered = wanted.sum(axis=1), (wanted & (shown > 0)).sum(axis=1)
    coverage = np.where(n_wanted > 0, n_covered / np.maximum(n_wanted, 1), np.nan)
    distance = np.abs(shown / np.maximum(n_shown, 1)[:, None] - weights).sum(axis=1) / 2
    return coverage, np.where(n_shown > 0, distance, np.nan)
