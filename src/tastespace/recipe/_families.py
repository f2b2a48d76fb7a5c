"""The models that the recipe tries: a search for each family of models, one model after the other.

A search is a generator. It yields an unfitted model, is sent how well that did on held-out data, and decides from that
what to yield next. So every search starts with a setting that is good on most data and then follows the data, and the
number of models tried decides how far it gets.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tastespace.data.attributes import category_column
from tastespace.data.interactions import Interactions
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
from tastespace.models.linear.ease import MOST_FOR_COMPARISON, usual_regularization

Search = Generator[Recommender, float, None]
Value = TypeVar("Value")

ALWAYS_TRIED = ("linear", "several vectors")
"""Families with one model at least, however small the budget: vectors group past items into tastes."""
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
    longest: float = 0.25
    """Share of the budget that one model may train."""


def families(train: Interactions, seed: int, threads: int) -> list[Family]:
    """The searches, in the order in which they take turns: what is best on data of this kind comes early.

    On large sparse data distances rank worse than cosines, and take longer than all others.
    """
    large = is_large_and_sparse(train)
    linear = Family("linear", _sparse_ease(train, threads))
    several = Family("several vectors", _metric(train, seed, threads, several=True), longest=0.1 if large else 0.25)
    softmax = Family("softmax", _softmax(train, seed, threads), like="several vectors")
    spectral = Family("graph filter", _spectral(train, seed, threads), like="linear")
    factorization = Family("factorization", _als(train, seed, threads), like="several vectors")
    walks = Family("random walks", _random_walks(train, threads), like="linear")
    one = Family("one vector", _metric(train, seed, threads, several=False), like="several vectors")
    all_pairs = []
    if min(train.n_users, train.n_items) <= MOST_FOR_COMPARISON:
        all_pairs = [Family("linear, all pairs", _ease(train, threads), seconds=ease_seconds(train))]
    if large:
        found = [linear, softmax, spectral, walks, *all_pairs, factorization, several]
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
