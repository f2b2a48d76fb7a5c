"""`DPCML(n_interests="cross-validated")`: numbers of vectors by left-out items of each user's own history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.models.dpcml._clusters import cluster_means, clustering_data, new_anchors
from tastespace.models.dpcml.kernel import interests_per_user, kernel_settings
from tastespace.models.vector_space import VectorSpace
from tastespace.training.native_trainer import project

if TYPE_CHECKING:
    from tastespace.models.dpcml.model import DPCML

CROSS_VALIDATED = "cross-validated"
OFFERED = (1, 2, 4, 8)
"""Numbers of vectors that are compared; of equally good ones the smallest is taken."""

_FOLDS = 5
_NEGATIVES = 20  # for each left-out item; the hardest counts
_POOL = 50  # rows of negatives, which the left-out items of a history take in turn
_SHARE = 0.1  # of a cluster's centre in a vector, as where training begins; the rest is the mean of the history
_PAIRS_AT_ONCE = 4_000_000


def vectors_per_user(model: DPCML, items: NDArray[np.float32] | None, histories: Interactions) -> NDArray[np.int64]:
    """Return how many vectors each user gets by the model's rule, shape ``(n_users,)``.

    ``items`` are the learned vectors of the items, which cross-validated numbers need.
    """
    rule = model._interest_rule()
    if rule[0] != CROSS_VALIDATED:
        return interests_per_user(histories.user_counts, *rule)
    assert items is not None
    return cross_validated_numbers(model, items, histories, resolve_threads(model.threads))


def cross_validated_numbers(
    model: DPCML, items: NDArray[np.float32], histories: Interactions, threads: int
) -> NDArray[np.int64]:
    """Return the number of vectors with which each user's own items predict left-out ones best, shape ``(n_users,)``.

    A fifth of a history is left out at a time. The other items give 1, 2, 4 or 8 vectors, next to their mean and a
    little towards the centres of as many clusters, as where the training of several vectors begins. The loss is the
    margin by which a left-out item is not nearer than the hardest of 20 random items. A number as large as the rest of
    the history is not tried.

    What a user gets depends on the user's items, the item vectors and the seed alone.

    Args:
        model: Its parameters: margin, regions, seed.
        items: Vectors of the items, shape ``(n_items, dim)``; those of a model with one vector per user.
        histories: The users' items.
        threads: Number of threads; the numbers do not depend on it.
    """
    settings = kernel_settings(model)
    pool = np.random.default_rng([model.seed, 2]).integers(0, len(items), (_POOL, _NEGATIVES)).astype(np.int32)
    numbers = np.ones(histories.n_users, dtype=np.int64)
    first = 0
    while first < histories.n_users:  # as many users at once as their pairs fit in memory, at least one
        end = histories.offsets[first] + _PAIRS_AT_ONCE // (1 + _NEGATIVES)
        last = max(first + 1, int(np.searchsorted(histories.offsets, end, side="right")) - 1)
        offsets = histories.offsets[first : last + 1]
        taken = histories.indices[offsets[0] : offsets[-1]]
        losses = _left_out_losses(settings, items, offsets - offsets[0], taken, pool, threads)
        numbers[first:last] = np.array(OFFERED)[losses.argmin(axis=1)]
        first = last
    return numbers


def _left_out_losses(
    settings: _native.DpcmlSettings,
    items: NDArray[np.float32],
    offsets: NDArray[np.int64],
    taken: NDArray[np.int32],
    pool: NDArray[np.int32],
    threads: int,
) -> NDArray[np.float64]:
    """Return the mean loss of each user's left-out items for each number offered: ``(n_users, len(OFFERED))``."""
    n_users, counts = len(offsets) - 1, np.diff(offsets)
    owner = np.repeat(np.arange(n_users), counts)
    place = np.arange(len(taken)) - offsets[:-1][owner]
    totals = np.zeros((n_users, len(OFFERED)))
    own = owner * len(items) + taken  # ascending, as users and their items are
    for fold in range(_FOLDS):
        out = place % _FOLDS == fold
        rest = np.concatenate([[0], np.cumsum(np.bincount(owner[~out], minlength=n_users))]).astype(np.int64)
        users, positives = owner[out], taken[out]
        negatives = pool[place[out] % _POOL]
        keys = users[:, None] * len(items) + negatives
        is_own = np.isin(keys, own) if len(own) else np.zeros(keys.shape, dtype=bool)
        mean = None
        for at, number in enumerate(OFFERED):
            vectors = _centres(settings, items, rest, taken[~out], number, threads)
            mean = vectors if mean is None else mean
            mixed = (1 - _SHARE) * np.repeat(mean, number, axis=0) + _SHARE * vectors
            mixed = project(mixed.astype(np.float32), settings.user_region, settings.radius)
            space = VectorSpace(mixed, np.arange(n_users + 1) * number, items)
            near = -space.pair_scores(users, positives, threads)[0]
            far = -space.pair_scores(np.repeat(users, _NEGATIVES), negatives.ravel(), threads)[0]
            hardest = np.where(is_own, np.inf, far.reshape(negatives.shape)).min(axis=1)
            loss = np.maximum(0.0, settings.margin + settings.distance_scale * (near - hardest))
            totals[:, at] += np.bincount(users, weights=loss, minlength=n_users)
            if number > 1:
                totals[(np.diff(rest) <= number) & (counts > 0), at] = np.inf
    return totals / np.maximum(counts, 1)[:, None]


def _centres(
    settings: _native.DpcmlSettings,
    items: NDArray[np.float32],
    offsets: NDArray[np.int64],
    taken: NDArray[np.int32],
    number: int,
    threads: int,
) -> NDArray[np.float32]:
    """Return the centres of so many clusters of each user's items, shape ``(n_users * number, dim)``."""
    n_vectors = (len(offsets) - 1) * number
    data = clustering_data(offsets, np.ascontiguousarray(taken), np.arange(0, n_vectors + 1, number))
    return cluster_means(data, settings, items, new_anchors(len(taken), n_vectors, items), threads)
