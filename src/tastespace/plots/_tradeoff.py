"""Accuracy against minority recall as a picture: a point for each degree of diversity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tastespace.data.reading.tables import to_polars
from tastespace.errors import DataError, nearest
from tastespace.plots.canvas import (
    FAINT,
    INK,
    QUIET,
    LabelLayout,
    check_ending,
    color,
    marker_box,
    new_figure,
    save_figure,
)

_WIDTH, _HEIGHT = 6.4, 4.4  # inches
_MARK = 36.0  # area of a mark in square points
_REACH = (7.0, 12.0, 18.0, 26.0)  # distances of a label from its mark in points


def draw_tradeoff(
    frame: Any, path: str | Path | None = None, *, x: str = "NDCG@10", y: str = "MinorityRecall@20"
) -> Any:
    """Draw the curve that `tastespace.tradeoff` measures; return the figure, and write it to ``path`` if given.

    Args:
        frame: Its first column labels the points, which are joined in the order of the rows.
        path: A name that ends in .png, .svg or .pdf.
        x, y: Columns of the metrics on the axes.

    >>> import polars as pl
    >>> curve = pl.DataFrame({"diversity": [0.0, 1.0], "NDCG@10": [0.3, 0.2], "MinorityRecall@20": [0.1, 0.2]})
    >>> [text.get_text() for text in draw_tradeoff(curve).axes[0].texts]
    ['0', '1']
    """
    check_ending(path)
    table = to_polars(frame)[0]
    across, up = (_numbers(table, name) for name in (x, y))
    label, names = table.columns[0], table[table.columns[0]].to_list()
    figure = new_figure(_WIDTH, _HEIGHT)
    axes = figure.add_axes((0.13, 0.14, 0.83, 0.8))
    axes.plot(across, up, color=FAINT, linewidth=1.5, zorder=1)
    axes.scatter(across, up, s=_MARK, color=color(0), zorder=2, linewidths=0)
    axes.margins(0.12)
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.set_title(f"{y} against {x}, by {label}", loc="left", fontsize=11, color=INK)
    axes.tick_params(colors=QUIET)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    screen = axes.transData.transform(np.column_stack([across, up]))
    page = axes.get_window_extent()
    # Labels had better not cover the curve: points along it, of which no two neighbors are far apart.
    along = np.linspace(0, len(screen) - 1, 100 * len(screen))
    curve = np.column_stack([np.interp(along, np.arange(len(screen)), line) for line in screen.T])
    layout = LabelLayout(axes, (page.x0, page.y0, page.x1, page.y1), [marker_box(at, _MARK) for at in screen], curve)
    for at, name in zip(screen, names, strict=True):
        layout.write(at, f"{name:g}" if isinstance(name, float) else str(name), 9, INK, _REACH)
    if path is not None:
        save_figure(figure, path)
    return figure


def _numbers(table: pl.DataFrame, name: str) -> Any:
    if name not in table.columns[1:]:
        raise DataError(
            f"the frame has no column {name!r} of a metric; its columns are {', '.join(map(repr, table.columns))}. "
            "Give what tastespace.tradeoff returns, or name the metrics with x= and y=."
            + nearest(name, table.columns[1:])
        )
    values = table[name]
    numbers = values.cast(pl.Float64, strict=False).fill_null(float("nan"))
    if not len(values) or not values.dtype.is_numeric() or not numbers.is_finite().all():
        raise DataError(f"column {name!r} holds {values.to_list()[:5]}, expected a number in each row.")
    return numbers.to_numpy()
