"""Comparison of two models over users: paired tests, Holm's correction, bootstrap intervals, and a table of them.

SciPy's statistics are imported inside the functions: they take longer to import than the rest of the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from rich.table import Table

from tastespace.data.reading.tables import from_polars
from tastespace.errors import ParameterError
from tastespace.evaluation.report import PERCENT, Report, require_same_units

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


def hierarchical_bootstrap(differences: ArrayLike, draws: int = 2000, seed: int = 0) -> float:
    """Two-sided p-value for a mean difference of 0 over seeds and users: both are drawn anew, with replacement.

    The mean over the seeds' mean over the users is drawn so often for its standard error; the p-value is that of the
    normal distribution. With one seed only the users vary. Two or three seeds vary less in such draws than trainings
    do: their p-values are too small rather than too large.

    Args:
        differences: Of each seed and user, shape ``(n_seeds, n_users)``; NaN where a user does not count.
        draws: Number of draws.
        seed: Of the draws.

    >>> gaps = np.array([[1.0, 2.0, 4.0, 1.0], [2.0, 2.0, 3.0, 1.0]])
    >>> hierarchical_bootstrap(gaps) < 0.01, hierarchical_bootstrap(gaps - gaps.mean()) > 0.9
    (True, True)
    """
    values = np.atleast_2d(np.asarray(differences, dtype=np.float64))
    counted = ~np.isnan(values)
    if not counted.any():
        return float("nan")
    gaps = np.where(counted, values, 0.0)
    mean = gaps.sum() / counted.sum()
    if not gaps.any():
        return 1.0
    if np.ptp(values[counted]) <= _ROUNDING * np.abs(gaps).max():
        return float(2.0 ** (1 - counted.any(axis=0).sum()))  # as of the paired t-test
    n_seeds, n_users = values.shape
    of_users = _user_draws(n_users, draws, seed)
    totals, sizes = gaps @ of_users, counted @ of_users  # of each seed, by draw
    of_seeds = np.random.default_rng([seed, 1]).multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=draws).T
    size = (sizes * of_seeds).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = float(np.nanstd(np.where(size > 0, (totals * of_seeds).sum(axis=0) / size, np.nan)))
    return math.erfc(abs(mean) / (spread * math.sqrt(2))) if spread > 0 else 0.0


@lru_cache(maxsize=4)
def _user_draws(n_users: int, draws: int, seed: int) -> NDArray[np.float32]:
    """Number of times that each user is in each draw, shape ``(n_users, draws)``."""
    drawn = np.random.default_rng([seed, 0]).integers(0, n_users, (draws, n_users))
    return np.stack([np.bincount(row, minlength=n_users) for row in drawn], axis=1).astype(np.float32)


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


@dataclass(frozen=True)
class Row:
    """One metric of a comparison."""

    metric: str
    unit: str
    """Unit of a, b, the difference and its interval."""
    n_users: int
    a: float
    b: float
    difference: float
    """Mean of b - a over the users."""
    low: float
    high: float
    """Bootstrap interval of the difference."""
    p_t: float
    """Paired t-test, see `tastespace.evaluation.significance.paired_t_test`."""
    p_wilcoxon: float
    """Wilcoxon signed-rank test."""
    p_t_corrected: float
    p_wilcoxon_corrected: float
    """Both after Holm's correction for the number of metrics compared. Interval and p-values are NaN for a metric of
    all lists together, such as Coverage, and where no user counts in both reports."""

    @property
    def is_tested(self) -> bool:
        """True if there are pairs of values to test."""
        return not np.isnan(self.p_t)


@dataclass(frozen=True)
class Comparison:
    """Result of `compare`, one row per metric."""

    a: str
    b: str
    rows: tuple[Row, ...]
    confidence: float
    backend: str = "polars"
    only_in_one: tuple[str, ...] = ()
    """Metrics that only one of the reports has, and that were not compared for this reason."""

    def __getitem__(self, metric: str) -> Row:
        for row in self.rows:
            if row.metric == metric:
                return row
        raise ParameterError(f"{metric!r} was not compared; there are {', '.join(r.metric for r in self.rows)}.")

    def to_frame(self) -> Any:
        """One row per metric with all columns of `Row`."""
        return from_polars(pl.DataFrame([vars(row) for row in self.rows]), self.backend)

    def __str__(self) -> str:
        lines = [f"a = {self.a}", f"b = {self.b}"]
        for r in self.rows:
            d = _digits(r)
            tested = (
                f"[{r.low:+.{d}f}, {r.high:+.{d}f}] {r.unit}  p (t) {r.p_t_corrected:.2g}  "
                f"p (Wilcoxon) {r.p_wilcoxon_corrected:.2g}  ({r.n_users:,} users)"
            )
            lines.append(
                f"  {r.metric:12} a {r.a:9.{d}f}  b {r.b:9.{d}f}  b - a {r.difference:+9.{d}f} "
                f"{tested if r.is_tested else f'{r.unit}  no test: {_why_untested(r)}'}"
            )
        return "\n".join([*lines, *self._notes()])

    def _notes(self) -> list[str]:
        return [f"  only in one of the reports: {', '.join(self.only_in_one)}"] if self.only_in_one else []

    def __rich__(self) -> Table:
        caption = "\n".join(note.strip() for note in self._notes()) or None
        table = Table(title=f"a = {self.a}\nb = {self.b}", title_justify="left", caption=caption)
        interval = f"{100 * self.confidence:.0f} % interval"
        for name in ("metric", "a", "b", "b - a", interval, "unit", "p (t)", "p (Wilcoxon)", "users"):
            table.add_column(name, justify="left" if name in ("metric", "unit") else "right")
        for r in self.rows:
            d = _digits(r)
            interval = f"{r.low:+.{d}f} ... {r.high:+.{d}f}" if r.is_tested else "-"
            tests = [f"{p:.2g}" if r.is_tested else "-" for p in (r.p_t_corrected, r.p_wilcoxon_corrected)]
            figures = f"{r.a:.{d}f}", f"{r.b:.{d}f}", f"{r.difference:+.{d}f}"
            table.add_row(r.metric, *figures, interval, r.unit, *tests, f"{r.n_users:,}")
        return table


def compare(
    a: Report,
    b: Report,
    *,
    metrics: Sequence[str] | None = None,
    resamples: int = 2_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare two reports user by user, for every metric that both have.

    Each metric uses the users who count for it in both reports. A metric without per-user values (Coverage, Gini) has
    a difference and no test. P-values are for "no difference"; the corrected
    ones (Holm) keep the chance of any false alarm over all metrics below the level.

    Args:
        a, b: Reports of the same protocol and in the same units; the difference is b - a.
        metrics: The metrics to compare, all of which both must have; by default every one that both have.
        resamples: Bootstrap resamples of users for the interval of the mean difference.
        confidence: Share of resamples inside the interval.
        seed: Of the bootstrap.

    >>> from tastespace import EASE, MostPopular, evaluate, split, synthetic
    >>> town = synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions
    >>> train, _, test = split.per_user(town, seed=0)
    >>> popular, ease = (evaluate(model.fit(train), test) for model in (MostPopular(), EASE()))
    >>> found = compare(popular, ease)["NDCG@10"]
    >>> found.difference > 0, found.unit
    (True, 'fraction')
    """
    if a.protocol != b.protocol:
        raise ParameterError(
            f"the reports follow different protocols, {a.protocol!r} and {b.protocol!r}: their metrics do not compare."
        )
    if not 0 < confidence < 1 or resamples < 1:
        raise ParameterError(
            f"confidence={confidence}, resamples={resamples}: expected a share in (0, 1) and 1 or more."
        )
    for name in metrics or ():
        a[name], b[name]  # an error that names the nearest metric where a report does not have it
    shared = [name for name in a.metrics if name in b.metrics] if metrics is None else list(metrics)
    require_same_units((a, b), shared)
    in_a, in_b = _common_users(a, b)
    if not shared or not len(in_a):
        raise ParameterError("the reports share no metric or no user: nothing to compare.")

    found = [(name, *_paired(a, b, name, in_a, in_b)) for name in shared]
    tests = [(paired_t_test(right - left), wilcoxon_test(right - left)) for _, left, right in found]
    corrected = [holm([p[which] for p in tests]) for which in (0, 1)]
    rows = []
    for number, (name, left, right) in enumerate(found):
        p_values = *tests[number], corrected[0][number], corrected[1][number]
        if not len(left):
            nan = float("nan")
            n_users = 0 if name in a.per_user else min(a.n_users[name], b.n_users[name])
            rows.append(Row(name, a.units[name], n_users, a[name], b[name], b[name] - a[name], nan, nan, *p_values))
            continue
        low, high = bootstrap_interval(right - left, resamples, confidence, seed)
        summary = (len(left), float(left.mean()), float(right.mean()), float((right - left).mean()), low, high)
        rows.append(Row(name, a.units[name], *summary, *p_values))
    in_one = [name for name in {**a.metrics, **b.metrics} if name not in a.metrics or name not in b.metrics]
    left_out = tuple(in_one) if metrics is None else ()
    return Comparison(a.model, b.model, tuple(rows), confidence, a.backend, left_out)


