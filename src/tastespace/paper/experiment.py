"""What an experiment is: a small piece of data that says which methods run, with which changes, on which data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tastespace.errors import ParameterError, nearest
from tastespace.models import registry
from tastespace.paper.cells import Cell
from tastespace.paper.methods import find_method
from tastespace.paper.numbers import published
from tastespace.paper.runs import TOWN
from tastespace.paper.stored import stored_parameters

Figures = dict[str, float]
_QUICK_EPOCHS = 2


@dataclass(frozen=True)
class Line:
    """A row of a table, or a point of a figure."""

    label: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """To the stored parameters of the method."""
    note: str = ""
    like: str = ""
    """A method whose stored parameters are taken, where they should be those of another one."""
    quick: bool = True
    """Whether it is run by ``--quick``."""

    def parameters(self, dataset: str, quick: bool = False) -> dict[str, Any]:
        """All changes to the stored parameters on a data set."""
        borrowed = stored_parameters(dataset, self.like) if self.like else {}
        model = registry()[find_method(self.method).model]
        known = model._parameter_names()
        few = {"epochs": _QUICK_EPOCHS} if quick and "epochs" in known else {}
        return {**{name: value for name, value in borrowed.items() if name in known}, **self.changes, **few}


def _accuracy(dataset: str, line: Line) -> Figures:
    return published(dataset, line.method)


def _metrics(result: Mapping[str, Any]) -> Figures:
    found: Figures = result["metrics"]
    return found


@dataclass(frozen=True)
class Experiment:
    """A table: its rows, where they are measured, and what the paper says."""

    name: str
    title: str
    lines: tuple[Line, ...]
    datasets: tuple[str, ...]
    theirs: Callable[[str, Line], Figures] = _accuracy
    """The paper's figures of a row."""
    ours: Callable[[Mapping[str, Any]], Figures] = _metrics
    """Our figures, from what a run found."""
    shown: tuple[str, ...] = ("P@3", "NDCG@3", "P@5", "NDCG@5", "MAP", "MRR")
    """Which of them stand in the table."""
    seeds: int = 1
    """Runs of each row, unless the reader asks for another number."""
    town: str = TOWN
    """How the synthetic town is called here; a table about strangers needs a town with strangers."""

    def cells(self, datasets: Sequence[str] = (), seeds: int | None = None, quick: bool = False) -> list[Cell]:
        """Everything that the table needs, one data set after the other."""
        wanted = checked_datasets(self.name, datasets or self.datasets, self.datasets, self.town)
        if seeds is not None and seeds < 1:
            raise ParameterError(f"seeds={seeds}: expected how many runs of each cell, 1 or more.")
        lines = [line for line in self.lines if line.quick] if quick else self.lines
        return [
            Cell(
                dataset,
                line.method,
                seed=seed,
                parameters=line.parameters(dataset, quick),
                label=line.label,
                quick=quick,
            )
            for dataset in wanted
            for line in lines
            for seed in range(self.seeds if seeds is None else seeds)
        ]


def checked_datasets(name: str, datasets: Sequence[str], declared: Sequence[str], town: str = TOWN) -> list[str]:
    """The data sets asked for; one for which a table or figure is not declared is refused. The town is good for all.

    >>> checked_datasets("cold", ["town"], ["xing-2017-cold"], "town-cold")
    ['town-cold']
    """
    for dataset in datasets:
        if dataset not in (*declared, TOWN, town):
            raise ParameterError(
                f"{name} is not declared for {dataset!r}; it is for {', '.join(declared)}." + nearest(dataset, declared)
            )
    return [town if dataset == TOWN else dataset for dataset in datasets]


def only(experiment: Experiment, methods: Sequence[str]) -> Experiment:
    """The same table with some of its rows; case does not matter."""
    known = list(dict.fromkeys(line.method for line in experiment.lines))
    wanted = [method.lower() for method in methods]
    for method in wanted:
        if method not in known:
            raise ParameterError(
                f"{experiment.name} has no method {method!r}; it has {', '.join(known)}." + nearest(method, known)
            )
    return replace(experiment, lines=tuple(line for line in experiment.lines if line.method in wanted))
