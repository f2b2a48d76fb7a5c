"""Accuracy against recall of minority interests: scores by taste beside EASE with a re-ranker on top.

    python benchmarks/taste_curves.py [--data NAME ...] [--users N] [--out FILE]
    python benchmarks/taste_curves.py --table FILE
    python benchmarks/taste_curves.py --draw FILE PICTURE

Each data set is split per user (60/20/20). EASE has its default form and the best of three regularizations by NDCG@10
on the second part. The blend has EASE with that regularization, SparseEASE and CML, with weights chosen there. Both are
fitted again to the first two parts and measured on the third, for at most N users, protocol "full".

Rivals: EASE with its best 100 items re-ranked by calibration to the categories of the history (Steck 2018), by maximal
marginal relevance and by a determinantal point process, for growing weights; and the plain blend (focus, lift and
category_balance 0) with calibration, which shows what the parts by taste add to the blend. The blend: a point for each
focus, lift and category_balance. `chosen` marks the one with the best recall of minority interests on the second part
among those with at least the NDCG@10 of EASE there.

Columns: NDCG@10, R@20 and MinorityRecall@20 of the test users. `covered` is the share of a user's tastes in the first
20 places: for every method the tastes of the plain blend, which also says to which of them an item belongs. `true` is
the share of the first 20 items whose two strongest past items, by `evidence`, belong to the taste that the list names
for the item: no such name comes with the rivals' lists. `true` and `covered` are of 200 users. `ratio` is the recall of
minority interests divided by the best of calibrated EASE at that NDCG@10 or more, between two of its points by
interpolation; ">" where no calibrated list is as accurate: then the divisor is its most accurate one's.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import tastespace as ts
from tastespace.data.merge import concat
from tastespace.evaluation import shelf_checks
from tastespace.models import CML, EASE, Blend, SparseEASE
from tastespace.ranking.scoring import ScoringIndex
from tastespace.recommend.rerank.reranked import Reranked

DATASETS = ("ml-100k", "steam-200k", "ml-1m", "anime")
FACTORS = (0.4, 1.0, 2.5)  # of the default regularization
FOCUS, LIFTS, BALANCES = (0.0, 0.3, 0.6), (0.0, 0.1, 0.2, 0.3), (0.0, 0.3)
WEIGHTS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9)
RIVALS = {"calibrated": "EASE + calibration", "mmr": "EASE + MMR", "dpp": "EASE + DPP"}
CALIBRATED_BLEND = "plain blend + calibration"
METRICS = ("NDCG@10", "R@20", "MinorityRecall@20")
LOOKED_AT = 200  # users whose reasons and tastes are counted
K = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATASETS)
    parser.add_argument("--users", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("taste_curves.jsonl"), help="points are added to it")
    parser.add_argument("--table", type=Path, help="only print the tables of this file")
    parser.add_argument("--draw", nargs=2, type=Path, help="only draw the curves of a file")
    arguments = parser.parse_args()
    if arguments.draw:
        draw(read(arguments.draw[0]), arguments.draw[1])
        return
    if arguments.table is None:
        for name in arguments.data:
            with arguments.out.open("a", encoding="utf-8") as out:
                run(name, arguments, out)
    print_tables(read(arguments.table or arguments.out))


def run(name: str, arguments: argparse.Namespace, out: Any) -> None:
    """Measure all points of one data set and write them, one per line."""
    threads = arguments.threads
    data = ts.datasets.load(name)
    train, valid, test = ts.split.per_user(data, (0.6, 0.2, 0.2), seed=arguments.seed)
    valid_some, test_some = (sample(part, arguments.users) for part in (valid, test))

    ease = chosen_ease(train, valid_some, threads)
    members = [ease, SparseEASE(threads=threads), CML(patience=5, validate_every=2, threads=threads)]
    members[1:] = [member.fit(train, valid, progress=False) for member in members[1:]]
    first = Blend.of(members, valid=valid_some, threads=threads)
    weights = [float(weight) for weight in first.weights_]
    on_valid = {"seen": train, "metrics": METRICS, "threads": threads}
    floor = ts.evaluate(ease, valid_some, **on_valid)["NDCG@10"]
    choice: dict[tuple[float, float, float], float] = {}
    for point in points():
        report = ts.evaluate(blend_of(members, weights, point, threads), valid_some, **on_valid)
        if report["NDCG@10"] >= floor:
            choice[point] = report["MinorityRecall@20"]
    chosen = max(choice, key=lambda point: choice[point]) if choice else None

    both = concat(train, valid)
    members = [member.as_chosen().fit(both, progress=False) for member in members]
    plain = blend_of(members, weights, (0.0, 0.0, 0.0), threads)
    looked_at = users_of(test_some)[:LOOKED_AT]
    yardstick = ScoringIndex(plain, threads)
    common = {"data": name, "users": int((test_some.user_counts > 0).sum()), "weights": weights}
    common["regularization"] = float(members[0].regularization)

    def write(method: str, setting: Any, model: Any, **more: Any) -> None:
        report = ts.evaluate(model, test_some, seen=both, metrics=METRICS, threads=threads)
        row = common | {"method": method, "setting": setting, **{metric: report[metric] for metric in METRICS}}
        row["covered"] = covered(model, yardstick, looked_at)
        print(json.dumps(rounded(row | more)), file=out, flush=True)

    write("EASE", None, members[0])
    for how, method in RIVALS.items():
        for weight in WEIGHTS:
            write(method, weight, Reranked.around(members[0], how=how, weight=weight))
    for weight in WEIGHTS:
        write(CALIBRATED_BLEND, weight, Reranked.around(plain, how="calibrated", weight=weight))
    for point in points():
        model = blend_of(members, weights, point, threads)
        more = {"true": truth(model, looked_at), "chosen": point == chosen}
        if point in ((0.0, 0.0, 0.0), chosen):
            shelves = shelf_checks(model, both.users.take(looked_at).to_list(), k=10)
            more["shelf_true"] = float(shelves["true"].sum() / shelves["items"].sum())
            more["shelf_stable"] = float(shelves["stable"].mean())
            more["tastes"] = float(model.tastes().counts[both.user_counts > 0].mean())
        write("blend", point, model, **more)


def rounded(value: Any) -> Any:
    """The same with six decimals."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return round(value, 6) if isinstance(value, float) else value


