"""What the runner of every library shares: data, clock, peak memory, choice on validation data, lists as Parquet.

It runs in the library's own environment, so it needs NumPy, SciPy and pyarrow alone. A runner `run_LIBRARY.py` defines

* ``DEFAULTS``: method -> its documented defaults (empty: the constructor's own),
* ``GRID``: (method, parameters) in the order in which they are tried, the methods taking turns,
* ``prepare(table)``: the library's own data set from a `Table`,
* ``fit(method, parameters, data, table)``: a fitted object with ``all_lists()`` and ``one_list(user)``.

    python run_LIBRARY.py --data FOLDER --method als --out FILE.json          documented defaults, or --parameters JSON
    python run_LIBRARY.py --data FOLDER --tune --minutes 0.5 --out FILE.json    what is best on the validation part
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

K = 20
SEED = 0
N_SINGLE = 50  # users who are asked for one by one


@dataclass
class Table:
    """Interactions as user and item numbers from 0."""

    users: np.ndarray
    items: np.ndarray
    n_users: int
    n_items: int

    @cached_property
    def matrix(self):
        """CSR, users x items, ones."""
        ones = np.ones(len(self.users), dtype=np.float32)
        return sp.csr_matrix((ones, (self.users, self.items)), shape=(self.n_users, self.n_items))

    @cached_property
    def people(self):
        """Users with a history: lists are made for them."""
        return np.unique(self.users)


def read(folder: Path, *parts: str) -> Table:
    """The parts of the split (`train`, `valid`) in one table."""
    sizes = json.loads((folder / "sizes.json").read_text())
    tables = [pq.read_table(folder / f"{part}.parquet") for part in parts]
    users, items = (np.concatenate([table[c].to_numpy() for table in tables]) for c in ("user", "item"))
    order = np.lexsort((items, users))
    return Table(users[order], items[order], sizes["users"], sizes["items"])


def top_k(scores: np.ndarray, k: int = K) -> tuple[np.ndarray, np.ndarray]:
    """The k largest of each row, largest first: columns and values."""
    k = min(k, scores.shape[1])
    part = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(scores, part, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(part, order, axis=1), np.take_along_axis(values, order, axis=1)


def ndcg(users: np.ndarray, lists: np.ndarray, held_out: Table, k: int = 10) -> float:
    """Mean NDCG@k over users with a held-out item; a list may end with -1. Only for the choice of parameters."""
    wanted = held_out.matrix
    gains = 1 / np.log2(np.arange(2, k + 2))
    ideal = np.concatenate([[0.0], np.cumsum(gains)])
    row_of = np.full(held_out.n_users, -1)
    row_of[users] = np.arange(len(users))
    total = 0.0
    for user in held_out.people:
        own = wanted.indices[wanted.indptr[user] : wanted.indptr[user + 1]]
        shown = lists[row_of[user], :k] if row_of[user] >= 0 else np.empty(0, dtype=int)
        total += gains[: len(shown)][np.isin(shown, own)].sum() / ideal[min(len(own), k)]
    return total / len(held_out.people)


def peak_memory_mb() -> float:
    """The largest resident memory of this process until now (VmHWM)."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # macOS: bytes


