"""The paper's tables of figures as small pieces of data: which methods, with which changes, on which data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tastespace.errors import ParameterError, nearest
from tastespace.paper.cells import ACCURACY, Cell
from tastespace.paper.numbers import ablation, published

Figures = dict[str, float]


@dataclass(frozen=True)
class Line:
    """A row of a table."""

    label: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """To the stored parameters of the method."""
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table: its rows, where they are measured, and what the paper says."""

    name: str
    title: str
    lines: tuple[Line, ...]
    datasets: tuple[str, ...]
    metrics: tuple[str, ...] = ACCURACY
    theirs: Callable[[str, Line], Figures] = lambda dataset, line: published(dataset, line.method)
    """The paper's figures of a row."""

    def cells(self, datasets: Sequence[str] = (), seeds: int = 1, quick: bool = False) -> list[Cell]:
        """Everything that the table needs, one data set after the other."""
        for dataset in datasets:
            if dataset not in self.datasets and dataset != "town":
                raise ParameterError(
                    f"{self.name} is not declared for {dataset!r}; it is for {', '.join(self.datasets)}."
                    + nearest(dataset, self.datasets)
                )
        lines = [line for line in self.lines if line.method in _QUICK] if quick else self.lines
        few = {"epochs": 2} if quick else {}
        return [
            Cell(
                dataset,
                line.method,
                seed,
                {**line.changes, **(few if line.method not in _WITHOUT_EPOCHS else {})},
                metrics=self.metrics,
                label=line.label,
            )
            for dataset in (datasets or self.datasets)
            for line in lines
            for seed in range(seeds)
        ]


_WITHOUT_EPOCHS = ("popular", "ease", "itemknn", "als", "gcn-accdiv")
_QUICK = ("popular", "ease", "itemknn", "bpr", "cml+unis", "cml+hars", "bpa+hars", "apa+dihars")

_OVERALL = (
    Line("most popular", "popular", note="not in the paper"),
    Line("EASE", "ease", note="not in the paper"),
    Line("itemKNN", "itemknn"),
    Line("BPR", "bpr"),
    Line("GMF", "gmf"),
    Line("MLP", "mlp"),
    Line("NeuMF", "neumf"),
    Line("M2F", "m2f"),
    Line("MGMF", "mgmf"),
    Line("Mult-VAE", "mult-vae"),
    Line("LightGCN", "lightgcn"),
    Line("CML+UniS", "cml+unis"),
    Line("CML+PopS", "cml+pops"),
    Line("CML+2stS", "cml+2sts"),
    Line("CML+HarS", "cml+hars"),
    Line("LRML", "lrml"),
    Line("TransCF", "transcf"),
    Line("AdaCML", "adacml"),
    Line("HLR", "hlr"),
    Line("BPA+UniS", "bpa+unis"),
    Line("APA+UniS", "apa+unis"),
    Line("BPA+HarS", "bpa+hars"),
    Line("APA+HarS", "apa+hars"),
    Line("BPA+DiHarS", "bpa+dihars"),
    Line("APA+DiHarS", "apa+dihars"),
)
_COMPETITORS = (
    Line("UniS+DD", "cml+unis+dd"),
    Line("UniS+PD", "cml+unis+pd"),
    Line("HarS+DD", "cml+hars+dd"),
    Line("HarS+PD", "cml+hars+pd"),
    Line("PRD", "prd"),
    Line("RecNet", "recnet"),
    Line("DP-RecNet", "dp-recnet"),
    Line("IDCF", "idcf"),
    Line("GCN-AccDiv", "gcn-accdiv"),
    Line("APA+DiHarS", "apa+dihars"),
)
_SPREAD = tuple(f"{name}@{k}" for name in ("MaxDiv", "ILS", "Coverage") for k in (3, 5, 10, 20))
_WEIGHTS = (0.0, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0)
_DCRS_FORMS: dict[str, dict[str, Any]] = {
    "w/o DCRS": {"dcrs": None},
    "DCRS-\\delta_1": {"max_diversity": None},
    "DCRS-\\delta_2": {"min_diversity": None},
    "DCRS": {},
}
_BOTH = ("steam-200k", "ml-1m")


