"""Pictures of one person: the shelves, and the taste map."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.models.base import Recommender
from tastespace.plots.canvas import FAINT, INK, PAPER, colour, new_figure, save_figure
from tastespace.recommend.person import meet, space_of
from tastespace.recommend.shelves import Shelf, Shelves

_CARDS = 6
_NAMED = 3  # recommendations of each interest whose titles are written
_SHOWN = 8  # recommendations of each interest that are lit


def draw_shelves(shelves: Shelves, path: str | Path | None = None) -> Any:
    """A person's shelves as rows of cards; gives the figure, and writes it where ``path`` says so."""
    rows = list(shelves)
    figure = new_figure(11, 0.5 + 1.45 * len(rows))
    axes = figure.subplots()
    axes.set(xlim=(0, 11), ylim=(-1.45 * len(rows), 0.35))
    axes.axis("off")
    axes.text(0.05, 0.12, f"Shelves of {shelves.user}", fontsize=14, fontweight="bold", color=INK)
    for at, shelf in enumerate(rows):
        _draw_shelf(axes, shelf, -1.45 * at, colour(shelf.interest))
    if path is not None:
        save_figure(figure, path)
    return figure


def _draw_shelf(axes: Any, shelf: Shelf, top: float, shade: str) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    axes.text(0.05, top - 0.2, textwrap.shorten(shelf.name, 70), fontsize=11, fontweight="bold", color=shade)
    because = f"{100 * shelf.weight:.0f} % of the past"
    if shelf.because_titles:
        because += "; beside " + textwrap.shorten(", ".join(shelf.because_titles), 80)
    axes.text(10.95, top - 0.2, because, fontsize=7.5, color="#666666", ha="right")
    for number, title in enumerate(shelf.titles[:_CARDS]):
        left = 0.05 + number * 1.82
        card = FancyBboxPatch((left, top - 1.15), 1.62, 0.75, boxstyle="round,pad=0.03", fc=PAPER, ec=shade, lw=1.2)
        axes.add_patch(card)
        lines = textwrap.wrap(title, 21)[:3]
        axes.text(left + 0.81, top - 0.775, "\n".join(lines), fontsize=8, ha="center", va="center", color=INK)
    axes.add_patch(Rectangle((0.0, top - 1.27), 11, 0.035, color=shade, alpha=0.35, lw=0))


def taste_map(model: Recommender, user: Any, path: str | Path | None = None, *, filter: Any = None) -> Any:
    """All items as dots in the plane, a person's interests drawn in, the past coloured, the recommendations lit.

    The plane is the one in which this person's interests and past items spread widest (their two principal
    directions), so what lies far apart here lies far apart in the space; the opposite need not hold. Gives the figure,
    and writes it where ``path`` says so.
    """
    space = space_of(model, "taste map")
    person = meet(model, user, "taste map")
    shelves = model.shelves(user, k=_SHOWN, filter=filter)
    train = model.train_
    mine = space.user_vectors[space.user_offsets[person.row] : space.user_offsets[person.row + 1]]
    flat = _plane(np.vstack([space.item_vectors[person.past], np.repeat(mine, 3, axis=0)]))
    items, interests = flat(space.item_vectors), flat(mine)

    figure = new_figure(9, 7)
    axes = figure.subplots()
    axes.axis("off")
    axes.set_title(f"Taste map of {train.users[person.row]}", loc="left", fontweight="bold", color=INK)
    axes.scatter(*items.T, s=5, color=FAINT, alpha=0.5, linewidths=0, label="the catalogue")
    for shelf in shelves:
        shade = colour(shelf.interest)
        group = list(shelf.interests)
        past = person.past_of(group)
        found = train.items.index_of(shelf.items)
        axes.scatter(*items[past].T, s=16, color=shade, alpha=0.45, linewidths=0)
        axes.scatter(*items[found].T, s=70, marker="*", color=shade, edgecolors=INK, linewidths=0.4, zorder=4)
        axes.scatter(*interests[group].T, s=190, marker="X", color=shade, edgecolors=PAPER, linewidths=1.5, zorder=5)
        _name(axes, interests[group[0]], f"{textwrap.shorten(shelf.name, 34)} ({100 * shelf.weight:.0f} %)", shade, 10)
        for row, title in list(zip(found, shelf.titles, strict=True))[:_NAMED]:
            _name(axes, items[row], textwrap.shorten(title, 28), INK, 6.5)
    _legend(axes)
    if path is not None:
        save_figure(figure, path)
    return figure


def _plane(points: NDArray[np.float32]) -> Any:
    """A function from vectors to coordinates in the plane of the points' two principal directions."""
    middle = points.mean(axis=0)
    _, _, directions = np.linalg.svd(points - middle, full_matrices=False)
    # The sign of a direction is arbitrary; fixed, the same model gives the same picture.
    two = directions[:2]
    largest = np.take_along_axis(two, np.abs(two).argmax(axis=1, keepdims=True), axis=1)
    two = two * np.where(largest < 0, -1.0, 1.0)
    if len(two) < 2:
        two = np.vstack([two, np.zeros_like(two)])
    return lambda vectors: (vectors - middle) @ two.T


def _name(axes: Any, at: NDArray[np.float32], text: str, shade: str, size: float) -> None:
    from matplotlib.patheffects import withStroke

    axes.annotate(
        text, at, xytext=(6, 5), textcoords="offset points", fontsize=size, color=shade, zorder=6,
        fontweight="bold" if size > 8 else "normal", path_effects=[withStroke(linewidth=2.5, foreground=PAPER)],
    )  # fmt: skip


def _legend(axes: Any) -> None:
    from matplotlib.lines import Line2D

    marks = (("X", 10, "an interest"), ("*", 10, "recommended"), ("o", 5, "had before"))
    handles = [Line2D([], [], ls="", marker=m, ms=size, color="#777777", label=text) for m, size, text in marks]
    handles.append(Line2D([], [], ls="", marker="o", ms=3, color=FAINT, label="the catalogue"))
    axes.legend(handles=handles, loc="lower right", frameon=False, fontsize=8)
