"""Sources of scores: the vectors of users and items, or a function from users to scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.computed_once import computed_once
from tastespace.data.ids import IdMap
from tastespace.errors import DataError
from tastespace.models.base import Recommender
from tastespace.models.vector_space import VectorSpace

Rows = NDArray[np.integer[Any]]
Scores = Callable[[Rows], "NDArray[np.float32] | Matched"]
"""From rows of users to scores of all items, larger is better: ``(len(users), n_items)``."""


class Matched(NamedTuple):
    """Scores of all items, and the interest that each item matches: ``(n_users, n_items)`` both."""

    scores: NDArray[np.float32]
    interests: NDArray[np.int32]


class ListProgram(Protocol):
    """A kernel that goes from a model to lists without scores of all items in between."""

    def lists(
        self,
        users: Rows,
        excluded: _native.ItemLists,
        k: int,
        threads: int,
        allowed: NDArray[np.uint8] | None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32], int, int]:
        """The k best items, their scores, the interest that each matches, how many there are, and the first user with a
        NaN score.
        """

    @property
    def native(self) -> _native.BlendProgram | None:
        """The kernel, where one call of it is all that a list takes."""


@dataclass(frozen=True, eq=False)
class ScoreSource:
    """Scores of all items for each of some users or other queries, with names for messages.

    >>> source = ScoreSource(lambda users: np.outer(users, [1.0, 2.0, 3.0]), n_users=2, n_items=3, name="table")
    >>> source.block(np.array([1])).tolist()
    [[1.0, 2.0, 3.0]]
    """

    scores: VectorSpace | Scores
    n_users: int
    n_items: int
    name: str
    """Name of what gives the scores, such as the class of a model."""
    users: IdMap | None = None
    """Ids of the users; None: they are queries, called by their number."""
    items: IdMap | None = None
    program: ListProgram | None = None
    """The kernel that makes lists of these scores, where there is one."""

    @classmethod
    def of(cls, model: Recommender, space: VectorSpace | None = None) -> ScoreSource:
        """The scores of a fitted model; ``space`` are its vectors, where they are at hand."""
        train, space = model.train_, model.vectors() if space is None else space
        scores = _scores_with_dislikes(model) if space is None else space
        return cls(scores, train.n_users, train.n_items, type(model).__name__, train.users, train.items)

    @property
    def space(self) -> VectorSpace | None:
        """The vectors that give the scores; None where a function does."""
        return self.scores if isinstance(self.scores, VectorSpace) else None

    def block(self, users: NDArray[np.int32]) -> NDArray[np.float32]:
        """Scores of all items for the users at these rows, shape ``(len(users), n_items)``."""
        return self.matched(users)[0]

    def matched(self, users: NDArray[np.int32]) -> tuple[NDArray[np.float32], NDArray[np.int32] | None]:
        """The same, and the interest that each item matches where the function tells."""
        given = self.scores.scores(users) if isinstance(self.scores, VectorSpace) else self.scores(users)
        given, interests = given if isinstance(given, Matched) else (given, None)
        scores = np.ascontiguousarray(given, dtype=np.float32)
        expected = (len(users), self.n_items)
        if scores.shape != expected:
            raise DataError(
                f"{self.name}.score_block gave shape {scores.shape}, expected {expected}: a row per user and a column "
                "per item."
            )
        return scores, interests

    def checked(self, space: VectorSpace) -> _native.ScoringVectors:
        """Vectors of the users and items as the kernels take them, which do not check sizes and numbers themselves."""
        given, expected = (len(space.user_offsets) - 1, len(space.item_vectors)), (self.n_users, self.n_items)
        if given != expected or not space.has_valid_offsets:
            raise DataError(
                f"{self.name}.vectors gave {given[0]:,} users (who own {space.user_offsets[-1]:,} of "
                f"{len(space.user_vectors):,} vectors) and {given[1]:,} items, expected {expected[0]:,} users and "
                f"{expected[1]:,} items as in its training data."
            )
        if space.metric == "l2":  # squares that overflow would vanish in the maximum over a user's vectors
            users = computed_once(space.user_vectors, "too large", lambda: _not_finite(space.user_terms))
            if len(users):
                owner = self._user(int(np.searchsorted(space.user_offsets, users[0], side="right")) - 1)
                raise DataError(f"{self.name} gave a NaN score for {owner}: its vectors are too large to be squared.")
            items = computed_once(space.item_vectors, "too large", lambda: _not_finite(space.item_terms))
            if len(items):
                item = int(items[0]) if self.items is None else self.items[int(items[0])]
                raise DataError(f"{self.name} gave NaN scores for item {item!r}. Did training diverge?")
        return space.for_scoring()

    def require_numbers(self, users: NDArray[np.int32], nan_user: int) -> None:
        """Raise where a kernel found a NaN score; ``nan_user`` is the user's position, -1: there is none."""
        if nan_user >= 0:
            raise DataError(
                f"{self.name} gave a NaN score for {self._user(int(users[nan_user]))}. Scores must be numbers; did its "
                "training diverge?"
            )

    def _user(self, row: int) -> str:
        return f"query {row}" if self.users is None else f"user {self.users[row]!r}"


def _scores_with_dislikes(model: Recommender) -> Scores:
    """`score_block` of a model, less what disliked items say for others where scores are sums over past items."""
    disliked = model.train_.dislike_matrix
    if not disliked.nnz or model.history_scores(disliked[:0]) is None:
        return model.score_block

    def scores(users: Rows) -> NDArray[np.float32]:
        found = model.score_block(users)
        own = disliked[users]
        rows = np.flatnonzero(np.diff(own.indptr))
        if len(rows):
            said = model.history_scores(own[rows])
            assert said is not None
            found[rows] -= said
        return found

    return scores


def _not_finite(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Positions of values that are NaN or infinite."""
    return np.flatnonzero(~np.isfinite(values))
