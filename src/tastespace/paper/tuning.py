"""Search for parameters of the paper's methods on named data sets, on validation data only.

The search itself is `tastespace.tuning.search`, as for `tastespace.tune`: seeded, resumable, within a budget. This
module adds the search spaces (ranges of this library and the paper's own grids), the paper's split and protocol, and
the stored parameters to start from.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tastespace.data.cold_start import inner_split as inner_split
from tastespace.errors import Argument, ParameterError
from tastespace.evaluation import evaluate
from tastespace.evaluation.cold_start import evaluate_cold
from tastespace.models import Recommender, registry
from tastespace.paper.data import (
    Parts,
    dataset_for,
    learns_from_content,
    load_parts,
)
from tastespace.paper.methods import (
    BATCHES,
    PRETRAINED,
    SELECTION,
    Method,
    find_method,
    stored_entries,
    stored_parameters,
)
from tastespace.paper.runs import fit, known_parameters, published_parameters
from tastespace.recommend.rerank.reranked import Reranked
from tastespace.tuning import spaces
from tastespace.tuning.journal import TrialJournal
from tastespace.tuning.proposals import make_proposals
from tastespace.tuning.search import run_search
from tastespace.tuning.spaces import (
    Space,
    extend,
    names_in_space,
    pack,
    unpack,
)

log = logging.getLogger(__name__)

# The grids of the paper's "Implementation Details".
_PAPER: Space = {"margin": (1.0, 1.5, 2.0), "learning_rate": (3e-4, 5e-4, 1e-3, 3e-3, 1e-2)}
_PAPER_SEVERAL: Space = {
    "spread_weight": (10.0, 20.0, 30.0),
    "spread": tuple(
        (low, high) for low in (0.0, 0.05, 0.1, 0.2, 0.5) for high in (0.1, 0.25, 0.35, 0.5, 0.8) if low <= high
    ),
}
_PAPER_BY_SAMPLER: dict[str, Space] = {
    "hard": {"n_negatives": (10,)},
    "uniform": {"n_negatives": (10,)},
    "popularity": {"n_negatives": (10,)},
    "two-stage": {"n_negatives": (10,)},
    "hard-sorted": {
        "n_negatives": (10, 20, 30, 50, 100, 120, 200),
        "beta": (1e-5, 5e-5, 1e-4, 3e-4, 5e-4, 1e-3, 1.5e-3),
    },
}
_PAPER_BY_SAMPLER["hard-differentiable"] = _PAPER_BY_SAMPLER["hard-sorted"]
_PAPER_APA: Space = {"min_interests": (1, 2, 3, 4, 5), "log_base": (2.0, 3.0, 5.0, 10.0)}
_PAPER_BPA: Space = {"n_interests": (2, 3, 4, 5)}

_SELECTION: Space = {name: (value,) for name, value in SELECTION.items()}
_OTHERS: dict[str, Space] = {
    **spaces.OTHERS,
    "m2f+dcrs": {**spaces.M2F, **_PAPER_SEVERAL},
    "ease": {"regularization": spaces.OTHERS["ease"]["regularization"]},  # as published: no dropout, no powers
}


def _space_of_other(name: str) -> Space:
    """The space of a competitor; where it trains by epochs, the epoch is chosen as in the paper."""
    found = _OTHERS.get(name, {})
    return {**found, **_SELECTION} if "validate_every" in found else found


def space_of(method: Method, grid: str = "ours") -> Space:
    """Return the search space of a method: name -> values. ``grid`` is ``"ours"`` or ``"paper"``.

    >>> from tastespace.paper.methods import find_method
    >>> space_of(find_method("bpa+hars"), "paper")["n_interests"]
    (2, 3, 4, 5)
    """
    if grid not in ("ours", "paper"):
        raise ParameterError(Argument("grid", grid), ": expected 'ours' or 'paper'.")
    if method.second_stage is not None:
        return {"weight": tuple(round(0.1 * tenth, 1) for tenth in range(1, 10))}  # the paper's omega
    if method.model not in ("cml", "dpcml"):
        found = _space_of_other(method.name.removesuffix(PRETRAINED))
        if not method.name.endswith(PRETRAINED):
            return found
        return {name: values for name, values in found.items() if name != "training"} | {"epochs": (16, 40)}
    ours = grid == "ours" and not method.name.endswith(BATCHES)
    sampler = method.fixed.get("sampler", method.defaults.get("sampler", "hard"))
    space = {**(spaces.COMMON if ours else _PAPER), **(spaces.BY_SAMPLER if ours else _PAPER_BY_SAMPLER)[sampler]}
    if method.model == "dpcml":
        space |= (
            (spaces.APA if ours else _PAPER_APA)
            if "n_interests" in method.fixed
            else (spaces.BPA if ours else _PAPER_BPA)
        )
        if method.fixed.get("dcrs", "mean") is not None:
            space |= spaces.SEVERAL if ours else _PAPER_SEVERAL
        if ours and method.fixed.get("geometry") == "sphere":
            space |= spaces.ON_THE_SPHERE | (spaces.SEVERAL_ON_THE_SPHERE if "spread" in space else {})
    return space


OBJECTIVE = ("P@3", "MAP", "MRR")
"""A trial is judged by the sum of these on validation, in percent: one metric alone is noisy. A model that learns from
content is judged by the sum of its P@3 for warm users, for cold-start users and for cold-start items."""

_BEST = "apa+dihars"


def search(
    dataset: str,
    method: str,
    *,
    trials: int = 20,
    minutes: float = 30.0,
    grid: str = "ours",
    seed: int = 0,
    split_seed: int = 0,
    base: dict[str, Any] | None = None,
    journal: str | Path | None = None,
    threads: int = 0,
    trial_minutes: float | None = None,
) -> dict[str, Any]:
    """Try parameters until the budget is spent and return the best with its validation metrics.

    Trials that the file ``journal`` already holds for this data set, method and seeds are not run
    again. ``base`` holds parameters that all trials share; they are not searched. A trial whose training takes longer
    than ``trial_minutes`` is judged by the best epoch it had until then, and is marked as cut. Neither the test part
    nor the cold-start users and items are used: a model that learns from content is judged on an inner split of the
    training data, see `tastespace.data.cold_start`.
    """
    if trials < 1:
        raise ParameterError(Argument("trials", trials), ": expected a number of trials, 1 or more.")
    found = find_method(method)
    parts = _parts_for_search(found, load_parts(dataset_for(dataset, found.model), split_seed), split_seed)
    whole = space_of(found, grid)
    stored = stored_parameters(dataset, found.name) if grid == "ours" and not found.second_stage else {}
    kept = {name: value for name, value in stored.items() if name not in unpack(_any_of(whole))}
    if found.second_stage:
        kept = stored_parameters(dataset, found.first_stage)
    shared = {**kept, **(base or {})}  # what is not in a space stays as it is stored
    space = {name: values for name, values in whole.items() if name not in names_in_space(shared)}
    first = pack({**found.build({}, seed).get_params(), **stored} if stored else _guess(dataset, found))
    trainer = _MethodTrials(found, parts, {"threads": threads, "max_minutes": trial_minutes}, seed)
    published = published_parameters(found) if grid == "paper" else {}
    outcome = run_search(
        make_proposals(extend(space, first) if stored else space, seed, first),
        lambda wanted: {**published, **shared, **unpack(wanted)},
        lambda parameters, _: trainer.run(parameters),
        TrialJournal(journal, f"{dataset} {found.name} seed {seed} split {split_seed}"),
        _objective(parts),
        trials=trials,
        minutes=minutes,
    )
    if outcome.ended == "minutes":
        log.warning("the budget of %g minutes ended the search after %d trials", minutes, len(outcome.trials))
    best = outcome.best
    return {
        "parameters": best["parameters"],
        "validation": best["validation"],
        "trials": len(outcome.trials),
        "seconds": round(outcome.seconds, 3),
        "grid": grid,
    }


def _any_of(space: Space) -> dict[str, Any]:
    return {name: values[0] for name, values in space.items()}


def _guess(dataset: str, method: Method) -> dict[str, Any]:
    """Parameters to start from: stored here, or for the paper's best method (same family), or on another data set."""
    same_family = method.model in ("cml", "dpcml")
    here = stored_parameters(dataset, method.name) or (stored_parameters(dataset, _BEST) if same_family else {})
    elsewhere = (stored_parameters(other, method.name) for other in sorted(stored_entries(), reverse=True))
    return here or next(filter(None, elsewhere), {})


