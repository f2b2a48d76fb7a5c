"""The search with equal budgets: every method gets the same core-minutes on validation data.

Successive halving: eight settings, the published one first and the others at random from the declared ranges, are
trained for a third of the budget, the best four of them for another third, the best two for the last. The published
setting is among the four and the two: it learns slowly, and short trainings say little about it. What is left goes to
eight more. Time is that of the processor, in one thread, so that other work on the machine takes nothing from
anyone. Every trial is written down as it ends: a search that was stopped goes on, and what it has spent stays spent.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.errors import Argument, ParameterError
from tastespace.evaluation import evaluate
from tastespace.models.dpcml.kernel import interests_per_user
from tastespace.models.trained import TrainedRecommender
from tastespace.paper.data import Parts, load_parts
from tastespace.paper.methods import BATCHES, Method, find_method
from tastespace.paper.runner import code_versions
from tastespace.paper.runs import known_parameters
from tastespace.paper.tuning import OBJECTIVE, space_of
from tastespace.tuning.journal import TrialJournal, trial_key
from tastespace.tuning.spaces import Space, pack, unpack

log = logging.getLogger(__name__)

RUNGS = (8, 4, 2)
"""Settings that are trained for a third of the budget each."""
LEAST_VARIED = 1 / 3
"""Share of users with another number of vectors than most, from which adaptive numbers are adaptive."""
OURS: Space = {"learning_rate": (0.1, 0.05, 0.2), "spread_weight": (10 / 256, 1.0, 10.0)}
"""Ranges of our trainer that are ours: it takes a step for each positive, with Adagrad. The others are the paper's."""
OUR_TRAINER: dict[str, Any] = {"optimizer": "adagrad", "average": 10, "epochs": 60, "schedule": "constant"}
_ADAPTIVE = "adaptive"  # (min_interests, log_base), chosen together
_MOST_LEFT = 0.25  # of the budget: with less no further settings are begun


def ranges(method: Method, user_counts: NDArray[np.integer[Any]]) -> Space:
    """Settings that a method is searched in; ``user_counts`` are the train interactions of each user.

    >>> ranges(find_method("bpa+hars+batches"), np.array([5]))["n_interests"]
    (2, 3, 4, 5)
    """
    space = space_of(method, "paper")
    if method.model not in ("cml", "dpcml") or method.second_stage is not None:
        return space
    if not method.name.endswith(BATCHES):
        space |= {name: values for name, values in OURS.items() if name in space}
    if "log_base" in space:
        pairs = [(c, a) for c in (1, 2) for a in space["log_base"] if varied_share(user_counts, c, a) >= LEAST_VARIED]
        if not pairs:
            raise ParameterError(
                f"{method.name}: no setting with C1 of 1 or 2 gives a third of these users another number of vectors "
                "than most. Adaptive numbers cannot be compared on this data."
            )
        space = {name: values for name, values in space.items() if name not in ("min_interests", "log_base")}
        space[_ADAPTIVE] = tuple(sorted(pairs, key=lambda pair: -varied_share(user_counts, *pair)))
    return space


def varied_share(user_counts: NDArray[np.integer[Any]], least: int, log_base: float) -> float:
    """Share of users whose adaptive number of vectors is not the most common one.

    >>> varied_share(np.array([1, 9, 9, 27]), least=1, log_base=3.0)
    0.5
    """
    numbers = interests_per_user(user_counts, "adaptive", least, log_base)
    return float(1 - np.unique(numbers, return_counts=True)[1].max() / len(numbers))


def search(
    dataset: str, method: str, *, minutes: float, seed: int = 0, split_seed: int = 0, journal: str | Path | None = None
) -> dict[str, Any]:
    """Spend the budget and return the best setting, its validation metrics, and what was spent.

    Args:
        dataset: A named data set.
        method: A method of the paper or a model.
        minutes: Core-minutes.
        seed: Of the settings that are tried, and of their training.
        split_seed: Of the split.
        journal: File of finished trials; those of this search are not run again, and count as spent.
    """
    if not 0 < minutes < math.inf:
        raise ParameterError(Argument("minutes", minutes), ": expected a budget in core-minutes, above 0.")
    found = find_method(method)
    parts = replace(load_parts(dataset, split_seed), cold_start=None)
    versions = code_versions(found)
    name = f"equal {dataset} {found.name} minutes {minutes:g} seed {seed} split {split_seed} {trial_key(versions)}"
    outcome = _Search(found, parts, minutes * 60, seed, TrialJournal(journal, name)).run()
    return {
        **outcome,
        "search": "equal",
        "minutes": minutes,
        "split": "authors" if split_seed == 0 else f"seed {split_seed}",
        "grid": "paper" if found.name.endswith(BATCHES) else "ours",
        "versions": versions,
    }


