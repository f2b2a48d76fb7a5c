"""Experiments: methods, changes and data sets of a table, its finished rows, and the published values next to them.

The numbers that the paper published are in `published/*.csv`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from tastespace.errors import Argument, ParameterError, nearest
from tastespace.models import registry
from tastespace.paper.data import TOWN
from tastespace.paper.methods import BATCHES, find_method, stored_parameters
from tastespace.paper.runner import PlannedRun

Metrics = dict[str, float]
_QUICK_EPOCHS = 2
_FOLDER = Path(__file__).with_name("published")
_DATASETS = {
    "ml-1m": ("MovieLens-1M",),
    "ml-10m": ("MovieLens-10M",),
    "steam-200k": ("Steam-200k",),
    "citeulike-t": ("CiteULike", "CiteULike-T"),
    "xing-2017": ("RecSys-1",),  # another sample of the same data, of similar size
}
# Names in the tables of methods that have another name here.
_METHODS = {
    "cml+unis": "UniS",
    "cml+pops": "PopS",
    "cml+2sts": "2st",
    "cml+hars": "HarS",
    "mult-vae": "Multi-VAE",
    "gcn-accdiv": "GraphDiv",
    "cml+unis+dd": "UniS+DD",
    "cml+unis+pd": "UniS+PD",
    "cml+hars+dd": "HarS+DD",
    "cml+hars+pd": "HarS+PD",
}


@lru_cache
def published_table(name: str) -> pl.DataFrame:
    """One of the files: accuracy, diversity, ablation, efficiency, cold_start, datasets or cold_datasets.

    >>> published_table("datasets").columns[:3]
    ['dataset', 'domain', 'users']
    """
    return pl.read_csv(_FOLDER / f"{name}.csv", glob=False)


def published_accuracy(dataset: str, method: str) -> dict[str, float]:
    """The accuracy that the paper reports for a method, in percent; empty where it reports none.

    >>> published_accuracy("steam-200k", "apa+dihars")["P@3"]
    32.58
    """
    method = method.removesuffix(BATCHES)
    wanted = [name.lower() for name in (method, _METHODS.get(method, method))]  # the tables do not agree on all names
    found = published_table("accuracy").filter(
        pl.col("dataset").is_in(_DATASETS.get(dataset, ())) & pl.col("method").str.to_lowercase().is_in(wanted)
    )
    if found.is_empty():
        return {}
    return {name: float(value) for name, value in found.row(0, named=True).items() if _is_metric(name)}


def published_ablation(name: str, dataset: str) -> dict[str, dict[str, float]]:
    """One of the ablation tables: variant -> values."""
    rows = published_table("ablation").filter(
        (pl.col("table") == name) & pl.col("dataset").is_in(_DATASETS.get(dataset, ()))
    )
    found: dict[str, dict[str, float]] = {}
    for row in rows.iter_rows(named=True):
        values: dict[str, Any] = {key: float(value) for key, value in row.items() if _is_metric(key)}
        found[str(row["variant"])] = values
    return found


def published_diversity(dataset: str, label: str) -> dict[str, float]:
    """MaxDiv, ILS and Coverage of one row, called "method, sampler".

    >>> published_diversity("steam-200k", "CML+DD, HarS")["MaxDiv@3"]
    2.214
    """
    method, _, sampler = label.partition(", ")
    rows = published_table("diversity").filter(
        pl.col("dataset").is_in(_DATASETS.get(dataset, ()))
        & (pl.col("method") == method)
        & (pl.col("sampler") == sampler)
    )
    return {str(name): float(value) for name, value in rows.select("metric", "value").iter_rows()}


def published_efficiency(quantity: str, dataset: str) -> dict[str, float]:
    """Inference seconds or parameter size in MiB: method -> value.

    >>> published_efficiency("inference_seconds", "steam-200k")["DPCML+BPA"]
    0.13
    """
    rows = published_table("efficiency").filter(
        (pl.col("quantity") == quantity) & pl.col("dataset").is_in(_DATASETS.get(dataset, ()))
    )
    return {str(name): float(value) for name, value in rows.select("method", "value").iter_rows()}


def published_statistics(dataset: str) -> dict[str, float]:
    """Users, items, ratings and density in percent of a data set, as the paper counts them.

    >>> published_statistics("steam-200k")["users"]
    3757.0
    """
    rows = (
        published_table("datasets")
        .filter(pl.col("dataset").is_in(_DATASETS.get(dataset, ())))
        .drop("dataset", "domain")
    )
    return {name: float(value) for row in rows.iter_rows(named=True) for name, value in row.items()}


def _is_metric(name: str) -> bool:
    return "@" in name or name in ("MAP", "MRR")


@dataclass(frozen=True)
class RowSpec:
    """A row of a table, or a point of a figure."""

    label: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the stored parameters of the method."""
    note: str = ""
    like: str = ""
    """A method whose stored parameters are taken, where they should be those of another one."""
    quick: bool = True
    """True if ``--quick`` runs it."""

    def parameters(self, dataset: str, quick: bool = False) -> dict[str, Any]:
        """All changes to the stored parameters on a data set."""
        borrowed = stored_parameters(dataset, self.like) if self.like else {}
        model = registry()[find_method(self.method).model]
        known = model._parameter_names()
        few = {"epochs": _QUICK_EPOCHS} if quick and "epochs" in known else {}
        return {**{name: value for name, value in borrowed.items() if name in known}, **self.changes, **few}


