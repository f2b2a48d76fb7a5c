"""Defaults that follow the data: NDCG@10 on validation data for several numbers of negatives and of epochs.

    python benchmarks/defaults.py [--data NAME ...] [--negatives N ...] [--spread MIN MAX] [--out FILE] [--threads N]
    python benchmarks/defaults.py --table FILE

Each data set is split per user (60/20/20); DPCML with default parameters but for the number of negatives is fitted to
the first part for 60 epochs and measured on the second after every fifth, protocol "full". The third part is not used.
The table compares 10 negatives, the default before, with what `n_negatives=None` gives now, after the 50 epochs that
are the default, and says after which epoch each is best.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import tastespace as ts
from tastespace.training.samplers import default_hard_negatives

DATASETS = (
    "town", "ml-100k", "xing-2017", "steam-200k", "lastfm-2k", "citeulike-t", "citeulike-a", "anime", "ml-1m",
)  # fmt: skip
EPOCHS, EVERY = 60, 5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATASETS)
    parser.add_argument("--negatives", type=int, nargs="+", help="by default 10 and what n_negatives=None gives")
    parser.add_argument("--spread", type=float, nargs=2, metavar=("MIN", "MAX"), default=(0.05, 0.25))
    parser.add_argument(
        "--out", type=Path, default=Path("defaults.jsonl"), help="finished runs, which are not repeated"
    )
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    arguments = parser.parse_args()
    if arguments.table is None:
        for name in arguments.data:
            data = load(name)
            wanted = arguments.negatives or sorted({10, default_hard_negatives(data.n_items)})
            for n_negatives in wanted:
                run(name, data, n_negatives, tuple(arguments.spread), arguments.out, arguments.threads)
    print_table(read(arguments.table or arguments.out))


def load(name):
    data = ts.synthetic.multi_interest(seed=0).interactions if name == "town" else ts.datasets.load(name)
    return replace(data, item_attributes=None, user_attributes=None)


def run(name, data, n_negatives, spread, out, threads):
    """Fit and measure what is not in the file of finished runs yet."""
    key = {"data": name, "n_negatives": n_negatives, "spread": list(spread)}
    if any(all(row[k] == v for k, v in key.items()) for row in read(out)):
        return
    train, valid, _ = ts.split.per_user(data, (0.6, 0.2, 0.2), seed=0)
    model = ts.DPCML(
        n_negatives=n_negatives, min_spread=spread[0], max_spread=spread[1], epochs=EPOCHS, patience=0,
        validate_every=EVERY, threads=threads,
    )  # fmt: skip
    model.fit(train, valid, progress=False)
    figures = {row["epoch"]: round(row["NDCG@10"], 5) for row in model.history_ if "NDCG@10" in row}
    seconds = sum(row["seconds"] for row in model.history_)
    row = key | {"items": data.n_items, "rows": train.n_interactions, "seconds": round(seconds, 1), "figures": figures}
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def print_table(rows):
    print("| data | items | train rows | negatives | before | now | difference | best epoch before | best epoch now |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    found = {(row["data"], row["n_negatives"]): row for row in rows if row["spread"] == [0.05, 0.25]}
    for (name, n_negatives), before in found.items():
        negatives = default_hard_negatives(before["items"])
        later = found.get((name, negatives))
        if n_negatives != 10 or later is None:
            continue
        (old, old_best), (new, new_best) = ((row["figures"]["50"], best_epoch(row)) for row in (before, later))
        print(
            f"| {name} | {before['items']:,} | {before['rows']:,} | {negatives} | {old:.4f} | {new:.4f} "
            f"| {100 * (new / old - 1):+.1f} % | {old_best} | {new_best} |"
        )


def best_epoch(row):
    return max(row["figures"], key=lambda epoch: row["figures"][epoch])


if __name__ == "__main__":
    main()
