"""One user of a model with interests: the interests, and which past item belongs to which of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.models.base import Recommender
from tastespace.recommend.interest_labels import Labeler
from tastespace.recommend.request import require_history, row_of
from tastespace.recommend.scoring import ScoringIndex, require_interest_space

_LABELED = 20  # items of an interest, besides the past ones, that help to name it


@dataclass(frozen=True, eq=False)
class UserInterests:
    """A user's past items as the user's interests score them."""

    index: ScoringIndex
    row: int
    past: NDArray[np.int32]
    """Rows of the items that the user had in training."""
    past_scores: NDArray[np.float32]
    """Score of every past item by each interest, larger is better. Shape ``(n_interests, len(past))``."""

    @property
    def n_interests(self) -> int:
        """How many vectors the user has."""
        return len(self.past_scores)

    @cached_property
    def assigned_interest(self) -> NDArray[np.int64]:
        """The interest that scores each past item best, shape ``(len(past),)``."""
        return self.past_scores.argmax(axis=0)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Share of the past items assigned to each interest, equal ones without a past. Shape ``(n_interests,)``."""
        if not len(self.past):
            return np.full(self.n_interests, 1 / self.n_interests)
        return np.bincount(self.assigned_interest, minlength=self.n_interests) / len(self.past)

    def past_of(self, interests: Sequence[int]) -> NDArray[np.int32]:
        """Past items assigned to these interests, best score first."""
        belongs = np.isin(self.assigned_interest, interests)
        best = self.past_scores[list(interests)][:, belongs].max(axis=0)
        return self.past[belongs][np.argsort(-best, kind="stable")]

    def labels(
        self,
        labeler: Labeler,
        groups: Sequence[Sequence[int]],
        shown: Sequence[NDArray[np.integer[Any]]] | None = None,
    ) -> list[str | None]:
        """Names of groups of interests, see `Labeler.labels`.

        They fit the items ``shown`` for each group, by default its best items that are new to the user; past items and
        best items together are the support.
        """
        others = [x for x in range(self.n_interests) if not any(x in group for group in groups)]
        lengths = [_LABELED] * len(groups) + [0]
        best = [rows for rows, _ in self.index.split_top_k(self.row, [*groups, others], lengths)[: len(groups)]]
        support = [np.concatenate([self.past_of(group), rows]) for group, rows in zip(groups, best, strict=True)]
        return labeler.labels(best if shown is None else shown, support)


def user_interests(model: Recommender, user: Any, what: str) -> UserInterests:
    """Interests of the user with this id; ``what`` is named in the error of a model without vectors."""
    require_interest_space(model, what)
    index = ScoringIndex(model, threads=1)  # to start threads takes longer than to rank for one user
    row = row_of(model.train_.users, user)
    require_history(model, row, what)
    past = index.seen(row)
    return UserInterests(index, row, past, index.interest_scores(row, past))
