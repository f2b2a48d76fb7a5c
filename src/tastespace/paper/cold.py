"""The cold-start table and the counts behind it: strangers are met by their content alone (DropoutNet)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tastespace.data.cold_start import SUFFIX
from tastespace.paper.counted import Counted
from tastespace.paper.experiment import Experiment, Figures, Line
from tastespace.paper.numbers import table
from tastespace.paper.runs import TOWN, Parts
from tastespace.paper.stored import PRETRAINED

SITUATIONS = ("warm", "cold user", "cold item")
TRAININGS = {"joint": "Joint-Training", "pretrained": "Pre-Training"}
METHODS = ("MGMF+DN", "CML+DN", "DPCML+DN")
_FIGURES = ("P@3", "R@3", "NDCG@3")
_SUBSET = "Subset 1"  # of the paper's two the one whose size is near to that of xing-2017
_COUNTS = ("users", "items", "ratings")
_TOWN = f"{TOWN}{SUFFIX}"


def label_of(method: str, training: str) -> str:
    """Label of the row of a method that is trained in one of the two ways.

    >>> label_of("CML+DN", "pretrained")
    'CML+DN, Pre-Training'
    """
    return f"{method}, {TRAININGS[training]}"


def fused_line(method: str, training: str) -> Line:
    """The row of a method that is trained in one of the two ways.

    >>> fused_line("CML+DN", "pretrained").method
    'cml+dn+pt'
    """
    if training == "pretrained":
        return Line(label_of(method, training), method.lower() + PRETRAINED, quick=False)
    return Line(label_of(method, training), method.lower(), {"training": training})


_BESIDE = "not in the paper"
_LINES = (
    Line("most popular", "popular", note=_BESIDE),
    Line("content neighbors", "contentknn", note=_BESIDE),
    # What the known would be given without content, by HarS, as the models with content on xing-2017.
    Line("CML+HarS", "cml+hars", note=f"{_BESIDE}, knows no strangers"),
    Line("DPCML+HarS", "bpa+hars", note=f"{_BESIDE}, knows no strangers"),
    *(fused_line(method, training) for training in TRAININGS for method in METHODS),
)


def _ours(result: Mapping[str, Any]) -> Figures:
    """Users and items of the training data are the warm ones; new items are ranked among new items."""
    metrics: Figures = result["metrics"]
    found = {f"warm {name}": metrics[name] for name in _FIGURES if name in metrics}
    return found | {name: value for name, value in metrics.items() if name.startswith("cold")}


def _theirs(dataset: str, line: Line) -> Figures:
    if dataset != "xing-2017-cold" or line.note:
        return {}
    method, _, training = line.label.partition(", ")
    rows = table("cold_start").filter(
        (pl.col("subset") == _SUBSET) & (pl.col("training") == training) & (pl.col("method") == method)
    )
    return {
        name: float(value) for name, value in rows.row(0, named=True).items() if name.startswith(("warm ", "cold "))
    }


def _counts(parts: Parts) -> dict[str, Figures]:
    strangers = parts.strangers
    pairs = sum(part.n_interactions for part in (parts.train, parts.valid, parts.test))
    found = {"warm": (parts.train.n_users, parts.train.n_items, pairs)}
    if strangers is not None and strangers.new_users is not None:
        found["cold users"] = (strangers.new_users.n_users, 0, strangers.new_users.n_interactions)
    if strangers is not None and strangers.new_items is not None:
        found["cold items"] = (0, strangers.new_items.n_items, strangers.new_items.n_interactions)
    return {
        label: {name: float(count) for name, count in zip(_COUNTS, counts, strict=True) if count}
        for label, counts in found.items()
    }


def _their_counts(dataset: str, label: str) -> Figures:
    if dataset != "xing-2017-cold":
        return {}
    rows = table("cold_datasets").filter((pl.col("subset") == _SUBSET) & (pl.col("part") == label))
    return {name: float(value) for name, value in rows.select(_COUNTS).row(0, named=True).items() if value is not None}


COLD = Experiment(
    "cold",
    "Cold start (the paper's figures: RecSys, subset 1, another sample than xing-2017)",
    _LINES,
    ("xing-2017-cold", "ml-1m-cold", "citeulike-a-cold"),
    theirs=_theirs,
    ours=_ours,
    shown=tuple(f"{situation} {figure}" for situation in SITUATIONS for figure in _FIGURES),
    town=_TOWN,
)

COLD_COUNTS = Counted(
    "cold-datasets",
    "Warm and cold parts, xing-2017 in place of RecSys (the paper's: its subset 1, another sample)",
    ("xing-2017-cold",),
    _counts,
    _their_counts,
    ("warm", "cold users", "cold items"),
    _COUNTS,
    _TOWN,
)
