"""A new model against the one in use, on the newest interactions, which neither has seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.data.merge import pairs_of
from tastespace.evaluation import evaluate
from tastespace.models.base import Recommender


@dataclass(frozen=True)
class Comparison:
    """One metric of two models on the same interactions."""

    metric: str
    before: float
    """Of the model in use."""
    after: float
    """Of the new one."""
    n_users: int

    def is_worse(self, allowed: float) -> bool:
        """Return True where the new model loses more than this share of the metric.

        >>> Comparison("NDCG@10", 0.2, 0.19, 500).is_worse(0.1), Comparison("NDCG@10", 0.2, 0.17, 500).is_worse(0.1)
        (False, True)
        """
        return self.after < self.before * (1 - allowed)

    def __str__(self) -> str:
        change = f", {100 * (self.after / self.before - 1):+.1f} %" if self.before else ""
        return f"{self.metric} {self.after:.4f}, before {self.before:.4f}{change} ({self.n_users:,} users)"


def without_newest(
    data: Interactions, known: Interactions, share: float = 0.5, seed: int = 0
) -> tuple[Interactions, Interactions]:
    """Split off the newest share of the pairs that are not in ``known``: the rest, and those.

    The newest by time, where there are times; else any of them.

    >>> import polars as pl
    >>> def of(items):
    ...     frame = pl.DataFrame({"user": 1, "item": items, "t": items})
    ...     return Interactions.from_frame(frame, timestamp="t", part=True)
    >>> rest, newest = without_newest(of([1, 2, 3, 4, 5]), of([1]))
    >>> rest.items_of(1), newest.items_of(1)
    ([1, 2, 3], [4, 5])
    """
    is_new = ~_is_in(data, known)
    at = np.flatnonzero(is_new)
    if data.timestamps is None:
        order = np.random.default_rng(seed).permutation(len(at))
    else:
        order = np.argsort(data.timestamps[at], kind="stable")
    is_newest = np.zeros(data.n_interactions, dtype=bool)
    is_newest[at[order[len(at) - int(share * len(at)) :]]] = True
    return data.subset(~is_newest), data.subset(is_newest)


def _is_in(data: Interactions, known: Interactions) -> NDArray[np.bool_]:
    numbered = pairs_of(data, known)
    width = data.n_items
    both = [one.row_of_each().astype(np.int64) * width + one.indices for one in (data, numbered)]
    return np.isin(both[0], both[1])


def compared(
    before: Recommender, after: Recommender, newest: Interactions, rest: Interactions, metric: str, threads: int = 0
) -> Comparison | None:
    """Measure both models on the newest interactions of users and items that both know; None where there are none.

    What the users had before, in the data of the model in use or in ``rest``, is recommended by neither.
    """
    keep = np.ones(newest.n_interactions, dtype=bool)
    for train in (before.train_, after.train_):
        keep &= (train.users.find(newest.users.series) >= 0)[newest.row_of_each()]
        keep &= (train.items.find(newest.items.series) >= 0)[newest.indices]
    wanted = newest.subset(keep)
    if not wanted.n_interactions:
        return None
    seen = [before.train_, rest] if rest.n_interactions else [before.train_]
    both = (before, after)
    reports = [evaluate(one, wanted, seen=seen, metrics=[metric], on_unknown="skip", threads=threads) for one in both]
    label = next(iter(reports[0].metrics))
    return Comparison(label, reports[0][label], reports[1][label], min(one.n_users[label] for one in reports))
