"""Result of an evaluation: a formatted table, values for programs, per-user values for statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.table import Table

from tastespace.data.reading.tables import from_polars
from tastespace.errors import ParameterError, nearest

FRACTION, PERCENT = "fraction", "%"


@dataclass(frozen=True, eq=False)
class Report:
    """The metrics of one evaluation. ``report["P@3"]`` is the mean over the users who count for it.

    Accuracy is a fraction between 0 and 1; diversity, calibration, novelty and exposure have their own units.
    `units` and everything printed say which; `in_percent` is for printed tables.

    >>> import polars as pl
    >>> users, values = pl.Series([1, 2]), {"P@3": np.array([0.0, 1 / 3])}
    >>> report = Report("model", "full", {"P@3": 1 / 6}, {"P@3": "fraction"}, {"P@3": 2}, users, values, seconds=0.0)
    >>> print(report)
    model, protocol 'full', 0.00 s
      P@3     0.1667 fraction          2 users
    >>> print(report.in_percent())
    model, protocol 'full', 0.00 s
      P@3    16.6667 %                 2 users
    """

    model: str
    protocol: str
    metrics: dict[str, float]
    units: dict[str, str]
    """Unit of each metric: ``"fraction"`` for accuracy, ``"%"`` after `in_percent`."""
    n_users: dict[str, int]
    """Number of users that each metric is the mean over."""
    users: pl.Series
    """Ids of all evaluated users."""
    per_user: dict[str, NDArray[np.float64]]
    """Values in the order of `users`, NaN for those who do not count. Coverage and Gini have none."""
    seconds: float
    backend: str = "polars"
    n_warm: int | None = None
    """Number of users with test items and a training history; None: not known."""
    n_cold: int | None = None
    """Number of users with test items and no training history, also if `evaluate` measured ``only`` one kind."""
    is_cold: NDArray[np.bool_] | None = None
    """Mask of those of `users` without a training history; None: not known."""
    n_unserved: int = 0
    """Users without a training history whom the model cannot serve: they are not among `users`."""

    def __post_init__(self) -> None:
        without = [name for name in self.metrics if name not in self.units]
        if without:
            raise ParameterError(f"units: no unit is given for {', '.join(without)}; every metric needs one.")

    def __getitem__(self, metric: str) -> float:
        if metric not in self.metrics:
            raise ParameterError(
                f"the report has no {metric!r}; it has {', '.join(self.metrics)}.{nearest(metric, self.metrics)}"
            )
        return self.metrics[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def in_percent(self) -> Report:
        """The same report with its fractions in percent, for printed tables."""
        scale = {name: 100.0 if unit == FRACTION else 1.0 for name, unit in self.units.items()}
        return replace(
            self,
            metrics={name: scale[name] * value for name, value in self.metrics.items()},
            units={name: PERCENT if unit == FRACTION else unit for name, unit in self.units.items()},
            per_user={name: scale[name] * values for name, values in self.per_user.items()},
        )

    def by_history(self) -> dict[str, Report]:
        """The metrics of users with a training history (``"warm"``) and of those without (``"cold"``) apart.

        Only kinds that `users` has. Metrics of all lists together, such as coverage, are left out.
        """
        is_cold = np.zeros(len(self.users), dtype=bool) if self.is_cold is None else self.is_cold
        found = {}
        for name, chosen in (("warm", ~is_cold), ("cold", is_cold)):
            if chosen.any():
                values = {metric: of_all[chosen] for metric, of_all in self.per_user.items()}
                counted = {metric: one[~np.isnan(one)] for metric, one in values.items()}
                found[name] = replace(
                    self,
                    metrics={metric: float(one.mean()) if len(one) else np.nan for metric, one in counted.items()},
                    n_users={metric: len(one) for metric, one in counted.items()},
                    users=self.users.filter(pl.Series(chosen)),
                    per_user=values,
                    is_cold=is_cold[chosen],
                )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; a metric that no user counts for is None."""
        return {
            "model": self.model,
            "protocol": self.protocol,
            "metrics": _plain(self.metrics),
            "units": dict(self.units),
            "n_users": dict(self.n_users),
            "seconds": self.seconds,
            "n_warm": self.n_warm,
            "n_cold": self.n_cold,
            "n_unserved": self.n_unserved,
            "by_history": {name: _plain(one.metrics) for name, one in self.by_history().items()},
        }

    def to_frame(self, *, per_user: bool = False) -> Any:
        """One row per metric (metric, value, unit, n_users), or one row per user with a column per metric."""
        if per_user:
            frame = pl.DataFrame([self.users, *(pl.Series(name, values) for name, values in self.per_user.items())])
        else:
            frame = pl.DataFrame(
                {
                    "metric": list(self.metrics),
                    "value": list(self.metrics.values()),
                    "unit": [self.units[name] for name in self.metrics],
                    "n_users": [self.n_users[name] for name in self.metrics],
                }
            )
        return from_polars(frame, self.backend)

    def __str__(self) -> str:
        width = max(map(len, self.metrics), default=0)
        unit_width = max((len(self.units[name]) for name in self.metrics), default=0)
        unit_width = max(unit_width, len(FRACTION))
        lines = [f"{self.model}, protocol {self.protocol!r}, {self.seconds:.2f} s"]
        lines += [
            f"  {name:{width}}  {value:9.4f} {self.units[name]:{unit_width}}  {self.n_users[name]:>9,} users"
            for name, value in self.metrics.items()
        ]
        return "\n".join([*lines, *self.history_note])

    @property
    def history_note(self) -> list[str]:
        """Lines on users without a training history, where there are any: how many, and both kinds apart."""
        if not self.n_cold:
            return []
        apart = self.by_history()
        if self.n_unserved:
            counted = f"{self.n_unserved:,} of the latter get no list from this model and are in no mean"
        elif len(apart) == 2:
            counted = "both are in the means"
        else:
            counted = "the former are in the means" if "warm" in apart else "the latter are in the means"
        lines = [f"  {self.n_warm or 0:,} users with and {self.n_cold:,} without a training history: {counted}"]
        if len(apart) == 2:
            for title, kind in (("with", "warm"), ("without", "cold")):
                values = ", ".join(f"{name} {value:.4f}" for name, value in apart[kind].metrics.items())
                lines.append(f"    {title}: {values}")
        return lines

    def __rich__(self) -> Table:
        table = Table(title=f"{self.model}, protocol {self.protocol!r}", title_justify="left")
        table.add_column("metric")
        table.add_column("value", justify="right")
        table.add_column("unit")
        table.add_column("users", justify="right")
        for name, value in self.metrics.items():
            digits = 2 if self.units[name] == PERCENT else 4
            table.add_row(name, f"{value:.{digits}f}", self.units[name], f"{self.n_users[name]:,}")
        return table


