"""The choice of the blend: which members, which weights, and how much smaller interests are lifted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data.categories import category_column, item_categories
from tastespace.data.interactions import Interactions
from tastespace.models import Recommender
from tastespace.models.balance import Balance, BalanceBy, nearest_interests
from tastespace.models.blend_weights import Accuracy, CandidateScores, best_weights
from tastespace.recipe.trials import Trial, best_of_families

_LEAST_WEIGHT = 0.04  # below, a member is left out
_BALANCES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_LOSS = 0.005  # of NDCG@10 and of R@20 each that may be given for minority recall


@dataclass(frozen=True)
class Figures:
    """How a choice does on held-out interactions."""

    ndcg: float
    """NDCG@10."""
    recall: float
    """Recall@20."""
    minority: float
    """Recall@20 of what lies outside a user's main interest; NaN where nobody has such held-out items."""


@dataclass(frozen=True)
class Choice:
    """A blend and the figures that speak for it."""

    trials: list[Trial]
    """The members."""
    weights: NDArray[np.float64]
    balance: float
    balance_by: BalanceBy
    minority_of: str
    """What the main interest is a matter of: ``"categories"`` or ``"interests"``."""
    figures: Figures
    """Of the blend."""
    best_member: tuple[Trial, Figures]
    one_vector: Figures
    """Of the best blend without members that have several vectors per user, and without balance."""


def choose(trials: list[Trial], held_out: Interactions, threads: int) -> Choice:
    """The blend of the families' best models that does best on the held-out interactions."""
    best = best_of_families(trials)
    scores = CandidateScores.of([trial.model for trial in best], held_out, threads)
    several = [at for at, trial in enumerate(best) if trial.model.has_interests]
    weights = _without_small(scores, best_weights(scores))
    source = max(several, key=lambda at: (weights[at], best[at].objective), default=None)
    sides = _Sides(scores, held_out, None if source is None else best[source].model)
    balance, total = sides.best_balance(scores.mixed(weights), weights)
    single = max(range(len(best)), key=lambda at: scores.accuracy(scores.scores[at]).objective)
    members = [at for at in range(len(best)) if weights[at] > 0 or at == source]
    return Choice(
        trials=[best[at] for at in members],
        weights=weights[members],
        balance=balance,
        balance_by=sides.balance_by,
        minority_of=sides.minority_of,
        figures=sides.figures(total),
        best_member=(best[single], sides.figures(scores.scores[single])),
        one_vector=sides.figures(scores.mixed(_best_of(scores, [a for a in range(len(best)) if a not in several]))),
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
    before, after = (scores.accuracy(scores.mixed(one)).objective for one in (weights, kept))
    return kept if after >= (1 - _LOSS) * before else weights


class _Sides:
    """The candidates' interests and categories: what is a minority, and how it can be lifted."""

    def __init__(self, scores: CandidateScores, held_out: Interactions, source: Recommender | None) -> None:
        self._scores = scores
        train = held_out if source is None else source.train_
        self._has_categories = category_column(train.item_attributes) is not None
        self.minority_of = "categories" if self._has_categories else "interests"
        self.balance_by: BalanceBy = "categories" if self._has_categories else "interests"
        self._logs: NDArray[np.float32] | None = None
        self._minority: NDArray[np.bool_] | None = None
        if source is None:
            return
        space = source.interest_space()
        assert space is not None
        balance = Balance(train, self.balance_by, space)
        self._logs = np.stack([_at(balance.of_users(u), i) for u, i in self._rows()])
        if self._has_categories:
            main, membership = _main_categories(train, scores.users)
            has = membership.any(axis=1)
            minority = [
                has[np.maximum(i, 0)] & ~membership[np.maximum(i, 0), m]
                for (_, i), m in zip(self._rows(), main, strict=True)
            ]
        else:
            minority = []
            for user, items in self._rows():
                nearest = nearest_interests(space, user)[0]
                own = train.indices[train.offsets[user[0]] : train.offsets[user[0] + 1]]
                minority.append(nearest[np.maximum(items, 0)] != np.bincount(nearest[own], minlength=1).argmax())
        self._minority = np.stack(minority)

    def _rows(self) -> Any:
        return ((self._scores.users[at : at + 1], self._scores.items[at]) for at in range(len(self._scores.users)))

    def figures(self, total: NDArray[np.float32]) -> Figures:
        """Of an order of the candidates."""
        accuracy = self._scores.accuracy(total)
        return Figures(accuracy.ndcg, accuracy.recall, self._minority_recall(total))

    def _minority_recall(self, total: NDArray[np.float32]) -> float:
        if self._minority is None:
            return float("nan")
        scores = self._scores
        n_test = np.diff(scores.test_offsets)
        owner = np.repeat(np.arange(len(n_test)), n_test)
        counts = self._minority[owner, scores.test_places]
        n_minority = np.bincount(owner, counts, len(n_test))
        hits = np.bincount(owner, counts & (scores.ranks(total) <= 20), len(n_test))
        return float((hits[n_minority > 0] / n_minority[n_minority > 0]).mean()) if n_minority.any() else float("nan")

    def best_balance(
        self, total: NDArray[np.float32], weights: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float32]]:
        """The balance with the highest minority recall that keeps the accuracy, and the scores with it."""
        if self._logs is None:
            return 0.0, total
        plain = self._scores.accuracy(total)
        best = (self._minority_recall(total), 0.0)
        for balance in _BALANCES[1:]:
            lifted = total + np.float32(balance) * self._logs
            if _keeps(self._scores.accuracy(lifted), plain):
                best = max(best, (self._minority_recall(lifted), balance))
        return best[1], total + np.float32(best[1]) * self._logs


def _keeps(accuracy: Accuracy, plain: Accuracy) -> bool:
    return accuracy.ndcg >= (1 - _LOSS) * plain.ndcg and accuracy.recall >= (1 - _LOSS) * plain.recall


def _at(row: NDArray[np.float32], items: NDArray[np.int32]) -> NDArray[np.float32]:
    return row[0, np.maximum(items, 0)]


def _main_categories(train: Interactions, users: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Category with most of each user's items, and which item belongs to which category."""
    assert train.item_attributes is not None
    column = category_column(train.item_attributes)
    assert column is not None
    membership = item_categories(train.item_attributes[column]).table()
    main = [
        membership[train.indices[train.offsets[user] : train.offsets[user + 1]]].sum(axis=0).argmax() for user in users
    ]
    return np.array(main), membership
