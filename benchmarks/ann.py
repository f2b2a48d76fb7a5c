"""Lists from a large catalog: all items compared, against searches near each of a user's vectors (index="ann").

    python benchmarks/ann.py [--items 1000000] [--users 2000] [--repeats 40] [--batch 200]

A DPCML with 4 vectors of dimension 64 per user, made by hand as training leaves them: items lie in clusters of
different sizes inside the unit ball, each interest of a user near some item, every user has 20 items. One user at a
time and a batch, k = 100; recall is the share of the exact lists that was found. Median milliseconds, exact and
approximate in turn.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from one_user import DIM, PAST, VECTORS, made_by_hand

K = 100


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--items", type=int, default=1_000_000)
    options.add_argument("--users", type=int, default=2_000)
    options.add_argument("--repeats", type=int, default=40)
    options.add_argument("--batch", type=int, default=200)
    given = options.parse_args()
    model = made_by_hand(given.users, given.items)
    give_clusters(model, given.items, given.users)
    print(f"{given.items:,} items, {VECTORS} vectors of {DIM}, {PAST} seen, k = {K}; load {os.getloadavg()[0]:.1f}")
    start = time.perf_counter()
    model.build_index("ann")
    from tastespace.ranking.ann import find_index

    made = find_index(model)
    print(
        f"built in {time.perf_counter() - start:.0f} s: {made.n_clusters:,} clusters, {made.n_probe} looked at, "
        f"{len(made.to_bytes()) / 1e6:.0f} MB"
    )
    for index in ("exact", "ann"):
        model.recommend_indices([0], k=K, index=index)  # what is computed once
    random = np.random.default_rng(2)
    one = {"exact": [], "ann": []}
    asked = random.integers(0, given.users, given.repeats).tolist()
    for index, times in one.items():  # one after the other: an exact search leaves nothing else in the caches
        for user in asked:
            start = time.perf_counter()
            model.recommend(user, k=K, index=index)
            times.append(1e3 * (time.perf_counter() - start))
    report("one user, recommend", {index: np.median(times) for index, times in one.items()})
    users = random.choice(given.users, given.batch, replace=False)
    batch, tops = {"exact": [], "ann": []}, {}
    for _ in range(3):
        for index, times in batch.items():
            start = time.perf_counter()
            tops[index] = model.recommend_indices(users, k=K, index=index)[0]
            times.append(1e3 * (time.perf_counter() - start) / len(users))
    report(f"one of {len(users):,} users, recommend_indices", {index: min(times) for index, times in batch.items()})
    both = zip(tops["exact"], tops["ann"], strict=True)
    print(f"recall@{K} {np.mean([len(np.intersect1d(*pair)) / K for pair in both]):.4f}")


def report(name: str, times: dict[str, float]) -> None:
    exact, ann = times["exact"], times["ann"]
    print(f"{name:42} exact {exact:8.2f} ms   ann {ann:7.2f} ms   {exact / ann:5.1f}x", flush=True)


def give_clusters(model, n_items: int, n_users: int) -> None:
    """Vectors as training leaves them, in place of random ones."""
    random = np.random.default_rng(0)
    n_clusters = max(2, n_items // 500)
    centers = random.normal(size=(n_clusters, DIM)).astype(np.float32)
    centers *= 0.6 / np.linalg.norm(centers, axis=1, keepdims=True)
    share = random.pareto(1.5, n_clusters) + 0.1  # few large clusters, many small ones
    items = centers[random.choice(n_clusters, n_items, p=share / share.sum())]
    items += random.normal(size=(n_items, DIM)).astype(np.float32) * np.float32(0.5 / DIM**0.5)
    items /= np.maximum(1.0, np.linalg.norm(items, axis=1, keepdims=True))
    near = items[random.integers(0, n_items, n_users * VECTORS)]
    users = near + random.normal(size=near.shape).astype(np.float32) * np.float32(0.4 / DIM**0.5)
    model.item_vectors_, model.user_vectors_ = items.astype(np.float32), users.astype(np.float32)


if __name__ == "__main__":
    main()
