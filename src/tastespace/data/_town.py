"""Users with several categories of unequal weight, planted.

A test can measure what no real data set tells: whether a model recommends for a user's minority interests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util import threads
from tastespace._util.checks import require_whole
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError

_NAMES = (
    "Jazz", "Chess", "Gardens", "Trains", "Baking", "Cinema", "Sailing", "Poetry", "Robots", "Birds",
    "Pottery", "Maps", "Opera", "Bicycles", "Cheese", "Stars", "Knots", "Kites", "Fungi", "Tango",
)  # fmt: skip
MIN_PER_USER = 5
_MAX_ROUNDS = 40


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """Interactions together with the planted interests that produced them."""

    interactions: Interactions
    categories: tuple[str, ...]
    item_category: NDArray[np.int32]
    """Category of each item, shape ``(n_items,)``."""
    interest_offsets: NDArray[np.int64]
    """User ``u`` has the interests ``interest_offsets[u]:interest_offsets[u + 1]``, the strongest first."""
    interest_categories: NDArray[np.int32]
    """Category of each planted interest."""
    interest_weights: NDArray[np.float64]
    """Share of each planted interest in its user's choices; they sum to 1 per user."""

    def interests_of(self, user: int) -> dict[str, float]:
        """The planted interests of the user with this id: category -> weight, the strongest first."""
        row = int(self.interactions.users.index_of([user])[0])
        own = slice(self.interest_offsets[row], self.interest_offsets[row + 1])
        return {
            self.categories[c]: float(w)
            for c, w in zip(self.interest_categories[own], self.interest_weights[own], strict=True)
        }


def multi_interest(
    n_users: int = 1_000,
    n_items: int = 600,
    n_interactions: int = 40_000,
    *,
    n_categories: int = 12,
    n_interests: tuple[int, int] = (2, 4),
    dominance: float = 0.5,
    category_skew: float = 0.7,
    popularity_skew: float = 0.7,
    activity_spread: float = 0.6,
    noise: float = 0.05,
    category_names: Sequence[str] | None = None,
    seed: int = 0,
) -> SyntheticData:
    """Users with several interests each, and the items they chose.

    Args:
        n_users, n_items: Number of users and size of the catalog; ids are 0 ... n-1.
        n_interactions: Wanted number of distinct pairs; a little less comes out where a user has no further item
            of the own interests.
        n_categories: Every item belongs to exactly one category.
        n_interests: Fewest and most interests per user, drawn uniformly.
        dominance: Weight of an interest relative to the next stronger one, in (0, 1]: with 0.5 and three
            interests the shares are 4/7, 2/7 and 1/7; with 1 all are equal.
        category_skew: Inequality of the categories' sizes: category c gets a share ~ (c + 1) ** -skew.
        popularity_skew: The same for the popularity of items within a category.
        activity_spread: Standard deviation of the log of the number of items per user.
        noise: Share of choices made from the whole catalog instead of from an interest.
        category_names: Names for the categories; invented ones by default.
        seed: The same seed gives the same data.

    >>> town = multi_interest(n_users=40, n_items=60, n_interactions=500, seed=3)
    >>> sum(town.interests_of(7).values())
    1.0
    """
    _check(n_users, n_items, n_interactions, n_categories, n_interests, dominance, noise)
    require_whole("seed", seed, 0, most=2**64 - 1)
    rng = np.random.default_rng(seed)
    names = tuple(category_names) if category_names else _category_names(n_categories)
    if len(names) != n_categories:
        raise ParameterError(f"{len(names)} category_names for n_categories={n_categories}.")

    item_category = _assign_categories(rng, n_items, n_categories, category_skew)
    popularity = _popularity(rng, item_category, n_categories, popularity_skew)
    offsets, wanted, weights = _plant_interests(rng, n_users, item_category, n_categories, n_interests, dominance)
    quota = quotas(rng, n_users, n_items, n_interactions, activity_spread)

    sampler = _ItemSampler(item_category, popularity, n_categories)
    users, items = _choose(rng, quota, sampler, offsets, wanted, weights, noise)
    row_starts, indices = _native.build_csr(users, items, n_users, threads.resolve_threads(0))
    attributes = pl.DataFrame(
        {
            "item": np.arange(n_items, dtype=np.int64),
            "title": [f"{names[c]} no. {i}" for i, c in enumerate(item_category)],
            "genres": [[names[c]] for c in item_category],
        }
    )
    data = Interactions(
        IdMap(pl.Series(np.arange(n_users, dtype=np.int64)), "user"),
        IdMap(pl.Series(np.arange(n_items, dtype=np.int64)), "item"),
        row_starts,
        indices,
        item_attributes=attributes,
    )
    return SyntheticData(data, names, item_category, offsets, wanted, weights)


