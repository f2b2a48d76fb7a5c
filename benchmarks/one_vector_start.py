"""Ways to train several vectors per user, compared on validation data: `python benchmarks/one_vector_start.py`.

One vector (CML); the paper's random start with the minimum; a random start with a temperature that falls; a short
phase with one vector; and the default, whose phase with one vector is as long as CML's training.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import tastespace as ts

PLACES = ("ml-100k:16", "ml-100k:64", "ml-100k:100", "lastfm-2k:32", "lastfm-2k:64", "steam-200k:16", "steam-200k:100")
WAYS: dict[str, dict[str, Any]] = {
    "random, minimum": {"epochs": 50, "start": "random", "temperature": 0.0, "dcrs": None},
    "random, minimum, DCRS": {"epochs": 50, "start": "random", "temperature": 0.0, "dcrs": "mean", "max_spread": 0.25},
    "random, falling": {"epochs": 50, "start": "random", "temperature": 4.0, "dcrs": None},
    "10 of 50 epochs": {"epochs": 50, "one_vector_epochs": 10, "temperature": 1.2, "dcrs": None},
    "50 of 100 epochs, falling": {"temperature": 0.6, "dcrs": None},
    "50 of 100 epochs, minimum, DCRS": {"temperature": 0.0, "dcrs": "mean"},
    "default": {},
}
METRICS = ["NDCG@10", "R@20"]


def main() -> None:
    """Print a row for each way on each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", nargs="+", default=PLACES, help="data set:dimension")
    parser.add_argument("--interests", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print("| data | d | way | NDCG@10 | R@20 | epoch | CPU seconds |\n| --- | --- | --- | --- | --- | --- | --- |")
    for place in chosen.places:
        name, dim = place.split(":")
        train, valid, _ = ts.split.per_user(ts.datasets.load(name), (0.6, 0.2, 0.2), seed=chosen.seed)
        common: dict[str, Any] = {
            "dim": int(dim),
            "seed": chosen.seed,
            "threads": 1,
            "validate_every": 5,
            "patience": 0,
        }
        if name == "steam-200k":
            common["n_negatives"] = 30
        models = {"CML": ts.CML(**common)}
        models |= {way: ts.DPCML(n_interests=chosen.interests, **{**common, **more}) for way, more in WAYS.items()}
        for way, model in models.items():
            began = time.process_time()
            model.fit(train, valid, progress=False)
            seconds = time.process_time() - began
            found = ts.evaluate(model, valid, seen=train, metrics=METRICS)
            figures = " | ".join(f"{float(found[metric]):.4f}" for metric in METRICS)
            print(f"| {name} | {dim} | {way} | {figures} | {model.best_epoch_} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
