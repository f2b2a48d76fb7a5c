"""Trials of the recipe: a search for each family of models, within a budget of time or of trials."""

from __future__ import annotations

import contextlib
import inspect
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tastespace.data.attributes import category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import TastespaceError
from tastespace.evaluation import evaluate
from tastespace.models import (
    ALS,
    CML,
    DPCML,
    EASE,
    CategoryPopular,
    Recommender,
    RP3beta,
    SparseEASE,
)
from tastespace.models.blend.weights import Accuracy
from tastespace.models.linear.ease import MOST_FOR_COMPARISON
from tastespace.models.trained import TrainedRecommender

# ---------------------------------------------------------------------------------------------------------------------
# Models of the recipe as short text: class and the parameters that its searches vary.

_SAME_IN_ALL_TRIALS = (
    "epochs",
    "patience",
    "validate_every",
    "max_minutes",
    "seed",
    "threads",
    "frequency_power",
    "learning_rate",
    *DPCML.paper_form(),
)


def short_name(model: Recommender, others: Iterable[Recommender] = ()) -> str:
    """Class and changed parameters, without those that are the same in all trials.

    A parameter that another model of the class has changed is shown as well, so that they can be compared.

    >>> from tastespace.models import ALS
    >>> short_name(ALS(alpha=8.0, seed=3)), short_name(ALS(), [ALS(alpha=8.0)])
    ('ALS(alpha=8.0)', 'ALS(alpha=1.0)')
    """
    shown = _changed(model).union(*(_changed(other) for other in others if type(other) is type(model)))
    parameters = model.get_params(deep=False).items()
    return f"{type(model).__name__}({', '.join(f'{name}={value!r}' for name, value in parameters if name in shown)})"


def _changed(model: Recommender) -> set[str]:
    defaults: dict[str, Any] = {name: one.default for name, one in inspect.signature(type(model)).parameters.items()}
    values = model.get_params(deep=False).items()
    return {name for name, value in values if value != defaults[name] and name not in _SAME_IN_ALL_TRIALS}


# ---------------------------------------------------------------------------------------------------------------------
# The models that the recipe tries: a search for each family of models, one model after the other.
#
# A search is a generator. It yields an unfitted model, is sent how well that did on held-out data, and decides from
# that what to yield next. So every search starts with a setting that is good on most data and then follows the data,
# and the number of models tried decides how far it gets.

Search = Generator[Recommender, float, None]
Value = TypeVar("Value")

ALWAYS_TRIED = ("linear", "several vectors")
"""Families with one model at least, however small the budget: a blend without vectors has no shelves."""
_MIN_GAIN = 0.003  # relative, from which a value counts as better
_SMALL = 2_000_000  # interactions times dimension / 100 up to which the largest dimension is tried


@dataclass(frozen=True)
class Family:
    """Models of one kind; the blend may hold one of each."""

    name: str
    search: Search
    like: str | None = None
    """A family whose models take about as long, for a first estimate."""
    seconds: float = 0.0
    """Estimated seconds of a model if there is no such family."""


def families(train: Interactions, seed: int, threads: int) -> list[Family]:
    """The searches, in the order in which they take turns."""
    found = [
        Family("linear", _sparse_ease(train, threads, user_power=0.0)),
        Family("several vectors", _metric(train, seed, threads, several=True)),
        Family("factorization", _als(train, seed, threads)),
        Family("one vector", _metric(train, seed, threads, several=False), like="several vectors"),
        Family("random walks", _random_walks(threads), like="linear"),
        Family("linear, users alike", _sparse_ease(train, threads, user_power=-0.5), like="linear"),
    ]
    if category_column(train.item_attributes) is not None:
        found.append(Family("popular by category", _category_popular(), like="linear"))
    if min(train.n_users, train.n_items) <= MOST_FOR_COMPARISON:
        found.append(Family("linear, all pairs", _ease(train, threads), seconds=ease_seconds(train)))
    return found


def ease_seconds(train: Interactions) -> float:
    """Estimate the seconds that one fit of EASE takes on a slow machine: its time grows with the cube."""
    return 10.0 * (min(train.n_users, train.n_items) / 6_000) ** 3


def _sparse_ease(train: Interactions, threads: int, user_power: float) -> Search:
    def make(value: float, n_neighbors: int = 100) -> Recommender:
        return SparseEASE(n_neighbors, regularization=value, user_power=user_power, threads=threads)

    value, _ = yield from _line(make, (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0), start=3)
    if user_power == 0 and train.n_items > 100:
        yield make(value, n_neighbors=300)


