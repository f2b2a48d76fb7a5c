"""The taste map: all items in the plane, with the interests, past items and recommendations of one user."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from tastespace.data.attributes import category_column, item_categories
from tastespace.data.interactions import Interactions
from tastespace.models.base import Recommender
from tastespace.plots.canvas import (
    DPI,
    FAINT,
    INK,
    PAPER,
    QUIET,
    LabelLayout,
    check_ending,
    color,
    deeper,
    fit_into,
    marker_box,
    new_figure,
    save_figure,
    shorten,
    whole_page,
    write,
)
from tastespace.plots.taste_map_layout import TasteMapLayout, taste_map_layout
from tastespace.recommend.interests import user_interests
from tastespace.recommend.labels import Labeler
from tastespace.recommend.shelves import Shelf

# Regions are named by categories where they concentrate, else by titles of well-known items.


@dataclass(frozen=True, eq=False)
class MapRegion:
    """A part of the map with a name."""

    name: str
    place: NDArray[np.float64]
    """Position of the name, shape ``(2,)``."""
    is_category: bool
    """False if the name is the title of the item at this place."""


_SHARE = 0.5  # of the items around a place that must belong to a category
_LIFT = 1.3  # least ratio of that share to the share of all items
_PLACES = 2000  # that are examined
_FEWEST, _MOST = 8, 60  # items around a place
_APART = 0.16  # between two names, as a share of the width of the map
_NAMES = 10
_WELL_KNOWN = 300  # most popular items whose titles may name a region


def taste_map_regions(
    points: NDArray[np.float64], source: Interactions, crowd: NDArray[np.integer[Any]]
) -> list[MapRegion]:
    """Names and places for regions of a map with an item at each of ``points``, shape ``(n_items, 2)``.

    A category names the place where the most of the items around belong to it, as against its share of all items; half
    of them must. Elsewhere the most popular items of the ``crowd``, rows of items that are not marked in the map, name
    their places by their titles.
    """
    width = float(np.ptp(points, axis=0).max())
    chosen: list[MapRegion] = []
    for region in _category_regions(points, source) + _title_regions(points, source, crowd):
        if all(np.linalg.norm(region.place - other.place) >= _APART * width for other in chosen):
            chosen.append(region)
    return chosen[:_NAMES]


def _category_regions(points: NDArray[np.float64], source: Interactions) -> list[MapRegion]:
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
    return [MapRegion(name, at, True) for _, name, at in sorted(found, key=lambda one: -one[0])]


def _title_regions(
    points: NDArray[np.float64], source: Interactions, crowd: NDArray[np.integer[Any]]
) -> list[MapRegion]:
    """The most popular items of the crowd, the most popular first."""
    order = crowd[np.argsort(-source.item_counts[crowd], kind="stable")][:_WELL_KNOWN]
    return [
        MapRegion(title, points[row], False) for title, row in zip(Labeler(source).titles(order), order, strict=True)
    ]


# In inches, and the areas of the markers in square points.
_MAP_WIDTH, _MAP_HEIGHT, _MAP_HEAD, _MAP_FOOT, _MARGIN = 9.0, 7.0, 0.7, 0.4, 0.35
_ROOM = np.array([_MAP_WIDTH - 2 * _MARGIN, _MAP_HEIGHT - _MAP_HEAD - _MAP_FOOT - 2 * _MARGIN])
_INTEREST, _STAR, _PAST, _OTHER = 190.0, 80.0, 16.0, 6.0
_IMAGE = 2000  # from so many items on, the catalog is one image: an .svg with a mark for each would be large
_CAPTION = (
    "An item is drawn nearest to the cross of the interest that it matches, and the nearer the better it matches."
)
_SHOWN = 8  # recommendations drawn for each interest
_HEAVY = 5  # a name covers so many dots of the catalog rather than one past item
_NAMED = 3  # of them, those whose titles are written
_BESIDE, _REGION = (3.0, 6.0), (0.0, 6.0, 11.0)
_NEAR, _FAR = (6.0, 9.0), (9.0, 12.0, 18.0, 26.0, 36.0, 50.0, 70.0, 100.0)  # from a mark to its name, in points


def taste_map(model: Recommender, user: Any, path: str | Path | None = None, *, filter: Any = None) -> Any:
    """A user's interests as crosses, recommendations as stars, past items as dots, around them the catalog.

    Positions are those of `taste_map_layout`: every item is on the side of the interest that it matches, in its color,
    and the farther from that interest the farther from its cross. The catalog's regions are named after the categories
    that concentrate there, or after well-known items. A title for which there is no room is left out. Returns the
    figure, and writes it to ``path`` where one is given.
    """
    check_ending(path)
    view = user_interests(model, user, "taste map")
    shelves = list(model.shelves(user, k=_SHOWN, filter=filter))
    train = model.train_
    found = [train.items.index_of(shelf.items) for shelf in shelves]
    groups = [list(shelf.interests) for shelf in shelves] or [list(range(view.n_interests))]
    layout = taste_map_layout(view, groups, found or [np.array([], dtype=np.int64)])
    items, crosses = _turned(layout.items, layout.crosses)

    figure = new_figure(_MAP_WIDTH, _MAP_HEIGHT)
    page = whole_page(figure, _MAP_WIDTH, _MAP_HEIGHT)
    title = shorten(f"Taste map of {train.users[view.row]}", 60)
    fit_into(write(page, 0.25, _MAP_HEIGHT - 0.4, title, 15, fontweight="bold"), _MAP_WIDTH - 0.5, 0.4)
    write(page, 0.25, _MAP_HEIGHT - 0.62, _CAPTION, 8.5, QUIET)
    _legend(page)
    axes = _field(figure, np.vstack([items, crosses]))
    _draw_catalog(axes, items, layout, shelves)
    for at, (shelf, rows) in enumerate(zip(shelves, found, strict=True)):
        shade = color(shelf.interest)
        for row in rows:
            axes.plot(*np.stack([crosses[at], items[row]]).T, color=shade, linewidth=0.8, alpha=0.45, zorder=2)
        past = items[view.past_of(groups[at])]
        axes.scatter(*past.T, s=_PAST, color=shade, edgecolors=PAPER, linewidths=0.3, zorder=3)
        axes.scatter(*items[rows].T, s=_STAR, marker="*", color=shade, edgecolors=INK, linewidths=0.4, zorder=4)
        axes.scatter(
            *crosses[[at]].T, s=_INTEREST, marker="X", color=shade, edgecolors=PAPER, linewidths=1.5, zorder=5
        )  # fmt: skip
    crowd = np.setdiff1d(np.flatnonzero(layout.distance > layout.inner), np.concatenate([view.past, *found]))
    regions = taste_map_regions(items, model.popularity_source, crowd)
    _write_names(axes, shelves, found, items, crosses, items[view.past], regions)
    if path is not None:
        save_figure(figure, path)
    return figure


def _draw_catalog(axes: Any, items: NDArray[np.float64], layout: TasteMapLayout, shelves: list[Shelf]) -> None:
    """Every item as a dot, in the color of its interest, the paler the farther; many of them as one image."""
    shades = [color(shelf.interest) for shelf in shelves] or [FAINT]
    order = np.argsort(np.argsort(layout.distance, kind="stable"), kind="stable")
    nearness = 1 - order / max(1, len(order) - 1)
    colors = [
        f"{shades[group]}{round(255 * (0.22 + 0.4 * near**2)):02X}"
        for group, near in zip(layout.group, nearness, strict=True)
    ]
    axes.scatter(*items.T, s=_OTHER, c=colors, linewidths=0, rasterized=len(items) > _IMAGE, zorder=1)


def _turned(*clouds: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The plane turned so that what is in it fills the page best; distances stay as they are."""
    everything = np.vstack(clouds)

    def turn(degrees: int) -> NDArray[np.float64]:
        sine, cosine = np.sin(np.radians(degrees)), np.cos(np.radians(degrees))
        return np.array([[cosine, sine], [-sine, cosine]])

    def needed(degrees: int) -> float:
        return float((np.ptp(everything @ turn(degrees), axis=0) / _ROOM).max())

    best = turn(min(range(0, 180, 5), key=needed))
    return [cloud @ best for cloud in clouds]


