"""What most popular and EASE reach on the same held-out data, to show beside the blend."""

from __future__ import annotations

import logging
import math
import time
from typing import Any

import numpy as np

from tastespace.data.categories import category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import TastespaceError
from tastespace.evaluation import evaluate
from tastespace.evaluation.reference_models import reference_models
from tastespace.models import EASE, MostPopular, Recommender, SparseEASE
from tastespace.recipe.short_names import short_name
from tastespace.recipe.trials import Budget, Trial, sample_users

log = logging.getLogger(__name__)

_LABELS = {MostPopular: "most popular", EASE: "EASE", SparseEASE: "SparseEASE"}
_MEASURED_USERS = 4_000  # those that the blend is measured on, see `CandidateScores.of`


def reference_rows(
    done: list[Trial], train: Interactions, held_out: Interactions, budget: Budget, threads: int
) -> list[dict[str, Any]]:
    """A row for most popular and one for EASE (SparseEASE for large data): label, model, metrics, seconds.

    A model that is among the trials is not fitted again; one that does not fit into the budget is left out.
    """
    measured = sample_users(held_out, _MEASURED_USERS)
    rows = []
    for wanted in reference_models(train, threads):
        start = time.monotonic()
        model = _best(done, type(wanted))
        if model is None and not _fits(wanted, done, budget, train):
            model = _best(done, SparseEASE)
        try:
            row = _row((wanted if model is None else model), train, measured, threads)
        except (TastespaceError, MemoryError, np.linalg.LinAlgError) as problem:
            log.warning("%s was left out: %s", short_name(wanted), problem)
            continue
        rows.append({**row, "seconds": time.monotonic() - start})
    return rows


def _best(done: list[Trial], kind: type[Recommender]) -> Recommender | None:
    alike = [trial for trial in done if type(trial.model) is kind and trial.model.is_fitted]
    return max(alike, key=lambda one: one.objective).model if alike else None


def _fits(model: Recommender, done: list[Trial], budget: Budget, train: Interactions) -> bool:
    """Most popular takes no time worth counting; EASE takes what its closed form does on a slow machine."""
    if budget.seconds is None or isinstance(model, MostPopular):
        return True
    estimate = 10.0 * (min(train.n_users, train.n_items) / 6_000) ** 3
    return budget.elapsed + estimate + budget.reserve(done) < budget.seconds


def _row(model: Recommender, train: Interactions, measured: Interactions, threads: int) -> dict[str, Any]:
    if not model.is_fitted:
        model.fit(train, progress=False)
    names = {"NDCG@10": f"NDCG@{min(10, train.n_items)}", "R@20": f"R@{min(20, train.n_items)}"}
    if category_column(train.item_attributes) is not None:
        names["MinorityRecall@20"] = f"MinorityRecall@{min(20, train.n_items)}"
    found = evaluate(model, measured, seen=train, metrics=list(names.values()), threads=threads)
    figures = {label: float(found[name]) for label, name in names.items()}
    minority = figures.get("MinorityRecall@20", math.nan)
    figures_or_none = {**figures, "MinorityRecall@20": None if math.isnan(minority) else minority}
    return {"label": _LABELS[type(model)], "model": short_name(model), **figures_or_none}
