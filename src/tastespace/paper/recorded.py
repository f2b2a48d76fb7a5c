"""What a run writes down beside its test figures: how training went, what validation says, how fast answers come."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tastespace.data import Interactions
from tastespace.evaluation import evaluate
from tastespace.evaluation.metrics import METRICS
from tastespace.models import Recommender

VALIDATION = ("P@3", "MAP", "MRR")
_LISTS = 20  # items in each list whose making is timed
_REPEATS, _ENOUGH = 10, 3.0  # as often as the paper, but no longer than so many seconds


def possible_metrics(model: Recommender, data: Interactions, wanted: Sequence[str]) -> tuple[str, ...]:
    """The metrics to measure; one with a question mark is left out where the model or the data cannot give it.

    >>> from tastespace import synthetic
    >>> from tastespace.models import create
    >>> town = synthetic.multi_interest(n_users=40, n_items=60, n_interactions=500, seed=3).interactions
    >>> possible_metrics(create("popular").fit(town), town, ["P", "MaxDiv@3?", "CategoryMAP?"])
    ('P', 'CategoryMAP')
    """
    has_genres = data.item_attributes is not None and "genres" in data.item_attributes.columns
    there = {"": True, "vectors": model.item_space() is not None, "categories": has_genres}
    found = []
    for name in wanted:
        plain = name.removesuffix("?")
        if plain == name or there[METRICS[plain.partition("@")[0]].needs]:
            found.append(plain)
    return tuple(found)


def validation_figures(model: Recommender, train: Interactions, valid: Interactions, threads: int) -> dict[str, float]:
    """What the fitted model reaches on validation data, by the paper's protocol."""
    if not valid.n_interactions:
        return {}
    report = evaluate(model, valid, seen=train, protocol="paper", metrics=VALIDATION, threads=threads).in_percent()
    return report.metrics


def inference_seconds(model: Recommender, threads: int) -> float:
    """Seconds for lists of everybody, the mean of up to ten repeats."""
    taken: list[float] = []
    while len(taken) < _REPEATS and sum(taken) < _ENOUGH:
        start = time.perf_counter()
        model.recommend_indices(k=min(_LISTS, model.train_.n_items), threads=threads)
        taken.append(time.perf_counter() - start)
    return sum(taken) / len(taken)


def history(model: Recommender) -> list[dict[str, Any]]:
    """Loss, seconds and validation of each epoch; nothing for a model that does not learn by epochs."""
    rows: list[dict[str, Any]] = getattr(model, "history_", [])
    return [dict(row) for row in rows]
