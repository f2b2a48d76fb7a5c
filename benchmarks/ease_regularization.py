"""EASE on validation data: which regularization is best for the published form, and what the defaults give.

    python benchmarks/ease_regularization.py [--data NAME ...] [--out FILE]
    python benchmarks/ease_regularization.py --table FILE

Each data set is split per user (60/20/20, seed 0); EASE is fitted to the first part and measured on the second, with
protocol "full". The third part is not used. The table compares `EASE()`, whose regularization follows the density, with
the published form (no dropout, no powers): with a regularization of 100 and with the best of those tried.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import tastespace as ts

DATASETS = (
    "town", "ml-100k", "ml-1m", "steam-200k", "anime", "lastfm-2k", "citeulike-a", "xing-2017", "citeulike-t",
)  # fmt: skip
VALUES = (10.0, 30.0, 60.0, 100.0, 200.0, 300.0, 500.0, 1000.0, 2000.0)
USUAL = 100.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATASETS)
    parser.add_argument("--out", type=Path, default=Path("ease.jsonl"), help="finished runs, which are not repeated")
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    arguments = parser.parse_args()
    file = arguments.table or arguments.out
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if arguments.table is None:
        done = {(row["data"], row["regularization"]) for row in rows}
        for name in arguments.data:
            rows += measure(name, [value for value in (None, *VALUES) if (name, value) not in done], file)
    print_table(rows)


def measure(name, values, file):
    if not values:
        return []
    train, valid, _ = ts.split.per_user(load(name), (0.6, 0.2, 0.2), seed=0)
    rows = []
    for value in values:
        model = ts.EASE() if value is None else ts.EASE(value, **ts.EASE.paper_form())
        report = ts.evaluate(model.fit(train), valid, seen=train, metrics=["NDCG@10", "R@20"])
        figures = {metric: report[metric] for metric in ("NDCG@10", "R@20")}
        taken = model.regularization_
        rows.append({"data": name, "regularization": value, "taken": taken, **figures})
        with file.open("a") as out:
            out.write(json.dumps(rows[-1]) + "\n")
    return rows


def load(name):
    if name == "town":
        return ts.synthetic.multi_interest(n_users=3000, n_items=2000, n_interactions=60_000, seed=1).interactions
    return ts.datasets.load(name)


def print_table(rows):
    by_name = defaultdict(list)
    for row in rows:
        by_name[row["data"]].append(row)
    print("| data | EASE() takes | NDCG@10 | R@20 | published, 100: NDCG@10 | R@20 | best of | NDCG@10 | R@20 |")
    print("| --- |" + " ---: |" * 8)
    for name, found in by_name.items():
        ours = next(row for row in found if row["regularization"] is None)
        published = [row for row in found if row["regularization"] is not None]
        usual = next(row for row in published if row["regularization"] == USUAL)
        best = max(published, key=lambda row: row["NDCG@10"])
        cells = [f"{row[metric]:.4f}" for row in (ours, usual) for metric in ("NDCG@10", "R@20")]
        best_cells = f"{best['regularization']:.0f} | {best['NDCG@10']:.4f} | {best['R@20']:.4f}"
        print(f"| {name} | {ours['taken']:.0f} | {' | '.join(cells)} | {best_cells} |")


if __name__ == "__main__":
    main()
