"""What the report shows: every table, claim and figure as far as finished cells go; nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tastespace.errors import DatasetError
from tastespace.paper.cells import Cell, Finished, Shelf
from tastespace.paper.claims import CLAIMS
from tastespace.paper.counted import Counted
from tastespace.paper.entries import QUICK, Entry, entries
from tastespace.paper.experiment import Experiment
from tastespace.paper.figures import FIGURES, NothingToDrawError, Picture
from tastespace.paper.figures.files import draw_to
from tastespace.paper.pairs import holm, paired
from tastespace.paper.runner import Row, look, why_missing
from tastespace.paper.runs import load_parts
from tastespace.paper.tables import TABLES
from tastespace.paper.verdicts import Verdict, judge

_MOST_SEEDS = 10
_COMPARED = "P@3"
_NO_DATA, _NOT_RUN = "the data set is not here", "not run"


@dataclass(frozen=True)
class Section:
    """A table on one data set."""

    table: Experiment | Counted
    dataset: str
    """Empty for what is counted of all data sets."""
    found: list[Entry]
    p_values: dict[str, float] = field(default_factory=dict)
    """Of the best row against each other one, by label: paired over users, corrected by Holm."""
    best: str = ""
    """Label of the row with the largest P@3."""

    @property
    def title(self) -> str:
        """The table and its data set."""
        return f"{self.table.title}, {self.dataset}" if self.dataset else self.table.title

    @property
    def command(self) -> str:
        """What makes it, with the seeds that all its rows have; some may have more, from other tables and claims."""
        usual = self.table.seeds if isinstance(self.table, Experiment) else 1
        seeds = min((entry.seeds for entry in self.found if entry.seeds), default=usual)
        return (
            f"tastespace paper table {self.table.name}"
            + (f" --dataset {self.dataset}" if self.dataset else "")
            + (f" --seeds {seeds}" if seeds != usual else "")
            + (" --quick" if any(QUICK in entry.note for entry in self.found) else "")
        )

    @property
    def effort(self) -> str:
        """How long all its runs took together; they may be spread over the cores. Empty for what is counted."""
        if not isinstance(self.table, Experiment):
            return ""
        minutes = sum(entry.seconds * entry.seeds for entry in self.found) / 60
        runs = sum(entry.seeds for entry in self.found)
        time = f"{minutes:.0f} minutes" if minutes >= 2 else f"{60 * minutes:.0f} seconds"
        return f"{runs} {'run' if runs == 1 else 'runs'} on one core, {time} in all"


@dataclass(frozen=True)
class Drawn:
    """A figure on one data set."""

    picture: Picture
    dataset: str
    files: list[Path]
    n_run: int = 0
    n_declared: int = 0
    """Runs that the figure shows, and those that it is declared for; 0 where it needs none."""

    @property
    def caption(self) -> str:
        """What to look for, and whether something is missing."""
        part = f" Drawn from {self.n_run} of {self.n_declared} runs." if self.n_run < self.n_declared else ""
        return self.picture.caption + part


@dataclass
class Collected:
    """Everything for the report."""

    sections: list[Section] = field(default_factory=list)
    figures: list[Drawn] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    """When and on what the runs were made."""
    gaps: list[tuple[str, str, str]] = field(default_factory=list)
    """What is missing, on which data set, and why."""


def collect(out: Path, shelf: Shelf, datasets: Sequence[str] = (), quick: bool = False) -> Collected:
    """Look everything up; figures are drawn into ``out / "figures"``."""
    found, here = Collected(), _Here()
    for table in TABLES.values():
        names = _wanted(table.datasets, datasets)
        if isinstance(table, Counted):
            if names:
                _add_section(found, Section(table, "", table.entries(names)))
            continue
        for dataset in names:
            _add_table(found, table, dataset, shelf, quick, here)
    for claim in () if quick else CLAIMS.values():
        for dataset in _wanted(claim.datasets, datasets):
            rows = _finished(claim.cells(dataset, 1), shelf) if here.has(dataset) else []
            found.verdicts.append(judge(claim, dataset, rows))
    for picture in FIGURES.values():
        for dataset in _wanted(picture.datasets, datasets):
            _add_figure(found, picture, dataset, shelf, out, quick, here)
    return found


class _Here:
    """Which data sets are on this machine; each is looked for once."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def has(self, dataset: str) -> bool:
        if dataset not in self._known:
            try:
                load_parts(dataset)
                self._known[dataset] = True
            except DatasetError:
                self._known[dataset] = False
        return self._known[dataset]


