"""State of the server for those who run it: what `/admin` shows, and what `/metrics` says of all workers together."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from msgspec.structs import fields

from tastespace.answers.types import Stored
from tastespace.errors import TastespaceError
from tastespace.online.experiments import Arm
from tastespace.online.report import Report, report
from tastespace.recommend.interests import interest_names, interests_at
from tastespace.recommend.labels import Labeler
from tastespace.serve.endpoint_table import Answer, RequestContext
from tastespace.serve.errors import StoreError
from tastespace.serve.schemas import (
    ArmComparison,
    Experiment,
    ExperimentArm,
    Generation,
    ListCounts,
    NamedShare,
    OperationsAnswer,
    Population,
)
from tastespace.serve.served_model import ServedModel
from tastespace.serve.state import ServerState

_GENERATIONS = 20
_PEOPLE = 200  # whose tastes stand for all
_NAMES = 12
_REPORT_SECONDS = 60.0
_RATES = ("ctr", "ctr_low", "ctr_high", "conversion", "conversion_low", "conversion_high")
_reports: WeakKeyDictionary[ServerState, tuple[float, Experiment]] = WeakKeyDictionary()
_reporting = threading.Lock()


async def operations(call: RequestContext) -> OperationsAnswer:
    """Requests, latencies, models, what is recommended, tastes and problems, of all workers."""
    return await call.state.finish(_operations, call.state)


async def metrics(call: RequestContext) -> Answer:
    """Counts of all workers in the text format of Prometheus."""
    text = await call.state.finish(_metrics, call.state)
    return Answer(text.encode(), content_type=b"text/plain; version=0.0.4; charset=utf-8")


def _operations(state: ServerState) -> OperationsAnswer:
    counts, slot = state.counts, state.main.slot
    totals, alive = counts.everything()
    problems = state.all_problems()
    try:
        generations = _generations(state)
    except StoreError as problem:
        generations = []
        problems.append(f"generations of the model cannot be read: {problem.for_clients}")
    try:
        experiment = _experiment(state)
    except StoreError as problem:
        experiment = Experiment()
        problems.append(f"lists of the experiment cannot be read: {problem.for_clients}")
    starts = [own.get(("process_start_time_seconds",), 0.0) for own in alive.values()]
    stored, duplicates = (int(totals[f"tastespace_feedback_{one}_total",]) for one in ("stored", "duplicates"))
    return OperationsAnswer(
        model=slot.served.path.name,
        generation=slot.served.generation,
        started=min(starts, default=0.0),
        problems=list(dict.fromkeys(problems)),
        minutes=counts.minutes(),
        routes=counts.routes(),
        workers=counts.workers(),
        cache=ListCounts(*(int(totals[f"tastespace_{one}_total",]) for one in ("lists", "kept_lists"))),
        feedback=Stored(stored, duplicates),
        generations=generations,
        recommended=slot.shown.summary(),
        population=population(slot.served),
        experiment=experiment,
    )


def _generations(state: ServerState) -> list[Generation]:
    """The models that were served, the latest first."""
    found = state.store.served_models(state.main.server, _GENERATIONS)
    return [Generation(number, Path(path).name, time, said) for number, path, time, said in found]


def _experiment(state: ServerState) -> Experiment:
    """Rates of the arms and their comparison, as `tastespace report` has them; read at most once a minute."""
    arms = state.settings.arms
    if not arms:
        return Experiment()
    with _reporting:
        known = _reports.get(state)
        if known is None or time.monotonic() - known[0] > _REPORT_SECONDS:
            found = report(state.store)
            known = _reports[state] = (time.monotonic(), _as_experiment(arms, found))
        return known[1]


def _as_experiment(arms: Sequence[Arm], found: Report) -> Experiment:
    rates = {row["value"]: row for row in found.rates.filter(pl.col("by") == "arm").to_dicts()}
    shown = []
    for arm in arms:
        row = rates.get(arm.name, {})
        numbers = [row.get(name) for name in _RATES] if row.get("lists") else [None] * len(_RATES)
        shown.append(ExperimentArm(arm.name, arm.share, row.get("lists", 0), row.get("users", 0), *numbers))
    names = [one.name for one in fields(ArmComparison)]
    compared = [
        ArmComparison(*(row[name] for name in names))
        for row in found.comparisons.to_dicts()
        if row["first"] in rates and row["second"] in rates
    ]
    return Experiment(shown, compared)


def population(served: ServedModel) -> Population:
    """Number of tastes of people, and names of tastes, of a sample; computed once for a model.

    Empty for models without interests.
    """
    found: Population = served.kept.get_or_make("population", lambda: _population(served))
    return found


def _population(served: ServedModel) -> Population:
    model, n = served.model, served.train.n_users
    if served.index.interest_space is None:
        return Population(0)
    able = np.flatnonzero(model.can_serve(np.arange(n)))
    rows = able[np.linspace(0, len(able) - 1, min(_PEOPLE, len(able))).astype(np.int64)] if len(able) else able
    labeler = Labeler(served.train, None, model.popularity_source, hidden=served.display.hide_categories)
    tastes: Counter[int] = Counter()
    names: dict[str, float] = defaultdict(float)
    for row in rows.tolist():
        try:
            view = interests_at(model, row, "interests")
        except TastespaceError:  # such as somebody without a history
            continue
        tastes[int((view.weights > 0).sum())] += 1
        for one, share in zip(interest_names(view, labeler), view.weights.tolist(), strict=True):
            if one.label:
                names[one.label] += share
    people = sum(tastes.values())
    largest = sorted(names.items(), key=lambda pair: (-pair[1], pair[0]))[:_NAMES]
    return Population(
        people,
        [NamedShare(str(number), count / people) for number, count in sorted(tastes.items())],
        [NamedShare(name, share / people) for name, share in largest],
    )


def _metrics(state: ServerState) -> str:
    state.count_problems()
    recommended = state.main.slot.shown.summary()
    return state.counts.text(
        {
            "tastespace_catalog_items": ("Items of the catalog.", recommended.items),
            "tastespace_recommended_places": ("Places of lists since the model was opened.", recommended.places),
            "tastespace_recommended_coverage": ("Share of the items that were in a list.", recommended.coverage),
            "tastespace_recommended_top_share": ("Share of the places of the 1 % shown most.", recommended.top_share),
            "tastespace_recommended_gini": ("Concentration of the places on items, 0 to 1.", recommended.gini),
        }
    )
