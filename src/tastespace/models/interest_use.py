"""Use that users make of their interests, vectors or tastes: effective number, dead ones, nearly equal ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.data.out_of_core.mapped_arrays import release, row_blocks
from tastespace.models.vector_space import VectorSpace
from tastespace.tastes import Tastes

if TYPE_CHECKING:
    from tastespace.models.base import Recommender

NEARLY_EQUAL = 1e-3
"""A user's vectors are nearly equal where their variance is a smaller share than this of the items' variance."""
MANY_DEAD = 1 / 3
"""Share of dead vectors from which on a fit warns. Up to a quarter are usual where histories are short."""
MANY_COLLAPSED = 0.25
"""Share of users with nearly equal vectors from which on a fit warns. A tenth is usual: they have one taste."""

_VALUES_AT_ONCE = 4_000_000  # numbers of a temporary table


class InterestUse(NamedTuple):
    """Use of interest vectors by users, each of shape ``(n_users,)``."""

    n_vectors: NDArray[np.int64]
    """Interest vectors, or tastes, that the user has."""
    n_past: NDArray[np.int64]
    """Past items: those of the training data."""
    n_used: NDArray[np.int64]
    """Vectors that at least one past item is nearest to, or tastes with a past item; the others are dead."""
    effective: NDArray[np.float64]
    """exp of the entropy of the shares of past items, from 1 to `n_used`; NaN without past items."""
    relative_variance: NDArray[np.float64]
    """Mean squared distance of the user's vectors from their mean, as a share of the same of all items; NaN for users
    without a vector."""

    @property
    def counts(self) -> NDArray[np.bool_]:
        """True for users with several vectors and a past item, for whom dead vectors are counted."""
        return (self.n_vectors > 1) & (self.n_past > 0)

    @property
    def collapsed(self) -> NDArray[np.bool_]:
        """True for users of several vectors, nearly equal, although they have at least two past items."""
        return (self.n_vectors > 1) & (self.n_past > 1) & (self.relative_variance < NEARLY_EQUAL)


def interest_use(
    space: VectorSpace,
    train: Interactions,
    users: NDArray[np.integer[Any]] | None = None,
    threads: int = 0,
    tastes: Tastes | None = None,
) -> InterestUse:
    """Return how users spread their past items over their interests.

    Args:
        space: Vectors of the users and items of ``train``; for models with tastes their centers.
        train: The histories.
        users: Rows of the users, shape ``(n,)``; None: all of them.
        threads: 0 means all cores; the numbers do not depend on it.
        tastes: Groups of the past items, one for each vector of a user; None: past items belong to the nearest vector.

    >>> from tastespace.data import synthetic
    >>> from tastespace.models import create
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = create("dpcml", n_interests=3, dim=8, epochs=5).fit(town)
    >>> use = interest_use(model.vectors(), town)
    >>> bool((use.effective <= use.n_used + 1e-9).all()), int(use.n_vectors.max())
    (True, 3)
    """
    rows = np.arange(train.n_users) if users is None else np.asarray(users, dtype=np.int64)
    of_items = _variance(space.item_vectors)
    parts = []
    for part in _portions(space, train, rows):
        parts.append(_use_of(space, train, part, of_items, resolve_threads(threads), tastes))
        release(space.user_vectors)  # they may be larger than memory
    return InterestUse(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _portions(space: VectorSpace, train: Interactions, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Consecutive parts of the users whose vectors and histories fit into memory, at least one part."""
    dim = space.user_vectors.shape[1]
    values = dim * np.diff(space.user_offsets)[rows] + 4 * train.user_counts[rows]
    part = np.cumsum(values) // _VALUES_AT_ONCE
    return iter(np.split(rows, np.flatnonzero(np.diff(part)) + 1))


