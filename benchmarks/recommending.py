"""Top 50 for every user of MovieLens-1M: ours against implicit's `recommend` with vectors of the same dimension.

    TASTESPACE_DATA=<folder of the data sets> python benchmarks/recommending.py [--repeats 5]

needs implicit beside the package (the `bench` extra).

Vectors are random: what is timed is ranking: from vectors to lists. implicit has one vector per user and computes a dot
product per user and item; ours has 5 and computes 5 distances, so times are compared per distance or dot product, and
as they are. Both leave out the train items. Ours is timed twice: `recommend_indices`, which gives arrays as implicit's
does, and `recommend`, which gives a frame of ids with distances and interests. Libraries take turns; the best of the
repeats counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
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
    best = dict.fromkeys(timed, np.inf)
    for _ in range(repeats):
        for name, (make, _) in timed.items():
            start = time.perf_counter()
            make()
            best[name] = min(best[name], time.perf_counter() - start)
    print(f"{train!r}, k = {K}, d = {DIM}; implicit 1 vector per user, tastespace {INTERESTS}")
    print(f"{'':32}{'seconds':>8}{'ns per distance':>17}{'implicit / this':>17}{'per distance':>14}")
    first = best["implicit, recommend"]
    for name, (_, work) in timed.items():
        each = 1e9 * best[name] / work
        ratio = (1e9 * first / pairs) / each
        print(f"{name:32}{best[name]:8.3f}{each:17.2f}{first / best[name]:16.1f}x{ratio:13.1f}x")


if __name__ == "__main__":
    main()
