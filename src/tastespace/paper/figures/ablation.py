"""Figures in which one parameter of a method is varied, or one part of it left out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.paper.figures.base import (
    AMBER,
    BLUE,
    FAMILY,
    GRAY,
    LIGHT,
    SKY,
    VERMILION,
    FigureData,
    FigureSpec,
    bars_with_std,
    legend_above,
    name_axes,
    panels,
    zoom_to_values,
)
from tastespace.paper.runner import RunResult
from tastespace.paper.tables import (
    EXPERIMENTS,
    FAMILIES,
    FORMS,
    HARDEST,
    HIGH,
    LOW,
    N_DRAWN,
    NEGATIVES,
    NO_DCRS,
    SAMPLERS,
    SINGLE,
    STEAM,
    VECTORS,
    WEIGHTS,
    bounds,
)
from tastespace.paper.verdicts import value_of_run
from tastespace.plots.canvas import FAINT, INK, QUIET

_METRIC = "P@3"
_BOUND_METRICS = ("P@3", "MAP", "MRR")
_VECTORS_METRIC = "MRR"
_VECTORS_LINES = {"train loss": GRAY, f"validation {_VECTORS_METRIC}": BLUE, f"test {_VECTORS_METRIC}": VERMILION}


def draw_sampling(data: FigureData) -> Any:
    """U of UniS, S of HarS, and U of HarS at S = 40 and 50, for one and several vectors."""
    title = f"Number of negatives: {data.dataset}"
    figure, axes = panels(title, f"test {_METRIC} in percent", 4, size=(4.2, 2.7), columns=2, legend=True)
    series = (
        ("u-unis", "UniS: negatives per positive", "U", NEGATIVES, "{family}, U = {x}"),
        ("s-hars", "HarS: negatives, of which the hardest counts", "S", NEGATIVES, "{family}, S = {x}"),
        *(
            ("u-hars", f"HarS with S = {drawn}: how many of the hardest count", "U", HARDEST,
             f"{{family}}, S = {drawn}, U = {{x}}")
            for drawn in N_DRAWN
        ),
    )  # fmt: skip
    for panel, (table, heading, letter, values, label) in zip(axes, series, strict=True):
        for family in FAMILIES.values():
            points = [data.value(table, label.format(family=family, x=x), _METRIC) for x in values]
            _curve(panel, values, points, FAMILY[family], family)
        panel.set_xscale("log" if values is NEGATIVES else "linear")
        panel.set_xticks(values, [str(x) for x in values])
        panel.minorticks_off()
        name_axes(panel, heading, letter)
    legend_above(figure, axes[0])
    return figure


def _curve(axes: Any, x: Sequence[float], y: Sequence[float], color: str, label: str) -> None:
    """A line through the points that are there."""
    known = ~np.isnan(y)
    axes.plot(
        np.asarray(x)[known], np.asarray(y)[known],
        color=color, label=label, linewidth=2, marker="o", markersize=5, markeredgecolor="white", markeredgewidth=0.7,
    )  # fmt: skip


def draw_weights(data: FigureData) -> Any:
    """The weight eta of DCRS, ours and the paper's."""
    title = f"Weight of spread control (DCRS): {data.dataset}"
    subtitle = "BPA; full lines are ours, dotted ones the paper's, in percent"
    figure, axes = panels(title, subtitle, 4, size=(3.6, 2.4), columns=2, legend=True)
    places = range(len(WEIGHTS))
    samplers = (("UniS", "eta-unis"), ("HarS", "eta-hars"))
    for number, metric in enumerate((_METRIC, "MRR")):
        for column, (sampler, table) in enumerate(samplers):
            panel = axes[2 * number + column]
            labels = [f"eta = {weight:g}" for weight in WEIGHTS]
            ours = [data.value(table, label, metric) for label in labels]
            published = [data.published(table, label, metric) for label in labels]
            _curve(panel, places, ours, VERMILION, "ours")
            panel.plot(places, published, color=GRAY, linestyle=":", marker="o", markersize=3.5, label="the paper")
            panel.set_xticks(places, [f"{weight:g}" for weight in WEIGHTS])
            name_axes(panel, f"BPA+{sampler}, {metric}", "η" if number else "")
    legend_above(figure, axes[0])
    return figure


