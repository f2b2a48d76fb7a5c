"""How time and memory grow with the number of users: fit, lists for all, evaluation, opening a model.

    python benchmarks/growth.py [--users 10000 100000 1000000] [--items 1000] [--picture docs/pictures/growth.svg]

Each size is measured in a process of its own: random interactions (10 per user, items with a long tail), a DPCML with 2
vectors of dimension 16 that learns for one epoch, the lists of 10 for all users to a Parquet file, `evaluate` on 2 held
out interactions per user, and a model file that is saved, opened and asked for one list. Memory is the peak of the
process after each step, which includes those before; opening has a process of its own. Processor seconds, all threads
together, because other programs count less in them. The slope is that of the logarithms between the smallest and the
largest size: 1 is linear in users, and so in interactions and in users x items.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

PER_USER, HELD_OUT, VECTORS, DIM, K = 10, 2, 2, 16, 10
STEPS = ("fit", "recommend all", "evaluate", "load")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--users", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--items", type=int, default=1_000)
    options.add_argument("--picture", type=Path)
    options.add_argument("--json", choices=["all", "load"], help="measure one size in this process")
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    if given.json:
        measure = measured if given.json == "all" else opened
        print(json.dumps(measure(given.users[0], given.items, given.folder)))
        return
    found: dict[int, dict[str, list[float]]] = {}
    print(f"{given.items:,} items; processor seconds and peak of memory in MB; load {os.getloadavg()[0]:.1f}")
    print(f"{'users':>10}" + "".join(f"{step:>22}" for step in STEPS), flush=True)
    for n_users in given.users:
        with tempfile.TemporaryDirectory() as folder:
            found[n_users] = {}
            for part in ("all", "load"):
                command = [sys.executable, __file__, "--users", str(n_users), "--items", str(given.items)]
                command += ["--json", part, "--folder", folder]
                found[n_users].update(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
        cells = [found[n_users][step] for step in STEPS]
        print(f"{n_users:10,}" + "".join(f"{s:12.3f} s{mb:7.0f} M" for s, mb in cells), flush=True)
    first, last = min(found), max(found)
    if first < last:
        slopes = {
            step: [math.log(found[last][step][at] / found[first][step][at]) / math.log(last / first) for at in (0, 1)]
            for step in STEPS
        }
        print(f"{'slope':>10}" + "".join(f"{time_:12.2f}  {memory:7.2f}  " for time_, memory in slopes.values()))
        if given.picture is not None:
            draw(found, slopes, given.picture)


def measured(n_users: int, n_items: int, folder: Path) -> dict[str, list[float]]:
    import tastespace as ts

    random = np.random.default_rng(0)
    share = 1.0 / (np.arange(n_items) + 20.0)
    items = random.choice(n_items, n_users * PER_USER, p=share / share.sum())
    frame = pl.DataFrame({"user": np.repeat(np.arange(n_users), PER_USER), "item": items})
    data = ts.Interactions.from_frame(frame)
    train, test = ts.split.per_user(data, (0.8, 0.2), seed=0)
    del frame, items, data
    model = ts.DPCML(n_interests=VECTORS, dim=DIM, epochs=1, seed=0)
    steps = {
        "fit": lambda: model.fit(train, progress=False),
        "recommend all": lambda: model.recommend_to(folder / "lists.parquet", k=K),
        "evaluate": lambda: ts.evaluate(model, test, seen=train, metrics=["NDCG@10", "R@20"]),
    }
    found = {name: [seconds(step), peak()] for name, step in steps.items()}
    model.save(folder / "model")
    return found


def opened(n_users: int, n_items: int, folder: Path) -> dict[str, list[float]]:
    import tastespace as ts

    return {"load": [seconds(lambda: ts.load(folder / "model").recommend(7, k=K)), peak()]}


def seconds(step: Callable[[], object]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def peak() -> float:
    """MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def draw(found: dict[int, dict[str, list[float]]], slopes: dict[str, list[float]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "growth", "font.size": 9})
    import matplotlib.pyplot as plt

    sizes = sorted(found)
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for panel, at, title in zip(panels, (0, 1), ("processor seconds", "peak of memory, MB"), strict=True):
        for step in STEPS:
            panel.plot(sizes, [found[n][step][at] for n in sizes], "o-", label=f"{step} ({slopes[step][at]:.2f})")
        lowest = min(found[sizes[0]][step][at] for step in STEPS)
        panel.plot(sizes, [lowest * n / sizes[0] for n in sizes], ":", color="gray", label="linear (1.00)")
        panel.set(xscale="log", yscale="log", xlabel="users", title=title)
        panel.grid(alpha=0.3)
        panel.legend(title="slope in brackets", fontsize=8, title_fontsize=8)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
