"""Seconds of `split.per_user` for 20 million interactions, against `Interactions.from_frame` of the same rows.

    python benchmarks/splitting.py [--interactions 20000000] [--repeats 3] [--against FOLDER]

The best of the repeats counts; the two take turns. Seconds that pass, and of the processors, all threads together:
other programs do not count in these, and ratios are of these. ``--against`` names the sources of another revision (the
folder that holds `src`, with its kernels built), which runs in a process of its own; both must give the same parts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--interactions", type=int, default=20_000_000)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--against", type=Path)
    options.add_argument("--json", action="store_true", help="measure in this process")
    given = options.parse_args()
    if given.json:
        print(json.dumps(measured(given.interactions, given.repeats)))
        return
    now = run(given)
    rows = {"from_frame": now["from_frame"], "split.per_user": now["per_user"]}
    print(f"{now['interactions']:,} interactions; seconds{'passed':>18}{'processor':>11}{'ratio':>8}")
    same = ""
    if given.against is not None:
        before = run(given, given.against)
        rows["split.per_user, before"] = before["per_user"]
        same = "The same parts." if before["parts"] == now["parts"] else "OTHER PARTS!"
    for name, (passed, processor) in rows.items():
        print(f"  {name:40}{passed:8.2f}{processor:11.2f}{processor / now['per_user'][1]:7.1f}x")
    print(same)


def run(given: argparse.Namespace, folder: Path | None = None) -> dict:
    command = [sys.executable, __file__, "--json", "--interactions", str(given.interactions)]
    paths = {} if folder is None else {"PYTHONPATH": str(folder.resolve() / "src")}
    done = subprocess.run(
        [*command, "--repeats", str(given.repeats)], env={**os.environ, **paths}, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def measured(n: int, repeats: int) -> dict:
    from tastespace import Interactions, split

    random = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "user": random.integers(0, n // 100, n),  # about 100 items each, as in MovieLens
            "item": (random.random(n) ** 2 * 50_000).astype(np.int64),
        }
    )
    found: dict[str, list[tuple[float, float]]] = {"from_frame": [], "per_user": []}
    for _ in range(repeats):
        data, spent = timed(lambda: Interactions.from_frame(frame))
        found["from_frame"].append(spent)
        parts, spent = timed(lambda data=data: split.per_user(data, (0.6, 0.2, 0.2), seed=0))
        found["per_user"].append(spent)
    best = {name: np.min(times, axis=0).tolist() for name, times in found.items()}
    return {**best, "interactions": data.n_interactions, "parts": [part.fingerprint() for part in parts]}


def timed(make: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """What was made, and the seconds that passed and those of the processors."""
    start, processor = time.perf_counter(), time.process_time()
    made = make()
    return made, (time.perf_counter() - start, time.process_time() - processor)


if __name__ == "__main__":
    main()
