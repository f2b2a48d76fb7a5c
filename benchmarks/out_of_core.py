"""A table larger than memory: built, trained on, evaluated and answered from with user vectors in files.

    python benchmarks/out_of_core.py --folder /tmp/large                           # 200 million interactions, 30 GB
    python benchmarks/out_of_core.py --folder /tmp/small --interactions 2000000    # the same shape, in a minute

Stages, each in a process of its own whose memory is measured: generate (Parquet, a folder for each day), build, train
(one epoch), memory (one epoch in memory on a tenth of the users, for the speed), evaluate and lists (`--sample` users).
A finished stage leaves its figures in the folder and is not repeated. docs/scaling.md holds what this printed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import tastespace as ts
from tastespace.data.out_of_core.files import open_spilled

ROWS_PER_FILE = 5_000_000
PER_USER, PER_ITEM = 10, 1000  # interactions, on average
PER_CLUSTER = 200  # items that the same users take
Figures = dict[str, Any]


class PeakMemory:
    """The largest resident memory of this process while a block runs, sampled; pages of mapped files apart."""

    def __init__(self) -> None:
        self.anonymous = self.mapped = self.both = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            now = memory_now()
            anonymous, mapped = now["RssAnon"], now["RssFile"] + now["RssShmem"]
            self.anonymous, self.mapped = max(self.anonymous, anonymous), max(self.mapped, mapped)
            self.both = max(self.both, anonymous + mapped)

    def figures(self) -> Figures:
        return {
            "peak GB": round(memory_now()["VmHWM"], 2),  # the system's own count, which misses nothing
            "of it anonymous GB": round(self.anonymous, 2),
            "mapped GB": round(self.mapped, 2),
        }


def memory_now() -> dict[str, float]:
    """Resident memory of this process in GB, as Linux counts it."""
    lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    return {line[0].rstrip(":"): int(line[1]) / 1e6 * 1.024 for line in lines if line[-1] == "kB"}


def generate(arguments: argparse.Namespace, folder: Path) -> Figures:
    """Rows of users with two interests each: an item is one of a cluster of 200, popular ones more often."""
    for part, users in (("clicks", arguments.users), ("fewer", arguments.users // 10)):
        n_rows = users * PER_USER
        for number, first in enumerate(range(0, n_rows, ROWS_PER_FILE)):
            place = folder / part / f"day={number:03}" / "clicks.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            rows = clicks(number, min(ROWS_PER_FILE, n_rows - first), users, arguments.items)
            rows.write_parquet(place)
    users = np.random.default_rng(1).choice(arguments.users, arguments.sample, replace=False)
    clicks(10**6, 5 * len(users), arguments.users, arguments.items, np.repeat(users, 5)).write_parquet(
        folder / "held-out.parquet"
    )
    return {"files GB": round(size_of(folder / "clicks"), 2)}


def clicks(number: int, n: int, n_users: int, n_items: int, users: Any = None) -> pl.DataFrame:
    random = np.random.default_rng([7, number])
    users = random.integers(0, n_users, n) if users is None else users
    n_clusters = max(1, n_items // PER_CLUSTER)
    interest = random.integers(0, 2, n).astype(np.uint64)
    cluster = ((users.astype(np.uint64) * 2 + interest) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(20)) % n_clusters
    within = (PER_CLUSTER * random.power(0.5, n)).astype(np.int64)
    return pl.DataFrame({"user": users, "item": (cluster.astype(np.int64) * PER_CLUSTER + within) % n_items})


def build(arguments: argparse.Namespace, folder: Path) -> Figures:
    data = ts.Interactions.from_file(folder / "clicks", spill=folder / "table", memory=arguments.memory)
    return {"interactions": data.n_interactions, "users": data.n_users, "items": data.n_items}


def train(arguments: argparse.Namespace, folder: Path) -> Figures:
    data = open_spilled(folder / "table")
    model = new_model(arguments, users_at_once=arguments.users_at_once, spill=str(folder / "vectors"))
    figures = trained(model, data)
    model.save(folder / "large.model")
    return figures


def memory(arguments: argparse.Namespace, folder: Path) -> Figures:
    return trained(new_model(arguments), ts.Interactions.from_file(folder / "fewer"))


def new_model(arguments: argparse.Namespace, **more: Any) -> ts.DPCML:
    return ts.DPCML(dim=arguments.dim, n_interests=2, n_negatives=5, epochs=1, **more)


def trained(model: ts.DPCML, data: ts.Interactions) -> Figures:
    processor = time.process_time()
    model.fit(data, progress=False)
    processor = time.process_time() - processor
    seconds = model.history_[0]["seconds"]
    n_triples = 5 * data.n_interactions
    return {
        "epoch s": round(seconds, 1),
        "ns per triple": round(1e9 * seconds / n_triples, 1),
        "processor ns per triple": round(1e9 * processor / n_triples, 1),
    }


def evaluate(arguments: argparse.Namespace, folder: Path) -> Figures:
    model = ts.load(folder / "large.model")
    rows = pl.read_parquet(folder / "held-out.parquet")
    test = ts.Interactions.from_frame(rows.filter(pl.col("user").is_in(sampled_users(arguments, folder).implode())))
    began, processor = time.perf_counter(), time.process_time()
    report = ts.evaluate(model, test, metrics=["NDCG@10"], on_unknown="skip")
    return {"users": test.n_users, "NDCG@10": round(report["NDCG@10"], 4), **seconds_since(began, processor)}


def sampled_users(arguments: argparse.Namespace, folder: Path) -> pl.Series:
    return pl.read_parquet(folder / "held-out.parquet")["user"].unique(maintain_order=True).head(arguments.sample)


def seconds_since(began: float, processor: float) -> Figures:
    return {"s": round(time.perf_counter() - began, 1), "processor s": round(time.process_time() - processor, 1)}


def lists(arguments: argparse.Namespace, folder: Path) -> Figures:
    model = ts.load(folder / "large.model")
    users = sampled_users(arguments, folder)
    known = users.filter(pl.Series(model.train_.users.find(users) >= 0))
    began, processor = time.perf_counter(), time.process_time()
    n_rows = len(model.recommend(known, k=10))
    return {"users": len(known), "rows": n_rows, **seconds_since(began, processor)}


STAGES: dict[str, Callable[[argparse.Namespace, Path], Figures]] = {
    stage.__name__: stage for stage in (generate, build, train, memory, evaluate, lists)
}


def run_stage(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.folder)
    began = time.perf_counter()
    with PeakMemory() as peak:
        figures = STAGES[arguments.stage](arguments, folder)
    figures |= {"stage s": round(time.perf_counter() - began, 1), **peak.figures()}
    (folder / f"{arguments.stage}.json").write_text(json.dumps(figures))


def run_all(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{PER_USER * arguments.users:,} rows, {arguments.users:,} users, {arguments.items:,} items; DPCML "
        f"dim={arguments.dim}, 2 interests, 5 negatives, users_at_once={arguments.users_at_once:,}; "
        f"memory={arguments.memory}"
    )
    found = {}
    for stage in STAGES:
        if not (folder / f"{stage}.json").exists():
            subprocess.run([sys.executable, *sys.argv, "--stage", stage], check=True)
        found[stage] = json.loads((folder / f"{stage}.json").read_text())
        print(f"  {stage:8s} {found[stage]}", flush=True)
    for kind in ("ns per triple", "processor ns per triple"):
        print(f"  speed of files against memory, by {kind}: {found['memory'][kind] / found['train'][kind]:.2f}")
    if arguments.delete:
        shutil.rmtree(folder)


def size_of(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, help="on the disk that is to be used")
    parser.add_argument("--interactions", type=int, default=200_000_000)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--memory", default="1GB", help="of the passes that build the table")
    parser.add_argument("--users-at-once", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=100_000, help="users that are evaluated and answered")
    parser.add_argument("--delete", action="store_true", help="the files at the end")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.users, arguments.items = arguments.interactions // PER_USER, arguments.interactions // PER_ITEM
    if arguments.stage:
        run_stage(arguments)
    else:
        run_all(arguments)


if __name__ == "__main__":
    main()
