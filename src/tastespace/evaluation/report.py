"""What an evaluation found: a table for a person, values for a program, per-user values for statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.table import Table

from tastespace.data.tables import from_polars
from tastespace.errors import ParameterError, nearest


@dataclass(frozen=True, eq=False)
class Report:
    """The figures of one evaluation. ``report["P@3"]`` is the mean over the users who count for it.

    Accuracy is a fraction from 0 to 1; MaxDiv, ILS, Coverage, CategoryILD, Novelty and Gini are in their own units.
    `units` and what is printed say which; `in_percent` is for tables that are made for people.
    """

    model: str
    protocol: str
    metrics: dict[str, float]
    n_users: dict[str, int]
    """How many users stand behind each figure."""
    users: pl.Series
    """Ids of all evaluated users."""
    per_user: dict[str, NDArray[np.float64]]
    """Values in the order of `users`, NaN for those who do not count. Coverage and Gini have none."""
    seconds: float
    backend: str = "polars"
    units: dict[str, str] = field(default_factory=dict)
    """Unit of each figure: ``"fraction"`` for accuracy, ``"%"`` after `in_percent`."""

    def __getitem__(self, metric: str) -> float:
        if metric not in self.metrics:
            raise ParameterError(
                f"the report has no {metric!r}; it has {', '.join(self.metrics)}.{nearest(metric, self.metrics)}"
            )
        return self.metrics[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def in_percent(self) -> Report:
        """The same report with its fractions in percent, for tables that are made for people."""
        scale = {name: 100.0 if self.units.get(name) == "fraction" else 1.0 for name in self.metrics}
        return replace(
            self,
            metrics={name: scale[name] * value for name, value in self.metrics.items()},
            per_user={name: scale[name] * values for name, values in self.per_user.items()},
            units={name: "%" if unit == "fraction" else unit for name, unit in self.units.items()},
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; a figure that no user counts for is None."""
        return {
            "model": self.model,
            "protocol": self.protocol,
            "metrics": {name: None if np.isnan(value) else value for name, value in self.metrics.items()},
            "units": dict(self.units),
            "n_users": dict(self.n_users),
            "seconds": self.seconds,
        }

    def to_frame(self, *, per_user: bool = False) -> Any:
        """One row per metric (metric, value, n_users), or one row per user with a column per metric."""
        if per_user:
            frame = pl.DataFrame([self.users, *(pl.Series(name, values) for name, values in self.per_user.items())])
        else:
            frame = pl.DataFrame(
                {
                    "metric": list(self.metrics),
                    "value": list(self.metrics.values()),
                    "n_users": list(self.n_users.values()),
                }
            )
        return from_polars(frame, self.backend)

    def __str__(self) -> str:
        width = max(map(len, self.metrics), default=6)
        lines = [f"{self.model}, protocol {self.protocol!r}, {self.seconds:.2f} s"]
        lines += [
            f"  {name:{width}}  {value:9.4f}  {self.n_users[name]:>9,} users" for name, value in self.metrics.items()
        ]
        return "\n".join(lines)

    def __rich__(self) -> Table:
        table = Table(title=f"{self.model}, protocol {self.protocol!r}", title_justify="left")
        table.add_column("metric")
        table.add_column("value", justify="right")
        table.add_column("users", justify="right")
        for name, value in self.metrics.items():
            table.add_row(name, f"{value:.4f}" if abs(value) < 1 else f"{value:.2f}", f"{self.n_users[name]:,}")
        return table


def over_seeds(reports: Sequence[Report]) -> Any:
    """Mean and spread of each figure over runs that differ in their seed: metric, mean, std, min, max, runs.

    ``std`` is the sample standard deviation (null for a single run). The frame is of the reports' library.
    """
    if not reports:
        raise ParameterError("over_seeds needs at least one report.")
    protocols = sorted({report.protocol for report in reports})
    if len(protocols) > 1:
        raise ParameterError(f"the reports follow different protocols, {', '.join(protocols)}: no mean makes sense.")
    shared = [name for name in reports[0].metrics if all(name in report.metrics for report in reports)]
    table = np.array([[report[name] for name in shared] for report in reports])
    spread = table.std(axis=0, ddof=1) if len(reports) > 1 else [None] * len(shared)
    frame = pl.DataFrame(
        {
            "metric": shared,
            "mean": table.mean(axis=0),
            "std": pl.Series(spread, dtype=pl.Float64),
            "min": table.min(axis=0),
            "max": table.max(axis=0),
            "runs": [len(reports)] * len(shared),
        }
    )
    return from_polars(frame, reports[0].backend)
