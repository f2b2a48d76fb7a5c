"""What a model is and can do, and users to begin with: the same for the server and the page without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.data.attributes import category_column
from tastespace.data.ids import IdMap
from tastespace.models.base import Recommender
from tastespace.ranking.scoring import ScoringIndex
from tastespace.recommend.mix import mixes_of, past_matches

_EXAMPLES = 400  # users among whom examples with several interests are found
_FEWEST, _MOST = 8, 400  # past items of such a user


def model_facts(model: Recommender) -> dict[str, Any]:
    """Class, parameters, sizes, types of ids, columns, and what the model can do, as JSON has them."""
    train, index = model.train_, ScoringIndex(model, threads=1)
    space = index.interest_space
    return {
        "class": type(model).__name__,
        "parameters": {name: plain_value(value) for name, value in model.get_params(deep=False).items()},
        "n_users": train.n_users,
        "n_items": train.n_items,
        "n_interactions": train.n_interactions,
        "has_interests": model.has_interests,
        "n_interests": None if space is None else int(np.diff(space.user_offsets).max(initial=0)),
        "id_types": {"user": type_name(train.users), "item": type_name(train.items)},
        "item_columns": [] if train.item_attributes is None else train.item_attributes.columns[1:],
        "category_column": category_column(train.item_attributes),
        "can": {
            "fold_in": model.supports_fold_in,
            "features": model.supports_cold_start,
            "explain": space is not None or _has_evidence(model),
            "shelves": space is not None,
            "mix": list(mixes_of(index)),
        },
    }


def example_users(model: Recommender) -> NDArray[np.int64]:
    """Rows of users to begin with: those whose past is spread most evenly over several interests come first."""
    counts = model.train_.user_counts
    rows = np.flatnonzero((counts >= _FEWEST) & (counts <= _MOST))[:_EXAMPLES]
    if not len(rows):
        rows = np.flatnonzero(counts > 0)[:_EXAMPLES]
    index = ScoringIndex(model, threads=1)
    if index.interest_space is None or not len(rows):
        return rows
    past = past_matches(index, rows.astype(np.int32))
    shares = past.counts / np.maximum(1, np.add.reduceat(past.counts, past.first[:-1]))[past.owner]
    entropy = np.add.reduceat(-shares * np.log(np.maximum(shares, 1e-12)), past.first[:-1])
    return rows[np.argsort(-entropy, kind="stable")]


def type_name(ids: IdMap) -> str:
    """The type of ids in a word."""
    kind = ids.series.dtype
    return "integer" if kind.is_integer() else "text" if kind == pl.String else str(kind).lower()


def plain_value(value: Any) -> Any:
    """A parameter as JSON has it; others as their text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (float, np.floating, np.integer)):
        number = value.item() if isinstance(value, np.generic) else value
        return number if np.isfinite(number) else str(number)
    if isinstance(value, (list, tuple)):
        return [plain_value(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain_value(one) for name, one in value.items()}
    return str(value)


def _has_evidence(model: Recommender) -> bool:
    rows = np.flatnonzero(model.can_serve(np.arange(model.train_.n_users)))[:1]
    return len(rows) > 0 and model.evidence(int(rows[0]), 0) is not None
