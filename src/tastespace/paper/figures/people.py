"""Figures of the data alone: how diverse people are, how unequal the categories, what a long history says."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data import Interactions
from tastespace.data.concat import combine
from tastespace.evaluation.user_diversity import preference_diversity
from tastespace.paper.figures.declaration import Material
from tastespace.paper.figures.style import BLUE, VERMILION, name_axes, panels, quiet
from tastespace.paper.minorities import large_enough
from tastespace.paper.runs import load_parts
from tastespace.plots.canvas import INK, QUIET, write

_BINS = 10  # of history length, with the same number of people in each
_MOST = 20  # categories shown


def draw_diversity(material: Material) -> Any:
    """How many people are how diverse (Definition 1), and how many interactions each category has."""
    data = _everything(material.dataset)
    diversity = _diversity(data)
    names, shares, few = large_enough(data)
    title = f"People have several tastes, and some categories are small: {material.dataset}"
    figure, (left, right) = panels(
        title, "genres of the items that people chose", 2, size=(4.3, 3.9), columns=2, across=1.2
    )
    left.hist(diversity, bins=np.linspace(0, 1, 26), color=BLUE, edgecolor="white", linewidth=0.6)
    middle = float(np.median(diversity))
    left.axvline(middle, color=INK, linewidth=1.2, linestyle="--")
    left.set_ylim(top=1.12 * left.get_ylim()[1])
    write(left, middle + 0.015, left.get_ylim()[1] * 0.985, f"median {middle:.2f}", 9, va="top")
    name_axes(left, "Preference diversity", "share of a person's pairs of items without a common genre", "people")
    names, shares, small = names[:_MOST][::-1], shares[:_MOST][::-1], few[:_MOST][::-1]
    quiet(right, "x")
    right.grid(axis="y", visible=False)
    right.barh(names, 100 * shares, color=np.where(small, VERMILION, BLUE).tolist(), height=0.72)
    right.tick_params(axis="y", labelsize=8, length=0)
    name_axes(right, "Categories", "share of all interactions, %")
    if small.any():
        write(
            right,
            0.97,
            0.06,
            "minority: below half\nof an even share",
            9,
            VERMILION,
            transform=right.transAxes,
            ha="right",
        )
    return figure


def draw_history(material: Material) -> Any:
    """The longer a person's history, the more diverse: why APA gives more vectors to whom we know longer."""
    data = _everything(material.dataset)
    diversity, counts = _diversity(data, keep_all=True), data.user_counts
    known = ~np.isnan(diversity)
    diversity, counts = diversity[known], counts[known]
    title = f"Diversity against length of history: {material.dataset}"
    rank = _spearman(counts, diversity)
    figure, (axes,) = panels(title, f"one dot per person; rank correlation {rank:+.2f}", 1, size=(6.4, 3.9))
    axes.scatter(counts, diversity, s=5, color=BLUE, alpha=0.18, linewidths=0, rasterized=True)
    groups = [group for group in np.array_split(np.argsort(counts, kind="stable"), _BINS) if len(group)]
    x = np.array([np.median(counts[group]) for group in groups])
    low, middle, high = (
        np.array([np.quantile(diversity[group], share) for group in groups]) for share in (0.25, 0.5, 0.75)
    )
    axes.fill_between(x, low, high, color=VERMILION, alpha=0.18, linewidth=0, label="middle half")
    axes.plot(x, middle, color=VERMILION, marker="o", markersize=5, linewidth=2, label="median of a tenth of people")
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=9, labelcolor=QUIET, loc="lower right")
    name_axes(axes, "", "interactions", "preference diversity")
    return figure


def _everything(dataset: str) -> Interactions:
    parts = load_parts(dataset)
    return combine(combine(parts.train, parts.valid), parts.test)


def _diversity(data: Interactions, keep_all: bool = False) -> NDArray[np.float64]:
    found = preference_diversity(data, "genres", missing="ignore")
    return found if keep_all else found[~np.isnan(found)]


def _spearman(a: NDArray[Any], b: NDArray[Any]) -> float:
    from scipy import stats

    return float(stats.spearmanr(a, b).statistic)