class _Search:
    """One search; trials that the journal holds are taken from there."""

    def __init__(self, method: Method, parts: Parts, seconds: float, seed: int, journal: TrialJournal) -> None:
        self._method, self._parts, self._budget, self._seed, self._journal = method, parts, seconds, seed, journal
        self._known = {trial_key(trial["parameters"]): trial for trial in journal.all()}
        self._spent, self._trials = 0.0, list[dict[str, Any]]()
        self._space = ranges(method, parts.train.user_counts)

    def run(self) -> dict[str, Any]:
        settings = self._settings()
        best: tuple[int, float, dict[str, Any]] | None = None
        tried, published = 0, dict[str, Any]()
        while (left := self._budget - self._spent) > (_MOST_LEFT * self._budget if tried else 0):
            bracket = [setting for setting, _ in zip(settings, range(RUNGS[0]), strict=False)]
            if not bracket:
                break
            published = published or bracket[0]
            tried += len(bracket)
            for rung, n in enumerate(RUNGS):
                done = [self._try(setting, rung, left / len(RUNGS) / n) for setting in bracket[:n]]
                done.sort(key=lambda trial: -trial["score"])
                bracket = [trial["setting"] for trial in done if math.isfinite(trial["score"])]
                if published in bracket[RUNGS[min(rung + 1, len(RUNGS) - 1)] :]:
                    bracket = [published, *(setting for setting in bracket if setting != published)]
                if done and (best is None or (rung, done[0]["score"]) > (best[0], best[1])):
                    best = rung, done[0]["score"], done[0]
                if not bracket:
                    break
        failed = [trial for trial in self._trials if trial["problem"]]
        if best is None or not math.isfinite(best[1]):
            reasons = "; ".join(sorted({trial["problem"] for trial in failed})) or "there was no setting"
            raise ParameterError(f"no trial of {self._method.name} gave a result: {reasons}")
        return {
            "parameters": self._parameters(best[2]["setting"]),
            "validation": best[2]["validation"],
            "trials": tried,
            "runs": len(self._trials),
            "failed": len(failed),
            "seconds": round(self._spent, 1),
        }

    def _settings(self) -> Iterator[dict[str, Any]]:
        """The published setting, then others at random, each once."""
        usual = pack(self._method.build({}, self._seed).get_params())
        first = {name: usual[name] if usual.get(name) in values else values[0] for name, values in self._space.items()}
        random, given = np.random.default_rng(self._seed), {trial_key(first)}
        yield first
        size = math.prod(len(values) for values in self._space.values())
        while len(given) < size:
            drawn = {name: values[int(random.integers(len(values)))] for name, values in self._space.items()}
            if trial_key(drawn) not in given:
                given.add(trial_key(drawn))
                yield drawn

    def _parameters(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        wanted = dict(setting)
        if _ADAPTIVE in wanted:
            wanted["min_interests"], wanted["log_base"] = wanted.pop(_ADAPTIVE)
        ours = OUR_TRAINER if self._method.model in ("cml", "dpcml") else {}
        fixed = {} if self._method.name.endswith(BATCHES) else ours
        return {**fixed, **unpack(wanted)}

    def _try(self, setting: dict[str, Any], rung: int, seconds: float) -> dict[str, Any]:
        """Train for so many seconds; what fails is written down with its reason and comes last."""
        key = trial_key({"setting": setting, "rung": rung})
        trial = self._known.get(key) or self._finished(setting, rung)
        if trial is None:
            start = time.process_time()
            problem, cut, score = "", False, -math.inf
            validation: dict[str, float] = {}
            try:
                validation, cut = self._fit(self._parameters(setting), start + seconds)
                score = sum(validation.values())
            except Exception as reason:
                problem = f"{type(reason).__name__}: {reason}"
                log.warning("%s: a trial failed: %s", self._method.name, problem)
            trial = {
                "parameters": {"setting": setting, "rung": rung},
                "validation": validation,
                "score": score,
                "cut": cut,
                "problem": problem,
                "seconds": round(time.process_time() - start, 3),
            }
            self._journal.add(trial)
            log.info("%s rung %d: %s %s", self._method.name, rung, validation or problem, setting)
        self._spent += trial["seconds"]
        self._trials.append(trial)
        return {**trial, "setting": setting}

    def _finished(self, setting: dict[str, Any], rung: int) -> dict[str, Any] | None:
        """Result of an earlier rung, where it was not the time that ended the training: again it would be the same."""
        for trial in self._trials:
            if trial["parameters"]["setting"] == setting and not trial["cut"] and not trial["problem"]:
                return {**trial, "parameters": {"setting": setting, "rung": rung}, "seconds": 0.0}
        return None

    def _fit(self, parameters: dict[str, Any], until: float) -> tuple[dict[str, float], bool]:
        """Validation metrics in percent, and whether the time ended the training."""
        threads = known_parameters(self._method, {"threads": 1})
        model = self._method.build({**parameters, **threads}, self._seed)
        if isinstance(model, TrainedRecommender):
            model.fit(self._parts.train, self._parts.valid, False, callbacks=[lambda _: time.process_time() < until])
        else:
            model.fit(self._parts.train, self._parts.valid, False)
        report = evaluate(model, self._parts.valid, seen=self._parts.train, protocol="paper", threads=1).in_percent()
        return {name: round(report[name], 3) for name in OBJECTIVE}, getattr(model, "stopped_", "") == "callback"
