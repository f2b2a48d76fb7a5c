"""Runs cells in parallel processes, keeps what is finished, goes on where it was stopped."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading as threading_
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tastespace import threads as threading
from tastespace.errors import DatasetError, TastespaceError
from tastespace.memory import available_gb
from tastespace.paper.cells import Cell, Finished, Shelf
from tastespace.paper.runs import execute

log = logging.getLogger(__name__)

_CUT = "the budget"  # how a note of a cell begins that was not finished in time
_POLL = 0.1  # seconds
_ROOM_GB = 2.0  # memory that must be free before another cell starts


@dataclass
class Row:
    """How one cell stands."""

    cell: Cell
    state: str = "waiting"
    """waiting, running, kept (finished before), done, failed, cut (the budget ended first), or no data."""
    finished: Finished | None = None
    seconds: float = 0.0
    problem: str = ""


def run_cells(
    cells: Sequence[Cell],
    folder: str | Path,
    *,
    workers: int = 0,
    minutes: float | None = None,
    progress: bool | None = None,
) -> list[Row]:
    """Run what is not finished yet, each cell in a process of its own with one thread; gives how each stands.

    Args:
        cells: What to run, in this order.
        folder: Where finished cells are kept.
        workers: Processes at a time; 0 means as many as there are cores.
        minutes: Budget; what has not begun by then is marked as cut, what is running is stopped and marked.
        progress: Show a live table: by default only where standard error is a terminal.
    """
    shelf = Shelf(folder)
    rows = look(cells, shelf)
    shown = sys.stderr.isatty() if progress is None else progress
    with Live(_picture(rows), console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def show() -> None:
            if shown:
                live.update(_picture(rows), refresh=True)

        _work(rows, shelf, threading.resolve(workers), minutes, show)
    return rows


def look(cells: Sequence[Cell], shelf: Shelf) -> list[Row]:
    """How cells stand before anything is run: kept, waiting, or without their data set, which is not here."""
    rows = [Row(cell) for cell in cells]
    absent: dict[str, str] = {}
    for row in rows:
        if row.cell.dataset not in absent:
            try:
                row.finished = shelf.get(row.cell)
            except DatasetError as problem:
                absent[row.cell.dataset] = str(problem)
        if row.cell.dataset in absent:
            row.state, row.problem = "no data", absent[row.cell.dataset]
        elif row.finished is not None:
            row.state = "kept"
    return rows


def _work(rows: list[Row], shelf: Shelf, workers: int, minutes: float | None, show: Callable[[], None]) -> None:
    spawn = multiprocessing.get_context("spawn")
    waiting = [row for row in rows if row.state == "waiting"]
    running: dict[Any, Row] = {}
    start = time.monotonic()
    try:
        while waiting or running:
            if minutes is not None and time.monotonic() - start > 60 * minutes:
                for row in (*waiting, *running.values()):
                    row.state = "cut"
                    _write_note(shelf, row.cell, f"{_CUT} of {minutes:g} minutes ended before it was finished")
                break
            while waiting and len(running) < workers and (not running or available_gb() > _ROOM_GB):
                row = waiting.pop(0)
                process = spawn.Process(target=_one, args=(row.cell, str(shelf.folder)), daemon=True)
                process.start()
                row.state, row.seconds = "running", time.monotonic()
                running[process] = row
                show()
            time.sleep(_POLL)
            for process in [p for p in running if not p.is_alive()]:
                row = running.pop(process)
                row.seconds = time.monotonic() - row.seconds
                row.finished = shelf.get(row.cell)
                row.state = "done" if row.finished is not None else "failed"
                if row.finished is None:
                    row.problem = _problem(shelf, row.cell) or f"its process ended with code {process.exitcode}"
                    log.warning("%s on %s failed: %s", row.cell.title, row.cell.dataset, row.problem)
                show()
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.join()


def _one(cell: Cell, folder: str) -> None:
    """The work of a child process."""
    threading_.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    shelf = Shelf(folder)
    _note(shelf, cell).unlink(missing_ok=True)  # of an earlier attempt
    try:
        result, report = execute(cell, threads=1, progress=False)
        shelf.put(cell, Finished(result, report.per_user))
    except TastespaceError as problem:
        _write_note(shelf, cell, str(problem))
        raise SystemExit(2) from None
    except Exception as problem:
        _write_note(shelf, cell, f"{type(problem).__name__}: {problem}")
        raise


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, however that was: somebody may start the same cell anew."""
    while os.getppid() == parent:
        time.sleep(_POLL)
    os._exit(3)


def why_missing(cell: Cell, shelf: Shelf) -> tuple[str, str]:
    """State and reason of a cell that is not there, as far as an earlier attempt has left word of it."""
    problem = _problem(shelf, cell)
    return ("cut" if problem.startswith(_CUT) else "failed" if problem else "waiting"), problem


def _write_note(shelf: Shelf, cell: Cell, text: str) -> None:
    shelf.folder.mkdir(parents=True, exist_ok=True)
    _note(shelf, cell).write_text(text, encoding="utf-8")


def _note(shelf: Shelf, cell: Cell) -> Path:
    return shelf.folder / f"{cell.key()}.problem.txt"


def _problem(shelf: Shelf, cell: Cell) -> str:
    note = _note(shelf, cell)
    return note.read_text(encoding="utf-8") if note.exists() else ""


def _picture(rows: list[Row]) -> Table:
    colors = {
        "running": "yellow",
        "done": "green",
        "kept": "dim green",
        "failed": "red",
        "cut": "red",
        "no data": "red",
    }
    table = Table(title=f"{sum(row.finished is not None for row in rows)} of {len(rows)} cells", title_justify="left")
    for column in ("data set", "method", "seed", "state", "P@3", "MRR", "seconds"):
        table.add_column(column)
    for row in rows:
        figures = row.finished.result["metrics"] if row.finished else {}
        seconds = row.finished.result["seconds"] if row.finished else 0.0
        table.add_row(
            row.cell.dataset,
            row.cell.title,
            str(row.cell.seed),
            f"[{colors.get(row.state, 'dim')}]{row.state}[/]",
            *(f"{figures[name]:.2f}" if name in figures else "" for name in ("P@3", "MRR")),
            f"{seconds:.0f}" if seconds else "",
        )
    return table
