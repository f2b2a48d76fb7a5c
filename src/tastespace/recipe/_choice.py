"""The choice of the blend: which members, which weights, and how much more weight smaller interests get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data.attributes import category_column, item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.evaluation.significance import paired_t_test
from tastespace.models import Recommender
from tastespace.models.blend.members import Balance, BalanceBy
from tastespace.models.blend.weights import Accuracy, CandidateScores, best_weights
from tastespace.models.vector_space import VectorSpace
from tastespace.recipe._trials import Trial, best_of_families

_LEAST_WEIGHT = 0.04  # below, a member is left out
_BALANCES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_VALUES_AT_ONCE = 8_000_000  # 32 MB
_COST = 0.005  # share of NDCG@10 and of R@20 each that balance may take in any case
_COST_OF_LEAD = 0.5  # share of the blend's lead over its best member that it may take instead, where that is more
_MOST_COST = 0.02
_LOSS = 0.002  # of the objective that may be given for fewer members


@dataclass(frozen=True)
class Choice:
    """A chosen blend and its accuracy."""

    trials: list[Trial]
    """The members."""
    weights: NDArray[np.float64]
    balance: float
    balance_by: BalanceBy
    """Definition of a minority: items outside a user's main category, or main interest."""
    figures: Accuracy
    """Accuracy of the blend."""
    best_member: tuple[Trial, Accuracy]
    one_vector: Accuracy | None
    """Accuracy of the best blend without members that have several vectors per user; balanced by categories if the
    choice is, which needs no interests. None: no such model was tried."""
    minority_p: float | None = None
    """p-value of a paired t-test over users: is the recall of minority items of the blend that of `one_vector`? None
    where one of them is not known."""


def choose(trials: list[Trial], held_out: Interactions, threads: int) -> Choice:
    """The blend of the families' best models that does best on the held-out interactions."""
    best = best_of_families(trials)
    plain = CandidateScores.of([trial.model for trial in best], held_out, threads)
    several = [at for at, trial in enumerate(best) if trial.model.has_interests]
    one = [at for at in range(len(best)) if at not in several]
    source = max(several, key=lambda at: best[at].objective, default=None)
    minorities = _Minorities(plain, best[0].model.train_, None if source is None else best[source].model)
    scores = replace(plain, is_minority=minorities.is_minority)
    # Interests are those of one member: they decide on the balance, not on the weights.
    compared = scores if minorities.balance_by == "categories" else plain
    alone = [scores.accuracy(own) for own in scores.scores]
    single = max(range(len(best)), key=lambda at: alone[at].plain)
    weights = _without_small(compared, best_weights(compared), alone[single])
    total, balance = minorities.balanced(scores, weights, alone[single])
    members = [at for at in range(len(best)) if weights[at] > 0 or at == source]
    without = _best_of(scores.of_members(one), compared.of_members(one), minorities) if one else None
    return Choice(
        trials=[best[at] for at in members],
        weights=weights[members],
        balance=balance,
        balance_by=minorities.balance_by,
        figures=scores.accuracy(total),
        best_member=(best[single], alone[single]),
        one_vector=None if without is None else scores.accuracy(without),
        minority_p=None if without is None else _minority_p(scores, total, without),
    )


def _best_of(scores: CandidateScores, compared: CandidateScores, minorities: _Minorities) -> NDArray[np.float32]:
    """Scores of the best blend of these members, of which none has several vectors per user."""
    weights = best_weights(compared)
    if minorities.balance_by == "interests":
        return scores.mixed(weights)
    alone = [scores.accuracy(own) for own in scores.scores]
    return minorities.balanced(scores, weights, max(alone, key=lambda one: one.plain))[0]


def _minority_p(scores: CandidateScores, total: NDArray[np.float32], without: NDArray[np.float32]) -> float | None:
    if scores.is_minority is None or not scores.is_minority.any():
        return None
    return paired_t_test(scores.minority_recalls(total) - scores.minority_recalls(without))


def _without_small(scores: CandidateScores, weights: NDArray[np.float64], floor: Accuracy) -> NDArray[np.float64]:
    """The weights without small ones, where that costs little: each member takes time in every list.

    ``floor`` are the figures of the best member alone.
    """
    kept = np.where(weights >= _LEAST_WEIGHT, weights, 0.0)
    kept = (kept / kept.sum()).round(12)
    before, after = (scores.accuracy(scores.mixed(one)).objective_above(floor) for one in (weights, kept))
    return kept if after >= (1 - _LOSS) * before else weights


