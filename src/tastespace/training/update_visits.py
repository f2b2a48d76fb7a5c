"""Which interactions an update visits: all new ones in every epoch, and a share of the old ones, drawn anew."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tastespace.data.added import Added

_DRAWS = 3  # beside the seeds of other random numbers
_OF_TOUCHED = 0.5  # share of the old interactions that is drawn from users with new ones


class UpdateVisits:
    """The positions of the interactions that each epoch of an update goes through.

    Half of the old ones are of users with new interactions, whose vectors change most; the others are of all users, so
    that nothing is forgotten. What an epoch visits depends on (seed, epoch) only.

    >>> import polars as pl
    >>> from tastespace.data.added import added
    >>> from tastespace.data.interactions import Interactions
    >>> old = Interactions.from_frame(pl.DataFrame({"user": ["ann", "bob"] * 3, "item": [1, 1, 2, 3, 4, 5]}))
    >>> new = Interactions.from_frame(pl.DataFrame({"user": ["ann"], "item": [3]}), part=True)
    >>> visits = UpdateVisits(added(old, new), n_old=2, seed=0)
    >>> len(visits), len(visits.of_epoch(0))
    (3, 3)
    """

    def __init__(self, found: Added, n_old: float, seed: int) -> None:
        """``n_old`` old interactions are visited for each new one, as far as there are so many."""
        self._seed = seed
        self._new = np.flatnonzero(found.is_new)
        owners = found.data.row_of_each()
        touched = np.zeros(found.data.n_users, dtype=bool)
        touched[owners[self._new]] = True
        old = ~found.is_new
        self._of_touched = np.flatnonzero(old & touched[owners])
        self._others = np.flatnonzero(old & ~touched[owners])
        n_drawn = min(round(n_old * len(self._new)), len(self._of_touched) + len(self._others))
        n_all = len(self._of_touched) + len(self._others)
        by_share = round(n_drawn * (_OF_TOUCHED + (1 - _OF_TOUCHED) * len(self._of_touched) / max(1, n_all)))
        self._n_of_touched = min(max(by_share, n_drawn - len(self._others)), len(self._of_touched))
        self._n_others = n_drawn - self._n_of_touched

    def __len__(self) -> int:
        return len(self._new) + self._n_of_touched + self._n_others

    def of_epoch(self, epoch: int) -> NDArray[np.int64]:
        """Positions among all interactions, each once, ascending, shape ``(len(self),)``."""
        random = np.random.default_rng([self._seed, _DRAWS, epoch])
        drawn = [
            part[random.choice(len(part), n, replace=False, shuffle=False)]
            for part, n in ((self._of_touched, self._n_of_touched), (self._others, self._n_others))
        ]
        return np.sort(np.concatenate([self._new, *drawn])).astype(np.int64)
