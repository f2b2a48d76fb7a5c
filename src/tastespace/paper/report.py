"""Report of every table, claim and figure for which there are finished runs or archived rows; nothing is run for it.

It is written as one self-contained HTML page, as Markdown, and as rows for programs. The two pages are Jinja2 templates
in `templates/`; HTML is escaped by Jinja2.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from tastespace._util.atomic import atomic_write
from tastespace._util.extras import missing
from tastespace.errors import DatasetError
from tastespace.evaluation.significance import holm
from tastespace.paper.claims import CLAIMS
from tastespace.paper.data import TOWN, load_parts
from tastespace.paper.experiments import Experiment, TableRow
from tastespace.paper.figures import FIGURES, FigureSpec, NothingToDrawError
from tastespace.paper.rows import (
    BEST,
    QUICK,
    ReportArchive,
    archived_rows,
    as_text,
    in_declared_order,
    marks_of,
    origin_of,
    p_text,
    problems_of,
    row_name,
    shown_metrics,
    signed,
    statistics_rows,
    table_rows,
    to_markdown,
    to_rows,
)
from tastespace.paper.runner import PlannedRun, ResultCache, RunResult, RunStatus, lookup, why_missing
from tastespace.paper.runs import environment
from tastespace.paper.statistics import StatisticsTable
from tastespace.paper.tables import TABLES
from tastespace.paper.verdicts import (
    DEVIATIONS_HEADING,
    Verdict,
    archived_verdict,
    deviations,
    judge,
    paired_over_users,
)

_MAX_SEEDS = 10
_COMPARED = "P@3"
_NO_DATA, _NOT_RUN = "the data set is not here", "not run"
_MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}
_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Section:
    """A table on one data set."""

    table: Experiment | StatisticsTable
    dataset: str
    """Empty for a table that is counted in all data sets."""
    rows: list[TableRow]
    p_values: dict[str, str] = field(default_factory=dict)
    """p-values of the best row in P@3 against each other one, by label: `paired_over_users`, with Holm's correction."""

    @property
    def title(self) -> str:
        """The table and its data set."""
        return f"{self.table.title}, {self.dataset}" if self.dataset else self.table.title

    @property
    def anchor(self) -> str:
        """Anchor of links to it."""
        return f"{self.table.name}-{self.dataset}"

    @property
    def command(self) -> str:
        """Command that makes it, with the seeds that all rows have; some may have more, from other tables."""
        usual = self.table.seeds if isinstance(self.table, Experiment) else 1
        seeds = min((row.seeds for row in self.rows if row.seeds), default=usual)
        return (
            f"tastespace paper table {self.table.name}"
            + (f" --dataset {self.dataset}" if self.dataset else "")
            + (f" --seeds {seeds}" if seeds != usual else "")
            + (" --quick" if any(QUICK in row.note for row in self.rows) else "")
        )

    @property
    def effort(self) -> str:
        """Time of all its runs together, whatever the number of cores. Empty where nothing is trained."""
        if not isinstance(self.table, Experiment):
            return ""
        minutes = sum(row.seconds * row.seeds for row in self.rows) / 60
        runs = sum(row.seeds for row in self.rows)
        time = f"{minutes:.0f} minutes" if minutes >= 2 else f"{60 * minutes:.0f} seconds"
        return f"{runs} {'run' if runs == 1 else 'runs'} on one core, {time} in all"

    @property
    def origin(self) -> str:
        """Number of its rows that come from an archive, with their dates and versions."""
        archived = [row for row in self.rows if row.archived]
        if not archived:
            return ""
        count = "All rows" if all(row.archived or not row.ours for row in self.rows) else f"{len(archived)} rows"
        return f"{count} from the {'; '.join(sorted({origin_of(row) for row in archived}))}."