def points() -> list[tuple[float, float, float]]:
    """Every (focus, lift, category_balance)."""
    return [(focus, lift, balance) for balance in BALANCES for focus in FOCUS for lift in LIFTS]


def blend_of(members: Any, weights: list[float], point: tuple[float, float, float], threads: int) -> Blend:
    focus, lift, balance = point
    return Blend.of(members, weights, focus=focus, lift=lift, category_balance=balance, threads=threads)


def chosen_ease(train: ts.Interactions, valid: ts.Interactions, threads: int) -> EASE:
    """EASE with the regularization that does best on validation data, fitted to the training data."""
    default = EASE(threads=threads).fit(train, progress=False).regularization_
    models = [EASE(factor * default, threads=threads).fit(train, progress=False) for factor in FACTORS]
    figures = [ts.evaluate(one, valid, seen=train, metrics="NDCG@10", threads=threads)["NDCG@10"] for one in models]
    return models[int(np.argmax(figures))]


def users_of(part: ts.Interactions) -> np.ndarray:
    return np.flatnonzero(part.user_counts > 0).astype(np.int32)


def sample(part: ts.Interactions, n: int) -> ts.Interactions:
    """The interactions of at most n users."""
    users = users_of(part)
    chosen = np.random.default_rng(0).choice(users, min(n, len(users)), replace=False)
    return part.subset(np.isin(part.row_of_each(), chosen))


def covered(model: Any, yardstick: ScoringIndex, users: np.ndarray) -> float:
    """Mean share of the users' tastes that one of the first 20 items belongs to."""
    top, _ = model.recommend_indices(users, k=K)
    assert yardstick.tastes is not None
    owner, items = np.repeat(users, K), top.ravel()
    kept = items >= 0
    of = yardstick.pair_interests(owner[kept], items[kept])[1]
    most = int(yardstick.tastes.counts.max())
    found = np.unique(owner[kept].astype(np.int64) * most + of) // most
    shares = np.bincount(found, minlength=len(yardstick.tastes.counts))[users] / yardstick.tastes.counts[users]
    return float(np.mean(shares))


def truth(model: Blend, users: np.ndarray) -> float:
    """Share of the first 20 items whose two strongest past items belong to the taste that the list names."""
    train, tastes, true = model.train_, model.tastes(), []
    lists = model.recommend(train.users.take(users).to_list(), k=K).partition_by("user", maintain_order=True)
    for user, listed in zip(users.tolist(), lists, strict=True):
        evidence = model.evidence(user, train.items.index_of(listed["item"].to_list()))
        strongest = np.argsort(-evidence, axis=0, kind="stable")[:2]
        true.append((tastes.of_user(user)[strongest] == listed["interest"].to_numpy()).all(axis=0).mean())
    return float(np.mean(true))