def _parts_for_search(method: Method, parts: Parts, seed: int) -> Parts:
    """The data that a search may use; for a model that learns from content an inner split of the training data."""
    if parts.cold_start is None or not learns_from_content(registry()[method.model]):
        return replace(parts, cold_start=None)
    inner = inner_split(parts.cold_start, seed)
    return Parts(parts.name, inner.train, inner.valid, inner.test, inner)


class _MethodTrials:
    """Fits and judges; the first stage of a re-ranker is fitted once for all trials that change the second alone."""

    def __init__(self, method: Method, parts: Parts, resources: dict[str, Any], seed: int) -> None:
        self._method, self._parts, self._seed = method, parts, seed
        self._resources, self._threads = known_parameters(method, resources), resources["threads"]
        self._first_stage: dict[str, Recommender] = {}

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the validation metrics of these parameters, and the seconds of the trial."""
        start = time.perf_counter()
        model = self._fitted(self._method.build({**parameters, **self._resources}, self._seed))
        metrics = _validation_metrics(model, self._parts, self._threads)
        log.info("%s: %s %s", self._method.name, metrics, parameters)
        trained = getattr(model, "model_", model)
        return {
            "parameters": parameters,
            "validation": metrics,
            "score": sum(metrics.values()),
            "best_epoch": getattr(trained, "best_epoch_", None),
            "cut": getattr(trained, "stopped_", "") == "time",
            "seconds": round(time.perf_counter() - start, 3),
        }

    def _fitted(self, model: Recommender) -> Recommender:
        if not isinstance(model, Reranked):
            fit(model, self._parts, progress=False)
            return model
        key = repr(model.model)
        if key not in self._first_stage:
            fit(model, self._parts, progress=False)
            self._first_stage = {key: model.model_}
        outer = {name: value for name, value in model.get_params(deep=False).items() if name != "model"}
        return Reranked.around(self._first_stage[key], **outer)


def _validation_metrics(model: Recommender, parts: Parts, threads: int) -> dict[str, float]:
    """Return validation metrics in percent; for a model that learns from content in each situation."""
    if parts.cold_start is not None:
        reports = evaluate_cold(model, parts.cold_start, threads=threads)
        return {f"{situation} P@3": round(100 * report["P@3"], 3) for situation, report in reports.items()}
    report = evaluate(model, parts.valid, seen=parts.train, protocol="paper", threads=threads).in_percent()
    return {name: round(report[name], 3) for name in OBJECTIVE}


def _objective(parts: Parts) -> set[str]:
    """Names of the metrics by which trials on these parts are judged."""
    if parts.cold_start is None:
        return set(OBJECTIVE)
    found = {"cold user": parts.cold_start.new_users, "cold item": parts.cold_start.new_items}
    return {"warm P@3", *(f"{situation} P@3" for situation, those in found.items() if those is not None)}
