"""Splits of `Interactions` into parts that share the same users and items.

Every split is a partition: each interaction is in exactly one part, except later interactions of users without enough
history where a split by time is told to leave these out. The same data and seed give the same parts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import is_whole, require_whole
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.data.reading.dates import Duration, duration_in
from tastespace.data.reading.tables import FrameTable, require_columns
from tastespace.errors import Argument, DataError, ParameterError

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

# ---------------------------------------------------------------------------------------------------------------------
# Common to all splits: the check of ratios, an order within each history, and the parts themselves.

log = logging.getLogger(__name__)


def parts_of(data: Interactions, part: NDArray[np.int8], n_parts: int) -> list[Interactions]:
    """The interactions of each part, given the number of its part for every interaction; -1: in no part."""
    parts = [data.subset(part == number) for number in range(n_parts)]
    log.info("split into %s interactions", " / ".join(f"{p.n_interactions:,}" for p in parts))
    return parts


def is_pair(split: Any) -> bool:
    """Return True if this is a split into two parts, (train, held out)."""
    return isinstance(split, Sequence) and len(split) == 2 and all(isinstance(one, Interactions) for one in split)


def position_by(data: Interactions, keys: NDArray[Any]) -> NDArray[np.int32]:
    """Place 0 ... n_u - 1 of each interaction in its user's history, ordered by these keys; ties by item."""
    is_whole = np.issubdtype(keys.dtype, np.integer)
    values: Any = np.ascontiguousarray(keys, dtype=np.int64 if is_whole else np.float64)
    return _native.row_positions(np.ascontiguousarray(data.offsets), values, resolve_threads(0))


def check_ratios(ratios: Sequence[float]) -> list[Fraction]:
    """Shares of two or more parts that sum to 1, as the decimals that were typed."""
    if not isinstance(ratios, Sequence) or isinstance(ratios, str):
        raise ParameterError(Argument("ratios", ratios), ": expected two or more shares, such as (0.8, 0.2).")
    shares = []
    for ratio in ratios:
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float, np.floating)) or not 0 < ratio < 1:
            raise ParameterError(Argument("ratios", tuple(ratios)), ": each must lie between 0 and 1.")
        # The decimal that was typed, not the nearest binary number.
        shares.append(Fraction(repr(float(ratio))).limit_denominator(10**9))
    if len(shares) < 2 or abs(float(sum(shares)) - 1) > 1e-6:
        raise ParameterError(
            Argument("ratios", tuple(ratios)),
            f" sum to {float(sum(shares)):g}: expected two or more that sum to 1, such as (0.6, 0.2, 0.2).",
        )
    return shares


# ---------------------------------------------------------------------------------------------------------------------
# Splits by time: the past in training, the future in the test, once or in several windows.

Times = NDArray[np.int64] | NDArray[np.float64]


def by_time(
    data: Interactions,
    ratios: Sequence[float] | None = None,
    *,
    at: Sequence[Any] | None = None,
    min_history: int = 0,
) -> list[Interactions]:
    """Cut the whole data at moments in time: all users at the same moments, the past in the first part.

    Give ``ratios`` (shares of the interactions, moments chosen accordingly; interactions of the same moment
    stay together) or ``at``, the moments themselves, in the unit of `Interactions.timestamps` or as
    `datetime`; an interaction at exactly that moment belongs to the later part.

    ``min_history`` leaves the later interactions of users with fewer interactions in the first part out of all parts:
    1 keeps warm users only, 5 those with a history of some length. By default nothing is left out.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"user": list("aabbc"), "item": [1, 2, 1, 3, 2], "t": [1, 8, 2, 9, 9]})
    >>> data = Interactions.from_frame(rows, timestamp="t")
    >>> [part.n_interactions for part in by_time(data, at=[5])]
    [2, 3]
    >>> [part.n_interactions for part in by_time(data, at=[5], min_history=1)]
    [2, 2]
    """
    times = times_of(data)
    require_whole("min_history", min_history, 0)
    if (ratios is None) == (at is None):
        raise ParameterError("by_time needs either ratios= or at=, and not both.")
    if at is not None:
        if not isinstance(at, Sequence) or isinstance(at, str):
            raise ParameterError(Argument("at", at), ": expected a list of moments.")
        moments = [_moment(m) for m in at]
        if not moments or sorted(moments) != moments:
            raise ParameterError(Argument("at", list(at)), ": expected one or more moments in ascending order.")
        cuts = np.asarray(moments)
    else:
        shares = check_ratios(ratios or ())
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
    if min_history:
        part[_of_short_histories(data, part == 0, min_history) & (part > 0)] = -1
        if not (part > 0).any():
            raise _no_history(min_history)
    return parts_of(data, part, len(cuts) + 1)


