"""Cold start in the paper's runs: which data sets have strangers, how models are fitted and measured there.

A data set called ``<name>-cold`` (such as ``xing-2017-cold``) is split into warm data and strangers as
`tastespace.data.cold_start` does; every method can be run on it. A method that learns from content is run so on the
plain
name too, where the data set has strangers: `tastespace run --dataset xing-2017 --method dpcml+dn`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from tastespace.data import cold_start
from tastespace.data.cold_start import SUFFIX, ColdStart
from tastespace.data.tables import to_polars
from tastespace.evaluation import Report
from tastespace.evaluation.cold_start import evaluate_cold
from tastespace.models import Recommender, registry

FIGURES = ("P@3", "R@3", "NDCG@3")
"""What the paper's table has of each situation."""
COLD_FIGURES = tuple(
    f"{situation} {figure}" for situation in ("cold user", "cold item", "cold item (all)") for figure in FIGURES
)
"""Cold items are ranked among the new ones, and (all) among the whole catalog."""


def dataset_for(dataset: str, model: str) -> str:
    """The data set on which a model of the registry is run: with strangers where it learns from content.

    >>> dataset_for("xing-2017", "dpcml+dn"), dataset_for("xing-2017", "dpcml"), dataset_for("anime", "dpcml+dn")
    ('xing-2017-cold', 'xing-2017', 'anime')
    """
    wanted = learns_from_content(registry()[model]) and dataset in cold_start.names()
    return f"{dataset}{SUFFIX}" if wanted else dataset


def learns_from_content(model: type[Recommender] | Recommender) -> bool:
    """Whether `fit` takes features of users and items."""
    return bool(getattr(model, "learns_from_content", False))


def load_strangers(dataset: str, split_seed: int) -> ColdStart | None:
    """The parts of ``<name>-cold``; None for other names."""
    name = dataset.removesuffix(SUFFIX)
    return cold_start.load(name, split_seed) if name != dataset and name in cold_start.names() else None


def fingerprints_of(strangers: ColdStart) -> list[str]:
    """Of the strangers, of all content, and of how it should be read."""
    found = [part.fingerprint() for part in (strangers.new_users, strangers.new_items) if part is not None]
    contents = (
        strangers.user_features, strangers.item_features, strangers.new_user_features, strangers.new_item_features,
    )  # fmt: skip
    digest = hashlib.sha256(repr(sorted(strangers.settings.items())).encode())
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


def content_settings(model: Recommender, strangers: ColdStart | None) -> dict[str, Any]:
    """Parameters that say how the model should read the content of this data, where nobody has set them."""
    if strangers is None:
        return {}
    chosen, plain = model.get_params(), type(model)().get_params() if learns_from_content(model) else {}
    return {
        name: value
        for name, value in strangers.settings.items()
        if name in plain and repr(chosen[name]) == repr(plain[name])
    }


def content_arguments(model: Recommender, strangers: ColdStart | None) -> dict[str, Any]:
    """What `fit` is given besides the interactions."""
    if strangers is None or not learns_from_content(model):
        return {}
    return {"user_features": strangers.user_features, "item_features": strangers.item_features}


def with_strangers(report: Report, model: Recommender, strangers: ColdStart, threads: int) -> Report:
    """The report of warm users with the figures of strangers beside it, where the model can meet them."""
    found: dict[str, Report] = {}
    for candidates, situation in (("new", "cold item"), ("all", "cold item (all)")):
        reports = evaluate_cold(
            model, strangers, candidates="new" if candidates == "new" else "all", warm=False, threads=threads
        )
        found |= {situation if name == "cold item" else name: one.in_percent() for name, one in reports.items()}
    metrics, per_user, n_users = dict(report.metrics), dict(report.per_user), dict(report.n_users)
    for situation, one in found.items():
        for figure in FIGURES:
            metrics[f"{situation} {figure}"] = one.metrics[figure]
            per_user[f"{situation} {figure}"] = one.per_user[figure]
            n_users[f"{situation} {figure}"] = one.n_users[figure]
    return replace(report, metrics=metrics, per_user=per_user, n_users=n_users)
