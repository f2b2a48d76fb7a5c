"""Base of the figures: declarations, the results that they are drawn from, panels, axes, colors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tastespace.errors import DataError
from tastespace.paper.data import TOWN
from tastespace.paper.experiments import Experiment, TableRow, checked_datasets
from tastespace.paper.rows import table_rows
from tastespace.paper.runner import PlannedRun, RunResult, RunStatus
from tastespace.plots.canvas import (
    FAINT,
    INK,
    PALETTE,
    QUIET,
    fit_into,
    new_figure,
    save_figure,
    write,
)

BLUE, VERMILION, GREEN, PINK, AMBER, SKY, BROWN, GRAY = PALETTE
FAMILY = {"CML": BLUE, "BPA": VERMILION, "APA": GREEN}
"""One vector, the same number of vectors for all, an adaptive number."""
MARKS = {"UniS": "o", "HarS": "s", "DiHarS": "D", "NDiHarS": "^"}
LIGHT = "#E6E6E6"

_TIMES = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0)
# Inches around and between panels.
_LEFT, _RIGHT, _BOTTOM, _HEAD = 0.75, 0.3, 0.65, 1.05
_ACROSS, _DOWN = 0.8, 0.95


class NothingToDrawError(DataError):
    """None of the runs that a figure needs has been made."""


@dataclass(frozen=True)
class FigureData:
    """Input of a drawing function: a data set's name and the results on it."""

    dataset: str
    tables: Mapping[str, Mapping[str, TableRow]] = field(default_factory=dict)
    """Name of a table -> label of a row -> the row, of those that have been run."""
    runs: Mapping[str, Mapping[str, list[RunResult]]] = field(default_factory=dict)
    """The same with the finished runs behind each row, one per seed."""
    quick: bool = False

    def rows(self, table: str) -> Mapping[str, TableRow]:
        """Rows of one table by label, of those that have been run."""
        return self.tables.get(table, {})

    def value(self, table: str, label: str, metric: str) -> float:
        """One value of one row, NaN where it was not run: a gap in the figure."""
        entry = self.rows(table).get(label)
        return math.nan if entry is None else entry.ours.get(metric, math.nan)

    def published(self, table: str, label: str, metric: str) -> float:
        """The paper's value, NaN where it gives none."""
        entry = self.rows(table).get(label)
        return math.nan if entry is None else entry.published.get(metric, math.nan)

    def std(self, table: str, label: str, metric: str) -> float:
        """Standard deviation over seeds, 0 of a single one."""
        entry = self.rows(table).get(label)
        return 0.0 if entry is None else entry.std.get(metric, 0.0)


@dataclass(frozen=True)
class FigureSpec:
    """A figure: the tables whose runs it shows, and how it is drawn."""

    name: str
    title: str
    datasets: tuple[str, ...]
    draw: Callable[[FigureData], Any]
    """Function that returns a matplotlib figure."""
    tables: tuple[Experiment, ...] = ()
    caption: str = ""
    """Text below the figure."""

    def planned_runs(self, dataset: str, seeds: int | None = None, quick: bool = False) -> dict[str, list[PlannedRun]]:
        """Everything that the figure needs on a data set, by table."""
        (wanted,) = checked_datasets(self.name, [dataset], self.datasets, self.town)
        return {table.name: table.planned_runs([wanted], seeds, quick) for table in self.tables}

    @property
    def town(self) -> str:
        """Name of the synthetic data set in its tables."""
        return self.tables[0].town if self.tables else TOWN

    def draw_from(self, dataset: str, statuses: Mapping[str, Sequence[RunStatus]], quick: bool = False) -> Any:
        """The figure from the runs of its tables, by name; those without a result are left out."""
        done = {name: [row for row in found if row.found is not None] for name, found in statuses.items()}
        if self.tables and not any(done.values()):
            problem = next((row.problem for found in statuses.values() for row in found if row.problem), "")
            raise NothingToDrawError(f"{self.name}: nothing of it has been run on {dataset}. {problem}".rstrip())
        tables = {
            table.name: {entry.label: entry for entry in table_rows(table, done.get(table.name, []))}
            for table in self.tables
        }
        runs: dict[str, dict[str, list[RunResult]]] = {}
        for name, found in done.items():
            for row in found:
                assert row.found is not None
                runs.setdefault(name, {}).setdefault(row.planned.title, []).append(row.found)
        figure = self.draw(FigureData(dataset, tables, runs, quick))
        if quick:
            figure.text(0.99, 0.01, "a quick run of few epochs: only to see that it works", ha="right", fontsize=7)
        return figure

    def write(
        self, folder: Path, dataset: str, statuses: Mapping[str, Sequence[RunStatus]], quick: bool = False
    ) -> list[Path]:
        """Draw the figure and write it as NAME-DATASET.svg and .png; return the paths."""
        drawn = self.draw_from(dataset, statuses, quick)
        return [save_figure(drawn, folder / f"{self.name}-{dataset}{kind}") for kind in (".svg", ".png")]


