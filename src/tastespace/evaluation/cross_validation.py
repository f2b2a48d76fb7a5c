"""`cross_validate`: many models on several windows of time or folds, in one table with a test of the differences."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from tastespace._util.checks import is_whole, require_number, require_seed
from tastespace._util.interrupts import interrupts_end_task
from tastespace.data import split as splits
from tastespace.data.interactions import Interactions
from tastespace.data.reading.tables import from_polars
from tastespace.data.split import is_pair
from tastespace.errors import Argument, DataError, ParameterError, TastespaceError, TrainingError, nearest
from tastespace.evaluation._evaluator import evaluate
from tastespace.evaluation.metrics import METRICS, columns_for
from tastespace.evaluation.protocols import FULL
from tastespace.evaluation.report import Report
from tastespace.evaluation.significance import holm, paired_t_test
from tastespace.models import Blend, Recommender, create_seeded, name_of
from tastespace.models.base import TrainingData, interactions_from
from tastespace.models.trained import TrainedRecommender

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments

# ---------------------------------------------------------------------------------------------------------------------
# The result of `cross_validate`: mean and spread over the windows, and tests of the differences between models.

LEVEL = 0.05
"""Largest p-value, after Holm's correction, of a significant difference."""


class Result(NamedTuple):
    """One model on one window."""

    report: Report
    seconds: float
    """Time of fitting."""


