"""The choice of the blend: which members, which weights, and how the tastes of a user make a score."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.csr import ranges
from tastespace.data.attributes import category_column, item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.evaluation.significance import paired_t_test
from tastespace.models import Blend
from tastespace.models.blend.members import Balance
from tastespace.models.blend.weights import Accuracy, CandidateScores, best_weights
from tastespace.recipe._families import is_large_and_sparse
from tastespace.recipe._trials import Trial, best_of_families

_LEAST_WEIGHT = 0.04  # below, a member is left out
_NUMBERS = (3, 5)  # of tastes of a user, at most
_FOCUS = (0.0, 0.15, 0.3, 0.45, 0.6)
_LIFTS = (0.0, 0.1, 0.2, 0.3)
_BALANCES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_VALUES_AT_ONCE = 8_000_000  # 32 MB
_COST = 0.005  # share of NDCG@10 and of R@20 each that tastes and balance may take in any case
_COST_OF_LEAD = 0.5  # share of the blend's lead over its best member that balance may take instead, where that is more
_MOST_COST = 0.02
_LOSS = 0.002  # of the objective that may be given for fewer members
_MIN_GAIN = 0.001  # relative, of the objective: less is taken for chance


@dataclass(frozen=True)
class Choice:
    """A chosen blend and its accuracy."""

    trials: list[Trial]
    """The members."""
    weights: NDArray[np.float64]
    parameters: dict[str, Any]
    """Parameters of the blend: `n_tastes`, `focus`, `lift` and `category_balance`."""
    by_categories: bool
    """True if a minority is what lies outside a user's main category, False: outside the largest taste."""
    figures: Accuracy
    """Accuracy of the blend."""
    best_member: tuple[Trial, Accuracy]
    without_tastes: Accuracy
    """Accuracy of the same members and weights where scores are plain sums."""
    tastes_per_user: float
    """Mean number of tastes of the users."""
    several: float
    """Share of the users who have two tastes or more."""
    minority_p: float | None = None
    """p-value of a paired t-test over users: is the recall of minority items that of `without_tastes`? None where
    neither is known or both are the same."""


def choose(trials: list[Trial], held_out: Interactions, threads: int) -> Choice:
    """The blend of the families' best models that does best on the held-out interactions."""
    best = best_of_families(trials)
    models = [trial.model for trial in best]
    train = models[0].train_
    scores = CandidateScores.of(models, held_out, threads)
    by_categories = category_column(train.item_attributes) is not None
    if by_categories:
        scores = replace(scores, is_minority=_outside_category(scores, train))
    alone = [scores.accuracy(own) for own in scores.scores]
    single = max(range(len(best)), key=lambda at: alone[at].plain)
    weights = _without_small(scores, best_weights(scores), alone[single])
    source = max(
        (at for at, one in enumerate(models) if one.has_interests), key=lambda at: best[at].objective, default=None
    )
    members = [at for at in range(len(best)) if weights[at] > 0]
    # Past items are grouped by the item vectors of a model with several per user, even where it does not rank. On large
    # data, where that would take as long as all others, vectors of any member do.
    has_vectors = any(models[at].item_space() is not None for at in members)
    if source is not None and source not in members and not (has_vectors and is_large_and_sparse(train)):
        members = sorted([*members, source])
    chosen = [models[at] for at in members]
    found = [
        _Tastes.of(Blend.of(chosen, weights[members].tolist(), n_tastes=n, threads=threads), scores) for n in _NUMBERS
    ]
    if not by_categories:
        scores = replace(scores, is_minority=found[-1].outside_largest(scores))
    plain = scores.mixed(weights)
    tastes, focus, lift = _best_tastes(scores, found, plain)
    total, balance = tastes.totals(focus, lift), 0.0
    if by_categories:
        total, balance = _balanced(scores, total, plain, train, alone[single])
    return Choice(
        trials=[best[at] for at in members],
        weights=weights[members],
        parameters={"n_tastes": tastes.n_tastes, "focus": focus, "lift": lift, "category_balance": balance},
        by_categories=by_categories,
        figures=scores.accuracy(total),
        best_member=(best[single], alone[single]),
        without_tastes=scores.accuracy(plain),
        tastes_per_user=float(tastes.counts.mean()),
        several=float((tastes.counts > 1).mean()),
        minority_p=_minority_p(scores, total, plain),
    )


def _minority_p(scores: CandidateScores, total: NDArray[np.float32], plain: NDArray[np.float32]) -> float | None:
    if scores.is_minority is None or not scores.is_minority.any() or np.array_equal(total, plain):
        return None
    return paired_t_test(scores.minority_recalls(total) - scores.minority_recalls(plain))


def _without_small(scores: CandidateScores, weights: NDArray[np.float64], floor: Accuracy) -> NDArray[np.float64]:
    """The weights without small ones, where that costs little: each member takes time in every list.

    ``floor`` are the figures of the best member alone.
    """
    kept = np.where(weights >= _LEAST_WEIGHT, weights, 0.0)
    kept = (kept / kept.sum()).round(12)
    before, after = (scores.accuracy(scores.mixed(one)).objective_above(floor) for one in (weights, kept))
    return kept if after >= (1 - _LOSS) * before else weights


# ---------------------------------------------------------------------------------------------------------------------
# Tastes: how many, how much the strongest one decides, and how much smaller ones are lifted.


