"""Rows of finished tables: made from runs, written as Markdown and as rows for programs, and read from an archive.

An archive is the folder of an earlier report (`docs/results` in the repository). Its results.csv, claims.csv and
values are used for runs that the result cache does not hold, marked with their date and version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tastespace.errors import DataError, DatasetError
from tastespace.models import registry
from tastespace.paper.experiments import (
    Experiment,
    Metrics,
    RowSpec,
    TableRow,
)
from tastespace.paper.methods import OWN_SPLITS, find_method, searched_on_other_split, stored_parameters, stored_trials
from tastespace.paper.runner import PlannedRun, ResultCache, RunStatus
from tastespace.paper.statistics import StatisticsTable

DEFAULTS = "defaults"
"""Note of a row for whose method no search was stored on this data set."""
QUICK = "quick"
"""Note of a row that was run for few epochs, only to see that it works."""
BEFORE_REVISIONS = "kernels before 3"
"""Revision of archived rows that do not note any."""
OTHER_SPLIT = "searched on another split"
"""Note of a row whose parameters were chosen on validation data of another split, part of which is test data here."""
STAND_INS = {
    "gcn-accdiv": "stand-in: a linear filter with four numbers",
    "prd": "stand-in: divides where the cited one multiplies",
    "dp-recnet": "stand-in: read at second hand",
    "idcf": "stand-in: read at second hand",
    "adacml": "stand-in: read at second hand",
}
"""Competitors that are not the published methods."""
BEST = "best"
"""Printed instead of a p-value in the row that the others are compared with."""


def table_rows(experiment: Experiment, statuses: Sequence[RunStatus]) -> list[TableRow]:
    """One row for each declared row and data set, in the order of the runs."""
    found = []
    groups: dict[tuple[str, str], list[RunStatus]] = {}
    for status in statuses:
        groups.setdefault((status.planned.dataset, status.planned.title), []).append(status)
    specs = {spec.label: spec for spec in experiment.row_specs}
    for (dataset, label), group in groups.items():
        done = [status.found.result for status in group if status.found is not None]
        ours, std = over_seeds([experiment.ours(result) for result in done])
        states = {status.state for status in group}
        state = "complete" if len(done) == len(group) else "partial" if done else _worst(states)
        found.append(
            TableRow(
                dataset=dataset,
                label=label,
                method=specs[label].method,
                ours=ours,
                std=std,
                published=experiment.published(dataset, specs[label]),
                seeds=len(done),
                seconds=float(np.mean([result["seconds"] for result in done])) if done else 0.0,
                state=state,
                problem=next((status.problem for status in group if status.problem), ""),
                note=_note(dataset, specs[label], any(status.planned.quick for status in group), done),
                trials=trials_of(dataset, specs[label]),
                made=_range([result.get("made", {}).get("date", "") for result in done]),
                version=_range([result.get("version", "") for result in done]),
                revision=_range([revision_of(result) for result in done]),
            )
        )
    return found


def _range(texts: Sequence[str]) -> str:
    """The first and the last, or the one that there is."""
    known = sorted({text for text in texts if text})
    return " to ".join(dict.fromkeys((known[0], known[-1]))) if known else ""


def trials_of(dataset: str, spec: RowSpec) -> int:
    """Return the number of trials that chose the parameters of a row, with those of a first stage."""
    method = find_method(spec.like or spec.method)
    first = 0 if method.second_stage is None else stored_trials(dataset, method.first_stage)
    return first + stored_trials(dataset, method.name)


def revision_of(result: Mapping[str, Any]) -> str:
    """The kernels that made a result; empty where nothing was noted.

    >>> revision_of({"versions": {"kernels": 3}, "made": {"kernels": "v4, sources 0123456789ab"}})
    'kernels 3, sources 0123456789ab'
    """
    version = result.get("versions", {}).get("kernels")
    sources = str(result.get("made", {}).get("kernels", "")).rpartition("sources ")[2]
    return f"kernels {version}, sources {sources}" if version is not None else ""


def _numbers_of_vectors(results: Sequence[Mapping[str, Any]]) -> str:
    """The distribution of adaptive numbers of vectors, as shares of the users.

    >>> _numbers_of_vectors([{"interests": {"2": 30, "1": 10}}])
    'vectors: 1 for 25 %, 2 for 75 %'
    """
    found: dict[str, int] = next((result["interests"] for result in results if result.get("interests")), {})
    n = sum(found.values())
    shares = (f"{number} for {100 * found[number] / n:.0f} %" for number in sorted(found, key=int))
    return f"vectors: {', '.join(shares)}" if found else ""


def _note(dataset: str, spec: RowSpec, quick: bool, results: Sequence[Mapping[str, Any]]) -> str:
    method = find_method(spec.like or spec.method)
    tunable = set(registry()[method.model]._parameter_names()) - {"threads", "seed"}
    searched = stored_parameters(dataset, method.name) or stored_parameters(dataset, method.first_stage)
    notes = [
        spec.note,
        STAND_INS.get(method.first_stage, ""),
        _numbers_of_vectors(results) if method.name.startswith("apa+") else "",
        outside_of_paper(results[0]) if results and method.model in ("cml", "dpcml") else "",
        DEFAULTS if results and tunable and not searched else "",
        OTHER_SPLIT if results and searched_on_other_split(dataset, method.name) else "",
        QUICK if quick else "",
    ]
    return ", ".join(note for note in notes if note)


_PAPERS_RANGES: dict[str, tuple[Any, ...]] = {"dim": (100,), "margin": (1.0, 1.5, 2.0), "average": (1,)}


def outside_of_paper(result: Mapping[str, Any]) -> str:
    """Settings of CML and DPCML that the paper does not have, but for the optimizer and its rate.

    >>> outside_of_paper({"method": "cml+hars", "parameters": {"dim": 200, "margin": 1.0, "n_negatives": 30}})
    'outside the paper: dim 200, n_negatives 30'
    """
    parameters, ranges = result.get("parameters", {}), dict(_PAPERS_RANGES)
    name = str(result.get("method", ""))
    if "+dihars" in name or "+ndihars" in name:
        ranges["n_negatives"] = (10, 20, 30, 50, 100, 120, 200)
    elif "+hars" in name or "+unis" in name:
        ranges["n_negatives"] = (10,)
    if name.startswith("bpa+"):
        ranges["n_interests"] = (2, 3, 4, 5)
    if name.startswith("apa+"):
        ranges["min_interests"] = (1, 2, 3, 4, 5)
    given = {key: parameters[key] for key in ranges if parameters.get(key) is not None}
    found = [f"{key} {value}" for key, value in given.items() if value not in ranges[key]]
    return f"outside the paper: {', '.join(found)}" if found else ""


def over_seeds(results: Sequence[Metrics]) -> tuple[Metrics, Metrics]:
    """Mean and standard deviation of each metric; no deviation of a single run.

    >>> over_seeds([{"P@3": 1.0}, {"P@3": 3.0}])
    ({'P@3': 2.0}, {'P@3': 1.4142135623730951})
    """
    if not results:
        return {}, {}
    names = list(results[0])
    table = np.array([[result[name] for name in names] for result in results], dtype=float)
    std = {} if len(results) < 2 else dict(zip(names, table.std(axis=0, ddof=1).tolist(), strict=True))
    return dict(zip(names, table.mean(axis=0).tolist(), strict=True)), std


def _worst(states: set[str]) -> str:
    return next((state for state in ("failed", "no data", "cut") if state in states), "missing")


@dataclass(frozen=True)
class ReportArchive:
    """The folder of an earlier report: its rows, claims and figures; read only."""

    folder: Path

    def row(self, table: str, dataset: str, label: str, published: Metrics) -> TableRow | None:
        """A finished row, or None where the archive has none."""
        rows = self._results.get((table, dataset, label), [])
        measured = [row for row in rows if row["ours"] is not None]
        if not measured:
            return None
        first = measured[0]
        return TableRow(
            dataset=dataset,
            label=label,
            method=first["method"] or "",
            ours={row["metric"]: row["ours"] for row in measured},
            std={row["metric"]: row["spread"] for row in measured if row["spread"] is not None},
            published=published,
            seeds=first["seeds"],
            seconds=first["seconds"],
            state=first["state"],
            note=first["note"] or "",
            trials=first["trials"],
            made=first["made"] or "",
            version=first["version"] or "",
            revision=first.get("revision") or BEFORE_REVISIONS,
            archived=True,
        )

    def p_value(self, table: str, dataset: str, label: str) -> str:
        """The column p of a row; empty where it had none."""
        rows = self._results.get((table, dataset, label), [])
        return (rows[0]["p"] or "") if rows else ""

    def claim_rows(self, claim: str, dataset: str) -> list[dict[str, Any]]:
        """Differences that a claim was judged by."""
        return self._claims.get((claim, dataset), [])

    def figure(self, name: str, dataset: str) -> dict[str, Any] | None:
        """The files of a figure, and from how many runs it was drawn."""
        files = sorted((self.folder / "figures").glob(f"{name}-{dataset}.[ps][nv]g"))
        known = self._figures.get((name, dataset), [{"n_run": 0, "n_declared": 0}])[0]
        return {"files": files, "n_run": known["n_run"], "n_declared": known["n_declared"]} if files else None

    @cached_property
    def _results(self) -> dict[tuple[str, ...], list[dict[str, Any]]]:
        return self._read("results.csv", ("table", "dataset", "label"), ("ours", "spread", "seconds"))

    @cached_property
    def _claims(self) -> dict[tuple[str, ...], list[dict[str, Any]]]:
        return self._read("claims.csv", ("claim", "dataset"), ("difference", "p", "p after Holm"))

    @cached_property
    def _figures(self) -> dict[tuple[str, ...], list[dict[str, Any]]]:
        return self._read("figures.csv", ("figure", "dataset"))

    def _read(
        self, file: str, keys: tuple[str, ...], floats: tuple[str, ...] = ()
    ) -> dict[tuple[str, ...], list[dict[str, Any]]]:
        path = self.folder / file
        found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        try:
            frame = pl.read_csv(
                path, glob=False, infer_schema_length=None, schema_overrides=dict.fromkeys(floats, pl.Float64)
            )
        except FileNotFoundError:
            raise DataError(f"{self.folder} is not an archive of results: it has no {file}.") from None
        for row in frame.iter_rows(named=True):
            found.setdefault(tuple(row[key] for key in keys), []).append(row)
        return found


def archived_rows(
    experiment: Experiment, planned_runs: Sequence[PlannedRun], cache: ResultCache, archive: ReportArchive | None
) -> list[TableRow]:
    """Rows of the archive with at least as many seeds as are planned, where the cache lacks one of the planned runs."""
    if archive is None:
        return []
    specs = {spec.label: spec for spec in experiment.row_specs}
    groups: dict[tuple[str, str], list[PlannedRun]] = {}
    for planned in planned_runs:
        groups.setdefault((planned.dataset, planned.title), []).append(planned)
    found = []
    for (dataset, label), group in groups.items():
        row = archive.row(experiment.name, dataset, label, experiment.published(dataset, specs[label]))
        if row is not None and row.seeds >= len(group) and not group[0].quick and not _all_cached(group, cache):
            found.append(row)
    return found


def _all_cached(planned_runs: Sequence[PlannedRun], cache: ResultCache) -> bool:
    try:
        return all(cache.get(planned) is not None for planned in planned_runs)
    except DatasetError:
        return False


def in_declared_order(experiment: Experiment, rows: Sequence[TableRow]) -> list[TableRow]:
    """Rows as they are declared, one data set after the other."""
    datasets = list(dict.fromkeys([*experiment.datasets, *(row.dataset for row in rows)]))
    labels = [spec.label for spec in experiment.row_specs]
    return sorted(rows, key=lambda row: (datasets.index(row.dataset), labels.index(row.label)))


def statistics_rows(
    table: StatisticsTable, datasets: Sequence[str] = (), archive: ReportArchive | None = None
) -> list[TableRow]:  # fmt: skip
    """Rows that are computed from the data; those of a data set that is not on this machine come from the archive."""
    found = []
    for row in table.rows(datasets):
        known = archive.row(table.name, row.dataset, row.label, row.published) if archive and not row.ours else None
        found.append(known or row)
    return found


def shown_metrics(table: Experiment | StatisticsTable, found: Sequence[TableRow]) -> list[str]:
    """Columns of the table: those declared for which there is a value, all of them where there is none."""
    some = [name for name in table.shown if any(name in row.ours or name in row.published for row in found)]
    return some or list(table.shown)


def problems_of(found: Sequence[TableRow]) -> list[str]:
    """Return the known reasons why rows are not complete."""
    return [f"{row.label}, {row.dataset}: {_first_line(row)}" for row in found if row.problem]


def _first_line(row: TableRow) -> str:
    """Return the first line of a reason: further lines name folders of this machine."""
    return row.problem.partition("\n")[0]


def to_markdown(
    table: Experiment | StatisticsTable,
    found: Sequence[TableRow],
    *,
    p_values: Mapping[str, str] | None = None,
    difference: bool = False,
    dataset_in_title: bool = False,
    origin_below: bool = False,
) -> str:
    """The table as Markdown: ours, plus or minus its standard deviation, with the published value in parentheses.

    Args:
        table: Its declaration.
        found: Its rows.
        p_values: Of a test against the best row, by label, as text: a column of their own.
        difference: Write ours minus the published value after the published value.
        dataset_in_title: Name the data set in the heading, where the rows are of one.
        origin_below: Say below the table, not in each row, that rows come from an archive.
    """
    metrics = shown_metrics(table, found)
    timed = isinstance(table, Experiment)
    extra = (["p"] if p_values else []) + (["seeds", "trials", "seconds"] if timed else [])
    where = f", {found[0].dataset}" if timed and dataset_in_title and found else ""
    lines = [f"### {table.title}{where} (`{table.name}`)", ""]
    for group in _groups(table, found):
        head = f"| {'method' if timed else 'data set'} | {' | '.join([*metrics, *extra])} |"
        lines += [f"**{group[0].dataset}**", "", head] if timed and not where else [head]
        lines.append("| --- |" + " ---: |" * len([*metrics, *extra]))
        for row in group:
            values = [_figure_text(row, name, difference) for name in metrics]
            if p_values:
                values.append(p_values.get(row.label, "").replace(BEST, ""))
            if timed:
                values += [str(row.seeds), str(row.trials or ""), f"{row.seconds:.0f}"]
            marks = "".join(f" *{mark}*" for mark in marks_of(row, with_origin=not origin_below))
            lines.append(f"| {row_name(table, row)}{marks} | {' | '.join(values)} |")
        lines.append("")
    if timed and problems_of(found):
        lines += ["Not complete:", "", *(f"* {problem}" for problem in problems_of(found)), ""]
    return "\n".join(lines)


def _groups(table: Experiment | StatisticsTable, found: Sequence[TableRow]) -> list[list[TableRow]]:
    """Rows of one data set are one table; what is computed from the data is one table of all data sets."""
    if isinstance(table, StatisticsTable):
        return [list(found)] if found else []
    return [[row for row in found if row.dataset == dataset] for dataset in dict.fromkeys(row.dataset for row in found)]


def row_name(table: Experiment | StatisticsTable, row: TableRow) -> str:
    """The first cells of a row."""
    if not isinstance(table, StatisticsTable):
        return row.label
    return row.dataset if len(table.labels) == 1 else f"{row.dataset}, {row.label}"


def marks_of(row: TableRow, with_origin: bool = True) -> list[str]:
    """Return the marks behind a row's name: incomplete, its note, from an archive."""
    state = [] if row.state == "complete" else [row.state]
    return [*state, *([row.note] if row.note else []), *([origin_of(row)] if row.archived and with_origin else [])]


