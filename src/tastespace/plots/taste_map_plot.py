"""The taste map: all items in the plane, with the interests, past items and recommendations of one user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.models.base import Recommender
from tastespace.plots.canvas import (
    DPI,
    FAINT,
    INK,
    PAPER,
    QUIET,
    check_ending,
    color,
    deeper,
    fit_into,
    new_figure,
    save_figure,
    shorten,
    whole_page,
    write,
)
from tastespace.plots.label_layout import LabelLayout, marker_box
from tastespace.recommend.shelves import Shelf
from tastespace.recommend.user_interests import user_interests

# In inches, and the areas of the markers in square points.
_MAP_WIDTH, _MAP_HEIGHT, _MAP_HEAD, _MAP_FOOT, _MARGIN = 9.0, 7.0, 0.55, 0.4, 0.35
_ROOM = np.array([_MAP_WIDTH - 2 * _MARGIN, _MAP_HEIGHT - _MAP_HEAD - _MAP_FOOT - 2 * _MARGIN])
_INTEREST, _STAR, _PAST, _OTHER = 190.0, 80.0, 16.0, 5.0
_SHOWN = 8  # recommendations drawn for each interest
_NAMED = 3  # of them, those whose titles are written
_NEAR, _FAR = (6.0, 9.0), (9.0, 12.0, 18.0, 26.0, 36.0, 50.0, 70.0, 100.0)  # from a mark to its name, in points


def taste_map(model: Recommender, user: Any, path: str | Path | None = None, *, filter: Any = None) -> Any:
    """All items as dots, a user's interests as crosses, the past items in color, the recommendations as stars.

    The plane is spanned by the two principal components of the user's interests and past items, where the interests
    together weigh as much as the past items together. Both directions have the same scale: what is far apart in the
    plane is far apart in the space; the opposite need not hold. A title for which there is no room is left out. Gives
    the figure, and writes it to ``path`` where one is given.
    """
    check_ending(path)
    view = user_interests(model, user, "taste map")
    shelves = list(model.shelves(user, k=_SHOWN, filter=filter))
    train = model.train_
    own_vectors, all_items = view.index.vectors_of(view.row), view.index.item_vectors
    project = _projection(all_items[view.past], own_vectors)
    items, interests = _turned(project(all_items), project(own_vectors))
    found = [train.items.index_of(shelf.items) for shelf in shelves]

    figure = new_figure(_MAP_WIDTH, _MAP_HEIGHT)
    page = whole_page(figure, _MAP_WIDTH, _MAP_HEIGHT)
    title = shorten(f"Taste map of {train.users[view.row]}", 60)
    fit_into(write(page, 0.25, _MAP_HEIGHT - 0.4, title, 15, fontweight="bold"), _MAP_WIDTH - 0.5, 0.4)
    _legend(page)
    axes = _field(figure, np.vstack([items, interests]))
    axes.scatter(*items.T, s=_OTHER, color=FAINT, alpha=0.5, linewidths=0)
    for shelf, rows in zip(shelves, found, strict=True):
        shade, group = color(shelf.interest), list(shelf.interests)
        axes.scatter(*items[view.past_of(group)].T, s=_PAST, color=shade, alpha=0.45, linewidths=0)
        axes.scatter(*items[rows].T, s=_STAR, marker="*", color=shade, edgecolors=INK, linewidths=0.4, zorder=4)
        axes.scatter(
            *interests[group].T, s=_INTEREST, marker="X", color=shade, edgecolors=PAPER, linewidths=1.5, zorder=5
        )  # fmt: skip
    _write_names(axes, shelves, found, items, interests)
    if path is not None:
        save_figure(figure, path)
    return figure


def _projection(
    past: NDArray[np.float32], interests: NDArray[np.float32]
) -> Callable[[NDArray[np.float32]], NDArray[np.float64]]:
    """A function from vectors to coordinates in the plane of the two principal components.

    The interests together weigh as much as the past items together.
    """
    points = np.vstack([past, interests]).astype(np.float64)
    weights = np.repeat([1.0 / max(1, len(past)), 1.0 / len(interests)], [len(past), len(interests)])
    middle = np.average(points, axis=0, weights=weights)
    _, _, directions = np.linalg.svd((points - middle) * np.sqrt(weights)[:, None], full_matrices=False)
    # The sign of a direction is arbitrary; fixed, the same model gives the same picture.
    two = directions[:2]
    largest = np.take_along_axis(two, np.abs(two).argmax(axis=1, keepdims=True), axis=1)
    two = two * np.where(largest < 0, -1.0, 1.0)
    if len(two) < 2:
        two = np.vstack([two, np.zeros_like(two)])
    return lambda vectors: (vectors - middle) @ two.T


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
    interests: NDArray[np.float64],
) -> None:
    """The interests' names, then titles of recommendations: the best of each shelf before the second of any."""
    screen = axes.transData.transform
    marks = [marker_box(screen(interests[x]), _INTEREST) for shelf in shelves for x in shelf.interests]
    marks += [marker_box(screen(items[row]), _STAR) for rows in found for row in rows]
    page = axes.get_window_extent()
    edge = 0.12 * DPI
    inside = (page.x0 + edge, page.y0, page.x1 - edge, page.y1)
    layout = LabelLayout(axes, inside, marks, screen(items))
    for shelf in shelves:
        name = f"{shorten(shelf.name, 28)} ({100 * shelf.weight:.0f} %)"
        at = screen(interests[shelf.interest])
        layout.write(at, name, 11, deeper(color(shelf.interest)), _FAR, fontweight="bold")
    written = [0] * len(shelves)
    for rank in range(_SHOWN):
        for at, (shelf, rows) in enumerate(zip(shelves, found, strict=True)):
            if rank < len(rows) and written[at] < _NAMED:
                where = screen(items[rows[rank]])
                written[at] += layout.write(where, shorten(shelf.titles[rank], 32), 7.5, INK, _NEAR)


def _legend(page: Any) -> None:
    from matplotlib.lines import Line2D

    marks = (
        ("X", 9, QUIET, "an interest"),
        ("*", 9, QUIET, "recommended"),
        ("o", 4.5, QUIET, "had before"),
        ("o", 3, FAINT, "the catalog"),
    )
    handles = [
        Line2D([], [], linestyle="", marker=mark, markersize=size, color=shade, markeredgewidth=0, label=text)
        for mark, size, shade, text in marks
    ]
    page.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.01, 0.005), ncols=len(marks), frameon=False, fontsize=8.5,
        labelcolor=QUIET, handletextpad=0.1, columnspacing=1.4,
    )  # fmt: skip
