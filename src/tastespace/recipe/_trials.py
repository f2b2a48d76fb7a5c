"""Trials of the recipe: runs the searches within a budget of time or of trials.

Each model is fitted to one part and measured on the other.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from tastespace._util.interrupts import time_limit
from tastespace._util.threads import resolve_threads
from tastespace.data.attributes import category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import TastespaceError, TimeLimitError
from tastespace.evaluation import evaluate
from tastespace.models import Recommender, RP3beta, SparseEASE
from tastespace.models.blend.weights import Accuracy
from tastespace.models.trained import TrainedRecommender
from tastespace.recipe._checkpoint import RecipeCheckpoint
from tastespace.recipe._families import ALWAYS_TRIED, Family, short_name

log = logging.getLogger(__name__)

Waiting = deque[tuple[Family, Recommender | None]]
"""Families with their next models, in the order of their turns."""

_VALIDATED_USERS = 2_000  # on which the best epoch is chosen
_MEASURED_USERS = 300, 8_000  # at least, at most
_SCORES_PER_SECOND = 800_000  # of the budget, for measuring one model
_REFIT = 1.4  # time of a fit to everything, relative to one without the held-out part
_USUAL_MEMBERS = 4  # of a blend, for which time is kept
_SLOWER = 1.3  # the next model of a family may take longer than the last
_OVERHEAD = 0.12  # share of the budget for choosing the blend
_LEAST_SECONDS = 1.0  # that a model may take
_LEAST_ALWAYS = 5.0  # that a model of `ALWAYS_TRIED` may take
_PAIR_SECONDS = 2e-8  # of one core for two items of one user, at least


@dataclass
class Trial:
    """One model that was tried."""

    family: str
    model: Recommender
    """Model, fitted to the data without the held-out part."""
    figures: Accuracy
    """Accuracy on the held-out part."""
    seconds: float
    """Time of fitting and measuring."""
    problem: str = ""
    """Reason for having no figures."""
    was_stopped: bool = False
    """True if that is the limit of time."""

    @property
    def objective(self) -> float:
        """Score by which trials are compared."""
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
    """Limit of the search: a number of seconds, or a number of trials, which gives the same model every time."""

    seconds: float | None
    trials: int | None
    began: float

    @property
    def elapsed(self) -> float:
        """Seconds since the recipe began."""
        return time.monotonic() - self.began

    def allows(self, done: list[Trial], family: Family, stopped: Mapping[str, float] = MappingProxyType({})) -> bool:
        """Return True if there is time for another model of this family, and to fit the chosen ones to everything.

        ``stopped`` are estimates, in seconds, for the families of which a model was stopped, and those like them.
        """
        if self.trials is not None:
            return len(done) < self.trials
        assert self.seconds is not None
        is_first = all(trial.family != family.name for trial in done)
        if not (done or stopped) or (family.name in ALWAYS_TRIED and is_first):
            return True  # it is stopped after some seconds then
        last = {**stopped, **{trial.family: trial.seconds for trial in done}}
        estimate = _SLOWER * last.get(family.name, last.get(family.like or "", family.seconds))
        return self.elapsed + estimate + self.reserve(done) < self.seconds

    def reserve(self, done: list[Trial]) -> float:
        """Seconds that choosing and fitting the best of each family to everything will take."""
        assert self.seconds is not None
        best = sorted(best_of_families(done), key=lambda trial: -trial.objective)
        members = [trial for at, trial in enumerate(best) if at < _USUAL_MEMBERS or trial.model.has_interests]
        fits = sum(trial.refit_seconds for trial in members)
        return fits + _OVERHEAD * self.seconds

    def minutes_left(self, done: list[Trial], longest: float) -> float | None:
        """Minutes left for a model that can stop training at a time limit; None if trials are counted."""
        if self.seconds is None:
            return None
        left = (self.seconds - self.elapsed - self.reserve(done)) / (1 + _REFIT)
        return max(_LEAST_SECONDS, min(left, longest * self.seconds)) / 60

    def limit(self, done: list[Trial], family: str) -> float | None:
        """Seconds after which fitting a model is stopped: there would be no time to fit it to everything as well."""
        if self.seconds is None:
            return None
        left = (self.seconds - self.elapsed - self.reserve(done)) / (1 + _REFIT)
        is_first = family in ALWAYS_TRIED and all(trial.family != family for trial in done)
        return max(_LEAST_ALWAYS if is_first else _LEAST_SECONDS, left)


@dataclass
class Setting:
    """Data, budget and resources that all trials share."""

    train: Interactions
    measured: Interactions
    """Held-out interactions of the users that all figures come from."""
    budget: Budget
    report: Callable[[str], None]
    threads: int = 0
    checkpoint: RecipeCheckpoint = field(default_factory=lambda: RecipeCheckpoint(None, {}))
    notes: list[str] = field(default_factory=list)
    """Remarks for the user on what was left out."""


def run_trials(families: list[Family], setting: Setting) -> list[Trial]:
    """Fit and measure models, the families taking turns, until the budget is used or nothing is left to try.

    Models that the checkpoint holds are not fitted again.
    """
    budget, checkpoint = setting.budget, setting.checkpoint
    done: list[Trial] = []
    stopped: dict[str, float] = {}
    untried: list[str] = []
    waiting: Waiting = deque((family, next(family.search, None)) for family in families)
    while waiting:
        family, model = waiting.popleft()
        if model is None:
            continue
        row = checkpoint.find(family.name, model)
        is_counted = row is None or budget.trials is not None
        if (is_counted and not budget.allows(done, family, stopped)) or (row is None and checkpoint.search_ended):
            if all(trial.family != family.name for trial in done) and family.name not in stopped:
                untried.append(family.name)
            continue
        trial = _tried(family, model, setting, done) if row is None else _recorded(family.name, model, row)
        if trial.problem:
            if trial.was_stopped:  # another setting would take as long
                stopped[family.name] = 2 * trial.seconds
                setting.notes.append(f"{short_name(model)} was left out: {trial.problem}")
            else:  # the search continues as if the model had found nothing
                _send(family, 0.0, waiting)
            continue
        done.append(trial)
        drop_beaten(done)
        _send(family, trial.objective, waiting)
    if untried and budget.trials is None:
        setting.notes.append(f"No time was left to try: {'; '.join(untried)}.")
    _fit_missing(done, setting)
    return done


def _recorded(family: str, model: Recommender, row: dict[str, Any]) -> Trial:
    """A trial as the checkpoint holds it; the model is not fitted."""
    figures = Accuracy(*row["validation"].values())
    return Trial(family, model, figures, row["seconds"], row["problem"], row["was_stopped"])


def _fit_missing(done: list[Trial], setting: Setting) -> None:
    """Open the saved models of the families' best trials; one that cannot be read is fitted again."""
    for trial in best_of_families(done):
        if trial.model.is_fitted:
            continue
        saved = setting.checkpoint.fitted(trial.family, trial.model)
        if saved is None:
            setting.report(f"{trial.family}, again: {short_name(trial.model)}")
            fit_trial(trial.model, setting, None)
        else:
            trial.model = saved
            trial.model.train_ = usable(setting.train, trial.model)  # the same interactions, once in memory