def cpu_seconds() -> float:
    """Processor time of this process until now, of all threads, and of its processes that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main(library, distribution, defaults, grid, prepare, fit) -> None:
    """The command line of a runner."""
    parser = argparse.ArgumentParser(description=f"{library}: lists and times for benchmarks/peers.py")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--method", choices=sorted({*defaults, *(name for name, _ in grid)}))
    parser.add_argument("--parameters", type=json.loads, default=None, help="JSON; by default the documented defaults")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    log = {"library": library, "python": platform.python_version(), "seed": SEED}
    log["versions"] = {name: version(name) for name in distribution}
    if arguments.tune:
        log |= tune(arguments.data, arguments.minutes, grid, prepare, fit)
    else:
        parameters = defaults[arguments.method] if arguments.parameters is None else arguments.parameters
        lists_file = arguments.out.with_suffix(".parquet")
        log |= measure(arguments.data, arguments.method, parameters, prepare, fit, lists_file)
    arguments.out.write_text(json.dumps(log, indent=1) + "\n")
    print(json.dumps({name: value for name, value in log.items() if name != "trials"}))
    sys.stdout.flush()


def tune(folder, minutes, grid, prepare, fit) -> dict:
    """Fit to the training part, compare on the validation part; no trial starts that would probably not end in time.

    The budget is processor time, so many minutes of all cores: it does not depend on what else the machine does.
    """
    train, valid = read(folder, "train"), read(folder, "valid")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    budget, trials, longest = 60 * minutes * cores, [], {}
    began = cpu_seconds()
    data = prepare(train)
    for method, parameters in grid:
        start = cpu_seconds()
        if start - began + longest.get(method, 0.0) > budget:
            continue
        users, lists, _ = fit(method, parameters, data, train).all_lists()
        seconds = cpu_seconds() - start
        longest[method] = max(longest.get(method, 0.0), seconds)
        figure = round(ndcg(users, lists, valid), 5)
        trials.append({"method": method, "parameters": parameters, "NDCG@10": figure, "cpu_seconds": round(seconds, 1)})
        print(json.dumps(trials[-1]), flush=True)
    best = max(trials, key=lambda trial: trial["NDCG@10"])
    used = round(cpu_seconds() - began)
    return {
        "method": best["method"], "parameters": best["parameters"], "trials": trials, "grid": len(grid),
        "cpu_seconds": used, "budget_cpu_seconds": budget,
    }  # fmt: skip


def measure(folder, method, parameters, prepare, fit, lists_file) -> dict:
    """Fit to the training and validation parts; the clock runs for fit, everybody's lists, and lists one by one.

    Processor time is kept beside it: on a busy machine it says more than the clock.
    """
    table = read(folder, "train", "valid")
    table.matrix  # noqa: B018  (made before the clock starts: reading data is not compared)
    start = time.perf_counter()
    data = prepare(table)
    prepared, prepared_cpu = time.perf_counter(), cpu_seconds()
    model = fit(method, parameters, data, table)
    fitted, fitted_cpu = time.perf_counter(), cpu_seconds()
    users, items, scores = model.all_lists()
    done, done_cpu = time.perf_counter(), cpu_seconds()
    memory = peak_memory_mb()
    single = []
    for user in np.random.default_rng(SEED).choice(table.people, N_SINGLE, replace=False):
        began = time.perf_counter()
        model.one_list(int(user))
        single.append(time.perf_counter() - began)
    rows = np.repeat(users, items.shape[1])
    kept = items.ravel() >= 0
    columns = {"user": rows, "item": items.ravel(), "score": np.asarray(scores, dtype=np.float64).ravel()}
    pq.write_table(pa.table({name: np.asarray(values)[kept] for name, values in columns.items()}), lists_file)
    return {
        "method": method, "parameters": parameters, "prepare_seconds": round(prepared - start, 3),
        "train_seconds": round(fitted - prepared, 3), "lists_seconds": round(done - fitted, 3),
        "train_cpu_seconds": round(fitted_cpu - prepared_cpu, 2), "lists_cpu_seconds": round(done_cpu - fitted_cpu, 2),
        "one_person_ms": round(1000 * float(np.median(single)), 3), "peak_memory_mb": round(memory, 1),
        "notes": getattr(model, "notes", []),
    }  # fmt: skip


def padded(users: np.ndarray, rows: list, k: int = K) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lists of different lengths, [(items, scores), ...], as arrays that end with item -1."""
    items = np.full((len(users), k), -1, dtype=np.int64)
    scores = np.zeros((len(users), k))
    for row, (own, values) in enumerate(rows):
        items[row, : len(own)], scores[row, : len(own)] = own, values
    return users, items, scores
