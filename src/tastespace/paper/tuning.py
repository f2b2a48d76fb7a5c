"""The search for parameters, on validation data only: seeded, resumable, within a budget of trials and minutes.

Optuna's tree-structured Parzen estimator proposes, and Optuna's journal file keeps the trials (the `tune` extra). A
resumed search tells the estimator the scores that the journal holds instead of running those trials again, so it goes
on exactly as if it had never stopped.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tastespace.data.cold_start import inner_split as inner_split
from tastespace.errors import ParameterError
from tastespace.evaluation import evaluate
from tastespace.evaluation.cold_start import evaluate_cold
from tastespace.extras import missing
from tastespace.models import Recommender, registry
from tastespace.paper.experiment_data import Parts, dataset_for, learns_from_content, load_parts
from tastespace.paper.methods import Method, find_method
from tastespace.paper.runs import fit, known_parameters, published_parameters
from tastespace.paper.search_spaces import Space, space_of
from tastespace.paper.stored_parameters import stored_entries, stored_parameters
from tastespace.recommend.rerank import Reranked

log = logging.getLogger(__name__)

OBJECTIVE = ("P@3", "MAP", "MRR")
"""A trial is judged by the sum of these on validation, in percent: one metric alone is noisy. A model that learns from
content is judged by the sum of its P@3 for warm users, for cold-start users and for cold-start items."""

_BOUNDS = {"min_spread", "max_spread"}  # searched together, as "spread"
_BEST = "apa+dihars"
_STARTUP = 5  # random trials before the estimator proposes
_REPEATS = 20  # proposals of what was tried already, before something new is taken at random


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
    """Try parameters until the budget is spent and give the best with its validation metrics.

    Trials that ``journal`` (an Optuna journal file) already holds for this data set, method and seeds are not run
    again. ``base`` holds parameters that all trials share; they are not searched. A trial whose training takes longer
    than ``trial_minutes`` is judged by the best epoch it had until then, and is marked as cut. Neither the test part
    nor the cold-start users and items are used: a model that learns from content is judged on an inner split of the
    training data, see `tastespace.data.cold_start`.
    """
    if trials < 1:
        raise ParameterError(f"trials={trials}: expected how many to make, 1 or more.")
    found = find_method(method)
    parts = _parts_for_search(found, load_parts(dataset_for(dataset, found.model), split_seed), split_seed)
    finished = FinishedTrials(journal, f"{dataset} {found.name} seed {seed} split {split_seed}")
    done = finished.read(_objective(parts))
    spent = sum(trial["seconds"] for trial in done.values())
    whole = space_of(found, grid)
    stored = stored_parameters(dataset, found.name) if grid == "ours" and not found.second_stage else {}
    kept = {name: value for name, value in stored.items() if name not in {*whole, *_BOUNDS}}
    if found.second_stage:
        kept = stored_parameters(dataset, found.first_stage)
    shared = {**kept, **(base or {})}  # what is not in a space stays as it is stored
    given = {*shared, *(["spread"] if _BOUNDS & set(shared) else [])}
    space = {name: values for name, values in whole.items() if name not in given}
    first = _packed({**found.build({}, seed).get_params(), **stored} if stored else _guess(dataset, found))
    proposals = Proposals(_with(space, first) if stored else space, seed, first)
    trainer = _TrialRunner(found, parts, {"threads": threads, "max_minutes": trial_minutes}, seed)
    published = published_parameters(found) if grid == "paper" else {}
    for wanted in itertools.islice(proposals, trials):
        parameters = {**published, **shared, **_unpacked(wanted)}
        key = _key(parameters)
        if key in done:
            proposals.tell(done[key]["score"])
            continue
        if spent > 60 * minutes and done:
            log.warning("the budget of %g minutes ended the search after %d trials", minutes, len(done))
            break
        trial = trainer.run(parameters)
        spent += trial["seconds"]
        done[key] = trial
        proposals.tell(trial["score"])
        finished.add(trial, proposals)
    best = max(done.values(), key=lambda trial: trial["score"])
    return {
        "parameters": best["parameters"],
        "validation": best["validation"],
        "trials": len(done),
        "seconds": round(spent, 1),
        "grid": grid,
    }


class Proposals:
    """Every combination at most once: first a good guess, then what the estimator expects to be best.

    Values of a parameter are ordered, so what is searched is the index of a value. The sequence is a function of the
    space, the seed and the scores told.
    """

    def __init__(self, space: Space, seed: int, first: dict[str, Any] | None = None) -> None:
        optuna = _require_optuna()
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._scores: dict[tuple[int, ...], float] = {}
        self._size = int(np.prod([len(values) for values in space.values()])) if space else 1
        self._ranges = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1) for name, values in space.items()
        }
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._study.enqueue_trial(self._indices(first or {}))
        self._trial: Any = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while len(self._scores) < self._size:
            self._trial = self._ask()
            yield {name: values[self._trial.params[name]] for name, values in self._space.items()}

    def tell(self, score: float) -> None:
        """The score of the trial proposed last."""
        self._study.tell(self._trial, score)
        self._scores[self._key(self._trial)] = score

    @property
    def last(self) -> Any:
        """The trial proposed last, as Optuna keeps it."""
        return self._study.trials[self._trial.number]

    def _ask(self) -> Any:
        for _ in range(_REPEATS):
            trial = self._study.ask(self._ranges)
            known = self._scores.get(self._key(trial))
            if known is None:
                return trial
            self._study.tell(trial, known)
        while True:  # the estimator proposes only what was tried already
            pick = {name: int(self._rng.integers(len(values))) for name, values in self._space.items()}
            if tuple(pick.values()) not in self._scores:
                self._study.enqueue_trial(pick)
                return self._study.ask(self._ranges)

    def _key(self, trial: Any) -> tuple[int, ...]:
        return tuple(trial.params[name] for name in self._space)

    def _indices(self, wanted: dict[str, Any]) -> dict[str, int]:
        """Indices of the wanted values; the middle where nothing, or something else, is wanted."""
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()}  # of JSON
        return {
            name: values.index(plain[name]) if name in plain and plain[name] in values else len(values) // 2
            for name, values in self._space.items()
        }


class FinishedTrials:
    """The finished trials of one search in Optuna's storage; without a file nothing is kept."""

    def __init__(self, journal: str | Path | None, name: str) -> None:
        self._study: Any = None
        if journal is not None:
            optuna = _require_optuna()
            path = Path(journal).expanduser()
            path.parent.mkdir(parents=True, exist_ok=True)
            storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
            self._study = optuna.create_study(
                study_name=name, storage=storage, direction="maximize", load_if_exists=True
            )

    def read(self, objective: set[str]) -> dict[str, dict[str, Any]]:
        """Trials by their parameters; those that were judged by other metrics are left out."""
        if self._study is None:
            return {}
        trials = [dict(trial.user_attrs) for trial in self._study.trials if "validation" in trial.user_attrs]
        alike = [trial for trial in trials if set(trial["validation"]) == objective]
        if len(alike) < len(trials):
            log.warning("%d trials were judged by other metrics and do not count", len(trials) - len(alike))
        return {_key(trial["parameters"]): trial for trial in alike}

    def add(self, trial: dict[str, Any], proposals: Proposals) -> None:
        """Keep a trial: Optuna's own record of it, with our parameters and metrics as its attributes."""
        if self._study is None:
            return
        last = proposals.last
        self._study.add_trial(
            _require_optuna().trial.create_trial(
                value=trial["score"], params=last.params, distributions=last.distributions, user_attrs=trial
            )
        )


