"""All metrics of the paper plus coverage on MovieLens-1M: ours against PyTorch with Python loops and plain numpy.

    TASTESPACE_DATA=<folder of the data sets> python benchmarks/evaluation.py [--repeats 5]

needs PyTorch beside the package for the first row; without it that row is left out.

One model, 5 random interest vectors of 100 dimensions per user and one vector per item, and one protocol, "paper": P, R
and NDCG at 3 and 5, MAP, MRR, MaxDiv and ILS at 3, 5, 10 and 20, Coverage at 5 and 20.

* PyTorch: distances of 1,000 users at a time, `topk` over all items (MAP and MRR need the whole ranking), then
  a Python loop over users and ranks: how published research code evaluates.
* numpy: one matrix product per 1,000 users, `argpartition` for the lists, and the ranks of the test items from one
  sort of each row and a binary search: about as fast as plain numpy gets.
* tastespace: `evaluate`.

The implementations run in turn; the best time of the repeats counts. All figures are compared before any time is
shown.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import tastespace
from tastespace.models import Recommender, VectorSpace

try:
    import torch
except ImportError:
    torch = None

N_INTERESTS, DIM, USERS_AT_ONCE = 5, 100, 1_000
ACCURACY, SPREAD, COVERAGE = (3, 5), (3, 5, 10, 20), (5, 20)
LONGEST = max(SPREAD)
METRICS = [
    *(f"{name}@{k}" for name in ("P", "R", "NDCG") for k in ACCURACY),
    *("MAP", "MRR"),
    *(f"{name}@{k}" for name in ("MaxDiv", "ILS") for k in SPREAD),
    *(f"Coverage@{k}" for k in COVERAGE),
]
Figures = dict[str, float]


class GivenVectors(Recommender):
    """A model that was never trained: its vectors are given."""

    def _fit(self, train: Any, valid: Any, progress: Any) -> None:
        rng = np.random.default_rng(0)
        users = rng.normal(size=(train.n_users * N_INTERESTS, DIM)).astype(np.float32)
        items = rng.normal(size=(train.n_items, DIM)).astype(np.float32)
        users /= np.linalg.norm(users, axis=1, keepdims=True)
        items /= np.maximum(1.0, np.linalg.norm(items, axis=1, keepdims=True))
        self.space_ = VectorSpace(users, np.arange(train.n_users + 1, dtype=np.int64) * N_INTERESTS, items)

    def vectors(self) -> VectorSpace:
        return self.space_


class Task:
    """The data and the model that all implementations evaluate."""

    def __init__(self) -> None:
        data = tastespace.datasets.load("ml-1m")
        self.train, _, self.test = tastespace.split.per_user(data, (0.6, 0.2, 0.2), seed=0)
        self.model = GivenVectors().fit(self.train)
        self.users = self.model.space_.user_vectors
        self.items = self.model.space_.item_vectors


# ---- PyTorch and Python loops ------------------------------------------------------------------------------


def with_pytorch(task: Task) -> Figures:
    users, items = torch.from_numpy(task.users), torch.from_numpy(task.items)
    taken = [set(row) for row in per_user(task.train)]
    wanted = [set(row) for row in per_user(task.test)]
    totals: dict[str, list[float]] = {name: [] for name in METRICS}
    shown: dict[int, set[int]] = {k: set() for k in COVERAGE}
    for first in range(0, len(wanted), USERS_AT_ONCE):
        mine = users[first * N_INTERESTS : (first + USERS_AT_ONCE) * N_INTERESTS]
        distance = torch.cdist(mine, items).view(-1, N_INTERESTS, len(items)).amin(dim=1)
        for row in range(len(distance)):
            distance[row, list(taken[first + row])] = torch.inf
        ranking = torch.topk(distance, len(items), dim=1, largest=False).indices
        for row, ranked in enumerate(ranking.tolist()):
            user = first + row
            if not wanted[user]:
                continue
            ranked = ranked[: len(ranked) - len(taken[user])]
            for name, value in of_one_user(ranked, wanted[user]).items():
                totals[name].append(value)
            vectors = items[ranked[:LONGEST]]
            between = torch.cdist(vectors, vectors) ** 2
            for k in SPREAD:
                spread = float(between[:k, :k].sum())
                totals[f"MaxDiv@{k}"].append(spread)
                totals[f"ILS@{k}"].append(spread / 2)
            for k in COVERAGE:
                shown[k].update(ranked[:k])
    figures = {name: sum(values) / len(values) for name, values in totals.items() if values}
    return figures | {f"Coverage@{k}": len(found) / len(items) for k, found in shown.items()}


def of_one_user(ranked: list[int], wanted: set[int]) -> Figures:
    """The accuracy of one full ranking; metrics that the user does not count for are absent."""
    hits = [rank for rank, item in enumerate(ranked, start=1) if item in wanted]
    found: Figures = {}
    for k in ACCURACY:
        if len(wanted) >= k:
            inside = [rank for rank in hits if rank <= k]
            gain = sum(1 / math.log2(rank + 1) for rank in inside)
            ideal = sum(1 / math.log2(rank + 1) for rank in range(1, k + 1))
            found[f"P@{k}"] = len(inside) / k
            found[f"R@{k}"] = len(inside) / len(wanted)
            found[f"NDCG@{k}"] = gain / ideal
    if len(wanted) >= 3:
        found["MAP"] = sum(n / rank for n, rank in enumerate(hits, start=1)) / len(wanted)
        found["MRR"] = 1 / hits[0]
    return found


def per_user(data: Any) -> list[list[int]]:
    return [row.tolist() for row in np.split(data.indices, data.offsets[1:-1])]


# ---- numpy -------------------------------------------------------------------------------------------------


def with_numpy(task: Task) -> Figures:
    train, test, items = task.train, task.test, task.items
    user_terms = np.einsum("ij,ij->i", task.users, task.users)
    item_terms = np.einsum("ij,ij->i", items, items)
    transposed = np.ascontiguousarray(items.T)
    n_test = test.user_counts
    ranks = np.empty(test.n_interactions, dtype=np.int64)
    top = np.empty((train.n_users, LONGEST), dtype=np.int64)
    for first in range(0, train.n_users, USERS_AT_ONCE):
        last = min(train.n_users, first + USERS_AT_ONCE)
        rows = slice(first * N_INTERESTS, last * N_INTERESTS)
        distance = task.users[rows] @ transposed
        distance *= -2.0
        distance += user_terms[rows, None]
        distance = distance.reshape(-1, N_INTERESTS, len(items)).min(axis=1)
        distance += item_terms  # the same for all vectors of a user: cheaper after the minimum
        owner = np.repeat(np.arange(last - first), train.user_counts[first:last])
        distance[owner, train.indices[train.offsets[first] : train.offsets[last]]] = np.inf
        best = np.argpartition(distance, LONGEST, axis=1)[:, :LONGEST]
        order = np.argsort(np.take_along_axis(distance, best, axis=1), axis=1)
        top[first:last] = np.take_along_axis(best, order, axis=1)
        ascending = np.sort(distance, axis=1)
        for user in range(first, last):
            at = slice(test.offsets[user], test.offsets[user + 1])
            ranks[at] = np.searchsorted(ascending[user - first], distance[user - first, test.indices[at]]) + 1
    return figures_from_ranks(ranks, n_test, top[n_test > 0], items)


def figures_from_ranks(ranks: Any, n_test: Any, top: Any, items: Any) -> Figures:
    owner = np.repeat(np.arange(len(n_test)), n_test)
    ranks = ranks[np.lexsort((ranks, owner))]
    starts = np.cumsum(n_test) - n_test
    figures: Figures = {}

    def total(values: Any) -> Any:
        return np.bincount(owner, weights=values, minlength=len(n_test))

    for k in ACCURACY:
        enough = n_test >= k
        hits = total(ranks <= k)[enough]
        gain = total(np.where(ranks <= k, 1 / np.log2(ranks + 1.0), 0.0))[enough]
        figures[f"P@{k}"] = float((hits / k).mean())
        figures[f"R@{k}"] = float((hits / n_test[enough]).mean())
        figures[f"NDCG@{k}"] = float(gain.mean() / (1 / np.log2(np.arange(k) + 2.0)).sum())
    enough = n_test >= 3
    nth = np.arange(len(ranks)) - starts[owner] + 1
    figures["MAP"] = float((total(nth / ranks)[enough] / n_test[enough]).mean())
    figures["MRR"] = float((1 / ranks[starts[enough]]).mean())
    lengths = np.einsum("ij,ij->i", items, items)
    for k in SPREAD:
        # Over ordered pairs |a - b|^2 sums to 2 (k * sum |a|^2 - |sum a|^2).
        middle = items[top[:, :k]].sum(axis=1, dtype=np.float64)
        spread = 2 * (k * lengths[top[:, :k]].sum(axis=1) - np.einsum("ij,ij->i", middle, middle))
        figures[f"MaxDiv@{k}"] = float(spread.mean())
        figures[f"ILS@{k}"] = float(spread.mean()) / 2
    for k in COVERAGE:
        figures[f"Coverage@{k}"] = len(np.unique(top[:, :k])) / len(items)
    return figures


# ---- ours --------------------------------------------------------------------------------------------------


def with_tastespace(task: Task, threads: int) -> Figures:
    report = tastespace.evaluate(
        task.model, task.test, seen=task.train, protocol="paper", metrics=METRICS, threads=threads
    )
    return report.metrics


# ---- timing ------------------------------------------------------------------------------------------------


def limited(threads: int, run: Callable[[], Figures]) -> Callable[[], Figures]:
    """The same with this many threads for BLAS and PyTorch."""

    def inside() -> Figures:
        if torch is not None:
            torch.set_num_threads(threads)
        with threadpool_limits(threads):
            return run()

    return inside


def check(name: str, found: Figures, expected: Figures) -> None:
    """The same figures: items whose distances differ by rounding only may swap places."""
    for metric in METRICS:
        slack = 1 / 1_000 if metric.startswith("Coverage") else max(1e-4, 1e-4 * abs(expected[metric]))
        if abs(found[metric] - expected[metric]) > slack:
            raise SystemExit(f"{name} finds {metric} = {found[metric]}, tastespace {expected[metric]}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    task = Task()
    implementations = {
        "numpy, 1 thread": limited(1, lambda: with_numpy(task)),
        "numpy, 2 threads": limited(2, lambda: with_numpy(task)),
        "tastespace, 1 thread": limited(1, lambda: with_tastespace(task, 1)),
        "tastespace, 2 threads": limited(2, lambda: with_tastespace(task, 2)),
    }
    if torch is None:
        print("PyTorch is not installed: its row is left out.")
    else:
        implementations = {
            "PyTorch, 1 thread": limited(1, lambda: with_pytorch(task)),
            "PyTorch, 2 threads": limited(2, lambda: with_pytorch(task)),
        } | implementations

    seconds: dict[str, list[float]] = {name: [] for name in implementations}
    expected = with_tastespace(task, 1)
    for _ in range(arguments.repeats):
        for name, run in implementations.items():
            start = time.perf_counter()
            figures = run()
            seconds[name].append(time.perf_counter() - start)
            check(name, figures, expected)
    best = {name: min(times) for name, times in seconds.items()}

    print(f"{task.test!r}, C = {N_INTERESTS}, d = {DIM}, {len(METRICS)} figures; all implementations agree.")
    print(f"{'':24}{'seconds':>9}{'against ours, same threads':>28}")
    for name, time_taken in best.items():
        ours = best[f"tastespace, {name.split(', ')[1]}"]
        print(f"{name:24}{time_taken:9.3f}{time_taken / ours:27.1f}x")
    print(f"two threads against one: {best['tastespace, 1 thread'] / best['tastespace, 2 threads']:.2f}x")


if __name__ == "__main__":
    main()
