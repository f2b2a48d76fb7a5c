"""Generated input of every kind: `python -m tests.fuzz --seed 0 --share 0.1`.

The cases are divided into parts. Each runs in a process of its own, so that a crash is counted rather than the end of
the run, and as many run at once as there are cores. Case n of a seed is always the same:
`python -m tests.fuzz --only filters --first 17 --cases 1` runs one again.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = {
    "tables": 40_000,
    "commands": 8_000,
    "model-files": 15_000,
    "checkpoints": 12_000,
    "filters": 25_000,
    "http": 4_000,
}
"""Cases of a whole run, together 104,000; tables are files, frames, attribute files and archives."""
N_PARTS = 4
"""Of a whole run of a kind."""


def cases_of(kind: str, folder: Path, seed: int) -> Any:
    """The generator of a kind; its ``run(number)`` gives an `Outcome`."""
    from tests.fuzz.checkpoints import Checkpoints
    from tests.fuzz.command_lines import Commands
    from tests.fuzz.filters_and_rules import FiltersAndRules
    from tests.fuzz.http_requests import HttpRequests
    from tests.fuzz.model_files import ModelFiles
    from tests.fuzz.tables import Tables

    makers: dict[str, Callable[[Path, int], Any]] = {
        "tables": Tables,
        "commands": Commands,
        "model-files": ModelFiles,
        "checkpoints": Checkpoints,
        "filters": FiltersAndRules,
        "http": HttpRequests,
    }
    folder.mkdir(parents=True, exist_ok=True)
    return makers[kind](folder, seed)


def run_kind(kind: str, seed: int, first: int, n_cases: int, seconds: float) -> None:
    """Run cases of a kind, printing a line of JSON for each bad one and a summary."""
    ends: collections.Counter[str] = collections.Counter()
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        cases = cases_of(kind, Path(folder), seed)
        if hasattr(cases, "close"):
            stack.callback(cases.close)
        number = first
        for number in range(first, first + n_cases):
            if time.monotonic() > until:
                break
            _print({"next": number}) if number % 100 == 0 else None
            outcome = cases.run(number)
            ends[outcome.kind] += 1
            if outcome.raw is not None:
                _print({"case": number, "what": outcome.what, "raw": outcome.raw})
    _print({"ends": ends})


def _print(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


@dataclass
class Found:
    """What the cases of a kind gave."""

    ends: collections.Counter[str] = field(default_factory=collections.Counter)
    bad: int = 0
    seconds: float = 0.0


def run(kind: str, seed: int, first: int, n_cases: int, seconds: float) -> Found:
    """Run a part of the cases of a kind in a process; prints the bad ends."""
    arguments = ["--worker", kind, "--seed", seed, "--first", first, "--cases", n_cases, "--seconds", seconds]
    command = [sys.executable, "-m", "tests.fuzz", *map(str, arguments)]
    began = time.monotonic()
    # The tables are small: handing them to other threads would take most of the time.
    environment = {"POLARS_MAX_THREADS": "1", **os.environ}
    answer = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], env=environment)
    rows = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
    bad = [row for row in rows if "case" in row]
    said = [f"{kind} {row['case']}: {row['what']}\n  {row['raw']}\n" for row in bad]
    if answer.returncode != 0:
        last = max((row["next"] for row in rows if "next" in row), default=first)
        said.append(f"{kind}: the process ended with {answer.returncode} after case {last}\n{answer.stderr[-2000:]}\n")
    sys.stdout.write("".join(said))
    sys.stdout.flush()
    ends = next((row["ends"] for row in rows if "ends" in row), {})
    return Found(collections.Counter(ends), len(said), time.monotonic() - began)


def parts_of(kinds: dict[str, int], first: int) -> list[tuple[str, int, int]]:
    """The cases of all kinds in parts (kind, first case, number of cases), the kinds in turn."""
    parts = []
    for kind, n_cases in kinds.items():
        size = KINDS[kind] // N_PARTS
        starts = range(0, n_cases, size)
        parts += [(turn, kind, first + start, min(size, n_cases - start)) for turn, start in enumerate(starts)]
    return [part[1:] for part in sorted(parts, key=lambda part: part[0])]


def run_all(kinds: dict[str, int], seed: int, first: int, seconds: float, jobs: int) -> dict[str, Found]:
    """Run numbers of cases of several kinds; what time is left is shared among the parts that have not begun."""
    found = {kind: Found() for kind in kinds}
    parts = collections.deque(parts_of(kinds, first))
    until = time.monotonic() + seconds
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if not parts:
                    return
                left = max(0.0, until - time.monotonic())
                share = min(left, left * jobs / len(parts))
                kind, start, n_cases = parts.popleft()
            part = run(kind, seed, start, n_cases, share)
            with lock:
                found[kind].ends += part.ends
                found[kind].bad += part.bad
                found[kind].seconds += part.seconds

    with ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(work) for _ in range(jobs)]:
            future.result()
    return found


def main() -> int:
    """Run all kinds, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="share of the 104,000 cases")
    parser.add_argument("--minutes", type=float, default=20.0, help="of all kinds together")
    parser.add_argument("--only", choices=KINDS, nargs="*", default=list(KINDS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, help="of each kind, instead of a share")
    parser.add_argument("--seconds", type=float, default=1e9, help=argparse.SUPPRESS)
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        run_kind(given.worker, given.seed, given.first, given.cases, given.seconds)
        return 0
    began = time.monotonic()
    kinds = {kind: round(given.share * KINDS[kind]) if given.cases is None else given.cases for kind in given.only}
    found = run_all(kinds, given.seed, given.first, 60 * given.minutes, given.jobs)
    for kind, one in found.items():
        n = sum(one.ends.values())
        took = f"{one.seconds:.0f} s in its processes"
        sys.stdout.write(f"{kind}: {n:,} cases, {one.bad} bad, seed {given.seed}, {took}, {dict(one.ends)}\n")
    total, bad = sum(sum(one.ends.values()) for one in found.values()), sum(one.bad for one in found.values())
    sys.stdout.write(f"{total} generated inputs in {time.monotonic() - began:.0f} s, {bad} bad ends\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
