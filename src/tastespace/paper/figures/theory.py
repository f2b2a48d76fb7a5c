"""The generalization claim (Corollary 1): more vectors fit the training data better; what that gives on new data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.paper.ablations import SAMPLERS, VECTORS
from tastespace.paper.cells import Finished
from tastespace.paper.figures.declaration import Material
from tastespace.paper.figures.style import BLUE, GREY, VERMILION, legend_above, name_axes, panels
from tastespace.paper.pairs import of_run

_METRIC = "MRR"
_LINES = {"train loss": GREY, f"validation {_METRIC}": BLUE, f"test {_METRIC}": VERMILION}


def draw_vectors(material: Material) -> Any:
    """Train loss, validation and test against C, a panel of each for three samplers; shades are one deviation."""
    runs = material.runs["vectors"]
    seeds = max(len(found) for found in runs.values())
    title = f"One to five vectors for everybody: {material.dataset}"
    subtitle = f"BPA; {seeds} seed{'s' if seeds > 1 else ''}, the shade is one standard deviation to either side"
    figure, axes = panels(title, subtitle, 6, size=(3.5, 2.0), columns=3, legend=True)
    for column, sampler in enumerate(SAMPLERS.values()):
        above, below = axes[column], axes[3 + column]
        for label, shade in _LINES.items():
            panel = above if "loss" in label else below
            values = [_of_runs(runs.get(f"{sampler}, C = {count}", []), label) for count in VECTORS]
            _band(panel, values, shade, label)
        name_axes(above, sampler, "", "train loss" if column == 0 else "")
        name_axes(below, "", "vectors per person, C", f"{_METRIC}, %" if column == 0 else "")
    handles = axes[3].get_legend_handles_labels()
    if handles[0]:
        legend_above(figure, axes[3])
    return figure


def _of_runs(runs: Sequence[Finished], figure: str) -> NDArray[np.float64]:
    return np.array([of_run(run, figure) for run in runs], dtype=np.float64)


def _band(axes: Any, values: list[NDArray[np.float64]], shade: str, label: str) -> None:
    known = [count for count, found in zip(VECTORS, values, strict=True) if len(found)]
    means = np.array([found.mean() for found in values if len(found)])
    spread = np.array([found.std(ddof=1) if len(found) > 1 else 0.0 for found in values if len(found)])
    axes.fill_between(known, means - spread, means + spread, color=shade, alpha=0.2, linewidth=0)
    axes.plot(known, means, color=shade, linewidth=2, marker="o", markersize=5, label=label)
    axes.set_xticks(VECTORS)