def draw_hard_sampling(data: FigureData) -> Any:
    """HarS, NDiHarS and DiHarS for one vector, several and adaptive numbers."""
    title = f"Forms of hard sampling: {data.dataset}"
    figure, axes = panels(title, "test metrics in percent; the axes do not begin at 0", 2, columns=2, legend=True)
    shades = {"HarS": SKY, "NDiHarS": BLUE, "DiHarS": VERMILION}
    models = {"CML": "one (CML)", "DPCML": "several (BPA)", "DPCML+APA": "adaptive (APA)"}
    for panel, metric in zip(axes, (_METRIC, "MRR"), strict=True):
        everything = []
        for number, (sampler, shade) in enumerate(shades.items()):
            labels = [f"{model}+{sampler}" for model in models]
            values = [data.value("hard-sampling", label, metric) for label in labels]
            std = [data.std("hard-sampling", label, metric) for label in labels]
            bars_with_std(panel, np.arange(3) + 0.27 * (number - 1), values, std, 0.25, shade, sampler)
            everything += values
        panel.set_xticks(range(3), list(models.values()))
        panel.set_xlim(-0.6, 2.6)
        zoom_to_values(panel, everything)
        name_axes(panel, metric)
    legend_above(figure, axes[0])
    return figure


def draw_forms(data: FigureData) -> Any:
    """DCRS against its two halves and against nothing, ours as bars and the paper's as marks."""
    shown = ("without", "only δ₁", "only δ₂", "both")
    shades = (GRAY, SKY, AMBER, VERMILION)
    metrics = ("P@3", "R@3", "NDCG@3", "MAP", "MRR")
    title = f"What spread control (DCRS) brings: {data.dataset}"
    subtitle = (
        "bars are ours, rings the paper's, in percent, axes not from 0; δ₁ keeps a user's vectors apart, δ₂ together"
    )
    figure, axes = panels(title, subtitle, 10, size=(1.95, 2.2), columns=5, legend=True)
    for row, (sampler, table) in enumerate((("UniS", "dcrs-unis"), ("HarS", "dcrs-hars"))):
        for column, metric in enumerate(metrics):
            panel = axes[5 * row + column]
            ours = [data.value(table, name, metric) for name in FORMS]
            published = [data.published(table, name, metric) for name in FORMS]
            for place, (value, shade, label) in enumerate(zip(ours, shades, shown, strict=True)):
                std = data.std(table, FORMS[place], metric)
                bars_with_std(panel, [place], [value], [std], 0.72, shade, label)
            panel.scatter(range(4), published, s=34, facecolors="white", edgecolors=INK, linewidths=1.2, zorder=4,
                          label="the paper")  # fmt: skip
            zoom_to_values(panel, [*ours, *published])
            panel.set_xticks([])
            name_axes(panel, f"BPA+{sampler}, {metric}")
    legend_above(figure, axes[0])
    return figure


def surface(table: str) -> Any:
    """A drawing function for one sampler's table."""
    return partial(_draw_bounds, table)


def _draw_bounds(table: str, data: FigureData) -> Any:
    """delta_1 against delta_2: where delta_1 > delta_2 there is no DCRS, (0, 0) is one vector.

    Those two are one run each: a line under the map says what they reach, and colors are relative to no DCRS.
    """
    title = f"Bounds of spread control (DCRS), BPA+{'UniS' if table.endswith('unis') else 'HarS'}: {data.dataset}"
    subtitle = "five vectors, η = 10; test metrics in percent; green is better than without DCRS, brown is worse"
    figure, axes = panels(title, subtitle, len(_BOUND_METRICS), size=(3.7, 3.1))
    for panel, metric in zip(axes, _BOUND_METRICS, strict=True):
        _bound_map(panel, data, table, metric)
    return figure


def _bound_map(axes: Any, data: FigureData, table: str, metric: str) -> None:
    without = data.value(table, NO_DCRS, metric)
    single = data.value(table, SINGLE, metric)
    values = np.array([[data.value(table, bounds(low, high), metric) for high in HIGH] for low in LOW])
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
            text = _text(value)
            style = {"fontweight": "bold"} if inside and value == best else {}
            shade = INK if inside else QUIET
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=shade, **style)
            if low == high == 0:
                axes.add_patch(_frame(column, row))
    axes.set_xticks(range(len(HIGH)), [f"{high:g}" for high in HIGH])
    axes.set_yticks(range(len(LOW)), [f"{low:g}" for low in LOW])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    notes = f"gray: δ₁ > δ₂, no DCRS, {_text(without)}; framed: one vector, {_text(single)}"
    name_axes(axes, metric, "δ₂, the upper bound\n" + notes, "δ₁, the lower bound")
    axes.tick_params(color=FAINT, length=0)


