"""Ids and models as they are named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.data.tables import to_polars
from tastespace.models import Recommender
from tastespace.store import load

ModelArgument = Annotated[Path, typer.Argument(help="Directory of a saved model.")]


def open_model(path: Path) -> Recommender:
    """The saved model at this path."""
    return load(path)


def parse_ids(ids: IdMap, texts: list[str]) -> list[Any]:
    """Ids on the command line are text; the model's may be numbers or dates."""
    wanted = pl.Series("id", texts, dtype=pl.String)
    kind = ids.series.dtype
    if kind == pl.String or not texts:
        return list(texts)
    if isinstance(kind, (pl.Date, pl.Datetime, pl.Time)):
        typed = wanted.str.strptime(kind, strict=False)
    else:
        typed = wanted.cast(kind, strict=False)
    # What is no number stays text, so that the error names it as it was given.
    return [text if value is None else value for text, value in zip(texts, typed.to_list(), strict=True)]


def with_titles(frame: Any, train: Interactions, of: str = "item") -> pl.DataFrame:
    """A frame of recommendations with the items' titles, where they have any."""
    found = to_polars(frame)[0]
    attributes = train.item_attributes
    column = None if attributes is None else next((c for c in ("title", "name") if c in attributes.columns), None)
    if attributes is None or column is None:
        return found
    titles = attributes[column].gather(pl.Series(train.items.find(found[of]), dtype=pl.UInt32))
    at = found.columns.index(of) + 1
    return found.insert_column(at, titles.alias("title"))