def rolling(
    data: Interactions,
    n_windows: int = 3,
    *,
    test_share: float | None = None,
    test_span: Duration | None = None,
    min_history: int = 0,
    unit: str = "auto",
) -> list[tuple[Interactions, Interactions]]:
    """Several splits by time, one after the other: train on everything before a window, test on the window.

    The windows are adjacent and the last one ends with the data. Each training part holds all that happened before its
    window, so it grows from window to window.

    Args:
        data: With timestamps.
        n_windows: Number of windows.
        test_share: Share of the interactions in each window; by default 0.1, or less where ``n_windows`` are many.
        test_span: Instead, the length of each window: ``"7d"``, a number of days, or a `timedelta`.
        min_history: Users with fewer interactions in the training part are left out of the window. By default all
            stay: `evaluate` tells those without any history apart.
        unit: Of the timestamps, for ``test_span``: by default seconds or finer since 1970, as their size tells.

    Returns:
        ``[(train, test), ...]``, the earliest window first.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"user": [0, 1] * 10, "item": range(20), "t": range(20)})
    >>> windows = rolling(Interactions.from_frame(rows, timestamp="t"), n_windows=2, test_share=0.2)
    >>> [(train.n_interactions, test.n_interactions) for train, test in windows]
    [(12, 4), (16, 4)]
    """
    times = times_of(data)
    require_whole("n_windows", n_windows)
    require_whole("min_history", min_history, 0)
    if test_share is not None and test_span is not None:
        raise ParameterError("rolling was given test_share= and test_span=: give one of them.")
    if test_span is not None:
        length = duration_in(test_span, times, "test_span", unit)
        end = float(times.max(initial=0))
        cuts = np.array([end - length * left for left in range(n_windows, 0, -1)])
        part = np.searchsorted(cuts, times, side="left")  # a window holds its end, not its beginning
    else:
        share = min(0.1, 0.5 / n_windows) if test_share is None else test_share
        if isinstance(share, (bool, str)) or not share > 0 or share * n_windows >= 1:
            raise ParameterError(
                Argument("test_share", share),
                f" with n_windows={n_windows}: expected a share above 0 that leaves something before the first window.",
            )
        ends = [len(times) - round(share * left * len(times)) for left in range(n_windows, 0, -1)]
        cuts = np.sort(times)[np.minimum(ends, len(times) - 1)]
        part = np.searchsorted(cuts, times, side="right")
    sizes = np.bincount(part, minlength=n_windows + 1)
    if (sizes == 0).any():
        empty = int(np.argmin(sizes))
        where = f"in window {empty} of {n_windows}" if empty else "before the first window"
        raise DataError(
            f"there are no interactions {where}. Choose fewer windows, or another test_span= or test_share= "
            "(--test-span, --test-share)."
        )
    found = []
    for window in range(1, n_windows + 1):
        before, test = part < window, part == window
        if min_history:
            test &= ~_of_short_histories(data, before, min_history)
            if not test.any():
                raise _no_history(min_history, f"window {window} of {n_windows}: ")
        found.append((data.subset(before), data.subset(test)))
    log.info("%d windows of %s interactions", n_windows, " / ".join(f"{test.n_interactions:,}" for _, test in found))
    return found


def times_of(data: Interactions) -> Times:
    """The timestamps of the data; an error where it has none."""
    if data.timestamps is None:
        raise DataError(
            "the data has no timestamps; read it with ", Argument("timestamp"), ", the name of the time column."
        )
    return data.timestamps


def _of_short_histories(data: Interactions, before: NDArray[np.bool_], least: int) -> NDArray[np.bool_]:
    """Mask of the interactions of users with fewer than ``least`` of those marked in ``before``."""
    rows = data.row_of_each()
    counts = np.bincount(rows[before], minlength=data.n_users)
    return np.asarray(counts[rows] < least)


def _no_history(least: int, where: str = "") -> DataError:
    return DataError(
        f"{where}no user of the later part has {least} or more interactions before it: nothing can be tested. Choose "
        "an earlier moment, a smaller min_history=, or split.leave_k_out(latest=True)."
    )


def _moment(moment: Any) -> float | int:
    if isinstance(moment, (int, float, np.integer, np.floating)):
        if not math.isfinite(moment):
            raise ParameterError(Argument("at", moment), ": expected a finite moment.")
        return float(moment) if isinstance(moment, (float, np.floating)) else int(moment)
    try:
        return int(pl.Series([moment]).cast(pl.Datetime("us")).to_physical()[0])
    except (TypeError, pl.exceptions.PolarsError) as problem:
        raise ParameterError(Argument("at", moment), ": expected a number or a datetime.") from problem


_WHOLE = 3  # items of a history that `hold_out` divides, at least: the rest has to tell what goes together
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


