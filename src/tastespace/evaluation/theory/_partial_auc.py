"""One-way partial AUC (Eq. 4), and its hinge surrogate (Eq. 6).

Scores here are larger for a stronger preference, distances smaller; ``score = -distance`` turns one into the
other. Everything concerns ONE user and is written to be read and checked against, not for speed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tastespace._util.checks import is_whole
from tastespace.errors import ParameterError
from tastespace.training.samplers import n_beta

Floats = NDArray[np.float64]

# ---- Eq. 4 -------------------------------------------------------------------------------------------------


def opauc(positive_scores: ArrayLike, negative_scores: ArrayLike, beta: float) -> float:
    """One-way partial AUC of one user: the paper's ``OPAUC(f, beta)``, Eq. 4. LARGER scores are better.

    The share of (positive, hard negative) pairs in which the positive does NOT score below the negative,
    where the ``N_beta`` negatives of the largest scores are the hard ones. Eq. 4's 0-1 loss is 0 at 0, so a
    tie counts as correct. Normalized by ``n+ * N_beta``: 1 is perfect at every beta, and ``beta=1`` is the
    AUC (where nothing ties). The integral above Eq. 4 is not normalized: it is ``beta`` times this. For
    distances, pass their negatives.

    Args:
        positive_scores: Shape ``(n+,)``, not empty, without NaN; infinities are fine.
        negative_scores: Shape ``(n-,)``, likewise.
        beta: In (0, 1]; see `n_beta`.

    Returns:
        A number from 0 to 1.

    >>> opauc([0.9, 0.4], [0.5, 0.4, 0.3, 0.1], beta=0.5)     # 0.4 loses to 0.5 and ties with 0.4
    0.75
    >>> opauc([0.9, 0.4], [0.5, 0.4, 0.3, 0.1], beta=1.0)
    0.875
    """
    positive = checked(positive_scores, "positive_scores")
    negative = checked(negative_scores, "negative_scores")
    return float(opauc_of_each(positive[None], negative[None], beta)[0])


def opauc_of_each(positive_scores: ArrayLike, negative_scores: ArrayLike, beta: float) -> Floats:
    """`opauc` of many rankings of the same sizes at once.

    Args:
        positive_scores: Shape ``(rankings, n+)``.
        negative_scores: Shape ``(rankings, n-)``.
        beta: In (0, 1], the same for all.

    Returns:
        Shape ``(rankings,)``, from 0 to 1.

    >>> opauc_of_each([[3.0], [1.0]], [[2.0, 0.0], [2.0, 0.0]], beta=0.5).tolist()
    [1.0, 0.0]
    """
    positive = checked(positive_scores, "positive_scores", ndim=2)
    negative = checked(negative_scores, "negative_scores", ndim=2)
    if len(positive) != len(negative):
        raise ParameterError(
            f"positive_scores holds {len(positive)} rankings and negative_scores {len(negative)}; give one "
            "row per ranking in both."
        )
    n_hard = n_beta(negative.shape[1], beta)
    # Stable sort with the negatives first: among equal scores they come before the positives, so a negative
    # AFTER a positive (in ascending order) scores strictly more.
    order = np.argsort(np.concatenate([largest(negative, n_hard), positive], axis=1), axis=1, kind="stable")
    is_positive = order >= n_hard
    negatives_above = n_hard - np.cumsum(~is_positive, axis=1)
    misranked = np.sum(negatives_above, axis=1, where=is_positive)
    return np.asarray(1.0 - misranked / (positive.shape[1] * n_hard), dtype=np.float64)


def opauc_hinge_loss(positive_scores: ArrayLike, negative_scores: ArrayLike, beta: float, margin: float = 1.0) -> float:
    """The hinge surrogate of ``1 - opauc``: Eq. 6 with ``[margin - x]_+`` in place of the 0-1 loss.

    Args:
        positive_scores: Shape ``(n+,)``, finite; LARGER is better.
        negative_scores: Shape ``(n-,)``, finite.
        beta: In (0, 1]; see `n_beta`.
        margin: The paper's lambda, above 0.

    Returns:
        A number of at least ``margin * (1 - opauc(positive_scores, negative_scores, beta))``.

    >>> opauc_hinge_loss([2.0], [1.5, -9.0], beta=0.5)
    0.5
    """
    positive = checked(positive_scores, "positive_scores", finite=True)
    negative = checked(negative_scores, "negative_scores", finite=True)
    hard = largest(negative, n_beta(negative.size, beta))
    return float(np.mean(hinge_of(positive[:, None] - hard, margin)))


# ---- checks of arguments, and two steps that all losses share ----------------------------------------------


def checked(values: ArrayLike, name: str, *, ndim: int = 1, finite: bool = False) -> Floats:
    """``values`` as float64 of ``ndim`` dimensions, not empty, without NaN and, if asked, infinities."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != ndim or array.size == 0:
        raise ParameterError(
            f"{name} has shape {array.shape}; give {'one row per ranking' if ndim == 2 else 'a flat list'} "
            "with at least one number."
        )
    bad = ~np.isfinite(array) if finite else np.isnan(array)
    if bad.any():
        raise ParameterError(
            f"{name} holds {int(bad.sum())} {'infinite or NaN' if finite else 'NaN'} of {array.size} values, "
            f"the first at position {int(np.argmax(bad))}; remove them or find out where they come from."
        )
    return array


def checked_count(count: int, name: str, most: int) -> int:
    """``count`` if it is a whole number from 1 to ``most``."""
    if not is_whole(count) or count > most:
        raise ParameterError(f"{name} is {count!r}; give a whole number from 1 to {most}, the number of values.")
    return int(count)


def largest(values: Floats, k: int) -> Floats:
    """The k largest along the last axis, the smallest of them first and the rest in any order."""
    n = values.shape[-1]
    return np.partition(values, n - k, axis=-1)[..., n - k :]


def hinge_of(lead: Floats, margin: float) -> Floats:
    """``[margin - lead]_+``, where ``lead`` is by how much the positive is ahead."""
    if not (np.isfinite(margin) and margin > 0):
        raise ParameterError(f"margin is {margin!r}; it is the paper's lambda: give a finite number above 0.")
    return np.maximum(margin - lead, 0.0)
