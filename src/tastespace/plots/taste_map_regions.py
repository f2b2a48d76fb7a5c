"""Names for regions of the taste map: categories where they concentrate, else titles of well-known items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from tastespace.data.categories import category_column, item_categories
from tastespace.data.interactions import Interactions
from tastespace.recommend.interest_labels import Labeler


@dataclass(frozen=True, eq=False)
class Region:
    """A part of the map with a name."""

    name: str
    place: NDArray[np.float64]
    """Where the name belongs, shape ``(2,)``."""
    is_category: bool
    """Else the name is the title of the item at this place."""


_SHARE = 0.5  # of the items around a place that must belong to a category
_LIFT = 1.3  # how many times more that must be than of all items
_PLACES = 2000  # that are examined
_FEWEST, _MOST = 8, 60  # items around a place
_APART = 0.16  # between two names, as a share of the width of the map
_NAMES = 10
_WELL_KNOWN = 300  # most popular items whose titles may name a region


def taste_map_regions(
    points: NDArray[np.float64], source: Interactions, crowd: NDArray[np.integer[Any]]
) -> list[Region]:
    """Names and places for regions of a map with an item at each of ``points``, shape ``(n_items, 2)``.

    A category names the place where the most of the items around belong to it, as against its share of all items; half
    of them must. Elsewhere the most popular items of the ``crowd``, rows of items that are not marked in the map, name
    their places by their titles.
    """
    width = float(np.ptp(points, axis=0).max())
    chosen: list[Region] = []
    for region in _category_regions(points, source) + _title_regions(points, source, crowd):
        if all(np.linalg.norm(region.place - other.place) >= _APART * width for other in chosen):
            chosen.append(region)
    return chosen[:_NAMES]


def _category_regions(points: NDArray[np.float64], source: Interactions) -> list[Region]:
    """The best place of each category that concentrates somewhere, the clearest first."""
    column = category_column(source.item_attributes)
    if column is None or source.item_attributes is None:
        return []
    categories = item_categories(source.item_attributes[column])
    n = len(points)
    k = min(n, int(np.clip(n // 40, _FEWEST, _MOST)))
    places = np.unique(np.linspace(0, n - 1, min(n, _PLACES)).astype(np.int64))
    around = cKDTree(points).query(points[places], k=k)[1].reshape(len(places), k)
    ones = np.ones(around.size)
    rows = np.repeat(np.arange(len(places)), k)
    share = (sp.csr_array((ones, (rows, around.ravel())), shape=(len(places), n)) @ categories.membership).toarray() / k
    everywhere = np.asarray(categories.membership.mean(axis=0)).ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(share > 0, share * np.log(share / np.maximum(everywhere, 1e-9)), 0.0)
    found = []
    for c in range(len(categories.names)):
        place = int(gain[:, c].argmax())
        if share[place, c] >= max(_SHARE, _LIFT * everywhere[c]):
            belong = around[place][categories.membership[around[place], [c]].ravel() > 0]
            found.append((gain[place, c], categories.names[c], points[belong].mean(axis=0)))
    return [Region(name, at, True) for _, name, at in sorted(found, key=lambda one: -one[0])]


def _title_regions(points: NDArray[np.float64], source: Interactions, crowd: NDArray[np.integer[Any]]) -> list[Region]:
    """The most popular items of the crowd, the most popular first."""
    order = crowd[np.argsort(-source.item_counts[crowd], kind="stable")][:_WELL_KNOWN]
    return [Region(title, points[row], False) for title, row in zip(Labeler(source).titles(order), order, strict=True)]