@dataclass(frozen=True)
class DrawnFigure:
    """A figure on one data set."""

    spec: FigureSpec
    dataset: str
    files: list[Path]
    n_run: int = 0
    n_declared: int = 0
    """Runs that the figure shows, and those that it is declared for; 0 where it needs none."""

    @property
    def title(self) -> str:
        """The figure and its data set."""
        return f"{self.spec.title}, {self.dataset}"

    @property
    def anchor(self) -> str:
        """Anchor of links to it."""
        return f"figure-{self.spec.name}-{self.dataset}"

    @property
    def caption(self) -> str:
        """Caption, with a note on missing runs."""
        part = f" Drawn from {self.n_run} of {self.n_declared} runs." if self.n_run < self.n_declared else ""
        return self.spec.caption + part

    @property
    def data_uri(self) -> str:
        """The figure itself: lines are smaller and sharper as .svg, clouds of dots as .png."""
        file = min(self.files, key=lambda path: path.stat().st_size)
        return f"data:{_MEDIA[file.suffix]};base64,{base64.b64encode(file.read_bytes()).decode('ascii')}"


@dataclass
class Contents:
    """Everything for the report."""

    sections: list[Section] = field(default_factory=list)
    figures: list[DrawnFigure] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    """Dates and machines of the runs."""
    gaps: list[tuple[str, str, str]] = field(default_factory=list)
    """Missing tables and figures, their data sets, and the reasons."""


