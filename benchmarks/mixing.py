"""Lists of every user of MovieLens-1M: mixes of interests against the plain list, in the same run.

    TASTESPACE_DATA=<folder of the data sets> python benchmarks/mixing.py [--repeats 5] [--epochs 4]

A DPCML with 5 vectors of dimension 100 per user, trained for a few epochs, recommends 10 and 50 items to all users by
`recommend_indices`. Mixes take turns with the plain list; the best of the repeats counts.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import tastespace

INTERESTS, DIM = 5, 100
MIXES: dict[str, dict[str, Any]] = {
    "nearest": {},
    "proportional": {"mix": "proportional"},
    "proportional, diversity 0.5": {"mix": "proportional", "diversity": 0.5},
    "scaled": {"mix": "scaled"},
    "calibrated, interests": {"mix": "calibrated", "column": "interest"},
    "calibrated, genres": {"mix": "calibrated"},
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--epochs", type=int, default=4)
    chosen = options.parse_args()
    train, _, _ = tastespace.split.per_user(tastespace.datasets.load("ml-1m"), (0.6, 0.2, 0.2), seed=0)
    model = tastespace.DPCML(dim=DIM, n_interests=INTERESTS, epochs=chosen.epochs, seed=0).fit(train, progress=False)
    print(f"{train!r}, d = {DIM}, {INTERESTS} vectors per user")
    print(f"{'':32}{'k':>4}{'seconds':>9}{'this / nearest':>16}")
    for k in (10, 50):
        best = dict.fromkeys(MIXES, np.inf)
        for _ in range(chosen.repeats):
            for name, arguments in MIXES.items():
                start = time.perf_counter()
                model.recommend_indices(k=k, **arguments)
                best[name] = min(best[name], time.perf_counter() - start)
        for name, seconds in best.items():
            print(f"{name:32}{k:4}{seconds:9.3f}{seconds / best['nearest']:15.2f}x")


if __name__ == "__main__":
    main()
