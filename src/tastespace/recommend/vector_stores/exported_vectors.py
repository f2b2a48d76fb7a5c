"""What goes into a vector store: plain vectors whose distances or inner products are the model's scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.models.vector_space import VectorSpace
from tastespace.recommend.scoring import require_vectors


@dataclass(frozen=True, eq=False)
class ExportedVectors:
    """Vectors of items and users with their ids, which are whole numbers or text."""

    metric: str
    """``"l2"`` or ``"dot"``."""
    items: list[Any]
    """Ids of items, ascending: the place is the number of the item."""
    item_vectors: NDArray[np.float32]
    users: list[Any]
    """Ids of users, one for each row of `user_vectors`."""
    interests: list[int]
    """Numbers of the vectors of a user, from 0."""
    user_vectors: NDArray[np.float32]

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return int(self.item_vectors.shape[1])


def vectors_to_export(model: Recommender) -> ExportedVectors:
    """The vectors of a model; an error says which part of a model that ranks otherwise could be exported."""
    model.require_fitted()
    if model.vectors() is None:
        _refuse_with_advice(model)
    space = require_vectors(model, "vectors to export")
    users, items = plain_vectors(space)
    train = model.train_
    owner = np.repeat(np.arange(train.n_users), np.diff(space.user_offsets))
    interest = np.arange(len(owner)) - space.user_offsets[owner]
    ids = np.array(plain_ids(train.users.series), dtype=object)
    return ExportedVectors(
        space.metric, plain_ids(train.items.series), items, ids[owner].tolist(), interest.tolist(), users
    )


def plain_vectors(space: VectorSpace) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """User and item vectors between which plain L2 distance or inner product is the model's own."""
    users = np.ascontiguousarray(space.user_vectors, dtype=np.float32)
    items = np.ascontiguousarray(space.item_vectors, dtype=np.float32)
    if space.metric == "dot" and space.item_bias is not None:
        users = np.hstack([users, np.ones((len(users), 1), dtype=np.float32)])
        items = np.hstack([items, np.asarray(space.item_bias, dtype=np.float32)[:, None]])
    return users, items


def plain_ids(ids: pl.Series | Iterable[Any]) -> list[Any]:
    """Ids as a store takes them: whole numbers and text as they are, all else as text.

    >>> import datetime
    >>> plain_ids([7, "jam", datetime.date(2024, 1, 2)])
    [7, 'jam', '2024-01-02']
    """
    values = ids.to_list() if isinstance(ids, pl.Series) else list(ids)
    return [plain_id(value) for value in values]


def plain_id(value: Any) -> Any:
    """One id as a store takes it."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    return str(value)


def storable(value: Any) -> bool:
    """Whether stores have room for an id: text, or a whole number of 64 bits."""
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _refuse_with_advice(model: Recommender) -> None:
    """Raise for a model that ranks by other scores than vectors, with the part of it that could be exported."""
    name = type(model).__name__
    members: Sequence[Recommender] = getattr(model, "members_", ())
    able = [f"members_[{at}] ({type(one).__name__})" for at, one in enumerate(members) if one.vectors() is not None]
    if members:
        advice = (
            f"Of its members these have vectors: {', '.join(able)}. Export one, which then ranks alone: "
            f"model.{able[0].split()[0]}.export_to(address)."
            if able
            else "None of its members has vectors either."
        )
        raise ParameterError(
            f"{name} ranks by a weighted sum of the scores of its members, which no vector store computes. {advice}"
        )