def write_report(
    out: str | Path,
    cache: str | Path,
    *,
    datasets: Sequence[str] = (),
    quick: bool = False,
    archive: str | Path | None = None,
) -> list[Path]:
    """Write report.html, report.md, results.csv, claims.csv, figures.csv and figures/ into a folder; return the paths.

    Args:
        out: The folder.
        cache: The result cache. Nothing is run: what is not there is a marked gap.
        datasets: Only these; by default all that are declared.
        quick: Report the runs of few epochs (``--quick``); claims are not judged then.
        archive: Folder of an earlier report; its rows, claims and figures are used for runs that the cache lacks.
    """
    templates = _environment()
    folder = Path(out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    known = None if archive is None or quick else ReportArchive(Path(archive).expanduser())
    found = collect(folder, ResultCache(cache), datasets, quick, known)
    # What was run may be older than the report, and from another machine.
    here = environment()
    facts = {"runs made": "; ".join(sorted(found.made)) or "none", "page made": here.pop("date"), **here}
    datasets_judged, claims = by_claim(found.verdicts)
    paths = []
    for name in ("report.html", "report.md"):
        text = templates.get_template(name).render(
            found=found, facts=facts, out=folder, claims=claims, claim_datasets=datasets_judged,
            deviations_heading=DEVIATIONS_HEADING, css=(_TEMPLATES / "report.css").read_text(encoding="utf-8"),
        )  # fmt: skip
        paths.append(folder / name)
        with atomic_write(paths[-1]) as temporary:
            temporary.write_text(text, encoding="utf-8")
    paths += _write_rows(found, folder)
    return [*paths, *(file for drawn in found.figures for file in drawn.files)]


def collect(
    out: Path,
    cache: ResultCache,
    datasets: Sequence[str] = (),
    quick: bool = False,
    archive: ReportArchive | None = None,
) -> Contents:
    """Look everything up; figures are drawn into ``out / "figures"``."""
    return _Collector(out, cache, datasets, quick, archive).collect()


class _Collector:
    """Fills `Contents` from the result cache and the archive."""

    def __init__(
        self, out: Path, cache: ResultCache, datasets: Sequence[str], quick: bool, archive: ReportArchive | None
    ) -> None:
        self._out, self._cache, self._datasets, self._quick, self._archive = out, cache, datasets, quick, archive
        self._available: dict[str, bool] = {}
        self.found = Contents()

    def collect(self) -> Contents:
        for table in TABLES.values():
            names = self._wanted(table.datasets)
            if isinstance(table, StatisticsTable):
                if names:
                    self._add_section(Section(table, "", statistics_rows(table, names, self._archive)))
                continue
            for dataset in names:
                self._add_table(table, dataset)
        for claim in () if self._quick else CLAIMS.values():
            for dataset in self._wanted(claim.datasets):
                statuses = self._finished(claim.planned_runs(dataset, 1)) if self._has(dataset) else []
                verdict = judge(claim, dataset, statuses)
                earlier = archived_verdict(claim, dataset, self._archive) if self._archive else verdict
                self.found.verdicts.append(earlier if earlier.measured > verdict.measured else verdict)
        for spec in FIGURES.values():
            for dataset in self._wanted(spec.datasets):
                self._add_figure(spec, dataset)
        return self.found

    def _has(self, dataset: str) -> bool:
        """Return true if a data set is on this machine; each is looked for once."""
        if dataset not in self._available:
            try:
                load_parts(dataset)
                self._available[dataset] = True
            except DatasetError:
                self._available[dataset] = False
        return self._available[dataset]

    def _wanted(self, declared: Sequence[str]) -> list[str]:
        chosen = self._datasets
        return [name for name in declared if not chosen or name in chosen] or [n for n in chosen if n == TOWN]

    def _add_table(self, table: Experiment, dataset: str) -> None:
        planned = table.planned_runs([dataset], 1, self._quick)
        statuses = self._finished(planned, keep_missing=True) if self._has(dataset) else []
        rows = {row.label: row for row in table_rows(table, statuses)}
        for row in archived_rows(table, planned, self._cache, self._archive):
            if row.seeds > (rows[row.label].seeds if row.label in rows else 0):
                rows[row.label] = row
                self.found.made.add(f"{row.made}, version {row.version} (archive)")
        if not rows:
            self.found.gaps.append((f"table {table.name}", dataset, _NO_DATA))
            return
        by_label: dict[str, list[RunResult]] = {}
        for status in statuses:
            if status.found is not None and not rows[status.planned.title].archived:
                self.found.made.add(_origin(status.found))
                by_label.setdefault(status.planned.title, []).append(status.found)
        p_values: dict[str, str] = {}
        if _COMPARED in table.shown:
            archived = {row.label for row in rows.values() if row.archived}
            # Values of single users are not in an archive: rows of both kinds cannot be compared.
            p_values = self._archived_p_values(table, dataset, archived) if not by_label else {}
            p_values = _against_best(by_label) if not archived else p_values
        self._add_section(Section(table, dataset, in_declared_order(table, list(rows.values())), p_values))

    def _archived_p_values(self, table: Experiment, dataset: str, labels: set[str]) -> dict[str, str]:
        if self._archive is None:
            return {}
        texts = {label: self._archive.p_value(table.name, dataset, label) for label in labels}
        return {label: text for label, text in texts.items() if text}

    def _add_section(self, section: Section) -> None:
        if any(row.ours for row in section.rows):
            self.found.sections.append(section)
        absent = [row for row in section.rows if not row.ours]
        if absent and section.dataset:
            part = f"{len(absent)} of {len(section.rows)} rows of " if len(absent) < len(section.rows) else ""
            states = ", ".join(sorted({_NOT_RUN if row.state == "missing" else row.state for row in absent}))
            self.found.gaps.append((f"{part}table {section.table.name}", section.dataset, states))

    def _add_figure(self, spec: FigureSpec, dataset: str) -> None:
        planned = spec.planned_runs(dataset, 1, self._quick)
        available = self._has(dataset)
        statuses = {name: self._finished(runs) for name, runs in planned.items()} if available else {}
        first = [s.planned for found in statuses.values() for s in found if s.planned.seed == 0]
        n_run = len({one.key() for one in first})
        earlier = self._archive.figure(spec.name, dataset) if self._archive else None
        if earlier is not None and n_run <= earlier["n_run"]:
            files = [_copied(file, self._out / "figures") for file in earlier["files"]]
            self.found.figures.append(DrawnFigure(spec, dataset, files, earlier["n_run"], earlier["n_declared"]))
            return
        if not available:
            self.found.gaps.append((f"figure {spec.name}", dataset, _NO_DATA))
            return
        try:
            files = spec.write(self._out / "figures", dataset, statuses, self._quick)
        except NothingToDrawError:
            self.found.gaps.append((f"figure {spec.name}", dataset, _NOT_RUN))
        else:
            n_declared = len({one.key() for runs in planned.values() for one in runs})
            self.found.figures.append(DrawnFigure(spec, dataset, files, n_run, n_declared))

    def _finished(self, planned_runs: Sequence[PlannedRun], keep_missing: bool = False) -> list[RunStatus]:
        """Return the finished seeds of each row, with a note on rows that were not run if wanted."""
        rows: list[RunStatus] = []
        for planned in planned_runs:
            for seed in range(_MAX_SEEDS):
                (row,) = lookup([replace(planned, seed=seed)], self._cache)
                if row.found is None:
                    if seed == 0 and keep_missing:
                        if row.state == "waiting":
                            row.state, row.problem = why_missing(row.planned, self._cache)
                        rows.append(row)
                    break
                rows.append(row)
        return rows


def _copied(file: Path, folder: Path) -> Path:
    """A file of the archive in the folder of the report, which may be the same."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / file.name
    if not target.exists() or not target.samefile(file):
        shutil.copyfile(file, target)
    return target


def _origin(found: RunResult) -> str:
    made = found.result["made"]
    return f"{made['date']} on {made['processor']}" if "processor" in made else f"{made['date']} (machine not noted)"


def _against_best(runs: Mapping[str, list[RunResult]]) -> dict[str, str]:
    """p-values of the best row against each other one."""
    means = {
        label: sum(run.result["metrics"][_COMPARED] for run in found) / len(found)
        for label, found in runs.items()
        if all(_COMPARED in run.per_user for run in found)
    }
    if len(means) < 2:
        return {}
    best = max(means, key=lambda label: means[label])
    others = [label for label in means if label != best]
    p_values = holm([paired_over_users(runs[best], runs[label], _COMPARED).p_value for label in others])
    return {best: BEST, **{label: p_text(p) for label, p in zip(others, p_values, strict=True)}}


def by_claim(verdicts: Sequence[Verdict]) -> tuple[list[str], dict[str, list[Verdict | None]]]:
    """The data sets, and a claim's text -> the verdict on each of them; None where it is not about that one."""
    datasets = list(dict.fromkeys(verdict.dataset for verdict in verdicts))
    found: dict[str, list[Verdict | None]] = {}
    for verdict in verdicts:
        row = found.setdefault(verdict.claim.text, [None] * len(datasets))
        row[datasets.index(verdict.dataset)] = verdict
    return datasets, found


def _write_rows(found: Contents, folder: Path) -> list[Path]:
    results = [
        {"table": section.table.name, **row}
        for section in found.sections
        for row in to_rows(section.table, section.rows, section.p_values)
    ]
    claims = [row for verdict in found.verdicts for row in verdict.rows()]
    figures = [
        {"figure": drawn.spec.name, "dataset": drawn.dataset, "n_run": drawn.n_run, "n_declared": drawn.n_declared}
        for drawn in found.figures
    ]
    paths = []
    for name, rows in (("results.csv", results), ("claims.csv", claims), ("figures.csv", figures)):
        if rows:
            paths.append(folder / name)
            floats = pl.selectors.float()
            p_values = pl.selectors.matches("^p( |$)") & floats
            # Six digits, so that a table of archived rows shows the same two or three as one of the runs themselves.
            rounded = (p_values.round_sig_figs(4), (floats - p_values).round(6))
            with atomic_write(paths[-1]) as temporary:
                pl.DataFrame(rows, infer_schema_length=None).with_columns(*rounded).write_csv(temporary)
    return paths


def _environment() -> Any:
    """Return Jinja2 with the functions that the templates call; .html is escaped, .md is not."""
    try:
        import jinja2
    except ImportError as problem:
        raise missing("paper", "the report needs Jinja2") from problem
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.globals |= {
        "as_text": as_text, "deviations": deviations, "marks_of": marks_of, "p_text": p_text,
        "problems_of": problems_of,
        "row_name": row_name, "shown_metrics": shown_metrics, "signed": signed, "to_markdown": to_markdown,
        "is_timed": lambda table: isinstance(table, Experiment), "best_value": _best_value, "png_of": _png_of,
    }  # fmt: skip
    return found


def _best_value(rows: Sequence[TableRow], metric: str) -> float | None:
    """Return the largest value, of times the smallest."""
    values = [row.ours[metric] for row in rows if metric in row.ours]
    return (min if metric.startswith("seconds") else max)(values, default=None)


def _png_of(drawn: DrawnFigure, out: Path) -> str:
    return str(next(file for file in drawn.files if file.suffix == ".png").relative_to(out))
