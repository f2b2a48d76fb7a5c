"""How long training and answering take."""

from __future__ import annotations

from typing import Any

import numpy as np

from tastespace.paper.figures.declaration import Material, NothingToDrawError
from tastespace.paper.figures.style import FAMILY, GREY, family_of, legend_above, log_seconds, name_axes, panels, quiet
from tastespace.plots.canvas import INK, QUIET, write

_CML_BASED = (
    "CML+UniS", "CML+PopS", "CML+2stS", "CML+HarS", "LRML", "TransCF", "AdaCML", "HLR",
    "BPA+UniS", "APA+UniS", "BPA+HarS", "APA+HarS", "BPA+DiHarS", "APA+DiHarS",
)  # fmt: skip


def draw_training(material: Material) -> Any:
    """Seconds of each epoch, a box per method, the mean written beside it."""
    runs = material.runs.get("results1", {})
    seconds = {
        label: [row["seconds"] for run in runs[label] for row in run.result["history"]]
        for label in _CML_BASED
        if label in runs
    }
    seconds = {label: found for label, found in seconds.items() if found}
    if not seconds:
        raise NothingToDrawError(f"no method that learns by epochs has been run on {material.dataset}.")
    title = f"Training time: {material.dataset}"
    height = 0.6 + 0.3 * len(seconds)
    figure, (axes,) = panels(
        title, "seconds per epoch on one thread; numbers are means", 1, size=(6.6, height), left=1.3
    )
    quiet(axes, "x")
    axes.grid(axis="y", visible=False)
    labels = list(seconds)[::-1]
    boxes = axes.boxplot(
        [seconds[label] for label in labels],
        orientation="horizontal",
        patch_artist=True,
        widths=0.6,
        medianprops={"color": INK, "linewidth": 1.3},
        whiskerprops={"color": QUIET},
        capprops={"color": QUIET},
        flierprops={"marker": ".", "markersize": 4, "markerfacecolor": QUIET, "markeredgewidth": 0},
    )
    for label, box in zip(labels, boxes["boxes"], strict=True):
        named = label.startswith(("CML", "BPA", "APA"))
        box.set(facecolor=FAMILY[family_of(label)] if named else GREY, edgecolor=QUIET, alpha=0.85)
    axes.set_xscale("log")
    axes.set_yticks(range(1, len(labels) + 1), labels)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    log_seconds(axes.xaxis)
    right = axes.get_xlim()[1]
    axes.set_xlim(right=right * 1.6)
    for place, label in enumerate(labels, 1):
        write(axes, right * 1.5, place, f"{np.mean(seconds[label]):.2g} s", 8.5, QUIET, ha="right", va="center")
    name_axes(axes, "", "one epoch")
    return figure


def draw_inference(material: Material) -> Any:
    """Seconds for lists of everybody, ours and the paper's."""
    rows = material.rows("inference")
    labels = list(rows)[::-1]
    title = f"Inference time: {material.dataset}"
    subtitle = "seconds for lists of everybody; ours on one processor thread, the paper's machine is another"
    figure, (axes,) = panels(title, subtitle, 1, size=(6.6, 0.5 + 0.45 * len(labels)), left=1.3, legend=True)
    quiet(axes, "x")
    axes.grid(axis="y", visible=False)
    places = np.arange(len(labels))
    known: list[float] = []
    for name, lift, shade in (("ours", 0.27, FAMILY["BPA"]), ("the paper", -0.27, GREY)):
        figures = [rows[label].ours if name == "ours" else rows[label].theirs for label in labels]
        values = np.array([found.get("seconds for all", np.nan) for found in figures])
        axes.scatter(values, places, s=70, color=shade, label=name, zorder=3, edgecolors="white")
        for place, value in zip(places, values, strict=True):
            if not np.isnan(value):
                known.append(float(value))
                write(axes, value, place + lift, f"{value:.2g} s", 8, QUIET, ha="center", va="center")
    axes.set_yticks(places, labels)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set_xscale("log")
    axes.set_xlim(min(known) / 2, max(known) * 2)
    axes.set_ylim(-0.6, len(labels) - 0.4)
    log_seconds(axes.xaxis)
    name_axes(axes, "", "logarithmic")
    legend_above(figure, axes)
    return figure
