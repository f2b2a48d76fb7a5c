"""Hard negative sampling: its loss (Proposition 1) and the differentiable form (Lemmas 2 and 3, Theorem 3).

Distances, so smaller is better. One user at a time, written to be read and checked against, not for speed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tastespace.errors import ParameterError
from tastespace.evaluation.theory._partial_auc import (
    Floats,
    checked,
    checked_count,
    hinge_of,
    largest,
)


def hard_sampling_loss(
    positive_distances: ArrayLike, negative_distances: ArrayLike, n_hardest: int, margin: float = 1.0
) -> float:
    """Hard negative sampling's loss of one user (the paper's ``R^HarS``, one term of its outer sum).

    The mean of ``[margin + d+ - d-]_+`` over all pairs of a positive and one of the ``n_hardest`` NEAREST negatives.

    Proposition 1: this IS `opauc_hinge_loss` of the negated distances at ``beta = n_hardest / n-``. That is all
    it is. The paper's "<=>" with maximizing OPAUC holds for the hinge surrogate only, not for Eq. 4 (a model
    of larger hinge loss may have the larger OPAUC), and its displayed definition of OPAUC^{u_i} is this LOSS,
    which is to be minimized. What does hold: ``margin * (1 - opauc) <= loss``, so a small loss is a large
    OPAUC.

    Args:
        positive_distances: Shape ``(n+,)``, finite; smaller is better.
        negative_distances: Shape ``(n-,)``, finite.
        n_hardest: The paper's ``U``, from 1 (its standard hard sampling) to ``n-``.
        margin: The paper's lambda, above 0.

    >>> from tastespace.evaluation.theory._partial_auc import opauc_hinge_loss
    >>> near, far = [0.2, 1.0], [0.5, 0.9, 2.0, 3.0]
    >>> round(hard_sampling_loss(near, far, n_hardest=2), 3)
    0.9
    >>> round(opauc_hinge_loss(np.negative(near), np.negative(far), beta=2 / 4), 3)
    0.9
    """
    positive = checked(positive_distances, "positive_distances", finite=True)
    negative = checked(negative_distances, "negative_distances", finite=True)
    nearest = -largest(-negative, checked_count(n_hardest, "n_hardest", negative.size))
    return float(np.mean(hinge_of(nearest - positive[:, None], margin)))


# ---- Lemmas 2 and 3, Theorem 3 -----------------------------------------------------------------------------


def average_top_k(values: ArrayLike, k: int) -> float:
    """Mean of the k largest values: the left side of Lemma 2, divided by k.

    Args:
        values: The paper's ``z``, shape ``(n,)``, finite.
        k: From 1 to n.

    >>> average_top_k([3.0, 1.0, 2.0], k=2)
    2.5
    """
    z = checked(values, "values", finite=True)
    return float(np.mean(largest(z, checked_count(k, "k", z.size))))


def average_top_k_dual(values: ArrayLike, k: int, threshold: float | None = None, *, signed: bool = False) -> float:
    """The right side of Lemma 2, divided by k: ``min over gamma >= 0 of gamma + sum_t [z_t - gamma]_+ / k``.

    It needs no sorting inside the loss, which is why DiHarS trains with it. Lemma 2 says that it equals
    `average_top_k`. It does for ``z >= 0``, as hinge losses are, and exactly as long as the k-th largest
    value is not negative; the paper does not say so. Below 0 the constraint on gamma binds and the two
    differ:

    >>> average_top_k([5.0, 0.0, 2.0], k=2), average_top_k_dual([5.0, 0.0, 2.0], k=2)
    (3.5, 3.5)
    >>> average_top_k([-1.0, -2.0], k=1), average_top_k_dual([-1.0, -2.0], k=1)
    (-1.0, 0.0)
    >>> average_top_k_dual([-1.0, -2.0], k=1, signed=True)     # a gamma of any sign: true for all values
    -1.0

    Args:
        values: The paper's ``z``, shape ``(n,)``, finite.
        k: From 1 to n.
        threshold: The paper's ``gamma``: the objective there. None is the minimum, which lies at the k-th
            largest value (at 0 if that is negative).
        signed: Allow a negative gamma.
    """
    z = checked(values, "values", finite=True)
    count = checked_count(k, "k", z.size)
    if threshold is None:
        kth = float(largest(z, count)[0])
        threshold = kth if signed else max(0.0, kth)
    elif not np.isfinite(threshold) or (threshold < 0 and not signed):
        raise ParameterError(
            f"threshold is {threshold!r}; Lemma 2 has gamma >= 0: give a finite number of at least 0, or signed=True."
        )
    return float(threshold + np.maximum(z - threshold, 0).sum() / count)


def nested_hinge(constant: ArrayLike, score: ArrayLike, threshold: ArrayLike) -> Floats:
    """Left side of Lemma 3, ``[[c1 - s]_+ - c2]_+``; arguments broadcast.

    Lemma 3 says that it equals `flat_hinge`. It does for ``threshold >= 0``; the paper's ``c1 >= 0`` is not
    needed.

    >>> float(nested_hinge(1.0, 0.2, 0.5)), float(flat_hinge(1.0, 0.2, 0.5))
    (0.30000000000000004, 0.30000000000000004)
    >>> float(nested_hinge(0.0, 1.0, -1.0)), float(flat_hinge(0.0, 1.0, -1.0))     # a negative threshold
    (1.0, 0.0)
    """
    inner = np.maximum(np.subtract(constant, score, dtype=np.float64), 0)
    return np.asarray(np.maximum(inner - threshold, 0), dtype=np.float64)


def flat_hinge(constant: ArrayLike, score: ArrayLike, threshold: ArrayLike) -> Floats:
    """Right side of Lemma 3, ``[c1 - c2 - s]_+``; see `nested_hinge`."""
    return np.asarray(np.maximum(np.subtract(constant, score, dtype=np.float64) - threshold, 0), dtype=np.float64)


def differentiable_hard_sampling_loss(
    positive_distances: ArrayLike,
    negative_distances: ArrayLike,
    n_hardest: int,
    margin: float = 1.0,
    thresholds: ArrayLike | None = None,
) -> float:
    """DiHarS' loss of one user: Theorem 3 (main text; the appendix drops its ``1 / n+``).

    ``mean over j of gamma_j + sum_k [margin + d+_j - d-_k - gamma_j]_+ / N_beta``, over ALL negatives. At the
    best thresholds it is `hard_sampling_loss`, and at no others is it less.

    Args:
        positive_distances: Shape ``(n+,)``, finite; smaller is better.
        negative_distances: Shape ``(n-,)``, finite.
        n_hardest: ``N_beta``, from 1 to ``n-``.
        margin: The paper's lambda, above 0.
        thresholds: The paper's ``gamma_ij``, shape ``(n+,)`` or one number, at least 0. None takes the best:
            the ``n_hardest``-th largest hinge loss of each positive.

    >>> differentiable_hard_sampling_loss([0.5], [0.75, 1.0, 4.0], n_hardest=2)
    0.625
    >>> hard_sampling_loss([0.5], [0.75, 1.0, 4.0], n_hardest=2)
    0.625
    >>> differentiable_hard_sampling_loss([0.5], [0.75, 1.0, 4.0], n_hardest=2, thresholds=0.0)
    0.625
    >>> differentiable_hard_sampling_loss([0.5], [0.75, 1.0, 4.0], n_hardest=1, thresholds=0.0)
    1.25
    """
    positive = checked(positive_distances, "positive_distances", finite=True)
    negative = checked(negative_distances, "negative_distances", finite=True)
    count = checked_count(n_hardest, "n_hardest", negative.size)
    hinge = hinge_of(negative - positive[:, None], margin)
    gamma = largest(hinge, count)[:, 0] if thresholds is None else np.asarray(thresholds, dtype=np.float64)
    if gamma.ndim > 1 or (gamma.ndim == 1 and gamma.size != positive.size) or not np.all(gamma >= 0):
        raise ParameterError(
            f"thresholds has shape {gamma.shape} and smallest value {gamma.min(initial=np.inf):g}; give one "
            f"number of at least 0 for all, or one for each of the {positive.size} positives."
        )
    # Kept nested on purpose: Lemma 3, which training relies on, is then checked against this, not assumed.
    excess = np.maximum(hinge - gamma.reshape(-1, 1), 0)
    return float(np.mean(gamma + excess.sum(axis=1) / count))
