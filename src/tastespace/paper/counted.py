"""Tables that need no training: what the data sets hold, and how large the models are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tastespace.data import Interactions
from tastespace.errors import DatasetError
from tastespace.models.dpcml import CML, DPCML
from tastespace.paper.entries import Entry, missing
from tastespace.paper.experiment import Figures, checked_datasets
from tastespace.paper.numbers import efficiency, statistics
from tastespace.paper.runs import TOWN, Parts, load_parts
from tastespace.training.n_vectors import interests_per_user

_MIB = 2**20
_FLOAT = 4  # bytes
_DIM, _VECTORS = 100, 3
_SIZED: dict[str, DPCML] = {
    "CML+HarS": CML(dim=_DIM, sampler="hars"),
    "DPCML+HarS": DPCML(dim=_DIM, n_interests=_VECTORS, sampler="hars"),
    "DPCML+DiHarS": DPCML(dim=_DIM, n_interests=_VECTORS, sampler="dihars"),
}


@dataclass(frozen=True)
class Counted:
    """A table whose figures are counted from a data set."""

    name: str
    title: str
    datasets: tuple[str, ...]
    ours: Callable[[Parts], dict[str, Figures]]
    """Rows of a data set: label -> figures."""
    theirs: Callable[[str, str], Figures]
    """The paper's figures by data set and label."""
    labels: tuple[str, ...]
    shown: tuple[str, ...]
    town: str = TOWN
    """How the synthetic town is called here."""

    def entries(self, datasets: Sequence[str] = ()) -> list[Entry]:
        """All rows; a data set that is not here is a marked gap."""
        found = []
        for dataset in checked_datasets(self.name, datasets or self.datasets, self.datasets, self.town):
            try:
                figures = self.ours(load_parts(dataset))
            except DatasetError as problem:
                found += [missing(dataset, label, self.theirs(dataset, label), str(problem)) for label in self.labels]
                continue
            found += [
                Entry(dataset, label, "", ours, {}, self.theirs(dataset, label), 1, 0.0, "complete")
                for label, ours in figures.items()
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
    thresholds = len(model._initial_gamma(train))
    return _FLOAT * ((int(counts.sum()) + train.n_items) * model.dim + thresholds) / _MIB


def _sizes(parts: Parts) -> dict[str, Figures]:
    return {label: {"MiB": parameter_mib(model, parts.train)} for label, model in _SIZED.items()}


def _their_size(dataset: str, label: str) -> Figures:
    found = efficiency("parameter_size_mb_C3", dataset).get(label)
    return {} if found is None else {"MiB": found}


def _statistics(parts: Parts) -> dict[str, Figures]:
    train = parts.train
    pairs = sum(part.n_interactions for part in (parts.train, parts.valid, parts.test))
    density = 100 * pairs / (train.n_users * train.n_items)
    figures = {"users": train.n_users, "items": train.n_items, "ratings": pairs, "density %": density}
    return {"all": {name: float(value) for name, value in figures.items()}}


_MEASURED = ("ml-1m", "steam-200k", "citeulike-t", "ml-10m")

COUNTED = {
    table.name: table
    for table in (
        Counted(
            "datasets",
            "Data sets",
            (*_MEASURED, "xing-2017"),
            _statistics,
            lambda dataset, label: statistics(dataset),
            ("all",),
            ("users", "items", "ratings", "density %"),
        ),
        Counted(
            "size",
            f"Parameter size in MiB (d = {_DIM}, C = {_VECTORS})",
            _MEASURED,
            _sizes,
            _their_size,
            tuple(_SIZED),
            ("MiB",),
        ),
    )
}
