"""Which parameters to try next: Optuna's tree-structured Parzen estimator over ordered values (the `tune` extra)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tastespace.errors import ParameterError

Space = dict[str, tuple[Any, ...]]

_STARTUP = 5  # trials before the estimator is believed
_REPEATS = 20  # of what was tried already, before something new is taken at random


class Proposals:
    """Every combination at most once: first a good guess, then what the estimator expects to be best.

    Values of a parameter are ordered, so what is searched is the place of a value. The sequence is a function of the
    space, the seed and the scores told.
    """

    def __init__(self, space: Space, seed: int, first: dict[str, Any] | None = None) -> None:
        optuna = _require_optuna()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._scores: dict[tuple[int, ...], float] = {}
        self._size = int(np.prod([len(values) for values in space.values()])) if space else 1
        self._ranges = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1) for name, values in space.items()
        }
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._study.enqueue_trial(self._places(first or {}))
        self._trial: Any = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while len(self._scores) < self._size:
            self._trial = self._ask()
            yield {name: values[self._trial.params[name]] for name, values in self._space.items()}

    def tell(self, score: float) -> None:
        """The score of the trial proposed last."""
        self._study.tell(self._trial, score)
        self._scores[self._key(self._trial)] = score

    def _ask(self) -> Any:
        for _ in range(_REPEATS):
            trial = self._study.ask(self._ranges)
            known = self._scores.get(self._key(trial))
            if known is None:
                return trial
            self._study.tell(trial, known)
        while True:  # the estimator insists on what it has seen
            pick = {name: int(self._rng.integers(len(values))) for name, values in self._space.items()}
            if tuple(pick.values()) not in self._scores:
                self._study.enqueue_trial(pick)
                return self._study.ask(self._ranges)

    def _key(self, trial: Any) -> tuple[int, ...]:
        return tuple(trial.params[name] for name in self._space)

    def _places(self, wanted: dict[str, Any]) -> dict[str, int]:
        """Where the wanted values stand; the middle where nothing, or something else, is wanted."""
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()}  # of JSON
        return {
            name: values.index(plain[name]) if name in plain and plain[name] in values else len(values) // 2
            for name, values in self._space.items()
        }


def _require_optuna() -> Any:
    try:
        import optuna
    except ImportError as problem:
        raise ParameterError(
            "tuning needs Optuna, which is not installed: pip install 'tastespace[tune]'."
        ) from problem
    return optuna
