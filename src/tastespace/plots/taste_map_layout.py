"""Positions of interests and items on the taste map, by distances to one user's interests.

No plane keeps the distances of a space of many dimensions, so the map is no projection. An item
is drawn on the side of the interest that it matches, and its distance from that interest's cross grows with the
distance in the space. The direction from the cross shows other interests nearby: items that are also close to
another interest are drawn toward its cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tastespace.recommend.interests import UserInterests

_Points = NDArray[np.float64]

_OUTER = 0.9  # share of the recommended items whose distances are drawn as they are
_ROOM = 1.5  # least distance of the border to the next cross, in multiples of that,
_BORDER = 0.97  # share of the way to the border that is used,
_OPEN = 2.1  # and the multiple that is used where there is no border
_CROWD, _NAMED = 0.4, 0.7  # shift of the directions of all items, and of those shown, toward even ones
_SIMILAR = 0.6  # weight of the likeness of items in their directions, against that of the other interests
_STEPS = 200


@dataclass(frozen=True, eq=False)
class TasteMapLayout:
    """Positions in the plane."""

    crosses: _Points
    """One for each group of interests, shape ``(n_groups, 2)``."""
    items: _Points
    """Shape ``(n_items, 2)``."""
    group: NDArray[np.int64]
    """The group of the interest that each item matches, which is the one with the nearest cross: ``(n_items,)``."""
    distance: _Points
    """Distance that the position of an item shows, see `excess_distance`: shape ``(n_items,)``."""
    inner: float
    """Up to here distances are drawn as they are, beyond only in their order."""


def taste_map_layout(
    view: UserInterests, groups: Sequence[Sequence[int]], shown: Sequence[NDArray[np.int64]]
) -> TasteMapLayout:
    """Positions for a user's groups of interests and all items; ``shown`` are rows of the items drawn for each group.

    The distance of an item from its cross is `excess_distance`, on the same scale for all crosses, as far as items are
    recommended; beyond, only the order of distances is kept.
    """
    squared = group_distances(view, groups)
    group = squared.argmin(axis=0)
    excess = excess_distance(squared)
    distance = excess[group, np.arange(len(group))]
    crosses, inner = _crosses(excess, shown)
    items = np.empty((len(group), 2))
    likeness = _principal(view.index.item_vectors.astype(np.float64))
    for at in range(len(groups)):
        mine = np.flatnonzero(group == at)
        if len(mine):
            sides = _spread(_directions(squared[:, mine], at, crosses, likeness[mine]), _CROWD)
            is_shown = np.isin(mine, shown[at])
            sides[is_shown] = _spread(sides[is_shown], _NAMED)
            items[mine] = crosses[at] + sides * _radii(distance[mine], inner, sides, at, crosses)[:, None]
    return TasteMapLayout(crosses, items, group, distance, inner)


def group_distances(view: UserInterests, groups: Sequence[Sequence[int]]) -> _Points:
    """Squared distance of every item to the nearest interest of each group: ``(n_groups, n_items)``.

    Where vectors are compared by inner products these are negative scores, which are ordered in the same way.
    """
    everything = np.arange(view.index.train.n_items, dtype=np.int32)
    scores = view.index.interest_scores(view.row, everything).astype(np.float64)
    return np.stack([-scores[list(group)].max(axis=0) for group in groups])


def excess_distance(squared: _Points) -> _Points:
    """Square root of what each squared distance has more than the smallest to the same interest, same shape.

    In many dimensions even the nearest item is far away and all distances are similar: the common part is subtracted.
    """
    return np.sqrt(squared - squared.min(axis=1, keepdims=True))


def _crosses(excess: _Points, shown: Sequence[NDArray[np.int64]]) -> tuple[_Points, float]:
    """Positions of the crosses, and the distance within which most of the items shown are.

    Two crosses are as far apart as the one is from the items shown for the other, but leave room for those items.
    """
    n = len(excess)
    apart = np.zeros((n, n))
    for one in range(n):
        for other in range(n):
            if one != other and len(shown[other]):
                apart[one, other] = excess[one, shown[other]].mean()
    apart = np.maximum((apart + apart.T) / 2, 1e-6) * (1 - np.eye(n))
    angles = 2 * np.pi * np.arange(n) / max(1, n)
    places = apart.max() / 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for _ in range(_STEPS if n > 2 else 0):  # SMACOF: each step lowers the sum of squared errors of the distances
        now = np.linalg.norm(places[:, None] - places[None], axis=2)
        ratio = -apart / np.maximum(now, 1e-9)
        np.fill_diagonal(ratio, 0.0)
        np.fill_diagonal(ratio, -ratio.sum(axis=1))
        places = ratio @ places / n
    radii = [excess[at, rows] for at, rows in enumerate(shown) if len(rows)] or [excess.min(axis=0)]
    inner = max(float(np.quantile(np.concatenate(radii), _OUTER)), 1e-6)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2)[~np.eye(n, dtype=bool)]
    return places * max(1.0, 2 * _ROOM * inner / max(float(gaps.min(initial=np.inf)), 1e-9)), inner


def _principal(vectors: _Points) -> _Points:
    """The first two principal components of the items, each with standard deviation 1: ``(n_items, 2)``."""
    centered = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centered.T @ centered)
    two = directions[:, ::-1][:, :2]
    # The sign of a direction is arbitrary; fixed, the same model gives the same picture.
    two = two * np.where(np.take_along_axis(two, np.abs(two).argmax(axis=0)[None], axis=0) < 0, -1.0, 1.0)
    found = np.zeros((len(vectors), 2))
    found[:, : two.shape[1]] = centered @ two
    return _standardized(found)


def _standardized(values: _Points) -> _Points:
    """Columns with median 0 and standard deviation 1; constant ones become 0."""
    spread = values.std(axis=0)
    return (values - np.median(values, axis=0)) / np.where(spread > 1e-12, spread, np.inf)


def _directions(squared: _Points, at: int, crosses: _Points, likeness: _Points) -> _Points:
    """Unit vectors from a cross to its items: to the crosses that they are nearer to than most, like items alike."""
    others = [other for other in range(len(crosses)) if other != at]
    toward = _SIMILAR * likeness
    if others:
        closeness = _standardized(-squared[others].T)
        ways = crosses[others] - crosses[at]
        toward = toward + closeness @ (ways / np.maximum(np.linalg.norm(ways, axis=1, keepdims=True), 1e-9))
    length = np.linalg.norm(toward, axis=1)
    golden = np.pi * (3 - np.sqrt(5)) * np.arange(len(toward))  # for items of which nothing tells the direction
    around = np.stack([np.cos(golden), np.sin(golden)], axis=1)
    return np.where(length[:, None] > 1e-9, toward / np.maximum(length, 1e-9)[:, None], around)


def _spread(sides: _Points, strength: float) -> _Points:
    """Directions moved toward even ones, in their order: crowds come apart, and names find room."""
    if len(sides) < 2:
        return sides
    angles = np.arctan2(*sides.T[::-1])
    order = np.argsort(angles, kind="stable")
    even = 2 * np.pi * np.arange(len(sides)) / len(sides)
    # The even angles are turned as a whole to where they change the given ones least.
    turn = np.angle(np.exp(1j * (angles[order] - even)).mean())
    moved = angles.copy()
    moved[order] += strength * np.angle(np.exp(1j * (even + turn - angles[order])))
    return np.stack([np.cos(moved), np.sin(moved)], axis=1)


def _radii(distance: _Points, inner: float, sides: _Points, at: int, crosses: _Points) -> _Points:
    """Return the distance from its cross at which each item is drawn.

    Up to ``inner`` it is the distance itself. The crowd of those farther away fills the room from there to the border,
    in the order of distances: drawn as they are, most would be on one thin ring.
    """
    ways = np.delete(crosses, at, axis=0) - crosses[at]
    along = sides @ ways.T
    border = np.where(along > 1e-9, (ways**2).sum(axis=1) / (2 * np.maximum(along, 1e-9)), np.inf)
    outer = np.minimum(_BORDER * border.min(axis=1, initial=np.inf), _OPEN * inner)
    far = distance > inner
    radii = distance.copy()
    place = np.argsort(np.argsort(distance[far], kind="stable"), kind="stable") / max(1, far.sum())
    radii[far] = np.sqrt(inner**2 + place * (outer[far] ** 2 - inner**2))  # even by area
    return radii
