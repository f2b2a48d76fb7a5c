"""Runs the searches within a budget of time or of trials, each model fitted to one part and measured on the other."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tastespace.data.categories import category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import TastespaceError
from tastespace.evaluation import evaluate
from tastespace.models import Recommender
from tastespace.models.blend_weights import Accuracy
from tastespace.models.trained_base import TrainedRecommender
from tastespace.recipe.searches import ALWAYS_TRIED, Family
from tastespace.recipe.short_names import short_name

log = logging.getLogger(__name__)

Waiting = deque[tuple[Family, Recommender | None]]
"""Families with their next models, in the order of their turns."""

_MEASURED_USERS = 2_000
_REFIT = 1.4  # time of a fit to everything, relative to one without the held-out part
_USUAL_MEMBERS = 4  # of a blend, for which time is kept
_SLOWER = 1.3  # the next model of a family may take longer than the last
_LONGEST = 0.25  # share of the budget that one model may train
_OVERHEAD = 0.12  # share of the budget for choosing the blend


@dataclass
class Trial:
    """One model that was tried."""

    family: str
    model: Recommender
    """Fitted to the data without the held-out part."""
    figures: Accuracy
    """On the held-out part."""
    seconds: float
    """That fitting and measuring took."""

    @property
    def objective(self) -> float:
        """What trials are compared by."""
        return self.figures.objective

    @property
    def refit_seconds(self) -> float:
        """Estimate of the time that fitting the model to everything takes: the best number of epochs, not measured."""
        seconds = self.seconds
        if isinstance(self.model, TrainedRecommender) and self.model.is_fitted:
            seconds = sum(row["seconds"] for row in self.model.history_[: self.model.best_epoch_])
        return _REFIT * seconds


@dataclass(frozen=True)
class Budget:
    """How long to try: a number of seconds, or a number of trials, which gives the same model every time."""

    seconds: float | None
    trials: int | None
    began: float

    @property
    def elapsed(self) -> float:
        """Seconds since the recipe began."""
        return time.monotonic() - self.began

    def allows(self, done: list[Trial], family: Family) -> bool:
        """Whether another model of this family fits in, with time left to fit the chosen ones to everything."""
        if self.trials is not None:
            return len(done) < self.trials
        assert self.seconds is not None
        if not done or (family.name in ALWAYS_TRIED and all(trial.family != family.name for trial in done)):
            return True  # a model with several vectors stops training after a second then
        last = {trial.family: trial.seconds for trial in done}
        estimate = _SLOWER * last.get(family.name, last.get(family.like or "", family.seconds))
        return self.elapsed + estimate + self.reserve(done) < self.seconds

    def reserve(self, done: list[Trial]) -> float:
        """Seconds that choosing and fitting the best of each family to everything will take."""
        assert self.seconds is not None
        best = sorted(best_of_families(done), key=lambda trial: -trial.objective)
        members = [trial for at, trial in enumerate(best) if at < _USUAL_MEMBERS or trial.model.has_interests]
        fits = sum(trial.refit_seconds for trial in members)
        return fits + _OVERHEAD * self.seconds

    def minutes_left(self, done: list[Trial]) -> float | None:
        """For models that can stop training at a time limit; None where trials are counted."""
        if self.seconds is None:
            return None
        left = (self.seconds - self.elapsed - self.reserve(done)) / (1 + _REFIT)
        return max(1.0, min(left, _LONGEST * self.seconds)) / 60


def run_trials(
    families: list[Family],
    train: Interactions,
    held_out: Interactions,
    budget: Budget,
    report: Callable[[str], None],
    threads: int = 0,
) -> list[Trial]:
    """Fit and measure models, the families taking turns, until the budget is used or nothing is left to try."""
    measured = sample_users(held_out, _MEASURED_USERS)
    done: list[Trial] = []
    waiting: Waiting = deque((family, next(family.search, None)) for family in families)
    while waiting:
        family, model = waiting.popleft()
        if model is None or not budget.allows(done, family):
            continue
        report(f"{family.name}: {short_name(model)}")
        trial = _tried(family.name, model, train, measured, budget.minutes_left(done), threads)
        if trial is None:  # the search goes on as if the model had found nothing
            _send(family, 0.0, waiting)
            continue
        done.append(trial)
        log.info("%s: %s: NDCG@10 %.4f, R@20 %.4f", family.name, short_name(trial.model), *trial.figures[:2])
        drop_beaten(done)
        _send(family, trial.objective, waiting)
    return done


def _send(family: Family, figure: float, waiting: Waiting) -> None:
    """Tell a search how its model did; its next one, where there is any, waits for its turn."""
    with contextlib.suppress(StopIteration):
        waiting.append((family, family.search.send(figure)))


def _tried(
    family: str, model: Recommender, train: Interactions, measured: Interactions, minutes: float | None, threads: int
) -> Trial | None:
    start = time.monotonic()
    try:
        if isinstance(model, TrainedRecommender):
            if minutes is not None:
                model.set_params(max_minutes=minutes)
            model.fit(train, measured, progress=False)
            model.set_params(max_minutes=None)
        else:
            model.fit(train, progress=False)
        figures = _measured(model, train, measured, threads)
    except (TastespaceError, MemoryError, np.linalg.LinAlgError) as problem:  # diverged, too large: the others go on
        log.warning("%s was left out: %s", short_name(model), problem)
        return None
    return Trial(family, model, figures, time.monotonic() - start)


def _measured(model: Recommender, train: Interactions, measured: Interactions, threads: int) -> Accuracy:
    short, long = min(10, train.n_items), min(20, train.n_items)
    metrics = [f"NDCG@{short}", f"R@{long}"]
    if category_column(train.item_attributes) is not None:
        metrics.append(f"MinorityRecall@{long}")
    found = evaluate(model, measured, seen=train, metrics=metrics, threads=threads)
    return Accuracy(*(float(found[name]) for name in metrics))


def sample_users(data: Interactions, n: int) -> Interactions:
    """The interactions of at most n users who have any, always the same ones."""
    users = np.flatnonzero(data.user_counts > 0)
    if len(users) <= n:
        return data
    chosen = np.random.default_rng(0).choice(users, n, replace=False)
    return data.subset(np.isin(data.row_of_each(), chosen))


def best_of_families(trials: list[Trial]) -> list[Trial]:
    """The best trial of each family, in the order of the families' first trials."""
    names = list(dict.fromkeys(trial.family for trial in trials))
    return [max((t for t in trials if t.family == name), key=lambda t: t.objective) for name in names]


def drop_beaten(trials: list[Trial]) -> None:
    """Free the memory of models that a better one of their family has replaced."""
    kept = {id(trial) for trial in best_of_families(trials)}
    for trial in trials:
        if id(trial) not in kept and trial.model.is_fitted:
            trial.model = trial.model.clone()
