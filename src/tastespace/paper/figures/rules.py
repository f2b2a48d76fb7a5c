"""Figures of the table `family`: the authors' rule of training next to our trainer."""

from __future__ import annotations

from typing import Any

import numpy as np

from tastespace.paper.figures.base import (
    FAMILY,
    GRAY,
    SKY,
    VERMILION,
    FigureData,
    FigureSpec,
    bars_with_std,
    family_of,
    legend_above,
    name_axes,
    panels,
    zoom_to_values,
)
from tastespace.paper.tables import EXPERIMENTS, RULES

_TABLE = EXPERIMENTS["family"]
_SHADES = {"their rule": SKY, "our trainer": VERMILION}


def _methods(data: FigureData) -> list[str]:
    """Methods that were run by one of the rules, in the order of the table."""
    known = data.rows(_TABLE.name)
    return list(dict.fromkeys(spec.label.partition(", ")[0] for spec in _TABLE.row_specs if spec.label in known))


def draw_rules(data: FigureData) -> Any:
    """The paper's values, those by their rule and those of our trainer, a panel for each metric."""
    title = f"The paper, its rule and our trainer: {data.dataset}"
    figure, axes = panels(title, "test metrics in percent; the axes do not begin at 0", 2, columns=2, legend=True)
    methods = _methods(data)
    for panel, metric in zip(axes, ("P@3", "MRR"), strict=True):
        columns = {"the paper": [data.published(_TABLE.name, f"{one}, their rule", metric) for one in methods]}
        columns |= {rule: [data.value(_TABLE.name, f"{one}, {rule}", metric) for one in methods] for rule in _SHADES}
        for number, (name, values) in enumerate(columns.items()):
            std = [data.std(_TABLE.name, f"{one}, {name}", metric) for one in methods]
            places = np.arange(len(methods)) + 0.27 * (number - 1)
            bars_with_std(panel, places, values, std, 0.25, _SHADES.get(name, GRAY), name)
        panel.set_xticks(range(len(methods)), methods)
        zoom_to_values(panel, [value for values in columns.values() for value in values])
        name_axes(panel, metric)
    legend_above(figure, axes[0])
    return figure


def draw_epochs(data: FigureData) -> Any:
    """The monitored validation metric over the epochs, a panel for each rule and a line for each method."""
    title = f"Validation over the epochs: {data.dataset}"
    figure, axes = panels(title, "P@3 on validation data in percent, first seed", 2, columns=2, legend=True)
    marks = {"UniS": ":", "HarS": "-", "DiHarS": "--"}
    for panel, rule in zip(axes, RULES.values(), strict=True):
        for method in _methods(data):
            for run in data.runs[_TABLE.name].get(f"{method}, {rule}", [])[:1]:
                rows = [row for row in run.result["history"] if "P@3" in row]
                panel.plot(
                    [row["epoch"] for row in rows], [row["P@3"] for row in rows], color=FAMILY[family_of(method)],
                    linestyle=marks[method.rpartition("+")[2]], linewidth=1.8, label=method,
                )  # fmt: skip
        name_axes(panel, rule, "epoch")
    legend_above(figure, axes[0])
    return figure


def draw_numbers(data: FigureData) -> Any:
    """Shares of the users by their adaptive number of vectors, and how many of them each method gives a user."""
    title = f"How many vectors users have: {data.dataset}"
    figure, axes = panels(title, "share of the users in percent, adaptive numbers (APA)", 2, columns=2)
    for panel, rule in zip(axes, RULES.values(), strict=True):
        method = next((one for one in _methods(data) if one.startswith("APA")), "")
        for run in data.runs[_TABLE.name].get(f"{method}, {rule}", [])[:1]:
            found = {int(number): n for number, n in run.result.get("interests", {}).items()}
            shares = [100 * n / max(1, sum(found.values())) for n in found.values()]
            panel.bar(list(found), shares, color=FAMILY["APA"], width=0.7)
            panel.set_xticks(list(found))
        name_axes(panel, f"{method}, {rule}", "vectors")
    return figure


RULE_FIGURES = (
    FigureSpec(
        "rules", "The paper, its rule and our trainer", _TABLE.datasets, draw_rules, (_TABLE,),
        "Their rule: batches of 256, one step of Adam of all vectors for each. Our trainer: a step of Adagrad for each "
        "positive, the last epochs averaged. Their ranges differ in the learning rate and the weight of DCRS only.",
    ),
    FigureSpec(
        "rules-epochs", "Validation over the epochs by both rules", _TABLE.datasets, draw_epochs, (_TABLE,),
        "By their rule validation still rises when the 100 epochs of the paper end.",
    ),
    FigureSpec(
        "rules-vectors", "Adaptive numbers of vectors", _TABLE.datasets, draw_numbers, (_TABLE,),
        "APA is searched only where at least a third of the users have another number than most.",
    ),
)  # fmt: skip
