"""Figures that compare methods: accuracy against diversity and time, by genre, for cold start, and timings."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.paper.data import load_parts
from tastespace.paper.figures.base import (
    BLUE,
    FAMILY,
    GRAY,
    MARKS,
    PINK,
    VERMILION,
    FigureData,
    FigureSpec,
    NothingToDrawError,
    bars_with_std,
    family_of,
    legend_above,
    log_seconds,
    name_axes,
    panels,
    quiet,
)
from tastespace.paper.statistics import minority_categories
from tastespace.paper.tables import (
    BOTH,
    COLD_METHODS,
    EXPERIMENTS,
    SITUATIONS,
    TRAININGS,
    label_of,
)
from tastespace.plots.canvas import (
    DPI,
    INK,
    QUIET,
    LabelLayout,
    deeper,
    marker_box,
    write,
)

_OVERALL = replace(EXPERIMENTS["results1"], datasets=(*BOTH, "ml-10m"))
"""The overall table for every data set with a figure of it."""
_REACH = (7.0, 9.0, 12.0, 18.0, 26.0)
_CML_BASED = (
    "CML+UniS", "CML+PopS", "CML+2stS", "CML+HarS", "LRML", "TransCF", "AdaCML", "HLR",
    "BPA+UniS", "APA+UniS", "BPA+HarS", "APA+HarS", "BPA+DiHarS", "APA+DiHarS",
)  # fmt: skip
_GENRE_METHODS = {
    "CML+UniS": ("CML", "UniS"),
    "BPA+UniS": ("BPA", "UniS"),
    "APA+UniS": ("APA", "UniS"),
    "CML+HarS": ("CML", "HarS"),
    "BPA+HarS": ("BPA", "HarS"),
    "APA+HarS": ("APA", "HarS"),
    "APA+DiHarS": ("APA", "DiHarS"),
}
_SHADES = dict(zip(COLD_METHODS, (GRAY, BLUE, VERMILION), strict=True))
_COLD_METRIC = "P@3"
_BASELINES = {"most popular": "most popular (dotted)", "content neighbors": "neighbors by content (dashed)"}
_TICKS = dict(zip(TRAININGS, ("joint training", "latent model first"), strict=True))
_NAMES = {"warm": "users and items with history", "cold user": "cold-start users", "cold item": "cold-start items"}


def draw_diversity_accuracy(data: FigureData) -> Any:
    """MaxDiv against precision at 3 and 5: up and to the right is better at both."""
    rows = data.rows("diversity")
    title = f"Diversity against accuracy: {data.dataset}"
    subtitle = "up is more accurate, to the right is more diverse; hollow: without spread control (DCRS)"
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


def draw_accuracy_time(data: FigureData) -> Any:
    """All methods of the paper's tables: test P@3 against the seconds that training took."""
    tables = [name for name in ("results1", "competitors") if name in data.runs]
    rows = {label: entry for name in tables for label, entry in data.rows(name).items()}
    runs = {label: found for name in tables for label, found in data.runs[name].items()}
    title = f"Accuracy against training time: {data.dataset}"
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


_GROUPS = {"one vector (CML)": FAMILY["CML"], "DPCML, BPA": FAMILY["BPA"], "DPCML, APA": FAMILY["APA"], "others": GRAY}


def _group(label: str) -> str:
    one = "one vector (CML)"  # re-ranked or not
    starts = {"CML": one, "UniS+": one, "HarS+": one, "BPA": "DPCML, BPA", "APA": "DPCML, APA"}
    for start, group in starts.items():
        if label.startswith(start):
            return group
    return "others"


def _front(axes: Any, points: list[tuple[float, float]]) -> NDArray[np.float64]:
    """A line along the methods that no other one beats in both; returns points along it, which names should avoid."""
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


def draw_training(data: FigureData) -> Any:
    """Seconds of each epoch, a box per method, the mean written next to it."""
    runs = data.runs.get("results1", {})
    seconds = {
        label: [row["seconds"] for run in runs[label] for row in run.result["history"]]
        for label in _CML_BASED
        if label in runs
    }
    seconds = {label: found for label, found in seconds.items() if found}
    if not seconds:
        raise NothingToDrawError(f"no method that learns by epochs has been run on {data.dataset}.")
    title = f"Training time: {data.dataset}"
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
        box.set(facecolor=FAMILY[family_of(label)] if named else GRAY, edgecolor=QUIET, alpha=0.85)
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


def draw_inference(data: FigureData) -> Any:
    """Seconds for the lists of all users, ours and the paper's."""
    rows = data.rows("inference")
    labels = list(rows)[::-1]
    title = f"Inference time: {data.dataset}"
    subtitle = "seconds for the lists of all users; ours on one processor thread, the paper's machine is another"
    figure, (axes,) = panels(title, subtitle, 1, size=(6.6, 0.5 + 0.45 * len(labels)), left=1.3, legend=True)
    quiet(axes, "x")
    axes.grid(axis="y", visible=False)
    places = np.arange(len(labels))
    known: list[float] = []
    for name, lift, shade in (("ours", 0.27, FAMILY["BPA"]), ("the paper", -0.27, GRAY)):
        sources = [rows[label].ours if name == "ours" else rows[label].published for label in labels]
        values = np.array([found.get("seconds for all", np.nan) for found in sources])
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


