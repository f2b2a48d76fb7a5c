"""Use that a model's users make of their interests, as a frame."""

from __future__ import annotations

from typing import Any

import polars as pl

from tastespace.data.reading.tables import from_polars
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.models.interest_use import interest_use as measure


def interest_use(model: Recommender, *, threads: int = 0) -> Any:
    """Return a row for each user of the model: how the user's past items spread over the interests.

    Columns: ``user``; ``n_vectors``, the vectors or tastes; ``n_past``, the training items; ``n_used``, the vectors or
    tastes that at least one of them belongs to (the others are dead); ``effective``, the effective number of interests,
    which is exp of the entropy of their shares of the past items (null without past items); ``collapsed``, true where
    several vectors, or centers of tastes, are nearly equal.

    Args:
        model: A fitted model whose users have interests: vectors or tastes.
        threads: 0 means all cores.

    >>> from tastespace import DPCML, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> use = interest_use(DPCML(n_interests=3, dim=8, epochs=5).fit(town))
    >>> use.columns
    ['user', 'n_vectors', 'n_past', 'n_used', 'effective', 'collapsed']
    """
    model.require_fitted()
    space = model.interest_space()
    if space is None:
        raise ParameterError(
            f"interest_use needs a model whose users have interests, and {type(model).__name__} has no vectors. Use a "
            "model such as DPCML."
        )
    use = measure(space, model.train_, threads=threads, tastes=model.tastes())
    frame = pl.DataFrame(
        {
            "user": model.train_.users.series,
            "n_vectors": use.n_vectors,
            "n_past": use.n_past,
            "n_used": use.n_used,
            "effective": pl.Series(use.effective).fill_nan(None),
            "collapsed": use.collapsed,
        }
    )
    return from_polars(frame, model.train_.backend)