def _accuracy(dataset: str, spec: RowSpec) -> Metrics:
    return published_accuracy(dataset, spec.method)


def _metrics(result: Mapping[str, Any]) -> Metrics:
    found: Metrics = result["metrics"]
    return found


@dataclass(frozen=True)
class Experiment:
    """A table: its rows, the data sets, and the published values."""

    name: str
    title: str
    row_specs: tuple[RowSpec, ...]
    datasets: tuple[str, ...]
    published: Callable[[str, RowSpec], Metrics] = _accuracy
    """The published values of a row."""
    ours: Callable[[Mapping[str, Any]], Metrics] = _metrics
    """Our values, from the result of a run."""
    shown: tuple[str, ...] = ("P@3", "R@3", "NDCG@3", "P@5", "R@5", "NDCG@5", "MAP", "MRR", "SumRR")
    """Metrics that the table shows."""
    seeds: int = 1
    """Seeds per row, unless another number is given."""
    splits: bool = False
    """True if the seed decides the split as well."""
    town: str = TOWN
    """Name of the synthetic data set here; a table about cold start needs it with cold-start users and items."""

    def planned_runs(
        self, datasets: Sequence[str] = (), seeds: int | None = None, quick: bool = False
    ) -> list[PlannedRun]:
        """Everything that the table needs, one data set after the other."""
        wanted = checked_datasets(self.name, datasets or self.datasets, self.datasets, self.town)
        if seeds is not None and seeds < 1:
            raise ParameterError(Argument("seeds", seeds), ": expected the number of seeds per row, 1 or more.")
        specs = [spec for spec in self.row_specs if spec.quick] if quick else self.row_specs
        return [
            PlannedRun(
                dataset,
                spec.method,
                seed=seed,
                split_seed=seed if self.splits else 0,
                parameters=spec.parameters(dataset, quick),
                label=spec.label,
                quick=quick,
            )
            for dataset in wanted
            for spec in specs
            for seed in range(self.seeds if seeds is None else seeds)
        ]


@dataclass(frozen=True)
class TableRow:
    """A row of a finished table."""

    dataset: str
    label: str
    method: str
    ours: Metrics
    """Mean over the seeds that were run."""
    std: Metrics
    """Standard deviation over them; empty for one."""
    published: Metrics
    """The paper's values."""
    seeds: int
    seconds: float
    """Seconds of one run."""
    state: str
    """complete, partial (some seeds are missing), cut, failed, no data, or missing."""
    problem: str = ""
    note: str = ""
    """A remark that is printed after its name."""
    trials: int = 0
    """Trials that chose its parameters on validation; 0 where no search is stored."""
    made: str = ""
    """Date of its runs, or the first and the last; empty for what is computed from the data alone."""
    version: str = ""
    """Version of tastespace that made its runs."""
    revision: str = ""
    """Version number of the kernels that made them, and the hash of their sources."""
    archived: bool = False
    """True if it comes from an archive of finished results and not from the result cache."""


def row_without_data(dataset: str, label: str, published: Metrics, problem: str) -> TableRow:
    """The row of a data set that is not on this machine."""
    return TableRow(dataset, label, "", {}, {}, published, 0, 0.0, "no data", problem)


def checked_datasets(name: str, datasets: Sequence[str], declared: Sequence[str], town: str = TOWN) -> list[str]:
    """The requested data sets; one that is not declared for a table or figure is refused, except the synthetic one.

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
    known = list(dict.fromkeys(spec.method for spec in experiment.row_specs))
    wanted = [method.lower() for method in methods]
    for method in wanted:
        if method not in known:
            raise ParameterError(
                f"{experiment.name} has no method {method!r}; it has {', '.join(known)}." + nearest(method, known)
            )
    return replace(experiment, row_specs=tuple(spec for spec in experiment.row_specs if spec.method in wanted))
