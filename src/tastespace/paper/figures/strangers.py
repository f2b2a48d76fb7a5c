"""Cold start as bars."""

from __future__ import annotations

from typing import Any

import numpy as np

from tastespace.paper.cold import METHODS, SITUATIONS, TRAININGS, label_of
from tastespace.paper.figures.declaration import Material
from tastespace.paper.figures.style import BLUE, GREY, VERMILION, bars_with_spread, legend_above, name_axes, panels
from tastespace.plots.canvas import INK

_SHADES = dict(zip(METHODS, (GREY, BLUE, VERMILION), strict=True))
_FIGURE = "P@3"
_TICKS = ("joint training", "latent model first")
_NAMES = {"warm": "known people and items", "cold user": "new people", "cold item": "new items"}


def draw_cold(material: Material) -> Any:
    """P@3 of people and items known from training, of new people, and of new items, for two ways of training."""
    title = f"Strangers met by their content: {material.dataset}"
    subtitle = "test P@3 in percent; rings: the paper on another sample of the same data"
    figure, axes = panels(title, subtitle, len(SITUATIONS), size=(3.5, 2.8), legend=True)
    for panel, situation in zip(axes, SITUATIONS, strict=True):
        metric = f"{situation} {_FIGURE}"
        for number, (method, shade) in enumerate(_SHADES.items()):
            labels = [label_of(method, training) for training in TRAININGS]
            places = np.arange(len(TRAININGS)) + 0.27 * (number - 1)
            values = [material.value("cold", label, metric) for label in labels]
            spread = [material.spread("cold", label, metric) for label in labels]
            bars_with_spread(panel, places, values, spread, 0.25, shade, method)
            theirs = [material.theirs("cold", label, metric) for label in labels]
            panel.scatter(places, theirs, s=34, facecolors="white", edgecolors=INK, linewidths=1.2, zorder=4)
        panel.set_xticks(range(len(_TICKS)), _TICKS)
        panel.set_xlim(-0.6, len(_TICKS) - 0.4)
        name_axes(panel, _NAMES[situation])
    legend_above(figure, axes[0])
    return figure
