"""What the paper's figures share: panels with a heading, quiet axes, and one color for each family of methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tastespace.plots.canvas import FAINT, INK, PALETTE, QUIET, fit_into, new_figure, write

BLUE, VERMILION, GREEN, PINK, AMBER, SKY, BROWN, GREY = PALETTE
FAMILY = {"CML": BLUE, "BPA": VERMILION, "APA": GREEN}
"""One vector, the same number of vectors for all, an adaptive number."""
MARKS = {"UniS": "o", "HarS": "s", "DiHarS": "D", "NDiHarS": "^"}
LIGHT = "#E6E6E6"

_TIMES = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0)
# Inches around and between panels.
_LEFT, _RIGHT, _BOTTOM, _HEAD = 0.75, 0.3, 0.65, 1.05
_ACROSS, _DOWN = 0.8, 0.95


def panels(
    title: str,
    subtitle: str,
    count: int,
    *,
    size: tuple[float, float] = (3.6, 2.9),
    columns: int | None = None,
    left: float = _LEFT,
    bottom: float = _BOTTOM,
    across: float = _ACROSS,
    legend: bool = False,
) -> tuple[Any, list[Any]]:
    """A figure with a heading and ``count`` panels of this size in inches; with room for a legend below the heading."""
    columns = columns or min(count, 3)
    rows = math.ceil(count / columns)
    head = _HEAD + (0.2 if legend else 0.0)
    width = left + columns * size[0] + (columns - 1) * across + _RIGHT
    height = head + rows * size[1] + (rows - 1) * _DOWN + bottom
    figure = new_figure(width, height)
    page = figure.add_axes((0, 0, 1, 1))
    page.set(xlim=(0, width), ylim=(0, height))
    page.axis("off")
    fit_into(write(page, 0.25, height - 0.38, title, 14, fontweight="bold"), width - 0.5, 0.4)
    fit_into(write(page, 0.25, height - 0.62, subtitle, 9.5, QUIET), width - 0.5, 0.3)
    found = []
    for number in range(count):
        row, column = divmod(number, columns)
        x = left + column * (size[0] + across)
        y = height - head - (row + 1) * size[1] - row * _DOWN
        axes = figure.add_axes((x / width, y / height, size[0] / width, size[1] / height))
        found.append(quiet(axes))
    return figure, found


def quiet(axes: Any, grid: str = "y") -> Any:
    """Axes without a frame: thin lines behind, small gray ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=QUIET, labelsize=8.5, length=3, color=FAINT)
    axes.grid(axis=grid, color=LIGHT, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def name_axes(axes: Any, title: str = "", x: str = "", y: str = "") -> None:
    """Texts around a panel."""
    if title:
        axes.set_title(title, fontsize=10.5, color=INK, loc="left", pad=7)
    axes.set_xlabel(x, fontsize=9, color=QUIET)
    axes.set_ylabel(y, fontsize=9, color=QUIET)


def log_seconds(axis: Any) -> None:
    """A logarithmic axis of seconds with a mark at 1, 2 and 5 of every power of ten, or at fewer, written out."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    wide = high > 300 * low
    axis.set_major_locator(FixedLocator(_TIMES) if wide else LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:g} s" if value < 120 else f"{value / 60:.2g} min")


def legend_above(figure: Any, axes: Any, **changes: Any) -> None:
    """The panel's marks, once for all panels, in a row below the heading."""
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    if not unique:
        return
    height = figure.get_size_inches()[1]
    figure.legend(
        unique.values(), unique.keys(), loc="upper left", bbox_to_anchor=(0.012, 1 - 0.68 / height),
        ncols=len(unique), frameon=False, fontsize=9, labelcolor=INK, columnspacing=1.6, handletextpad=0.5, **changes,
    )  # fmt: skip


def bars_with_spread(
    axes: Any, x: Any, values: Sequence[float], spread: Sequence[float], width: float, shade: str, label: str
) -> None:
    """Bars with their values, and whiskers where several seeds were run."""
    whiskers = spread if any(spread) else None
    style = {"elinewidth": 1, "ecolor": INK}
    bars = axes.bar(x, values, width, color=shade, label=label, yerr=whiskers, error_kw=style)
    texts = ["" if math.isnan(value) else f"{value:.1f}" for value in values]
    axes.bar_label(bars, texts, fontsize=7.5, color=QUIET, padding=2)


def from_near_zero(axes: Any, values: Sequence[float], room: float = 0.25) -> None:
    """Bars that begin below the smallest value rather than at zero, and say so: differences are small."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return
    low, high = min(known), max(known)
    margin = max(high - low, 0.02 * abs(high), 1e-9)
    bottom = max(0.0, low - margin * (1 + room))
    axes.set_ylim(bottom, high + margin * 0.45)


def family_of(label: str) -> str:
    """CML, BPA or APA, whichever the label names; DPCML alone counts as BPA.

    >>> family_of("DPCML+APA w/o DCRS, HarS"), family_of("CML+DD, UniS"), family_of("DPCML+HarS")
    ('APA', 'CML', 'BPA')
    """
    if "APA" in label:
        return "APA"
    return "BPA" if "BPA" in label or "DPCML" in label else "CML"
