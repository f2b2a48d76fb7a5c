"""Splits of `Interactions` into parts that share the same users and items.

Every split is a partition: each interaction is in exactly one part, but for later interactions of users without enough
history where a split by time is told to leave these out. The same data and seed give the same parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tastespace.checks import require_whole
from tastespace.data.interactions import Interactions
from tastespace.data.split_parts import check_ratios, parts_of, position_by
from tastespace.data.tables import FrameTable, require_columns
from tastespace.data.time_split import by_time as by_time
from tastespace.data.time_split import rolling as rolling
from tastespace.data.time_split import times_of
from tastespace.errors import DataError, ParameterError

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

_FEWEST_USERS = 0.2  # of all, below which a choice would hang on a few people


def per_user(data: Interactions, ratios: Sequence[float] = (0.6, 0.2, 0.2), *, seed: int = 0) -> list[Interactions]:
    """Shuffle each user's items and cut them by ratio, as the paper does.

    With n items and ratios (0.6, 0.2, 0.2) the parts get floor(0.6 n), floor(0.2 n) and the rest.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=80, n_interactions=900, seed=1)
    >>> train, valid, test = per_user(town.interactions, (0.6, 0.2, 0.2), seed=0)
    >>> train.n_interactions + valid.n_interactions + test.n_interactions == town.interactions.n_interactions
    True
    """
    shares = check_ratios(ratios)
    counts = data.user_counts
    position = _shuffled_position(data, seed)
    part = np.zeros(data.n_interactions, dtype=np.int8)
    first = np.zeros(data.n_users, dtype=np.int64)
    for share in shares[:-1]:
        # Whole-number arithmetic: floor(0.6 * 5) must be 3 although 0.6 * 5 may be 2.9999999999999996.
        first += counts * share.numerator // share.denominator
        part += position >= np.repeat(first.astype(np.int32), counts)
    return parts_of(data, part, len(shares))


def inner(data: Interactions, *, seed: int = 0) -> list[Interactions]:
    """Hold out a fifth of each user's items inside the training data, to choose on; gives ``[rest, held_out]``.

    The fifth is rounded down, so that histories of fewer than five items stay whole.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=80, n_interactions=900, seed=1).interactions
    >>> rest, held_out = inner(town)
    >>> bool((held_out.user_counts == town.user_counts // 5).all())
    True
    """
    held_out, rest = per_user(data, (0.2, 0.8), seed=seed)
    return [rest, held_out]


class HeldOut(NamedTuple):
    """A part that is held out to choose or to measure on, and how it was chosen."""

    rest: Interactions
    held_out: Interactions
    how: str
    """In words: ``"the last 20 % of the interactions"``, ..."""
    n_cold: int = 0
    """Users whose later interactions were left out, because they have no earlier history."""

    @property
    def notes(self) -> list[str]:
        """One line on users who were left out, where there are any."""
        if not self.n_cold:
            return []
        return [f"{self.n_cold:,} users have no history before the held-out part and do not count."]


def hold_out(data: Interactions, share: float = 0.2, *, by: str | None = None, seed: int = 0) -> HeldOut:
    """Hold out a share of the interactions, to choose or to measure on.

    ``by="random"`` holds out that share of each history, rounded down, so that short ones stay whole. ``by="time"``
    holds out the last interactions of all, as a model will meet them: all users are cut at the same moment, and only
    users with an earlier history count. Where that leaves fewer than 1 user in 5, or fewer than 20 users, with
    anything held out (people who all came at different times), the last items of each history are taken instead. By
    default ``"time"`` where the data has timestamps. `HeldOut.how` says which it was; ``held_out`` is empty where
    histories are too short.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"user": [0, 1] * 10, "item": range(20), "t": range(20)})
    >>> parts = hold_out(Interactions.from_frame(rows, timestamp="t"), 0.2)
    >>> parts.rest.n_interactions, int(parts.held_out.timestamps.min()), parts.how
    (16, 16, 'the last 20 % of the interactions')
    """
    if isinstance(share, (bool, str)) or not 0 < share < 1:
        raise ParameterError(f"share={share!r}: expected a share of the interactions between 0 and 1.")
    if by not in (None, "time", "random"):
        raise ParameterError(f"by={by!r}: expected 'time' or 'random'.")
    percent = f"{100 * share:g} %"
    if by == "random" or (by is None and data.timestamps is None):
        held_out, rest = per_user(data, (share, 1 - share), seed=seed)
        return HeldOut(rest, held_out, f"{percent} of each history, drawn at random")
    times = times_of(data)
    cut = np.sort(times)[min(int((1 - share) * len(times)), len(times) - 1)]
    later = times >= cut
    rows = data.row_of_each()
    warm = later & np.isin(rows, rows[~later])  # of users with an earlier history
    n_later, n_warm, n_users = len(np.unique(rows[later])), len(np.unique(rows[warm])), len(np.unique(rows))
    enough_users = n_warm >= max(_FEWEST_USERS * n_users, min(20, n_users / 2))
    if enough_users and (times < cut).sum() >= (1 - share) * len(times) / 2:  # not all at one moment
        how = f"the last {percent} of the interactions"
        return HeldOut(data.subset(times < cut), data.subset(warm), how, n_later - n_warm)
    # In whole numbers, as in `per_user`: a history of fewer than 1 / share items stays whole.
    kept = data.user_counts - np.floor(share * data.user_counts + 1e-9).astype(np.int64)
    last = position_by(data, times) >= np.repeat(kept, data.user_counts)
    return HeldOut(data.subset(~last), data.subset(last), f"the last {percent} of each history")


def leave_k_out(data: Interactions, k: int = 1, *, seed: int = 0, latest: bool = False) -> list[Interactions]:
    """Hold out k items of every user who has more than k: at random, or the ``latest`` by timestamp.

    Returns ``[train, test]``.
    """
    require_whole("k", k)
    position = position_by(data, times_of(data)) if latest else _shuffled_position(data, seed)
    counts = np.repeat(data.user_counts, data.user_counts)
    held_out = (position >= counts - k) & (counts > k)
    if not held_out.any():
        raise DataError(f"leave_k_out(k={k}): no user has more than {k} items (the most is {counts.max(initial=0)}).")
    return parts_of(data, held_out.astype(np.int8), 2)


def folds(data: Interactions, n: int = 5, *, seed: int = 0) -> list[tuple[Interactions, Interactions]]:
    """``n`` pairs of (train, test): each interaction is in the test of one pair and in the training of the others.

    The histories of users with ``n`` or more items are spread evenly over the folds.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=80, n_interactions=900, seed=1).interactions
    >>> sum(test.n_interactions for _, test in folds(town, 3)) == town.n_interactions
    True
    """
    require_whole("n", n, 2)
    # Counted from the user, so that short histories are in different folds.
    fold = (_shuffled_position(data, seed) + data.row_of_each().astype(np.int64)) % n
    pairs = [(data.subset(fold != number), data.subset(fold == number)) for number in range(n)]
    if any(not train.n_interactions or not test.n_interactions for train, test in pairs):
        raise DataError(f"{data!r} cannot be divided into {n} folds with something in each. Choose fewer.")
    return pairs


def cold_users(data: Interactions, fraction: float = 0.2, *, seed: int = 0) -> list[Interactions]:
    """Hold out a fraction of the users with all their interactions. Returns ``[warm, cold]``."""
    chosen = _draw(data.n_users, fraction, seed, "users")
    return parts_of(data, np.repeat(chosen, data.user_counts).astype(np.int8), 2)


def cold_items(data: Interactions, fraction: float = 0.2, *, seed: int = 0) -> list[Interactions]:
    """Hold out a fraction of the items with all their interactions. Returns ``[warm, cold]``."""
    chosen = _draw(data.n_items, fraction, seed, "items")
    return parts_of(data, chosen[data.indices].astype(np.int8), 2)


def by_column(
    data: Interactions,
    frame: IntoFrame,
    column: str = "split",
    *,
    parts: Sequence[Any] = ("train", "valid", "test"),
    user: str = "user",
    item: str = "item",
) -> list[Interactions]:
    """A split given by a column of a frame with one row per interaction.

    ``parts`` lists the column's values in the order in which the parts come back. Interactions of ``data``
    that the frame does not mention, or with a value not in ``parts``, are an error: nothing is lost silently.
    Rows of the frame that are not in ``data`` (filtered out before) are ignored.
    """
    table = FrameTable(frame)
    require_columns(table, {"user": user, "item": item, "column": column})
    rows, columns = data.users.find(table.read(user)), data.items.find(table.read(item))
    label = table.read(column)
    unknown = [value for value in label.unique(maintain_order=True).to_list() if value not in parts]
    if unknown:
        raise DataError(
            f"column {column!r} holds {', '.join(map(repr, unknown[:5]))}; expected only "
            f"{', '.join(map(repr, parts))}. Name all its values in parts=."
        )
    known = (rows >= 0) & (columns >= 0)
    number = np.zeros(len(label), dtype=np.int8)
    for index, name in enumerate(parts):
        number[(label == name).to_numpy()] = index
    key = rows[known] * data.n_items + columns[known]
    order = np.argsort(key, kind="stable")
    key, number = key[order], number[known][order]
    clash = np.flatnonzero((key[1:] == key[:-1]) & (number[1:] != number[:-1]))
    if len(clash):
        at_user, at_item = divmod(int(key[clash[0]]), data.n_items)
        raise DataError(
            f"{len(clash):,} pairs are in two parts of the split, the first is user {data.users[at_user]!r} with item "
            f"{data.items[at_item]!r}. Give each pair one value of {column!r}."
        )
    own = data.row_of_each().astype(np.int64) * data.n_items + data.indices
    at = np.searchsorted(key, own)
    found = (at < len(key)) & (key[np.minimum(at, len(key) - 1)] == own) if len(key) else np.zeros(len(own), bool)
    if not found.all():
        missing = int(np.flatnonzero(~found)[0])
        raise DataError(
            f"{int((~found).sum()):,} interactions have no row in the split's frame, the first is user "
            f"{data.users[int(data.row_of_each()[missing])]!r} with item {data.items[int(data.indices[missing])]!r}."
        )
    return parts_of(data, number[at], len(parts))


def _shuffled_position(data: Interactions, seed: int) -> NDArray[np.int32]:
    """A random position 0 ... n_u - 1 for each of a user's interactions; every order is equally likely."""
    return position_by(data, _rng(seed).random(data.n_interactions))


def _draw(n: int, fraction: float, seed: int, what: str) -> NDArray[np.bool_]:
    if isinstance(fraction, (bool, str)) or not 0 < fraction < 1:
        raise ParameterError(f"fraction={fraction!r}: expected a share of the {what} between 0 and 1.")
    size = round(fraction * n)
    if not 0 < size < n:
        raise DataError(f"fraction={fraction} of {n} {what} leaves one side empty.")
    chosen = np.zeros(n, dtype=bool)
    chosen[_rng(seed).choice(n, size, replace=False)] = True
    return chosen


def _rng(seed: Any) -> np.random.Generator:
    require_whole("seed", seed, 0, most=2**64 - 1)
    return np.random.default_rng(seed)
