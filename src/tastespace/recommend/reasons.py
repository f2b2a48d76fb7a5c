"""Which past items stand behind each item of a user's list, for whole lists at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.computed_once import computed_once
from tastespace.recommend.closeness import item_directions
from tastespace.recommend.scoring import ScoringIndex

Reasons = list[tuple[NDArray[np.int32], NDArray[np.float64]]]
"""For each item rows of past items, the most important first, and a number that says how much each matters."""


def reasons(index: ScoringIndex, row: int, items: NDArray[np.integer[Any]], k: int = 3) -> Reasons:
    """The k past items of the user at this row that matter most for each of these items.

    From vectors: the nearest past items, each with 1 / (1 + squared distance), or with the cosine where vectors are
    compared by inner products. Without vectors: the past items that add most to the score, each with its share of what
    all past items add. Empty where the model says nothing.

    >>> from tastespace import EASE, synthetic
    >>> model = EASE().fit(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
    >>> [len(rows) for rows, _ in reasons(ScoringIndex(model), row=7, items=np.array([3, 5]), k=2)]
    [2, 2]
    """
    past = index.seen(row)
    nothing = past[:0], np.empty(0)
    if not len(past) or not len(items):
        return [nothing] * len(items)
    if index.interest_space is None:
        return [_by_evidence(index, row, int(item), past, k) for item in items]
    directions = item_directions(index.interest_space)
    values = directions[items] @ directions[past].T
    if index.has_distances:
        squares = computed_once(directions, "squares", lambda: np.einsum("ij,ij->i", directions, directions))
        values = 2 * values - squares[items][:, None] - squares[past]
    lists = np.arange(len(items))[:, None]
    if len(past) > k:
        best = np.argpartition(-values, k - 1, axis=1)[:, :k]
        best = best[lists, np.argsort(-values[lists, best], axis=1)]
    else:
        best = np.argsort(-values, axis=1)
    chosen = values[lists, best].astype(np.float64)
    if index.has_distances:
        chosen = 1 / (1 + np.maximum(-chosen, 0))
    return list(zip(past[best], chosen, strict=True))


def _by_evidence(
    index: ScoringIndex, row: int, item: int, past: NDArray[np.int32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    found = index.model.evidence(row, item)
    if found is None:
        return past[:0], np.empty(0)
    raising = np.maximum(found, 0).astype(np.float64)
    best = np.argsort(-raising, kind="stable")[:k]
    best = best[raising[best] > 0]
    return past[best], raising[best] / max(float(raising.sum()), 1e-300)
