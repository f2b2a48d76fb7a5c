"""Lengths of time in the unit of the timestamps: ``"90d"``, ``"12h"``, a number of days, or a `timedelta`."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.errors import DataError, ParameterError

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
            raise ParameterError(f"{name}={duration!r}: {expected} (units: {', '.join(_SECONDS)}).")
        seconds = float(found[1]) * _SECONDS[found[2] or "d"]
    elif isinstance(duration, (int, float, np.integer, np.floating)) and not isinstance(duration, bool):
        seconds = float(duration) * _SECONDS["d"]
    else:
        raise ParameterError(f"{name}={duration!r}: {expected}.")
    if not (math.isfinite(seconds) and seconds > 0):
        raise ParameterError(f"{name}={duration!r}: expected a length of time above 0.")
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
            raise ParameterError(f"unit={unit!r}: expected auto, {', '.join(_PER_SECOND)}.")
        return unit
    found = size_unit(times)
    if found is not None:
        return found
    latest = float(np.max(times)) if len(times) else 0.0
    raise DataError(
        f"{name}: the latest timestamp is {latest:g}, which is no time after 1973 in seconds (or finer) since 1970, so "
        f"its unit is not known. Say it with unit=: {', '.join(_PER_SECOND)}; or give the column as dates."
    )
