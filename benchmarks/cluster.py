"""Training on partitions of the users: quality, bytes, time, and a simulation of a large cluster.

    python benchmarks/cluster.py quality --data ml-1m --rounds 1 4 16     # validation NDCG@10 against one process
    python benchmarks/cluster.py rounds --workers 1 2 4                   # where the time of a round goes
    python benchmarks/cluster.py simulate                                 # 10 billion interactions on up to 100 nodes

docs/scaling.md holds what they printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import numpy as np

import tastespace as ts
from tastespace.cluster import ClusterOptions, fit_on_cluster
from tastespace.cluster.executors import open_executor


def load(name: str) -> tuple[ts.Interactions, ts.Interactions]:
    whole = ts.synthetic.multi_interest(seed=0).interactions if name == "town" else ts.datasets.load(name)
    train, valid, _ = ts.split.per_user(whole, seed=0)  # the test part is never looked at
    return train, valid


def quality(arguments: argparse.Namespace) -> None:
    """The best NDCG@10 on validation data within so many epochs, for one process and for partitions."""
    for name in arguments.data:
        train, valid = load(name)
        print(f"{name}: {train!r}, DPCML dim={arguments.dim}, NDCG@10 on validation")
        differences: dict[str, list[list[float]]] = {}
        for seed in arguments.seeds:
            model = ts.DPCML(
                dim=arguments.dim,
                epochs=max(arguments.epochs),
                patience=0,
                seed=seed,
                threads=1,
                validate_every=arguments.validate_every,
            )
            alone = best(model.clone().fit(train, valid=valid, progress=False), arguments.epochs)
            shown = ", ".join(f"{score:.4f}" for score in alone)
            print(f"  seed {seed}: one process: {shown} within {arguments.epochs} epochs", flush=True)
            for number in arguments.rounds:
                for compress in (False, True) if arguments.compress else (False,):
                    options = ClusterOptions("inline", arguments.partitions, number, compress=compress)
                    own = model.clone()
                    costs = fit_on_cluster(own, train, valid, options, progress=False)
                    chosen = len(costs) // len(own.history_)
                    how = f"{arguments.partitions} partitions, {chosen} rounds per epoch"
                    how += " (the default)" if number is None else ""
                    how += ", half precision" if compress else ""
                    scores = best(own, arguments.epochs)
                    differences.setdefault(how, []).append(
                        [100 * (score / one - 1) for score, one in zip(scores, alone, strict=True)]
                    )
                    shown = ", ".join(
                        f"{score:.4f} ({change:+.1f} %)"
                        for score, change in zip(scores, differences[how][-1], strict=True)
                    )
                    sent = sum(one.n_bytes for one in costs) / len(costs) / 1e6
                    print(f"  seed {seed}: {how}: {shown}; {sent:.2f} MB sent per round", flush=True)
        for how, of_seeds in differences.items():
            means = ", ".join(mean_and_error(column) for column in zip(*of_seeds, strict=True))
            print(f"  mean of {len(of_seeds)} seeds: {how}: {means} within {arguments.epochs} epochs", flush=True)


def mean_and_error(values: tuple[float, ...]) -> str:
    """The mean of percentages and, from two of them on, its standard error."""
    if len(values) == 1:
        return f"{values[0]:+.1f} %"
    return f"{statistics.mean(values):+.1f} % (error {statistics.stdev(values) / len(values) ** 0.5:.1f})"


def best(model: ts.DPCML, epochs: list[int]) -> list[float]:
    """The best score within each of these numbers of epochs: a longer training begins like a shorter one."""
    measured = [(row["epoch"], float(row["NDCG@10"])) for row in model.history_ if "NDCG@10" in row]
    return [max(score for epoch, score in measured if epoch <= last) for last in epochs]


def rounds(arguments: argparse.Namespace) -> None:
    """Medians over the rounds of where the time goes."""
    train, _ = load(arguments.data)
    print(f"{arguments.data}: {train!r}, DPCML dim={arguments.dim}, 8 partitions, {os.cpu_count()} cores")
    for n_workers in arguments.workers:
        executor = open_executor(f"{arguments.kind}:{n_workers}")
        try:
            model = ts.DPCML(dim=arguments.dim, epochs=2, threads=1)
            options = ClusterOptions(executor, rounds_per_epoch=4, item_shards=arguments.shards)
            costs = fit_on_cluster(model, train, None, options, progress=False)[1:]
        finally:
            executor.close()
        middle = {
            name: statistics.median(getattr(one, name) for one in costs)
            for name in ("seconds", "compute", "files", "combine", "n_fetched", "n_bytes", "n_rows")
        }
        busy = (middle["compute"] + middle["files"]) / n_workers
        print(
            f"  {arguments.kind}:{n_workers}: round {middle['seconds']:.3f} s; per worker "
            f"{middle['compute'] / n_workers:.3f} s training, {middle['files'] / n_workers:.3f} s files; "
            f"{middle['combine']:.3f} s combining; "
            f"{max(0.0, middle['seconds'] - busy - middle['combine']):.3f} s scheduling, sending and waiting; "
            f"{middle['n_fetched'] / 1e6:.2f} MB read, {middle['n_bytes'] / 1e6:.2f} MB sent, "
            f"{middle['n_rows']:.0f} items",
            flush=True,
        )


def simulate(arguments: argparse.Namespace) -> None:
    """Seconds per epoch from measured seconds per positive and per row, and bytes over an assumed network."""
    train, _ = load("ml-1m")
    model = ts.DPCML(dim=arguments.dim, epochs=2, n_negatives=10, threads=1)
    began = time.process_time()
    model.fit(train, progress=False)
    per_positive = (time.process_time() - began) / (2 * train.n_interactions)
    items, interactions, network = arguments.items, arguments.interactions, arguments.gbit * 1e9 / 8
    row = 4 * arguments.dim * 2  # a vector and its squares
    sent_row = row // 2 if arguments.half else row
    state = arguments.users * 2 * arguments.dim * 4 * 3  # two vectors of each user, their squares and means
    combining = measured_combining(arguments.dim)
    print(
        f"measured: {1e6 * per_positive:.2f} us per positive and core (10 negatives, dim {arguments.dim}), "
        f"{1e9 * combining:.0f} ns to combine one row of one partition\n"
        f"assumed: {interactions:.0e} interactions, {arguments.users:.0e} users, {items:,} items, "
        f"{arguments.cores} cores per node, {arguments.gbit} Gbit/s to the storage for each node, "
        f"{arguments.rounds} rounds per epoch, 1 ms of the scheduler per task"
    )
    for sharded in (False, True):
        print("  one shard, which the driver combines" if not sharded else "  as many shards as nodes")
        alone = None
        for nodes in (1, 2, 5, 10, 20, 50, 100):
            compute = interactions * per_positive / (nodes * arguments.cores)
            drawn = 11 * interactions / (nodes * arguments.rounds)  # a positive and ten negatives
            touched = items * (1 - np.exp(-drawn / items))
            fetched = touched if sharded else items
            own = touched if sharded else nodes * touched  # rows of changes that the busiest node combines
            written = items / (nodes if sharded else 1)
            transfer = (max(fetched * row, touched * sent_row) + own * sent_row + written * row) / network
            merge = own * combining
            files = 2 * state / nodes / network
            waiting = 1e-3 * nodes * (2 if sharded else 1)
            parts = {"items": transfer, "user state": files, "combining": merge, "scheduling": waiting}
            epoch = compute + arguments.rounds * sum(parts.values())
            alone = alone or epoch
            shown = ", ".join(f"{name} {arguments.rounds * value / 60:.1f}" for name, value in parts.items())
            print(
                f"    {nodes:3d} nodes: epoch {epoch / 60:6.1f} min, {alone / epoch:5.1f} x one node "
                f"({100 * alone / epoch / nodes:3.0f} %): training {compute / 60:.1f}, {shown}"
            )


def measured_combining(dim: int) -> float:
    """Seconds to combine one row of one partition."""
    from tastespace.cluster.items import combine

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function in (quality, rounds, simulate):
        command = commands.add_parser(function.__name__)
        command.set_defaults(function=function)
        command.add_argument("--dim", type=int, default=32)
        if function is rounds:
            command.add_argument("--data", default="ml-1m")
        if function is quality:
            command.add_argument("--data", nargs="+", default=["town", "ml-100k", "steam-200k", "ml-1m"])
            command.add_argument("--epochs", type=int, nargs="+", default=[20, 50])
            command.add_argument("--partitions", type=int, default=8)
            command.add_argument("--rounds", type=int, nargs="+", default=[None], help="the default: by the rule")
            command.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
            command.add_argument("--compress", action="store_true", help="half precision as well")
            command.add_argument("--validate-every", type=int, default=5)
        if function is rounds:
            command.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
            command.add_argument("--kind", default="local")
            command.add_argument("--shards", type=int)
        if function is simulate:
            command.add_argument("--items", type=int, default=1_000_000)
            command.add_argument("--users", type=float, default=1e8)
            command.add_argument("--interactions", type=float, default=1e10)
            command.add_argument("--cores", type=int, default=16)
            command.add_argument("--gbit", type=float, default=10.0)
            command.add_argument("--rounds", type=int, default=8)
            command.add_argument("--half", action="store_true")
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
