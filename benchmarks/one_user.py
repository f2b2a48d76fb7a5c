"""Answers for one person, in milliseconds, and how they grow with the number of users.

    python benchmarks/one_user.py [--users 10000 100000 1000000] [--items 10000] [--repeats 200] [--against FOLDER]

A DPCML with 4 vectors of dimension 64 per user, made by hand: vectors are random, every user has 20 items, items have a
title and one of 20 genres. Each answer is for another user; the median over the repeats counts, after a first call,
whose time stands apart. `recommend_for` is asked for one new user with 20 items, and for 1,000 at once (time per user).
Milliseconds that pass, and milliseconds of the processors, all threads together: other programs do not count in these.
``--against`` names the sources of another revision (the folder that holds `src`, with its kernels built): both
revisions then run one after the other, each in a process of its own, and the ratio of the processor times is given.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

VECTORS, DIM, PAST, NEW = 4, 64, 20, 1000
SECONDS = 5.0  # of the processor, at most for one kind of answer


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--users", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--items", type=int, default=10_000)
    options.add_argument("--repeats", type=int, default=200)
    options.add_argument("--against", type=Path)
    options.add_argument("--json", action="store_true", help="measure one size in this process")
    given = options.parse_args()
    if given.json:
        print(json.dumps(measured(given.users[0], given.items, given.repeats)))
        return
    print(f"{given.items:,} items, {VECTORS} vectors of {DIM}; milliseconds, median of up to {given.repeats}")
    print(f"{'':38}{'passed':>10}{'processor':>11}" + ("" if given.against is None else f"{'before':>12}{'ratio':>9}"))
    for n_users in given.users:
        now = run(n_users, given)
        before = None if given.against is None else run(n_users, given, given.against)
        print(f"{n_users:,} users")
        for name, value in now.items():
            against = "" if before is None else ratio(before.get(name), value[1])
            print(f"  {name:36}{value[0]:10.3f}{value[1]:11.3f}{against}", flush=True)


def ratio(before: list[float] | None, now: float) -> str:
    return f"{'-':>12}{'':>9}" if before is None else f"{before[1]:12.3f}{before[1] / now:8.1f}x"


def run(n_users: int, given: argparse.Namespace, folder: Path | None = None) -> dict[str, list[float]]:
    command = [sys.executable, __file__, "--json", "--users", str(n_users), "--items", str(given.items)]
    paths = {} if folder is None else {"PYTHONPATH": str(folder.resolve() / "src")}
    done = subprocess.run(
        [*command, "--repeats", str(given.repeats)], env={**os.environ, **paths}, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def measured(n_users: int, n_items: int, repeats: int) -> dict[str, list[float]]:
    """Milliseconds by name: passed, of the processors."""
    from tastespace.errors import TastespaceError

    model = made_by_hand(n_users, n_items)
    random = np.random.default_rng(1)
    users = random.integers(0, n_users, repeats)
    items = random.integers(0, n_items, repeats)
    mask = random.random(n_items) < 0.5
    histories = [random.choice(n_items, PAST, replace=False).tolist() for _ in range(max(NEW, repeats))]
    found = {"recommend, the first call": medians([timed(lambda: model.recommend(int(users[0]), k=10))])}
    asked = {
        "recommend": lambda i: model.recommend(int(users[i]), k=10),
        "recommend, filter=mask": lambda i: model.recommend(int(users[i]), k=10, filter=mask),
        "recommend, filter=function": lambda i: model.recommend(int(users[i]), k=10, filter=lambda frame: mask),
        "shelves": lambda i: model.shelves(int(users[i])),
        "similar_items": lambda i: model.similar_items(int(items[i])),
        "explain": lambda i: model.explain(int(users[i]), int(items[i])),
        "recommend_for, one new user": lambda i: model.recommend_for([histories[i]], k=10),
    }
    for name, ask in asked.items():
        try:
            ask(0)
        except TastespaceError:  # an earlier revision that does not have it
            continue
        times: list[tuple[float, float]] = []
        for i in range(repeats):
            times.append(timed(lambda ask=ask, i=i: ask(i)))
            if i >= 2 and sum(processor for _, processor in times) > 1e3 * SECONDS:
                break
        found[name] = medians(times)
    batch = [timed(lambda: model.recommend_for(histories[:NEW], k=10)) for _ in range(3)]
    found["recommend_for, one of 1,000 new users"] = [one / NEW for one in medians(batch)]
    return found


def timed(ask: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds that pass, and of the processors."""
    start, processor = time.perf_counter(), time.process_time()
    ask()
    return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - processor)


def medians(times: list[tuple[float, float]]) -> list[float]:
    return np.median(times, axis=0).tolist()


def made_by_hand(n_users: int, n_items: int):
    """A DPCML that was never trained."""
    from tastespace import DPCML, Interactions
    from tastespace.data.ids import IdMap

    random = np.random.default_rng(0)
    width = n_items // PAST
    past = random.integers(0, width, (n_users, PAST), dtype=np.int32) + np.arange(PAST, dtype=np.int32) * width
    ids = np.arange(n_items)
    attributes = pl.DataFrame({"item": ids, "title": [f"item {i}" for i in ids], "genres": [f"g{i % 20}" for i in ids]})
    model = DPCML(n_interests=VECTORS, dim=DIM, seed=0)
    model.train_ = Interactions(
        IdMap(pl.Series(np.arange(n_users)), "user"),
        IdMap(pl.Series(ids), "item"),
        np.arange(n_users + 1, dtype=np.int64) * PAST,
        past.ravel(),
        item_attributes=attributes,
    )
    model.valid_ = None
    model.user_vectors_ = in_ball(random, n_users * VECTORS)
    model.user_offsets_ = np.arange(n_users + 1, dtype=np.int64) * VECTORS
    model.item_vectors_ = in_ball(random, n_items)
    model.n_interests_ = VECTORS
    return model


def in_ball(random: np.random.Generator, n: int) -> np.ndarray:
    vectors = random.random((n, DIM), dtype=np.float32)
    vectors -= 0.5
    vectors *= 0.2
    return vectors


if __name__ == "__main__":
    main()
