"""A user's shelves as a picture: one row of cards for each interest."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from tastespace.errors import ParameterError
from tastespace.plots.canvas import (
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
from tastespace.recommend.shelves import Shelf, Shelves

# In inches.
_WIDTH, _EDGE, _HEAD, _ROW = 11.0, 0.25, 0.7, 1.7
_BOARD = _WIDTH - 2 * _EDGE
_CARDS, _CARD_WIDTH, _CARD_HEIGHT, _GAP = 6, 1.62, 0.78, 0.156


def draw_shelves(shelves: Shelves, path: str | Path | None = None) -> Any:
    """Draw a user's shelves as rows of cards; return the figure, and write it to ``path`` where one is given."""
    check_ending(path)
    if not isinstance(shelves, Shelves):
        raise ParameterError(f"expected what model.shelves(user) returns, given {type(shelves).__name__}.")
    rows = list(shelves)
    height = _HEAD + _ROW * len(rows)
    figure = new_figure(_WIDTH, height)
    axes = whole_page(figure, _WIDTH, height)
    title = shorten(f"Shelves of {shelves.user}", 80)
    fit_into(write(axes, _EDGE, height - 0.45, title, 15, fontweight="bold"), _BOARD, 0.4)
    for at, shelf in enumerate(rows):
        _draw_shelf(axes, shelf, height - _HEAD - _ROW * at)
    if path is not None:
        save_figure(figure, path)
    return figure


def _draw_shelf(axes: Any, shelf: Shelf, top: float) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    shade = color(shelf.interest)
    name = write(axes, _EDGE, top - 0.22, shorten(shelf.name, 100), 11.5, deeper(shade), fontweight="bold")
    fit_into(name, _BOARD, 0.3)
    because = f"{100 * shelf.weight:.0f} % of the history"
    if shelf.label and shelf.because_titles:  # else they are its name
        because += ", near " + " · ".join(shorten(title, 40) for title in shelf.because_titles)
    fit_into(write(axes, _EDGE, top - 0.42, because, 8, QUIET), _BOARD, 0.3)
    bottom = top - 0.57 - _CARD_HEIGHT
    for number, title in enumerate(shelf.titles[:_CARDS]):
        left = _EDGE + number * (_CARD_WIDTH + _GAP)
        card = FancyBboxPatch(
            (left, bottom), _CARD_WIDTH, _CARD_HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.07", facecolor=f"{shade}12", edgecolor=shade, linewidth=1.1,
        )  # fmt: skip
        axes.add_patch(card)
        lines = textwrap.wrap(shorten(title, 60), 20, max_lines=3, placeholder="…")
        middle = left + _CARD_WIDTH / 2, bottom + _CARD_HEIGHT / 2
        text = write(axes, *middle, "\n".join(lines), 9, ha="center", va="center", linespacing=1.25)
        fit_into(text, _CARD_WIDTH - 0.16, _CARD_HEIGHT - 0.12)
    axes.add_patch(Rectangle((_EDGE, bottom - 0.1), _BOARD, 0.035, color=shade, alpha=0.35, linewidth=0))