def _plain(metrics: dict[str, float]) -> dict[str, float | None]:
    """Metrics for JSON, which has no NaN."""
    return {name: None if np.isnan(value) else value for name, value in metrics.items()}


def require_same_units(reports: Sequence[Report], metrics: Sequence[str]) -> None:
    """Raise where a metric is in percent in one report and a fraction in another."""
    for name in metrics:
        units = list(dict.fromkeys(report.units[name] for report in reports))
        if len(units) > 1:
            raise ParameterError(
                f"{name} has the unit {' in one report and '.join(map(repr, units))} in another: give all reports as "
                "evaluate returns them, or all in percent (report.in_percent())."
            )


def over_seeds(reports: Sequence[Report]) -> Any:
    """Each metric over runs that differ in their seed: metric, unit, mean, std, min, max, runs.

    ``std`` is the sample standard deviation (null for a single run). The frame is of the reports' library.
    """
    if not reports:
        raise ParameterError("over_seeds needs at least one report.")
    protocols = sorted({report.protocol for report in reports})
    if len(protocols) > 1:
        raise ParameterError(f"the reports follow different protocols, {', '.join(protocols)}: no mean makes sense.")
    shared = [name for name in reports[0].metrics if all(name in report.metrics for report in reports)]
    require_same_units(reports, shared)
    table = np.array([[report[name] for name in shared] for report in reports])
    deviation = table.std(axis=0, ddof=1) if len(reports) > 1 else [None] * len(shared)
    frame = pl.DataFrame(
        {
            "metric": shared,
            "unit": [reports[0].units[name] for name in shared],
            "mean": table.mean(axis=0),
            "std": pl.Series(deviation, dtype=pl.Float64),
            "min": table.min(axis=0),
            "max": table.max(axis=0),
            "runs": [len(reports)] * len(shared),
        }
    )
    return from_polars(frame, reports[0].backend)
