"""A model whose ranking is a mixed list, so that mixes can be evaluated like models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.checks import require_whole
from tastespace.errors import ParameterError, nearest
from tastespace.models.base import Recommender
from tastespace.models.ranking import Block
from tastespace.models.vector_space import VectorSpace
from tastespace.recommend.mix_options import MIXES, check_diversity
from tastespace.recommend.request import Request
from tastespace.recommend.topk import TopKLists
from tastespace.recommend.two_stage import TwoStage


class Mixed(TwoStage):
    """Another model with mixed lists, as one recommender: to evaluate a mix, or to use it everywhere.

    The ranking of a user is what ``model.recommend(user, k, mix=mix, diversity=diversity, column=column)`` gives, then
    all other items as the model orders them. A score says no more than that order. The shares of a proportional list
    hold in every prefix, so one ``k`` serves all shorter lists; a calibrated list chooses from a pool that grows with
    k.

    A fitted model is taken as it is; otherwise `fit` fits a clone of it, ``model_``.

    Args:
        model: Any recommender that has the mix, see `Recommender.recommend`.
        mix: ``"nearest"``, ``"scaled"``, ``"proportional"`` or ``"calibrated"``.
        diversity: Strength in [0, 1]; None means 1.
        column: For ``"calibrated"``, the item attribute that holds categories, or ``"interest"``.
        k: Length of the mixed lists; at least the longest list that is evaluated.

    >>> from tastespace import DPCML, evaluate, split, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> train, valid, test = split.per_user(town, seed=0)
    >>> model = DPCML(dim=8, epochs=2).fit(train)
    >>> reports = [evaluate(Mixed(model, diversity=d), test, k=5, metrics="NDCG") for d in (0.0, 0.5, 1.0)]
    >>> reports[0]["NDCG@5"] == evaluate(model, test, k=5, metrics="NDCG")["NDCG@5"]
    True
    """

    def __init__(
        self,
        model: Recommender,
        mix: str = "proportional",
        diversity: float | None = None,
        column: str | None = None,
        k: int = 50,
    ) -> None:
        self.model = model
        self.mix = mix
        self.diversity = diversity
        self.column = column
        self.k = k
        if isinstance(model, Recommender) and model.is_fitted:  # what is no model is refused right after
            self._adopt(model)

    @property
    def has_interests(self) -> bool:  # type: ignore[override]
        """Where the model does."""
        return self.model.has_interests

    def interest_space(self) -> VectorSpace | None:
        """The model's."""
        self.require_fitted()
        return self.model_.interest_space()

    def scores_by(self, user: int, interests: Sequence[int]) -> NDArray[np.float32]:
        """The model's scores as if only these interests existed, which are not mixed. Shape ``(n_items,)``."""
        self.require_fitted()
        return self.model_.scores_by(user, interests)

    def evidence(self, user: int, item: int) -> NDArray[np.float32] | None:
        """What each past item adds to the model's score, which is not mixed. Shape ``(n_past,)``."""
        self.require_fitted()
        return self.model_.evidence(user, item)

    def _check(self) -> None:
        super()._check()
        if self.mix not in MIXES:
            raise ParameterError(f"mix={self.mix!r}: expected one of {', '.join(MIXES)}.{nearest(self.mix, MIXES)}")
        check_diversity(self.diversity)
        require_whole("k", self.k)

    def _lists(self, users: NDArray[np.int32]) -> Iterator[tuple[Block, NDArray[np.int64], NDArray[np.int32]]]:
        request = Request(self.k, mix=self.mix, diversity=self.diversity, column=self.column)
        for block, found in TopKLists(self.model_, request).blocks(users):
            yield block, found.query, found.rows

    def save(self, path: Any, metrics: Any = None, index: Any = None, card: Any = None) -> None:
        """Two stages are not one file: save the model, and put the mix around it when it is opened."""
        self.require_fitted()
        raise ParameterError(
            "a mixed model is not saved as one. Save its model, model.model_.save(path), and open it with "
            f"Mixed(tastespace.load(path), mix={self.mix!r}, diversity={self.diversity!r})."
        )
