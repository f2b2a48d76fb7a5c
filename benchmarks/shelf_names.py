"""Whether shelf names are true, and whether near means near on the taste map: before and after, on real data.

    python benchmarks/shelf_names.py [--data NAME ...] [--users N] [--models FOLDER]

DPCML with 4 interests per user, else its defaults, and the default recipe (``fit(data, trials=6)``) are fitted to whole
data sets. For N users, drawn at random, shelves of 10 items are named by today's rule and by the former one: the one or
two categories with the largest p log(p / q) among past and recommended items.

Names: the share of a named shelf's items that belong to a category of the name, that share of all items of the catalog,
the share of shelves that are named by categories, and the share of users with two shelves of one name.

Maps: of the items recommended for an interest, the share whose nearest cross is that of their own interest; of the ten
items drawn nearest to a cross, among those new to the user, the share that is among the ten nearest to the interest in
the space; and the rank correlation, over all items, of the distance to the cross and the distance in the space. The
former map was the plane of the principal components of interests and past items. Users with one shelf are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.stats

import tastespace as ts
from tastespace.data.attributes import category_column, item_categories
from tastespace.plots.taste_map_layout import group_distances, taste_map_layout
from tastespace.recommend.interests import user_interests

DATASETS = ("ml-100k", "anime", "steam-200k")
SHELF, ON_MAP, NEAREST = 10, 8, 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATASETS)
    parser.add_argument("--users", type=int, default=150)
    parser.add_argument("--models", type=Path, help="fitted models are kept here and not fitted again")
    arguments = parser.parse_args()
    names, maps = [], []
    for name in arguments.data:
        data = ts.datasets.load(name)
        models = {
            "DPCML": lambda data=data: ts.DPCML(n_interests=4, seed=0).fit(data, progress=False),
            "recipe": lambda data=data: ts.fit(data, trials=6, seed=0, progress=False),
        }
        chosen = np.random.default_rng(0).choice(data.n_users, min(data.n_users, arguments.users), replace=False)
        for title, fit in models.items():
            model = fitted(fit, None if arguments.models is None else arguments.models / f"{name}.{title.lower()}")
            names.append(f"| {name} | {title} | " + " | ".join(measure_names(model, chosen)) + " |")
            maps.append(f"| {name} | {title} | " + " | ".join(measure_maps(model, chosen)) + " |")
            print(names[-1], maps[-1], sep="\n", flush=True)
    print("\nbefore -> after\n\n| data set | model | items that belong to the name | of the catalog"
          " | shelves with a category name | users with two shelves of one name |\n"
          + "| --- " * 6 + "|", *names, sep="\n")  # fmt: skip
    print("\nbefore -> after\n\n| data set | model | nearest cross is the own | ten nearest | rank correlation |\n"
          + "| --- " * 5 + "|", *maps, sep="\n")  # fmt: skip


def fitted(fit, path):
    if path is not None and path.exists():
        return ts.load(path)
    model = fit()
    if path is not None:
        model.save(path)
    return model


# ---- names -------------------------------------------------------------------------------------------------


def measure_names(model, users):
    train = model.train_
    categories = item_categories(train.item_attributes[category_column(train.item_attributes)])
    table, base = categories.table(), shares_of_interactions(train, categories.table())
    before, after = [], []
    for row in users:
        user = train.users[int(row)]
        shelves = list(model.shelves(user, SHELF))
        view = user_interests(model, user, "shelves")
        groups = [list(shelf.interests) for shelf in shelves]
        best = view.index.split_top_k(view.row, groups, [20] * len(groups))
        past = [view.past_of(group) for group in groups]
        old = [former_label(np.concatenate([p, rows]), table, base) for p, (rows, _) in zip(past, best, strict=True)]
        like = [tuple(train.items.take(rows[:2]).to_list()) for rows in past]
        own = [train.items.index_of(shelf.items) for shelf in shelves]
        before.append((own, old, [label or titles for label, titles in zip(old, like, strict=True)]))
        now = [
            () if s.label is None else tuple(categories.names.index(c) for c in s.label.split(", ")) for s in shelves
        ]
        after.append((own, now, [shelf.name for shelf in shelves]))
    return [f"{a} -> {b}" for a, b in zip(summary(before, table), summary(after, table), strict=True)]


def shares_of_interactions(train, table):
    return train.item_counts @ table / train.item_counts.sum()


def former_label(rows, table, base):
    """Numbers of the categories in the former name."""
    share = table[rows].mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(share > base, share * np.log(share / np.maximum(base, 1e-6)), 0.0)
    return tuple(int(c) for c in np.argsort(-gain, kind="stable")[:2] if gain[c] > 0 and share[c] >= 0.2)


def summary(people, table):
    shelves = [pair for own, labels, _ in people for pair in zip(own, labels, strict=True)]
    named = [(rows, label) for rows, label in shelves if label]
    fits = np.mean([table[rows][:, label].any(axis=1).mean() for rows, label in named])
    catalog = np.mean([table[:, label].any(axis=1).mean() for _, label in named])
    twice = np.mean([len(set(names)) < len(names) for _, _, names in people])
    return [f"{fits:.2f}", f"{catalog:.2f}", f"{len(named) / len(shelves):.2f}", f"{twice:.2f}"]


# ---- maps --------------------------------------------------------------------------------------------------


def measure_maps(model, users):
    train, before, after = model.train_, [], []
    for row in users:
        user = train.users[int(row)]
        view, shelves = user_interests(model, user, "map"), list(model.shelves(user, ON_MAP))
        if len(shelves) < 2:
            continue
        groups = [list(shelf.interests) for shelf in shelves]
        shown = [train.items.index_of(shelf.items) for shelf in shelves]
        true = group_distances(view, groups)
        vectors, items = view.index.vectors_of(view.row), view.index.item_vectors
        plane = former_plane(items[view.past], vectors)
        places, all_crosses = plane(items), plane(vectors)
        # The former map drew each interest of a group, of which the nearest counts.
        old = np.stack([distances(all_crosses[group], places).min(axis=0) for group in groups])
        layout = taste_map_layout(view, groups, shown)
        new = distances(layout.crosses, layout.items)
        before += figures(old, true, shown, view.past)
        after += figures(new, true, shown, view.past)
    return [f"{a:.2f} -> {b:.2f}" for a, b in zip(np.mean(before, axis=0), np.mean(after, axis=0), strict=True)]


def former_plane(past, interests):
    points = np.vstack([past, interests]).astype(np.float64)
    weights = np.repeat([1.0 / max(1, len(past)), 1.0 / len(interests)], [len(past), len(interests)])
    middle = np.average(points, axis=0, weights=weights)
    _, _, directions = np.linalg.svd((points - middle) * np.sqrt(weights)[:, None], full_matrices=False)
    return lambda vectors: (vectors - middle) @ directions[:2].T


def distances(crosses, places):
    return np.linalg.norm(crosses[:, None] - places[None], axis=2)


def figures(drawn, true, shown, past):
    """For each interest: own cross nearest, ten nearest, rank correlation."""
    new_to_user = np.setdiff1d(np.arange(drawn.shape[1]), past)
    found = []
    for at, rows in enumerate(shown):
        own = (drawn[:, rows].argmin(axis=0) == at).mean()
        nearest, truth = (new_to_user[np.argsort(d[at, new_to_user])[:NEAREST]] for d in (drawn, true))
        rank = scipy.stats.spearmanr(drawn[at], true[at]).statistic
        found.append((own, len(np.intersect1d(nearest, truth)) / NEAREST, rank))
    return found


if __name__ == "__main__":
    main()
