"""Data of scikit-surprise: its data sets and training sets as `Interactions`, and back."""

from __future__ import annotations

from typing import Any

import polars as pl

from tastespace._util.extras import missing
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError


def from_surprise(data: Any, *, min_rating: float | None = None, weight: bool = False) -> Interactions:
    """Interactions of a `surprise.Trainset` or of a `surprise.Dataset`, with its raw ids.

    Args:
        data: A training set, or a data set, whose ratings are all taken.
        min_rating: Keep ratings of at least this: recommendations are learned from what people liked.
        weight: Take ratings as weights, for models that use them.

    Timestamps of a data set are kept. surprise reads all ids as text.
    """
    surprise = _import_surprise()
    if isinstance(data, surprise.Trainset):
        rows = [(data.to_raw_uid(user), data.to_raw_iid(item), rating) for user, item, rating in data.all_ratings()]
        frame = pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")
        return _built(frame, None, min_rating, weight)
    if not isinstance(data, surprise.Dataset) or not hasattr(data, "raw_ratings"):
        raise DataError(
            f"from_surprise expects a Trainset or a Dataset with its ratings of surprise, given {type(data).__name__}."
        )
    frame = pl.DataFrame(data.raw_ratings, schema=["user", "item", "rating", "timestamp"], orient="row")
    timestamp = "timestamp" if frame["timestamp"].null_count() == 0 else None
    if timestamp is not None and frame["timestamp"].dtype == pl.String:
        frame = frame.with_columns(pl.col("timestamp").cast(pl.Float64).cast(pl.Int64))
    return _built(frame, timestamp, min_rating, weight)


def to_surprise(data: Interactions) -> Any:
    """A `surprise.Trainset` of interactions; ratings are their weights, 1 where they have none.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> to_surprise(town).n_ratings == town.n_interactions
    True
    """
    surprise = _import_surprise()
    if not isinstance(data, Interactions):
        raise DataError(f"to_surprise expects Interactions, given {type(data).__name__}.")
    import pandas as pd

    users = data.users.take(data.row_of_each())
    items = data.items.take(data.indices)
    ratings = [1.0] * data.n_interactions if data.weights is None else data.weights.tolist()
    frame = pd.DataFrame({"user": users.to_list(), "item": items.to_list(), "rating": ratings})
    reader = surprise.Reader(rating_scale=(min(ratings), max(ratings)))
    return surprise.Dataset.load_from_df(frame, reader).build_full_trainset()


def _built(frame: pl.DataFrame, timestamp: str | None, min_rating: float | None, weight: bool) -> Interactions:
    return Interactions.from_frame(
        frame,
        rating=None if min_rating is None else "rating",
        min_rating=min_rating,
        weight="rating" if weight else None,
        timestamp=timestamp,
    )


def _import_surprise() -> Any:
    try:
        import surprise
    except ImportError as problem:
        raise missing("surprise", "tastespace.adapters.surprise needs scikit-surprise") from problem
    return surprise