def origin_of(row: TableRow) -> str:
    """Return date and version of the runs of an archived row."""
    known = [row.made, f"version {row.version}" if row.version else "", row.revision]
    if row.dataset in OWN_SPLITS and row.revision == BEFORE_REVISIONS:
        known.append("another split than the authors'")
    return ", ".join(["archive", *filter(None, known)])


def _figure_text(row: TableRow, name: str, difference: bool) -> str:
    ours, published = row.ours.get(name), row.published.get(name)
    gap = ""
    if difference and ours is not None and published is not None:
        gap = f", {signed(ours - published, published)}"
    in_parentheses = "" if published is None else f" ({as_text(published)}{gap})"
    if ours is None:
        return f"-{in_parentheses}"
    std = f" ± {as_text(row.std[name], ours)}" if name in row.std else ""
    return as_text(ours) + std + in_parentheses


def as_text(value: float, like: float | None = None) -> str:
    """A value as text: counts whole, percentages with two digits behind the point, small ones with three.

    ``like`` is another value that decides how many digits there are: a deviation has those of its mean.

    >>> as_text(575271.0), as_text(26.66), as_text(0.0926), as_text(0.7071, like=26.5)
    ('575,271', '26.66', '0.093', '0.71')
    """
    size = abs(value if like is None else like)
    if size >= 1000 or (size >= 100 and float(value).is_integer()):
        return f"{value:,.0f}"
    return f"{value:.2f}" if size >= 1 else f"{value:.3f}"


