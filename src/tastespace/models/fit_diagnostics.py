"""Did a training end in a model that is of no use? Such a model looks like any other until its lists are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data.mapped_arrays import release, row_blocks
from tastespace.models.base import Recommender
from tastespace.models.baselines import MostPopular

if TYPE_CHECKING:
    from tastespace.models.trained_base import TrainedRecommender

COLLAPSED = 1e-3
"""Vectors whose variance is a smaller share of their mean square than this are nearly equal."""
_FEWEST = 10  # vectors that can be said to be equal


def below_popular(model: TrainedRecommender, value: float | None) -> list[dict[str, Any]]:
    """Whether the most popular items do better on the model's validation data, where it reached ``value``."""
    if value is None or model.valid_ is None or type(model.valid_) is not type(model.train_):
        return []
    metric = model._monitored_metric(model.train_)
    popular = MostPopular().fit(model.train_)
    reference = popular._measure(model.valid_, model.train_, metric, model.monitor_protocol, model.threads)
    if not value < reference:  # also where no user counts for the metric
        return []
    return [
        {
            "kind": "below-popular",
            "metric": metric,
            "value": float(value),
            "popular": float(reference),
            "message": (
                f"{metric} on the validation data is {value:.4f}, that of the most popular items {reference:.4f}. The "
                "training failed, or was too short: give it more epochs, another sampler or learning rate, or take "
                "another model."
            ),
        }
    ]


def collapsed_vectors(model: Recommender) -> list[dict[str, Any]]:
    """Whether all vectors of the users, or of the items, with training data are nearly equal."""
    space = model.vectors()
    if space is None:
        return []
    of_users = np.repeat(model.train_.user_counts > 0, np.diff(space.user_offsets))
    users = space.user_vectors if of_users.all() else space.user_vectors[of_users]  # a copy may not fit in memory
    sides = {"users": users, "items": space.item_vectors[model.train_.item_counts > 0]}
    found = []
    for side, vectors in sides.items():
        share = relative_variance(vectors)
        release(vectors)
        if share is not None and share < COLLAPSED:
            message = (
                f"the vectors of all {side} are nearly equal (their variance is {share:.1e} of their mean square): "
                "they have collapsed, and lists are hardly personal. Lower learning_rate, or take another sampler."
            )
            found.append({"kind": f"collapsed-{side}", "relative_variance": share, "message": message})
    return found


def relative_variance(vectors: NDArray[np.floating[Any]]) -> float | None:
    """Mean squared distance from the mean, as a share of the mean square; None for few or zero vectors.

    >>> relative_variance(np.ones((20, 3)))
    0.0
    """
    if len(vectors) < _FEWEST:
        return None
    square, mean = 0.0, np.zeros(vectors.shape[1])
    for rows in row_blocks(vectors):  # they may be larger than memory
        block = vectors[rows]
        square += float(np.einsum("ij,ij->", block, block, dtype=np.float64)) / len(vectors)
        mean += block.sum(axis=0, dtype=np.float64) / len(vectors)
    return max(0.0, 1.0 - float(mean @ mean) / square) if square > 0 else None
