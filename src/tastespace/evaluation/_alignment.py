"""Interactions in the indices of a model, and set operations on lists of items per user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.csr import no_items
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError, UnknownIdError

Lists = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Offsets of shape ``(n_users + 1,)`` and item indices, ascending within a user."""

_CHOICES = ("error", "skip", "zero")


@dataclass(frozen=True, eq=False)
class Aligned:
    """Interactions in a model's indices."""

    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    n_unknown: NDArray[np.int64]
    """Per user of the model, interactions with items that are not in it (only for ``"zero"``)."""
    unknown_users: pl.Series
    """Users that are not in the model and that count (only for ``"zero"``)."""
    unknown_user_counts: NDArray[np.int64]
    """Number of interactions of each of them."""

    @property
    def n_unknown_users(self) -> int:
        """Users that are not in the model and that count."""
        return len(self.unknown_users)


def align(data: Interactions, model_data: Interactions, what: str, on_unknown: str) -> Aligned:
    """``data`` in the indices of ``model_data``; ``on_unknown`` is ``"error"``, ``"skip"`` or ``"zero"``."""
    if on_unknown not in _CHOICES:
        raise ParameterError(f"on_unknown={on_unknown!r}: expected one of {', '.join(_CHOICES)}.")
    n_users = model_data.n_users
    if data.users == model_data.users and data.items == model_data.items:
        no_users = data.users.series.clear()
        return Aligned(data.offsets, data.indices, np.zeros(n_users, np.int64), no_users, np.empty(0, np.int64))
    _require_same_kind(data.users.series, model_data.users.series, what, "user")
    _require_same_kind(data.items.series, model_data.items.series, what, "item")
    user_at, item_at = model_data.users.find(data.users.series), model_data.items.find(data.items.series)
    rows, columns = user_at[data.row_of_each()], item_at[data.indices]
    is_unknown = (user_at < 0) & (data.user_counts > 0)
    unknown_users = data.users.series.filter(pl.Series(is_unknown))
    unknown_items = data.items.series.filter(pl.Series((item_at < 0) & (data.item_counts > 0)))
    if on_unknown == "error" and (len(unknown_users) or len(unknown_items)):
        example = repr(unknown_users[0]) if len(unknown_users) else repr(unknown_items[0])
        raise UnknownIdError(
            f"the {what} data holds {len(unknown_users):,} users and {len(unknown_items):,} items that the model has "
            f"never seen (for example {example}). Split one Interactions with tastespace.split, or pass "
            "on_unknown='skip' or 'zero'."
        )
    known = (rows >= 0) & (columns >= 0)
    order = np.lexsort((columns[known], rows[known]))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows[known], minlength=n_users))])
    n_unknown = np.bincount(rows[(rows >= 0) & (columns < 0)], minlength=n_users)
    zero = on_unknown == "zero"
    return Aligned(
        offsets.astype(np.int64),
        columns[known][order].astype(np.int32),
        n_unknown if zero else np.zeros(n_users, np.int64),
        unknown_users if zero else unknown_users.clear(),
        data.user_counts[is_unknown] if zero else np.empty(0, np.int64),
    )


def _require_same_kind(given: pl.Series, known: pl.Series, what: str, side: str) -> None:
    """Raise where one side has numbers and the other text: a mistake in reading the data, not a set of unknown ids."""
    if len(given) and given.dtype.is_numeric() != known.dtype.is_numeric():
        raise UnknownIdError(
            f"the {side} ids of the {what} data are {given.dtype} such as {given[0]!r}, those of the model are "
            f"{known.dtype} such as {known[0]!r}: none can match. Read both with the same type of id."
        )


def entries_of(
    offsets: NDArray[np.integer[Any]], rows: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The entries ``offsets[r]:offsets[r + 1]`` of these rows: position in ``rows`` and entry, both of shape ``(n,)``.

    >>> position, entry = entries_of(np.array([0, 2, 2, 5]), np.array([2, 0]))
    >>> position.tolist(), entry.tolist()
    ([0, 0, 0, 1, 1], [2, 3, 4, 0, 1])
    """
    counts = np.asarray(offsets[rows + 1] - offsets[rows], dtype=np.int64)
    starts = offsets[rows] - (np.cumsum(counts) - counts)
    return np.repeat(np.arange(len(rows)), counts), np.repeat(starts, counts) + np.arange(int(counts.sum()))


def merge_lists(lists: list[Lists], n_users: int) -> Lists:
    """The union per user; empty for all users if there are no lists."""
    if not lists:
        return no_items(n_users)
    if len(lists) == 1:
        return lists[0]
    owner = np.concatenate([np.repeat(np.arange(n_users), np.diff(offsets)) for offsets, _ in lists])
    items = np.concatenate([items for _, items in lists])
    width = int(items.max(initial=0)) + 1
    key = np.unique(owner * width + items)
    offsets = np.searchsorted(key, np.arange(n_users + 1) * width)
    return offsets.astype(np.int64), (key % width).astype(np.int32)


def subtract_lists(lists: Lists, taken: Lists) -> tuple[Lists, int]:
    """``lists`` without the items that are also in ``taken``, and how many those were."""
    (offsets, items), (taken_offsets, taken_items) = lists, taken
    n_users = len(offsets) - 1
    width = int(max(items.max(initial=0), taken_items.max(initial=0))) + 1
    own = np.repeat(np.arange(n_users), np.diff(offsets)) * width + items
    other = np.repeat(np.arange(n_users), np.diff(taken_offsets)) * width + taken_items
    at = np.searchsorted(other, own)
    repeated = np.zeros(len(own), dtype=bool)
    inside = at < len(other)
    repeated[inside] = other[at[inside]] == own[inside]
    if not repeated.any():
        return lists, 0
    kept_before = np.concatenate([[0], np.cumsum(~repeated)])
    return (kept_before[offsets].astype(np.int64), items[~repeated]), int(repeated.sum())
