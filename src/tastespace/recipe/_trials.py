"""Trials of the recipe: a search for each family of models, within a budget of time or of trials."""

from __future__ import annotations

import contextlib
import inspect
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from tastespace._util.interrupts import time_limit
from tastespace._util.threads import resolve_threads
from tastespace.data.attributes import category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import TastespaceError, TimeLimitError
from tastespace.evaluation import evaluate
from tastespace.models import (
    ALS,
    CML,
    DPCML,
    EASE,
    CategoryPopular,
    Recommender,
    RP3beta,
    SoftmaxMF,
    SparseEASE,
    Spectral,
)
from tastespace.models.blend.weights import Accuracy
from tastespace.models.linear.ease import MOST_FOR_COMPARISON, usual_regularization
from tastespace.models.trained import TrainedRecommender
from tastespace.recipe._checkpoint import RecipeCheckpoint

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


def default(model: type[Recommender], name: str) -> Any:
    """Return the default of a parameter."""
    return inspect.signature(model).parameters[name].default


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
_MANY_ITEMS, _SPARSE = 6_000, 0.003  # items, and share of all pairs
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
    """The searches, in the order in which they take turns: what is best on data of this kind comes early."""
    large = is_large_and_sparse(train)
    linear = Family("linear", _sparse_ease(train, threads))
    several = Family("several vectors", _metric(train, seed, threads, several=True))
    softmax = Family("softmax", _softmax(train, seed, threads), like="several vectors")
    spectral = Family("graph filter", _spectral(train, seed, threads), like="linear")
    factorization = Family("factorization", _als(train, seed, threads), like="several vectors")
    walks = Family("random walks", _random_walks(train, threads), like="linear")
    one = Family("one vector", _metric(train, seed, threads, several=False), like="several vectors")
    all_pairs = []
    if min(train.n_users, train.n_items) <= MOST_FOR_COMPARISON:
        all_pairs = [Family("linear, all pairs", _ease(train, threads), seconds=ease_seconds(train))]
    if large:
        found = [linear, softmax, several, spectral, *all_pairs, factorization, walks, one]
    else:
        found = [linear, *all_pairs, several, softmax, factorization, one, walks]
    if category_column(train.item_attributes) is not None:
        found.append(Family("popular by category", _category_popular(), like="linear"))
    return found


def is_large_and_sparse(train: Interactions) -> bool:
    """Return True for a catalog of thousands of items of which a user has a few: one pair in 300 or less."""
    return train.n_items > _MANY_ITEMS and train.n_interactions < _SPARSE * train.n_users * train.n_items


def ease_seconds(train: Interactions) -> float:
    """Estimate the seconds that one fit of EASE takes on a slow machine: its time grows with the cube."""
    return 10.0 * (min(train.n_users, train.n_items) / 6_000) ** 3


class _Weights:
    """Use of the weights of interactions in a search: the powers that are tried, beginning with one that is moderate.

    The first line of a search is over them. Where the data has no weights, that is the one model with which the next
    line begins.
    """

    def __init__(self, train: Interactions) -> None:
        self._train = train
        self.powers = (1.0,) if train.weights is None else (0.0, 0.25, 0.5, 1.0)
        self.start = 0 if train.weights is None else 2

    def size(self, power: float, of_squares: bool = False) -> float:
        """Mean of the weights to a power, or of their squares, with three digits: what other parameters are in."""
        weights = self._train.powered(power).weights
        if weights is None:
            return 1.0
        values = np.square(weights, dtype=np.float64) if of_squares else np.abs(weights, dtype=np.float64)
        return float(f"{values.mean():.3g}")


def _sparse_ease(train: Interactions, threads: int) -> Search:
    weights = _Weights(train)

    def make(value: float, item_power: float, user_power: float, power: float, n_neighbors: int = 100) -> Recommender:
        value = float(f"{value * weights.size(power, of_squares=True):.3g}")
        return SparseEASE(
            n_neighbors, value, user_power=user_power, item_power=item_power, weight_power=power, threads=threads
        )

    large = is_large_and_sparse(train)
    item_power, user_power = 0.1 if large else 0.2, -0.25
    values, start = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0), 4 if large else 3
    power, best = yield from _line(
        lambda one: make(values[start], item_power, user_power, one), weights.powers, weights.start
    )
    value, best = yield from _line(lambda one: make(one, item_power, user_power, power), values, start, best)
    powers = (0.0, 0.1, 0.2, 0.35)
    item_power, best = yield from _line(
        lambda one: make(value, one, user_power, power), powers, powers.index(item_power), best
    )
    powers = (-0.4, -0.25, -0.1, 0.0)
    user_power, best = yield from _line(
        lambda one: make(value, item_power, one, power), powers, powers.index(user_power), best
    )
    if train.n_items > 100:
        yield make(value, item_power, user_power, power, n_neighbors=300)


