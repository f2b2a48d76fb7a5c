"""Dates written as text: which order of day and month they have, and their times."""

from __future__ import annotations

import datetime
import logging

import polars as pl

from tastespace.errors import DataError, ParameterError

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
        raise ParameterError(f"date_format={date_format!r}: expected a format such as '%d/%m/%Y' or '%m/%d/%Y %H:%M'.")
    try:
        found = texts.str.to_datetime(date_format, strict=False, time_unit="us")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
        raise ParameterError(
            f"date_format={date_format!r} cannot be used ({next(iter(str(problem).splitlines()), '')}); expected a "
            "format such as '%d/%m/%Y' or '%m/%d/%Y %H:%M'."
        ) from problem
    if found.null_count():
        bad = found.is_null()
        raise DataError(
            f"{where}: {texts.filter(bad)[0]!r} does not have the form date_format={date_format!r} "
            f"({int(bad.sum()):,} such rows of {len(texts):,})."
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
