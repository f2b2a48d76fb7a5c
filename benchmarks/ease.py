"""EASE from the side of the items: seconds and memory by the number of items, in single and in double precision.

    python benchmarks/ease.py [--items 9000 17600] [--double 9000] [--threads 0]

Synthetic data with a long tail: a fifth more users than items, 40 interactions each. Each size is fitted in a process
of its own. Seconds that pass, seconds of the processors (all threads together: other programs count less in these), and
the peak of memory above what the process held before, per pair of items. In double precision LAPACK runs with one
thread (potrf and potri), as it did for all matrices of more than 12,000 rows before.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

PER_USER, REGULARIZATION = 40, 100.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--items", type=int, nargs="+", default=[9_000, 17_600])
    options.add_argument("--double", type=int, nargs="*", default=[9_000])
    options.add_argument("--threads", type=int, default=0)
    options.add_argument("--json", choices=["single", "double"], help="measure one size in this process")
    given = options.parse_args()
    if given.json:
        print(json.dumps(measured(given.items[0], given.json, given.threads)))
        return
    print(f"load of the machine {os.getloadavg()[0]:.1f}")
    print(f"{'items':>8}  {'':22}{'passed':>10}{'processors':>12}{'bytes per pair':>16}")
    for n in sorted({*given.items, *given.double}):
        for kind in (*(["double"] if n in given.double else []), *(["single"] if n in given.items else [])):
            command = [sys.executable, __file__, "--items", str(n), "--threads", str(given.threads), "--json", kind]
            found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            name = "single, blocked" if kind == "single" else "double, LAPACK"
            times = f"{found['passed']:8.1f} s{found['processors']:10.1f} s"
            print(f"{n:8,}  {name:22}{times}{found['bytes per pair']:16.1f}", flush=True)


def measured(n_items: int, kind: str, threads: int) -> dict[str, float]:
    from tastespace._util.threads import resolve_threads
    from tastespace.models.linear import ease as ease_sides
    from tastespace.models.linear.inverse import inverse_in_place

    matrix = data(n_items)
    held, n_threads = peak(), resolve_threads(threads)
    start, processors = time.perf_counter(), time.process_time()
    if kind == "single":
        assert ease_sides.single_item_weights(matrix, REGULARIZATION, n_threads) is not None
    else:
        dense = (matrix.T @ matrix).toarray(order="F")
        dense[np.diag_indices_from(dense)] += REGULARIZATION
        with threadpool_limits(1):
            assert inverse_in_place(dense) == 0
        ease_sides._weights_from_lower(dense)
    return {
        "passed": time.perf_counter() - start,
        "processors": time.process_time() - processors,
        "bytes per pair": (peak() - held) / n_items**2,
    }


def data(n_items: int) -> sp.csr_array:
    random = np.random.default_rng(0)
    n_users = n_items * 6 // 5
    share = 1.0 / (np.arange(n_items) + 50.0)
    items = random.choice(n_items, (n_users, PER_USER), p=share / share.sum())
    found = sp.csr_array((np.ones(items.size), (np.repeat(np.arange(n_users), PER_USER), items.ravel())))
    found.resize((n_users, n_items))
    found.sum_duplicates()
    found.data[:] = 1.0
    return found


def peak() -> float:
    """Bytes."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
