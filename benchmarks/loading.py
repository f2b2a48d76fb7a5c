"""Parquet -> Interactions against polars' own read + unique of both id columns + de-duplication + sort.

    python benchmarks/loading.py [--rows 10000000]

Each measurement runs in a process of its own (so that its peak memory is its own), alternating between the two
contestants; the best of the repeats counts. Peak memory is what the process needed above what it held after its
imports, in units of the two id columns (8 bytes each for numbers, the text itself plus 8 for strings).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl


def make(folder: Path, rows: int) -> dict[str, tuple[Path, float]]:
    """Three files with the same pairs under different ids, and the size of their two id columns in MB."""
    rng = np.random.default_rng(0)
    users = (69_000 * rng.random(rows) ** 1.5).astype(np.int64)
    items = (10_000 * rng.random(rows) ** 2).astype(np.int64)
    scattered = rng.permutation(2**40 // 69_000 * np.arange(69_000))
    files = {}
    frames = {
        "compact integers": pl.DataFrame({"user": users, "item": items}),
        "scattered integers": pl.DataFrame({"user": scattered[users], "item": items * 1_000_003}),
    }
    frames["strings"] = frames["compact integers"].select(
        pl.format("u{}", "user").alias("user"), pl.format("item-{}", "item").alias("item")
    )
    for name, frame in frames.items():
        path = folder / f"{name.replace(' ', '-')}.parquet"
        frame.write_parquet(path)
        text = sum(int(c.str.len_bytes().sum()) for c in frame if c.dtype == pl.String)
        files[name] = (path, (16 * rows + text) / 1e6)
    return files


def with_polars(path: str) -> tuple[int, int, int]:
    frame = pl.read_parquet(path, columns=["user", "item"])
    users, items = frame["user"].unique(), frame["item"].unique()
    pairs = frame.unique().sort("user", "item")
    return len(users), len(items), len(pairs)


def with_tastespace(path: str) -> tuple[int, int, int]:
    import tastespace

    data = tastespace.Interactions.from_file(path)
    return data.n_users, data.n_items, data.n_interactions


def peak_mb() -> float:
    """Largest resident size so far; unlike getrusage it does not inherit the parent's."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found.group(1)) / 1e3


def child(contestant: str, path: str) -> None:
    import tastespace  # noqa: F401  (both contestants start from the same imports)

    before = peak_mb()
    start = time.perf_counter()
    counts = {"polars": with_polars, "tastespace": with_tastespace}[contestant](path)
    seconds = time.perf_counter() - start
    peak = peak_mb() - before
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "counts": counts}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=2)
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child)
        return
    print(f"{'ids':20} {'polars':>9} {'tastespace':>11} {'ratio':>7} {'peak / id columns':>18}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (path, megabytes) in make(Path(folder), arguments.rows).items():
            runs: dict[str, list[dict]] = {"polars": [], "tastespace": []}
            for _ in range(arguments.repeats):
                for contestant, results in runs.items():
                    command = [sys.executable, __file__, "--child", contestant, str(path)]
                    results.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
            assert runs["polars"][0]["counts"] == runs["tastespace"][0]["counts"]
            theirs = min(run["seconds"] for run in runs["polars"])
            ours = min(run["seconds"] for run in runs["tastespace"])
            peak = max(run["peak_mb"] for run in runs["tastespace"]) / megabytes
            print(f"{name:20} {theirs:8.2f}s {ours:10.2f}s {theirs / ours:6.1f}x {peak:17.1f}x")


if __name__ == "__main__":
    main()
