"""What a figure is: which tables' cells it needs, and a function that draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tastespace.errors import DataError
from tastespace.paper.cells import Cell, Finished
from tastespace.paper.entries import Entry, entries
from tastespace.paper.experiment import Experiment, checked_datasets
from tastespace.paper.runner import Row
from tastespace.paper.runs import TOWN


class NothingToDrawError(DataError):
    """None of the cells that a figure needs has been run."""


@dataclass(frozen=True)
class Material:
    """What a drawing function is given: a data set's name, and what was run on it."""

    dataset: str
    tables: Mapping[str, Mapping[str, Entry]] = field(default_factory=dict)
    """Name of a table -> label of a row -> the row, of those that have been run."""
    runs: Mapping[str, Mapping[str, list[Finished]]] = field(default_factory=dict)
    """The same with the finished runs behind each row, one per seed."""
    quick: bool = False

    def rows(self, table: str) -> Mapping[str, Entry]:
        """Rows of one table by label, of those that have been run."""
        return self.tables.get(table, {})

    def value(self, table: str, label: str, metric: str) -> float:
        """One figure of one row, NaN where it was not run: a gap in the picture."""
        entry = self.rows(table).get(label)
        return math.nan if entry is None else entry.ours.get(metric, math.nan)

    def theirs(self, table: str, label: str, metric: str) -> float:
        """The paper's figure, NaN where it gives none."""
        entry = self.rows(table).get(label)
        return math.nan if entry is None else entry.theirs.get(metric, math.nan)

    def spread(self, table: str, label: str, metric: str) -> float:
        """Standard deviation over seeds, 0 of a single one."""
        entry = self.rows(table).get(label)
        return 0.0 if entry is None else entry.spread.get(metric, 0.0)


@dataclass(frozen=True)
class Picture:
    """A figure: the tables whose cells it shows, and how it is drawn."""

    name: str
    title: str
    datasets: tuple[str, ...]
    draw: Callable[[Material], Any]
    """Gives a matplotlib figure."""
    tables: tuple[Experiment, ...] = ()
    caption: str = ""
    """What the reader should look for."""

    def cells(self, dataset: str, seeds: int | None = None, quick: bool = False) -> dict[str, list[Cell]]:
        """Everything that the figure needs on a data set, by table."""
        (wanted,) = checked_datasets(self.name, [dataset], self.datasets, self.town)
        return {table.name: table.cells([wanted], seeds, quick) for table in self.tables}

    @property
    def town(self) -> str:
        """How the synthetic town is called in its tables."""
        return self.tables[0].town if self.tables else TOWN

    def paint(self, dataset: str, rows: Mapping[str, Sequence[Row]], quick: bool = False) -> Any:
        """The figure from rows of its tables, by name; those that were not run are left out."""
        done = {name: [row for row in found if row.finished is not None] for name, found in rows.items()}
        if self.tables and not any(done.values()):
            problem = next((row.problem for found in rows.values() for row in found if row.problem), "")
            raise NothingToDrawError(f"{self.name}: nothing of it has been run on {dataset}. {problem}".rstrip())
        tables = {
            table.name: {entry.label: entry for entry in entries(table, done.get(table.name, []))}
            for table in self.tables
        }
        runs: dict[str, dict[str, list[Finished]]] = {}
        for name, found in done.items():
            for row in found:
                assert row.finished is not None
                runs.setdefault(name, {}).setdefault(row.cell.title, []).append(row.finished)
        figure = self.draw(Material(dataset, tables, runs, quick))
        if quick:
            figure.text(0.99, 0.01, "a quick run of few epochs: only to see that it works", ha="right", fontsize=7)
        return figure
