"""The search for parameters, on validation data only: seeded, resumable, within a budget of trials and minutes."""

from __future__ import annotations

import itertools
import json
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tastespace.data.cold_start import inner_split
from tastespace.errors import ParameterError
from tastespace.evaluation import evaluate
from tastespace.evaluation.cold_start import evaluate_cold
from tastespace.models import Recommender, registry
from tastespace.paper.methods import Method, find_method
from tastespace.paper.proposals import Proposals, Space
from tastespace.paper.runs import Parts, fit, load_parts, understood
from tastespace.paper.spaces import space_of
from tastespace.paper.stored import stored_entries, stored_parameters
from tastespace.paper.strangers import dataset_for, learns_from_content
from tastespace.recommend.rerank import Reranked

log = logging.getLogger(__name__)
_BOUNDS = {"min_spread", "max_spread"}  # searched together, as "diversity"

_BEST = "apa+dihars"

OBJECTIVE = ("P@3", "MAP", "MRR")
"""A trial is judged by the sum of these on validation: one metric alone is noisy. A model that meets strangers is
judged by the sum of its P@3 for the warm, for cold users and for cold items among themselves."""


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
    record: str | Path | None = None,
    threads: int = 0,
    trial_minutes: float | None = None,
) -> dict[str, Any]:
    """Try parameters until the budget is spent and give the best with its validation figures.

    Trials that ``record`` (a JSONL file) already holds are not run again. ``base`` holds parameters that all trials
    share; they are not searched. A trial whose training takes longer than ``trial_minutes`` is judged by the best
    epoch it had until then, and its record says ``"cut": true``. Neither the test part nor strangers are looked at: a
    model for strangers is judged by some of the training data that play them, see
    `tastespace.data.cold_start.inner_split`.
    """
    if trials < 1:
        raise ParameterError(f"trials={trials}: expected how many to make, 1 or more.")
    found = find_method(method)
    parts = _for_choosing(found, load_parts(dataset_for(dataset, found.model), split_seed), split_seed)
    done = _read(record, _objective(parts))
    spent = sum(trial["seconds"] for trial in done.values())
    published = grid == "paper" and found.model in ("cml", "dpcml")
    whole = space_of(found, grid)
    stored = stored_parameters(dataset, found.name) if grid == "ours" and not found.second_stage else {}
    kept = {name: value for name, value in stored.items() if name not in {*whole, *_BOUNDS}}
    if found.second_stage:
        kept = stored_parameters(dataset, found.first_stage)
    shared = {**kept, **(base or {})}  # what a space does not know stays as it is stored
    given = {*shared, *(["diversity"] if _BOUNDS & set(shared) else [])}
    space = {name: values for name, values in whole.items() if name not in given}
    first = _packed({**found.build({}, seed).get_params(), **stored} if stored else _guess(dataset, found))
    proposals = Proposals(_with(space, first) if stored else space, seed, first)
    trier = _Trier(found, parts, {"threads": threads, "max_minutes": trial_minutes}, seed)
    for wanted in itertools.islice(proposals, trials):
        parameters = {**_published(found, published), **shared, **_unpacked(wanted)}
        key = json.dumps(parameters, sort_keys=True)
        if key in done:
            proposals.tell(done[key]["score"])
            continue
        if spent > 60 * minutes and done:
            log.warning("the budget of %g minutes ended the search after %d trials", minutes, len(done))
            break
        trial = trier.trial(parameters)
        spent += trial["seconds"]
        done[key] = trial
        proposals.tell(trial["score"])
        if record is not None:
            with Path(record).open("a", encoding="utf-8") as file:
                file.write(json.dumps(trial) + "\n")
    best = max(done.values(), key=lambda trial: trial["score"])
    return {
        "parameters": best["parameters"],
        "validation": best["validation"],
        "trials": len(done),
        "seconds": round(spent, 1),
        "grid": grid,
    }


def _with(space: Space, first: dict[str, Any]) -> Space:
    """The space with these values in it, so that a search can start from what is stored."""
    found = {}
    for name, values in space.items():
        value = tuple(first[name]) if isinstance(first[name], list) else first[name]
        found[name] = values if value in values else (*values, value)
    return found


