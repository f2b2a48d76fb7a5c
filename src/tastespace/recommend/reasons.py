"""Which past items stand behind each item of a user's list, for whole lists at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.errors import ParameterError
from tastespace.recommend.closeness import item_directions
from tastespace.recommend.scoring import ScoringIndex

_DECIMALS = 6  # of vectors in single precision; short numbers are also written faster

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
    found, weights = list_reasons(index, np.full(len(items), row, dtype=np.int32), items, min(k, len(past)))
    return list(zip(found, weights, strict=True))


def list_reasons(
    index: ScoringIndex, users: NDArray[np.int32], items: NDArray[np.integer[Any]], k: int = 3
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """From vectors, for items of many lists at once: item ``i`` is on the list of the user at row ``users[i]``.

    Gives rows of past items, -1 where there are fewer than k, and how much each matters; both ``(len(items), k)``.
    """
    space, train = index.interest_space, index.train
    if space is None:
        raise ParameterError("list_reasons compares items by vectors, and this model has none. Use reasons.")
    past, closeness = _native.past_reasons(
        item_directions(space), index.has_distances, train.offsets, train.indices, users,
        np.ascontiguousarray(items, dtype=np.int32), k,
    )  # fmt: skip
    weights = closeness.astype(np.float64)
    weights = 1 / (1 + np.maximum(-weights, 0)) if index.has_distances else weights
    return past, np.round(weights, _DECIMALS)


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
