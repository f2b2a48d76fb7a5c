"""Rates with intervals, and comparisons that may be looked at every day; users are the units, not lists.

Lists of one user resemble each other: a test that counts each as a trial of its own is too sure. All variances here
are between users (the ratio estimator and its linearization).

The comparison is a mixture sequential probability ratio test (Robbins 1970; Johari et al. 2017), the interval the
confidence sequence that belongs to it: with probability 1 - alpha it holds the true difference at all times at which
somebody looks, so an experiment may be ended when it excludes 0. The mixture is a normal distribution that makes the
interval narrowest near ``planned`` users. It rests on the normal approximation of means over users, for which there
have to be some: see `compare`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tastespace.errors import DataError

FEWEST_USERS, FEWEST_SUCCESSES = 100, 20
"""In each arm, below which nothing is said of a difference."""
_Floats = NDArray[np.float64]


def wilson(successes: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's interval of a proportion; 0 to 1 where nothing is known.

    >>> [round(one, 4) for one in wilson(8, 10)], wilson(0, 0)
    ([0.4902, 0.9433], (0.0, 1.0))
    """
    if n <= 0:
        return 0.0, 1.0
    z, p = _quantile(level), successes / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True)
class Rate:
    """A share of successes with its interval."""

    value: float
    """NaN where there were no trials."""
    low: float
    high: float
    successes: int
    trials: int
    users: int


def rate(successes: ArrayLike, trials: ArrayLike, level: float = 0.95) -> Rate:
    """Return the share of successes of all trials with Wilson's interval for as many trials as they are worth.

    Args:
        successes: Of each user, shape ``(n_users,)``.
        trials: Of each user, at least as many.
        level: Probability that the interval holds the rate.

    >>> alone, together = rate([1] * 10 + [0] * 90, [1] * 100), rate([10] + [0] * 9, [10] * 10)
    >>> alone.value == together.value, alone.high < together.high  # ten clicks of one person say less
    (True, True)
    """
    won, tried = _units(successes, trials)
    n, total = float(tried.sum()), float(won.sum())
    if n == 0:
        return Rate(math.nan, 0.0, 1.0, 0, 0, 0)
    p = total / n
    worth = float(len(tried))  # where all users are alike, there is no way to know more
    if 0 < p < 1 and len(tried) > 1:
        worth = min(n, p * (1 - p) / max(_variance(won, tried), 1e-300))
    return Rate(p, *wilson(p * worth, worth, level), int(total), int(n), len(tried))


@dataclass(frozen=True)
class Comparison:
    """Difference of two rates, with an interval that holds at any time at which one looks."""

    difference: float
    low: float
    high: float
    p_value: float
    """Always valid: below alpha at some time with a probability of at most alpha where there is no difference."""
    is_enough: bool
    """False with too few users or successes, where the interval is -1 to 1."""

    @property
    def is_different(self) -> bool:
        """True where the interval excludes 0."""
        return self.is_enough and (self.low > 0 or self.high < 0)


def compare(
    successes: tuple[ArrayLike, ArrayLike],
    trials: tuple[ArrayLike, ArrayLike],
    alpha: float = 0.05,
    planned: int = 2_000,
) -> Comparison:
    """Return the difference of two rates, the second minus the first, with an interval that holds at all times.

    Args:
        successes: Of each user of the first arm, and of each of the second.
        trials: The same of the trials.
        alpha: Probability that any of the intervals misses the true difference.
        planned: Users of both arms near which the interval is narrowest, chosen before the experiment.

    >>> rng = np.random.default_rng(0)
    >>> lists = np.full(3_000, 5)
    >>> found = compare((rng.binomial(lists, 0.10), rng.binomial(lists, 0.14)), (lists, lists))
    >>> found.is_different, 0.02 < found.difference < 0.06
    (True, True)
    """
    if not 0 < alpha < 1:
        raise DataError(f"alpha={alpha!r}: expected a number between 0 and 1, such as 0.05.")
    arms = [_units(*one) for one in zip(successes, trials, strict=True)]
    if any(len(tried) < FEWEST_USERS or won.sum() < FEWEST_SUCCESSES for won, tried in arms):
        rates = [won.sum() / tried.sum() if tried.sum() else math.nan for won, tried in arms]
        return Comparison(float(rates[1] - rates[0]), -1.0, 1.0, 1.0, False)
    first, second = (float(won.sum() / tried.sum()) for won, tried in arms)
    variance = sum(_variance(*one) for one in arms)
    difference = second - first
    if variance <= 0:  # nobody differs from anybody of the same arm
        return Comparison(difference, -1.0, 1.0, 1.0, False)
    mixed = variance * sum(len(tried) for _, tried in arms) / planned
    whole = variance + mixed
    half = math.sqrt(2 * variance * whole / mixed * math.log(math.sqrt(whole / variance) / alpha))
    evidence = -0.5 * math.log(whole / variance) + mixed * difference**2 / (2 * variance * whole)
    return Comparison(difference, difference - half, difference + half, min(1.0, math.exp(min(0.0, -evidence))), True)


def _units(successes: ArrayLike, trials: ArrayLike) -> tuple[_Floats, _Floats]:
    """Successes and trials of those who have trials."""
    won, tried = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if won.shape != tried.shape or won.ndim != 1:
        raise DataError(
            f"successes and trials have shapes {won.shape} and {tried.shape}: expected one number per user."
        )
    if (won > tried).any() or (won < 0).any():
        raise DataError("somebody has more successes than trials, or fewer than 0: expected 0 to the number of trials.")
    return won[tried > 0], tried[tried > 0]


def _variance(won: _Floats, tried: _Floats) -> float:
    """Variance of the ratio of the sums, users being drawn independently."""
    n = len(tried)
    if n < 2:
        return 0.0
    left = won - won.sum() / tried.sum() * tried
    return float((left**2).sum() * n / (n - 1) / tried.sum() ** 2)


def _quantile(level: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + level / 2)
