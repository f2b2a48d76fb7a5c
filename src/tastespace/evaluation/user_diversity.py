"""Diversity of a user's preferences by the categories of the items taken: Definition 1 of the paper."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.attributes import item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError

# A user's pairs of category sets are compared in blocks of about this many, which bounds memory at some 100 MB.
_BLOCK = 4_000_000
# Few categories (genres) are compared fastest by a dense product, thousands of rare ones (tags) by a sparse one.
_DENSE_CATEGORIES, _DENSE_ENTRIES = 256, 16_000_000


def preference_diversity(
    data: Interactions, categories: str | None = None, *, missing: Literal["disjoint", "ignore"] = "disjoint"
) -> NDArray[np.float64]:
    """Share of a user's pairs of items without a common category: the paper's ``Div(u)``, Definition 1.

    0 for a user whose items all share a category pairwise, 1 for one whose items have nothing in common. Two
    DIFFERENT items of the same categories do overlap. Items are grouped by their set of categories first, so the
    work grows with the square of the number of distinct sets (301 on MovieLens-1M), not of the items.

    Args:
        data: With `item_attributes`.
        categories: Item attribute that holds the categories, by default the one that looks like categories; how it is
            read: `tastespace.data.attributes`.
        missing: Treatment of an item without any category. ``"disjoint"`` takes the definition literally: the empty set
            intersects nothing, so the item is disjoint from every other one, even another like it. ``"ignore"``
            leaves such items out of the user's list: an unknown genre is no sign of diversity.

    Returns:
        Shape ``(n_users,)`` in the order of ``data.users``, from 0 to 1; NaN for users with fewer than two items,
        for whom Definition 1 is 0 / 0.

    >>> import polars as pl
    >>> taken = pl.DataFrame({"user": ["ann", "ann", "ann", "bob"], "item": [1, 2, 3, 3]})
    >>> films = pl.DataFrame({"item": [1, 2, 3], "genres": ["Drama", "Drama|War", "Comedy"]})
    >>> preference_diversity(Interactions.from_frame(taken, item_attributes=films), "genres").round(3).tolist()
    [0.667, nan]
    """
    if missing not in ("disjoint", "ignore"):
        raise ParameterError(f"missing is {missing!r}; give 'disjoint' or 'ignore'.")
    set_of_item, sets = _distinct_sets(
        item_categories(
            require_category_column(
                data.item_attributes, categories, purpose="preference diversity", argument="categories"
            )
        ).membership
    )
    is_empty = np.diff(sets.indptr) == 0
    # One row per user: how many of the user's items have each of the distinct sets. The offsets are copied
    # since adding up the repeats happens in place.
    owned = sp.csr_array(
        (np.ones(data.n_interactions), set_of_item[data.indices], data.offsets.copy()),
        shape=(data.n_users, sets.shape[0]),
    )
    owned.sum_duplicates()
    if missing == "ignore":
        owned.data[is_empty[owned.indices]] = 0.0
        owned.eliminate_zeros()
    items = np.asarray(owned.sum(axis=1), dtype=np.float64)
    pairs = items * (items - 1.0)
    # All items squared includes each item with itself; sets overlap themselves, except for the empty one.
    empty_items = np.asarray(owned @ is_empty.astype(np.float64))
    disjoint = items * items - _overlapping(owned, sets) - empty_items
    diversity = np.full(data.n_users, np.nan)
    np.divide(disjoint, pairs, out=diversity, where=pairs > 0)
    return diversity


def _distinct_sets(membership: Any) -> tuple[NDArray[np.int64], Any]:
    """Number of each item's set of categories, shape ``(n_items,)``, and the distinct sets as rows of a CSR."""
    starts, codes = membership.indptr.tolist(), membership.indices.astype(np.int32)
    # The bytes of the sorted codes identify a set; a dict numbers the sets in order of appearance.
    numbers: dict[bytes, int] = {}
    keys = (codes[start:end].tobytes() for start, end in itertools.pairwise(starts))
    set_of_item = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    members = [np.frombuffer(key, dtype=np.int32) for key in numbers]
    offsets = np.cumsum([0, *map(len, members)])
    columns = np.concatenate([np.empty(0, np.int32), *members])
    shape = len(members), membership.shape[1]
    return set_of_item, sp.csr_array((np.ones(len(columns), np.float32), columns, offsets), shape=shape)


def _overlapping(owned: Any, sets: Any) -> NDArray[np.float64]:
    """Ordered pairs of a user's items (an item with itself included) whose sets intersect: shape ``(n_users,)``."""
    n_sets, n_categories = sets.shape
    if n_categories <= _DENSE_CATEGORIES and n_sets * n_categories <= _DENSE_ENTRIES:
        sets = sets.toarray()
    total = np.zeros(owned.shape[0])
    for user, (start, end) in enumerate(zip(owned.indptr[:-1], owned.indptr[1:], strict=True)):
        set_rows, counts = owned.indices[start:end], owned.data[start:end]
        rows = sets[set_rows]
        step = max(1, _BLOCK // max(1, len(set_rows)))
        for first in range(0, len(set_rows), step):
            common = rows[first : first + step] @ rows.T
            total[user] += counts[first : first + step] @ ((common > 0) @ counts)
    return total
