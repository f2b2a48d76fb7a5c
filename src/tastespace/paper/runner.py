"""Runs what is planned in parallel processes, keeps what is finished, continues where it was stopped.

Each run has a process of its own rather than a place in a pool of `concurrent.futures` or joblib: a pool gives up all
its work when one worker is killed (out of memory), cannot stop a run when the budget ends, and a worker that is used
again has the peak memory of earlier runs.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from tastespace.errors import DatasetError, TastespaceError
from tastespace.memory import available_gb
from tastespace.paper.result_cache import PlannedRun, ResultCache, RunResult
from tastespace.paper.runs import execute
from tastespace.terminal import Console
from tastespace.threads import resolve_threads

log = logging.getLogger(__name__)

_CUT = "the budget"  # how the reason of a run begins that was not finished in time
_POLL = 0.1  # seconds
_FREE_GB = 2.0  # memory that must be free before another run starts


@dataclass
class RunStatus:
    """The state of one planned run."""

    planned: PlannedRun
    state: str = "waiting"
    """waiting, running, kept (finished before), done, failed, cut (the budget ended first), or no data."""
    found: RunResult | None = None
    seconds: float = 0.0
    problem: str = ""


def run_all(
    planned_runs: Sequence[PlannedRun],
    folder: str | Path,
    *,
    workers: int = 0,
    minutes: float | None = None,
    progress: bool | None = None,
) -> list[RunStatus]:
    """Run what is not finished yet, each run in a process of its own with one thread; gives the state of each.

    Args:
        planned_runs: What to run, in this order.
        folder: The result cache.
        workers: Processes at a time; 0 means as many as there are cores.
        minutes: Budget; what has not begun by then is marked as cut, what is running is stopped and marked.
        progress: Show a live table: by default only where standard error is a terminal.
    """
    cache = ResultCache(folder)
    rows = lookup(planned_runs, cache)
    shown = sys.stderr.isatty() if progress is None else progress
    with Live(_progress_table(rows), console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def show() -> None:
            if shown:
                live.update(_progress_table(rows), refresh=True)

        _work(rows, cache, resolve_threads(workers), minutes, show)
    return rows


def lookup(planned_runs: Sequence[PlannedRun], cache: ResultCache) -> list[RunStatus]:
    """The state of runs before anything is run: kept, waiting, or without their data set."""
    rows = [RunStatus(planned) for planned in planned_runs]
    absent: dict[str, str] = {}
    for row in rows:
        if row.planned.dataset not in absent:
            try:
                row.found = cache.get(row.planned)
            except DatasetError as problem:
                absent[row.planned.dataset] = str(problem)
        if row.planned.dataset in absent:
            row.state, row.problem = "no data", absent[row.planned.dataset]
        elif row.found is not None:
            row.state = "kept"
    return rows


def _work(
    rows: list[RunStatus], cache: ResultCache, workers: int, minutes: float | None, show: Callable[[], None]
) -> None:
    spawn = multiprocessing.get_context("spawn")
    waiting = [row for row in rows if row.state == "waiting"]
    running: dict[Any, RunStatus] = {}
    start = time.monotonic()
    try:
        while waiting or running:
            if minutes is not None and time.monotonic() - start > 60 * minutes:
                for row in (*waiting, *running.values()):
                    row.state = "cut"
                    cache.keep_problem(row.planned, f"{_CUT} of {minutes:g} minutes ended before it was finished")
                break
            while waiting and len(running) < workers and (not running or available_gb() > _FREE_GB):
                row = waiting.pop(0)
                process = spawn.Process(target=_run_one, args=(row.planned, str(cache.folder)), daemon=True)
                process.start()
                row.state, row.seconds = "running", time.monotonic()
                running[process] = row
                show()
            connection.wait([process.sentinel for process in running], _POLL)
            for process in [one for one in running if not one.is_alive()]:
                row = running.pop(process)
                row.seconds = time.monotonic() - row.seconds
                row.found = cache.get(row.planned)
                row.state = "done" if row.found is not None else "failed"
                if row.found is None:
                    row.problem = cache.problem_of(row.planned) or f"its process ended with code {process.exitcode}"
                    log.warning("%s on %s failed: %s", row.planned.title, row.planned.dataset, row.problem)
                show()
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.join()


def _run_one(planned: PlannedRun, folder: str) -> None:
    """The work of a child process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    cache = ResultCache(folder)
    cache.keep_problem(planned, "")  # of an earlier attempt
    try:
        result, report = execute(planned, threads=1, progress=False)
        cache.put(planned, RunResult(result, report.per_user))
    except TastespaceError as problem:
        cache.keep_problem(planned, str(problem))
        raise SystemExit(2) from None
    except Exception as problem:
        cache.keep_problem(planned, f"{type(problem).__name__}: {problem}")
        raise


def _end_with_parent() -> None:
    """End this process when its parent has ended, even by a kill: the same run may be started anew."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(3)


def why_missing(planned: PlannedRun, cache: ResultCache) -> tuple[str, str]:
    """State and reason of a run without a result, as far as an earlier attempt said why."""
    problem = cache.problem_of(planned)
    return ("cut" if problem.startswith(_CUT) else "failed" if problem else "waiting"), problem


def _progress_table(rows: list[RunStatus]) -> Table:
    colors = {
        "running": "yellow",
        "done": "green",
        "kept": "dim green",
        "failed": "red",
        "cut": "red",
        "no data": "red",
    }
    table = Table(title=f"{sum(row.found is not None for row in rows)} of {len(rows)} runs", title_justify="left")
    for column in ("data set", "method", "seed", "state", "P@3, %", "MRR, %", "seconds"):
        table.add_column(column)
    for row in rows:
        metrics = row.found.result["metrics"] if row.found else {}
        seconds = row.found.result["seconds"] if row.found else 0.0
        table.add_row(
            row.planned.dataset,
            row.planned.title,
            str(row.planned.seed),
            f"[{colors.get(row.state, 'dim')}]{row.state}[/]",
            *(f"{metrics[name]:.2f}" if name in metrics else "" for name in ("P@3", "MRR")),
            f"{seconds:.0f}" if seconds else "",
        )
    return table
