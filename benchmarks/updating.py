"""What an update costs and what it gives: not updating, updating and fitting again after 5 % new interactions.

    python benchmarks/updating.py [--data NAME ...] [--model NAME ...] [--new rows|users] [--seeds N] [--part valid]

Each data set is split per user (70/15/15). A twentieth of the first part is new: interactions drawn at random (rows),
or all interactions of users drawn at random (users). The model is fitted to the others (old), updated with the new
ones, and fitted to both; NDCG@10 (full ranking, without what was seen in either) is measured on the third part, with
``--part valid`` on the second. Seconds are processor seconds of the process, all threads together, so that other
programs on the machine do not count; the best of three updates around one fit. Means over seeds, which decide on split,
new interactions and training. `recipe` is what `tastespace.fit` gives: its update is compared with fitting its members
again with what was chosen, and with the whole search.
"""

from __future__ import annotations

import argparse
import copy
import time

import numpy as np

import tastespace as ts
from tastespace.models import create

SHARE = 0.05
TRIALS = 8  # of the recipe


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=("ml-100k", "steam-200k", "lastfm-2k", "anime"))
    parser.add_argument("--model", nargs="+", default=("dpcml",))
    parser.add_argument("--new", choices=("rows", "users"), default="rows")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--part", choices=("valid", "test"), default="test")
    parser.add_argument("--n-old", type=float, nargs="+", help="old interactions visited per new one, to compare")
    arguments = parser.parse_args()
    print("| data | model | new | fit s | update s | ratio | not updated | updated | fitted again | difference |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in arguments.data:
        for model in arguments.model:
            for n_old in arguments.n_old or (None,):
                rows = [run(name, model, arguments.new, seed, arguments.part, n_old) for seed in range(arguments.seeds)]
                print_row(name, model + ("" if n_old is None else f" n_old={n_old:g}"), rows)


def run(name, model_name, way, seed, part, n_old):
    """Times and NDCG@10 of one seed."""
    data = ts.synthetic.multi_interest(seed=0).interactions if name == "town" else ts.datasets.load(name)
    parts = ts.split.per_user(data, (0.7, 0.15, 0.15), seed=seed)
    whole, measured = parts[0], parts[1 if part == "valid" else 2]
    random = np.random.default_rng([seed, 1])
    is_new = random.random(whole.n_interactions) < SHARE
    if way == "users":
        is_new = (random.random(whole.n_users) < SHARE)[whole.row_of_each()]
    # Both have all ids, so that the same test items count; what has no old interaction is new to the model even so.
    old, new = whole.subset(~is_new), whole.subset(is_new)
    search = 0.0
    if model_name == "recipe":
        first, search = timed(lambda: ts.fit(old, seed=seed, trials=TRIALS))
        template = first.as_chosen()
    else:
        template = create(model_name)
        if "seed" in template.get_params():
            template.set_params(seed=seed)
        first = template.clone().fit(old)
    options = {} if n_old is None else {"n_old": n_old}
    update_seconds, fit_seconds = [], 0.0
    for turn in range(3):
        later, seconds = timed(lambda: copy.copy(first).partial_fit(new, progress=False, **options))
        update_seconds.append(seconds)
        if turn == 0:
            again, fit_seconds = timed(lambda: template.clone().fit(whole, progress=False))
    return {
        "new": new.n_interactions,
        "search": search,
        "fit": fit_seconds,
        "update": min(update_seconds),
        "figures": [figure(model, measured, whole) for model in (first, later, again)],
    }


def timed(make):
    """What a function gives, and the seconds that it took."""
    start = time.process_time()
    made = make()
    return made, time.process_time() - start


def figure(model, measured, seen):
    return ts.evaluate(model, measured, seen=seen, metrics=["NDCG@10"])["NDCG@10"]


def print_row(name, model, rows):
    fit, update, search = (float(np.mean([row[key] for row in rows])) for key in ("fit", "update", "search"))
    before, later, again = np.mean([row["figures"] for row in rows], axis=0)
    ratio = f"{update / fit:.3f}" + (f" ({update / search:.3f} of the search)" if search else "")
    print(
        f"| {name} | {model} | {np.mean([row['new'] for row in rows]):,.0f} | {fit:.1f} | {update:.2f} | {ratio} "
        f"| {before:.4f} | {later:.4f} | {again:.4f} | {100 * (later / again - 1):+.1f} % |",
        flush=True,
    )


if __name__ == "__main__":
    main()
