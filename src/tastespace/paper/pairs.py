"""One method against another: on the same users, with the same seeds, or in the same genres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tastespace.paper.cells import Finished

_NO_SPREAD = 1e-9  # of the largest gap: below, it is rounding


@dataclass(frozen=True)
class Difference:
    """One method against another."""

    mean: float
    """How much better the first is."""
    p_value: float
    n: int
    """Users, seeds or genres that it is the mean over."""


def paired(first: Sequence[Finished], second: Sequence[Finished], metric: str) -> Difference:
    """Paired t-test over users, each user's figure being the mean over seeds."""
    # Who does not count for a metric does not in any seed, so a plain mean leaves them out.
    a, b = (np.mean([run.per_user[metric] for run in runs], axis=0) for runs in (first, second))
    return _compared(a, b)


def over_seeds(first: Sequence[Finished], second: Sequence[Finished], figure: str) -> Difference:
    """Paired t-test over seeds of what a whole run has, see `of_run`; a loss is better the smaller it is."""
    a, b = (np.array([of_run(run, figure) for run in runs]) for runs in (first, second))
    return _compared(b, a) if figure.endswith("loss") else _compared(a, b)


def over_genres(first: Sequence[Finished], second: Sequence[Finished], genres: Sequence[str]) -> Difference:
    """Paired t-test over genres of the MAP in each, which is a mean over seeds; genres without test items are left out.

    >>> one, other = (Finished({"metrics": {"MAP[a]": x, "MAP[b]": x + 1}}, {}) for x in (3.0, 2.5))
    >>> over_genres([one], [other], ["a", "b", "c"]).mean
    0.5
    """
    metrics = ([run.result["metrics"] for run in runs] for runs in (first, second))
    a, b = (
        np.array([np.mean([of.get(f"MAP[{genre}]", np.nan) for of in found]) for genre in genres]) for found in metrics
    )
    return _compared(a, b)


def of_run(run: Finished, figure: str) -> float:
    """``"train loss"`` of the epoch that was kept, or ``"validation X"`` or ``"test X"`` of what was kept.

    The loss is the hinge alone: the penalty of DCRS, which one vector does not have, is no part of the fit.
    """
    result = run.result
    if figure == "train loss":
        epoch = result["history"][max(result["best_epoch"], 1) - 1]
        return float(epoch.get("hinge", epoch["loss"]))
    part, metric = figure.split(" ", 1)
    return float(result[{"validation": "valid_metrics", "test": "metrics"}[part]][metric])


def _compared(a: NDArray[np.float64], b: NDArray[np.float64]) -> Difference:
    known = ~(np.isnan(a) | np.isnan(b))
    gap = a[known] - b[known]
    if not len(gap) or not gap.any():
        return Difference(0.0, 1.0, len(gap))
    if np.ptp(gap) <= _NO_SPREAD * np.abs(gap).max():  # one pair, or the same gap everywhere: nothing to test against
        return Difference(float(gap.mean()), 1.0, len(gap))
    return Difference(float(gap.mean()), float(stats.ttest_rel(a[known], b[known]).pvalue), len(gap))


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
