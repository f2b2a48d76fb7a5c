"""The two bounds of DCRS as maps of accuracy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tastespace.paper.ablations import HIGH, LOW, NO_DCRS, SINGLE, bounds
from tastespace.paper.figures.declaration import Material
from tastespace.paper.figures.style import LIGHT, name_axes, panels
from tastespace.plots.canvas import FAINT, INK, QUIET

_METRICS = ("P@3", "MAP", "MRR")


def surface(table: str) -> Any:
    """A drawing function for one sampler's table."""
    return partial(_draw, table)


def _draw(table: str, material: Material) -> Any:
    """delta_1 against delta_2: where delta_1 > delta_2 there is no DCRS, (0, 0) is one vector.

    Those two are one run each: a line under the map says what they reach, and colors are relative to no DCRS.
    """
    title = f"Bounds of diversity control, BPA+{'UniS' if table.endswith('unis') else 'HarS'}: {material.dataset}"
    subtitle = "five vectors, η = 10; test figures in percent; green is better than without DCRS, brown is worse"
    figure, axes = panels(title, subtitle, len(_METRICS), size=(3.7, 3.1))
    for panel, metric in zip(axes, _METRICS, strict=True):
        _map(panel, material, table, metric)
    return figure


def _map(axes: Any, material: Material, table: str, metric: str) -> None:
    without = material.value(table, NO_DCRS, metric)
    single = material.value(table, SINGLE, metric)
    values = np.array([[material.value(table, bounds(low, high), metric) for high in HIGH] for low in LOW])
    own = np.array([[low <= high and high > 0 for high in HIGH] for low in LOW])
    gap = np.where(own, values - without, np.nan)
    reach = max(float(np.nanmax(np.abs(gap))) if not np.isnan(gap).all() else 0.0, 0.1)
    axes.set_facecolor(LIGHT)
    axes.imshow(gap, cmap="BrBG", vmin=-1.4 * reach, vmax=1.4 * reach, aspect="auto", origin="lower")
    best = float(np.nanmax(np.where(own, values, np.nan))) if not np.isnan(gap).all() else np.nan
    for row, low in enumerate(LOW):
        for column, high in enumerate(HIGH):
            value = values[row, column]
            inside = own[row, column]
            text = _told(value)
            style = {"fontweight": "bold"} if inside and value == best else {}
            shade = INK if inside else QUIET
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=shade, **style)
            if low == high == 0:
                axes.add_patch(_frame(column, row))
    axes.set_xticks(range(len(HIGH)), [f"{high:g}" for high in HIGH])
    axes.set_yticks(range(len(LOW)), [f"{low:g}" for low in LOW])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    notes = f"gray: δ₁ > δ₂, no DCRS, {_told(without)}; framed: one vector, {_told(single)}"
    name_axes(axes, metric, "δ₂, the upper bound\n" + notes, "δ₁, the lower bound")
    axes.tick_params(color=FAINT, length=0)


def _told(value: float) -> str:
    return "not run" if np.isnan(value) else f"{value:.1f}"


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor=QUIET, linewidth=1.2)
