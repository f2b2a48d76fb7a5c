"""MAP of each category, with the minority ones marked."""

from __future__ import annotations

from typing import Any

import numpy as np

from tastespace.paper.figures.declaration import Material, NothingToDrawError
from tastespace.paper.figures.style import FAMILY, MARKS, VERMILION, legend_above, name_axes, panels
from tastespace.paper.minorities import large_enough
from tastespace.paper.runs import load_parts
from tastespace.plots.canvas import INK, write

_METHODS = {
    "CML+UniS": ("CML", "UniS"),
    "BPA+UniS": ("BPA", "UniS"),
    "APA+UniS": ("APA", "UniS"),
    "CML+HarS": ("CML", "HarS"),
    "BPA+HarS": ("BPA", "HarS"),
    "APA+HarS": ("APA", "HarS"),
    "APA+DiHarS": ("APA", "DiHarS"),
}


def draw_genres(material: Material) -> Any:
    """Test MAP over the items of each category, the most popular category first."""
    rows = material.rows("results1")
    methods = {label: look for label, look in _METHODS.items() if label in rows}
    names, shares, small = large_enough(load_parts(material.dataset).train)
    known = np.array([any(f"MAP[{name}]" in rows[label].ours for label in methods) for name in names], dtype=bool)
    names, shares, small = names[known], shares[known], small[known]
    if not len(names):
        raise NothingToDrawError(f"no figures by category on {material.dataset}: its items have no genres.")
    title = f"MAP by genre: {material.dataset}"
    marked = "shaded are the minority ones" if small.any() else "none is a minority"
    subtitle = f"test MAP over the items of one genre, in percent; genres by popularity, {marked}"
    size = (max(5.0, 0.48 * len(names)), 3.4)
    figure, (axes,) = panels(title, subtitle, 1, size=size, legend=True, bottom=1.25)
    _shade(axes, small)
    places = np.arange(len(names))
    for number, (label, (family, sampler)) in enumerate(methods.items()):
        values = [rows[label].ours.get(f"MAP[{name}]", np.nan) for name in names]
        hollow = label.startswith("CML")
        axes.scatter(
            places + 0.11 * (number - (len(methods) - 1) / 2), values, s=42, marker=MARKS[sampler], zorder=3,
            facecolors="white" if hollow else FAMILY[family], edgecolors=FAMILY[family], linewidths=1.5, label=label,
        )  # fmt: skip
    texts = [f"{name}\n{100 * share:.1f} %" for name, share in zip(names, shares, strict=True)]
    axes.set_xticks(places, texts, rotation=55, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0, labelsize=8)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylim(bottom=0)
    name_axes(axes, "", "", "MAP, %")
    legend_above(figure, axes)
    return figure


def _shade(axes: Any, small: Any) -> None:
    """A band behind the minority categories."""
    for place in np.flatnonzero(small):
        axes.axvspan(place - 0.5, place + 0.5, color=VERMILION, alpha=0.08, linewidth=0)
    if small.any():
        first = int(np.flatnonzero(small)[0])
        write(axes, first - 0.4, 0.99, "minority genres", 8.5, INK, transform=axes.get_xaxis_transform(), va="top")