def _wanted(declared: Sequence[str], asked: Sequence[str]) -> list[str]:
    return [name for name in declared if not asked or name in asked] or [n for n in asked if n == "town"]


def _add_table(
    found: Collected, table: Experiment, dataset: str, shelf: Shelf, quick: bool, here: _Here
) -> None:  # fmt: skip
    if not here.has(dataset):
        found.gaps.append((f"table {table.name}", dataset, _NO_DATA))
        return
    rows = _finished(table.cells([dataset], 1, quick), shelf, keep_missing=True)
    by_label: dict[str, list[Finished]] = {}
    for row in rows:
        if row.finished is not None:
            found.made.add(_origin(row.finished))
            by_label.setdefault(row.cell.title, []).append(row.finished)
    best, p_values = _against_best(by_label) if _COMPARED in table.shown else ("", {})
    _add_section(found, Section(table, dataset, entries(table, rows), p_values, best))


def _origin(finished: Finished) -> str:
    made = finished.result["made"]
    return f"{made['date']} on {made['processor']}" if "processor" in made else f"{made['date']} (machine not noted)"


def _add_section(found: Collected, section: Section) -> None:
    if any(entry.ours for entry in section.found):
        found.sections.append(section)
    absent = [entry for entry in section.found if not entry.ours]
    if absent and section.dataset:
        part = f"{len(absent)} of {len(section.found)} rows of " if len(absent) < len(section.found) else ""
        states = ", ".join(sorted({_NOT_RUN if one.state == "missing" else one.state for one in absent}))
        found.gaps.append((f"{part}table {section.table.name}", section.dataset, states))


def _add_figure(
    found: Collected, picture: Picture, dataset: str, shelf: Shelf, out: Path, quick: bool, here: _Here
) -> None:  # fmt: skip
    if not here.has(dataset):
        found.gaps.append((f"figure {picture.name}", dataset, _NO_DATA))
        return
    cells = picture.cells(dataset, 1, quick)
    rows = {name: _finished(wanted, shelf) for name, wanted in cells.items()}
    try:
        files = draw_to(out / "figures", picture, dataset, rows, quick)
    except NothingToDrawError:
        found.gaps.append((f"figure {picture.name}", dataset, _NOT_RUN))
    else:
        n_run = len({row.cell.key() for done in rows.values() for row in done if row.cell.seed == 0})
        n_declared = len({cell.key() for wanted in cells.values() for cell in wanted})
        found.figures.append(Drawn(picture, dataset, files, n_run, n_declared))


def _finished(cells: Sequence[Cell], shelf: Shelf, keep_missing: bool = False) -> list[Row]:
    """All seeds that were run of each cell, and of one that was not run, if wanted, that it is missing."""
    rows: list[Row] = []
    for cell in cells:
        for seed in range(_MOST_SEEDS):
            (row,) = look([replace(cell, seed=seed)], shelf)
            if row.finished is None:
                if seed == 0 and keep_missing:
                    if row.state == "waiting":
                        row.state, row.problem = why_missing(row.cell, shelf)
                    rows.append(row)
                break
            rows.append(row)
    return rows


def _against_best(runs: dict[str, list[Finished]]) -> tuple[str, dict[str, float]]:
    """The best row, and how sure it is that each other one is worse."""
    means = {
        label: sum(run.result["metrics"][_COMPARED] for run in found) / len(found)
        for label, found in runs.items()
        if all(_COMPARED in run.per_user for run in found)
    }
    if len(means) < 2:
        return "", {}
    best = max(means, key=lambda label: means[label])
    others = [label for label in means if label != best]
    p_values = [paired(runs[best], runs[label], _COMPARED).p_value for label in others]
    return best, dict(zip(others, holm(p_values), strict=True))
