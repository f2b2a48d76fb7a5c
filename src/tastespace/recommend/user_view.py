"""One user of a vector model, seen through the vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.models.vectors import VectorSpace
from tastespace.recommend.labels import Labeler
from tastespace.recommend.request import row_of

_LABELED = 20  # items of an interest, besides the past ones, that help to name it


@dataclass(frozen=True, eq=False)
class Person:
    """A user's vectors, how each of them sees every item, and which past item belongs to which vector."""

    row: int
    scores: NDArray[np.float32]
    """Score of every item by each vector, larger is better. Shape ``(n_vectors, n_items)``."""
    past: NDArray[np.int32]
    """Rows of the items that the user had in training."""
    belongs: NDArray[np.int64]
    """Vector that each past item is nearest to, shape ``(len(past),)``."""
    by_distance: bool

    @property
    def n_vectors(self) -> int:
        """How many interests."""
        return len(self.scores)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Share of the past items that belong to each vector, equal ones without a past. Shape ``(n_vectors,)``."""
        if not len(self.past):
            return np.full(self.n_vectors, 1 / self.n_vectors)
        return np.bincount(self.belongs, minlength=self.n_vectors) / max(1, len(self.past))

    def past_of(self, vectors: list[int]) -> NDArray[np.int32]:
        """Past items that belong to these vectors, nearest first."""
        mine = np.isin(self.belongs, vectors)
        items = self.past[mine]
        best = self.scores[vectors][:, items].max(axis=0) if len(items) else np.empty(0)
        return items[np.argsort(-best, kind="stable")]

    def allowed(self, n_items: int, candidates: NDArray[np.int32] | None, exclude_seen: bool) -> NDArray[np.bool_]:
        """Which items may be recommended, shape ``(n_items,)``."""
        allowed = np.ones(n_items, dtype=bool)
        if candidates is not None:
            allowed[:] = False
            allowed[candidates] = True
        if exclude_seen:
            allowed[self.past] = False
        return allowed


def label_of(person: Person, labeler: Labeler, vectors: list[int]) -> str | None:
    """What these vectors stand for in words: the past and the best other items that belong to them."""
    unseen = person.allowed(person.scores.shape[1], None, exclude_seen=True)
    theirs = np.isin(person.scores.argmax(axis=0), vectors)
    near = best_rows(person.scores[vectors].max(axis=0), unseen & theirs, _LABELED)
    return labeler.label(np.concatenate([person.past_of(vectors), near]))


def space_of(model: Recommender, what: str) -> VectorSpace:
    """The model's vectors; a model without any is told so."""
    model.require_fitted()
    space = model.vectors()
    if space is None:
        raise ParameterError(
            f"{type(model).__name__} has no vectors, so it has no {what}. Models with vectors are DPCML (several per "
            "user), CML and others."
        )
    return space


def meet(model: Recommender, user: Any, what: str) -> Person:
    """The person with this id."""
    space = space_of(model, what)
    train = model.train_
    row = row_of(train.users, user)
    mine = space.user_vectors[space.user_offsets[row] : space.user_offsets[row + 1]]
    if space.metric == "l2":
        # From the differences themselves, as everything that people see.
        scores = np.stack([-np.square(space.item_vectors - vector).sum(axis=1) for vector in mine])
    else:
        scores = mine @ space.item_vectors.T + (0.0 if space.item_bias is None else space.item_bias)
    past = train.indices[train.offsets[row] : train.offsets[row + 1]]
    return Person(row, scores, past, scores[:, past].argmax(axis=0), space.metric == "l2")


def best_rows(scores: NDArray[np.floating[Any]], allowed: NDArray[np.bool_], k: int) -> NDArray[np.int64]:
    """Rows of the k best allowed items, equal scores by ascending row."""
    rows = np.flatnonzero(allowed)
    mine = scores[rows]
    if len(rows) > 4 * k:
        bar = np.partition(mine, len(mine) - k)[len(mine) - k]
        rows, mine = rows[mine >= bar], mine[mine >= bar]
    return rows[np.argsort(-mine, kind="stable")[:k]]
