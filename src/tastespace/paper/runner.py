"""Planned runs, the result cache of finished ones, and the processes that run them.

A finished run is found by a key of everything that decides its metrics: the method's effective parameters, the data's
fingerprints, the seeds, the protocol and metrics, and explicit version numbers of the code (`VERSIONS`). A rename or a
comment does not change the key; a change of the metrics raises a version number, and only those runs are lost.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.live import Live
from rich.table import Table

from tastespace._util.atomic import atomic_write
from tastespace._util.memory import available_gb
from tastespace._util.terminal import Console
from tastespace._util.threads import resolve_threads
from tastespace.errors import DatasetError, ParameterError, TastespaceError
from tastespace.paper.data import dataset_for, load_parts
from tastespace.paper.methods import Method, find_method
from tastespace.paper.runs import (
    ACCURACY,
    RunSpec,
    chosen_parameters,
    execute,
    plain_parameters,
)
from tastespace.training.samplers import find_sampler

log = logging.getLogger(__name__)

LIST_DIVERSITY = tuple(
    f"{name}@{k}" for name in ("MaxDiv", "RelativeMaxDiv", "ILS", "Coverage") for k in (3, 5, 10, 20)
)
ALL_METRICS = (*ACCURACY, "SumRR", *(f"{name}?" for name in LIST_DIVERSITY), "CategoryMAP?")
"""Metrics of a run, as far as model and data have them: training takes the time, so one run serves all tables."""

VERSIONS: dict[str, int] = {"kernels": 3, "evaluation": 1, "reranking": 1, "cold start": 1, "result": 2}
"""Raise a number where a change of the code changes metrics: ``kernels`` (native code, of all models), ``evaluation``
(metrics, protocols, splits), ``reranking`` (second stages), ``cold start`` (content, cold-start metrics), ``result``
(what a result holds)."""
MODEL_VERSIONS: dict[str, int] = {"als": 2, "sparse-ease": 2}
"""Name in the registry -> version, where it is not 1. Raise it where a change of the model or of its training changes
the metrics that it reaches."""
_ADDED_PARAMETERS: dict[str, Any] = {
    "anchor": 0.0,
    "side": "auto",
    "deterministic": True,
    "start": "random",
    "one_vector_epochs": None,
    "temperature": 0.0,
    "temperature_end": 0.1,
}
"""Parameter that a model got later -> the value that changes nothing: with it, results from before keep their keys."""
_WITHOUT_EFFECT = ("checkpoint", "checkpoint_epochs", "checkpoint_minutes", "log_file")
"""Parameters that do not change what is learned."""


@dataclass(frozen=True)
class PlannedRun(RunSpec):
    """One run of one method on one data set with one seed, and the name of its row."""

    metrics: tuple[str, ...] = ALL_METRICS
    label: str | None = None
    """Name of the row, where it is not the method's."""
    quick: bool = False
    """True for a run of few epochs, a trial that everything works; its row is marked."""

    @property
    def title(self) -> str:
        """Name of the row."""
        return self.label or find_method(self.method).name

    def key(self) -> str:
        """A hash of everything that decides the metrics, 20 hexadecimal digits."""
        method = find_method(self.method)
        parts = load_parts(dataset_for(self.dataset, method.model), self.split_seed)
        chosen = chosen_parameters(method, self.dataset, self.preset, dict(self.parameters))
        decisive = {
            "method": method.name,
            "parameters": _effective_parameters(method, chosen, self.seed),
            "data": parts.fingerprints,
            "seed": self.seed,
            "protocol": self.protocol,
            "metrics": list(self.metrics),
            "versions": versions_of(self),
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()[:20]


def code_versions(method: Method, cold_start: bool = False) -> dict[str, int]:
    """The version numbers that concern a method's metrics; a change to another model leaves them as they are.

    >>> code_versions(find_method("cml+hars"))
    {'model': 1, 'kernels': 3, 'evaluation': 1, 'result': 2}
    """
    optional = {"reranking": method.second_stage is not None, "cold start": cold_start}
    found = {name: version for name, version in VERSIONS.items() if optional.get(name, True)}
    return {"model": MODEL_VERSIONS.get(method.model, 1), **found}


def versions_of(planned: PlannedRun) -> dict[str, int]:
    """The version numbers that concern a run."""
    method = find_method(planned.method)
    parts = load_parts(dataset_for(planned.dataset, method.model), planned.split_seed)
    return code_versions(method, parts.cold_start is not None)


def _effective_parameters(method: Method, chosen: dict[str, Any], seed: int) -> dict[str, Any]:
    """Every parameter of the model, whether it was chosen or is a default of the method or the model."""
    try:
        found = plain_parameters(method.build(chosen, seed))
    except ParameterError:
        return chosen  # such a run fails and says why; there will be no metrics
    if "sampler" in found:
        found["sampler"] = _sampler_name(found["sampler"])
    if "seed" in chosen:
        found["seed"] = chosen["seed"]
    return {
        name: value
        for name, value in found.items()
        if name not in _WITHOUT_EFFECT and not (name in _ADDED_PARAMETERS and value == _ADDED_PARAMETERS[name])
    }


def _sampler_name(sampler: Any) -> Any:
    """One name for a sampler, however it was written: ``hars`` and ``hard`` are the same run."""
    try:
        return find_sampler(sampler).name
    except ParameterError:
        return sampler


@dataclass(frozen=True, eq=False)
class RunResult:
    """Result of a run."""

    result: dict[str, Any]
    """Return value of `runs.run`."""
    per_user: dict[str, NDArray[np.float64]]
    """Metrics of each user, for paired tests."""


class ResultCache:
    """The folder of finished runs. Files are whole or absent; a damaged one counts as absent."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()

    def get(self, planned: PlannedRun) -> RunResult | None:
        """The result of a run, or None where it has not been run."""
        path = self.folder / f"{planned.key()}.npz"
        try:
            with np.load(path, allow_pickle=False) as stored:
                text = str(stored["result"])
                per_user = {name.removeprefix("user."): stored[name] for name in stored.files if name != "result"}
                result = json.loads(text)
                whole = isinstance(result, dict) and {"metrics", "seconds"} <= set(result)
        except FileNotFoundError:
            return None
        except Exception as problem:  # a damaged file can raise anything in its reader
            log.warning("%s is damaged (%r) and counts as absent", path, problem)
            return None
        if not whole:
            log.warning("%s is not the result of a run and counts as absent", path)
            return None
        if result.get("versions") != versions_of(planned):
            log.warning("%s is the result of another revision and counts as absent", path)
            return None
        day = datetime.datetime.fromtimestamp(path.stat().st_mtime, tz=datetime.timezone.utc).strftime("%Y-%m-%d")
        result.setdefault("made", {"date": day})
        return RunResult(result, per_user)

    def put(self, planned: PlannedRun, found: RunResult) -> Path:
        """Keep the result of a run."""
        path = self.folder / f"{planned.key()}.npz"
        content = {f"user.{name}": values.astype(np.float32) for name, values in found.per_user.items()}
        stored = {
            **found.result,
            "versions": versions_of(planned),
            "planned": {**asdict(planned), "parameters": dict(planned.parameters)},
        }
        everything: dict[str, Any] = {"result": np.array(json.dumps(stored, default=str)), **content}
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **everything)
        return path

    def problem_of(self, planned: PlannedRun) -> str:
        """Return the reason why an earlier attempt failed; empty where there was none."""
        path = self._problem_file(planned)
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def keep_problem(self, planned: PlannedRun, text: str) -> None:
        """Keep the reason why a run failed; an empty text removes an earlier one."""
        path = self._problem_file(planned)
        if text:
            with atomic_write(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        else:
            path.unlink(missing_ok=True)

    def _problem_file(self, planned: PlannedRun) -> Path:
        return self.folder / f"{planned.key()}.problem.txt"


# Each run has its own process rather than a place in a pool of `concurrent.futures` or joblib: a pool gives up all its
# work when one worker is killed (out of memory), cannot stop a run when the budget ends, and a reused worker has the
# peak memory of earlier runs.


_CUT = "the budget"  # first words of the reason of a run that was not finished in time
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
    """Run what is not finished yet, each run in its own process with one thread; return the state of each.

    Args:
        planned_runs: The runs, in this order.
        folder: The result cache.
        workers: Processes at a time; 0 means as many as there are cores.
        minutes: Budget; runs that have not begun by then are marked as cut, running ones are stopped and marked.
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
    """End this process when its parent has ended, even by a kill: the same run may be started again."""
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
