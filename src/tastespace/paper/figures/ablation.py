"""Figures in which one parameter of a method is varied, or one part of it left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tastespace.paper.ablations import FAMILIES, FORMS, HARDEST, NEGATIVES, POOLS, WEIGHTS
from tastespace.paper.figures.declaration import Material
from tastespace.paper.figures.style import (
    AMBER,
    BLUE,
    FAMILY,
    GREY,
    SKY,
    VERMILION,
    bars_with_spread,
    from_near_zero,
    legend_above,
    name_axes,
    panels,
)
from tastespace.plots.canvas import INK

_METRIC = "P@3"


def draw_sampling(material: Material) -> Any:
    """U of UniS, S of HarS, and U of HarS at S = 40 and 50, for one and several vectors."""
    title = f"How many negatives: {material.dataset}"
    figure, axes = panels(title, f"test {_METRIC} in percent", 4, size=(4.2, 2.7), columns=2, legend=True)
    series = (
        ("u-unis", "UniS: negatives per positive", "U", NEGATIVES, "{family}, U = {x}"),
        ("s-hars", "HarS: candidates, of which the hardest counts", "S", NEGATIVES, "{family}, S = {x}"),
        *(
            ("u-hars", f"HarS with S = {pool}: how many of the hardest count", "U", HARDEST,
             f"{{family}}, S = {pool}, U = {{x}}")
            for pool in POOLS
        ),
    )  # fmt: skip
    for panel, (table, heading, letter, values, label) in zip(axes, series, strict=True):
        for family in FAMILIES.values():
            points = [material.value(table, label.format(family=family, x=x), _METRIC) for x in values]
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


def draw_weights(material: Material) -> Any:
    """The weight eta of DCRS, ours and the paper's."""
    title = f"Weight of diversity control: {material.dataset}"
    subtitle = "BPA; full lines are ours, dotted ones the paper's, in percent"
    figure, axes = panels(title, subtitle, 4, size=(3.6, 2.4), columns=2, legend=True)
    places = range(len(WEIGHTS))
    samplers = (("UniS", "eta-unis"), ("HarS", "eta-hars"))
    for number, metric in enumerate((_METRIC, "MRR")):
        for column, (sampler, table) in enumerate(samplers):
            panel = axes[2 * number + column]
            labels = [f"eta = {weight:g}" for weight in WEIGHTS]
            ours = [material.value(table, label, metric) for label in labels]
            theirs = [material.theirs(table, label, metric) for label in labels]
            _curve(panel, places, ours, VERMILION, "ours")
            panel.plot(places, theirs, color=GREY, linestyle=":", marker="o", markersize=3.5, label="the paper")
            panel.set_xticks(places, [f"{weight:g}" for weight in WEIGHTS])
            name_axes(panel, f"BPA+{sampler}, {metric}", "η" if number else "")
    legend_above(figure, axes[0])
    return figure


def draw_hard_sampling(material: Material) -> Any:
    """HarS, NDiHarS and DiHarS for one vector and for several."""
    title = f"Forms of hard sampling: {material.dataset}"
    figure, axes = panels(title, "test figures in percent; the axes do not begin at 0", 2, columns=2, legend=True)
    shades = {"HarS": SKY, "NDiHarS": BLUE, "DiHarS": VERMILION}
    for panel, metric in zip(axes, (_METRIC, "MRR"), strict=True):
        everything = []
        for number, (sampler, shade) in enumerate(shades.items()):
            labels = [f"{model}+{sampler}" for model in ("CML", "DPCML")]
            values = [material.value("hard-sampling", label, metric) for label in labels]
            spread = [material.spread("hard-sampling", label, metric) for label in labels]
            bars_with_spread(panel, np.arange(2) + 0.27 * (number - 1), values, spread, 0.25, shade, sampler)
            everything += values
        panel.set_xticks(range(2), ["one vector (CML)", "several (DPCML, BPA)"])
        panel.set_xlim(-0.6, 1.6)
        from_near_zero(panel, everything)
        name_axes(panel, metric)
    legend_above(figure, axes[0])
    return figure


def draw_forms(material: Material) -> Any:
    """DCRS against its two halves and against nothing, ours as bars and the paper's as marks."""
    shown = ("without", "only δ₁", "only δ₂", "both")
    shades = (GREY, SKY, AMBER, VERMILION)
    metrics = ("P@3", "R@3", "NDCG@3", "MAP", "MRR")
    title = f"What diversity control brings: {material.dataset}"
    subtitle = (
        "bars are ours, rings the paper's, in percent, axes not from 0; δ₁ keeps a person's vectors apart, δ₂ together"
    )
    figure, axes = panels(title, subtitle, 10, size=(1.95, 2.2), columns=5, legend=True)
    for row, (sampler, table) in enumerate((("UniS", "dcrs-unis"), ("HarS", "dcrs-hars"))):
        for column, metric in enumerate(metrics):
            panel = axes[5 * row + column]
            ours = [material.value(table, name, metric) for name in FORMS]
            theirs = [material.theirs(table, name, metric) for name in FORMS]
            for place, (value, shade, label) in enumerate(zip(ours, shades, shown, strict=True)):
                spread = material.spread(table, FORMS[place], metric)
                bars_with_spread(panel, [place], [value], [spread], 0.72, shade, label)
            panel.scatter(range(4), theirs, s=34, facecolors="white", edgecolors=INK, linewidths=1.2, zorder=4,
                          label="the paper")  # fmt: skip
            from_near_zero(panel, [*ours, *theirs])
            panel.set_xticks([])
            name_axes(panel, f"BPA+{sampler}, {metric}")
    legend_above(figure, axes[0])
    return figure
