"""Values of policies that were not used, from a log in which what was shown was drawn with known probabilities.

Inverse propensity scoring (IPS) weighs each reward by how much more often the other policy would have shown the same:
``mean(reward * target / propensity)``. It is unbiased where everything that the policy may show had a propensity above
0. Self-normalized (SNIPS), the weights are divided by their mean: a little biased, with much less variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tastespace.errors import DataError


@dataclass(frozen=True)
class Estimate:
    """The value of a policy with its interval."""

    value: float
    low: float
    high: float
    n: int
    """Decisions in the log."""
    n_effective: float
    """As many decisions of the policy itself would say about as much (Kish)."""


def ips(
    rewards: ArrayLike, propensities: ArrayLike, target: ArrayLike, groups: ArrayLike | None = None, level: float = 0.95
) -> Estimate:
    """Return the mean reward of a policy from the log of another.

    Args:
        rewards: Of each decision, shape ``(n,)``.
        propensities: Probability with which the log's policy took each decision, above 0.
        target: Probability with which the other policy would have taken it.
        groups: Decisions that belong together, such as those for one user: whole numbers; None: all are independent.
        level: Probability that the interval holds the value.

    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 4, 20_000)  # drawn uniformly of four, which are worth 0.1, 0.2, 0.3, 0.4
    >>> reward = rng.random(20_000) < 0.1 * (1 + action)
    >>> found = ips(reward, np.full(20_000, 0.25), action == 3)
    >>> found.low < 0.4 < found.high
    True
    """
    reward, weight, group = _checked(rewards, propensities, target, groups)
    n = len(reward)
    value = float((reward * weight).mean())
    deviations = np.bincount(group, reward * weight - value)
    return _estimate(value, deviations, float(n), weight, level)


def snips(
    rewards: ArrayLike, propensities: ArrayLike, target: ArrayLike, groups: ArrayLike | None = None, level: float = 0.95
) -> Estimate:
    """Return the same with weights that are divided by their mean; arguments as in `ips`.

    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 4, 20_000)
    >>> found = snips(np.ones(20_000), np.full(20_000, 0.25), action == 3)
    >>> found.value, found.high - found.low  # every reward is 1, and so is the value
    (1.0, 0.0)
    """
    reward, weight, group = _checked(rewards, propensities, target, groups)
    total = float(weight.sum())
    if total == 0:
        return Estimate(float("nan"), float("-inf"), float("inf"), len(reward), 0.0)
    value = float((reward * weight).sum() / total)
    deviations = np.bincount(group, weight * (reward - value))
    return _estimate(value, deviations, total, weight, level)


def _estimate(
    value: float, deviations: NDArray[Any], size: float, weight: NDArray[np.float64], level: float
) -> Estimate:
    n_groups = len(deviations)
    error = float(np.sqrt((deviations**2).sum() * n_groups / max(1, n_groups - 1)) / size)
    half = NormalDist().inv_cdf(0.5 + level / 2) * error
    squares = float((weight**2).sum())
    return Estimate(
        value, value - half, value + half, len(weight), float(weight.sum()) ** 2 / squares if squares else 0.0
    )


def _checked(
    rewards: ArrayLike, propensities: ArrayLike, target: ArrayLike, groups: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    reward, propensity, wanted = (np.asarray(one, dtype=np.float64) for one in (rewards, propensities, target))
    if reward.ndim != 1 or not reward.shape == propensity.shape == wanted.shape or not len(reward):
        raise DataError(
            f"rewards, propensities and target have shapes {reward.shape}, {propensity.shape}, {wanted.shape}: "
            "expected one number per decision of each, and at least one decision."
        )
    if not ((propensity > 0) & (propensity <= 1)).all() or not ((wanted >= 0) & (wanted <= 1)).all():
        raise DataError("propensities have to be above 0 and at most 1, target probabilities from 0 to 1.")
    if groups is None:
        return reward, wanted / propensity, np.arange(len(reward))
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    return reward, wanted / propensity, group.reshape(-1)