# ---- tables and picture ----------------------------------------------------------------------------------------


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def best_at(curve: list[dict[str, Any]], ndcg: float) -> tuple[float, bool]:
    """Recall of minority interests that a method has at this NDCG@10 or more; whether it reaches that accuracy.

    Points that another one beats in both are left out; between two of the others the line counts.
    """
    front: list[tuple[float, float]] = []
    for row in sorted(curve, key=lambda row: (-row["NDCG@10"], -row["MinorityRecall@20"])):
        if not front or row["MinorityRecall@20"] > front[-1][1]:
            front.append((row["NDCG@10"], row["MinorityRecall@20"]))
    accuracy, minority = zip(*reversed(front), strict=True)
    return float(np.interp(ndcg, accuracy, minority)), ndcg <= accuracy[-1]


def ratio(row: dict[str, Any], own: list[dict[str, Any]]) -> str:
    """Recall of minority interests divided by that of calibrated EASE at equal NDCG@10."""
    rival = [one for one in own if one["method"] in ("EASE", RIVALS["calibrated"])]
    minority, reached = best_at(rival, row["NDCG@10"])
    return f"{'' if reached else '> '}{row['MinorityRecall@20'] / minority:.3f}"


def print_tables(rows: list[dict[str, Any]]) -> None:
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name]
        weights = ", ".join(f"{weight:.2f}" for weight in own[0]["weights"])
        print(
            f"\n{name}, {own[0]['users']:,} users, EASE(regularization={own[0]['regularization']:.0f}), "
            f"weights of EASE, SparseEASE and CML {weights}\n\n"
            "| method | setting | NDCG@10 | R@20 | MinorityRecall@20 | covered | true | ratio |\n"
            "| --- | --- | --- | --- | --- | --- | --- | --- |"
        )
        for row in own:
            setting = row["setting"]
            if row["method"] == "blend":
                setting = "focus {}, lift {}, balance {}".format(*setting) + (", chosen" if row["chosen"] else "")
            figures = " | ".join(f"{row[metric]:.4f}" for metric in (*METRICS, "covered"))
            true = f"{row['true']:.3f}" if "true" in row else ""
            print(f"| {row['method']} | {setting or ''} | {figures} | {true} | {ratio(row, own)} |")
        for row in own:
            if "shelf_true" in row:
                print(
                    f"\nShelves of 10, focus {row['setting'][0]}, lift {row['setting'][1]}, balance "
                    f"{row['setting'][2]}: reasons true for {100 * row['shelf_true']:.1f} % of the items, names equal "
                    f"for {100 * row['shelf_stable']:.1f} % of the shelves, {row['tastes']:.2f} tastes per user."
                )


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """A panel for each data set: NDCG@10 across, recall of minority interests up."""
    from tastespace.plots.canvas import FAINT, INK, QUIET, color, new_figure, save_figure

    names = list(dict.fromkeys(row["data"] for row in rows))
    figure = new_figure(8.4, 3.7)
    width = 0.93 / len(names)
    for at, name in enumerate(names):
        axes = figure.add_axes((0.07 + at * width, 0.29, width - 0.07, 0.62))
        own = [row for row in rows if row["data"] == name]
        base = next(row for row in own if row["method"] == "EASE")
        least = 0.9 * base["NDCG@10"]  # what costs more is of no use to anybody
        start = next(row for row in own if row["method"] == "blend")
        for number, method in enumerate((*RIVALS.values(), CALIBRATED_BLEND)):
            first = start if method == CALIBRATED_BLEND else base
            curve = [first, *(row for row in own if row["method"] == method)]
            curve = [row for row in curve if row["NDCG@10"] >= least]
            across, up = ([row[metric] for row in curve] for metric in ("NDCG@10", "MinorityRecall@20"))
            axes.plot(across, up, color=color(number + 1), marker="o", markersize=3, linewidth=1.2, label=method)
        blend = [row for row in own if row["method"] == "blend" and row["NDCG@10"] >= least]
        for balance, face in ((0.0, color(0)), (0.3, "white")):
            part = [row for row in blend if row["setting"][2] == balance]
            across, up = ([row[metric] for row in part] for metric in ("NDCG@10", "MinorityRecall@20"))
            label = "scores by taste" + (", with category_balance" if balance else "")
            axes.scatter(across, up, s=17, facecolors=face, edgecolors=color(0), linewidths=0.9, label=label, zorder=3)
        for row in (row for row in own if row.get("chosen")):
            at_chosen = row["NDCG@10"], row["MinorityRecall@20"]
            axes.scatter(*at_chosen, s=110, facecolors="none", edgecolors=INK, linewidths=1.1, zorder=4)
        axes.set_title(name, fontsize=10, loc="left", color=INK)
        axes.set_xlabel("NDCG@10", fontsize=8.5, color=INK)
        if at == 0:
            axes.set_ylabel("MinorityRecall@20", fontsize=8.5, color=INK)
        axes.tick_params(labelsize=8, colors=QUIET)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(FAINT)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=3, frameon=False, fontsize=8)
    save_figure(figure, path)


if __name__ == "__main__":
    main()