def _ease(train: Interactions, threads: int) -> Search:
    def make(value: float) -> Recommender:
        return EASE(regularization=value, threads=threads)

    # If an item has few users, its few co-occurrences must count; a fit takes long, so the start matters.
    users_per_item = train.n_interactions / train.n_items
    start = 1 if users_per_item < 15 else 2 if users_per_item < 60 else 3
    yield from _line(make, (10.0, 30.0, 100.0, 300.0, 1000.0), start)


def _random_walks(threads: int) -> Search:
    def make(alpha: float, beta: float) -> Recommender:
        return RP3beta(alpha=alpha, beta=beta, threads=threads)

    beta, best = yield from _line(lambda value: make(0.6, value), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 3)
    yield from _line(lambda value: make(value, beta), (0.4, 0.6, 0.8), 1, best)


def _category_popular() -> Search:
    power, _ = yield from _line(lambda value: CategoryPopular(power=value), (0.3, 0.5, 0.7, 1.0), start=1)
    yield CategoryPopular(power=power, logarithm=True)


def _als(train: Interactions, seed: int, threads: int) -> Search:
    def make(dim: int, alpha: float, regularization: float) -> Recommender:
        return ALS(dim=dim, alpha=alpha, regularization=regularization, frequency_power=1.0, seed=seed, threads=threads)

    # Confidence and regularization belong together: along this line the predictions keep their size.
    pairs = ((2.0, 15.0), (8.0, 30.0), (32.0, 100.0), (100.0, 300.0), (300.0, 900.0))
    (alpha, regularization), best = yield from _line(lambda pair: make(64, *pair), pairs, start=1)
    scales = (0.35, 0.6, 1.0, 1.7, 2.8)
    scale, best = yield from _line(lambda factor: make(64, alpha, factor * regularization), scales, 2, best)
    dims = [dim for dim in (128, 256, 512) if dim * train.n_interactions <= 100 * _SMALL or dim == 128]
    yield from _line(lambda dim: make(dim, alpha, scale * regularization), (64, *dims), 0, best)


def _metric(train: Interactions, seed: int, threads: int, several: bool) -> Search:
    def make(n_negatives: int, anchor: float = 0.5, n_interests: int = 3) -> Recommender:
        common: dict[str, Any] = {
            # Accuracy may stand still for twenty epochs and rise again.
            "n_negatives": n_negatives, "epochs": 150, "patience": 8, "validate_every": 3, "seed": seed,
            "threads": threads, "learning_rate": 0.1,
        }  # fmt: skip
        if not several:
            return CML(anchor=anchor, **CML.paper_form(), **common)
        return DPCML(anchor=anchor, n_interests=n_interests, **DPCML.paper_form(), **common)

    n_negatives, best = yield from _line(make, (1, 3, 10, 30, 100), start=2)
    anchor, best = yield from _line(lambda share: make(n_negatives, share), (0.0, 0.5, 1.0), 1, best)
    if several:
        yield from _line(lambda n: make(n_negatives, anchor, n), (2, 3, 4, 6), 1, best)


def _line(
    make: Callable[[Value], Recommender], values: Sequence[Value], start: int, best: float | None = None
) -> Generator[Recommender, float, tuple[Value, float]]:
    """Search along ordered values from one of them, upwards as long as it helps, else downwards.

    Gives the best value and its figure. ``best`` is the figure of the start where that was tried before.
    """
    at = start
    if best is None:
        best = yield make(values[at])
    for step in (1, -1):
        moved = False
        while 0 <= at + step < len(values):
            figure = yield make(values[at + step])
            if figure <= best * (1 + _MIN_GAIN):
                break
            best, at, moved = figure, at + step, True
        if moved:
            break
    return values[at], best


# ---------------------------------------------------------------------------------------------------------------------
# Runs the searches within a budget of time or of trials, each model fitted to one part and measured on the other.

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
    """Model, fitted to the data without the held-out part."""
    figures: Accuracy
    """Accuracy on the held-out part."""
    seconds: float
    """Time of fitting and measuring."""

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

    def allows(self, done: list[Trial], family: Family) -> bool:
        """Return True if there is time for another model of this family, and to fit the chosen ones to everything."""
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
        """Minutes left for a model that can stop training at a time limit; None if trials are counted."""
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
        if trial is None:  # the search continues as if the model had found nothing
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
    except (TastespaceError, MemoryError, np.linalg.LinAlgError) as problem:  # diverged, too large: the others continue
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
