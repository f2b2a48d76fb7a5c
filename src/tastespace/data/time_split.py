"""Splits by time: the past in training, the future in the test, once or in several windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.checks import require_whole
from tastespace.data.durations import Duration, duration_in
from tastespace.data.interactions import Interactions
from tastespace.data.split_parts import check_ratios, log, parts_of
from tastespace.errors import DataError, ParameterError

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
            raise ParameterError(f"at={at!r}: expected a list of moments.")
        moments = [_moment(m) for m in at]
        if not moments or sorted(moments) != moments:
            raise ParameterError(f"at={list(at)}: expected one or more moments in ascending order.")
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
                f"test_share={share!r} with n_windows={n_windows}: expected a share above 0 that leaves something "
                "before the first window."
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
        raise DataError("the data has no timestamps; read it with timestamp=, the name of the time column.")
    return data.timestamps


def _of_short_histories(data: Interactions, before: NDArray[np.bool_], least: int) -> NDArray[np.bool_]:
    """Whether an interaction is of a user with fewer than ``least`` of those marked in ``before``."""
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
            raise ParameterError(f"at={moment!r}: expected a finite moment.")
        return float(moment) if isinstance(moment, (float, np.floating)) else int(moment)
    try:
        return int(pl.Series([moment]).cast(pl.Datetime("us")).to_physical()[0])
    except (TypeError, pl.exceptions.PolarsError) as problem:
        raise ParameterError(f"at={moment!r}: expected a number or a datetime.") from problem