def panels(
    title: str,
    subtitle: str,
    count: int,
    *,
    size: tuple[float, float] = (3.6, 2.9),
    columns: int | None = None,
    left: float = _LEFT,
    bottom: float = _BOTTOM,
    across: float = _ACROSS,
    legend: bool = False,
) -> tuple[Any, list[Any]]:
    """A figure with a heading and ``count`` panels of this size in inches; with room for a legend below the heading."""
    columns = columns or min(count, 3)
    rows = math.ceil(count / columns)
    head = _HEAD + (0.2 if legend else 0.0)
    width = left + columns * size[0] + (columns - 1) * across + _RIGHT
    height = head + rows * size[1] + (rows - 1) * _DOWN + bottom
    figure = new_figure(width, height)
    page = figure.add_axes((0, 0, 1, 1))
    page.set(xlim=(0, width), ylim=(0, height))
    page.axis("off")
    fit_into(write(page, 0.25, height - 0.38, title, 14, fontweight="bold"), width - 0.5, 0.4)
    fit_into(write(page, 0.25, height - 0.62, subtitle, 9.5, QUIET), width - 0.5, 0.3)
    found = []
    for number in range(count):
        row, column = divmod(number, columns)
        x = left + column * (size[0] + across)
        y = height - head - (row + 1) * size[1] - row * _DOWN
        axes = figure.add_axes((x / width, y / height, size[0] / width, size[1] / height))
        found.append(quiet(axes))
    return figure, found


def quiet(axes: Any, grid: str = "y") -> Any:
    """Axes without a frame: thin lines behind, small gray ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=QUIET, labelsize=8.5, length=3, color=FAINT)
    axes.grid(axis=grid, color=LIGHT, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def name_axes(axes: Any, title: str = "", x: str = "", y: str = "") -> None:
    """Texts around a panel."""
    if title:
        axes.set_title(title, fontsize=10.5, color=INK, loc="left", pad=7)
    axes.set_xlabel(x, fontsize=9, color=QUIET)
    axes.set_ylabel(y, fontsize=9, color=QUIET)


def log_seconds(axis: Any) -> None:
    """A logarithmic axis of seconds with a mark at 1, 2 and 5 of every power of ten, or at fewer, written out."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    wide = high > 300 * low
    axis.set_major_locator(FixedLocator(_TIMES) if wide else LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:g} s" if value < 120 else f"{value / 60:.2g} min")


def legend_above(figure: Any, axes: Any, **changes: Any) -> None:
    """The panel's marks, once for all panels, in a row below the heading."""
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    if not unique:
        return
    height = figure.get_size_inches()[1]
    figure.legend(
        unique.values(), unique.keys(), loc="upper left", bbox_to_anchor=(0.012, 1 - 0.68 / height),
        ncols=len(unique), frameon=False, fontsize=9, labelcolor=INK, columnspacing=1.6, handletextpad=0.5, **changes,
    )  # fmt: skip


def bars_with_std(
    axes: Any, x: Any, values: Sequence[float], std: Sequence[float], width: float, shade: str, label: str
) -> None:
    """Bars with their values, and whiskers where several seeds were run."""
    whiskers = std if any(std) else None
    style = {"elinewidth": 1, "ecolor": INK}
    bars = axes.bar(x, values, width, color=shade, label=label, yerr=whiskers, error_kw=style)
    texts = ["" if math.isnan(value) else f"{value:.1f}" for value in values]
    axes.bar_label(bars, texts, fontsize=7.5, color=QUIET, padding=2)


def zoom_to_values(axes: Any, values: Sequence[float], room: float = 0.25) -> None:
    """Bars that begin below the smallest value rather than at zero, and say so: differences are small."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return
    low, high = min(known), max(known)
    margin = max(high - low, 0.02 * abs(high), 1e-9)
    bottom = max(0.0, low - margin * (1 + room))
    axes.set_ylim(bottom, high + margin * 0.45)


def family_of(label: str) -> str:
    """CML, BPA or APA, whichever the label names; DPCML alone counts as BPA.

    >>> family_of("DPCML+APA w/o DCRS, HarS"), family_of("CML+DD, UniS"), family_of("DPCML+HarS")
    ('APA', 'CML', 'BPA')
    """
    if "APA" in label:
        return "APA"
    return "BPA" if "BPA" in label or "DPCML" in label else "CML"
