"""The model that `tastespace fit` makes beside its members and implicit: one list, everybody's lists, shelves.

    TASTESPACE_DATA=<folder of the data sets> python benchmarks/blend.py MODEL [--repeats 5]

``MODEL`` is the folder of a saved blend, such as ``tastespace fit ml-1m --trials 6 --out MODEL`` makes; implicit must
be installed (the `bench` extra), and has random vectors of dimension 100: what is timed is ranking. Contestants take
turns in one process. One list and shelves: the median over users of the milliseconds of a call, everybody's lists:
seconds of one call of `recommend_indices`; the best of the repeats counts. *cpu*: milliseconds or seconds of the
processors, all threads together: other programs count less in them. *apart*: the same blend, whose members are asked
for their scores one by one, as models that the kernel does not know are; its lists and scores are compared with those
of the kernel.
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
from tastespace.models import Recommender
from tastespace.models.blend.program import Program

K, DIM, USERS, SHELVES, APART = 10, 100, 300, 60, 500


class Apart(Recommender):
    """A model with the scores of another, which the kernel of blends does not know."""

    @classmethod
    def of(cls, model: Recommender) -> Apart:
        made = cls()
        made.own, made.train_, made.valid_ = model, model.train_, None
        return made

    def _fit(self, train: Any, valid: Any, progress: Any) -> None:
        """Nothing to learn."""

    @property
    def weighted_train(self) -> Any:
        return self.own.weighted_train

    def score_block(self, users: Any) -> Any:
        return self.own.score_block(users)

    def history_scores(self, histories: Any) -> Any:
        return self.own.history_scores(histories)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model")
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    blend = tastespace.load(given.model)
    train, users = blend.train_, blend.train_.users.series.to_list()
    contestants: dict[str, Any] = {"the blend": blend}
    for member in blend.members_:
        contestants[type(member).__name__] = member
    print(f"{train!r}\nblend of {', '.join(type(one).__name__ for one in blend.members_)}, k = {K}")
    program = Program(blend)
    print(f"in the kernel: {len(blend.members_) - len(program.given_members)} of {len(blend.members_)} members")
    print(f"{'':28}{'one list, ms':>16}{'cpu':>8}{'all lists, s':>16}{'cpu':>8}{'shelves, ms':>16}{'cpu':>8}")
    implicit = implicit_lists(train)
    asked: dict[str, list[Callable[[], tuple[float, float]] | None]] = {
        name: [
            lambda model=model: each(lambda user: model.recommend(user, k=K), users[:USERS]),
            lambda model=model: timed(lambda: model.recommend_indices(k=K)),
            (lambda model=model: each(model.shelves, users[:SHELVES])) if model.has_interests else None,
        ]
        for name, model in contestants.items()
    }
    asked["implicit's ALS"] = [
        lambda: each(implicit, [np.array([row]) for row in range(USERS)]),
        lambda: timed(lambda: implicit(np.arange(train.n_users))),
        None,
    ]
    best = {name: [np.full(2, np.inf) for _ in kinds] for name, kinds in asked.items()}
    for _ in range(given.repeats):
        for at in range(3):
            for name, kinds in asked.items():
                measure = kinds[at]
                if measure is not None:
                    best[name][at] = np.minimum(best[name][at], measure())
    for name, values in best.items():
        scaled = [values[0] * 1e3, values[1], values[2] * 1e3]
        shown = "".join(f"{a:16.3f}{b:8.3f}" if np.isfinite(a) else f"{'-':>16}{'-':>8}" for a, b in scaled)
        print(f"{name:28}{shown}", flush=True)
    compare(blend)


def compare(blend: Any) -> None:
    """Print how far lists and scores are from those of the same blend whose members are asked one by one."""
    rows = np.arange(min(APART, blend.train_.n_users))
    users = [blend.train_.users[int(row)] for row in rows]
    lists, scores = blend.recommend(users, k=K), blend.score_block(rows)
    known, vectors = blend.members_, blend._directions()
    blend.members_, blend._directions = [Apart.of(one) for one in known], lambda: vectors
    start = timed(lambda: blend.recommend_indices(rows, k=K))
    others, apart = blend.recommend(users, k=K), blend.score_block(rows)
    same = float((lists["item"] == others["item"]).mean())
    print(
        f"apart, {len(rows)} users: {start[0]:.3f} s, cpu {start[1]:.3f}; scores differ by at most "
        f"{np.abs(scores - apart).max():.1e}, {100 * same:.3f} % of all places hold the same item"
    )


def implicit_lists(train: Any) -> Callable[[Any], Any]:
    random = np.random.default_rng(0)
    model = AlternatingLeastSquares(factors=DIM, use_gpu=False)
    model.user_factors = random.normal(size=(train.n_users, DIM)).astype(np.float32)
    model.item_factors = random.normal(size=(train.n_items, DIM)).astype(np.float32)
    seen = sp.csr_matrix(train.matrix)

    def lists(rows: Any) -> Any:
        return model.recommend(rows, seen[rows], N=K, filter_already_liked_items=True)

    return lists


def each(ask: Callable[[Any], Any], users: list[Any]) -> tuple[float, float]:
    """Medians of the seconds of one call for each of these."""
    ask(users[0])
    return tuple(np.median([timed(lambda user=user: ask(user)) for user in users], axis=0))


def timed(ask: Callable[[], Any]) -> tuple[float, float]:
    """Seconds that pass, and of the processors."""
    start, processor = time.perf_counter(), time.process_time()
    ask()
    return time.perf_counter() - start, time.process_time() - processor


if __name__ == "__main__":
    with threadpool_limits(1, "blas"):  # as implicit advises for itself; no model here multiplies matrices by BLAS
        main()
