"""What `cross_validate` has found: mean and spread over the windows, and tests of the differences between models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from tastespace.data.tables import from_polars
from tastespace.errors import ParameterError, nearest
from tastespace.evaluation.metrics import METRICS
from tastespace.evaluation.report import Report
from tastespace.evaluation.significance import holm, paired_t_test

LEVEL = 0.05
"""Below this p-value, after Holm's correction, a difference counts as significant."""


class Result(NamedTuple):
    """One model on one window."""

    report: Report
    seconds: float
    """That fitting took."""


@dataclass(frozen=True)
class CrossValidationRow:
    """One metric of one model over all windows."""

    model: str
    metric: str
    unit: str
    mean: float
    """Over the windows."""
    std: float | None
    """Sample standard deviation over the windows; None for one window."""
    difference: float
    """To the reference."""
    p: float | None
    """Paired t-test of the difference over users, after Holm's correction over all models and metrics; None for the
    reference itself and for metrics without per-user values (Coverage, Gini)."""
    users: int
    """In the means, of all windows together."""
    windows: int
    seconds: float
    """That the fits took."""


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The answer of `cross_validate`: rows for each model and metric, and the reports behind them."""

    rows: tuple[CrossValidationRow, ...]
    reference: str
    """The model that the others are tested against."""
    reports: dict[str, list[Report]]
    """Of each model, window by window, with the values of each user."""
    n_windows: int
    """That were finished."""
    n_warm: list[int]
    """Users with a training history in each window, who are in the means, and"""
    n_cold: list[int]
    """those without one, who are not."""
    notes: list[str]
    seconds: float
    backend: str = "polars"

    @classmethod
    def of(
        cls, results: dict[str, list[Result]], reference: str, notes: list[str], n_planned: int, seconds: float
    ) -> CrossValidation:
        """Means, spreads and tests of these results; ``reference`` as in `cross_validate`."""
        done = min(len(one) for one in results.values())
        reports = {name: [result.report for result in found[:done]] for name, found in results.items()}
        if reference in ("first", "best"):
            reference = _best(reports) if reference == "best" else next(iter(reports))
        if reference not in reports:
            raise ParameterError(f"reference={reference!r} could not be fitted: {'; '.join(notes)}")
        first = reports[reference]
        pairs = [(name, metric) for name in reports for metric in first[0].metrics]
        plain = [
            _p_value(reports[name], first, metric) if name != reference else float("nan") for name, metric in pairs
        ]
        rows = []
        for (name, metric), p in zip(pairs, holm(plain), strict=True):
            values = np.array([report[metric] for report in reports[name]])
            rows.append(
                CrossValidationRow(
                    model=name,
                    metric=metric,
                    unit=first[0].units[metric],
                    mean=float(values.mean()),
                    std=float(values.std(ddof=1)) if done > 1 else None,
                    difference=float(values.mean() - np.mean([report[metric] for report in first])),
                    p=None if np.isnan(p) else p,
                    users=sum(report.n_users[metric] for report in reports[name]),
                    windows=done,
                    seconds=sum(result.seconds for result in results[name][:done]),
                )
            )
        if done < n_planned and not any("budget" in note for note in notes):
            notes = [*notes, f"{done} of {n_planned} windows were finished."]
        return cls(
            tuple(rows), reference, reports, done, [one.n_warm or 0 for one in first],
            [one.n_cold or 0 for one in first], notes, seconds, first[0].backend,
        )  # fmt: skip

    def __getitem__(self, at: tuple[str, str]) -> CrossValidationRow:
        """The row of ``[model, metric]``."""
        for row in self.rows:
            if (row.model, row.metric) == at:
                return row
        known = [f"{row.model}, {row.metric}" for row in self.rows]
        raise ParameterError(f"no row {at!r}; there are {'; '.join(known)}.{nearest(', '.join(at), known)}")

    def to_frame(self, *, windows: bool = False) -> Any:
        """One row per model and metric with all columns of `CrossValidationRow`; or one per window as well."""
        if not windows:
            return from_polars(pl.DataFrame([vars(row) for row in self.rows], infer_schema_length=None), self.backend)
        rows = [
            {"model": name, "window": at, "metric": metric, "value": report[metric], "users": report.n_users[metric]}
            for name, reports in self.reports.items()
            for at, report in enumerate(reports, 1)
            for metric in report.metrics
        ]
        return from_polars(pl.DataFrame(rows), self.backend)

    @property
    def title(self) -> str:
        """What was measured on what, in one line."""
        windows = "1 window" if self.n_windows == 1 else f"{self.n_windows} windows"
        cold = f", {sum(self.n_cold):,} without a training history left out" if any(self.n_cold) else ""
        counted = "users" if self.n_windows == 1 else "users, counted once per window"
        return f"{windows}, {sum(self.n_warm):,} {counted}{cold}; tested against {self.reference}"

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        return "\n".join([self.title, *lines, self.legend, *self.notes])

    def __rich__(self) -> Table:
        cells = self._cells()
        table = Table(title=self.title, title_justify="left", caption=self.legend, caption_justify="left")
        for at, name in enumerate(cells[0]):
            table.add_column(escape(name), justify="left" if at == 0 else "right", no_wrap=at == 0)
        for row in cells[1:]:
            table.add_row(*row, style="bold" if row[0] == self.reference else "")
        return table

    @property
    def legend(self) -> str:
        """What the marks mean."""
        spread = "mean ± standard deviation over the windows; " if self.n_windows > 1 else ""
        return (
            f"{spread}in parentheses: p-value of the difference to {self.reference} (paired t-test over users, Holm); "
            f"* below {LEVEL}"
        )

    def _cells(self) -> list[list[str]]:
        metrics = list(dict.fromkeys(row.metric for row in self.rows))
        units = {row.metric: row.unit for row in self.rows}
        head = [name if units[name] == "fraction" else f"{name} [{units[name]}]" for name in metrics]
        found = [["model", *head, "seconds"]]
        for name in self.reports:
            own = {row.metric: row for row in self.rows if row.model == name}
            found.append([name, *(_cell(own[metric]) for metric in metrics), f"{own[metrics[0]].seconds:.1f}"])
        return found


def _cell(row: CrossValidationRow) -> str:
    spread = "" if row.std is None else f" ± {row.std:.4f}"
    tested = "" if row.p is None else f" ({row.p:.2g}){'*' if row.p < LEVEL else ''}"
    return f"{row.mean:.4f}{spread}{tested}"


def _best(reports: dict[str, list[Report]]) -> str:
    """The model with the best mean of the first metric."""
    metric = next(iter(next(iter(reports.values()))[0].metrics))
    known = METRICS.get(metric.partition("@")[0])
    sign = -1.0 if known is not None and known.lower_is_better else 1.0
    return max(reports, key=lambda name: sign * float(np.mean([report[metric] for report in reports[name]])))


def _p_value(reports: list[Report], reference: list[Report], metric: str) -> float:
    """Of the difference to the reference: paired over users, whose differences are averaged over the windows first."""
    if metric not in reference[0].per_user:
        return float("nan")
    parts = []
    for ours, theirs in zip(reports, reference, strict=True):
        left = pl.DataFrame({"user": ours.users, "ours": _values(ours, metric)})
        right = pl.DataFrame({"user": theirs.users, "theirs": _values(theirs, metric)})
        both = left.join(right, on="user", how="inner", maintain_order="left")
        parts.append(both.select("user", difference=pl.col("ours") - pl.col("theirs")))
    differences = pl.concat(parts).filter(pl.col("difference").is_not_nan())
    means = differences.group_by("user", maintain_order=True).agg(pl.col("difference").mean())
    return paired_t_test(means["difference"].to_numpy())


def _values(report: Report, metric: str) -> NDArray[np.float64]:
    return report.per_user[metric]
