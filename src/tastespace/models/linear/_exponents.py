"""Powers of counts and the dropout that the linear models share: their checks and their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import is_finite_number, require_number
from tastespace.errors import Argument, ParameterError

MOST_POWER = 2.0
"""The largest size of a power: squares of it, of a million interactions, are within the numbers of 32 bits."""
MOST_RATIO = 1e30
"""The largest ratio of two factors of items: their coefficients are numbers of 32 bits."""


def require_power(name: str, value: Any, example: float) -> None:
    """Raise unless ``value`` is a power of counts that cannot overflow."""
    if not (is_finite_number(value) and abs(value) <= MOST_POWER):
        raise ParameterError(
            Argument(name, value),
            f": expected a finite number from {-MOST_POWER:g} to {MOST_POWER:g}, such as 0 or {example:g}.",
        )


def require_dropout(value: Any) -> None:
    """Raise unless ``value`` is a share that dropout may leave out."""
    require_number("dropout", value, least=0.0)
    if value >= 1:
        raise ParameterError(Argument("dropout", value), ": expected a share from 0 to below 1.")


def count_powers(counts: NDArray[np.integer[Any]], power: float) -> NDArray[np.float64]:
    """Counts divided by their mean, to a power; a count of 0 is taken as 1.

    >>> count_powers(np.array([1, 4, 0, 2]), 0.5).round(3).tolist()
    [0.707, 1.414, 0.707, 1.0]
    """
    at_least_one = np.maximum(counts, 1).astype(np.float64)
    found: NDArray[np.float64] = (at_least_one / at_least_one.mean()) ** power
    return found
