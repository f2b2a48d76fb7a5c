"""Times in tables: dates written as text, and lengths of time in the unit of the timestamps."""

from __future__ import annotations

import datetime
import datetime as dt
import logging
import math
import re
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.errors import Argument, DataError, ParameterError

# ---------------------------------------------------------------------------------------------------------------------
# Dates written as text: which order of day and month they have, and their times.

log = logging.getLogger(__name__)

# 31/12/2024, 31.12.24 23:59, 12-31-2024T23:59:59: two numbers that may be day and month, a year, perhaps a time.
_DAY_AND_MONTH = r"^\s*(\d{1,2})([/.\-])(\d{1,2})[/.\-](\d{4}|\d{2})(?:$|([ T].*)$)"
_CENTURY_FROM = 70  # 69 is 2069, 70 is 1970, as in POSIX


def parse_times(texts: pl.Series, where: str, date_format: str | None = None) -> pl.Series:
    """Times from texts without nulls, as `polars.Datetime`; ``where`` names file and column in messages.

    Dates such as 31/12/2024 are read as day/month/year or month/day/year, whichever fits all of them. Where both do
    (01/02/2024), day/month/year is taken with a warning. ``date_format`` says it: ``"%m/%d/%Y"``.

    >>> parse_times(pl.Series(["12/31/2024", "01/02/2024"]), "clicks").dt.to_string("%Y-%m-%d").to_list()
    ['2024-12-31', '2024-01-02']
    >>> parse_times(pl.Series(["01/02/2024"]), "clicks", "%m/%d/%Y").dt.day().to_list()
    [2]
    """
    if date_format is not None:
        return _by_format(texts, where, date_format)
    parts = texts.str.extract_groups(_DAY_AND_MONTH).struct.unnest()
    first, second = (parts[name].cast(pl.Int64) for name in ("1", "3"))
    if first.null_count():
        return texts.str.to_datetime(time_unit="us")
    day_first, month_first = bool((first > 12).any()), bool((second > 12).any())
    if day_first and month_first:
        one, other = (texts.filter(part > 12)[0] for part in (first, second))
        raise DataError(
            f"{where}: {one!r} is day before month and {other!r} month before day. Write all dates in one way, best as "
            "2024-12-31."
        )
    differ = first != second
    if not day_first and not month_first and differ.any():
        _warn(texts.filter(differ)[0], int(first.filter(differ)[0]), int(second.filter(differ)[0]), where)
    day, month = (second, first) if month_first else (first, second)
    year = parts["4"].cast(pl.Int64)
    century = pl.select(pl.when(parts["4"].str.len_chars() == 4).then(0).when(year >= _CENTURY_FROM).then(1900))
    whole = year + century.to_series().fill_null(2000)
    date = [part.cast(pl.String).str.zfill(width) for part, width in ((whole, 4), (month, 2), (day, 2))]
    iso = date[0] + "-" + date[1] + "-" + date[2] + parts["5"].fill_null(" 00:00:00")
    return iso.str.to_datetime(time_unit="us")


def _by_format(texts: pl.Series, where: str, date_format: str) -> pl.Series:
    if not isinstance(date_format, str) or "%" not in date_format:
        raise ParameterError(
            Argument("date_format", date_format), ": expected a format such as '%d/%m/%Y' or '%m/%d/%Y %H:%M'."
        )
    try:
        found = texts.str.to_datetime(date_format, strict=False, time_unit="us")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
        raise ParameterError(
            Argument("date_format", date_format),
            f" cannot be used ({next(iter(str(problem).splitlines()), '')}); expected a format such as '%d/%m/%Y' or "
            "'%m/%d/%Y %H:%M'.",
        ) from problem
    if found.null_count():
        bad = found.is_null()
        raise DataError(
            f"{where}: {texts.filter(bad)[0]!r} does not have the form ",
            Argument("date_format", date_format),
            f" ({int(bad.sum()):,} such rows of {len(texts):,}).",
        )
    return found


def _warn(example: str, first: int, second: int, where: str) -> None:
    taken = datetime.date(2000, second, first)
    log.warning(
        "%s: dates such as %s can be read in two ways. Taken as day/month/year: %d %s. For month/day/year give "
        "date_format='%%m/%%d/%%Y' (--date-format %%m/%%d/%%Y).",
        where,
        example,
        taken.day,
        taken.strftime("%B"),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Lengths of time in the unit of the timestamps: ``"90d"``, ``"12h"``, a number of days, or a `timedelta`.

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365.25 * 86400.0}
_TEXT = re.compile(r"^\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*$")
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "d": 1 / 86400.0}
_FROM = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"), (1e8, "s"))  # the latest time from which on it has this unit

Duration = float | str | dt.timedelta


def duration_in(duration: Duration, times: NDArray[Any], name: str, unit: str = "auto") -> float:
    """A length of time in the unit of ``times``. A plain number counts days; ``name`` is for messages.

    ``unit`` is that of the times: ``"s"``, ``"ms"``, ``"us"``, ``"ns"`` or ``"d"`` (numbers of days); ``"auto"`` tells
    seconds since 1970 from finer units by their size, which any time after 1973 allows.

    >>> duration_in("2d", np.array([1_700_000_000]), "half_life"), duration_in(3, np.array([5, 900]), "x", unit="d")
    (172800.0, 3.0)
    """
    return seconds_of(duration, name) * _PER_SECOND[_unit_of(times, name, unit)]


def seconds_of(duration: Duration, name: str) -> float:
    """A length of time in seconds.

    >>> seconds_of("12h", "span"), seconds_of(1, "span")
    (43200.0, 86400.0)
    """
    expected = "expected a number of days, or text such as '90d', '12h' or '2w'"
    if isinstance(duration, dt.timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        found = _TEXT.match(duration.lower())
        if found is None or (found[2] or "d") not in _SECONDS:
            raise ParameterError(Argument(name, duration), f": {expected} (units: {', '.join(_SECONDS)}).")
        seconds = float(found[1]) * _SECONDS[found[2] or "d"]
    elif isinstance(duration, (int, float, np.integer, np.floating)) and not isinstance(duration, bool):
        seconds = float(duration) * _SECONDS["d"]
    else:
        raise ParameterError(Argument(name, duration), f": {expected}.")
    if not (math.isfinite(seconds) and seconds > 0):
        raise ParameterError(Argument(name, duration), ": expected a length of time above 0.")
    return seconds


def size_unit(times: NDArray[Any]) -> str | None:
    """The unit of times since 1970 as the size of the latest tells; None where it does not, as before 1973.

    >>> size_unit(np.array([1_700_000_000])), size_unit(np.array([5, 900]))
    ('s', None)
    """
    latest = float(np.max(times)) if len(times) else 0.0
    return next((unit for least, unit in _FROM if latest >= least), None)


def _unit_of(times: NDArray[Any], name: str, unit: str) -> str:
    if unit != "auto":
        if unit not in _PER_SECOND:
            raise ParameterError(Argument("unit", unit), f": expected auto, {', '.join(_PER_SECOND)}.")
        return unit
    found = size_unit(times)
    if found is not None:
        return found
    latest = float(np.max(times)) if len(times) else 0.0
    raise DataError(
        f"{name}: the latest timestamp is {latest:g}, which is no time after 1973 in seconds (or finer) since 1970, so "
        f"its unit is not known. Say it with unit=: {', '.join(_PER_SECOND)}; or give the column as dates."
    )