def draw_genres(data: FigureData) -> Any:
    """Test MAP over the items of each category, the most popular category first."""
    rows = data.rows("results1")
    methods = {label: style for label, style in _GENRE_METHODS.items() if label in rows}
    names, shares, small = minority_categories(load_parts(data.dataset).train)
    known = np.array([any(f"MAP[{name}]" in rows[label].ours for label in methods) for name in names], dtype=bool)
    names, shares, small = names[known], shares[known], small[known]
    if not len(names):
        raise NothingToDrawError(f"no metrics by category on {data.dataset}: its items have no genres.")
    title = f"MAP by genre: {data.dataset}"
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


def draw_cold(data: FigureData) -> Any:
    """P@3 for warm users and items, for cold-start users, and for cold-start items, for two ways of training."""
    run = data.rows("cold")
    trainings = [t for t in TRAININGS if any(label_of(method, t) in run for method in COLD_METHODS)]
    if not trainings:
        raise NothingToDrawError(f"no model with cold start has been run on {data.dataset}.")
    measured = {name for entry in run.values() for name in entry.ours}
    situations = [s for s in SITUATIONS if f"{s} {_COLD_METRIC}" in measured]
    title = f"Cold start by content: {data.dataset}"
    rings = any(entry.published for entry in run.values())
    subtitle = "test P@3 in percent" + ("; rings: the paper on another sample of the same data" if rings else "")
    lines = [text for name, text in _BASELINES.items() if name in run]
    subtitle += f"; lines: {' and '.join(lines)}" if lines else ""
    figure, axes = panels(title, subtitle, len(situations), size=(3.5, 2.8), legend=True)
    for panel, situation in zip(axes, situations, strict=True):
        metric = f"{situation} {_COLD_METRIC}"
        for method, style in (("most popular", ":"), ("content neighbors", "--")):
            value = data.value("cold", method, metric)
            if not np.isnan(value):
                panel.axhline(value, color=INK, linewidth=1, linestyle=style, zorder=2)
        for number, (method, shade) in enumerate(_SHADES.items()):
            labels = [label_of(method, training) for training in trainings]
            places = np.arange(len(trainings)) + 0.27 * (number - 1)
            values = [data.value("cold", label, metric) for label in labels]
            std = [data.std("cold", label, metric) for label in labels]
            bars_with_std(panel, places, values, std, 0.25, shade, method)
            published = [data.published("cold", label, metric) for label in labels]
            panel.scatter(places, published, s=34, facecolors="white", edgecolors=INK, linewidths=1.2, zorder=4)
        panel.set_xticks(range(len(trainings)), [_TICKS[training] for training in trainings])
        panel.set_xlim(-0.6, len(trainings) - 0.4)
        name_axes(panel, _NAMES[situation])
    legend_above(figure, axes[0])
    return figure


COMPARISON_FIGURES = (
    FigureSpec(
        "diversity-accuracy",
        "Diversity against accuracy",
        BOTH,
        draw_diversity_accuracy,
        (EXPERIMENTS["diversity"],),
        "Up is more accurate, to the right is more diverse.",
    ),
    FigureSpec(
        "genres",
        "MAP by genre, minority genres marked",
        ("ml-1m", "steam-200k", "ml-10m"),
        draw_genres,
        (_OVERALL,),
        "The paper, on MovieLens-10M: several vectors help the minority genres too.",
    ),
    FigureSpec(
        "training-time",
        "Training time of the CML-based methods",
        BOTH,
        draw_training,
        (EXPERIMENTS["results1"],),
        "Seconds per epoch on one thread. Other work on the machine lengthens them: large factors count, small "
        "differences do not.",
    ),
    FigureSpec(
        "inference-time",
        "Inference time",
        BOTH,
        draw_inference,
        (EXPERIMENTS["inference"],),
        "Seconds for the lists of all users on one thread. Other work on the machine lengthens them: large factors "
        "count, small differences do not.",
    ),
    FigureSpec(
        "cold",
        "Cold start",
        EXPERIMENTS["cold"].datasets,
        draw_cold,
        (EXPERIMENTS["cold"],),
        "The paper: DPCML does better for cold-start users and items than CML and MGMF.",
    ),
    FigureSpec(
        "accuracy-time",
        "Accuracy against training seconds, all methods",
        BOTH,
        draw_accuracy_time,
        (_OVERALL, EXPERIMENTS["competitors"]),
        "What longer training gains.",
    ),
)
