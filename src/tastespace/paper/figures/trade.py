"""Accuracy against something that one would also like: diversity, and time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.paper.figures.declaration import Material
from tastespace.paper.figures.style import (
    FAMILY,
    GREY,
    MARKS,
    PINK,
    family_of,
    legend_above,
    log_seconds,
    name_axes,
    panels,
    quiet,
)
from tastespace.plots.canvas import DPI, INK, QUIET, deeper
from tastespace.plots.label_layout import LabelLayout, marker_box

_REACH = (7.0, 9.0, 12.0, 18.0, 26.0)


def draw_diversity_accuracy(material: Material) -> Any:
    """MaxDiv against precision at 3 and 5: up and to the right is better at both."""
    rows = material.rows("diversity")
    title = f"Diversity against accuracy: {material.dataset}"
    subtitle = "up is more accurate, to the right is more diverse; hollow: without diversity control"
    figure, axes = panels(title, subtitle, 2, size=(4.6, 3.9), columns=2, legend=True)
    for panel, k in zip(axes, (3, 5), strict=True):
        quiet(panel, "both")
        for label, entry in rows.items():
            method, _, sampler = label.partition(", ")
            shade = PINK if method == "CML+DD" else FAMILY[family_of(method)]
            x, y = entry.ours.get(f"MaxDiv@{k}", np.nan), entry.ours.get(f"P@{k}", np.nan)
            hollow = "w/o" in method
            panel.scatter(
                x, y, s=75, marker=MARKS[sampler], zorder=3, linewidths=1.7,
                facecolors="white" if hollow else shade, edgecolors=shade,
            )  # fmt: skip
        name_axes(panel, f"lists of {k}", f"MaxDiv@{k}", f"P@{k}, %")
    _legend(figure, axes[0])
    return figure


def _legend(figure: Any, axes: Any) -> None:
    """Colors for methods and shapes for samplers, drawn from empty marks."""
    names = {"CML": FAMILY["CML"], "CML+DD": PINK, "DPCML+BPA": FAMILY["BPA"], "DPCML+APA": FAMILY["APA"]}
    for name, shade in names.items():
        axes.scatter([], [], s=60, color=shade, label=name)
    for name in ("UniS", "HarS", "DiHarS"):
        axes.scatter([], [], s=55, marker=MARKS[name], facecolors="white", edgecolors=INK, label=name)
    legend_above(figure, axes)


def draw_accuracy_time(material: Material) -> Any:
    """All methods of the paper's tables: test P@3 against the seconds that training took."""
    tables = [name for name in ("results1", "competitors") if name in material.runs]
    rows = {label: entry for name in tables for label, entry in material.rows(name).items()}
    runs = {label: found for name in tables for label, found in material.runs[name].items()}
    title = f"Accuracy against training time: {material.dataset}"
    subtitle = "one thread; up is more accurate, to the left is faster; dotted: nothing is better and faster at once"
    figure, (axes,) = panels(title, subtitle, 1, size=(8.8, 5.6), legend=True)
    quiet(axes, "both")
    points = {}
    for label, entry in rows.items():
        seconds = float(np.mean([run.result["train_seconds"] for run in runs[label]]))
        points[label] = max(seconds, 1e-2), entry.ours["P@3"]
        group = _group(label)
        axes.scatter(*points[label], s=70, color=_GROUPS[group], edgecolors="white", linewidths=0.8, zorder=3)
    for group, shade in _GROUPS.items():
        if any(_group(label) == group for label in rows):
            axes.scatter([], [], s=60, color=shade, label=group)
    axes.set_xscale("log")
    axes.margins(x=0.09, y=0.07)
    log_seconds(axes.xaxis)
    name_axes(axes, "", "training, with validation", "test P@3, %")
    _names(axes, points, _front(axes, list(points.values())))
    legend_above(figure, axes)
    return figure


_GROUPS = {"one vector (CML)": FAMILY["CML"], "DPCML, BPA": FAMILY["BPA"], "DPCML, APA": FAMILY["APA"], "others": GREY}


def _group(label: str) -> str:
    one = "one vector (CML)"  # re-ranked or not
    starts = {"CML": one, "UniS+": one, "HarS+": one, "BPA": "DPCML, BPA", "APA": "DPCML, APA"}
    for start, group in starts.items():
        if label.startswith(start):
            return group
    return "others"


def _front(axes: Any, points: list[tuple[float, float]]) -> NDArray[np.float64]:
    """A line along the methods that no other one beats in both; gives points along it, which names had better avoid."""
    best, steps = -np.inf, []
    for seconds, value in sorted(points):
        if value > best:
            best = value
            steps.append((seconds, value))
    x, y = zip(*steps, strict=True)
    axes.plot(x, y, color=INK, linewidth=1, linestyle=":", drawstyle="steps-post", zorder=2)
    corners = axes.transData.transform(np.stack([np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]], axis=1))
    along = [np.linspace(a, b, 40) for a, b in itertools.pairwise(corners)]
    return np.concatenate(along) if along else corners


def _names(axes: Any, points: dict[str, tuple[float, float]], front: NDArray[np.float64]) -> None:
    """In the color of the dot, so that neighbors are not taken for each other."""
    screen = axes.transData.transform
    marks = [marker_box(screen(point), 70) for point in points.values()]
    page = axes.get_window_extent()
    inside = (page.x0 + 2, page.y0, page.x1 + 0.25 * DPI, page.y1)
    placer = LabelLayout(axes, inside, marks, np.concatenate([[screen(point) for point in points.values()], front]))
    for label, point in sorted(points.items(), key=lambda found: -found[1][1]):
        shade = QUIET if _group(label) == "others" else deeper(_GROUPS[_group(label)])
        placer.write(screen(point), label, 8, shade, _REACH)
