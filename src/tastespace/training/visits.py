"""Positives that an epoch visits: in blocks of users, and in an update all new ones with a share of the old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import require_whole
from tastespace.data.merge import Added
from tastespace.data.out_of_core.mapped_arrays import new_zeros, row_blocks
from tastespace.errors import Argument, ParameterError, require_path

# ---------------------------------------------------------------------------------------------------------------------
# Interactions that an update visits: all new ones in every epoch, and a share of the old ones, drawn again in each.

_DRAWS = 3  # next to the seeds of other random numbers
_OF_TOUCHED = 0.5  # share of the old interactions that is drawn from users with new ones


class UpdateVisits:
    """The positions of the interactions that each epoch of an update goes through.

    Half of the old ones are of users with new interactions, whose vectors change most; the others are of all users, so
    that nothing is forgotten. What an epoch visits depends on (seed, epoch) only.

    >>> import polars as pl
    >>> from tastespace.data.merge import added
    >>> from tastespace.data.interactions import Interactions
    >>> old = Interactions.from_frame(pl.DataFrame({"user": ["ann", "bob"] * 3, "item": [1, 1, 2, 3, 4, 5]}))
    >>> new = Interactions.from_frame(pl.DataFrame({"user": ["ann"], "item": [3]}), part=True)
    >>> visits = UpdateVisits(added(old, new), n_old=2, seed=0)
    >>> len(visits), len(visits.of_epoch(0))
    (3, 3)
    """

    def __init__(self, found: Added, n_old: float, seed: int) -> None:
        """Visit ``n_old`` old interactions for each new one, or all of them if there are fewer."""
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


# ---------------------------------------------------------------------------------------------------------------------
# Training on blocks of users: the positives that are visited together, and the place of the users' vectors.

USERS_AT_ONCE = 1_000_000
"""Default of the command line with ``--spill``: blocks of some gigabytes, and no blocks at all for fewer users."""


@dataclass(kw_only=True, eq=False, repr=False)
class UserBlockSettings:
    """Parameters of models that can be trained with user vectors larger than memory."""

    users_at_once: int | None = None
    """An epoch goes through the positives of so many users at a time, block after block in random order; None: all
    users at once. For user vectors in files; the same blocks give the same bits in memory."""
    spill: str | None = None
    """Folder in which `fit` keeps the vectors of users, and the optimizer's state, as mapped files; None: in memory.
    Give `users_at_once` as well, or each positive may have to wait for the disk."""

    def _check_user_blocks(self, **unsupported: Any) -> None:
        """Raise `ParameterError` for invalid settings; ``unsupported`` are parameters that need memory."""
        if self.users_at_once is not None:
            require_whole("users_at_once", self.users_at_once)
        if self.spill is None:
            return
        require_path(self.spill, "spill")
        for name, value in unsupported.items():
            if value:
                raise ParameterError(
                    Argument(name, value),
                    " keeps all vectors in memory, ",
                    Argument("spill", str(self.spill)),
                    " is for those that do not fit: leave one of them out.",
                )


def user_blocks(
    offsets: NDArray[np.int64], users_at_once: int, seed: int, epoch: int
) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Blocks of users in the random order of an epoch: first user, last user + 1, positions of their positives.

    >>> [(a, b, at.tolist()) for a, b, at in user_blocks(np.array([0, 2, 2, 3, 5]), 2, seed=0, epoch=0)]
    [(2, 4, [2, 3, 4]), (0, 2, [0, 1])]
    """
    n_users = len(offsets) - 1
    n_blocks = -(-n_users // users_at_once)
    for block in np.random.default_rng([seed, epoch, 2]).permutation(n_blocks):
        first = int(block) * users_at_once
        last = min(n_users, first + users_at_once)
        at = np.arange(offsets[first], offsets[last], dtype=np.int64)
        if len(at):
            yield first, last, at


def filled(
    spill: str | None, shape: tuple[int, int], values: Callable[[tuple[int, int]], NDArray[Any]]
) -> NDArray[np.float32]:
    """A new array of single precision, filled in blocks of rows with ``values(shape of the block)``."""
    array: NDArray[np.float32] = new_zeros(spill, shape, np.float32)
    for rows in row_blocks(array):
        array[rows] = values((rows.stop - rows.start, shape[1]))
    return array
