"""Evaluation of warm users and items, of cold-start users and of cold-start items.

Cold-start items are ranked in one of two ways, with very different metrics: ``"new"`` ranks them among themselves (as
in DropoutNet's publication), ``"all"`` among the whole catalog, warm items included, without the user's training items.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tastespace.data.cold_start import ColdStart, part
from tastespace.data.features import is_matrix
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, ParameterError
from tastespace.evaluation._evaluator import evaluate
from tastespace.evaluation.report import Report
from tastespace.models.base import Recommender
from tastespace.models.popular import MostPopular
from tastespace.models.vector_space import VectorSpace

Candidates = Literal["new", "all"]
SITUATIONS = ("warm", "cold user", "cold item")


@runtime_checkable
class SupportsAddItems(Protocol):
    """A model to which items can be added with their content."""

    def add_items(self, features: Any, ids: Any = None) -> Any:
        """The model with these items."""


def evaluate_cold(
    model: Recommender,
    parts: ColdStart,
    *,
    candidates: Candidates = "new",
    warm: bool = True,
    protocol: str = "paper",
    k: int = 3,
    metrics: tuple[str, ...] = ("P", "R", "NDCG"),
    threads: int = 0,
) -> dict[str, Report]:
    """Reports of a model that was fitted on the warm part: warm, cold-start users, cold-start items.

    The paper's table has P, R and NDCG at 3 by its own protocol. ``warm=False`` leaves the warm part out.

    Cold-start users get vectors from their content and are recommended warm items. Cold-start items get vectors from
    their content and are recommended to warm users, among the ``candidates``. A model without content has the warm
    report only; `MostPopular` also that of cold-start users, who get the same list as all users.

    >>> from tastespace.data import cold_start
    >>> from tastespace.models.content_knn import ContentKNN
    >>> town = cold_start.load("town")
    >>> model = ContentKNN().fit(town.train, user_features=town.user_features, item_features=town.item_features)
    >>> list(evaluate_cold(model, town))
    ['warm', 'cold user', 'cold item']
    """
    if candidates not in ("new", "all"):
        raise ParameterError(Argument("candidates", candidates), ": expected 'new' (the new items alone) or 'all'.")
    rules: dict[str, Any] = {"protocol": protocol, "k": k, "metrics": list(metrics), "threads": threads}
    found = {"warm": evaluate(model, parts.test, seen=[parts.train, parts.valid], **rules)} if warm else {}
    if parts.new_users is not None:
        cold = with_new_users(model, parts.new_users, parts.new_user_features)
        if cold is not None:
            found["cold user"] = evaluate(cold, parts.new_users, **rules)
    if parts.new_items is not None and isinstance(model, SupportsAddItems):
        ids = parts.new_items.items.series if is_matrix(parts.new_item_features) else None
        larger = copy.copy(model).add_items(parts.new_item_features, ids)
        if candidates == "new":
            larger = ItemSubset(larger, larger.train_.items.index_of(parts.new_items.items.series))
        found["cold item"] = evaluate(larger, parts.new_items, seen=parts.train, **rules)
    return found


def with_new_users(model: Recommender, users: Interactions, features: Any) -> Recommender | None:
    """The model for these users by content alone; None for models without content."""
    empty = users.subset(np.zeros(users.n_interactions, dtype=bool))
    new = None if features is None else model._fold_in_with(empty, features)
    if new is None and isinstance(model, MostPopular):
        new = model._fold_in(empty)
    if new is None:
        return None
    new.train_, new.valid_, new._popularity_source = empty, None, model.popularity_source
    return new


class ItemSubset(Recommender):
    """A fitted model restricted to some of its items."""

    def __init__(self, model: Recommender, rows: NDArray[np.integer[Any]]) -> None:
        self.model = model
        self.rows = np.sort(rows)
        kept = np.zeros(model.train_.n_items, dtype=bool)
        kept[self.rows] = True
        self.train_, self.valid_ = part(model.train_, np.ones(model.train_.n_users, dtype=bool), kept), None

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        """The model is fitted already."""

    def can_serve(self, users: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """The users whom the model can serve: their histories may hold other items."""
        return self.model.can_serve(users)

    def vectors(self) -> VectorSpace | None:
        """The model's vectors, with these items only."""
        space = self.model.vectors()
        if space is None:
            return None
        bias = None if space.item_bias is None else space.item_bias[self.rows]
        return replace(space, item_vectors=space.item_vectors[self.rows], item_bias=bias)

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The model's scores of these items."""
        return np.ascontiguousarray(self.model.score_block(users)[:, self.rows])
