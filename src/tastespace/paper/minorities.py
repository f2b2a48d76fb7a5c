"""Which categories of a data set are small."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tastespace.data.categories import item_categories
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError

_LEAST = 0.002  # share of the interactions below which a category has too few test items to say anything
_MINORITY = 0.5  # of an even share: fewer interactions than that, and a category counts as a minority


def category_shares(data: Interactions) -> tuple[NDArray[np.str_], NDArray[np.float64]]:
    """Categories by their share of the interactions, the largest first; an item of two counts for both."""
    if data.item_attributes is None or "genres" not in data.item_attributes.columns:
        raise ParameterError("genres are asked for, but the items of this data set have none: choose one with genres.")
    genres = item_categories(data.item_attributes["genres"])
    counts = np.asarray(data.item_counts @ genres.membership)
    order = np.argsort(-counts, kind="stable")  # of equal ones the first by name
    return np.array(genres.names, dtype=str)[order], counts[order] / counts.sum()


def large_enough(data: Interactions) -> tuple[NDArray[np.str_], NDArray[np.float64], NDArray[np.bool_]]:
    """Categories that say something, their shares, and which of them are a minority."""
    names, shares = category_shares(data)
    names, shares = names[shares >= _LEAST], shares[shares >= _LEAST]
    return names, shares, shares < _MINORITY / max(1, len(names))