def _field(figure: Any, points: NDArray[np.float64]) -> Any:
    """Axes for the map: all points inside, the same scale in both directions."""
    low, high = points.min(axis=0), points.max(axis=0)
    per_inch = max(*((high - low) / _ROOM), 1e-9)
    middle, half = (low + high) / 2, per_inch * (_ROOM / 2 + _MARGIN)
    axes = figure.add_axes((0, _MAP_FOOT / _MAP_HEIGHT, 1, 1 - (_MAP_HEAD + _MAP_FOOT) / _MAP_HEIGHT))
    axes.set(xlim=(middle[0] - half[0], middle[0] + half[0]), ylim=(middle[1] - half[1], middle[1] + half[1]))
    axes.axis("off")
    return axes


def _write_names(
    axes: Any,
    shelves: list[Shelf],
    found: list[NDArray[np.int64]],
    items: NDArray[np.float64],
    crosses: NDArray[np.float64],
    past: NDArray[np.float64],
    regions: list[MapRegion],
) -> None:
    """The interests' names, titles of recommendations (the best of each shelf before the second of any), regions."""
    screen = axes.transData.transform
    marks = [marker_box(screen(cross), _INTEREST) for cross in crosses[: len(shelves)]]
    marks += [marker_box(screen(items[row]), _STAR) for rows in found for row in rows]
    page = axes.get_window_extent()
    edge = 0.12 * DPI
    inside = (page.x0 + edge, page.y0, page.x1 - edge, page.y1)
    layout = LabelLayout(axes, inside, marks, screen(np.vstack([items, *[past] * _HEAVY])))
    for at, shelf in enumerate(shelves):
        size = 11 if shelf.label else 9
        layout.write(screen(crosses[at]), _name(shelf), size, deeper(color(shelf.interest)), _FAR, fontweight="bold")
    written = [0] * len(shelves)
    for rank in range(_SHOWN):
        for at, (shelf, rows) in enumerate(zip(shelves, found, strict=True)):
            if rank < len(rows) and written[at] < _NAMED:
                where = screen(items[rows[rank]])
                written[at] += layout.write(where, shorten(shelf.titles[rank], 32), 7.5, INK, _NEAR)
    for region in regions:
        nearest = int(np.linalg.norm(crosses - region.place, axis=1).argmin())
        if not region.is_category:
            layout.write(screen(region.place), shorten(region.name, 28), 6.5, QUIET, _BESIDE)
        elif nearest >= len(shelves) or shelves[nearest].label != region.name:
            layout.write(screen(region.place), shorten(region.name, 32), 10, QUIET, _REGION, fontstyle="italic")


def _name(shelf: Shelf) -> str:
    """The label and the share of the history; a name from past items in several lines."""
    share = f"({100 * shelf.weight:.0f} %)"
    if shelf.label:
        return f"{shorten(shelf.label, 28)} {share}"
    short = replace(shelf, because_titles=[shorten(title, 28) for title in shelf.because_titles])
    return "\n".join(textwrap.wrap(f"{short.name} {share}", 32))


def _legend(page: Any) -> None:
    from matplotlib.lines import Line2D

    marks = (
        ("X", 9, QUIET, "an interest"),
        ("*", 9, QUIET, "recommended"),
        ("o", 4.5, QUIET, "had before"),
        ("o", 3, FAINT, "the catalog, in the color of its interest"),
    )
    handles = [
        Line2D([], [], linestyle="", marker=mark, markersize=size, color=shade, markeredgewidth=0, label=text)
        for mark, size, shade, text in marks
    ]
    page.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.01, 0.005), ncols=len(marks), frameon=False, fontsize=8.5,
        labelcolor=QUIET, handletextpad=0.1, columnspacing=1.4,
    )  # fmt: skip