def _spread_lines() -> tuple[Line, ...]:
    lines = []
    for sampler, title in (("unis", "UniS"), ("hars", "HarS"), ("dihars", "DiHarS")):
        lines.append(Line(f"CML, {title}", f"cml+{sampler}"))
        if sampler != "dihars":
            lines.append(Line(f"CML+DD, {title}", f"cml+{sampler}+dd"))
        lines.append(Line(f"DPCML w/o DCRS, {title}", f"bpa+{sampler}", {"dcrs": None}))
        lines.append(Line(f"DPCML+BPA, {title}", f"bpa+{sampler}"))
        lines.append(Line(f"DPCML+APA, {title}", f"apa+{sampler}"))
    return tuple(lines)


def _weights(sampler: str, table: str) -> Experiment:
    lines = tuple(Line(f"eta = {w:g}", f"bpa+{sampler}", {"diversity_weight": w}) for w in _WEIGHTS)
    return Experiment(
        f"eta-{sampler}",
        f"Weight of DCRS, BPA+{sampler}",
        lines,
        ("steam-200k",),
        theirs=lambda dataset, line: ablation(table, dataset).get(f"{line.changes['diversity_weight']:g}", {}),
    )


def _forms(sampler: str, table: str) -> Experiment:
    lines = tuple(Line(name, f"bpa+{sampler}", changes) for name, changes in _DCRS_FORMS.items())
    return Experiment(
        f"dcrs-{sampler}",
        f"Sides of DCRS, BPA+{sampler}",
        lines,
        ("steam-200k",),
        theirs=lambda dataset, line: ablation(table, dataset).get(line.label, {}),
    )


_JOINT = tuple(Line(name, name.lower()) for name in ("M2F", "M2F+DCRS", "GFJA", "GFJA+DCRS"))

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("results1", "Overall performance", _OVERALL, _BOTH),
        Experiment("results2", "Overall performance, MovieLens-10M", _OVERALL, ("ml-10m",)),
        Experiment("citeulike", "Overall performance, CiteULike-T", _OVERALL, ("citeulike-t",)),
        Experiment("recsys", "Overall performance, xing-2017 in place of RecSys-1/2", _OVERALL, ("xing-2017",)),
        Experiment("competitors", "Diversity-promoting competitors", _COMPETITORS, _BOTH),
        Experiment("diversity", "Diversity of the lists", _spread_lines(), _BOTH, _SPREAD),
        _weights("unis", "tab:sen_dpcml1"),
        _weights("hars", "tab:sen_dpcml2"),
        _forms("unis", "tab:DPCML1"),
        _forms("hars", "tab:DPCML2"),
        Experiment(
            "joint",
            "DCRS for joint accessibility",
            _JOINT,
            _BOTH,
            theirs=lambda dataset, line: ablation("tab:reg_for_MF", dataset).get(line.label, {}),
        ),
    )
}


def find_experiment(name: str) -> Experiment:
    """An experiment by name.

    >>> find_experiment("results1").datasets
    ('steam-200k', 'ml-1m')
    """
    if name not in EXPERIMENTS:
        raise ParameterError(f"no table {name!r}; there are {', '.join(EXPERIMENTS)}.{nearest(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def only(experiment: Experiment, methods: Sequence[str]) -> Experiment:
    """The same table with some of its rows."""
    lines = tuple(line for line in experiment.lines if line.method in methods)
    if not lines:
        known = ", ".join(dict.fromkeys(line.method for line in experiment.lines))
        raise ParameterError(f"{experiment.name} has none of {', '.join(methods)}; it has {known}.")
    return replace(experiment, lines=lines)