@dataclass(frozen=True)
class CrossValidationRow:
    """One metric of one model over all windows."""

    model: str
    metric: str
    unit: str
    mean: float
    """Mean over the windows."""
    std: float | None
    """Sample standard deviation over the windows; None for one window."""
    difference: float
    """Difference to the reference."""
    p: float | None
    """Paired t-test of the difference over users, after Holm's correction over all models and metrics; None for the
    reference itself and for metrics without per-user values (Coverage, Gini)."""
    users: int
    """Number of users in the means, of all windows together."""
    windows: int
    seconds: float
    """Time of all fits."""


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Result of `cross_validate`: rows for each model and metric, and the reports behind them."""

    rows: tuple[CrossValidationRow, ...]
    reference: str
    """The model that the others are tested against."""
    reports: dict[str, list[Report]]
    """Reports of each model, window by window, with the values of each user."""
    n_windows: int
    """Number of finished windows."""
    n_warm: list[int]
    """Number of users with a training history in each window; they are in the means."""
    n_cold: list[int]
    """Number of users without one in each window; they are not in the means."""
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
            raise ParameterError(Argument("reference", reference), f" could not be fitted: {'; '.join(notes)}")
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
        """Describe the comparison in one line."""
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
        """Explain the marks."""
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
    """p-value of the difference to the reference: paired over users, averaged over the windows first."""
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


log = logging.getLogger(__name__)

Windows = Sequence[tuple[Interactions, Interactions]]
"""Pairs of training and test part."""
Fitter = Callable[[Interactions, float | None], Recommender]
"""Function of training data, and of minutes if there is a limit, that returns a fitted model."""

_INNER = 0.1  # share of the training part that chooses the number of epochs and the weights of a blend
_N_WINDOWS = 3
_BY = ("time", "random")
_SLOWER = 1.2  # a window may take longer than the one before it: its training part is larger


def cross_validate(
    models: Sequence[str | Recommender] | Mapping[str, str | Recommender | Fitter],
    data: TrainingData,
    split: int | str | Windows | None = None,
    metrics: str | Sequence[str] = ("NDCG@10", "R@20"),
    *,
    reference: str = "best",
    minutes: float | None = None,
    seed: int = 0,
    threads: int = 0,
    report: Callable[[str], None] | None = None,
    **columns: Unpack[TableArguments],
) -> CrossValidation:
    """Fit and measure several models on several splits of the same data, and test how they differ.

    Models that train by epochs, and blends, choose epochs and weights on a tenth of each training part (the latest
    where there are timestamps) and are then fitted to all of it. Metrics are means over warm users, who have a training
    history; the numbers of both kinds are reported.

    Args:
        models: Names of `tastespace.models.table` or models; or a dictionary, name -> name, model, or function from
            (training data, minutes) to a fitted model.
        data: `Interactions`, a frame with the columns ``user`` and ``item`` (and ``timestamp``), or a SciPy CSR matrix.
        split: Pairs of (train, test), such as `split.rolling` and `split.folds` give. A number: that many windows of
            time where the data has timestamps, else that many random folds; by default 3. ``"time"`` and
            ``"random"`` say which.
        metrics: As in `tastespace.evaluate`; all are shown. One that a model cannot have is an error.
        reference: The model that the others are tested against: ``"best"`` by the first metric, ``"first"``, or a name.
        minutes: Time for all of it. The first window is always finished, with models that train by epochs cut to their
            share of the time; further windows are left out when the time is over. None: no limit.
        seed: Of the folds, and of models that are given by name.
        threads: 0 means all cores.
        report: Called with a line of text before each fit.
        **columns: Of a frame, the options of `Interactions.from_frame`, as in `tastespace.fit`.

    Returns:
        A `CrossValidation`: prints as a table; `CrossValidation.to_frame` has mean, spread over windows, difference
        to the reference and its p-value (paired t-test over users, Holm's correction over all of them).

    >>> import tastespace as ts
    >>> town = ts.synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions
    >>> found = ts.cross_validate(["popular", "ease"], town, split=2, metrics=["NDCG@10"])
    >>> found.reference, found.to_frame()["model"].to_list(), found.n_windows
    ('ease', ['popular', 'ease'], 2)
    """
    began = time.monotonic()
    if minutes is not None:
        require_number("minutes", minutes, above=0.0)
    require_seed(seed)
    named = _named(models, seed, threads)
    if reference not in ("best", "first", *named):
        raise ParameterError(
            Argument("reference", reference),
            f": expected 'best', 'first' or one of {', '.join(named)}." + nearest(reference, named),
        )
    wanted = [metrics] if isinstance(metrics, str) else list(metrics)
    if not wanted:
        raise ParameterError("metrics=[]: expected at least one, such as 'NDCG@10'.")
    columns_for(wanted, FULL.cutoffs, lambda: ["any"])  # unknown names are refused before the work begins
    windows = _windows(data, columns, split, seed)
    runs = _Runs(named, wanted, None if minutes is None else began + 60 * minutes, seed, threads, report)
    for number, (train, test) in enumerate(windows, 1):
        if number > 1 and runs.is_over(number, len(windows)):
            break
        runs.add(train, test, number, len(windows))
    if minutes is not None and len(windows) == 1 and time.monotonic() > began + 60 * minutes:
        runs.notes.append(f"The budget of {minutes:g} minutes was too small: one window was finished all the same.")
    if not runs.results:
        raise TrainingError(f"none of {', '.join(named)} could be fitted: {'; '.join(runs.notes)}")
    return CrossValidation.of(runs.results, reference, runs.notes, len(windows), time.monotonic() - began)


class _Runs:
    """Fits and measures the models, window by window."""

    def __init__(
        self,
        models: dict[str, Recommender | Fitter],
        metrics: list[str],
        end: float | None,
        seed: int,
        threads: int,
        report: Callable[[str], None] | None,
    ) -> None:
        self._models, self._metrics, self._end, self._seed, self._threads = models, metrics, end, seed, threads
        self._report = report or (lambda text: log.info("%s", text))
        self._longest = 0.0
        self.results: dict[str, list[Result]] = {}
        self.notes: list[str] = []

    def is_over(self, number: int, n_windows: int) -> bool:
        """Return True if another window would take longer than there is time."""
        if self._end is None or time.monotonic() + _SLOWER * self._longest <= self._end:
            return False
        self.notes.append(
            f"The budget of time is spent: {number - 1} of {n_windows} windows. Give more minutes for all."
        )
        return True

    def add(self, train: Interactions, test: Interactions, number: int, n_windows: int) -> None:
        """All models on one window."""
        start = time.monotonic()
        for at, (name, model) in enumerate(self._models.items()):
            if number > 1 and name not in self.results:
                continue  # it failed before
            left = (n_windows - number + 1) * len(self._models) - at
            minutes = None if self._end is None else max(1e-3, (self._end - time.monotonic()) / 60 / left)
            self._report(f"window {number} of {n_windows}: {name}")
            self._one(name, model, train, test, minutes)
        self._longest = max(self._longest, time.monotonic() - start)

    def _one(
        self, name: str, model: Recommender | Fitter, train: Interactions, test: Interactions, minutes: float | None
    ) -> None:
        start = time.monotonic()
        try:
            fitted, is_cut = self._fitted(name, model, train, minutes)
        except (TrainingError, MemoryError, np.linalg.LinAlgError) as problem:
            self.results.pop(name, None)
            self._note(f"{name} was left out: {problem}")
            return
        seconds = time.monotonic() - start
        try:
            found = evaluate(
                fitted, test, seen=train, metrics=self._metrics, only="warm", on_unknown="skip", threads=self._threads
            )
        except ParameterError as problem:
            raise ParameterError(f"{name}: ", *problem.args) from problem
        if is_cut:
            self._note(f"{name} was stopped by the time limit before its training had ended.")
        self.results.setdefault(name, []).append(Result(found, seconds))

    @interrupts_end_task()
    def _fitted(
        self, name: str, model: Recommender | Fitter, train: Interactions, minutes: float | None
    ) -> tuple[Recommender, bool]:
        """The model fitted to this part, and whether it was stopped by the time limit."""
        if not isinstance(model, Recommender):
            return model(train, minutes), False
        copy = model.clone()
        if train.weights is not None and not copy.uses_weights:
            train = train.without_weights()
            self._note(f"{name} learns without the weights of the interactions.")
        limited = [one for one in copy.get_params() if one.rpartition("__")[2] == "max_minutes"]
        if minutes is not None:
            copy.set_params(**dict.fromkeys(limited, minutes / 2 / max(1, len(limited))))
        if not isinstance(copy, (TrainedRecommender, Blend)):
            return copy.fit(train, progress=False), False
        parts = splits.hold_out(train, _INNER, seed=self._seed)
        if not parts.held_out.n_interactions:
            return copy.fit(train, progress=False), _is_cut(copy)
        copy.fit(parts.rest, parts.held_out, progress=False)
        final = copy.as_chosen().fit(train, progress=False)
        return final, _is_cut(copy) or _is_cut(final)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _is_cut(model: Recommender) -> bool:
    members = model.members_ if isinstance(model, Blend) else [model]
    return any(getattr(one, "stopped_", "") == "time" for one in members)


def _named(models: Any, seed: int, threads: int) -> dict[str, Recommender | Fitter]:
    if isinstance(models, (str, Recommender)) or not isinstance(models, (Sequence, Mapping)) or not models:
        raise ParameterError(
            Argument("models", models), ": expected a list of names and models, such as ['ease', DPCML()]."
        )
    found: dict[str, Recommender | Fitter] = {}
    pairs = models.items() if isinstance(models, Mapping) else [(None, one) for one in models]
    for given, model in pairs:
        if isinstance(model, str):
            name, made = given or model, create_seeded(model, seed, threads)
        elif isinstance(model, Recommender):
            name, made = given or name_of(type(model)), model
        elif callable(model) and given is not None:
            name, made = given, model
        else:
            raise ParameterError(f"models: {model!r} is neither the name of a model nor a model.")
        if given is None and name in found and repr(found[name]) != repr(made):  # told apart by their parameters
            name = repr(made)
        if name in found:
            raise ParameterError(f"models: {name} is given twice. Give each once, or a dictionary with names.")
        found[str(name)] = made
    return found


def _windows(data: Any, columns: TableArguments, split: Any, seed: int) -> Windows:
    if split is not None and not is_whole(split) and split not in _BY:
        pairs = list(split) if isinstance(split, Sequence) and not isinstance(split, str) else []
        if not pairs or not all(is_pair(pair) for pair in pairs):
            raise ParameterError(
                Argument("split", split),
                ": expected pairs of (train, test) as split.rolling and split.folds give, a number, "
                "'time' or 'random'.",
            )
        return [(train, test) for train, test in pairs]
    whole = interactions_from("cross_validate", data, columns)
    n_windows = int(split) if is_whole(split) else _N_WINDOWS
    if split == "time" or (split != "random" and whole.timestamps is not None):
        return splits.rolling(whole, n_windows)
    try:
        return splits.folds(whole, max(2, n_windows), seed=seed)[:n_windows]
    except TastespaceError as problem:
        raise DataError(Argument("split", split), ": ", *problem.args) from problem
