"""Greedy choice of diverse lists from pools, for many users at once: arrays in, positions out.

All algorithms share one form. ``relevance`` has shape ``(n, P)``: a pool per user, best first, minus infinity where a
pool holds fewer than P items. ``weight`` in [0, 1] is the share of diversity: 0 keeps the order of relevance, 1 looks
at nothing but diversity. The answer has shape ``(n, min(k, P))``: positions in the pool in their new order, -1 where
the pool is used up. Of equal values the earlier in the pool goes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native

Values = NDArray[np.float64]
Positions = NDArray[np.int64]

# Values that differ by less are equal up to rounding.
_SAME = 1e-12
# Chen et al. stop where the volume that an item adds is lost in rounding.
_FLAT = 1e-10
# Below any value of an item that still adds volume: log(_FLAT) is -23.
_FAR_BELOW = 1e3


def unit_range(scores: NDArray[Any]) -> Values:
    """Scores of any scale as relevance in [0, 1]: 1 for the best of a pool, 0 for the worst, linear in between.

    NaN stands for no item and becomes minus infinity; infinite scores count as the largest (smallest) finite one. Where
    all scores are equal, all relevance is 1. Shape ``(n, P)`` in and out.

    >>> unit_range(np.array([[9.0, 5.0, 1.0], [2.0, 2.0, np.nan]])).tolist()
    [[1.0, 0.5, 0.0], [1.0, 1.0, -inf]]
    """
    given = np.asarray(scores, dtype=np.float64)
    finite = np.isfinite(given)
    top = np.max(given, axis=1, keepdims=True, initial=-np.inf, where=finite)
    low = np.min(given, axis=1, keepdims=True, initial=np.inf, where=finite)
    top, low = np.where(np.isfinite(top), top, 1.0), np.where(np.isfinite(low), low, 0.0)
    with np.errstate(invalid="ignore"):
        scaled = np.where(top > low, (np.clip(given, low, top) - low) / np.where(top > low, top - low, 1.0), 1.0)
    return np.where(np.isnan(given), -np.inf, scaled)


def bounded_greedy(relevance: Values, distance: Values, weight: float, k: int) -> Positions:
    """Bounded greedy selection (Smyth and McClave, ICCBR 2001; Bridge and Kelly, AH 2006), as in the paper's appendix.

    Each step takes the item j of the largest quality relative to the list I so far,

        Q(j, I) = (1 - weight) relevance_j + weight RelDiv(j, I),

    where RelDiv is 1 for an empty list, else the mean of distance_jk over k in I. ``distance`` has shape ``(n, P, P)``.
    Sums are carried along: O(kP) per user.

    >>> apart = np.array([[[0, 0.1, 1], [0.1, 0, 1], [1, 1, 0]]])
    >>> bounded_greedy(np.array([[1.0, 0.9, 0.5]]), apart, weight=0.5, k=2).tolist()
    [[0, 2]]
    """
    users = np.arange(len(relevance))
    total = np.zeros(relevance.shape)

    def quality(step: int) -> Values:
        return (1 - weight) * relevance + weight * (total / step if step else 1.0)

    def take(step: int, picked: Positions) -> None:
        np.add(total, distance[users, picked], out=total)

    return _greedy(relevance, k, quality, take)


def maximal_marginal_relevance(relevance: Values, similarity: Values, weight: float, k: int) -> Positions:
    """Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998).

    Each step takes the item with the largest

        (1 - weight) relevance_j - weight max over chosen i of similarity_ij,

    the maximum being 0 while the list is empty; the publication's lambda is 1 - weight. ``similarity`` has shape
    ``(n, P, P)``. O(kP) per user.

    >>> alike = np.array([[[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]]])
    >>> maximal_marginal_relevance(np.array([[1.0, 0.9, 0.5]]), alike, weight=0.5, k=2).tolist()
    [[0, 2]]
    """
    users = np.arange(len(relevance))
    closest = np.zeros(relevance.shape)

    def margin(step: int) -> Values:
        return (1 - weight) * relevance - weight * closest

    def take(step: int, picked: Positions) -> None:
        np.maximum(closest if step else -np.inf, similarity[users, picked], out=closest)

    return _greedy(relevance, k, margin, take)


def determinantal(relevance: Values, similarity: Values, weight: float, k: int) -> Positions:
    """Greedy MAP inference for a determinantal point process (Chen, Zhang and Zhou, NeurIPS 2018), the fast version.

    The kernel is quality times similarity, L_ij = q_i S_ij q_j with q_i = exp(relevance_i (1 - weight) / (2 weight)),
    so that, up to a factor,

        log det L_I = (1 - weight) sum of relevance_i + weight log det S_I

    (their theta is 1 - weight). Each step takes the item that raises it most. The determinant grows
    by the square of the new diagonal entry of the Cholesky factor, which is updated instead of computed again: O(k^2 P)
    per user. As the qualities leave the determinant as plain factors, only S is factorized; that is the same choice and
    does not overflow. ``similarity`` is S: positive semi-definite, ones on the diagonal, shape ``(n, P, P)``. Once
    every item left lies in the span of the chosen ones (they stop there), the rest follows by relevance.

    >>> alike = np.array([[[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]]])
    >>> determinantal(np.array([[1.0, 0.9, 0.5]]), alike, weight=0.5, k=2).tolist()
    [[0, 2]]
    """
    n, size = relevance.shape
    users = np.arange(n)
    rows = np.zeros((n, min(k, size), size))  # of the Cholesky factor, transposed: one per chosen item
    left = np.einsum("upp->up", similarity).copy()  # squares of the diagonal entries that items would get

    def gain(step: int) -> Values:
        if weight == 0:
            return relevance
        volume = np.log(np.maximum(left, _FLAT))
        return np.where(left > _FLAT, (1 - weight) * relevance + weight * volume, relevance - _FAR_BELOW)

    def take(step: int, picked: Positions) -> None:
        remaining = left[users, picked]
        known = rows[users, :step, picked][:, None, :] @ rows[:, :step]
        row = similarity[users, picked] - known[:, 0]
        row /= np.sqrt(np.maximum(remaining, _FLAT))[:, None]
        row[remaining <= _FLAT] = 0.0
        rows[:, step] = row
        np.subtract(left, row * row, out=left)

    return _greedy(relevance, k, gain, take)


def calibrated(
    relevance: Values, shares: Values, target: Values, weight: float, k: int, smoothing: float = 0.01
) -> Positions:
    """Calibrated recommendations (Steck, RecSys 2018): categories in the proportions of the user's history.

    ``shares`` of shape ``(n, P, G)`` is p(g|i), the share of each category in an item (a row sums to 1, or to 0
    for an item without any); ``target`` of shape ``(n, G)`` is p(g|u), the shares in the history. Each step takes the
    item that makes the list I best by

        (1 - weight) sum of relevance - weight KL(p, q~),  KL(p, q~) = sum over g of p(g|u) log(p(g|u) / q~(g|u)),

    where q is the mean of the shares of the items of I that have a category and q~ = (1 - smoothing) q + smoothing p
    (Steck's lambda is weight, his alpha smoothing). Users without a target keep the order of relevance. The kernel
    (calibrated_lists.hpp) compares one item of each distinct set of categories; lists and mixes call it with
    pools of their own form, see `tastespace.recommend.rerank.pools`. Relevance must not rise within a pool.

    >>> shares = np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
    >>> calibrated(np.array([[1.0, 0.9, 0.5]]), shares, np.array([[0.5, 0.5]]), weight=0.5, k=2).tolist()
    [[0, 2]]
    """
    n, size = relevance.shape
    user, place = np.nonzero(relevance > -np.inf)
    sizes = np.bincount(user, minlength=n)
    kept = np.minimum(sizes, k)
    sets, set_of = category_sets(shares[user, place])
    found = calibrated_lists(
        np.concatenate([[0], np.cumsum(sizes)]), relevance[user, place], set_of, sets, target,
        weight=weight, k=k, smoothing=smoothing,
    )  # fmt: skip
    chosen = np.full((n, min(k, size)), -1, dtype=np.int64)
    chosen[np.arange(chosen.shape[1]) < kept[:, None]] = place[found]
    return chosen


def _greedy(
    relevance: Values, k: int, value: Callable[[int], Values], take: Callable[[int, Positions], None]
) -> Positions:
    """Repeatedly choose the free item of the largest value and call ``take`` with it, for all users at once."""
    n, size = relevance.shape
    users = np.arange(n)
    free = relevance > -np.inf
    chosen = np.full((n, min(k, size)), -1, dtype=np.int64)
    for step in range(chosen.shape[1]):
        with np.errstate(invalid="ignore"):  # 0 times infinity, where there is no item
            values = np.where(free, value(step), -np.inf)
        picked = (values >= values.max(axis=1, keepdims=True) - _SAME).argmax(axis=1)
        chosen[:, step] = np.where(free[users, picked], picked, -1)
        free[users, picked] = False
        take(step, picked)
    return chosen


# Input of the kernel of calibrated lists (native/lists/calibrated_lists.hpp): category sets and pool relevance.


@dataclass(frozen=True, eq=False)
class CategorySets:
    """Distinct sets of categories, each category with the share that it has; a category and a share are a term."""

    offsets: NDArray[np.int64]
    """Set s is the terms ``terms[offsets[s]:offsets[s + 1]]``. Shape ``(n_sets + 1,)``."""
    terms: NDArray[np.int32]
    """Numbers of terms."""
    categories: NDArray[np.int32]
    """Category of each term, shape ``(n_terms,)``."""
    shares: Values
    """Share of each term, shape ``(n_terms,)``."""

    @classmethod
    def single(cls, n_categories: int) -> CategorySets:
        """Sets of one category each: set g has category g.

        >>> CategorySets.single(2).terms.tolist()
        [0, 1]
        """
        numbers = np.arange(n_categories, dtype=np.int32)
        return cls(np.arange(n_categories + 1, dtype=np.int64), numbers, numbers, np.ones(n_categories))


def category_sets(shares: Any) -> tuple[CategorySets, NDArray[np.int32]]:
    """Return the distinct rows of a table of shares, and the number of the distinct row of each row.

    ``shares`` of shape ``(n, n_categories)``, dense or sparse, holds the share of each category in each item.

    >>> sets, of_item = category_sets(np.array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5], [0.0, 0.0]]))
    >>> of_item.tolist(), sets.offsets.tolist()
    ([2, 1, 2, 0], [0, 0, 1, 3])
    >>> sets.categories[sets.terms].tolist(), sets.shares[sets.terms].tolist()
    ([1, 0, 1], [1.0, 0.5, 0.5])
    """
    table = sp.csr_array(shares)
    table.eliminate_zeros()
    table.sort_indices()
    starts, lengths = table.indptr[:-1].astype(np.int64), np.diff(table.indptr)
    values, value = np.unique(table.data, return_inverse=True)
    keys, term = np.unique(table.indices * np.int64(max(1, len(values))) + value, return_inverse=True)
    # Rows with the same first terms have the same number; one term more is looked at where several rows share a number.
    number, n_numbers = np.zeros(len(lengths), dtype=np.int64), 1
    rows, place = np.flatnonzero(lengths > 0), 0
    while len(rows):
        _, code, count = np.unique(
            number[rows] * len(keys) + term[starts[rows] + place], return_inverse=True, return_counts=True
        )
        number[rows] = n_numbers + code
        n_numbers += len(count)
        place += 1
        rows = rows[(count[code] > 1) & (lengths[rows] > place)]
    _, example, of_row = np.unique(number, return_index=True, return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum(lengths[example])]).astype(np.int64)
    at = np.arange(offsets[-1]) + np.repeat(starts[example] - offsets[:-1], lengths[example])
    categories, values_of = np.divmod(keys, max(1, len(values)))
    sets = CategorySets(offsets, term[at].astype(np.int32), categories.astype(np.int32), values[values_of])
    return sets, of_row.astype(np.int32)


def pool_relevance(offsets: NDArray[np.int64], scores: NDArray[Any], threads: int) -> Values:
    """Scores as relevance, per pool: 1 for the best, 0 for the worst; a score above an earlier one counts as that one.

    >>> pool_relevance(np.array([0, 3, 5]), np.array([9.0, 5.0, 1.0, 2.0, 2.0]), threads=1).tolist()
    [1.0, 0.5, 0.0, 1.0, 1.0]
    """
    return _native.pool_relevance(offsets, np.ascontiguousarray(scores, dtype=np.float64), threads)


def calibrated_lists(
    offsets: NDArray[np.int64],
    relevance: Values,
    set_of: NDArray[np.int32],
    sets: CategorySets,
    target: Values,
    *,
    weight: float,
    k: int,
    smoothing: float = 0.01,
    threads: int = 1,
) -> NDArray[np.int64]:
    """Choose the first k entries of each pool, user by user in their new order.

    The pool of user i is the entries ``offsets[i] ... offsets[i + 1] - 1``, best first, with this relevance and the
    sets of categories ``set_of``; ``target`` of shape ``(n_users, n_categories)`` is the user's own mix. For the rule
    see `tastespace.recommend.rerank._algorithms.calibrated`.

    >>> calibrated_lists(
    ...     np.array([0, 3]), np.array([1.0, 0.9, 0.5]), np.array([0, 0, 1], dtype=np.int32), CategorySets.single(2),
    ...     np.array([[0.5, 0.5]]), weight=0.5, k=2,
    ... ).tolist()
    [0, 2]
    """
    return _native.calibrated_lists(
        _native.Pools(offsets=offsets, relevance=relevance, sets=set_of),
        _native.CategorySets(offsets=sets.offsets, terms=sets.terms, categories=sets.categories, shares=sets.shares),
        np.ascontiguousarray(target, dtype=np.float64),
        _native.Calibration(weight=weight, smoothing=smoothing, k=k),
        threads,
    )