class _Minorities:
    """Minority interests among a user's candidates, and the scores with more weight for them."""

    def __init__(self, scores: CandidateScores, train: Interactions, source: Recommender | None) -> None:
        self._train, self._users, self._items = train, scores.users, np.maximum(scores.items, 0)
        self._threads = scores.threads
        by_category = category_column(train.item_attributes) is not None
        self.balance_by: BalanceBy = "categories" if by_category else "interests"
        self.is_minority: NDArray[np.bool_] | None = None
        self._logs: NDArray[np.float32] | None = None
        space = None if source is None else source.interest_space()
        if space is None and not by_category:
            return
        balance = Balance(train, self.balance_by, space, scores.threads)
        self._logs = self._of_candidates(lambda users, items: _picked(balance.of_users(users), items))
        outside = self._outside_category() if space is None or by_category else self._outside_interest(space)
        owner = np.repeat(np.arange(len(self._users)), np.diff(scores.test_offsets))
        self.is_minority = outside[owner, scores.test_places]

    def _of_candidates(self, values: Callable[[NDArray[np.int32], NDArray[np.int32]], NDArray[Any]]) -> NDArray[Any]:
        """Values of all candidates, block by block from a function of some users and their candidates."""
        size = max(1, _VALUES_AT_ONCE // self._train.n_items)
        starts = range(0, len(self._users), size)
        return np.concatenate([values(self._users[at : at + size], self._items[at : at + size]) for at in starts])

    def _outside_category(self) -> NDArray[np.bool_]:
        """Mask of the candidates with categories, but not the one that most of the user's items have."""
        column = require_category_column(self._train.item_attributes, None, purpose="balance", argument="column")
        membership = item_categories(column).table()
        counts = np.stack([membership[self._past(user)].sum(axis=0) for user in self._users])
        has_category = np.asarray(membership.any(axis=1))
        outside = has_category[self._items] & ~membership[self._items, counts.argmax(axis=1)[:, None]]
        return np.asarray(outside & (counts.max(axis=1) > 0)[:, None])

    def _outside_interest(self, space: VectorSpace) -> NDArray[np.bool_]:
        """Mask of the candidates that belong to another interest than most of the user's items."""

        def outside(users: NDArray[np.int32], items: NDArray[np.int32]) -> NDArray[np.bool_]:
            nearest = space.nearest_interests(users, self._threads)
            main = [np.bincount(nearest[at, self._past(user)], minlength=1).argmax() for at, user in enumerate(users)]
            return np.asarray(_picked(nearest, items) != np.array(main)[:, None])

        return self._of_candidates(outside)

    def _past(self, user: int) -> NDArray[np.int32]:
        return self._train.indices[self._train.offsets[user] : self._train.offsets[user + 1]]

    def with_balance(self, total: NDArray[np.float32], balance: float) -> NDArray[np.float32]:
        """The scores with this balance."""
        return total if self._logs is None else total + np.float32(balance) * self._logs

    def balanced(
        self, scores: CandidateScores, weights: NDArray[np.float64], member: Accuracy
    ) -> tuple[NDArray[np.float32], float]:
        """The scores of a blend with the balance that suits it best, and that balance.

        ``member`` are the figures of the best member alone.
        """
        total = scores.mixed(weights)
        balance = self.best_balance(scores, total, member)
        return self.with_balance(total, balance), balance

    def best_balance(self, scores: CandidateScores, total: NDArray[np.float32], member: Accuracy) -> float:
        """The balance with the highest minority recall that costs little NDCG@10 and little R@20."""
        if self._logs is None:
            return 0.0
        plain = scores.accuracy(total)
        found = {balance: scores.accuracy(self.with_balance(total, balance)) for balance in _BALANCES}
        floor = member if self.balance_by == "categories" else plain  # interests are one member's own account
        allowed = [balance for balance, figures in found.items() if _keeps(figures, plain, floor)]
        return max(allowed, key=lambda balance: (found[balance].minority, -balance))


def _keeps(figures: Accuracy, plain: Accuracy, member: Accuracy) -> bool:
    """Return True if a balanced blend keeps enough of its accuracy and of its lead over the best member."""
    return figures.ndcg >= _least(plain.ndcg, member.ndcg) and figures.recall >= _least(plain.recall, member.recall)


def _least(plain: float, member: float) -> float:
    """
    >>> round(_least(0.2, 0.2), 4), round(_least(0.2, 0.194), 4), round(_least(0.2, 0.1), 4)
    (0.199, 0.197, 0.196)
    """
    cost = max(_COST, _COST_OF_LEAD * (1 - member / plain)) if plain else _COST
    return (1 - min(cost, _MOST_COST)) * plain


def _picked(rows: NDArray[Any], items: NDArray[np.int32]) -> NDArray[Any]:
    """Pick the values of some items from rows of values for all items; the result has the shape of ``items``."""
    return np.take_along_axis(rows, items, axis=1)
