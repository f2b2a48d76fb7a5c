"""One method against another on the same users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tastespace.paper.cells import Finished


@dataclass(frozen=True)
class Difference:
    """One method against another on the same users."""

    mean: float
    """First minus second."""
    p_value: float
    n_users: int


def paired(first: Sequence[Finished], second: Sequence[Finished], metric: str) -> Difference:
    """Paired t-test over users, each user's figure being the mean over seeds."""
    # Who does not count for a metric does not in any seed, so a plain mean leaves them out.
    a, b = (np.mean([run.per_user[metric] for run in runs], axis=0) for runs in (first, second))
    known = ~(np.isnan(a) | np.isnan(b))
    gap = a[known] - b[known]
    if not len(gap) or not gap.any():
        return Difference(0.0, 1.0, len(gap))
    p = float(stats.ttest_rel(a[known], b[known]).pvalue)
    return Difference(float(gap.mean()), 1.0 if math.isnan(p) else p, len(gap))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: below 0.05 means significant among all of them at 5 %.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    found = [1.0] * len(p_values)
    largest = 0.0
    for place, at in enumerate(order):
        largest = max(largest, min(1.0, p_values[at] * (len(p_values) - place)))
        found[at] = largest
    return found
