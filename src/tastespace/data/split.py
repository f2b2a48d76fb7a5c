"""Splits of `Interactions` into parts that share the same users and items.

Every split is a partition: each interaction is in exactly one part. The same data and seed give the same parts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.checks import require_whole
from tastespace.data.interactions import Interactions
from tastespace.data.tables import FrameTable, require_columns
from tastespace.errors import DataError, ParameterError

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

log = logging.getLogger(__name__)


def per_user(data: Interactions, ratios: Sequence[float] = (0.6, 0.2, 0.2), *, seed: int = 0) -> list[Interactions]:
    """Shuffle each user's items and cut them by ratio, as the paper does.

    With n items and ratios (0.6, 0.2, 0.2) the parts get floor(0.6 n), floor(0.2 n) and the rest.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=80, n_interactions=900, seed=1)
    >>> train, valid, test = per_user(town.interactions, (0.6, 0.2, 0.2), seed=0)
    >>> train.n_interactions + valid.n_interactions + test.n_interactions == town.interactions.n_interactions
    True
    """
    shares = _check_ratios(ratios)
    counts = data.user_counts
    position = _shuffled_position(data, seed)
    part = np.full(data.n_interactions, len(shares) - 1, dtype=np.int8)
    first = np.zeros(data.n_users, dtype=np.int64)
    for number, share in enumerate(shares[:-1]):
        # Whole-number arithmetic: floor(0.6 * 5) must be 3 although 0.6 * 5 may be 2.9999999999999996.
        size = counts * share.numerator // share.denominator
        low, high = np.repeat(first, counts), np.repeat(first + size, counts)
        part[(position >= low) & (position < high)] = number
        first += size
    return _parts(data, part, len(shares))


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


def leave_k_out(data: Interactions, k: int = 1, *, seed: int = 0, latest: bool = False) -> list[Interactions]:
    """Hold out k items of every user who has more than k: at random, or the ``latest`` by timestamp.

    Returns ``[train, test]``.
    """
    require_whole("k", k)
    if latest:
        # Stable by time within the user: the last k positions are the k latest items.
        order = np.lexsort((np.arange(data.n_interactions), _times(data), data.row_of_each()))
        position = np.empty(data.n_interactions, dtype=np.int64)
        position[order] = np.arange(data.n_interactions) - np.repeat(data.offsets[:-1], data.user_counts)
    else:
        position = _shuffled_position(data, seed)
    counts = np.repeat(data.user_counts, data.user_counts)
    held_out = (position >= counts - k) & (counts > k)
    if not held_out.any():
        raise DataError(f"leave_k_out(k={k}): no user has more than {k} items (the most is {counts.max(initial=0)}).")
    return _parts(data, held_out.astype(np.int8), 2)


def by_time(
    data: Interactions, ratios: Sequence[float] | None = None, *, at: Sequence[Any] | None = None
) -> list[Interactions]:
    """Cut the whole data at moments in time: all users at the same moments, the past in the first part.

    Give ``ratios`` (shares of the interactions, moments chosen accordingly; interactions of the same moment
    stay together) or ``at``, the moments themselves, in the unit of `Interactions.timestamps` or as
    `datetime`; an interaction at exactly that moment belongs to the later part.
    """
    times = _times(data)
    if (ratios is None) == (at is None):
        raise ParameterError("by_time needs either ratios= or at=, and not both.")
    if at is not None:
        if not isinstance(at, Sequence) or isinstance(at, str):
            raise ParameterError(f"at={at!r}: expected a list of moments.")
        moments = [_moment(m) for m in at]
        if not moments or sorted(moments) != moments:
            raise ParameterError(f"at={list(at)}: expected one or more moments in ascending order.")
        cuts = np.asarray(moments)
    else:
        shares = _check_ratios(ratios or ())
        ordered = np.sort(times)
        ends = [math.floor(sum(shares[: i + 1]) * len(times)) for i in range(len(shares) - 1)]
        cuts = ordered[np.minimum(ends, len(times) - 1)]
    part = np.searchsorted(cuts, times, side="right").astype(np.int8)
    sizes = np.bincount(part, minlength=len(cuts) + 1)
    if (sizes == 0).any():
        raise DataError(
            f"the split by time leaves parts of {' / '.join(f'{n:,}' for n in sizes)} interactions: too many happened "
            "at the same moment, or the moments lie outside the data. Choose other ratios= or at=."
        )
    return _parts(data, part, len(cuts) + 1)


def cold_users(data: Interactions, fraction: float = 0.2, *, seed: int = 0) -> list[Interactions]:
    """Hold out a fraction of the users with all their interactions. Returns ``[warm, cold]``."""
    chosen = _draw(data.n_users, fraction, seed, "users")
    return _parts(data, np.repeat(chosen, data.user_counts).astype(np.int8), 2)


def cold_items(data: Interactions, fraction: float = 0.2, *, seed: int = 0) -> list[Interactions]:
    """Hold out a fraction of the items with all their interactions. Returns ``[warm, cold]``."""
    chosen = _draw(data.n_items, fraction, seed, "items")
    return _parts(data, chosen[data.indices].astype(np.int8), 2)


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
    return _parts(data, number[at], len(parts))


def _shuffled_position(data: Interactions, seed: int) -> NDArray[np.int64]:
    """A random position 0 ... n_u - 1 for each of a user's interactions; every order is equally likely."""
    keys = _rng(seed).random(data.n_interactions)
    order = np.lexsort((keys, data.row_of_each()))
    position = np.empty(data.n_interactions, dtype=np.int64)
    position[order] = np.arange(data.n_interactions) - np.repeat(data.offsets[:-1], data.user_counts)
    return position


def _parts(data: Interactions, part: NDArray[np.int8], n_parts: int) -> list[Interactions]:
    parts = [data.subset(part == number) for number in range(n_parts)]
    log.info("split into %s interactions", " / ".join(f"{p.n_interactions:,}" for p in parts))
    return parts


def _check_ratios(ratios: Sequence[float]) -> list[Fraction]:
    if not isinstance(ratios, Sequence) or isinstance(ratios, str):
        raise ParameterError(f"ratios={ratios!r}: expected two or more shares, such as (0.8, 0.2).")
    shares = []
    for ratio in ratios:
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float, np.floating)) or not 0 < ratio < 1:
            raise ParameterError(f"ratios={tuple(ratios)}: each must lie between 0 and 1.")
        # The decimal that was typed, not the nearest binary number.
        shares.append(Fraction(repr(float(ratio))).limit_denominator(10**9))
    if len(shares) < 2 or abs(float(sum(shares)) - 1) > 1e-6:
        raise ParameterError(
            f"ratios={tuple(ratios)} sum to {float(sum(shares)):g}: expected two or more that sum to 1, "
            "such as (0.6, 0.2, 0.2)."
        )
    return shares


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


def _times(data: Interactions) -> NDArray[np.int64] | NDArray[np.float64]:
    if data.timestamps is None:
        raise DataError("the data has no timestamps; read it with timestamp=, the name of the time column.")
    return data.timestamps


def _moment(moment: Any) -> float | int:
    if isinstance(moment, (int, float, np.integer, np.floating)):
        if not math.isfinite(moment):
            raise ParameterError(f"at={moment!r}: expected a finite moment.")
        return float(moment) if isinstance(moment, (float, np.floating)) else int(moment)
    try:
        return int(pl.Series([moment]).cast(pl.Datetime("us")).to_physical()[0])
    except (TypeError, pl.exceptions.PolarsError) as problem:
        raise ParameterError(f"at={moment!r}: expected a number or a datetime.") from problem
