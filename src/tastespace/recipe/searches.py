"""What the recipe tries: a search for each family of models, one model after the other.

A search is a generator. It yields an unfitted model, is sent how well that did on held-out data, and decides from that
what to yield next. So every search starts with a setting that is good on most data and then follows the data, and the
number of models tried decides how far it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tastespace.data.categories import category_column
from tastespace.data.interactions import Interactions
from tastespace.models import ALS, CML, DPCML, EASE, CategoryPopular, Recommender, RP3beta, SparseEASE

Search = Generator[Recommender, float, None]
Value = TypeVar("Value")

ALWAYS_TRIED = ("linear", "several vectors")
"""Families with one model at least, however small the budget: a blend without vectors has no shelves."""
_MIN_GAIN = 0.003  # relative, from which a value counts as better
_EASE_LIMIT = 6_000  # users or items, whichever are fewer: above, its closed form takes too long
_SMALL = 2_000_000  # interactions times dimension / 100 up to which the largest dimension is tried


@dataclass(frozen=True)
class Family:
    """Models of one kind; the blend may hold one of each."""

    name: str
    search: Search
    like: str | None = None
    """A family whose models take about as long, for a first estimate."""
    seconds: float = 0.0
    """The estimate where there is no such family."""


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
    smaller_side = min(train.n_users, train.n_items)
    if smaller_side <= _EASE_LIMIT:
        # Its time grows with the cube; this is a slow machine's.
        found.append(
            Family("linear, all pairs", _ease(train, threads), seconds=10.0 * (smaller_side / _EASE_LIMIT) ** 3)
        )
    return found


def _sparse_ease(train: Interactions, threads: int, user_power: float) -> Search:
    def make(value: float, n_neighbors: int = 100) -> Recommender:
        return SparseEASE(n_neighbors, regularization=value, user_power=user_power, threads=threads)

    value, _ = yield from _line(make, (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0), start=3)
    if user_power == 0 and train.n_items > 100:
        yield make(value, n_neighbors=300)


def _ease(train: Interactions, threads: int) -> Search:
    def make(value: float) -> Recommender:
        return EASE(regularization=value, threads=threads)

    # Where an item has few users, its few co-occurrences must count; a fit takes long, so the start matters.
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
            "threads": threads,
        }  # fmt: skip
        if not several:
            return CML(anchor=anchor, **common)
        return DPCML(anchor=anchor, n_interests=n_interests, **common)

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