def _paired(
    a: Report, b: Report, name: str, in_a: NDArray[Any], in_b: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of a metric of the users who count in both reports; none for a metric without per-user values."""
    if name not in a.per_user or name not in b.per_user:
        return np.empty(0), np.empty(0)
    left, right = a.per_user[name][in_a], b.per_user[name][in_b]
    both = ~(np.isnan(left) | np.isnan(right))
    return left[both], right[both]


def _why_untested(row: Row) -> str:
    return "no user counts in both" if row.n_users == 0 else "one value for all lists"


def _digits(row: Row) -> int:
    return 2 if row.unit == PERCENT else 4


def _common_users(a: Report, b: Report) -> tuple[NDArray[Any], NDArray[Any]]:
    """Positions of the shared users in both reports."""
    if a.users.dtype.is_numeric() != b.users.dtype.is_numeric():
        raise ParameterError(f"the reports' user ids are {a.users.dtype} and {b.users.dtype}: none can match.")
    left = pl.DataFrame({"user": a.users}).with_row_index("at")
    right = pl.DataFrame({"user": b.users}).with_row_index("in_b")
    both = left.join(right, on="user", how="inner", maintain_order="left")  # the bootstrap depends on the order
    return both["at"].to_numpy(), both["in_b"].to_numpy()