def _text(value: float) -> str:
    return "not run" if np.isnan(value) else f"{value:.1f}"


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor=QUIET, linewidth=1.2)


def draw_vectors(data: FigureData) -> Any:
    """Train loss, validation and test against C, a panel of each for three samplers; shades are one deviation."""
    runs = data.runs["vectors"]
    seeds = max(len(found) for found in runs.values())
    title = f"One to five vectors for every user: {data.dataset}"
    subtitle = f"BPA; {seeds} seed{'s' if seeds > 1 else ''}, the shade is one standard deviation to either side"
    figure, axes = panels(title, subtitle, 6, size=(3.5, 2.0), columns=3, legend=True)
    for column, sampler in enumerate(SAMPLERS.values()):
        above, below = axes[column], axes[3 + column]
        for label, shade in _VECTORS_LINES.items():
            panel = above if "loss" in label else below
            values = [_values_of(runs.get(f"{sampler}, C = {count}", []), label) for count in VECTORS]
            _band(panel, values, shade, label)
        name_axes(above, sampler, "", "train loss" if column == 0 else "")
        name_axes(below, "", "vectors per user, C", f"{_VECTORS_METRIC}, %" if column == 0 else "")
    handles = axes[3].get_legend_handles_labels()
    if handles[0]:
        legend_above(figure, axes[3])
    return figure


def _values_of(runs: Sequence[RunResult], metric: str) -> NDArray[np.float64]:
    return np.array([value_of_run(run, metric) for run in runs], dtype=np.float64)


def _band(axes: Any, values: list[NDArray[np.float64]], shade: str, label: str) -> None:
    known = [count for count, found in zip(VECTORS, values, strict=True) if len(found)]
    means = np.array([found.mean() for found in values if len(found)])
    std = np.array([found.std(ddof=1) if len(found) > 1 else 0.0 for found in values if len(found)])
    axes.fill_between(known, means - std, means + std, color=shade, alpha=0.2, linewidth=0)
    axes.plot(known, means, color=shade, linewidth=2, marker="o", markersize=5, label=label)
    axes.set_xticks(VECTORS)


ABLATION_FIGURES = (
    FigureSpec(
        "sampling",
        "U of UniS, S of HarS, U of HarS at S = 40 and 50",
        STEAM,
        draw_sampling,
        (EXPERIMENTS["u-unis"], EXPERIMENTS["s-hars"], EXPERIMENTS["u-hars"]),
        "The paper: several vectors do better than one whatever the number of negatives.",
    ),
    FigureSpec(
        "hard-sampling",
        "DiHarS, NDiHarS and HarS for CML and DPCML",
        EXPERIMENTS["hard-sampling"].datasets,
        draw_hard_sampling,
        (EXPERIMENTS["hard-sampling"],),
        "The paper: DiHarS does better than NDiHarS, and NDiHarS better than HarS.",
    ),
    FigureSpec(
        "vectors",
        "Train loss, validation and test against C",
        STEAM,
        draw_vectors,
        (EXPERIMENTS["vectors"],),
        "Corollary 1: with more vectors the training loss falls, and test items are ranked better as well.",
    ),
    *(
        FigureSpec(
            f"delta-{sampler}",
            f"Bounds of DCRS for BPA+{title}",
            STEAM,
            surface(f"delta-{sampler}"),
            (EXPERIMENTS[f"delta-{sampler}"],),
            "Where the lower bound exceeds the upper one there is no DCRS; (0, 0) is one vector. Five vectors and "
            "a weight of 10, as in the paper; no DCRS and one vector have the stored parameters otherwise.",
        )
        for sampler, title in (("unis", "UniS"), ("hars", "HarS"))
    ),
    FigureSpec(
        "eta",
        "Weight of DCRS",
        STEAM,
        draw_weights,
        (EXPERIMENTS["eta-unis"], EXPERIMENTS["eta-hars"]),
        "The paper: a weight of about 10 does best.",
    ),
    FigureSpec(
        "dcrs",
        "DCRS and its halves",
        STEAM,
        draw_forms,
        (EXPERIMENTS["dcrs-unis"], EXPERIMENTS["dcrs-hars"]),
        "The paper: each half helps, both together most.",
    ),
)
