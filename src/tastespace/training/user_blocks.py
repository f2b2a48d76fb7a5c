"""Training on blocks of users: which positives are visited together, and where the vectors of users are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.checks import require_whole
from tastespace.data.mapped_arrays import new_zeros, row_blocks
from tastespace.errors import ParameterError, require_path

USERS_AT_ONCE = 1_000_000
"""What the command line takes with ``--spill``: blocks of some gigabytes, and no blocks at all for fewer users."""


@dataclass(kw_only=True, eq=False, repr=False)
class UserBlockSettings:
    """What a model has that can be trained with user vectors larger than memory."""

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
                    f"{name}={value!r} keeps all vectors in memory, spill={str(self.spill)!r} is for those that do not "
                    "fit: leave one of them out."
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