def p_text(p: float) -> str:
    """A p-value as text.

    >>> p_text(0.0), p_text(0.0123), p_text(0.5)
    ('< 0.001', '0.012', '0.50')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def signed(difference: float, like: float) -> str:
    """A difference with its sign and the digits of the value that it belongs to.

    >>> signed(1.234, 26.5), signed(-3.0, 1200.0), signed(0.001, 3.81)
    ('+1.23', '-3', '=')
    """
    text = as_text(abs(difference), like)
    if not text.strip("0."):
        return "="
    return ("+" if difference > 0 else "-") + text


def to_rows(
    table: Experiment | StatisticsTable, found: Sequence[TableRow], p_values: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """One row per table row and metric, for programs: dataset, method, metric, ours, spread, paper, difference, ...

    ``spread`` is the standard deviation over seeds; the column keeps this name for archives written before.

    The metrics are those that the table shows and those that the paper gives.
    """
    rows = []
    for row in found:
        for name in dict.fromkeys([*shown_metrics(table, found), *row.published]):
            ours, published = row.ours.get(name), row.published.get(name)
            rows.append(
                {
                    "dataset": row.dataset,
                    "label": row.label,
                    "method": row.method,
                    "metric": name,
                    "ours": ours,
                    "spread": row.std.get(name),
                    "paper": published,
                    "difference": None if ours is None or published is None else ours - published,
                    "seeds": row.seeds,
                    "trials": row.trials,
                    "seconds": row.seconds,
                    "state": row.state,
                    "note": row.note,
                    "problem": _first_line(row),
                    "p": (p_values or {}).get(row.label, ""),
                    "made": row.made,
                    "version": row.version,
                    "revision": row.revision,
                }
            )
    return rows
