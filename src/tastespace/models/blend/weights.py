"""The choice of a blend's weights on held-out interactions.

Scores of the members are computed once, for the items that any member ranks high; trying weights on them then takes
milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.csr import no_items
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError
from tastespace.models.base import Recommender

MINORITY_WEIGHT = 0.5
"""Weight of the recall of minority interests relative to NDCG@10 and to R@20."""

_STEEPNESS = 10  # one per cent of accuracy below the best member counts as ten
_MAX_USERS = 8_000
_TOP = 100  # items of each member that are compared: far more than the 20 that are measured
_SCORES_AT_ONCE = 8_000_000  # 32 MB of float32
_STEPS = (0.1, 0.2, 0.35, 0.5)
_DIGITS = 12  # of weights: sums of steps are 0.3 then, and not 0.30000000000000004
_MIN_GAIN = 2e-3  # relative; less is taken for chance
_MAX_ROUNDS = 8


class Accuracy(NamedTuple):
    """Metrics that the choice goes by, as means over users."""

    ndcg: float
    """NDCG@10."""
    recall: float
    """Recall@20."""
    minority: float = float("nan")
    """Recall@20 of the held-out items outside a user's main interest; NaN where that is not known."""

    @property
    def plain(self) -> float:
        """The geometric mean of NDCG@10 and R@20: one per cent of either counts the same."""
        return math.sqrt(self.ndcg * self.recall)

    @property
    def objective(self) -> float:
        """The geometric mean of NDCG@10, of R@20 and, with half their weight, of the recall of minority interests."""
        if math.isnan(self.minority):
            return self.plain
        product = self.ndcg * self.recall * self.minority**MINORITY_WEIGHT
        return float(product ** (1 / (2 + MINORITY_WEIGHT)))

    def objective_above(self, floor: Accuracy) -> float:
        """The objective, lowered steeply where NDCG@10 or R@20 is below that of ``floor``."""
        shares = (
            min(1.0, ours / theirs) if theirs else 1.0
            for ours, theirs in ((self.ndcg, floor.ndcg), (self.recall, floor.recall))
        )
        return self.objective * math.prod(shares) ** _STEEPNESS


