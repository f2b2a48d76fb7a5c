"""Computed from the data without training: tables of data sets and model sizes, small categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.data import (
    Interactions,
)
from tastespace.data.attributes import item_categories
from tastespace.data.cold_start import SUFFIX
from tastespace.errors import DatasetError, ParameterError
from tastespace.models.dpcml.kernel import initial_gamma, interests_per_user
from tastespace.models.dpcml.model import CML, DPCML
from tastespace.paper.data import TOWN, Parts, load_parts
from tastespace.paper.experiments import (
    Metrics,
    TableRow,
    checked_datasets,
    published_efficiency,
    published_statistics,
    published_table,
    row_without_data,
)

_MIN_SHARE = 0.002  # share of the interactions below which a category has too few test items to say anything
_MINORITY = 0.5  # of an even share: fewer interactions than that, and a category counts as a minority
_MIB = 2**20
_FLOAT = 4  # bytes
_DIM, _VECTORS = 100, 3
_SIZED: dict[str, DPCML] = {
    "CML+HarS": CML(dim=_DIM, sampler="hars", **CML.paper_form()),
    "DPCML+HarS": DPCML(dim=_DIM, n_interests=_VECTORS, sampler="hars", **DPCML.paper_form()),
    "DPCML+DiHarS": DPCML(dim=_DIM, n_interests=_VECTORS, sampler="dihars", **DPCML.paper_form()),
}
PAPER_SUBSET = "Subset 1"  # the one of the paper's two whose size is near to that of xing-2017
_COUNTS = ("users", "items", "ratings")


@dataclass(frozen=True)
class StatisticsTable:
    """A table whose values are computed from the data; nothing is trained."""

    name: str
    title: str
    datasets: tuple[str, ...]
    ours: Callable[[Parts], dict[str, Metrics]]
    """Rows of a data set: label -> values."""
    published: Callable[[str, str], Metrics]
    """The paper's values by data set and label."""
    labels: tuple[str, ...]
    shown: tuple[str, ...]
    town: str = TOWN
    """Name of the synthetic data set here."""

    def rows(self, datasets: Sequence[str] = ()) -> list[TableRow]:
        """All rows; that of a data set that is not on this machine is marked."""
        found = []
        for dataset in checked_datasets(self.name, datasets or self.datasets, self.datasets, self.town):
            try:
                values = self.ours(load_parts(dataset))
            except DatasetError as problem:
                found += [
                    row_without_data(dataset, label, self.published(dataset, label), str(problem))
                    for label in self.labels
                ]
                continue
            found += [
                TableRow(dataset, label, "", ours, {}, self.published(dataset, label), 1, 0.0, "complete")
                for label, ours in values.items()
            ]
        return found


def parameter_mib(model: DPCML, train: Interactions) -> float:
    """Size of what a model learns, in MiB: a vector of `dim` floats for each interest and each item, and DiHarS'
    threshold for each train pair.

    >>> from tastespace import synthetic
    >>> train = synthetic.multi_interest(n_users=50, n_items=78, n_interactions=600, seed=0).interactions
    >>> parameter_mib(CML(dim=2048, sampler="hars"), train)
    1.0
    """
    counts = interests_per_user(train.user_counts, model.n_interests, model.min_interests, model.log_base)
    thresholds = len(initial_gamma(model, train))
    return _FLOAT * ((int(counts.sum()) + train.n_items) * model.dim + thresholds) / _MIB


def _sizes(parts: Parts) -> dict[str, Metrics]:
    return {label: {"MiB": parameter_mib(model, parts.train)} for label, model in _SIZED.items()}


def _published_size(dataset: str, label: str) -> Metrics:
    found = published_efficiency("parameter_size_mb_C3", dataset).get(label)
    return {} if found is None else {"MiB": found}


def _statistics(parts: Parts) -> dict[str, Metrics]:
    train = parts.train
    pairs = sum(part.n_interactions for part in (parts.train, parts.valid, parts.test))
    density = 100 * pairs / (train.n_users * train.n_items)
    values = {"users": train.n_users, "items": train.n_items, "ratings": pairs, "density %": density}
    return {"all": {name: float(value) for name, value in values.items()}}


def _cold_counts(parts: Parts) -> dict[str, Metrics]:
    cold = parts.cold_start
    pairs = sum(part.n_interactions for part in (parts.train, parts.valid, parts.test))
    found = {"warm": (parts.train.n_users, parts.train.n_items, pairs)}
    if cold is not None and cold.new_users is not None:
        found["cold users"] = (cold.new_users.n_users, 0, cold.new_users.n_interactions)
    if cold is not None and cold.new_items is not None:
        found["cold items"] = (0, cold.new_items.n_items, cold.new_items.n_interactions)
    return {
        label: {name: float(count) for name, count in zip(_COUNTS, counts, strict=True) if count}
        for label, counts in found.items()
    }


def _published_cold_counts(dataset: str, label: str) -> Metrics:
    if dataset != "xing-2017-cold":
        return {}
    rows = published_table("cold_datasets").filter((pl.col("subset") == PAPER_SUBSET) & (pl.col("part") == label))
    return {name: float(value) for name, value in rows.select(_COUNTS).row(0, named=True).items() if value is not None}


_MEASURED = ("ml-1m", "steam-200k", "citeulike-t", "ml-10m")

STATISTICS_TABLES = {
    table.name: table
    for table in (
        StatisticsTable(
            "datasets",
            "Data sets",
            (*_MEASURED, "xing-2017"),
            _statistics,
            lambda dataset, label: published_statistics(dataset),
            ("all",),
            ("users", "items", "ratings", "density %"),
        ),
        StatisticsTable(
            "size",
            f"Parameter size in MiB (d = {_DIM}, C = {_VECTORS})",
            _MEASURED,
            _sizes,
            _published_size,
            tuple(_SIZED),
            ("MiB",),
        ),
        StatisticsTable(
            "cold-datasets",
            "Warm and cold parts, xing-2017 in place of RecSys (the paper's: its subset 1, another sample)",
            ("xing-2017-cold",),
            _cold_counts,
            _published_cold_counts,
            ("warm", "cold users", "cold items"),
            _COUNTS,
            f"{TOWN}{SUFFIX}",
        ),
    )
}


def category_shares(data: Interactions) -> tuple[NDArray[np.str_], NDArray[np.float64]]:
    """Categories by their share of the interactions, the largest first; an item of two counts for both."""
    if data.item_attributes is None or "genres" not in data.item_attributes.columns:
        raise ParameterError("the items of this data set have no genres: choose a data set with genres.")
    genres = item_categories(data.item_attributes["genres"])
    counts = np.asarray(data.item_counts @ genres.membership)
    order = np.argsort(-counts, kind="stable")  # of equal ones the first by name
    return np.array(genres.names, dtype=str)[order], counts[order] / counts.sum()


def minority_categories(data: Interactions) -> tuple[NDArray[np.str_], NDArray[np.float64], NDArray[np.bool_]]:
    """Categories that are large enough to measure, their shares, and which of them are a minority."""
    names, shares = category_shares(data)
    names, shares = names[shares >= _MIN_SHARE], shares[shares >= _MIN_SHARE]
    return names, shares, shares < _MINORITY / max(1, len(names))
