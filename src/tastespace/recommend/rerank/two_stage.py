"""Models whose ranking starts with the lists of another one in a new order; `Mixed` is one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import require_whole
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, ParameterError, nearest
from tastespace.models.base import Recommender
from tastespace.models.list_options import ListOptions
from tastespace.models.vector_space import VectorSpace
from tastespace.ranking.blocks import Block
from tastespace.recommend.fold_in import folded
from tastespace.recommend.lists import TopKLists
from tastespace.recommend.mix import MIXES, check_diversity
from tastespace.tastes import TasteParts, Tastes

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
            raise ParameterError(Argument("model", self.model), ": expected a recommender, such as EASE().")

    def _check_with(self, train: Interactions) -> None:
        """Raise unless the parameters are usable with this training data."""

    @abstractmethod
    def _lists(self, users: NDArray[np.int32]) -> Iterator[tuple[Block, NDArray[np.int64], NDArray[np.int32]]]:
        """The second stage's lists, block by block: the position of the user of each entry, and the items in order."""

    @classmethod
    def around(cls: type[Own], fitted: Recommender, **parameters: Any) -> Own:
        """Wrap a fitted model, which is used as it is; for example to try many settings."""
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
        """True if the first stage uses weights."""
        return self.model.uses_weights

    @property
    def supports_fold_in(self) -> bool:
        """True if the first stage supports fold-in."""
        return self.model.supports_fold_in

    def _fold_in(self: Own, histories: Interactions) -> Own:
        """The same two stages for new users; items keep the popularity and the neighbors that they had."""
        return self._around(folded(self.model_, histories))

    @property
    def keeps_interests(self) -> bool:
        """True if the first stage keeps interests."""
        return self.model_.keeps_interests

    def _fold_in_longer(self: Own, histories: Interactions, rows: NDArray[np.int64]) -> Own:
        return self._around(folded(self.model_, histories, rows))

    def _around(self: Own, model: Recommender) -> Own:
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "model"}
        return self.around(model, **parameters)

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Return scores whose order is the ranking, shape ``(len(users), n_items)``."""
        self.require_fitted()
        out = np.empty((len(users), self.train_.n_items), dtype=np.float32)
        first = 0
        for block, query, rows in self._lists(np.asarray(users, dtype=np.int32)):
            scores = out[first : first + len(block.users)]
            first += len(block.users)
            source = block.source
            scores[:] = source if isinstance(source, np.ndarray) else self.model_.score_block(block.users)
            _put_in_front(scores, query, rows)
        return out

    def can_serve(self, users: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return a mask of the users whom the first stage can serve."""
        return self.model_.can_serve(users)

    def item_space(self) -> VectorSpace | None:
        """Return the item vectors of the first stage."""
        self.require_fitted()
        return self.model_.item_space()


def _put_in_front(scores: NDArray[np.float32], query: NDArray[np.int64], rows: NDArray[np.int32]) -> None:
    """Change scores so that each user's list comes first, in its order, and the rest as before."""
    sizes = np.bincount(query, minlength=len(scores))
    best = np.maximum(np.ceil(scores.max(axis=1)), 0.0)
    for row in np.flatnonzero(~(best < _EXACT)):  # too large for exact whole numbers above them
        scores[row, np.argsort(-scores[row], kind="stable")] = -np.arange(scores.shape[1], dtype=np.float32)
        best[row] = 0.0
    from_below = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(rows))
    scores[query, rows] = best[query] + from_below


class Mixed(TwoStage):
    """Another model with mixed lists, as one recommender: to evaluate a mix, or to use it everywhere.

    The ranking of a user is what ``model.recommend(user, k, mix=mix, diversity=diversity, column=column)`` returns,
    then all other items as the model orders them. A score says no more than that order. The shares of a proportional
    list hold in every prefix, so one ``k`` serves all shorter lists; a calibrated list chooses from a pool that grows
    with k.

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
        """True if the model has interests."""
        return self.model.has_interests

    def interest_space(self) -> VectorSpace | None:
        """Return the vectors of the model's interests."""
        self.require_fitted()
        return self.model_.interest_space()

    def scores_by(self, user: int, interests: Sequence[int]) -> NDArray[np.float32]:
        """Return the model's own scores, not mixed, as if only these interests existed. Shape ``(n_items,)``."""
        self.require_fitted()
        return self.model_.scores_by(user, interests)

    def evidence(self, user: int, items: NDArray[np.integer[Any]]) -> NDArray[np.float32] | None:
        """Return contributions of past items to the model's own scores, not mixed. Shape ``(n_past, len(items))``."""
        self.require_fitted()
        return self.model_.evidence(user, items)

    def tastes(self) -> Tastes | None:
        """Return the tastes of the model's users."""
        self.require_fitted()
        return self.model_.tastes()

    def taste_parts(self, users: NDArray[np.integer[Any]]) -> TasteParts:
        """Return the model's own scores, not mixed, split by taste."""
        self.require_fitted()
        return self.model_.taste_parts(users)

    def _check(self) -> None:
        super()._check()
        if self.mix not in MIXES:
            raise ParameterError(
                Argument("mix", self.mix), f": expected one of {', '.join(MIXES)}.{nearest(self.mix, MIXES)}"
            )
        check_diversity(self.diversity)
        require_whole("k", self.k)

    def _lists(self, users: NDArray[np.int32]) -> Iterator[tuple[Block, NDArray[np.int64], NDArray[np.int32]]]:
        request = ListOptions(k=self.k, mix=self.mix, diversity=self.diversity, column=self.column, profile=False)
        for block, found in TopKLists(self.model_, request).blocks(users):
            yield block, found.query, found.rows

    def save(self, path: Any, metrics: Any = None, index: Any = None, card: Any = None) -> None:
        """Raise: a mixed model is not saved as one file. Save its model and wrap it again after loading."""
        self.require_fitted()
        raise ParameterError(
            "a mixed model is not saved as one. Save its model, model.model_.save(path), and open it with "
            f"Mixed(tastespace.load(path), mix={self.mix!r}, diversity={self.diversity!r})."
        )