def _use_of(
    space: VectorSpace,
    train: Interactions,
    users: NDArray[np.int64],
    of_items: float,
    threads: int,
    tastes: Tastes | None,
) -> InterestUse:
    n_vectors, n_past = np.diff(space.user_offsets)[users], train.user_counts[users].astype(np.int64)
    n_past = np.where(n_vectors > 0, n_past, 0)
    starts, owner = np.cumsum(n_vectors) - n_vectors, np.repeat(np.arange(len(users)), n_vectors)

    past_owner = np.repeat(np.arange(len(users)), n_past)
    past = _rows_from(train.offsets[users], n_past)
    if tastes is None:
        _, interest = space.pair_scores(users[past_owner], train.indices[past], threads)
    else:
        interest = tastes.of_past[past]
    counts = np.bincount(starts[past_owner] + interest, minlength=len(owner))
    n_used = np.bincount(owner, weights=counts > 0, minlength=len(users)).astype(np.int64)
    shares = counts / np.maximum(n_past, 1)[owner]
    terms = -shares * np.log(np.where(shares > 0, shares, 1.0))
    entropy = np.bincount(owner, weights=terms, minlength=len(users))
    effective = np.where(n_past > 0, np.exp(entropy), np.nan)

    vectors = space.user_vectors[_rows_from(space.user_offsets[users], n_vectors)]
    some = n_vectors > 0
    means = np.zeros((len(users), vectors.shape[1]))
    if some.any():
        means[some] = np.add.reduceat(vectors, starts[some], axis=0, dtype=np.float64) / n_vectors[some][:, None]
    squares = np.square(vectors - means[owner]).sum(axis=1)
    variance = np.bincount(owner, weights=squares, minlength=len(users)) / np.maximum(n_vectors, 1)
    relative = variance / of_items if of_items > 0 else np.zeros(len(users))
    return InterestUse(n_vectors, n_past, n_used, effective, np.where(some, relative, np.nan))


def _rows_from(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows ``starts[u]``, ``starts[u] + 1``, ..., so many of each user, one user after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())


def _variance(vectors: NDArray[np.float32]) -> float:
    """Mean squared distance from the mean."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    return float(sum(np.square(vectors[rows] - mean).sum() for rows in row_blocks(vectors))) / max(1, len(vectors))


def interest_findings(model: Recommender) -> list[dict[str, Any]]:
    """Return rows of `diagnostics_` on the interest vectors: figures, and what is wrong; empty for one vector each."""
    space = model.vectors()
    if space is None or np.diff(space.user_offsets).max(initial=0) < 2:
        return []
    use = interest_use(space, model.train_, threads=getattr(model, "threads", 0))
    several = use.counts
    if not several.any():
        return []
    n_users, n_vectors = int(several.sum()), int(use.n_vectors[several].sum())
    n_dead = n_vectors - int(use.n_used[several].sum())
    n_collapsed = int(use.collapsed.sum())
    apart = several & ~use.collapsed  # of equal vectors all but one are dead: one problem, not two
    n_dead_apart = int((use.n_vectors - use.n_used)[apart].sum())
    effective = use.effective[several]
    low, median, high = np.quantile(effective, (0.1, 0.5, 0.9)).tolist()
    figures = {
        "n_users": n_users,
        "n_vectors": n_vectors,
        "n_dead": n_dead,
        "n_collapsed": n_collapsed,
        "effective": float(effective.mean()),
    }
    fewer = max(1, round(float(effective.mean())))
    found: list[dict[str, Any]] = [
        {
            "kind": "interests",
            **figures,
            "effective_quantiles": {"10%": low, "50%": median, "90%": high},
            "message": (
                f"{n_users:,} users have {n_vectors / n_users:.1f} interest vectors each; the effective number is "
                f"{figures['effective']:.1f} (10 to 90 % of the users: {low:.1f} to {high:.1f}). {n_dead:,} of "
                f"{n_vectors:,} vectors are dead, and {n_collapsed:,} users have vectors that are nearly equal."
            ),
        }
    ]
    if n_dead_apart > MANY_DEAD * int(use.n_vectors[apart].sum()):
        found.append(
            {
                "kind": "dead-interests",
                **figures,
                "message": (
                    f"{n_dead:,} of {n_vectors:,} interest vectors are dead: no past item of their user is nearest to "
                    f"them. The effective number of interests is {figures['effective']:.1f}; n_interests={fewer} takes "
                    "less memory and gives items near dead vectors no place in a list."
                ),
            }
        )
    if n_collapsed > MANY_COLLAPSED * n_users:
        found.append(
            {
                "kind": "collapsed-interests",
                **figures,
                "message": (
                    f"the interest vectors of {n_collapsed:,} of {n_users:,} users are nearly equal: they rank as one "
                    "vector does. Where validation data chose an early epoch, one vector is better there: take "
                    "n_interests=1. Else train longer, or raise learning_rate."
                ),
            }
        )
    return found
