"""Checks of arguments and data: each raises an error with what was given and what was expected."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from tastespace.errors import Argument, DataError, ParameterError

MOST_WHOLE = 2**31 - 1
"""The largest whole number that a parameter may be: what the kernels hold in 32 bits."""
MOST_NUMBER = 1e30
"""The largest other number that a parameter may be: kernels compute in single precision, up to about 1e38."""


def is_whole(value: Any, least: int = 1) -> bool:
    """Return True for a whole number, Python's or NumPy's, of at least ``least``; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, (int, np.integer)) and bool(value >= least)


def require_whole(name: str, value: Any, least: int = 1, most: int = MOST_WHOLE) -> None:
    """Raise unless ``value`` is a whole number, ``least`` or more, that the kernels can take."""
    if not is_whole(value, least):
        raise ParameterError(Argument(name, value), f": expected a whole number, {least} or more.")
    if value > most:
        raise ParameterError(Argument(name, value), f": expected a whole number, at most {most:,}.")


def require_choice(name: str, value: Any, choices: Iterable[str | None]) -> None:
    """Raise unless ``value`` is one of these names."""
    known = list(choices)
    if not isinstance(value, (str, type(None))) or value not in known:
        raise ParameterError(Argument(name, value), f": expected one of {', '.join(map(repr, known))}.")


def require_number(name: str, value: Any, *, above: float | None = None, least: float | None = None) -> None:
    """Raise unless ``value`` is a finite number in this range."""
    number = is_finite_number(value)
    if above == 0.0 and not (number and value > 0):
        raise ParameterError(Argument(name, value), f": expected a positive, finite number, at most {MOST_NUMBER:g}.")
    if above is not None and not (number and value > above):
        raise ParameterError(Argument(name, value), f": expected a finite number above {above:g}.")
    if least is not None and not (number and value >= least):
        raise ParameterError(Argument(name, value), f": expected a number, {least:g} or more.")


def is_finite_number(value: Any) -> bool:
    """Return True for a number of at most `MOST_NUMBER` in size; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool) and bool(abs(value) <= MOST_NUMBER)  # type: ignore[operator]


def require_share(name: str, value: Any) -> None:
    """Raise unless ``value`` is a number from 0 to 1."""
    if not (is_finite_number(value) and 0 <= value <= 1):
        raise ParameterError(Argument(name, value), ": expected a number from 0 to 1.")


def require_spread(weight: Any, low: Any, high: Any) -> None:
    """Raise unless these are eta, delta_1 and delta_2 of DCRS; None leaves a side open."""
    require_number("spread_weight", weight, least=0.0)
    for name, value in (("min_spread", low), ("max_spread", high)):
        if value is not None:
            require_number(name, value, least=0.0)
    if low is not None and high is not None and low > high:
        raise ParameterError(
            Argument("min_spread", low),
            " is larger than ",
            Argument("max_spread", high),
            ": no spread lies between them. Swap them, or switch the regularizer off with dcrs=None.",
        )


def require_seed(seed: Any) -> None:
    """Raise unless the seed is a whole number of 64 bits."""
    if not is_whole(seed, 0) or seed >= 2**64:
        raise ParameterError(Argument("seed", seed), ": expected a whole number from 0 to 2**64 - 1.")


def require_nonnegative_weights(model: str, weights: Any) -> None:
    """Raise if a weight is negative."""
    if weights is not None and len(weights) and np.min(weights) < 0:
        raise DataError(
            f"{model} needs weights of 0 or more, given {int(np.sum(np.less(weights, 0))):,} negative ones, the "
            f"smallest {np.min(weights):g}. Shift them, or drop them with Interactions.without_weights()."
        )


def require_k(k: Any) -> int:
    """Raise unless ``k`` is a number of items, 1 or more; returns it as an int."""
    if not is_whole(k) or k > MOST_WHOLE:
        raise ParameterError(Argument("k", k), f": expected a number of items from 1 to {MOST_WHOLE:,}.")
    return int(k)


def require_on_unknown(on_unknown: Any, *, popular: bool = True) -> None:
    """Raise unless this says what to do with unknown ids: "error", "skip" or, where that is possible, "popular"."""
    if on_unknown not in ("error", "skip", *(("popular",) if popular else ())):
        choices = (
            "'error', 'skip' (leave out) or 'popular' (the most popular items)" if popular else "'error' or 'skip'"
        )
        raise ParameterError(Argument("on_unknown", on_unknown), f": expected {choices}.")
