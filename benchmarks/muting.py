"""How much of a muted shelf comes back: on other shelves, and in lists of every mix.

    TASTESPACE_DATA=<folder of the data sets> python benchmarks/muting.py [--dataset ml-100k] [--users 300]

Of each user the shelves are taken, all interests of the first shelf are muted, and shelves and lists are made again.
Counted is the share of the items of the first shelf that are in them. "only the first number" mutes the one number of a
shelf that several interests share. Models: DPCML, a blend whose interests come from its DPCML, and a folded-in user.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import tastespace as ts
from tastespace.ranking.scoring import ScoringIndex

BEFORE = "vectors left out, as it once was"
MIXES: dict[str, dict[str, Any]] = {
    "nearest": {},
    "scaled": {"mix": "scaled"},
    "proportional": {"mix": "proportional"},
    "proportional 0.3": {"mix": "proportional", "diversity": 0.3},
    "calibrated": {"mix": "calibrated"},
    "calibrated by interest": {"mix": "calibrated", "column": "interest"},
}


def returning(model: Any, users: list[Any], k: int, mixes: list[str]) -> dict[str, float]:
    """Share of the items of the first shelf that come back, by where."""
    back: dict[str, int] = defaultdict(int)
    total = shared = 0
    for user in users:
        shelves = model.shelves(user, k)
        if len(shelves) < 2:
            continue
        first = shelves[0]
        gone = set(first.items)
        total += len(gone)
        shared += len(first.interests) > 1
        again = model.shelves(user, k, mute=first.interests)
        back["shelves"] += len(gone & {item for shelf in again for item in shelf.items})
        # As if the muted vectors did not exist: items come back through the interest that is second nearest.
        others = [x for x in range(len(model.interests(user))) if x not in first.interests]
        row = int(model.train_.users.index_of([user])[0])
        without = ScoringIndex(model, 1).interest_top_k(row, 100, [others])
        back[BEFORE] += len(gone & set(model.train_.items.take(without.rows).to_list()))
        partly = model.shelves(user, k, mute=[first.interest])
        back["shelves, only the first number"] += len(gone & {item for shelf in partly for item in shelf.items})
        for name in mixes:
            found = model.recommend(user, k=100, mute=first.interests, **MIXES[name])
            back[f"recommend, {name}"] += len(gone & set(found["item"].to_list()))
    print(f"  {len(users)} users, {shared} with several interests on the first shelf, {total} items")
    names = [BEFORE, "shelves", "shelves, only the first number", *(f"recommend, {name}" for name in mixes)]
    return {name: back[name] / total for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="ml-100k")
    parser.add_argument("--users", type=int, default=300)
    arguments = parser.parse_args()
    data = ts.datasets.load(arguments.dataset)
    dpcml = ts.DPCML(dim=32, n_interests=4, epochs=30, seed=0).fit(data, progress=False)
    blend = ts.Blend.of([dpcml, ts.EASE().fit(data, progress=False)], weights=[0.5, 0.5])
    users = data.users.series.to_list()[: arguments.users]
    folded = dpcml.fold_in({user: data.items_of(user) for user in users[:100]})
    for name, model, mine, mixes in (
        ("DPCML", dpcml, users, list(MIXES)),
        ("Blend of DPCML and EASE", blend, users, [name for name in MIXES if name != "scaled"]),
        ("DPCML, folded-in users", folded, users[:100], list(MIXES)),
    ):
        print(name)
        for where, share in returning(model, mine, 10, mixes).items():
            print(f"  {where:35} {100 * share:5.1f} %")


if __name__ == "__main__":
    main()
