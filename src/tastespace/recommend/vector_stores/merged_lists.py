"""One list from the lists of several vectors: what all vector stores share.

The best k items by the nearest of a user's vectors lie in the union of the best k of each vector, so plain searches and
a merge give the ranking of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Candidates(NamedTuple):
    """What searches have found: an item may be there for each vector of the user."""

    numbers: NDArray[np.int64]
    """Number of the item in the store, by which ties are broken, shape ``(n,)``."""
    items: Sequence[Any]
    """Its id."""
    scores: NDArray[np.float64]
    """Minus the squared distance, or the inner product."""
    interests: NDArray[np.int64]
    """Which of the user's vectors the score belongs to."""
    bound: float = -np.inf
    """No item that is not here has a larger score; minus infinity where all items are here."""


class MergedList(NamedTuple):
    """Items by their best score."""

    items: list[Any]
    scores: NDArray[np.float64]
    interests: NDArray[np.int64]


def merged_list(found: Candidates, k: int, seen: Collection[Any] = ()) -> tuple[MergedList, bool]:
    """The best k items by the best score of each, and the vector that gives it; items in ``seen`` are left out.

    The second value says whether the list is certain: false where items that were not found might tie with its last.
    Ties are broken by the item's number, then by the interest's.

    >>> numbers, scores, interests = np.array([3, 1, 1, 2]), np.array([-1.0, -2.0, -0.5, -3.0]), np.array([0, 0, 1, 1])
    >>> found, certain = merged_list(Candidates(numbers, ["c", "a", "a", "b"], scores, interests, -3.0), 2)
    >>> found.items, found.interests.tolist(), certain
    (['a', 'c'], [1, 0], True)
    """
    kept = np.flatnonzero([item not in seen for item in found.items])
    order = kept[np.lexsort((found.interests[kept], found.numbers[kept], -found.scores[kept]))]
    first = np.sort(np.unique(found.numbers[order], return_index=True)[1])
    best = order[first][:k]
    scores = found.scores[best]
    certain = found.bound == -np.inf or (len(best) == k and bool(scores[-1] > found.bound))
    return MergedList([found.items[at] for at in best], scores, found.interests[best]), certain


def candidates_of(
    lists: Sequence[tuple[Sequence[int], Sequence[Any], Sequence[float]]], asked: int, n_items: int
) -> Candidates:
    """The lists of several vectors (numbers, ids, scores, best first) as one; each was asked for ``asked`` items."""
    numbers = np.concatenate([np.asarray(one[0], dtype=np.int64) for one in lists])
    items = [item for one in lists for item in one[1]]
    scores = [np.asarray(one[2], dtype=np.float64) for one in lists]
    interests = np.repeat(np.arange(len(lists)), [len(one) for one in scores])
    bound = -np.inf if asked >= n_items else max(float(one.min()) for one in scores)
    return Candidates(numbers, items, np.concatenate(scores), interests, bound)
