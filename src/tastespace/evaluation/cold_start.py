"""Evaluation of cold start: warm users and items, users and items that the model meets by content alone.

New items can be ranked in two ways, and figures differ much between them: ``"new"`` ranks the new items among
themselves (as DropoutNet's publication does), ``"all"`` among the whole catalog, warm items included, less what the
user had in training. Which one was used is always said.
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
from tastespace.errors import ParameterError
from tastespace.evaluation.evaluator import evaluate
from tastespace.evaluation.report import Report
from tastespace.models.base import Recommender
from tastespace.models.baselines import MostPopular
from tastespace.models.vectors import VectorSpace

Candidates = Literal["new", "all"]
SITUATIONS = ("warm", "cold user", "cold item")


@runtime_checkable
class TakesItems(Protocol):
    """A model to which items can be added by their content."""

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
    """Reports of a model that was fitted on the warm part: warm, cold users, cold items, where the data has them.

    The paper's table has P, R and NDCG at 3 by its own protocol. ``warm=False`` leaves the warm part out.

    Cold users are placed by their content and rank the warm items. Cold items are placed by their content; warm users
    rank them among the ``candidates``. A model that knows no content has no report of strangers, except that the most
    popular is the same for everybody, new users too.

    >>> from tastespace.data import cold_start
    >>> from tastespace.models.content_knn import ContentKNN
    >>> town = cold_start.load("town")
    >>> model = ContentKNN().fit(town.train, user_features=town.user_features, item_features=town.item_features)
    >>> list(evaluate_cold(model, town))
    ['warm', 'cold user', 'cold item']
    """
    if candidates not in ("new", "all"):
        raise ParameterError(f"candidates={candidates!r}: expected 'new' (the new items alone) or 'all'.")
    rules: dict[str, Any] = {"protocol": protocol, "k": k, "metrics": list(metrics), "threads": threads}
    found = {"warm": evaluate(model, parts.test, seen=[parts.train, parts.valid], **rules)} if warm else {}
    if parts.new_users is not None:
        strangers = with_new_users(model, parts.new_users, parts.new_user_features)
        if strangers is not None:
            found["cold user"] = evaluate(strangers, parts.new_users, **rules)
    if parts.new_items is not None and isinstance(model, TakesItems):
        ids = parts.new_items.items.series if is_matrix(parts.new_item_features) else None
        larger = copy.copy(model).add_items(parts.new_item_features, ids)
        if candidates == "new":
            larger = Among(larger, larger.train_.items.index_of(parts.new_items.items.series))
        found["cold item"] = evaluate(larger, parts.new_items, seen=parts.train, **rules)
    return found


def with_new_users(model: Recommender, people: Interactions, features: Any) -> Recommender | None:
    """The model for these people, known by content alone; None for models that know no content."""
    nothing = people.subset(np.zeros(people.n_interactions, dtype=bool))
    new = None if features is None else model._fold_in_with(nothing, features)
    if new is None and isinstance(model, MostPopular):
        new = model._fold_in(nothing)
    if new is None:
        return None
    new.train_, new.valid_, new._popularity_source = nothing, None, model.popularity_source
    return new


class Among(Recommender):
    """A fitted model that ranks only some of its items, as if there were no others."""

    def __init__(self, model: Recommender, rows: NDArray[np.integer[Any]]) -> None:
        self.model = model
        self.rows = np.sort(rows)
        kept = np.zeros(model.train_.n_items, dtype=bool)
        kept[self.rows] = True
        self.train_, self.valid_ = part(model.train_, np.ones(model.train_.n_users, dtype=bool), kept), None

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        """Nothing to learn: the model is fitted."""

    def vectors(self) -> VectorSpace | None:
        """The model's, with these items only."""
        space = self.model.vectors()
        if space is None:
            return None
        bias = None if space.item_bias is None else space.item_bias[self.rows]
        return replace(space, item_vectors=space.item_vectors[self.rows], item_bias=bias)

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The model's scores of these items."""
        return np.ascontiguousarray(self.model.score_block(users)[:, self.rows])
