"""Tests of differences: paired tests, Holm's correction, and bootstrap intervals.

SciPy's statistics are imported inside the functions: they take longer to import than the rest of the package.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_ROUNDING = 1e-9  # of the largest difference: what varies less than this is constant up to rounding
_TIED_DIGITS = 12  # of the largest difference: what agrees in these ties for the ranks of Wilcoxon's test
_DRAWS_AT_ONCE = 2_000_000  # bounds the memory of the bootstrap


def paired_t_test(differences: ArrayLike) -> float:
    """Two-sided p-value of the paired t-test for a mean difference of 0.

    Differences that are all the same (up to rounding) have no variance, and the t statistic, mean over standard
    error, is not defined. They get the p-value of the exact sign-flip test instead, which needs no variance: if
    either sign were as likely for each pair, all n would agree with probability ``2^(1-n)``. One pair then says
    nothing (p = 1), a few equal differences are weak evidence (n = 3: 0.25) and many are strong. Differences of
    exactly 0 for all have p = 1.

    Args:
        differences: One per user, seed or whatever the pairs are, shape ``(n,)``, without NaN.

    Returns:
        A number from 0 to 1, NaN for no pairs at all.

    >>> round(paired_t_test([1.0, 2.0, 4.0]), 3)
    0.118
    >>> paired_t_test([2.0, 2.0, 2.0]), paired_t_test([2.0]), paired_t_test([0.0, 0.0])
    (0.25, 1.0, 1.0)
    """
    values = np.asarray(differences, dtype=np.float64)
    if not len(values):
        return float("nan")
    if not values.any():
        return 1.0
    if np.ptp(values) <= _ROUNDING * np.abs(values).max():
        return float(2.0 ** (1 - len(values)))
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(values, 0.0).pvalue)


def wilcoxon_test(differences: ArrayLike) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test for differences symmetric about 0; exact for few pairs.

    Differences that agree in 12 digits tie, so that the p-value does not depend on rounding or on the unit.

    Args:
        differences: As in `paired_t_test`.

    >>> wilcoxon_test([1.0, 2.0, 3.0, 4.0, 5.0])
    0.0625
    """
    values = np.asarray(differences, dtype=np.float64)
    if not len(values):
        return float("nan")
    if not values.any():
        return 1.0
    from scipy.stats import wilcoxon

    relative = np.round(values / np.abs(values).max(), _TIED_DIGITS)
    return float(wilcoxon(relative, zero_method="wilcox").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: below 0.05 means significant among all of them at 5 %.

    NaN is no test: it stays NaN and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [float("nan")] * len(p_values)
    order = sorted((i for i, p in enumerate(p_values) if not np.isnan(p)), key=lambda i: p_values[i])
    largest = 0.0
    for step, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - step) * p_values[index]))
        corrected[index] = largest
    return corrected


def bootstrap_interval(
    values: NDArray[np.float64], resamples: int = 2_000, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of ``values``.

    Args:
        values: One per user, shape ``(n,)``, without NaN.
        resamples: Number of resamples of the users.
        confidence: Share of the resamples' means inside the interval, between 0 and 1.
        seed: Of the resamples.

    Returns:
        The lower and the upper end; both the value itself where there is only one.

    >>> low, high = bootstrap_interval(np.arange(100.0))
    >>> low < 49.5 < high
    True
    """
    if len(values) < 2:  # which SciPy refuses
        return float(values[0]), float(values[0])
    from scipy.stats import bootstrap

    found = bootstrap(
        (values,),
        np.mean,
        n_resamples=resamples,
        batch=max(1, _DRAWS_AT_ONCE // len(values)),
        confidence_level=confidence,
        method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)