def authors(
    data: Interactions,
    ratios: Sequence[float] = (0.6, 0.2, 0.2),
    *,
    seed: int = 1234,
    item_numbers: NDArray[np.integer[Any]] | None = None,
) -> list[Interactions]:
    """Shuffle each user's items and cut them by ratio, with the random numbers of the paper's authors.

    The sizes are those of `per_user`. NumPy's legacy generator is seeded once and shuffles the items of one user after
    the other, as ``np.random.seed(1234)`` and ``np.random.shuffle`` do: with the authors' numbers of users and items
    this is the split that they published.

    Args:
        data: Users in the authors' order.
        ratios: Shares of the parts.
        seed: Of the generator; theirs is 1234.
        item_numbers: The authors' number of each item, shape ``(n_items,)``: a user's items are in this order before
            they are shuffled. By default the order of ``data``.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=80, n_interactions=900, seed=1).interactions
    >>> [part.n_interactions for part in authors(town)] == [part.n_interactions for part in per_user(town)]
    True
    """
    shares = check_ratios(ratios)
    if not is_whole(seed, 0) or seed >= 1 << 32:
        raise ParameterError(Argument("seed", seed), ": expected a whole number from 0 to 4,294,967,295.")
    numbers = data.indices if item_numbers is None else _numbers_of(data, item_numbers)
    random = np.random.RandomState(seed)
    part = np.full(data.n_interactions, len(shares) - 1, dtype=np.int8)
    for start, stop in zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True):
        order = (start + np.argsort(numbers[start:stop], kind="stable")).tolist()
        random.shuffle(order)
        first = 0
        for which, share in enumerate(shares[:-1]):
            last = first + len(order) * share.numerator // share.denominator
            part[order[first:last]] = which
            first = last
    return parts_of(data, part, len(shares))


def _numbers_of(data: Interactions, item_numbers: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    given = np.asarray(item_numbers)
    if given.shape != (data.n_items,) or given.dtype.kind not in "iu" or len(np.unique(given)) < len(given):
        raise ParameterError(
            f"item_numbers: expected {data.n_items:,} different whole numbers, one for each item, given {given.dtype} "
            f"of shape {given.shape}."
        )
    numbers: NDArray[np.integer[Any]] = given[data.indices]
    return numbers


def inner(data: Interactions, *, seed: int = 0) -> list[Interactions]:
    """Hold out a fifth of each user's items inside the training data, to choose on; returns ``[rest, held_out]``.

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
    """Description, such as ``"the last 20 % of the interactions"``."""
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

    ``by="random"`` holds out that share of each history, rounded up or down at random, so that short ones are measured
    as often as they should be; those of one or two items stay whole. ``by="time"`` holds out the last interactions of
    all, as a model will meet them: all users are cut at the same moment, and only users with an earlier history count.
    Where that leaves fewer than 1 user in 5, or fewer than 20 users, with anything held out (people who all came at
    different times), the last items of each history are taken instead. By default ``"time"`` where the data has
    timestamps. `HeldOut.how` says which it was; ``held_out`` is empty where histories are too short.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"user": [0, 1] * 10, "item": range(20), "t": range(20)})
    >>> parts = hold_out(Interactions.from_frame(rows, timestamp="t"), 0.2)
    >>> parts.rest.n_interactions, int(parts.held_out.timestamps.min()), parts.how
    (16, 16, 'the last 20 % of the interactions')
    """
    if isinstance(share, (bool, str)) or not 0 < share < 1:
        raise ParameterError(Argument("share", share), ": expected a share of the interactions between 0 and 1.")
    if by not in (None, "time", "random"):
        raise ParameterError(Argument("by", by), ": expected 'time' or 'random'.")
    percent = f"{100 * share:g} %"
    if by == "random" or (by is None and data.timestamps is None):
        position = _shuffled_position(data, seed)
        counts = np.floor(share * data.user_counts + np.random.default_rng(seed).random(data.n_users)).astype(np.int64)
        counts[data.user_counts < _WHOLE] = 0
        drawn = position < np.repeat(counts, data.user_counts)
        return HeldOut(data.subset(~drawn), data.subset(drawn), f"{percent} of each history, drawn at random")
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
        raise ParameterError(Argument("fraction", fraction), f": expected a share of the {what} between 0 and 1.")
    size = round(fraction * n)
    if not 0 < size < n:
        raise DataError(Argument("fraction", fraction), f" of {n} {what} leaves one side empty.")
    chosen = np.zeros(n, dtype=bool)
    chosen[_rng(seed).choice(n, size, replace=False)] = True
    return chosen


def _rng(seed: Any) -> np.random.Generator:
    require_whole("seed", seed, 0, most=2**64 - 1)
    return np.random.default_rng(seed)
