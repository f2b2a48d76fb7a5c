"""Top 10 and 50 for every user of MovieLens-1M with rules: how many times the processor time of lists without rules.

    TASTESPACE_DATA=<folder of the data sets> python benchmarks/rules.py [--repeats 5]

A trained DPCML with 4 vectors of 100; `recommend_indices`, all users, train items left out. Plain lists and lists with
rules take turns; the least processor time of the repeats counts, which a busy machine changes little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import polars as pl

import tastespace as ts


def best_of(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Least processor time of each call in seconds, of all threads; they take turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    data = ts.datasets.load("ml-1m")
    model = ts.DPCML(dim=100, n_interests=4, epochs=3, seed=0).fit(data, progress=False)
    items = data.items.series
    stock = pl.Series("stock", [row % 3 for row in range(len(items))])
    model.set_item_attributes(
        data.item_attributes.with_columns(stock, brand=pl.Series([f"b{row % 200}" for row in range(len(items))]))
    )
    every_tenth = items.gather_every(10).to_list()
    rules = {
        "none": None,
        "at most 3 per genre (18 genres, several per item)": ts.Rules(max_per={"genres": 3}),
        "at most 1 per genre": ts.Rules(max_per={"genres": 1}),
        "at most 1 per brand (200 brands)": ts.Rules(max_per={"brand": 1}),
        "in stock (two thirds)": ts.Rules(in_stock="stock"),
        "5 pinned items": ts.Rules(pinned=items[:5].to_list()),
        "30 % new items, of which there are 10 %": ts.Rules(min_new_share=0.3, new=every_tenth),
    }
    for k in (10, 50):
        calls = {name: lambda one=one, k=k: model.recommend_indices(k=k, rules=one) for name, one in rules.items()}
        found = best_of(calls, arguments.repeats)
        print(f"k = {k}: {found['none']:.2f} s of processor time without rules; times as much with")
        for name, seconds in found.items():
            if name != "none":
                print(f"  {name:55} {seconds / found['none']:5.2f}")


if __name__ == "__main__":
    main()