def _ease(train: Interactions, threads: int) -> Search:
    weights = _Weights(train)
    found: dict[str, float] = {name: default(EASE, name) for name in ("dropout", "user_power", "item_power")}
    found["weight_power"] = weights.powers[weights.start]
    usual_values = dict(found)

    def make(factor: float, **changed: float) -> Recommender:
        given = {**found, **changed}
        usual = usual_regularization(train.powered(given["weight_power"]))
        return EASE(float(f"{factor * usual:.3g}"), threads=threads, **given)  # type: ignore[arg-type]

    factors = (0.25, 0.5, 1.0, 2.0, 4.0)
    power, best = yield from _line(lambda one: make(1.0, weight_power=one), weights.powers, weights.start)
    found["weight_power"] = usual_values["weight_power"] = power
    factor, best = yield from _line(make, factors, 2, best)
    lines = (
        ("user_power", (-0.5, -0.4, -0.25, -0.1, 0.0), 2),
        ("item_power", (0.0, 0.1, 0.2, 0.3, 0.45), 2),
        ("dropout", (0.0, 0.3, 0.5, 0.7), 2),
    )
    for name, values, start in lines:
        found[name], best = yield from _line(lambda one, name=name: make(factor, **{name: one}), values, start, best)  # type: ignore[misc]
    if found != usual_values:  # else all of these were tried
        yield from _line(make, factors, factors.index(factor), best)


def _spectral(train: Interactions, seed: int, threads: int) -> Search:
    weights = _Weights(train)
    used = weights.powers[weights.start]

    def make(low_pass_power: float, linear_power: float = 0.5, weight: float = 0.3) -> Recommender:
        return Spectral(256, weight, low_pass_power, linear_power, seed=seed, threads=threads, weight_power=used)

    def weighted(power: float) -> Recommender:
        nonlocal used
        used = power
        return make(0.5)

    used, best = yield from _line(weighted, weights.powers, weights.start)
    power, best = yield from _line(make, (0.3, 0.5, 0.7), 1, best)
    linear, best = yield from _line(lambda one: make(power, one), (0.5, 0.6, 0.7), 0, best)
    yield from _line(lambda one: make(power, linear, one), (0.1, 0.3, 1.0), 1, best)


def _softmax(train: Interactions, seed: int, threads: int) -> Search:
    def make(temperature: float) -> Recommender:
        return SoftmaxMF(temperature=temperature, seed=seed, threads=threads)

    yield from _line(make, (0.07, 0.1, 0.15, 0.2), start=1 if is_large_and_sparse(train) else 2)


def _random_walks(train: Interactions, threads: int) -> Search:
    weights = _Weights(train)

    def make(alpha: float, beta: float, power: float) -> Recommender:
        return RP3beta(alpha=alpha, beta=beta, weight_power=power, threads=threads)

    power, best = yield from _line(lambda one: make(0.6, 0.3, one), weights.powers, weights.start)
    beta, best = yield from _line(lambda one: make(0.6, one, power), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 3, best)
    yield from _line(lambda one: make(one, beta, power), (0.4, 0.6, 0.8), 1, best)


def _category_popular() -> Search:
    power, _ = yield from _line(lambda value: CategoryPopular(power=value), (0.3, 0.5, 0.7, 1.0), start=1)
    yield CategoryPopular(power=power, logarithm=True)


def _als(train: Interactions, seed: int, threads: int) -> Search:
    weights = _Weights(train)

    def make(dim: int, alpha: float, regularization: float, used: float | None = None) -> Recommender:
        used = power if used is None else used
        return ALS(
            dim=dim, alpha=float(f"{alpha / weights.size(used):.3g}"), regularization=regularization,
            frequency_power=1.0, seed=seed, threads=threads, weight_power=used,
        )  # fmt: skip

    # Confidence and regularization belong together: along this line the predictions keep their size.
    pairs = ((2.0, 15.0), (8.0, 30.0), (32.0, 100.0), (100.0, 300.0), (300.0, 900.0))
    power, best = yield from _line(lambda one: make(64, *pairs[1], one), weights.powers, weights.start)
    (alpha, regularization), best = yield from _line(lambda pair: make(64, *pair), pairs, 1, best)
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

_VALIDATED_USERS = 2_000  # on which the best epoch is chosen
_MEASURED_USERS = 300, 4_000  # at least, at most
_SCORES_PER_SECOND = 800_000  # of the budget, for measuring one model
_REFIT = 1.4  # time of a fit to everything, relative to one without the held-out part
_USUAL_MEMBERS = 4  # of a blend, for which time is kept
_SLOWER = 1.3  # the next model of a family may take longer than the last
_LONGEST = 0.25  # share of the budget that one model may train
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

    def minutes_left(self, done: list[Trial]) -> float | None:
        """Minutes left for a model that can stop training at a time limit; None if trials are counted."""
        if self.seconds is None:
            return None
        left = (self.seconds - self.elapsed - self.reserve(done)) / (1 + _REFIT)
        return max(_LEAST_SECONDS, min(left, _LONGEST * self.seconds)) / 60

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
        trial = _tried(family.name, model, setting, done) if row is None else _recorded(family.name, model, row)
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


def _tried(family: str, model: Recommender, setting: Setting, done: list[Trial]) -> Trial:
    """Fit, measure and record a model."""
    budget, start = setting.budget, time.monotonic()
    setting.report(f"{family}: {short_name(model)}")
    trial = Trial(family, model, Accuracy(0.0, 0.0, float("nan")), 0.0)
    try:
        minutes, limit = budget.minutes_left(done), budget.limit(done, family)
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
    (4000, 720, 300)
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
