"""Data of the experiments: named data sets, split, with cold-start users and items."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from tastespace.data import (
    Interactions,
    cold_start,
    datasets,
    split,
    synthetic,
)
from tastespace.data.cold_start import SUFFIX, ColdStart
from tastespace.data.reading.tables import to_polars
from tastespace.models import Recommender, registry

TOWN = "town"
"""Name of the synthetic data set, which needs no download."""


@dataclass(frozen=True)
class Parts:
    """A data set split for an experiment."""

    name: str
    train: Interactions
    valid: Interactions
    test: Interactions
    cold_start: ColdStart | None = None
    """Users and items without history, known by content alone, where the data set has any."""

    @cached_property
    def fingerprints(self) -> list[str]:
        """Hashes of all data that decides the metrics; the attributes of the items decide those by category."""
        own = [part.fingerprint() for part in (self.train, self.valid, self.test)]
        attributes = self.train.item_attributes
        if attributes is not None:
            own.append(hashlib.sha256(attributes.write_json().encode()).hexdigest())
        return own if self.cold_start is None else [*own, *cold_start_fingerprints(self.cold_start)]


AUTHORS_SEED = 1234
"""Seed of the authors' splits."""
_LISTS_OF_AUTHORS = ("steam-200k", "ml-1m", "citeulike-t")


@lru_cache(maxsize=6)
def load_parts(dataset: str, split_seed: int = 0) -> Parts:
    """The data, split. With ``split_seed=0`` as the authors did, where their lists are public; else by the same rule.

    Their matrices are published for Steam-200k and ML-100K. For Steam-200k the rule gives the same, and it is used for
    their lists of MovieLens-1M and CiteULike-T; another ``split_seed`` is added to their seed.
    """
    cold = _load_cold_start(dataset, split_seed)
    if cold is not None:
        return Parts(dataset, cold.train, cold.valid, cold.test, cold)
    if dataset == TOWN:
        town = synthetic.multi_interest(n_users=600, n_items=400, n_interactions=20_000, seed=0)
        parts = split.per_user(town.interactions, (0.6, 0.2, 0.2), seed=split_seed)
    elif dataset in _LISTS_OF_AUTHORS:
        parts = authors_split(dataset, AUTHORS_SEED + split_seed)
    elif dataset == "ml-100k":
        parts = list(datasets.load_split(dataset))
    else:
        parts = split.per_user(datasets.load(dataset), (0.6, 0.2, 0.2), seed=split_seed)
    train, valid, test = parts
    return Parts(dataset, train, valid, test)


def authors_split(dataset: str, seed: int = AUTHORS_SEED) -> list[Interactions]:
    """The split of the authors' list of a data set, by their rule."""
    data = datasets.load(dataset)
    numbers = None
    if dataset == "steam-200k":  # their numbers follow the first appearance of a title
        taken, first = np.unique(data.indices, return_index=True)
        numbers = np.full(data.n_items, data.n_interactions)
        numbers[taken] = first
    return split.authors(data, (0.6, 0.2, 0.2), seed=seed, item_numbers=numbers)


def _load_cold_start(dataset: str, split_seed: int) -> ColdStart | None:
    """The parts of ``<name>-cold``; None for other names."""
    name = dataset.removesuffix(SUFFIX)
    return cold_start.load(name, split_seed) if name != dataset and name in cold_start.names() else None


def dataset_for(dataset: str, model: str) -> str:
    """The data set on which a model of the registry is run: ``<name>-cold`` where it learns from content.

    >>> dataset_for("xing-2017", "dpcml+dn"), dataset_for("xing-2017", "dpcml"), dataset_for("anime", "dpcml+dn")
    ('xing-2017-cold', 'xing-2017', 'anime')
    """
    wanted = learns_from_content(registry()[model]) and dataset in cold_start.names()
    return f"{dataset}{SUFFIX}" if wanted else dataset


def learns_from_content(model: type[Recommender] | Recommender) -> bool:
    """Return true if `fit` takes features of users and items."""
    return bool(getattr(model, "learns_from_content", False))


def cold_start_fingerprints(parts: ColdStart) -> list[str]:
    """Hashes of the cold-start users and items, of all content, and of the settings for reading it."""
    found = [part.fingerprint() for part in (parts.new_users, parts.new_items) if part is not None]
    contents = (parts.user_features, parts.item_features, parts.new_user_features, parts.new_item_features)
    digest = hashlib.sha256(repr(sorted(parts.settings.items())).encode())
    for content in contents:
        if content is None:
            digest.update(b"none")
        elif sp.issparse(content):
            matrix = sp.csr_array(content)
            for array in (matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape)):
                digest.update(np.ascontiguousarray(array).data)
        else:
            digest.update(to_polars(content)[0].write_ndjson().encode())
    return [*found, digest.hexdigest()[:16]]


def content_settings(model: Recommender, parts: ColdStart | None) -> dict[str, Any]:
    """Return the parameters for reading the content of this data that the caller has not set."""
    if parts is None:
        return {}
    chosen, defaults = model.get_params(), type(model)().get_params() if learns_from_content(model) else {}
    return {
        name: value
        for name, value in parts.settings.items()
        if name in defaults and repr(chosen[name]) == repr(defaults[name])
    }


def content_arguments(model: Recommender, parts: ColdStart | None) -> dict[str, Any]:
    """Return the arguments of `fit` besides the interactions."""
    if parts is None or not learns_from_content(model):
        return {}
    return {"user_features": parts.user_features, "item_features": parts.item_features}
