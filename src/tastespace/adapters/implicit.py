"""Matrices in the form of implicit: users x items in compressed rows, and the ids of the rows and columns.

Nothing of implicit is imported: its models take SciPy matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.errors import DataError


class ImplicitMatrix(NamedTuple):
    """Arguments of ``fit`` and ``recommend`` of implicit, and the ids of the rows and columns."""

    user_items: Any
    """A `scipy.sparse.csr_matrix` of shape ``(n_users, n_items)``, in single precision."""
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]


def from_implicit(
    user_items: Any,
    user_ids: Sequence[Any] | NDArray[Any] | None = None,
    item_ids: Sequence[Any] | NDArray[Any] | None = None,
    *,
    weight: bool = True,
) -> Interactions:
    """Interactions of a matrix of implicit; without ids they are row and column numbers.

    ``weight=False`` leaves the values (confidences) out, for models that use no weights. A negative value, which for
    implicit is an item that the user does not want, is an error: an interaction always speaks for an item.

    >>> import scipy.sparse as sp
    >>> from_implicit(sp.csr_matrix([[0, 2.0], [3.0, 0]]), ["ann", "bob"]).items_of("bob")
    [0]
    """
    if sp.issparse(user_items):
        entries = user_items.tocsr().tocoo()  # cells that are there twice are summed
        negative = np.flatnonzero(entries.data < 0)
        if len(negative):
            at = negative[0]
            raise DataError(
                f"user_items has {len(negative):,} negative values, the first is {entries.data[at]:g} in row "
                f"{entries.row[at]}, column {entries.col[at]}; expected positive ones. Leave them out: "
                "user_items.maximum(0)."
            )
    return Interactions.from_scipy(user_items, users=user_ids, items=item_ids, weight=weight)


def to_implicit(data: Interactions) -> ImplicitMatrix:
    """The matrix for models of implicit: weights where the data has some, else 1.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> to_implicit(town).user_items.shape
    (50, 40)
    """
    if not isinstance(data, Interactions):
        raise DataError(f"to_implicit expects Interactions, given {type(data).__name__}.")
    values = np.ones(data.n_interactions, dtype=np.float32) if data.weights is None else data.weights
    shape = (data.n_users, data.n_items)
    matrix = sp.csr_matrix((values, data.indices, data.offsets), shape=shape, copy=True)  # implicit writes to it
    return ImplicitMatrix(
        matrix.astype(np.float32), *(np.array(ids.series.to_list()) for ids in (data.users, data.items))
    )
