"""EASE: which regularization is best on validation data, and what a rule that follows the data would give.

    python benchmarks/ease_regularization.py [--data NAME ...] [--out FILE]
    python benchmarks/ease_regularization.py --table FILE

Each data set is split per user (60/20/20, seed 0); EASE is fitted to the first part and measured on the second, with
protocol "full". The third part is not used. The rule is 7000 * density ** 0.75, where the density is that of
items with an interaction; its figure is interpolated between the values that were tried. The table compares it with the
default.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

import tastespace as ts

DATASETS = (
    "town", "ml-100k", "ml-1m", "steam-200k", "anime", "lastfm-2k", "citeulike-a", "xing-2017", "citeulike-t",
)  # fmt: skip
VALUES = (10.0, 30.0, 60.0, 100.0, 200.0, 300.0, 500.0, 1000.0, 2000.0)
DEFAULT = ts.EASE().regularization


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
            rows += measure(name, [value for value in VALUES if (name, value) not in done], file)
    print_table(rows)


def measure(name, values, file):
    if not values:
        return []
    train, valid, _ = ts.split.per_user(load(name), (0.6, 0.2, 0.2), seed=0)
    density = train.n_interactions / train.n_users / int((train.item_counts > 0).sum())
    rows = []
    for value in values:
        report = ts.evaluate(ts.EASE(value).fit(train), valid, seen=train, metrics=["NDCG@10", "R@20"])
        figures = {metric: report[metric] for metric in ("NDCG@10", "R@20")}
        rows.append({"data": name, "density": density, "regularization": value, **figures})
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
    print("| data | density | best | by the rule | NDCG@10 with the default | best | by the rule | R@20 by the rule |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, found in by_name.items():
        found.sort(key=lambda row: row["regularization"])
        at = np.log([row["regularization"] for row in found])
        ndcg, recall = (np.array([row[metric] for row in found]) for metric in ("NDCG@10", "R@20"))
        rule = 7000 * found[0]["density"] ** 0.75
        usual, by_rule = ([np.interp(np.log(x), at, y) for y in (ndcg, recall)] for x in (DEFAULT, rule))
        print(
            f"| {name} | {found[0]['density']:.2%} | {found[int(ndcg.argmax())]['regularization']:.0f} | {rule:.0f} | "
            f"{usual[0]:.4f} | {ndcg.max() / usual[0] - 1:+.1%} | {by_rule[0] / usual[0] - 1:+.1%} | "
            f"{by_rule[1] / usual[1] - 1:+.1%} |"
        )


if __name__ == "__main__":
    main()
