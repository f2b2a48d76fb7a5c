"""Cold start as bars."""

from __future__ import annotations

from typing import Any

import numpy as np

from tastespace.paper.cold import METHODS, SITUATIONS, TRAININGS, label_of
from tastespace.paper.figures.declaration import Material, NothingToDrawError
from tastespace.paper.figures.style import BLUE, GREY, VERMILION, bars_with_spread, legend_above, name_axes, panels
from tastespace.plots.canvas import INK

_SHADES = dict(zip(METHODS, (GREY, BLUE, VERMILION), strict=True))
_FIGURE = "P@3"
_LINES = {"most popular": "most popular (dotted)", "content neighbors": "neighbors by content (dashed)"}
_TICKS = dict(zip(TRAININGS, ("joint training", "latent model first"), strict=True))
_NAMES = {"warm": "known people and items", "cold user": "new people", "cold item": "new items"}


def draw_cold(material: Material) -> Any:
    """P@3 of people and items known from training, of new people, and of new items, for two ways of training."""
    run = material.rows("cold")
    trainings = [t for t in TRAININGS if any(label_of(method, t) in run for method in METHODS)]
    if not trainings:
        raise NothingToDrawError(f"no model that meets strangers has been run on {material.dataset}.")
    measured = {name for entry in run.values() for name in entry.ours}
    situations = [s for s in SITUATIONS if f"{s} {_FIGURE}" in measured]
    title = f"Strangers met by their content: {material.dataset}"
    rings = any(entry.theirs for entry in run.values())
    subtitle = "test P@3 in percent" + ("; rings: the paper on another sample of the same data" if rings else "")
    lines = [text for name, text in _LINES.items() if name in run]
    subtitle += f"; lines: {' and '.join(lines)}" if lines else ""
    figure, axes = panels(title, subtitle, len(situations), size=(3.5, 2.8), legend=True)
    for panel, situation in zip(axes, situations, strict=True):
        metric = f"{situation} {_FIGURE}"
        for method, style in (("most popular", ":"), ("content neighbors", "--")):
            value = material.value("cold", method, metric)
            if not np.isnan(value):
                panel.axhline(value, color=INK, linewidth=1, linestyle=style, zorder=2)
        for number, (method, shade) in enumerate(_SHADES.items()):
            labels = [label_of(method, training) for training in trainings]
            places = np.arange(len(trainings)) + 0.27 * (number - 1)
            values = [material.value("cold", label, metric) for label in labels]
            spread = [material.spread("cold", label, metric) for label in labels]
            bars_with_spread(panel, places, values, spread, 0.25, shade, method)
            theirs = [material.theirs("cold", label, metric) for label in labels]
            panel.scatter(places, theirs, s=34, facecolors="white", edgecolors=INK, linewidths=1.2, zorder=4)
        panel.set_xticks(range(len(trainings)), [_TICKS[training] for training in trainings])
        panel.set_xlim(-0.6, len(trainings) - 0.4)
        name_axes(panel, _NAMES[situation])
    legend_above(figure, axes[0])
    return figure
