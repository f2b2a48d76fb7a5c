"""Pools and categories in the form that the kernel of calibrated lists takes (native/calibrated_lists.hpp)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native

Values = NDArray[np.float64]


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
    """The distinct rows of a table of shares, and which of them each row is.

    ``shares`` of shape ``(n, n_categories)``, dense or sparse, is how the categories share each item.

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
    """Which entries of the pools stay, user by user in their new order: the first k of each.

    The pool of user i is the entries ``offsets[i] ... offsets[i + 1] - 1``, best first, with this relevance and the
    sets of categories ``set_of``; ``target`` of shape ``(n_users, n_categories)`` is the user's own mix. For the rule
    see `tastespace.recommend.rerank_algorithms.calibrated`.

    >>> calibrated_lists(
    ...     np.array([0, 3]), np.array([1.0, 0.9, 0.5]), np.array([0, 0, 1], dtype=np.int32), CategorySets.single(2),
    ...     np.array([[0.5, 0.5]]), weight=0.5, k=2,
    ... ).tolist()
    [0, 2]
    """
    return _native.calibrated_lists(
        offsets=offsets,
        relevance=relevance,
        sets=set_of,
        set_offsets=sets.offsets,
        set_terms=sets.terms,
        term_categories=sets.categories,
        term_shares=sets.shares,
        target=np.ascontiguousarray(target, dtype=np.float64),
        weight=weight,
        smoothing=smoothing,
        k=k,
        threads=threads,
    )
