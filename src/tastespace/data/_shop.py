"""A shop: tastes with structure inside, coarse and partly wrong categories, and titles that a person can read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util import threads
from tastespace._util.checks import require_number, require_whole
from tastespace.data._town import MIN_PER_USER, SyntheticData, quotas
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError

# Tastes with their sub-tastes, one of each department after the other.
_DEPARTMENTS = ("Music", "Books", "Kitchen", "Outdoors", "Hobbies")
_TASTES = {
    "Jazz": ("Swing", "Bebop", "Fusion", "Vocal Jazz"),
    "Crime": ("Whodunits", "Police Cases", "Spy Stories", "Court Dramas"),
    "Baking": ("Sourdough", "Pastry", "Layer Cakes", "Biscuits"),
    "Gardens": ("Roses", "Herbs", "Orchids", "Bonsai"),
    "Chess": ("Openings", "Endgames", "Blitz Games", "Chess Puzzles"),
    "Opera": ("Baroque Opera", "Comic Opera", "Grand Opera", "Chamber Opera"),
    "Poetry": ("Sonnets", "Haiku", "Odes", "Elegies"),
    "Cheese": ("Blue Cheese", "Goat Cheese", "Alpine Cheese", "Soft Cheese"),
    "Birds": ("Owls", "Waders", "Songbirds", "Raptors"),
    "Trains": ("Steam Engines", "Trams", "Signals", "Narrow Gauge"),
    "Folk": ("Fiddle Tunes", "Sea Shanties", "Ballads", "Bluegrass"),
    "Travel": ("Rail Journeys", "Island Diaries", "Desert Treks", "City Walks"),
    "Coffee": ("Espresso", "Filter Coffee", "Cold Brew", "Latte Art"),
    "Sailing": ("Dinghies", "Knots", "Sea Charts", "Regattas"),
    "Robots": ("Drones", "Walkers", "Robot Arms", "Rovers"),
}
_SERIES = (
    "Harbor", "Midnight", "Winter", "Copper", "Village", "Golden", "Northern", "Garden Street", "Old Mill", "Silver",
    "Morning", "Riverside", "Autumn", "Little", "Hilltop", "Classic", "Lantern", "Meadow", "Grand", "Island",
    "Sunday", "Crimson", "Modern", "Forest",
)  # fmt: skip
_ITEMS_PER_SERIES = 3  # on average, while there are names for more series
# The map on which items and people have positions; distances are in units of the radius of a taste.
_DIM = 4
_BETWEEN_TASTES, _WITHIN_SUB_TASTE, _WITHIN_SERIES, _OF_PEOPLE = 3.0, 0.25, 0.08, 0.15
_UNREACHABLE = 1e-9  # probability of an item below which nobody takes it


@dataclass(frozen=True, eq=False)
class ShopData(SyntheticData):
    """Synthetic data of `shop`: its categories are the tastes, which the item attribute ``category`` does not tell."""

    interaction_category: NDArray[np.int32]
    """Taste that each interaction was drawn from, in the order of ``interactions``; -1 for a choice without one.

    It may differ from the taste of the item: a person takes items near a position, and tastes overlap.
    """
    item_position: NDArray[np.float64]
    """Position of each item on the map, shape ``(n_items, 4)``."""
    interest_position: NDArray[np.float64]
    """Position of each planted interest on the map, shape ``(n_interests, 4)``."""


def shop(
    n_users: int = 1_500,
    n_items: int = 1_000,
    n_interactions: int = 30_000,
    *,
    n_tastes: int = len(_TASTES),
    n_interests: tuple[int, int] = (2, 4),
    dominance: float = 0.6,
    reach: float = 0.43,
    popularity_skew: float = 0.7,
    activity_spread: float = 0.5,
    noise: float = 0.05,
    wrong_category: float = 0.15,
    missing_category: float = 0.1,
    seed: int = 0,
) -> ShopData:
    """Customers with several tastes each, the items they took, and the taste behind each of them.

    Items have positions on a map of four dimensions: series lie within sub-tastes, these within tastes, and some tastes
    overlap. A customer has a position in each of several tastes, near a sub-taste, and takes items near these,
    popular ones more often. A shop's own view is coarser: the item attribute ``category`` names one of five
    departments, of some items a wrong one or none. So the most popular items of a category are not what a customer
    takes next, one position per customer is not enough, and clicks alone tell the tastes.

    Args:
        n_users, n_items: Number of customers and size of the catalog; ids are 0 ... n-1.
        n_interactions: Wanted number of distinct pairs; somewhat less comes out where nothing is left in reach.
        n_tastes: Tastes in the catalog, up to 15.
        n_interests: Fewest and most tastes per customer, drawn uniformly.
        dominance: Weight of a taste relative to the next stronger one of a customer, in (0, 1].
        reach: Standard deviation of the distance at which items are taken, the radius of a taste being 1.
        popularity_skew: The item of rank r has a popularity ~ r ** -skew.
        activity_spread: Standard deviation of the log of the number of items per customer.
        noise: Share of choices by popularity alone, without a taste.
        wrong_category, missing_category: Shares of items with a random category, and without any.
        seed: The same seed gives the same data.

    >>> customers = shop(n_users=40, n_items=120, n_interactions=500, seed=3)
    >>> round(sum(customers.interests_of(7).values()), 6)
    1.0
    >>> customers.interactions.n_interactions == len(customers.interaction_category)
    True
    """
    _check(n_users, n_items, n_interactions, n_tastes, n_interests)
    require_number("reach", reach, above=0.0)
    shares = {"noise": noise, "wrong_category": wrong_category, "missing_category": missing_category}
    for name, value in {"dominance": dominance, **shares}.items():
        require_number(name, value, least=0.0)
        if value > 1 or (name == "dominance" and value == 0):
            raise ParameterError(f"{name}={value}: expected {'more than 0' if name == 'dominance' else '0'} to 1.")
    require_whole("seed", seed, 0, most=2**64 - 1)
    rng = np.random.default_rng(seed)
    names = tuple(_TASTES)[:n_tastes]
    n_sub = len(_TASTES[names[0]])

    centers = rng.normal(size=(n_tastes, _DIM))
    centers *= _BETWEEN_TASTES / np.linalg.norm(centers, axis=1, keepdims=True)
    sub_centers = np.repeat(centers, n_sub, axis=0) + _scatter(rng, n_tastes * n_sub, 1.0)
    sub_taste = rng.permutation(np.arange(n_items) % len(sub_centers))
    titles, series = _titles(rng, names, sub_taste)
    series_position = _scatter(rng, series.max() + 1, _WITHIN_SUB_TASTE)[series]
    position = sub_centers[sub_taste] + series_position + _scatter(rng, n_items, _WITHIN_SERIES)
    popularity = (rng.permutation(n_items) + 1.0) ** -popularity_skew

    count = rng.integers(n_interests[0], n_interests[1] + 1, size=n_users)
    offsets = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    planted = np.concatenate([rng.choice(n_tastes, n, replace=False) for n in count]).astype(np.int32)
    rank = np.arange(len(planted)) - np.repeat(offsets[:-1], count)
    weights = dominance ** rank.astype(np.float64)
    weights /= np.repeat(np.add.reduceat(weights, offsets[:-1]), count)
    near = sub_centers[planted * n_sub + rng.integers(n_sub, size=len(planted))]
    people = near + _scatter(rng, len(planted), _OF_PEOPLE)

    quota = quotas(rng, n_users, n_items, n_interactions, activity_spread)
    items, taken_for = [], []
    for user in range(n_users):
        own = slice(offsets[user], offsets[user + 1])
        squares = np.square(position[None] - people[own][:, None]).sum(axis=2)
        chance = np.vstack([popularity * np.exp(-squares / (2 * reach**2)), popularity])
        share = np.append(weights[own] * (1 - noise), noise)
        wanted = np.bincount(rng.choice(len(share), quota[user], p=share), minlength=len(share))
        chosen, interest = _take(rng, chance, wanted)
        order = np.argsort(chosen)
        items.append(chosen[order])
        taken_for.append(np.append(planted[own], -1)[interest[order]])
    users = np.repeat(np.arange(n_users), [len(own) for own in items]).astype(np.int32)
    row_starts, indices = _native.build_csr(
        users, np.concatenate(items).astype(np.int32), n_users, threads.resolve_threads(0)
    )

    item_taste = (sub_taste // n_sub).astype(np.int32)
    department = item_taste % len(_DEPARTMENTS)
    department = np.where(
        rng.random(n_items) < wrong_category, rng.integers(len(_DEPARTMENTS), size=n_items), department
    )
    known = rng.random(n_items) >= missing_category
    attributes = pl.DataFrame(
        {
            "item": np.arange(n_items, dtype=np.int64),
            "title": titles,
            "category": [_DEPARTMENTS[d] if k else None for d, k in zip(department, known, strict=True)],
        },
        schema_overrides={"category": pl.String},
    )
    data = Interactions(
        IdMap(pl.Series(np.arange(n_users, dtype=np.int64)), "user"),
        IdMap(pl.Series(np.arange(n_items, dtype=np.int64)), "item"),
        row_starts,
        indices,
        item_attributes=attributes,
    )
    drawn = np.concatenate(taken_for).astype(np.int32)
    return ShopData(data, names, item_taste, offsets, planted, weights, drawn, position, people)


def _scatter(rng: np.random.Generator, n: int, radius: float) -> NDArray[np.float64]:
    """Random offsets on the map, whose mean squared length is the square of the radius: shape ``(n, 4)``."""
    return rng.normal(size=(n, _DIM)) * (radius / np.sqrt(_DIM))


def _titles(
    rng: np.random.Generator, tastes: tuple[str, ...], sub_taste: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int64]]:
    """Title and number of the series of each item: "Harbor Swing 2" is the second of its series."""
    sub_names = [sub for taste in tastes for sub in _TASTES[taste]]
    titles, series = [""] * len(sub_taste), np.zeros(len(sub_taste), dtype=np.int64)
    for sub, name in enumerate(sub_names):
        members = np.flatnonzero(sub_taste == sub)
        n_series = int(np.clip(len(members) // _ITEMS_PER_SERIES, 1, len(_SERIES)))
        words = rng.permutation(len(_SERIES))[:n_series]
        own = rng.integers(n_series, size=len(members))
        series[members] = sub * len(_SERIES) + own
        volume = dict.fromkeys(range(n_series), 0)
        for item, which in zip(members.tolist(), own.tolist(), strict=True):
            volume[which] += 1
            titles[item] = f"{_SERIES[words[which]]} {name} {volume[which]}"
    return titles, series


def _take(
    rng: np.random.Generator, chance: NDArray[np.float64], wanted: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw distinct items for one user: so many by each row of chances; the items, and the row of each."""
    free = np.ones(chance.shape[1], dtype=bool)
    items, rows = [], []
    for row, n in enumerate(wanted.tolist()):
        p = np.where(free, chance[row], 0.0)
        p = np.where(p > _UNREACHABLE * p.max(), p, 0.0)
        n = min(n, int((p > 0).sum()))
        if not n:
            continue
        drawn = rng.choice(len(p), n, replace=False, p=p / p.sum())
        free[drawn] = False
        items.append(drawn)
        rows.append(np.full(n, row))
    return np.concatenate(items), np.concatenate(rows)


def _check(n_users: int, n_items: int, n_interactions: int, n_tastes: int, n_interests: tuple[int, int]) -> None:
    for name, value in {"n_users": n_users, "n_items": n_items, "n_interactions": n_interactions}.items():
        require_whole(name, value)
    require_whole("n_tastes", n_tastes, 1, most=len(_TASTES))
    if n_users < 2 or n_items < 4 * n_tastes:
        raise ParameterError(
            f"n_users={n_users}, n_items={n_items}: expected at least 2 users and {4 * n_tastes} items, one for each "
            f"sub-taste of n_tastes={n_tastes}."
        )
    most = n_users * (n_items // 2)
    if not MIN_PER_USER * n_users <= n_interactions <= most:
        raise ParameterError(
            f"n_interactions={n_interactions:,}: with {n_users:,} users and {n_items:,} items expected between "
            f"{MIN_PER_USER * n_users:,} ({MIN_PER_USER} each) and {most:,} (half the catalog each)."
        )
    low, high = n_interests
    if not 1 <= low <= high <= n_tastes:
        raise ParameterError(
            f"n_interests={n_interests}: expected (fewest, most) with 1 <= fewest <= most <= n_tastes={n_tastes}."
        )
