"""Vectors per user (BPA, APA) and hard negatives per user (N_beta)."""

from __future__ import annotations

from fractions import Fraction
from numbers import Real
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import require_whole
from tastespace.errors import ParameterError

Floats = NDArray[np.float64]

_MOST_INTERESTS = 4096  # a larger number is taken for a mistake

# Parsing 0.29 is off by up to half an ulp and so is the product: 2 eps suffice for them. 4 eps also cover the rounding
# of a beta that was computed, such as 1 / 49.
_SLACK = 1.0 + 4.0 * np.finfo(np.float64).eps


def interests_per_user(
    n_positives: NDArray[np.integer[Any]], n_interests: int | str, least: int = 1, log_base: float = 3.0
) -> NDArray[np.int64]:
    """Number of vectors of each user, shape ``(n_users,)``.

    Args:
        n_positives: Train interactions of each user, n_i.
        n_interests: A whole number C >= 1 gives all users C (BPA); ``"adaptive"`` gives
            ``max(least, floor(log_a n_i))`` (APA).
        least: C_1, minimum number of vectors per user.
        log_base: a > 1; the larger, the fewer.

    The logarithm is exact: its floor is found by comparing whole powers of the base, not by dividing logarithms.

    >>> interests_per_user(np.array([1, 9, 242, 243]), "adaptive", least=1, log_base=3).tolist()
    [1, 2, 4, 5]
    >>> interests_per_user(np.array([1, 9]), 4).tolist()
    [4, 4]
    """
    if isinstance(n_interests, (int, np.integer)) and not isinstance(n_interests, bool):
        if n_interests < 1:
            raise ParameterError(f"n_interests={n_interests}: expected at least 1 vector per user, or 'adaptive'.")
        return np.full(len(n_positives), n_interests, dtype=np.int64)
    if n_interests != "adaptive":
        raise ParameterError(f"n_interests={n_interests!r}: expected a whole number or 'adaptive'.")
    require_whole("min_interests", least)
    if not isinstance(log_base, Real) or not log_base > 1 or not np.isfinite(log_base):
        raise ParameterError(f"log_base={log_base!r}: expected a number larger than 1.")
    base = Fraction(repr(float(log_base)))  # the decimal that was typed
    powers = []
    power = base
    largest = int(n_positives.max(initial=1))
    while power <= largest:
        powers.append(-(-power.numerator // power.denominator))  # n >= power means n >= its ceiling
        power *= base
        if len(powers) > _MOST_INTERESTS:
            raise ParameterError(
                f"log_base={log_base!r} is so close to 1 that a user would get more than {_MOST_INTERESTS} vectors."
            )
    floor_log = np.searchsorted(np.array(powers, dtype=np.int64), n_positives, side="right")
    return np.maximum(least, floor_log).astype(np.int64)


@overload
def n_beta(n_negatives: int, beta: float) -> int: ...
@overload
def n_beta(n_negatives: NDArray[np.integer[Any]], beta: float | Floats) -> NDArray[np.int64]: ...
def n_beta(n_negatives: int | NDArray[np.integer[Any]], beta: float | Floats) -> int | NDArray[np.int64]:
    """Number of the hardest negatives that enter the loss: the paper's ``N_beta = max(1, floor(n- * beta))``.

    The paper has no ``max``, but then three of its seven betas leave no negative at all on its own data. The
    product is raised by 4 machine epsilons (relative) before it is cut: binary fractions make
    ``100 * 0.29 = 28.999999999999996`` and ``49 * (1 / 49) < 1``, and the second would break Proposition 1.
    A beta that close below a whole ``n- * beta`` therefore counts as that whole number.

    Args:
        n_negatives: ``n-``, at least 1. One number, or an array of any shape (one per user).
        beta: Share of the negatives that counts (the false positive rate up to which the ROC curve is
            followed), in (0, 1]. An array is broadcast against ``n_negatives``.

    Returns:
        A whole number in ``[1, n-]``, or an array of them.

    >>> n_beta(100, 0.29), n_beta(49, 1 / 49), n_beta(3, 0.1)
    (29, 1, 1)
    >>> n_beta(np.array([10, 25]), 0.2).tolist()
    [2, 5]
    """
    count = np.asarray(n_negatives)
    share = np.asarray(beta, dtype=np.float64)
    if count.dtype.kind not in "iu" or count.size == 0 or count.min() < 1:
        raise ParameterError(f"n_negatives is {n_negatives!r}; give whole numbers of at least 1.")
    if share.size == 0 or not np.all((share > 0) & (share <= 1)):
        raise ParameterError(
            f"beta is {beta!r}; it is the share of the negatives that counts: give a number in (0, 1], "
            "1 for the whole AUC."
        )
    hardest = np.clip(np.floor(count * share * _SLACK), 1, count).astype(np.int64)
    return int(hardest) if hardest.ndim == 0 else hardest
