"""SparseEASE against EASE: accuracy on validation data, and time and memory on a large catalog.

    python benchmarks/sparse_ease.py accuracy [DATASET ...]
    python benchmarks/sparse_ease.py large

`accuracy` splits each data set per user (60/20/20, seed 0), fits both on the training part with a few values of the
regularization, and prints NDCG@10 and R@20 on the validation part for the best of each, with the seconds of that fit.
EASE takes the side of the users where they are fewer than the items, as on all of these but ml-1m and anime.
`large` fits a synthetic data set of 100,000 items with a memory limit of 4 GB.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import tastespace as ts
from tastespace.models import EASE, SparseEASE

DATASETS = ("ml-100k", "ml-1m", "steam-200k", "anime", "lastfm-2k", "citeulike-a")
EASE_REGULARIZATION = (30.0, 50.0, 100.0, 200.0, 400.0, 800.0)
SPARSE_REGULARIZATION = (10.0, 30.0, 100.0)


def best(make, values, train, valid):
    """The best by NDCG@10 on validation: parameter, report, seconds of its fit."""
    found = []
    for value in values:
        start = time.perf_counter()
        model = make(value).fit(train)
        seconds = time.perf_counter() - start
        report = ts.evaluate(model, valid, seen=[train], metrics=["NDCG@10", "R@20"])
        found.append((report["NDCG@10"], value, report, seconds))
    return max(found, key=lambda one: one[0])[1:]


def accuracy(names):
    for name in names:
        train, valid, _ = ts.split.per_user(ts.datasets.load(name), (0.6, 0.2, 0.2), seed=0)
        print(
            f"{name}: {train.n_users:,} users, {train.n_items:,} items, {train.n_interactions:,} interactions",
            flush=True,
        )
        reference = None
        for title, make, values in (
            ("EASE", lambda value: EASE(regularization=value), EASE_REGULARIZATION),
            ("SparseEASE", lambda value: SparseEASE(regularization=value), SPARSE_REGULARIZATION),
        ):
            value, report, seconds = best(make, values, train, valid)
            reference = reference or report
            ratios = "  ".join(f"{m} {report[m]:.4f} ({report[m] / reference[m]:.3f})" for m in ("NDCG@10", "R@20"))
            print(f"  {title:10} regularization {value:5.0f}  {ratios}  {seconds:6.1f} s", flush=True)


def memory_gb(field):
    """Resident memory of this process: now (VmRSS) or the peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / 1e9


def large():
    data = ts.synthetic.multi_interest(300_000, 100_000, 6_000_000, n_categories=400, seed=0).interactions
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    before = memory_gb("VmRSS")
    start = time.perf_counter()
    model = SparseEASE(memory_limit_gb=4.0).fit(data)
    seconds = time.perf_counter() - start
    peak = memory_gb("VmHWM")
    print(f"{data.n_users:,} users, {data.n_items:,} items, {data.n_interactions:,} interactions")
    print(f"fitted in {seconds:.0f} s, {model.coefficients_.nnz:,} coefficients")
    print(f"peak of memory {peak:.2f} GB, {peak - before:.2f} GB above the data")


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "accuracy":
        accuracy(sys.argv[2:] or DATASETS)
    elif what == "large":
        large()
    else:
        sys.exit(__doc__)
