"""The default recipe against the best of its competitors: accuracy and recall of minority interests on real data.

    python benchmarks/tastes.py [--data NAME ...] [--models NAME ...] [--seeds N] [--out FILE]
    python benchmarks/tastes.py --table FILE

Each data set is split per user (60/20/20) with N seeds. The competitors EASE, as published and with powers of the
counts and dropout, ALS, BPR, itemKNN, CML and DPCML are fitted to the first part with a few settings each, the best by
NDCG@10 on the second part is fitted to both and measured on the third, protocol "full". `tastespace.fit`, without any
parameter, is given both parts together. What is in the first two parts is never in a list. Above 12,000 users and items
the setting of EASE is the one that does best with SparseEASE, its approximation by 200 neighbors per item, and EASE
itself is fitted once. The table has means over seeds, the recipe's advantage over EASE in percent with the p-value of a
paired t-test over users (values averaged over seeds), and the seconds that the recipe took.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import scipy.stats

import tastespace as ts
from tastespace.data.attributes import category_column
from tastespace.data.merge import concat
from tastespace.models import create

RECIPE = "tastespace.fit"
POWERS = "EASE, powers"
DATASETS = ("ml-100k", "ml-1m", "steam-200k", "lastfm-2k", "anime", "citeulike-a", "amazon-cds")
TRAINING = {"patience": 5, "validate_every": 2}
COMPETITORS = {
    "EASE": [("ease", {"regularization": value, **ts.EASE.paper_form()}) for value in (30.0, 100.0, 300.0, 1000.0)],
    POWERS: [
        ("ease", {"regularization": value, "dropout": dropout, "user_power": user, "item_power": item})
        for value in (15.0, 50.0, 130.0, 400.0)
        for dropout, user, item in ((0.5, -0.25, 0.2), (0.3, -0.4, 0.2), (0.5, -0.1, 0.0))
    ],
    "ALS": [
        ("als", {"alpha": a, "regularization": r, "dim": 128}) for a, r in ((2.0, 30.0), (8.0, 30.0), (32.0, 100.0))
    ],
    "BPR": [("bpr", {"regularization": value, **TRAINING}) for value in (0.01, 0.03)],
    "itemKNN": [("itemknn", {"shrink": value}) for value in (10.0, 100.0)],
    "CML": [("cml", {"n_negatives": value, **TRAINING}) for value in (10, 30)],
    "DPCML": [("dpcml", {"n_negatives": value, **TRAINING}) for value in (10, 30)],
}
# Users or items, whichever are fewer: above, one fit of EASE takes many minutes. Higher than MOST_FOR_COMPARISON of
# models/linear/ease.py, up to which the library tries EASE without being asked: a competitor may take its time here.
EASE_LIMIT = 12_000
MEASURED_USERS = 2_000  # for the choice of settings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATASETS)
    parser.add_argument("--models", nargs="+", default=(*COMPETITORS, RECIPE), choices=(*COMPETITORS, RECIPE))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("tastes.jsonl"), help="finished runs, which are not repeated")
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    arguments = parser.parse_args()
    if arguments.table is None:
        for seed in range(arguments.seeds):
            for name in arguments.data:
                run(name, seed, arguments.models, arguments.out)
    print_table(read(arguments.table or arguments.out))


def run(name, seed, models, out):
    """Fit and measure what is not in the file of finished runs yet."""
    done = {(row["data"], row["seed"], row["model"]) for row in read(out)}
    data = ts.datasets.load(name)
    wanted = [model for model in models if (name, seed, model) not in done]
    train, valid, test = ts.split.per_user(data, (0.6, 0.2, 0.2), seed=seed)
    both = concat(train, valid)
    metrics = ["NDCG@10", "R@20"]
    if name in ("ml-100k", "ml-1m", "steam-200k", "anime") and category_column(data.item_attributes) is not None:
        metrics.append("MinorityRecall@20")
    for title in wanted:
        start = time.perf_counter()
        if title == RECIPE:
            model = ts.fit(both)
        elif title in ("EASE", POWERS) and min(data.n_users, data.n_items) > EASE_LIMIT:
            model = large_ease(COMPETITORS[title], train, valid, both)
        else:
            model = chosen_setting(COMPETITORS[title], train, valid).fit(both, progress=False)
        seconds = time.perf_counter() - start
        chosen = model.recipe_["blend"] if title == RECIPE else repr(model)
        report = ts.evaluate(model, test, seen=both, metrics=metrics)
        row = {"data": name, "seed": seed, "model": title, "seconds": round(seconds, 1), "chosen": chosen}
        row |= {metric: report[metric] for metric in metrics}
        users = [str(user) for user in report.users]
        row["users"] = users
        row["per_user"] = {metric: [round(float(v), 6) for v in report.per_user[metric]] for metric in metrics}
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        figures = "  ".join(f"{metric} {report[metric]:.4f}" for metric in metrics)
        print(f"{name} seed {seed} {title:15} {figures}  {seconds:6.1f} s", flush=True)


def chosen_setting(settings, train, valid):
    """The model, not fitted, with the setting that does best on validation data."""
    users = np.flatnonzero(valid.user_counts > 0)
    chosen = np.random.default_rng(0).choice(users, min(len(users), MEASURED_USERS), replace=False)
    some = valid.subset(np.isin(valid.row_of_each(), chosen))
    found = []
    for name, parameters in settings:
        model = create(name, **parameters).fit(train, some, progress=False)
        found.append((ts.evaluate(model, some, seen=train, metrics=["NDCG@10"])["NDCG@10"], model))
    return max(found, key=lambda one: one[0])[1].as_chosen()


def large_ease(settings, train, valid, both):
    """EASE with the setting that does best with few neighbors per item."""
    sparse = [("sparse-ease", {"n_neighbors": 200, **parameters}) for _, parameters in settings]
    chosen = chosen_setting(sparse, train, valid).get_params()
    return create("ease", **{name: chosen[name] for name in settings[0][1]}).fit(both, progress=False)


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def print_table(rows):
    """Mean over seeds of every model, the best competitor in bold, and the recipe against EASE."""
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name]
        metrics = [m for m in ("NDCG@10", "R@20", "MinorityRecall@20") if m in own[0]]
        seeds = {row["seed"] for row in own}
        print(f"\n{name}, {len(seeds)} seeds\n\n| model | {' | '.join(metrics)} | seconds |")
        print("|" + " --- |" * (len(metrics) + 2))
        means = {}
        for model in dict.fromkeys(row["model"] for row in own):
            mine = [row for row in own if row["model"] == model]
            means[model] = {m: np.mean([row[m] for row in mine]) for m in metrics}
            spread = {m: np.std([row[m] for row in mine]) for m in metrics}
            cells = " | ".join(f"{means[model][m]:.4f} ± {spread[m]:.4f}" for m in metrics)
            print(f"| {model} | {cells} | {np.mean([row['seconds'] for row in mine]):.0f} |")
        if RECIPE in means and len(means) > 1:
            for against in ("EASE", "best"):
                print("| " + advantage(own, means, metrics, against) + " | |")


def advantage(rows, means, metrics, against):
    """One row: the recipe's difference to EASE, or to the best competitor of each metric, in percent."""
    cells = []
    for metric in metrics:
        others = [model for model in means if model != RECIPE]
        other = max(others, key=lambda model: means[model][metric]) if against == "best" else against
        if other not in means:
            cells.append("")
            continue
        gain = 100 * (means[RECIPE][metric] / means[other][metric] - 1)
        named = "" if against == "EASE" else f" {other}"
        cells.append(f"{gain:+.1f} % (p = {p_value(rows, other, metric):.1g}){named}")
    title = "against EASE" if against == "EASE" else "against the best other"
    return f"{title} | " + " | ".join(cells)


def p_value(rows, other, metric):
    """Paired t-test over users; a user's value is the mean over seeds."""
    values = {}
    for row in rows:
        if row["model"] in (RECIPE, other):
            for user, value in zip(row["users"], row["per_user"][metric], strict=True):
                values.setdefault(user, {}).setdefault(row["model"], []).append(value)
    pairs = [(np.nanmean(v[RECIPE]), np.nanmean(v[other])) for v in values.values() if len(v) == 2]
    pairs = np.array([pair for pair in pairs if not np.isnan(pair).any()])
    return scipy.stats.ttest_rel(pairs[:, 0], pairs[:, 1]).pvalue


if __name__ == "__main__":
    main()
