"""A model whose ranking starts with the lists of another one in a new order: what re-ranked and mixed models share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.models.ranking import Block
from tastespace.models.vector_space import VectorSpace
from tastespace.recommend.fold_in import folded

_EXACT = 2.0**23  # below, float32 tells whole numbers apart

Own = TypeVar("Own", bound="TwoStage")


class TwoStage(Recommender):
    """Another model and a second stage that reorders its lists.

    The ranking of a user is the second stage's list, then all other items as the first model orders them. A score says
    no more than that order: whole numbers for the list, above the first model's scores for the rest.
    """

    model: Recommender
    model_: Recommender
    """The fitted first stage."""

    def _check(self) -> None:
        super()._check()
        if not isinstance(self.model, Recommender):
            raise ParameterError(f"model={self.model!r}: expected a recommender, such as EASE().")

    def _check_with(self, train: Interactions) -> None:
        """Raise unless the parameters are usable with this training data."""

    @abstractmethod
    def _lists(self, users: NDArray[np.int32]) -> Iterator[tuple[Block, NDArray[np.int64], NDArray[np.int32]]]:
        """The second stage's lists, block by block: the position of the user of each entry, and the items in order."""

    @classmethod
    def around(cls: type[Own], fitted: Recommender, **parameters: Any) -> Own:
        """Two stages around a model that is fitted already, which is taken as it is: to try many settings, say."""
        made = cls(fitted, **parameters)  # type: ignore[call-arg]
        fitted.require_fitted()
        made._check_with(fitted.train_)
        made._adopt(fitted)
        return made

    def _adopt(self, fitted: Recommender) -> None:
        """Take a fitted model as the first stage."""
        self._put(fitted)
        self.train_, self.valid_ = fitted.train_, fitted.valid_

    def _put(self, fitted: Recommender) -> None:
        self.model_ = fitted

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        self._check_with(train)  # before the first stage learns for hours
        self._put(self.model.clone().fit(train, valid, progress))

    @property
    def uses_weights(self) -> bool:  # type: ignore[override]
        """Where the first stage does."""
        return self.model.uses_weights

    @property
    def supports_fold_in(self) -> bool:
        """Where the first stage does."""
        return self.model.supports_fold_in

    def _fold_in(self: Own, histories: Interactions) -> Own:
        """The same two stages for new users; items keep the popularity and the neighbors that they had."""
        return self._around(folded(self.model_, histories))

    @property
    def keeps_interests(self) -> bool:
        """Where the first stage does."""
        return self.model_.keeps_interests

    def _fold_in_longer(self: Own, histories: Interactions, rows: NDArray[np.int64]) -> Own:
        return self._around(folded(self.model_, histories, rows))

    def _around(self: Own, model: Recommender) -> Own:
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "model"}
        return self.around(model, **parameters)

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Scores whose order is the ranking, shape ``(len(users), n_items)``."""
        self.require_fitted()
        out = np.empty((len(users), self.train_.n_items), dtype=np.float32)
        first = 0
        for block, query, rows in self._lists(np.asarray(users, dtype=np.int32)):
            scores = out[first : first + len(block.users)]
            first += len(block.users)
            source = block.source
            scores[:] = self.model_.score_block(block.users) if isinstance(source, VectorSpace) else source
            _put_in_front(scores, query, rows)
        return out

    def can_serve(self, users: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """The users whom the first stage can serve."""
        return self.model_.can_serve(users)

    def item_space(self) -> VectorSpace | None:
        """The first stage's vectors."""
        self.require_fitted()
        return self.model_.item_space()


def _put_in_front(scores: NDArray[np.float32], query: NDArray[np.int64], rows: NDArray[np.int32]) -> None:
    """Change scores so that each user's list comes first, in its order, and the rest as before."""
    sizes = np.bincount(query, minlength=len(scores))
    best = np.maximum(np.ceil(scores.max(axis=1)), 0.0)
    for row in np.flatnonzero(~(best < _EXACT)):  # too large to count on from there
        scores[row, np.argsort(-scores[row], kind="stable")] = -np.arange(scores.shape[1], dtype=np.float32)
        best[row] = 0.0
    from_below = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(rows))
    scores[query, rows] = best[query] + from_below
