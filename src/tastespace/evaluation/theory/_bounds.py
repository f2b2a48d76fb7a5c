"""Bounds: precision and recall from OPAUC (Theorem 2), the generalization bound (Theorem 1)."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tastespace._util.checks import is_whole
from tastespace.errors import ParameterError
from tastespace.evaluation.theory._partial_auc import Floats

Counts = NDArray[np.integer[Any]]


# ---- Theorem 2 ---------------------------------------------------------------------------------------------


@overload
def precision_lower_bound(
    opauc: float, n_positives: int, n_hard: int, k: int, *, sharp: bool = ..., check: bool = ...
) -> float: ...
@overload
def precision_lower_bound(
    opauc: Floats,
    n_positives: int | Counts,
    n_hard: int | Counts,
    k: int,
    *,
    sharp: bool = ...,
    check: bool = ...,
) -> Floats: ...
def precision_lower_bound(
    opauc: float | Floats,
    n_positives: int | Counts,
    n_hard: int | Counts,
    k: int,
    *,
    sharp: bool = False,
    check: bool = True,
) -> float | Floats:
    """Theorem 2, Eq. 27: precision at k is at least this, whatever ranking has that OPAUC.

    ``floor(((n+ + k) - sqrt((n+ - k)^2 + 4 n+ N_beta (1 - OPAUC))) / 2) / k``, and 0 where that is negative.
    With h hits among the first k, the ``n+ - h`` other positives lie below at least ``k - h`` negatives, so
    at least ``(n+ - h)(k - h)`` pairs are wrong; OPAUC says how many are, and the rest is a quadratic
    equation.

    Its assumptions, and those that the paper states:

    * ``N_beta >= k`` (in the paper: beta >= k / n-), or those ``k - h`` negatives do not all count.
      Three negatives above three positives, ``N_beta = 1``, k = 3: OPAUC is 0 and no hit is among the first
      three, yet the formula promises one.

      >>> round(precision_lower_bound(0.0, n_positives=3, n_hard=1, k=3, check=False), 3)
      0.333

    * No positive ties with a negative, or ties are ranked in the positive's favor: Eq. 4 counts a tie as
      correct, so all scores equal means OPAUC 1, while the first k may be all negatives. Not in the paper.
    * ``n+ >= k`` and ``n- >= k``, says the paper. The second follows from the first point; the first is not
      needed (with fewer positives the bound tends to ``n+ / k``).

    Args:
        opauc: Eq. 4's value, from 0 to 1; one number or an array, shape ``(users,)``.
        n_positives: ``n+``, at least 1.
        n_hard: ``N_beta`` of the same OPAUC, from `n_beta`.
        k: Length of the list, the paper's ``N``.
        sharp: Hits are whole, so the root may be rounded UP; the paper rounds it down. The sharp bound is
            tight.
        check: Refuse ``n_hard < k``, where the theorem is false.

    Returns:
        In [0, 1], the shape of the broadcast arguments.

    >>> precision_lower_bound(0.95, n_positives=10, n_hard=20, k=5)
    0.6
    >>> precision_lower_bound(0.95, n_positives=10, n_hard=20, k=5, sharp=True)
    0.8
    """
    bound = _hits_lower_bound(opauc, n_positives, n_hard, k, sharp, check) / k
    return float(bound) if bound.ndim == 0 else bound


@overload
def recall_lower_bound(
    opauc: float, n_positives: int, n_hard: int, k: int, *, sharp: bool = ..., check: bool = ...
) -> float: ...
@overload
def recall_lower_bound(
    opauc: Floats,
    n_positives: int | Counts,
    n_hard: int | Counts,
    k: int,
    *,
    sharp: bool = ...,
    check: bool = ...,
) -> Floats: ...
def recall_lower_bound(
    opauc: float | Floats,
    n_positives: int | Counts,
    n_hard: int | Counts,
    k: int,
    *,
    sharp: bool = False,
    check: bool = True,
) -> float | Floats:
    """Theorem 2, Eq. 28: recall at k is at least this; all else as in `precision_lower_bound`.

    >>> recall_lower_bound(0.95, n_positives=10, n_hard=20, k=5)
    0.3
    """
    bound = _hits_lower_bound(opauc, n_positives, n_hard, k, sharp, check) / np.asarray(n_positives)
    return float(bound) if bound.ndim == 0 else bound


def _hits_lower_bound(
    opauc: float | Floats, n_positives: int | Counts, n_hard: int | Counts, k: int, sharp: bool, check: bool
) -> Floats:
    value = np.asarray(opauc, dtype=np.float64)
    positives, hard = np.asarray(n_positives), np.asarray(n_hard)
    if not np.all((value >= 0) & (value <= 1)):
        raise ParameterError(f"opauc is {opauc!r}; give what `opauc` returns, numbers in [0, 1].")
    for name, count in (("n_positives", positives), ("n_hard", hard), ("k", np.asarray(k))):
        if count.dtype.kind not in "iu" or count.size == 0 or count.min() < 1:
            raise ParameterError(f"{name} is {count.tolist()!r}; give whole numbers of at least 1.")
    if check and hard.min() < k:
        raise ParameterError(
            f"n_hard is {int(hard.min())} and k is {k}; Theorem 2 is false where fewer than k negatives "
            "count: take a larger beta (at least k / n-) or a smaller k."
        )
    pairs = np.multiply(positives, hard, dtype=np.float64)
    misranked = pairs * (1.0 - value)
    # An OPAUC of real data stands for a whole number of wrong pairs; its rounding must not cross a floor.
    whole = np.rint(misranked)
    misranked = np.where(np.abs(misranked - whole) <= 4 * np.finfo(np.float64).eps * pairs, whole, misranked)
    root = (positives + k - np.sqrt(np.square(positives - float(k)) + 4.0 * misranked)) / 2.0
    return np.asarray(np.maximum(np.ceil(root) if sharp else np.floor(root), 0.0), dtype=np.float64)


# ---- Theorem 1 ---------------------------------------------------------------------------------------------


def effective_sample_size(
    n_positives: ArrayLike, n_negatives: ArrayLike, *, spread_weight: float, radius: float = 1.0
) -> float:
    """Theorem 1's ``N~``, the number of independent observations that the data are worth.

    ``N~ = 1 / (16 r^4 ((4 + eta)^2 / |U| + 2 / |U|^2 * sum over users of (1 / n+ + 1 / n-)))``. The first
    term rules: N~ is about ``|U| / (16 r^4 (4 + eta)^2)``, however many items each user has.

    Args:
        n_positives: ``n+`` of each user, shape ``(users,)``, at least 1.
        n_negatives: ``n-`` of each user, shape ``(users,)``, at least 1.
        spread_weight: The paper's eta, at least 0: the weight of DCRS.
        radius: The paper's r, above 0: all vectors lie in a ball of that radius.

    >>> round(effective_sample_size([18] * 3757, [5095] * 3757, spread_weight=10), 2)  # as Steam-200k
    1.2
    """
    positives = np.asarray(n_positives, dtype=np.float64)
    negatives = np.asarray(n_negatives, dtype=np.float64)
    for name, count in (("n_positives", positives), ("n_negatives", negatives)):
        if count.ndim != 1 or count.size == 0 or not np.all(count >= 1):
            raise ParameterError(
                f"{name} has shape {count.shape} and smallest value {count.min(initial=np.inf):g}; give one number of "
                "at least 1 per user, and leave out users without any."
            )
    if positives.size != negatives.size:
        raise ParameterError(
            f"n_positives has {positives.size} users and n_negatives {negatives.size}; give both for the same users."
        )
    if not (np.isfinite(spread_weight) and spread_weight >= 0):
        raise ParameterError(f"spread_weight is {spread_weight!r}; give a finite number of at least 0.")
    if not (np.isfinite(radius) and radius > 0):
        raise ParameterError(f"radius is {radius!r}; give a finite number above 0.")
    users = positives.size
    per_item = float(np.sum(1.0 / positives + 1.0 / negatives))
    spread = (4.0 + spread_weight) ** 2 / users + 2.0 * per_item / users**2
    return float(1.0 / (16.0 * radius**4 * spread))


def generalization_bound(
    n_positives: ArrayLike, n_negatives: ArrayLike, *, dim: int, spread_weight: float, radius: float = 1.0
) -> float:
    """Theorem 1, the right side of Eq. 22: ``sqrt(2 d log(3 r N~) / N~)``.

    The paper bounds by it, "with high probability", how far the loss on the data lies from the expected loss.

    **It is vacuous at the sizes of the paper's data**: with d = 100, r = 1, eta = 10 it is 14.6 on Steam-200k
    and 13.5 on MovieLens-1M; even with eta = 0 it is 7.2 and 6.0, where with a margin of 1 no loss can exceed
    ``margin + 4 r^2 = 5``. So nothing in this library claims to have verified it; the formula is here to be
    evaluated. Beyond that:

    * The proof's own probability of failure is far above 1 there: `generalization_log10_failure`.
    * Below ``3 r N~ = e`` the formula FALLS as N~ does: less data, smaller bound. At ``3 r N~ <= 1`` the
      logarithm is not positive and nothing is claimed: infinity here (Steam-200k with eta = 30, say).
    * "It does not depend on C" because the proof covers one ball in d dimensions, not one for each of the
      ``|U| C + |I|`` vectors that are learned.

    Args:
        n_positives: ``n+`` of each user, shape ``(users,)``, at least 1.
        n_negatives: ``n-`` of each user, shape ``(users,)``, at least 1.
        dim: The paper's d.
        spread_weight: The paper's eta, at least 0.
        radius: The paper's r, above 0.

    >>> steam = {"n_positives": [18] * 3757, "n_negatives": [5095] * 3757, "dim": 100}
    >>> round(generalization_bound(**steam, spread_weight=10), 1)
    14.6
    >>> round(generalization_bound(**steam, spread_weight=0), 1)
    7.2
    >>> generalization_bound(**steam, spread_weight=30)
    inf
    """
    log, size = _log_term(n_positives, n_negatives, dim, spread_weight, radius)
    return float(np.sqrt(2.0 * dim * log / size)) if log > 0 else float("inf")


def generalization_log10_failure(
    n_positives: ArrayLike, n_negatives: ArrayLike, *, dim: int, spread_weight: float, radius: float = 1.0
) -> float:
    """Log10 of the probability with which Theorem 1 may fail, as the last display of its proof has it.

    ``2 (3 r B^2 / (2 d log(3 r N~)))^d`` with ``B = 16 r (4 + eta)``. "With high probability" would ask for a
    number well below 0; above 0 the theorem says nothing. Arguments as in `generalization_bound`.

    >>> steam = {"n_positives": [18] * 3757, "n_negatives": [5095] * 3757, "dim": 100}
    >>> round(generalization_log10_failure(**steam, spread_weight=10))
    277
    """
    log, _ = _log_term(n_positives, n_negatives, dim, spread_weight, radius)
    if log <= 0:
        return float("inf")
    reach = 16.0 * radius * (4.0 + spread_weight)
    return float(np.log10(2.0) + dim * np.log10(3.0 * radius * reach**2 / (2.0 * dim * log)))


def _log_term(
    n_positives: ArrayLike, n_negatives: ArrayLike, dim: int, spread_weight: float, radius: float
) -> tuple[float, float]:
    """``log(3 r N~)`` and ``N~``."""
    if not is_whole(dim):
        raise ParameterError(f"dim is {dim!r}; give the number of dimensions, a whole number of at least 1.")
    size = effective_sample_size(n_positives, n_negatives, spread_weight=spread_weight, radius=radius)
    return float(np.log(3.0 * radius * size)), size
