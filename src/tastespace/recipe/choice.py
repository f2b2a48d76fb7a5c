"""The choice of the blend: which members, which weights, and how much smaller interests are lifted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tastespace.data.categories import category_column, item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.models import Recommender
from tastespace.models.balance import Balance, BalanceBy
from tastespace.models.blend_weights import Accuracy, CandidateScores, best_weights
from tastespace.models.vector_space import VectorSpace
from tastespace.recipe.trials import Trial, best_of_families

_LEAST_WEIGHT = 0.04  # below, a member is left out
_BALANCES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_SCORES_AT_ONCE = 8_000_000  # 32 MB of float32
_LOSS = 0.002  # of accuracy that may be given for fewer members


@dataclass(frozen=True)
class Choice:
    """A blend and the figures that speak for it."""

    trials: list[Trial]
    """The members."""
    weights: NDArray[np.float64]
    balance: float
    balance_by: BalanceBy
    """Also what a minority is: items outside a user's main category, or main interest."""
    figures: Accuracy
    """Of the blend."""
    best_member: tuple[Trial, Accuracy]
    one_vector: Accuracy
    """Of the best blend without members that have several vectors per user, and without balance."""


def choose(trials: list[Trial], held_out: Interactions, threads: int) -> Choice:
    """The blend of the families' best models that does best on the held-out interactions."""
    best = best_of_families(trials)
    plain = CandidateScores.of([trial.model for trial in best], held_out, threads)
    several = [at for at, trial in enumerate(best) if trial.model.has_interests]
    one = [at for at in range(len(best)) if at not in several]
    source = max(several, key=lambda at: best[at].objective, default=None)
    sides = _Sides(plain, best[0].model.train_, None if source is None else best[source].model)
    scores = replace(plain, is_minority=sides.is_minority)
    weights = _without_small(scores, best_weights(scores))
    total = scores.mixed(weights)
    single = max(range(len(best)), key=lambda at: scores.accuracy(scores.scores[at]).plain)
    balance = sides.best_balance(scores, total, scores.accuracy(scores.scores[single]))
    members = [at for at in range(len(best)) if weights[at] > 0 or at == source]
    return Choice(
        trials=[best[at] for at in members],
        weights=weights[members],
        balance=balance,
        balance_by=sides.balance_by,
        figures=scores.accuracy(sides.lifted(total, balance)),
        best_member=(best[single], scores.accuracy(scores.scores[single])),
        one_vector=scores.accuracy(scores.mixed(_best_of(scores, one))),
    )


def _best_of(scores: CandidateScores, members: list[int]) -> NDArray[np.float64]:
    """The best weights if only these members existed."""
    weights = np.zeros(len(scores.scores))
    if members:
        weights[members] = best_weights(scores.of_members(members))
    return weights


def _without_small(scores: CandidateScores, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights without small ones, where that costs nothing: each member takes time in every list."""
    kept = np.where(weights >= _LEAST_WEIGHT, weights, 0.0)
    kept /= kept.sum()
    before, after = (scores.accuracy(scores.mixed(one)).plain for one in (weights, kept))
    return kept if after >= (1 - _LOSS) * before else weights


class _Sides:
    """What is a minority among a user's candidates, and by how much it can be lifted."""

    def __init__(self, scores: CandidateScores, train: Interactions, source: Recommender | None) -> None:
        self._train, self._users, self._items = train, scores.users, np.maximum(scores.items, 0)
        by_category = category_column(train.item_attributes) is not None
        self.balance_by: BalanceBy = "categories" if by_category else "interests"
        self.is_minority: NDArray[np.bool_] | None = None
        self._logs: NDArray[np.float32] | None = None
        space = None if source is None else source.interest_space()
        if space is None and not by_category:
            return
        balance = Balance(train, self.balance_by, space)
        self._logs = np.concatenate(
            [np.take_along_axis(balance.of_users(users), items, axis=1) for users, items in self._blocks()]
        )
        outside = self._outside_category() if space is None or by_category else self._outside_interest(space)
        owner = np.repeat(np.arange(len(self._users)), np.diff(scores.test_offsets))
        self.is_minority = outside[owner, scores.test_places]

    def _outside_category(self) -> NDArray[np.bool_]:
        """Whether a candidate has categories, but not the one that most of the user's items have."""
        column = require_category_column(self._train.item_attributes, None, purpose="balance", argument="column")
        membership = item_categories(column).table()
        main = np.array([membership[self._past(user)].sum(axis=0).argmax() for user in self._users])
        has_category = np.asarray(membership.any(axis=1))
        return has_category[self._items] & ~membership[self._items, main[:, None]]

    def _outside_interest(self, space: VectorSpace) -> NDArray[np.bool_]:
        """Whether a candidate belongs to another interest than most of the user's items."""
        found = []
        for users, items in self._blocks():
            nearest = space.nearest_interests(users)
            main = [
                np.bincount(row[self._past(user)], minlength=1).argmax()
                for user, row in zip(users, nearest, strict=True)
            ]
            found.append(np.take_along_axis(nearest, items, axis=1) != np.array(main)[:, None])
        return np.concatenate(found)

    def _blocks(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Users and their candidates, as many at once as fit into memory."""
        size = max(1, _SCORES_AT_ONCE // self._train.n_items)
        for first in range(0, len(self._users), size):
            yield self._users[first : first + size], self._items[first : first + size]

    def _past(self, user: int) -> NDArray[np.int32]:
        return self._train.indices[self._train.offsets[user] : self._train.offsets[user + 1]]

    def lifted(self, total: NDArray[np.float32], balance: float) -> NDArray[np.float32]:
        """The scores with this balance."""
        return total if self._logs is None else total + np.float32(balance) * self._logs

    def best_balance(self, scores: CandidateScores, total: NDArray[np.float32], floor: Accuracy) -> float:
        """The balance that does best where accuracy below that of the best member, ``floor``, counts against it."""
        if self._logs is None:
            return 0.0
        figures = {
            balance: scores.accuracy(self.lifted(total, balance)).objective_above(floor) for balance in _BALANCES
        }
        return max(figures, key=lambda balance: figures[balance])
