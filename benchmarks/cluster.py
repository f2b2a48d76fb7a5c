"""Training on partitions of the users and out of memory: quality, bytes, time, and a simulation of a large cluster.

    python benchmarks/cluster.py quality --data ml-1m --rounds 1 4 16     # validation NDCG@10 against one process
    python benchmarks/cluster.py rounds --workers 1 2 4                   # where the time of a round goes
    python benchmarks/cluster.py simulate                                 # 10 billion interactions on up to 100 nodes
    python benchmarks/cluster.py spill --interactions 20000000            # files against memory

docs/scaling.md holds what they printed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import tastespace as ts
from tastespace.cluster import ClusterOptions, fit_on_cluster
from tastespace.cluster.executors import open_executor


def load(name: str) -> tuple[ts.Interactions, ts.Interactions]:
    whole = ts.synthetic.multi_interest(seed=0).interactions if name == "town" else ts.datasets.load(name)
    train, valid, _ = ts.split.per_user(whole, seed=0)  # the test part is never looked at
    return train, valid


def quality(arguments: argparse.Namespace) -> None:
    """The best NDCG@10 on validation data over the epochs, for one process and for partitions."""
    train, valid = load(arguments.data)
    print(f"{arguments.data}: {train!r}, DPCML dim={arguments.dim}, {arguments.epochs} epochs, NDCG@10 on validation")
    for seed in arguments.seeds:
        model = ts.DPCML(dim=arguments.dim, epochs=arguments.epochs, patience=0, seed=seed)
        alone = max(row["NDCG@10"] for row in model.clone().fit(train, valid=valid, progress=False).history_)
        print(f"  seed {seed}: one process {alone:.4f}", flush=True)
        for rounds in arguments.rounds:
            for compress in (False, True) if arguments.compress else (False,):
                own = model.clone()
                options = ClusterOptions(
                    "inline", partitions=arguments.partitions, rounds_per_epoch=rounds, compress=compress
                )
                costs = fit_on_cluster(own, train, valid, options, progress=False)
                best = max(row["NDCG@10"] for row in own.history_)
                sent = sum(one.n_bytes for one in costs) / len(costs) / 1e6
                print(
                    f"  seed {seed}: {arguments.partitions} partitions, {rounds:2d} rounds per epoch"
                    f"{', half precision' if compress else ''}: {best:.4f} ({100 * (best / alone - 1):+.1f} %), "
                    f"{sent:.2f} MB sent per round",
                    flush=True,
                )


def rounds(arguments: argparse.Namespace) -> None:
    """Medians over the rounds of where the time goes."""
    train, _ = load(arguments.data)
    print(f"{arguments.data}: {train!r}, DPCML dim={arguments.dim}, 8 partitions, {os.cpu_count()} cores")
    for n_workers in arguments.workers:
        executor = open_executor(f"{arguments.kind}:{n_workers}")
        try:
            model = ts.DPCML(dim=arguments.dim, epochs=2, threads=1)
            costs = fit_on_cluster(model, train, None, ClusterOptions(executor, rounds_per_epoch=4), progress=False)[1:]
        finally:
            executor.close()
        middle = {
            name: statistics.median(getattr(one, name) for one in costs)
            for name in ("seconds", "compute", "files", "combine", "n_bytes", "n_rows")
        }
        busy = (middle["compute"] + middle["files"]) / n_workers
        print(
            f"  {arguments.kind}:{n_workers}: round {middle['seconds']:.3f} s; per worker "
            f"{middle['compute'] / n_workers:.3f} s training, {middle['files'] / n_workers:.3f} s files; "
            f"{middle['combine']:.3f} s combining; "
            f"{max(0.0, middle['seconds'] - busy - middle['combine']):.3f} s scheduling, sending and waiting; "
            f"{middle['n_bytes'] / 1e6:.2f} MB sent, {middle['n_rows']:.0f} items",
            flush=True,
        )


def simulate(arguments: argparse.Namespace) -> None:
    """Seconds per epoch from measured seconds per triple, and bytes over an assumed network."""
    train, _ = load("ml-1m")
    model = ts.DPCML(dim=arguments.dim, epochs=2, n_negatives=10, threads=1)
    began = time.process_time()
    model.fit(train, progress=False)
    per_positive = (time.process_time() - began) / (2 * train.n_interactions)
    items, interactions, network = arguments.items, arguments.interactions, arguments.gbit * 1e9 / 8
    row = 4 * arguments.dim * (1 if arguments.half else 2)  # a vector and its squares, in single or half precision
    combining = measured_combining(arguments.dim)
    print(
        f"measured: {1e6 * per_positive:.2f} us per positive and core (10 negatives, dim {arguments.dim}), "
        f"{1e9 * combining:.0f} ns to combine one row of one partition\n"
        f"assumed: {interactions:.0e} interactions, {items:,} items, {arguments.cores} cores per node, "
        f"{arguments.gbit} Gbit/s, {arguments.rounds} rounds per epoch, all items touched in each round"
    )
    for sharded in (False, True):
        print("  one driver combines all items" if not sharded else "  items sharded over the nodes")
        alone = None
        for nodes in (1, 2, 5, 10, 20, 50, 100):
            compute = interactions * per_positive / (nodes * arguments.cores)
            links = nodes if sharded else 1
            # Every node receives all items and sends its changes; the driver's link, or those of the shards, carry all.
            transfer = 2 * nodes * items * row / network / links if nodes > 1 else 0.0
            merge = nodes * items * combining / links
            epoch = compute + arguments.rounds * (transfer + merge)
            alone = alone or epoch
            print(
                f"    {nodes:3d} nodes: epoch {epoch / 60:8.1f} min, {alone / epoch:5.1f} x one node "
                f"({100 * alone / epoch / nodes:3.0f} %); training {compute / 60:.1f}, sending "
                f"{arguments.rounds * transfer / 60:.1f}, combining {arguments.rounds * merge / 60:.1f} min"
            )


def measured_combining(dim: int) -> float:
    """Seconds to combine one row of one partition."""
    from tastespace.cluster.combine import combine

    n = 20_000
    shared = {"items": np.zeros((n, dim), np.float32), "item_first": np.ones((n, dim), np.float32)}
    change = {"rows": np.arange(n, dtype=np.int32), "items": np.ones((n, dim), np.float32)}
    change["item_first"] = change["items"]
    times = []
    for _ in range(3):
        began = time.process_time()
        combine(shared, [change] * 4, "adagrad")
        times.append(time.process_time() - began)
    return min(times) / (4 * n)


def spill(arguments: argparse.Namespace) -> None:
    """Building and one epoch, in memory and in files, each in a process of its own, whose peak memory is measured."""
    n = arguments.interactions
    n_users, n_items = n // 10, max(1000, n // 1000)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for part in range(8):
            random = np.random.default_rng(part)
            size = n // 8
            items = (n_items * random.power(0.4, size)).astype(np.int32)
            pl.DataFrame({"user": random.integers(0, n_users, size), "item": items}).write_parquet(
                Path(folder) / f"{part}.parquet"
            )
        print(f"{n:,} interactions, {n_users:,} users, {n_items:,} items, DPCML dim={arguments.dim}, 1 epoch")
        for kind in ("memory", "spill"):
            command = [sys.executable, __file__, "one", kind, folder, str(arguments.dim), str(n_users // 10)]
            done = subprocess.run([*command, arguments.memory], capture_output=True, text=True, check=True)
            print(f"  {kind:6s} {json.loads(done.stdout.splitlines()[-1])}", flush=True)


def one(arguments: argparse.Namespace) -> None:
    kind, folder, dim, users_at_once, memory = arguments.rest
    spilled = kind == "spill"
    began = time.perf_counter()
    more = {"spill": f"{folder}/spilled", "memory": memory} if spilled else {}
    data = ts.Interactions.from_files(f"{folder}/*.parquet", **more)
    built = time.perf_counter()
    built_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = ts.DPCML(
        dim=int(dim),
        n_interests=2,
        n_negatives=5,
        epochs=1,
        users_at_once=int(users_at_once),
        spill=f"{folder}/vectors" if spilled else None,
    )
    processor = time.process_time()
    model.fit(data, progress=False)
    trained = time.perf_counter()
    facts = {
        "build s": round(built - began, 1),
        "build peak GB": round(built_peak / 1e6, 2),
        "fit s": round(trained - built, 1),
        "fit processor s": round(time.process_time() - processor, 1),
        "epoch s": round(model.history_[0]["seconds"], 1),
        "us per positive": round(1e6 * model.history_[0]["seconds"] / data.n_interactions, 2),
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "check": float(np.abs(model.item_vectors_).sum()),
    }
    print(json.dumps(facts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function in (quality, rounds, simulate, spill, one):
        command = commands.add_parser(function.__name__)
        command.set_defaults(function=function)
        command.add_argument("--dim", type=int, default=32)
        if function in (quality, rounds):
            command.add_argument("--data", default="ml-1m")
        if function is quality:
            command.add_argument("--epochs", type=int, default=15)
            command.add_argument("--partitions", type=int, default=8)
            command.add_argument("--rounds", type=int, nargs="+", default=[1, 4, 16])
            command.add_argument("--seeds", type=int, nargs="+", default=[0])
            command.add_argument("--compress", action="store_true")
        if function is rounds:
            command.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
            command.add_argument("--kind", default="local")
        if function is simulate:
            command.add_argument("--items", type=int, default=10_000_000)
            command.add_argument("--interactions", type=float, default=1e10)
            command.add_argument("--cores", type=int, default=16)
            command.add_argument("--gbit", type=float, default=10.0)
            command.add_argument("--rounds", type=int, default=8)
            command.add_argument("--half", action="store_true")
        if function is spill:
            command.add_argument("--interactions", type=int, default=20_000_000)
            command.add_argument("--memory", default="1GB")
            command.add_argument("--folder", default=None)
        if function is one:
            command.add_argument("rest", nargs=5)
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