@dataclass(frozen=True, eq=False)
class _Tastes:
    """Parts of the candidates' scores by taste, user by user."""

    n_tastes: int
    """Tastes of a user, at most, as the blend has it."""
    counts: NDArray[np.int64]
    """Number of tastes of each user, shape ``(n_users,)``."""
    parts: NDArray[np.float32]
    """Shape ``(n_users, most tastes of a user, n_candidates)``; 0 for tastes that a user does not have."""
    shares: NDArray[np.float64]
    """Share of the past items, ``(n_users, most tastes of a user)``, 0 likewise."""
    is_none: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_none", np.arange(self.shares.shape[1]) >= self.counts[:, None])

    @classmethod
    def of(cls, blend: Blend, scores: CandidateScores) -> _Tastes:
        """Those of the users and candidates of these scores."""
        tastes, users, items = blend.tastes(), scores.users, np.maximum(scores.items, 0)
        most = int(tastes.counts[users].max())
        parts = np.zeros((len(users), most, items.shape[1]), dtype=np.float32)
        shares = np.zeros((len(users), most))
        size = max(1, _VALUES_AT_ONCE // (blend.train_.n_items * most))
        for start in range(0, len(users), size):
            some = users[start : start + size]
            found = blend.taste_parts(some)
            own_shares = tastes.shares[ranges(tastes.offsets[some], np.diff(found.first))]
            for at, (first, last) in enumerate(zip(found.first[:-1], found.first[1:], strict=True)):
                parts[start + at, : last - first] = found.values[first:last][:, items[start + at]]
                shares[start + at, : last - first] = own_shares[first:last]
        return cls(blend.n_tastes, tastes.counts[users], parts, shares)

    def totals(self, focus: float, lift: float) -> NDArray[np.float32]:
        """Scores of the candidates but for a constant of each user, ``(n_users, n_candidates)``."""
        factors = np.where(self.is_none, 0.0, np.maximum(self.shares, 1e-9) ** -lift)
        factors /= (self.shares * factors).sum(axis=1, keepdims=True)
        values = self.parts * factors[:, :, None].astype(np.float32)
        total: NDArray[np.float32] = values.sum(axis=1)
        if focus:
            values[self.is_none] = -np.inf
            total += np.float32(focus) * (values.max(axis=1) - total)
        return total

    def outside_largest(self, scores: CandidateScores) -> NDArray[np.bool_]:
        """Mask of the held-out items for which another taste says most than the user's largest."""
        values = np.where(self.is_none[:, :, None], -np.inf, self.parts)
        owner = np.repeat(np.arange(len(self.counts)), np.diff(scores.test_offsets))
        return np.asarray(values.argmax(axis=1)[owner, scores.test_places] != self.shares.argmax(axis=1)[owner])


def _best_tastes(
    scores: CandidateScores, found: list[_Tastes], plain: NDArray[np.float32]
) -> tuple[_Tastes, float, float]:
    """Tastes, focus and lift with the highest objective that cost little NDCG@10 and little R@20."""
    before = scores.accuracy(plain)
    best, figure = (found[-1], 0.0, 0.0), before.objective * (1 + _MIN_GAIN)
    for tastes in found:
        for focus in _FOCUS:
            for lift in _LIFTS:
                if not focus and not lift:
                    continue
                now = scores.accuracy(tastes.totals(focus, lift))
                if _keeps(now, before, before) and now.objective > figure:
                    best, figure = (tastes, focus, lift), now.objective
    return best


# ---------------------------------------------------------------------------------------------------------------------
# Categories: which held-out items are of smaller ones, and how much more weight these get.


def _outside_category(scores: CandidateScores, train: Interactions) -> NDArray[np.bool_]:
    """Mask of the held-out items with categories, but not the one that most of the user's items have."""
    column = require_category_column(train.item_attributes, None, purpose="category_balance", argument="column")
    membership = item_categories(column).table()
    past = [train.indices[train.offsets[user] : train.offsets[user + 1]] for user in scores.users]
    counts = np.stack([membership[one].sum(axis=0) for one in past])
    owner = np.repeat(np.arange(len(past)), np.diff(scores.test_offsets))
    items = scores.items[owner, scores.test_places]
    outside = membership[items].any(axis=1) & ~membership[items, counts.argmax(axis=1)[owner]]
    return np.asarray(outside & (counts.max(axis=1) > 0)[owner])


def _balanced(
    scores: CandidateScores,
    total: NDArray[np.float32],
    plain: NDArray[np.float32],
    train: Interactions,
    member: Accuracy,
) -> tuple[NDArray[np.float32], float]:
    """The scores with the balance that has the highest minority recall and costs little accuracy, and that balance.

    ``member`` are the figures of the best member alone.
    """
    balance, items = Balance(train), np.maximum(scores.items, 0)
    size = max(1, _VALUES_AT_ONCE // train.n_items)
    starts = range(0, len(items), size)
    logs = np.concatenate(
        [_picked(balance.of_users(scores.users[at : at + size]), items[at : at + size]) for at in starts]
    )
    before = scores.accuracy(plain)
    found = {value: scores.accuracy(total + np.float32(value) * logs) for value in _BALANCES}
    allowed = [value for value, figures in found.items() if value == 0 or _keeps(figures, before, member)]
    best = max(allowed, key=lambda value: (found[value].minority, -value))
    return total + np.float32(best) * logs, best


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
