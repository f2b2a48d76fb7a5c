"""How diverse a user's tastes are, by what the items are (genres, tags, ...): Definition 1 of the paper."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError, nearest

# A user's pairs of sets are met in blocks of about so many, which bounds memory at some 100 MB.
_BLOCK = 4_000_000
# Few attributes (genres) meet fastest as a dense product, thousands of rare ones (tags) as a sparse one.
_DENSE_ATTRIBUTES, _DENSE_ENTRIES = 256, 16_000_000


def preference_diversity(
    data: Interactions, attribute: str = "genres", *, missing: Literal["disjoint", "ignore"] = "disjoint"
) -> NDArray[np.float64]:
    """Share of a user's pairs of items without a common attribute: the paper's ``Div(u)``, Definition 1.

    0 for a user whose items all share something pairwise, 1 for one whose items have nothing in common. Two
    DIFFERENT items of the same genres do overlap. Items are grouped by their set of attributes first, so the
    work grows with the square of the number of distinct sets (301 on MovieLens-1M), not of the items.

    Args:
        data: With `item_attributes`.
        attribute: A column of ``data.item_attributes``: lists (of strings, say), or single values, each of
            which then is a set of one. Repeats within a list and nulls do not count.
        missing: What an item without any attribute is. ``"disjoint"`` takes the definition at its word: the
            empty set meets nothing, so the item is disjoint from every other one, even another like it.
            ``"ignore"`` leaves such items out of the user's list: not to know a genre is no sign of
            diversity.

    Returns:
        Shape ``(n_users,)`` in the order of ``data.users``, in [0, 1]; NaN for users with fewer than two
        items, whom Definition 1 leaves at 0 / 0.

    >>> taken = pl.DataFrame({"user": ["ann", "ann", "ann", "bob"], "item": [1, 2, 3, 3]})
    >>> films = pl.DataFrame({"item": [1, 2, 3], "genres": [["Drama"], ["Drama", "War"], ["Comedy"]]})
    >>> preference_diversity(Interactions.from_frame(taken, item_attributes=films)).round(3).tolist()
    [0.667, nan]
    """
    if missing not in ("disjoint", "ignore"):
        raise ParameterError(f"missing is {missing!r}; give 'disjoint' or 'ignore'.")
    set_of_item, sets = _attribute_sets(_column(data, attribute))
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


def _column(data: Interactions, attribute: str) -> pl.Series:
    frame = data.item_attributes
    if frame is None:
        raise DataError(
            "the interactions have no item attributes, and preference diversity needs them; give "
            "item_attributes=... to Interactions.from_frame."
        )
    known = [name for name in frame.columns if name != "item"]
    if attribute not in known:
        raise ParameterError(
            f"there is no item attribute {attribute!r}; there are {', '.join(known) or 'none'}."
            f"{nearest(attribute, known)}"
        )
    return frame[attribute]


def _attribute_sets(column: pl.Series) -> tuple[NDArray[np.int64], Any]:
    """Number of each item's attribute set, shape ``(n_items,)``, and the distinct sets as rows of a CSR."""
    joined = column.filter(column.str.contains("|", literal=True)) if column.dtype == pl.String else column[:0]
    if len(joined):
        raise DataError(
            f"the item attribute {column.name!r} holds text such as {joined[0]!r}, which looks like several "
            "values in one; split it into lists first, say with .str.split('|') of polars."
        )
    frame = pl.DataFrame({"item": np.arange(len(column)), "value": column})
    if isinstance(column.dtype, (pl.List, pl.Array)):
        frame = frame.explode("value")
    frame = frame.drop_nulls().unique()
    values, codes = np.unique(frame["value"].cast(pl.String).to_numpy(), return_inverse=True)
    items = frame["item"].to_numpy()
    order = np.lexsort((codes, items))
    codes = codes[order].astype(np.int32)
    ends = np.cumsum(np.bincount(items, minlength=len(column)))
    # The bytes of the sorted codes name a set; a dict numbers the sets in the order in which they turn up.
    numbers: dict[bytes, int] = {}
    starts = ends - np.diff(ends, prepend=0)
    named = (codes[start:end].tobytes() for start, end in zip(starts.tolist(), ends.tolist(), strict=True))
    set_of_item = np.array([numbers.setdefault(name, len(numbers)) for name in named], dtype=np.int64)
    members = [np.frombuffer(name, dtype=np.int32) for name in numbers]
    offsets = np.cumsum([0, *map(len, members)])
    columns = np.concatenate([np.empty(0, np.int32), *members])
    sets = sp.csr_array((np.ones(len(columns), np.float32), columns, offsets), shape=(len(members), len(values)))
    return set_of_item, sets


def _overlapping(owned: Any, sets: Any) -> NDArray[np.float64]:
    """Ordered pairs of items (each with itself, too) whose sets meet, for each user: shape ``(n_users,)``."""
    n_sets, n_attributes = sets.shape
    if n_attributes <= _DENSE_ATTRIBUTES and n_sets * n_attributes <= _DENSE_ENTRIES:
        sets = sets.toarray()
    total = np.zeros(owned.shape[0])
    for user, (start, end) in enumerate(zip(owned.indptr[:-1], owned.indptr[1:], strict=True)):
        mine, counts = owned.indices[start:end], owned.data[start:end]
        rows = sets[mine]
        step = max(1, _BLOCK // max(1, len(mine)))
        for first in range(0, len(mine), step):
            common = rows[first : first + step] @ rows.T
            total[user] += counts[first : first + step] @ ((common > 0) @ counts)
    return total