def _require_optuna() -> Any:
    try:
        import optuna
    except ImportError as problem:
        raise missing("tune", "tuning needs Optuna") from problem
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _key(parameters: dict[str, Any]) -> str:
    return json.dumps(parameters, sort_keys=True)


def _with(space: Space, first: dict[str, Any]) -> Space:
    """The space with these values in it, so that a search can start from what is stored."""
    found = {}
    for name, values in space.items():
        value = tuple(first[name]) if isinstance(first[name], list) else first[name]
        found[name] = values if value in values else (*values, value)
    return found


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


class _TrialRunner:
    """Fits and judges; the first stage of a re-ranker is fitted once for all trials that change the second alone."""

    def __init__(self, method: Method, parts: Parts, resources: dict[str, Any], seed: int) -> None:
        self._method, self._parts, self._seed = method, parts, seed
        self._resources, self._threads = known_parameters(method, resources), resources["threads"]
        self._first_stage: dict[str, Recommender] = {}

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """What these parameters reach on validation, and the seconds it took."""
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
            "seconds": round(time.perf_counter() - start, 1),
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
    """On validation, in percent; for a model that learns from content in each situation."""
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


def _unpacked(wanted: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in wanted.items() if name != "spread"}
    if "spread" in wanted:
        plain["min_spread"], plain["max_spread"] = wanted["spread"]
    return plain


def _packed(parameters: dict[str, Any]) -> dict[str, Any]:
    pair = (parameters.get("min_spread"), parameters.get("max_spread"))
    return {**parameters, "spread": pair}