class _ItemSampler:
    """Draws items by popularity, from one category or from all, by inverting cumulative sums."""

    def __init__(self, item_category: NDArray[np.int32], popularity: NDArray[np.float64], n_categories: int) -> None:
        self.n_items = len(item_category)
        self._order = np.argsort(item_category, kind="stable").astype(np.int32)
        self._total = np.concatenate([[0.0], np.cumsum(popularity[self._order])])
        edges = np.searchsorted(item_category[self._order], np.arange(n_categories + 1))
        self._low, self._high = self._total[edges[:-1]], self._total[edges[1:]]

    def draw(self, rng: np.random.Generator, category: NDArray[np.int32]) -> NDArray[np.int32]:
        """One item per entry of ``category``; -1: the whole catalog."""
        whole_catalog = category < 0
        low = np.where(whole_catalog, 0.0, self._low[category])
        high = np.where(whole_catalog, self._total[-1], self._high[category])
        point = low + rng.random(len(category)) * (high - low)
        at = np.searchsorted(self._total, point, side="right") - 1
        return self._order[np.minimum(at, self.n_items - 1)]


def _choose(
    rng: np.random.Generator,
    quota: NDArray[np.int64],
    sampler: _ItemSampler,
    offsets: NDArray[np.int64],
    wanted: NDArray[np.int32],
    weights: NDArray[np.float64],
    noise: float,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draw distinct items for every user until the quota is full: draw, drop repeats, draw again."""
    n_items = sampler.n_items
    # Weights of one user after another on one line: user u's lie in [u, u + 1).
    line = np.cumsum(weights) - weights
    taken = np.empty(0, dtype=np.int64)
    missing = quota.copy()
    for _ in range(_MAX_ROUNDS):
        unfilled = np.flatnonzero(missing)
        if not len(unfilled):
            break
        tries = missing[unfilled] + missing[unfilled] // 2 + 1
        users = np.repeat(unfilled, tries)
        interest = np.searchsorted(line, users + rng.random(len(users)) * (1 - 1e-9), side="right") - 1
        interest = np.clip(interest, offsets[users], offsets[users + 1] - 1)
        category = np.where(rng.random(len(users)) < noise, -1, wanted[interest]).astype(np.int32)
        pairs = users * n_items + sampler.draw(rng, category)
        fresh = pairs[np.sort(np.unique(pairs, return_index=True)[1])]  # first appearances, in order of drawing
        if len(taken):
            at = np.minimum(np.searchsorted(taken, fresh), len(taken) - 1)
            fresh = fresh[taken[at] != fresh]
        owner = fresh // n_items
        first = np.searchsorted(owner, unfilled)
        place = np.arange(len(fresh)) - first[np.searchsorted(unfilled, owner)]
        fresh = fresh[place < missing[owner]]
        missing -= np.bincount(fresh // n_items, minlength=len(quota))
        taken = np.sort(np.concatenate([taken, fresh]))
    return (taken // n_items).astype(np.int32), (taken % n_items).astype(np.int32)


def _assign_categories(rng: np.random.Generator, n_items: int, n_categories: int, skew: float) -> NDArray[np.int32]:
    """Category of each item: skewed sizes, none empty, in random order over the catalog."""
    share = (np.arange(n_categories) + 1.0) ** -skew
    extra = np.searchsorted(np.cumsum(share / share.sum()), rng.random(n_items - n_categories), side="right")
    category = np.concatenate([np.arange(n_categories), np.minimum(extra, n_categories - 1)])
    return rng.permutation(category).astype(np.int32)


def _popularity(
    rng: np.random.Generator, item_category: NDArray[np.int32], n_categories: int, skew: float
) -> NDArray[np.float64]:
    """Popularity of each item: a power law within its category, categories weighted by their size."""
    popularity = np.empty(len(item_category))
    for category in range(n_categories):
        members = rng.permutation(np.flatnonzero(item_category == category))
        law = (np.arange(len(members)) + 1.0) ** -skew
        popularity[members] = law / law.sum() * len(members)
    return popularity


def _plant_interests(
    rng: np.random.Generator,
    n_users: int,
    item_category: NDArray[np.int32],
    n_categories: int,
    n_interests: tuple[int, int],
    dominance: float,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Give every user distinct categories, large ones more often, and geometric weights."""
    count = rng.integers(n_interests[0], n_interests[1] + 1, size=n_users)
    size = np.bincount(item_category, minlength=n_categories) / len(item_category)
    # The smallest of exponential races are a weighted draw without replacement.
    race = rng.exponential(size=(n_users, n_categories)) / size
    ranked = np.argsort(race, axis=1)
    rank = np.arange(n_categories)
    planted = rank[None, :] < count[:, None]
    strength = np.where(planted, dominance ** rank[None, :].astype(np.float64), 0.0)
    # Shuffle which one is strongest, or large categories would always be the majority interest.
    shuffled = np.argsort(np.where(planted, rng.random((n_users, n_categories)), 2.0), axis=1)
    wanted = np.take_along_axis(ranked, shuffled, axis=1)
    strength /= strength.sum(axis=1, keepdims=True)
    offsets = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return offsets, wanted[planted].astype(np.int32), strength[planted]


def quotas(
    rng: np.random.Generator, n_users: int, n_items: int, n_interactions: int, spread: float
) -> NDArray[np.int64]:
    """Draw the number of items of each user: log-normal, within limits, summing to the number wanted."""
    ceiling = max(MIN_PER_USER, n_items // 2)
    activity = rng.lognormal(0.0, spread, n_users)
    spare = n_interactions - MIN_PER_USER * n_users
    quota = MIN_PER_USER + np.floor(spare * activity / activity.sum()).astype(np.int64)
    quota = np.minimum(quota, ceiling)
    while (rest := n_interactions - int(quota.sum())) > 0:
        below_ceiling = np.flatnonzero(quota < ceiling)
        quota[rng.choice(below_ceiling, min(rest, len(below_ceiling)), replace=False)] += 1
    return quota


def _category_names(n: int) -> tuple[str, ...]:
    return tuple(
        _NAMES[i] if i < len(_NAMES) else f"{_NAMES[i % len(_NAMES)]} {i // len(_NAMES) + 1}" for i in range(n)
    )


def _check(
    n_users: int,
    n_items: int,
    n_interactions: int,
    n_categories: int,
    n_interests: tuple[int, int],
    dominance: float,
    noise: float,
) -> None:
    sizes = {"n_users": n_users, "n_items": n_items, "n_interactions": n_interactions, "n_categories": n_categories}
    for name, value in sizes.items():
        require_whole(name, value)
    if n_users < 2 or n_categories < 1 or n_items < max(2 * MIN_PER_USER, n_categories):
        raise ParameterError(
            f"n_users={n_users}, n_items={n_items}, n_categories={n_categories}: expected at least 2 users, 1 category "
            f"and {2 * MIN_PER_USER} items (and no more categories than items)."
        )
    most = n_users * (n_items // 2)
    if not MIN_PER_USER * n_users <= n_interactions <= most:
        raise ParameterError(
            f"n_interactions={n_interactions:,}: with {n_users:,} users and {n_items:,} items expected between "
            f"{MIN_PER_USER * n_users:,} ({MIN_PER_USER} each) and {most:,} (half the catalog each)."
        )
    low, high = n_interests
    if not 1 <= low <= high <= n_categories:
        raise ParameterError(
            f"n_interests={n_interests}: expected (fewest, most) with 1 <= fewest <= most <= n_categories="
            f"{n_categories}."
        )
    if not 0 < dominance <= 1 or not 0 <= noise <= 1:
        raise ParameterError(f"dominance={dominance}, noise={noise}: expected dominance in (0, 1], noise in [0, 1].")
