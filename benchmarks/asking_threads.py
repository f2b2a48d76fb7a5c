"""Lists for one person at a time, asked for by several Python threads at once.

    python benchmarks/asking_threads.py [--users 20000] [--items 20000] [--requests 400] [--rounds 5]

The model of benchmarks/one_user.py. Requests per second of `recommend(user, k=10, threads=1)` from 1, 2 and 8 Python
threads, each of which asks for its share of the users, in turn: the best and the worst round of each, and the processor
time of a list, which is the same for all where threads do not hinder each other. All answers are compared with those
of one thread.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from one_user import made_by_hand


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--users", type=int, default=20_000)
    options.add_argument("--items", type=int, default=20_000)
    options.add_argument("--requests", type=int, default=400)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    model = made_by_hand(given.users, given.items)
    users = np.random.default_rng(1).integers(0, given.users, given.requests).tolist()

    def ask(some: list[int]):
        return [model.recommend(user, k=10, threads=1) for user in some]

    expected = ask(users)
    rates: dict[int, list[float]] = {1: [], 2: [], 8: []}
    processors: dict[int, float] = {}
    for _ in range(given.rounds):
        for n, seen in rates.items():
            with ThreadPoolExecutor(n) as pool:
                shares = [users[len(users) * i // n : len(users) * (i + 1) // n] for i in range(n)]
                start, before = time.perf_counter(), time.process_time()
                found = [one for share in pool.map(ask, shares) for one in share]
                seen.append(len(users) / (time.perf_counter() - start))
                used = 1e3 * (time.process_time() - before) / len(users)
            assert all(one.equals(other) for one, other in zip(found, expected, strict=True))
            processors[n] = min(processors.get(n, used), used)
    print(f"{given.items:,} items; load of the machine {os.getloadavg()[0]:.1f}; the same answers from all threads")
    print(f"{'':10}{'best':>8}{'ratio':>8}{'worst':>8}   lists a second; processor milliseconds of a list")
    for n, seen in rates.items():
        ratio = f"{max(seen) / max(rates[1]):.2f}x"
        print(f"{n} threads {max(seen):8.0f}{ratio:>8}{min(seen):8.0f}{processors[n]:10.2f}")


if __name__ == "__main__":
    main()
