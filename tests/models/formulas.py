"""What several models' formulas, written out slowly, are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tastespace import EASE


def softmax(logits: Any) -> np.ndarray:
    powers = np.exp(logits - np.max(logits))
    return powers / powers.sum()


def slopes(loss: Callable[[], Any], numbers: Any) -> np.ndarray:
    """How a loss changes with each of the numbers, a torch tensor that it reads: central differences."""
    step, found = 1e-5, np.empty(numbers.shape)
    values = numbers.data  # the same memory, without a gradient's bookkeeping
    for at in np.ndindex(*numbers.shape):
        sides = []
        for sign in (1, -1):
            values[at] += sign * step
            sides.append(float(loss().detach()))
            values[at] -= sign * step
        found[at] = (sides[0] - sides[1]) / (2 * step)
    return found


def plain_ease(regularization: float = 100.0, memory_limit_gb: float | None = None, **parameters: Any) -> EASE:
    """EASE as published, but for these parameters."""
    return EASE(regularization, memory_limit_gb, **{**EASE.paper_form(), **parameters})