def _guess(dataset: str, method: Method) -> dict[str, Any]:
    """What did well before: here, or for the paper's best, whose parameters its relatives share, or elsewhere."""
    relative = method.model in ("cml", "dpcml")
    here = stored_parameters(dataset, method.name) or (stored_parameters(dataset, _BEST) if relative else {})
    elsewhere = (stored_parameters(other, method.name) for other in sorted(stored_entries(), reverse=True))
    return here or next(filter(None, elsewhere), {})


def _for_choosing(method: Method, parts: Parts, seed: int) -> Parts:
    """What a search may look at; a model that learns from content is judged by strangers of the training data."""
    if parts.strangers is None or not learns_from_content(registry()[method.model]):
        return replace(parts, strangers=None)
    inner = inner_split(parts.strangers, seed)
    return Parts(parts.name, inner.train, inner.valid, inner.test, inner)


def _published(method: Method, wanted: bool) -> dict[str, Any]:
    from tastespace.models.dpcml import DPCML

    return {k: v for k, v in DPCML.published().items() if k not in method.fixed} if wanted else {}


class _Trier:
    """Fits and judges; of two stages the first is fitted once for all trials that change the second alone."""

    def __init__(self, method: Method, parts: Parts, resources: dict[str, Any], seed: int) -> None:
        self._method, self._parts, self._seed = method, parts, seed
        self._resources, self._threads = understood(method, resources), resources["threads"]
        self._first: dict[str, Recommender] = {}

    def trial(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """What these parameters are worth on validation, and what they took."""
        start = time.perf_counter()
        model = self._fitted(self._method.build({**parameters, **self._resources}, self._seed))
        figures = _figures(model, self._parts, self._threads)
        log.info("%s: %s %s", self._method.name, figures, parameters)
        learned = getattr(model, "model_", model)
        return {
            "parameters": parameters,
            "validation": figures,
            "score": sum(figures.values()),
            "best_epoch": getattr(learned, "best_epoch_", None),
            "cut": getattr(learned, "stopped_", "") == "time",
            "seconds": round(time.perf_counter() - start, 1),
        }

    def _fitted(self, model: Recommender) -> Recommender:
        if not isinstance(model, Reranked):
            fit(model, self._parts, progress=False)
            return model
        key = repr(model.model)
        if key not in self._first:
            fit(model, self._parts, progress=False)
            self._first = {key: model.model_}
        outer = {name: value for name, value in model.get_params(deep=False).items() if name != "model"}
        return Reranked.around(self._first[key], **outer)


def _figures(model: Recommender, parts: Parts, threads: int) -> dict[str, float]:
    """On validation; where strangers are met, in each situation."""
    if parts.strangers is not None:
        reports = evaluate_cold(model, parts.strangers, threads=threads)
        return {f"{situation} P@3": round(100 * report["P@3"], 3) for situation, report in reports.items()}
    report = evaluate(model, parts.valid, seen=parts.train, protocol="paper", threads=threads).in_percent()
    return {name: round(report[name], 3) for name in OBJECTIVE}


def _objective(parts: Parts) -> set[str]:
    """Names of the figures by which trials on these parts are judged."""
    if parts.strangers is None:
        return set(OBJECTIVE)
    found = {"cold user": parts.strangers.new_users, "cold item": parts.strangers.new_items}
    return {"warm P@3", *(f"{situation} P@3" for situation, those in found.items() if those is not None)}


def _unpacked(wanted: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in wanted.items() if name != "diversity"}
    if "diversity" in wanted:
        plain["min_spread"], plain["max_spread"] = wanted["diversity"]
    return plain


def _packed(parameters: dict[str, Any]) -> dict[str, Any]:
    pair = (parameters.get("min_spread"), parameters.get("max_spread"))
    return {**parameters, "diversity": pair}


def _read(record: str | Path | None, objective: set[str]) -> dict[str, dict[str, Any]]:
    """Trials of a record; those that were judged by something else do not count."""
    if record is None or not Path(record).exists():
        return {}
    trials = [json.loads(line) for line in Path(record).read_text(encoding="utf-8").splitlines() if line.strip()]
    alike = [trial for trial in trials if set(trial["validation"]) == objective]
    if len(alike) < len(trials):
        log.warning("%s: %d trials were judged by other figures and do not count", record, len(trials) - len(alike))
    return {json.dumps(trial["parameters"], sort_keys=True): trial for trial in alike}
