"""Proposals of parameters to try next, from the scores so far: every combination of a space at most once.

Optuna's tree-structured Parzen estimator proposes where it is installed (the `tune` extra); without it the neighbors of
the best combination are tried, one parameter at a time, and every fourth one at random. Values of a parameter are
ordered, so what is searched is the index of a value. A sequence is a function of the space, the seed and the scores.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tastespace.tuning.spaces import Space

_STARTUP = 5  # random trials before the estimator proposes
_REPEATS = 20  # proposals of what was tried already, before something new is taken at random
_RANDOM_EVERY = 4  # without Optuna
_LISTED = 100_000  # combinations up to which those left are listed rather than guessed

Place = tuple[int, ...]
"""Index of the value of each parameter."""


def make_proposals(space: Space, seed: int, first: Mapping[str, Any] | None = None) -> Proposals:
    """Proposals by Optuna where it is installed, else by neighbors of the best; the first is ``first``.

    >>> found = make_proposals({"dim": (8, 16, 32), "alpha": (0.1, 1.0)}, seed=0, first={"dim": 8})
    >>> next(iter(found))
    {'dim': 8, 'alpha': 1.0}
    """
    kind = NeighborProposals if _optuna() is None else EstimatorProposals
    return kind(space, seed, first)


class Proposals(ABC):
    """Iterate to get the next combination, and `tell` its score before the one after it."""

    def __init__(self, space: Space, seed: int, first: Mapping[str, Any] | None = None) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._scores: dict[Place, float] = {}
        self._size = math.prod(len(values) for values in space.values())
        self._first = self._indices(first or {})
        self._now: Place = ()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while len(self._scores) < self._size:
            self._now = self._propose()
            named = zip(self._space.items(), self._now, strict=True)
            yield {name: values[at] for (name, values), at in named}

    def tell(self, score: float) -> None:
        """The score of the combination proposed last; larger is better."""
        self._scores[self._now] = score

    @abstractmethod
    def _propose(self) -> Place:
        """A combination that was not tried yet."""

    def _new_at_random(self) -> Place:
        if self._size <= _LISTED:
            shape = tuple(len(values) for values in self._space.values())
            tried = {int(np.ravel_multi_index(place, shape)) if shape else 0 for place in self._scores}
            left = [at for at in range(self._size) if at not in tried]
            at = left[int(self._rng.integers(len(left)))]
            return tuple(int(one) for one in np.unravel_index(at, shape)) if shape else ()
        while True:
            pick = tuple(int(self._rng.integers(len(values))) for values in self._space.values())
            if pick not in self._scores:
                return pick

    def _indices(self, wanted: Mapping[str, Any]) -> Place:
        """Indices of the wanted values; the middle where nothing, or something else, is wanted."""
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()}  # of JSON
        return tuple(
            values.index(plain[name]) if name in plain and plain[name] in values else len(values) // 2
            for name, values in self._space.items()
        )


class NeighborProposals(Proposals):
    """Proposals without Optuna: one step in one parameter from the best, and sometimes a random combination."""

    def _propose(self) -> Place:
        if not self._scores:
            return self._first
        if len(self._scores) % _RANDOM_EVERY:
            best = max(self._scores, key=lambda place: self._scores[place])
            near = [place for place in self._neighbors(best) if place not in self._scores]
            if near:
                return near[int(self._rng.integers(len(near)))]
        return self._new_at_random()

    def _neighbors(self, place: Place) -> list[Place]:
        sizes = [len(values) for values in self._space.values()]
        moved = [(at, index + step) for at, index in enumerate(place) for step in (1, -1)]
        return [(*place[:at], to, *place[at + 1 :]) for at, to in moved if 0 <= to < sizes[at]]


class EstimatorProposals(Proposals):
    """Proposals of Optuna: ``first``, some at random, then what its estimator expects to be best."""

    def __init__(self, space: Space, seed: int, first: Mapping[str, Any] | None = None) -> None:
        super().__init__(space, seed, first)
        optuna = _optuna()
        assert optuna is not None
        self._ranges = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1) for name, values in space.items()
        }
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._study.enqueue_trial(dict(zip(space, self._first, strict=True)))
        self._trial: Any = None

    def tell(self, score: float) -> None:
        """The score of the combination proposed last."""
        super().tell(score)
        self._study.tell(self._trial, score)

    def _propose(self) -> Place:
        for _ in range(_REPEATS):
            place = self._ask()
            known = self._scores.get(place)
            if known is None:
                return place
            self._study.tell(self._trial, known)
        self._study.enqueue_trial(dict(zip(self._space, self._new_at_random(), strict=True)))
        return self._ask()

    def _ask(self) -> Place:
        self._trial = self._study.ask(self._ranges)
        return tuple(self._trial.params[name] for name in self._space)


def _optuna() -> Any:
    """The package, None where it is not installed."""
    try:
        import optuna
    except ImportError:
        return None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
