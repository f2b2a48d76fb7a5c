"""The split as Parquet files, and one evaluator for the lists of all libraries."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl

import tastespace as ts
from tastespace.data.merge import concat
from tastespace.models import Recommender

METRICS = ("NDCG@10", "R@20", "MinorityRecall@20", "Coverage@20")
K = 20


@lru_cache(maxsize=1)
def parts(name: str):
    """Training, validation and test part of a data set."""
    return ts.split.per_user(ts.datasets.load(name), (0.6, 0.2, 0.2), seed=0)


def exchange(name: str, folder: Path) -> None:
    """Write what a library may see, users and items as numbers: train.parquet, valid.parquet, sizes.json."""
    if (folder / "sizes.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    train, valid, _ = parts(name)
    for title, part in (("train", train), ("valid", valid)):
        columns = {"user": part.row_of_each().astype(np.int32), "item": part.indices.astype(np.int32)}
        pl.DataFrame(columns).write_parquet(folder / f"{title}.parquet")
    (folder / "sizes.json").write_text(json.dumps({"users": train.n_users, "items": train.n_items}))


class GivenLists(Recommender):
    """Lists that another library made, as a model: the listed items in their order, then all others.

    Where a list is too short, what fills it up must not be a hit: a user's test items come last.
    """

    def __init__(self, known, test, lists: pl.DataFrame) -> None:
        self.known, self.test, self.lists = known, test, lists
        self.train_, self.valid_ = known, None
        ordered = lists.sort("user", "score", descending=[False, True], maintain_order=True)
        self._items = ordered["item"].to_numpy()
        self._first = np.searchsorted(ordered["user"].to_numpy(), np.arange(known.n_users + 1))

    def __repr__(self) -> str:
        return f"GivenLists({self.lists.height:,} rows)"

    def _fit(self, train, valid, progress) -> None:
        """There is nothing to learn."""

    def score_block(self, users):
        """K, K - 1, ... for the items of a list, 0 for others, -1 for a user's test items outside of the list."""
        scores = np.zeros((len(users), self.train_.n_items), dtype=np.float32)
        for row, user in enumerate(users):
            scores[row, self.test.indices[self.test.offsets[user] : self.test.offsets[user + 1]]] = -1.0
            own = self._items[self._first[user] : self._first[user + 1]][:K]
            scores[row, own] = K - np.arange(len(own))
        return scores


def measure_lists(name: str, file: Path) -> dict[str, float]:
    """Metrics of the lists in a Parquet file with the columns user, item, score."""
    train, valid, test = parts(name)
    known = concat(train, valid)
    lists = pl.read_parquet(file)
    seen = known.matrix
    repeated = lists.height - lists.unique(["user", "item"]).height
    known_items = np.asarray(seen[lists["user"].to_numpy(), lists["item"].to_numpy()]).sum()
    if repeated or known_items:
        raise SystemExit(f"{file.name}: {repeated} items listed twice, {known_items:.0f} that the user already has.")
    report = ts.evaluate(GivenLists(known, test, lists), test, seen=known, metrics=list(METRICS), categories="genres")
    people = int((known.user_counts > 0).sum())
    short = people - int((lists.group_by("user").len()["len"] >= K).sum())
    return {metric: round(report[metric], 5) for metric in METRICS} | {"short_lists": short}
