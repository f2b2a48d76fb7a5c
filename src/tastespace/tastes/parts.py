"""Scores of a block of users, split by taste."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tastespace import _native


@dataclass(frozen=True, eq=False)
class TasteParts:
    """Parts of scores by taste, for some users and all items, and how they make a score.

    The score is ``(1 - focus) * sum + focus * maximum`` of the parts over the user's tastes, plus what does not come
    from the past: with ``focus=0`` the parts add up to it, with ``focus=1`` the strongest taste alone counts.

    >>> values = np.array([[1.0, 0.0], [0.5, 2.0]], np.float32)
    >>> parts = TasteParts(np.array([0, 2]), values, np.zeros((1, 1), np.float32), focus=0.5)
    >>> parts.totals().tolist(), parts.strongest().tolist()
    ([[1.25, 2.0]], [[0, 1]])
    >>> parts.totals(np.array([1.0, 0.0])).tolist()
    [[1.0, 0.0]]
    """

    first: NDArray[np.int64]
    """User i of the block has the rows ``first[i]:first[i + 1]``; shape ``(n_users + 1,)``."""
    values: NDArray[np.float32]
    """What each taste says for each item, ``(first[-1], n_items)``."""
    added: NDArray[np.float32]
    """Added to the scores, not from the past: ``(n_users, n_items)``, or ``(n_users, 1)`` where it is the same for all
    items."""
    focus: float = 0.0

    def scored(
        self, factors: NDArray[np.float64] | None = None, threads: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """The scores, and the taste that says most for each item, of equal ones the first: ``(n_users, n_items)`` both.

        ``factors`` multiply the parts, one for each row; tastes with 0 are as if they were not there.
        """
        totals, strongest = _native.taste_totals(
            np.ascontiguousarray(self.values), self.first, factors, focus=self.focus, threads=threads
        )
        totals += self.added
        return totals, strongest

    def totals(self, factors: NDArray[np.float64] | None = None, threads: int = 1) -> NDArray[np.float32]:
        """The scores of `scored`."""
        return self.scored(factors, threads)[0]

    def strongest(self, factors: NDArray[np.float64] | None = None, threads: int = 1) -> NDArray[np.int32]:
        """The tastes of `scored`."""
        return self.scored(factors, threads)[1]
