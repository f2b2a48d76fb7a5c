"""Top 50 for every user of MovieLens-1M: ours against implicit's `recommend` with vectors of the same dimension.

    TASTESPACE_DATA=<folder of the data sets> python benchmarks/recommending.py [--repeats 5]

needs implicit beside the package (the `bench` extra).

Vectors are random: what is timed is ranking: from vectors to lists. implicit has one vector per user and computes a dot
product per user and item; ours has 5 and computes 5 distances, so times are compared per distance or dot product, and
as they are. Both leave out the train items. Ours is timed twice: `recommend_indices`, which gives arrays as implicit's
does, and `recommend`, which gives a frame of ids with distances and interests. Libraries take turns; the best of the
repeats counts. The last columns are seconds of the processors, all threads together: other programs count less in them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from implicit.als import AlternatingLeastSquares
from threadpoolctl import threadpool_limits

import tastespace
from tastespace.models import Recommender, VectorSpace

INTERESTS, DIM, K = 5, 100, 50


class GivenVectors(Recommender):
    """A model that was never trained: its vectors are given."""

    has_interests = True

    def _fit(self, train: Any, valid: Any, progress: Any) -> None:
        rng = np.random.default_rng(0)
        users = rng.normal(size=(train.n_users * INTERESTS, DIM)).astype(np.float32)
        items = rng.normal(size=(train.n_items, DIM)).astype(np.float32)
        self.space_ = VectorSpace(users, np.arange(train.n_users + 1, dtype=np.int64) * INTERESTS, items)

    def vectors(self) -> VectorSpace:
        return self.space_


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5)
    repeats = options.parse_args().repeats
    data = tastespace.datasets.load("ml-1m")
    train, _, _ = tastespace.split.per_user(data, (0.6, 0.2, 0.2), seed=0)
    ours = GivenVectors().fit(train)
    theirs = AlternatingLeastSquares(factors=DIM, use_gpu=False)
    theirs.user_factors = np.ascontiguousarray(ours.space_.user_vectors[::INTERESTS])
    theirs.item_factors = ours.space_.item_vectors
    all_users, seen = np.arange(train.n_users), sp.csr_matrix(train.matrix)
    pairs = train.n_users * train.n_items

    def implicit_lists() -> None:
        with threadpool_limits(1, "blas"):  # as implicit itself advises
            theirs.recommend(all_users, seen, N=K, filter_already_liked_items=True)

    timed: dict[str, tuple[Callable[[], object], int]] = {
        "implicit, recommend": (implicit_lists, pairs),
        "tastespace, recommend_indices": (lambda: ours.recommend_indices(k=K), INTERESTS * pairs),
        "tastespace, recommend": (lambda: ours.recommend(k=K), INTERESTS * pairs),
    }
    best, processors = dict.fromkeys(timed, np.inf), dict.fromkeys(timed, np.inf)
    for _ in range(repeats):
        for name, (make, _) in timed.items():
            start, before = time.perf_counter(), time.process_time()
            make()
            best[name] = min(best[name], time.perf_counter() - start)
            processors[name] = min(processors[name], time.process_time() - before)
    print(f"{train!r}, k = {K}, d = {DIM}; implicit 1 vector per user, tastespace {INTERESTS}")
    columns = (
        ("seconds", 8),
        ("ns per distance", 17),
        ("implicit / this", 17),
        ("per distance", 14),
        ("processors", 12),
    )
    print(" " * 32 + "".join(name.rjust(width) for name, width in (*columns, ("ratio", 8))))
    first, work_of_first = best["implicit, recommend"], processors["implicit, recommend"]
    for name, (_, work) in timed.items():
        each = 1e9 * best[name] / work
        ratio = (1e9 * first / pairs) / each
        of_processors = f"{processors[name]:12.3f}{work_of_first / processors[name]:7.1f}x"
        print(f"{name:32}{best[name]:8.3f}{each:17.2f}{first / best[name]:16.1f}x{ratio:13.1f}x{of_processors}")
    print_rate()


def print_rate() -> None:
    """Distances per second of lists of the best 20 to Parquet, beside the products of BLAS of the same shape."""
    n_users, n_items, k, dim = 2_000, 100_000, 20, 64
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(n_users), 20)
    matrix = sp.csr_array((np.ones(len(rows)), (rows, rng.integers(0, n_items, len(rows)))), shape=(n_users, n_items))
    model = GivenVectors().fit(tastespace.Interactions.from_scipy(matrix, weight=False))
    users = rng.normal(size=(n_users * INTERESTS, dim)).astype(np.float32)
    items = rng.normal(size=(n_items, dim)).astype(np.float32)
    model.space_ = VectorSpace(users, np.arange(n_users + 1, dtype=np.int64) * INTERESTS, items)
    distances, some = n_users * INTERESTS * n_items, users[:512]
    model.recommend_indices([0], k=k)  # what is computed once
    passed, processors, peak = np.inf, np.inf, np.inf
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            start, before = time.perf_counter(), time.process_time()
            model.recommend_to(Path(folder) / "lists.parquet", k=k)
            passed = min(passed, time.perf_counter() - start)
            processors = min(processors, time.process_time() - before)
            for _ in range(3):
                before = time.process_time()
                some @ items.T
                peak = min(peak, time.process_time() - before)
    ours, blas = distances / processors, len(some) * n_items / peak
    print(f"{n_users:,} users with {INTERESTS} vectors of {dim}, {n_items:,} items, top {k} to Parquet: {passed:.2f} s")
    print(
        f"{ours / 1e6:.0f} million distances per second and core; a product of {len(some)} vectors and all items: "
        f"{blas / 1e6:.0f} million ({ours / blas:.2f})"
    )


if __name__ == "__main__":
    main()