def _send(family: Family, figure: float, waiting: Waiting) -> None:
    """Tell a search how its model did; its next one, where there is any, waits for its turn."""
    with contextlib.suppress(StopIteration):
        waiting.append((family, family.search.send(figure)))


def _tried(of: Family, model: Recommender, setting: Setting, done: list[Trial]) -> Trial:
    """Fit, measure and record a model."""
    budget, start, family = setting.budget, time.monotonic(), of.name
    setting.report(f"{family}: {short_name(model)}")
    trial = Trial(family, model, Accuracy(0.0, 0.0, float("nan")), 0.0)
    try:
        minutes, limit = budget.minutes_left(done, of.longest), budget.limit(done, family)
        if minutes is not None and limit is not None and isinstance(model, TrainedRecommender):
            limit = max(limit, 1.25 * 60 * minutes + 1)  # it stops by itself after an epoch
        with time_limit(limit):
            require_time(model, setting.train, limit, setting.threads)
            fit_trial(model, setting, minutes)
        trial.figures = measured_accuracy(model, setting.train, setting.measured, setting.threads)
    except TimeLimitError:
        trial.problem, trial.was_stopped = "it takes longer than the budget has time for.", True
    except (TastespaceError, MemoryError, np.linalg.LinAlgError) as problem:  # diverged, too large: the others continue
        trial.problem = str(problem) or type(problem).__name__
    trial.seconds = time.monotonic() - start
    if trial.problem:
        log.warning("%s was left out: %s", short_name(model), trial.problem)
    else:
        log.info("%s: %s: NDCG@10 %.4f, R@20 %.4f", family, short_name(model), *trial.figures[:2])
    others = [one for one in done if one.family == family]
    setting.checkpoint.add(
        family, model, trial.figures, trial.seconds, budget.elapsed,
        is_best=not trial.problem and all(trial.objective > one.objective for one in others),
        problem=trial.problem, was_stopped=trial.was_stopped,
    )  # fmt: skip
    return trial


def fit_trial(model: Recommender, setting: Setting, minutes: float | None) -> None:
    """Fit a model to the part that is not held out, within so many minutes where it trains by epochs."""
    if not isinstance(model, TrainedRecommender):
        model.fit(usable(setting.train, model), progress=False)
        return
    model.set_params(max_minutes=minutes)
    model.fit(usable(setting.train, model), sample_users(setting.measured, _VALIDATED_USERS), progress=False)
    model.set_params(max_minutes=None)


def usable(data: Interactions, model: Recommender) -> Interactions:
    """The interactions as a model can learn from them: without weights where it does not use any."""
    return data if data.weights is None or model.uses_weights else data.without_weights()


def require_time(model: Recommender, train: Interactions, seconds: float | None, threads: int) -> None:
    """Raise `TimeLimitError` before anything is computed where a model that compares items surely takes longer."""
    if seconds is None or not isinstance(model, (SparseEASE, RP3beta)):
        return
    pairs = float(np.square(train.user_counts, dtype=np.float64).sum())
    if _PAIR_SECONDS * pairs / resolve_threads(threads) > seconds:
        raise TimeLimitError(f"{pairs:.2g} pairs of items of one user take longer than {seconds:.0f} seconds.")


def measured_accuracy(model: Recommender, train: Interactions, measured: Interactions, threads: int) -> Accuracy:
    """Figures of a fitted model on held-out interactions."""
    short, long = min(10, train.n_items), min(20, train.n_items)
    metrics = [f"NDCG@{short}", f"R@{long}"]
    if category_column(train.item_attributes) is not None:
        metrics.append(f"MinorityRecall@{long}")
    found = evaluate(model, measured, seen=train, metrics=metrics, threads=threads)
    return Accuracy(*(float(found[name]) for name in metrics))


def n_measured(n_items: int, seconds: float) -> int:
    """Number of users that figures come from: fewer where the catalog is large for the budget.

    >>> n_measured(10_000, 120), n_measured(1_000_000, 900), n_measured(1_000_000, 60)
    (8000, 720, 300)
    """
    least, most = _MEASURED_USERS
    return int(min(max(_SCORES_PER_SECOND * seconds / n_items, least), most))


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
