"""What all splits share: the check of ratios, an order within each history, and the parts themselves."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.threads import resolve_threads

log = logging.getLogger(__name__)


def parts_of(data: Interactions, part: NDArray[np.int8], n_parts: int) -> list[Interactions]:
    """The interactions of each part, given the number of its part for every interaction; -1: in no part."""
    parts = [data.subset(part == number) for number in range(n_parts)]
    log.info("split into %s interactions", " / ".join(f"{p.n_interactions:,}" for p in parts))
    return parts


def is_pair(split: Any) -> bool:
    """Whether this is a split into two parts, (train, held out)."""
    return isinstance(split, Sequence) and len(split) == 2 and all(isinstance(one, Interactions) for one in split)


def position_by(data: Interactions, keys: NDArray[Any]) -> NDArray[np.int32]:
    """Place 0 ... n_u - 1 of each interaction in its user's history, ordered by these keys; ties by item."""
    is_whole = np.issubdtype(keys.dtype, np.integer)
    values: Any = np.ascontiguousarray(keys, dtype=np.int64 if is_whole else np.float64)
    return _native.row_positions(np.ascontiguousarray(data.offsets), values, resolve_threads(0))


def check_ratios(ratios: Sequence[float]) -> list[Fraction]:
    """Shares of two or more parts that sum to 1, as the decimals that were typed."""
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
