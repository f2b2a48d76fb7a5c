"""Negative sampling: the items that the user does not have and that enter the loss.

| name                    | paper   | negatives drawn      | enter the loss                                           |
| ----------------------- | ------- | -------------------- | -------------------------------------------------------- |
| ``uniform``             | UniS    | U uniform            | all U, each with weight 1/U                              |
| ``popularity``          | PopS    | U by item popularity | all U, each with weight 1/U                              |
| ``two-stage``           | 2stS    | S by item popularity | the U with the largest inner product with the positive   |
| ``hard``                | HarS    | S uniform            | the U nearest to the user (U = 1: the hardest)           |
| ``hard-sorted``         | NDiHarS | J_2 uniform          | the N_beta nearest to the user (a sort)                  |
| ``hard-differentiable`` | DiHarS  | J_2 uniform          | violations of the margin by more than a learned gamma_ij |

All draw true negatives only (never a train item of the user), without replacement within one positive. N_beta =
max(1, floor(beta n_i^-)) comes from all of the user's negatives and is applied, unscaled, to the J_2 that were drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import is_whole
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, ParameterError, nearest

Alias = tuple[NDArray[np.float32], NDArray[np.int32]]
UNIFORM: Alias = (np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int32))
"""The alias table of uniform draws, for the kernels: empty."""


@dataclass(frozen=True)
class SamplerKind:
    """Definition of a sampler."""

    name: str
    paper_name: str
    rule: _native.Sampler
    """Rule that chooses the negatives that enter the loss."""
    by_popularity: bool = False
    uses_beta: bool = False
    takes_hardest: bool = False
    """True if it uses only some of the negatives it draws, `n_hardest` of them."""
    n_negatives: int = 10
    """Drawn for each positive unless said otherwise."""


SAMPLERS = {
    kind.name: kind
    for kind in (
        SamplerKind("uniform", "UniS", _native.Sampler.ALL),
        SamplerKind("popularity", "PopS", _native.Sampler.ALL, by_popularity=True),
        SamplerKind(
            "two-stage", "2stS", _native.Sampler.TWO_STAGE, by_popularity=True, takes_hardest=True, n_negatives=50
        ),
        SamplerKind("hard", "HarS", _native.Sampler.HARDEST, takes_hardest=True),
        SamplerKind("hard-sorted", "NDiHarS", _native.Sampler.HARDEST, uses_beta=True, n_negatives=100),
        SamplerKind("hard-differentiable", "DiHarS", _native.Sampler.DIFFERENTIABLE, uses_beta=True, n_negatives=100),
    )
}
_HARD_NEGATIVES = ((2_000, 5), (5_000, 10), (math.inf, 20))  # up to so many items, so many negatives
_BY_ANY_NAME = {name.lower(): kind for kind in SAMPLERS.values() for name in (kind.name, kind.paper_name)}


def find_sampler(name: str) -> SamplerKind:
    """A sampler by its name or the paper's, in any case.

    >>> find_sampler("HarS").name, find_sampler("hard").n_negatives
    ('hard', 10)
    """
    kind = _BY_ANY_NAME.get(name.lower()) if isinstance(name, str) else None
    if kind is None:
        raise ParameterError(
            Argument("sampler", name),
            f": expected one of {', '.join(SAMPLERS)}, or the paper's name of one "
            f"({', '.join(kind.paper_name for kind in SAMPLERS.values())}).{nearest(name, _BY_ANY_NAME)}",
        )
    return kind


def default_hard_negatives(n_items: int) -> int:
    """Negatives drawn for each positive by the default sampler, which uses the hardest: by the size of the catalog.

    The more are drawn, the harder is the hardest. In a small catalog the hardest of 10 is often an item that the user
    would like; in a large one it is still an easy one. `benchmarks/defaults.py` has the figures.

    >>> [default_hard_negatives(n) for n in (600, 2_000, 3_953, 5_001, 35_648)]
    [5, 5, 10, 20, 20]
    """
    return next(n for most, n in _HARD_NEGATIVES if n_items <= most)


def popularity_weights(data: Interactions, power: float) -> NDArray[np.float64]:
    """Number of users of each item to a power, shape ``(n_items,)``; items without users have weight 0."""
    if not np.isfinite(power) or power < 0:
        raise ParameterError(
            Argument("popularity_power", power), ": expected a number, 0 or more (0: all items with users alike)."
        )
    share = data.item_counts / max(1, data.item_counts.max())  # a large power of a large count would overflow
    return np.where(share > 0, share**power, 0.0)


def alias_table(weights: NDArray[np.float64]) -> Alias:
    """Walker's alias table: item i is kept with probability ``keep[i]``, else ``other[i]`` is taken.

    >>> keep, other = alias_table(np.array([1.0, 3.0]))
    >>> keep.tolist(), other.tolist()
    ([0.5, 1.0], [1, 1])
    """
    n = len(weights)
    scaled = (weights * (n / weights.sum())).tolist()
    keep, other = np.ones(n, dtype=np.float32), np.arange(n, dtype=np.int32)
    small = [i for i, w in enumerate(scaled) if w < 1.0]
    large = [i for i, w in enumerate(scaled) if w >= 1.0]
    while small and large:
        low, high = small.pop(), large[-1]
        keep[low], other[low] = scaled[low], high
        scaled[high] -= 1.0 - scaled[low]
        if scaled[high] < 1.0:
            small.append(large.pop())
    return keep, other


class NegativeDrawer:
    """Draws arrays of negatives with the native kernel, for models trained with torch.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=40, n_items=60, n_interactions=500).interactions
    >>> NegativeDrawer(town, seed=1).draw(np.array([0, 5, 5]), n=4).shape
    (3, 4)
    """

    def __init__(
        self, data: Interactions, *, popularity_power: float | None = None, seed: int = 0, n_threads: int = 0
    ) -> None:
        self._data = data
        self._seed = seed
        self._threads = resolve_threads(n_threads)
        self._alias = UNIFORM
        if popularity_power is not None:
            self._alias = alias_table(popularity_weights(data, popularity_power))

    def draw(self, users: NDArray[np.integer[Any]], n: int, epoch: int = 0, first: int = 0) -> NDArray[np.int32]:
        """N distinct items outside each user's own, shape ``(len(users), n)``; -1 where a user has too few.

        Uniform, or by popularity. Row r depends only on (seed, epoch, first + r): passing the rows in pieces with
        ``first`` counting on gives what one call would.
        """
        if not is_whole(n):
            raise ParameterError(Argument("n", n), ": expected a number of negatives, 1 or more.")
        data = self._data
        given = np.asarray(users)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise ParameterError(f"users: expected whole numbers in one row, given {given.dtype} of {given.shape}.")
        if given.size and (given.min() < 0 or given.max() >= data.n_users):
            raise ParameterError(f"users hold indices outside 0 ... {data.n_users - 1}.")
        rows = np.ascontiguousarray(given, dtype=np.int32)
        keep, other = self._alias
        return _native.draw_negatives(
            data.offsets,
            data.indices,
            n_items=data.n_items,
            alias_keep=keep,
            alias_other=other,
            users=rows,
            n=int(n),
            seed=self._seed,
            epoch=epoch,
            first=first,
            threads=self._threads,
        )


# ---------------------------------------------------------------------------------------------------------------------
# Batches for models with expensive networks: few distinct users, and negatives from a pool that the batch shares.


def in_runs(offsets: NDArray[np.int64], length: int, random: np.random.Generator) -> NDArray[np.int64]:
    """All positives at random, but up to ``length`` of a user's are adjacent; shape ``(n_interactions,)``.

    >>> in_runs(np.array([0, 4, 4, 6]), 2, np.random.default_rng(0)).reshape(3, 2).tolist()
    [[4, 5], [3, 2], [1, 0]]
    """
    counts = np.diff(offsets)
    n = int(offsets[-1])
    owner = np.repeat(np.arange(len(counts)), counts)
    shuffled = np.lexsort((random.random(n), owner))  # each user's positives in an order of their own
    run = (np.arange(n) - np.repeat(offsets[:-1], counts)) // length
    starts = np.concatenate([[0], np.cumsum(-(-counts // length))])[:-1]
    number = np.repeat(starts, counts) + run
    key = random.random(int(number[-1]) + 1 if n else 0)
    return shuffled[np.argsort(key[number], kind="stable")].astype(np.int64)


class SharedNegatives:
    """Negatives of a batch from a pool of items that is drawn again for every batch.

    Every positive gets ``n`` different items of the pool, in a row from a random place on: each is drawn as if the
    whole catalog had been drawn from, but a batch holds few different ones. With ``power`` the pool is drawn by
    popularity to this power, without replacement.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=40, n_items=60, n_interactions=500).interactions
    >>> items, usable = SharedNegatives(town, pool=20, n=4, seed=1).draw(np.array([0, 5, 5]), epoch=0, first=0)
    >>> items.shape, usable.shape
    ((3, 4), (3, 4))
    """

    def __init__(self, data: Interactions, pool: int, n: int, seed: int, power: float | None = None) -> None:
        self._n_items, self._seed = data.n_items, seed
        self._keys = data.row_of_each().astype(np.int64) * data.n_items + data.indices
        self._chances = None if power is None else popularity_weights(data, power)
        most = data.n_items if self._chances is None else int((self._chances > 0).sum())
        self._pool = min(max(pool, n), most)
        self._n = min(n, self._pool)

    def draw(
        self, users: NDArray[np.integer[Any]], epoch: int, first: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Items of shape ``(len(users), n)`` and which of them the user does not have."""
        random = np.random.default_rng([self._seed, epoch, first, 1])
        if self._chances is None:
            pool = random.permutation(self._n_items)[: self._pool]
        else:
            # The smallest of exponential times with these rates: a draw by weight without replacement.
            with np.errstate(divide="ignore"):
                times = random.exponential(size=self._n_items) / self._chances
            pool = np.argsort(times, kind="stable")[: self._pool]
            random.shuffle(pool)
        place = random.integers(0, self._pool, (len(users), 1)) + np.arange(self._n)
        items = pool[place % self._pool]
        wanted = np.asarray(users, dtype=np.int64)[:, None] * self._n_items + items
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return items, self._keys[at] != wanted


# ---------------------------------------------------------------------------------------------------------------------
# Hard negatives per user (N_beta).

Floats = NDArray[np.float64]

# Parsing 0.29 is off by up to half an ulp and so is the product: 2 eps suffice for them. 4 eps also cover the rounding
# of a beta that was computed, such as 1 / 49.
_SLACK = 1.0 + 4.0 * np.finfo(np.float64).eps


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