@dataclass(frozen=True, eq=False)
class CandidateScores:
    """Standardized scores of several models for the candidates of some users, with their held-out items."""

    users: NDArray[np.int32]
    """Indices of the users, shape ``(n,)``."""
    items: NDArray[np.int32]
    """Candidates of each user, -1 where a row has fewer. Shape ``(n, n_candidates)``."""
    scores: NDArray[np.float32]
    """Shape ``(n_members, n, n_candidates)``."""
    test_offsets: NDArray[np.int64]
    """User ``u`` has the held-out items ``test_offsets[u]:test_offsets[u + 1]``. Shape ``(n + 1,)``."""
    test_places: NDArray[np.int32]
    """Place of each held-out item among the user's candidates."""
    threads: int
    is_minority: NDArray[np.bool_] | None = None
    """True for each held-out item that lies outside the user's main interest; None: not known."""

    @classmethod
    def of(
        cls, members: Sequence[Recommender], valid: Interactions, threads: int = 0, max_users: int = _MAX_USERS
    ) -> CandidateScores:
        """Scores of fitted models that share users and items with ``valid``, the held-out interactions."""
        train = members[0].train_
        if valid.users != train.users or valid.items != train.items:
            raise DataError(f"valid ({valid!r}) has other users or items than the members' training data ({train!r}).")
        users = np.flatnonzero(valid.user_counts > 0).astype(np.int32)
        if not len(users):
            raise DataError(f"valid ({valid!r}) is empty: weights cannot be chosen.")
        if len(users) > max_users:
            users = np.sort(np.random.default_rng(0).choice(users, max_users, replace=False))
        n_threads = resolve_threads(threads)
        size = max(1, _SCORES_AT_ONCE // train.n_items)
        candidates: list[NDArray[np.int32]] = []
        scores: list[list[NDArray[np.float32]]] = []
        for first in range(0, len(users), size):
            block = users[first : first + size]
            rows = [_standardized(member, block, n_threads) for member in members]
            top = np.concatenate([_top(row, train, block, n_threads) for row in rows], axis=1)
            for at, user in enumerate(block):
                own = np.concatenate([top[at], valid.indices[valid.offsets[user] : valid.offsets[user + 1]]])
                found = np.unique(own[own >= 0])
                candidates.append(found)
                scores.append([row[at, found] for row in rows])
        return cls._padded(users, candidates, scores, valid, n_threads)

    @classmethod
    def _padded(
        cls,
        users: NDArray[np.int32],
        candidates: list[NDArray[np.int32]],
        scores: list[list[NDArray[np.float32]]],
        valid: Interactions,
        threads: int,
    ) -> CandidateScores:
        width = max(len(found) for found in candidates)
        items = np.full((len(users), width), -1, dtype=np.int32)
        values = np.zeros((len(scores[0]), *items.shape), dtype=np.float32)
        places = []
        for at, (user, found) in enumerate(zip(users, candidates, strict=True)):
            items[at, : len(found)] = found
            for member, own in enumerate(scores[at]):
                values[member, at, : len(found)] = own
            places.append(np.searchsorted(found, valid.indices[valid.offsets[user] : valid.offsets[user + 1]]))
        offsets = np.concatenate([[0], np.cumsum(valid.user_counts[users])]).astype(np.int64)
        return cls(users, items, values, offsets, np.concatenate(places).astype(np.int32), threads)

    def of_members(self, members: Sequence[int]) -> CandidateScores:
        """The same for some of the members only."""
        return replace(self, scores=self.scores[list(members)])

    def ranks(self, total: NDArray[np.float32]) -> NDArray[np.int32]:
        """Rank of each held-out item where candidates are ordered by ``total``, shape ``(n, n_candidates)``."""
        n = len(self.users)
        masked = np.where(self.items >= 0, total, -np.inf).astype(np.float32)
        rows = np.arange(n, dtype=np.int32)
        found, _, _ = _native.rank_with_scores(
            masked,
            rows,
            _native.ItemLists(*no_items(n)),
            _native.ItemLists(self.test_offsets, self.test_places),
            k=1,
            threads=self.threads,
        )
        return found[:, 0]

    def accuracy(self, total: NDArray[np.float32]) -> Accuracy:
        """NDCG@10, Recall@20 and, where it is known what is a minority, its recall, of such an order."""
        ranks, n_test = self.ranks(total), np.diff(self.test_offsets)
        owner = np.repeat(np.arange(len(n_test)), n_test)
        gain = np.bincount(owner, np.where(ranks <= 10, 1.0 / np.log2(ranks + 1.0), 0.0), len(n_test))
        ideal = np.cumsum(1.0 / np.log2(np.arange(10) + 2.0))[np.minimum(n_test, 10) - 1]
        hits = np.bincount(owner, ranks <= 20, len(n_test))
        minority = float("nan")
        if self.is_minority is not None and self.is_minority.any():
            minority = float(self._minority_recalls(ranks).mean())
        return Accuracy(float((gain / ideal).mean()), float((hits / n_test).mean()), minority)

    def minority_recalls(self, total: NDArray[np.float32]) -> NDArray[np.float64]:
        """Recall@20 of the items outside the main interest, of each user who has some held out: ``(n_such_users,)``."""
        return self._minority_recalls(self.ranks(total))

    def _minority_recalls(self, ranks: NDArray[np.int32]) -> NDArray[np.float64]:
        assert self.is_minority is not None
        n_test = np.diff(self.test_offsets)
        owner = np.repeat(np.arange(len(n_test)), n_test)
        held_out = np.bincount(owner, self.is_minority, len(n_test))
        found = np.bincount(owner, self.is_minority & (ranks <= 20), len(n_test))
        return np.asarray(found[held_out > 0] / held_out[held_out > 0])

    def mixed(self, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """The weighted sum of the members' scores."""
        return np.tensordot(weights.astype(np.float32), self.scores, axes=1)


def best_weights(scores: CandidateScores) -> NDArray[np.float64]:
    """Weights of the members, with the sum 1, that rank the held-out items best; shape ``(n_members,)``.

    Starts from the best single member or from equal weights of the best few, whichever does better; then moves weight
    to one member at a time as long as that helps notably. Equal weights depend little on the users who happen to be
    held out; small gains are left alone for the same reason. The result is not worse than the best member by the
    geometric mean of NDCG@10 and R@20.
    """
    identity = np.eye(len(scores.scores))
    alone = [scores.accuracy(one) for one in scores.scores]
    floor = max(alone, key=lambda one: one.plain)

    def figure(weights: NDArray[np.float64]) -> float:
        return scores.accuracy(scores.mixed(weights)).objective_above(floor)

    order = sorted(range(len(identity)), key=lambda member: -alone[member].objective)
    starts = [identity[order[:n]].mean(axis=0) for n in range(1, len(order) + 1)]
    starts.append(identity[alone.index(floor)])
    figures = [figure(start) for start in starts]
    best = max(figures)
    weights = starts[figures.index(best)]
    for _ in range(_MAX_ROUNDS):
        moves = [(1 - step) * weights + step * member for member in identity for step in _STEPS]
        moves += [_without(weights, member) for member in range(len(weights)) if 0 < weights[member] < 1]
        tried = [figure(move) for move in moves]
        if max(tried) <= best * (1 + _MIN_GAIN):
            break
        best = max(tried)
        weights = moves[tried.index(best)]
    # Accuracy below that of the best member is costly, but not impossible where minorities gain much.
    weights = weights.round(_DIGITS)
    return weights if scores.accuracy(scores.mixed(weights)).plain >= floor.plain else identity[alone.index(floor)]


def _without(weights: NDArray[np.float64], member: int) -> NDArray[np.float64]:
    left = weights.copy()
    left[member] = 0.0
    return left / left.sum()


def add_standardized(
    total: NDArray[np.float32], member: Recommender, weight: float, users: NDArray[np.integer[Any]], threads: int
) -> None:
    """Add the member's scores for these users, standardized per user and times ``weight``, to ``total`` in place.

    ``total`` has the shape ``(len(users), n_items)``. A score that is not finite is an error.
    """
    scores = np.ascontiguousarray(member.score_block(users), dtype=np.float32)
    if scores.shape != total.shape:
        raise DataError(
            f"{type(member).__name__}.score_block gave shape {scores.shape}, expected {total.shape}: a row per user "
            "and a column per item."
        )
    bad = _native.add_standardized(total, scores, weight, resolve_threads(threads))
    require_finite_scores(member, users, bad)


def require_finite_scores(member: Recommender, users: NDArray[np.integer[Any]], bad: int) -> None:
    """Raise where a kernel found a score that is not finite; ``bad`` is the user's position, -1: there is none."""
    if bad >= 0:
        raise _not_finite(member, int(users[bad]))


def _not_finite(member: Recommender, user: int) -> DataError:
    return DataError(
        f"{type(member).__name__}, a member of the blend, gave a NaN or infinite score for user "
        f"{member.train_.users[user]!r}. Scores must be finite numbers; did its training diverge?"
    )


def _standardized(member: Recommender, users: NDArray[np.int32], threads: int) -> NDArray[np.float32]:
    total = np.zeros((len(users), member.train_.n_items), dtype=np.float32)
    add_standardized(total, member, 1.0, users, threads)
    return total


def _top(scores: NDArray[np.float32], train: Interactions, users: NDArray[np.int32], threads: int) -> NDArray[np.int32]:
    excluded, nothing = _native.ItemLists(train.offsets, train.indices), _native.ItemLists(*no_items(train.n_users))
    return _native.rank_with_scores(scores, users, excluded, nothing, k=min(_TOP, train.n_items), threads=threads)[1]
