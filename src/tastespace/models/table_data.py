"""The data argument of functions that take a table: `Interactions`, a frame with names of columns, or a matrix."""

from __future__ import annotations

import inspect
from typing import Any

from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError, nearest
from tastespace.models.base import as_interactions, is_sparse


def interactions_from(function: str, data: Any, user: str, item: str, columns: dict[str, Any]) -> Interactions:
    """``data`` as `Interactions`; ``columns`` are further arguments of `Interactions.from_frame`, for a frame only.

    ``function`` is the name of the function that was called, for messages.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"who": ["ann", "bob"], "what": ["tea", "jam"]})
    >>> interactions_from("fit", frame, "who", "what", {}).n_users
    2
    """
    kind = "Interactions" if isinstance(data, Interactions) else "a sparse matrix" if is_sparse(data) else None
    if kind is None:
        known = list(inspect.signature(Interactions.from_frame).parameters)[1:]
        for name in columns:
            if name not in known:
                raise ParameterError(
                    f"{function} has no argument {name!r}; of a frame it takes {', '.join(known)}."
                    + nearest(name, known)
                )
        return Interactions.from_frame(data, user=user, item=item, **columns)
    for name in [name for name, given in (("user", user), ("item", item)) if given != name] + list(columns):
        raise ParameterError(f"{name}= is for a frame, but data is {kind} already. Leave it out.")
    return as_interactions(data)
