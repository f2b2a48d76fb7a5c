"""Generated input of every kind: `python -m tests.fuzz --seed 0 --share 0.1`.

Each kind runs in a process of its own, so that a crash is counted rather than the end of the run. Case n of a seed is
always the same: `python -m tests.fuzz --only filters --first 17 --cases 1` runs one again.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KINDS = {
    "tables": 40_000,
    "commands": 8_000,
    "model-files": 15_000,
    "checkpoints": 12_000,
    "filters": 25_000,
}
"""Cases of a whole run, together 100,000; tables are files, frames, attribute files and archives."""


def cases_of(kind: str, folder: Path, seed: int) -> Any:
    """The generator of a kind; its ``run(number)`` gives an `Outcome`."""
    from tests.fuzz.checkpoints import Checkpoints
    from tests.fuzz.command_lines import Commands
    from tests.fuzz.filters_and_rules import FiltersAndRules
    from tests.fuzz.model_files import ModelFiles
    from tests.fuzz.tables import Tables

    makers: dict[str, Callable[[Path, int], Any]] = {
        "tables": Tables,
        "commands": Commands,
        "model-files": ModelFiles,
        "checkpoints": Checkpoints,
        "filters": FiltersAndRules,
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


def run(kind: str, seed: int, first: int, n_cases: int, seconds: float) -> tuple[int, int]:
    """Run a kind in a process; prints what was found and gives the numbers of cases and of bad ends."""
    arguments = ["--worker", kind, "--seed", seed, "--first", first, "--cases", n_cases, "--seconds", seconds]
    command = [sys.executable, "-m", "tests.fuzz", *map(str, arguments)]
    began = time.monotonic()
    answer = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    rows = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
    bad = [row for row in rows if "case" in row]
    for row in bad:
        sys.stdout.write(f"{kind} {row['case']}: {row['what']}\n  {row['raw']}\n")
    ends = next((row["ends"] for row in rows if "ends" in row), {})
    if answer.returncode != 0:
        last = max((row["next"] for row in rows if "next" in row), default=first)
        sys.stdout.write(
            f"{kind}: the process ended with {answer.returncode} after case {last}\n{answer.stderr[-2000:]}\n"
        )
    n = sum(ends.values())
    took = time.monotonic() - began
    sys.stdout.write(f"{kind}: {n} cases, {len(bad)} bad, seed {seed}, {took:.0f} s, {ends}\n")
    sys.stdout.flush()
    return n, len(bad) + (answer.returncode != 0)


def main() -> int:
    """Run all kinds, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="share of the 100,000 cases")
    parser.add_argument("--minutes", type=float, default=20.0, help="of all kinds together")
    parser.add_argument("--only", choices=KINDS, nargs="*", default=list(KINDS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, help="of each kind, instead of a share")
    parser.add_argument("--seconds", type=float, default=1e9, help=argparse.SUPPRESS)
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        run_kind(given.worker, given.seed, given.first, given.cases, given.seconds)
        return 0
    total = bad = 0
    seconds = 60 * given.minutes / len(given.only)
    for kind in given.only:
        n_cases = round(given.share * KINDS[kind]) if given.cases is None else given.cases
        n, n_bad = run(kind, given.seed, given.first, n_cases, seconds)
        total, bad = total + n, bad + n_bad
    sys.stdout.write(f"{total} generated inputs, {bad} bad ends\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
