"""The models that figures are shown beside: without them a figure says little about a model."""

from __future__ import annotations

from tastespace.data.interactions import Interactions
from tastespace.models import EASE, MostPopular, Recommender, SparseEASE

_EASE_LIMIT = 6_000  # users or items, whichever are fewer: above, its closed form takes too long


def reference_models(train: Interactions, threads: int = 0) -> list[Recommender]:
    """The most popular items, and EASE; SparseEASE, which is much like it, where the data is too large. Not fitted.

    >>> from tastespace import synthetic
    >>> reference_models(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
    [MostPopular(), EASE()]
    """
    small = min(train.n_users, train.n_items) <= _EASE_LIMIT
    return [MostPopular(), EASE(threads=threads) if small else SparseEASE(threads=threads)]
