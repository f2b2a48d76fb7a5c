"""New attributes for the items of a fitted model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from tastespace.data.attributes import aligned_attributes
from tastespace.data.reading.tables import to_polars
from tastespace.errors import Argument, DataError, TastespaceError, nearest
from tastespace.models.base import Recommender


def set_item_attributes(model: Recommender, attributes: Any, id: str) -> None:
    """Implement `Recommender.set_item_attributes`."""
    model.require_fitted()
    frame, _ = to_polars(attributes)
    if id not in frame.columns:
        raise DataError(
            Argument("id", id),
            f": the item attributes have no such column; their columns are {', '.join(map(repr, frame.columns))}."
            f"{nearest(id, frame.columns)}",
        )
    if id != "item":
        frame = frame.drop("item", strict=False)
    before = model.train_.item_attributes
    try:
        _put(model, aligned_attributes(frame, model.train_.items, "item", id))
    except TastespaceError:  # the model needs an attribute that is gone
        _put(model, before)
        raise


def _put(model: Recommender, aligned: pl.DataFrame | None) -> None:
    """Give a model and the models inside it these attributes."""
    model.train_ = replace(model.train_, item_attributes=aligned)
    if model._popularity_source is not None:
        model._popularity_source = replace(model._popularity_source, item_attributes=aligned)
    for value in vars(model).values():
        for inner in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(inner, Recommender) and inner.is_fitted:
                _put(inner, aligned)
    model._attributes_changed()
