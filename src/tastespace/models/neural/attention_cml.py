"""Metric models with attention to the user's past items, so that user vectors depend on the item: AdaCML and HLR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import require_whole
from tastespace.data.interactions import Interactions
from tastespace.models.neural.base import Batch, Tensors
from tastespace.models.neural.metric_base import (
    DistanceRecommender,
    SlotRecommender,
    row_by_row,
    softmax,
    squared_distances,
)

_ITEMS_AT_ONCE = 64  # that HLR scores together
_IN_CACHE = 1_000_000  # entries of a tensor that is read several times
_REFERENCES = 16_000  # users and past items whose attention to one item block is kept: 80 MB with 20 slots


@dataclass(frozen=True)
class HistoryBatch(Batch):
    """A batch with the histories of its users."""

    history: Any
    """Items of each user, padded with -1. Shape ``(n, max_history)``."""


@dataclass(kw_only=True, eq=False, repr=False)
class HistoryRecommender(DistanceRecommender):
    """Base of the models that attend to the user's history.

    Of longer histories `max_history` items are drawn: for scoring once, by the seed, so that scores are deterministic;
    for training in every epoch, so that all items are used. The item being scored is excluded from the history, in
    training because it would leak the label, in scoring so that both compute the same score.
    """

    max_history: int = 50
    """Most items of a user's history that are attended to."""

    def _check(self) -> None:
        super()._check()
        require_whole("max_history", self.max_history)

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        drawn = draw_histories(train, self.max_history, np.random.default_rng([self.seed, 0, 2]))
        return {"history": self._tensor(torch, drawn)}

    def _batches(self, train: Interactions, epoch: int, torch: Any) -> Iterator[Batch]:
        drawn = draw_histories(train, self.max_history, np.random.default_rng([self.seed, epoch, 1]))
        for batch in super()._batches(train, epoch, torch):
            history = self._tensor(torch, drawn[batch.users.cpu().numpy()])
            yield HistoryBatch(batch.users, batch.items, batch.negatives, batch.random, history)


@dataclass(kw_only=True, eq=False, repr=False)
class AdaCML(HistoryRecommender):
    """Adaptive collaborative metric learning (Zhang et al., "AdaCML: Adaptive Collaborative Metric Learning for
    Recommendation", DASFAA 2019).

    A user's memory holds the vectors x_1 ... x_n of the user's items. For an item v it is read with attention
    ``w = softmax(x_1 . v, ..., x_n . v)``, the user vector for this item is ``u(v) = u + sum_k w_k x_k``, and the
    distance is ``d(u, v) = |u(v) - v|^2``; the score is minus that, the loss ``[margin + d(u, i) - d(u, j)]_+``.

    The publication's text is not freely available. Its abstract says that a memory component and an attention mechanism
    learn a user representation that adapts to locally activated items; the formulas above are those by which the
    authors of HLR compared themselves with it. Decided here: the memory holds the item vectors themselves, and at most
    `max_history` of them. Without other items ``u(v) = u``.

    Scores of all items come from products of small matrices, with X the memory of a user and w the attention:
    ``|u(v) - v|^2`` is ``|u - v|^2 + 2 w . X (u - v) + w . X X' w``.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> AdaCML(dim=8, epochs=2).fit(town).recommend([7], k=3)["rank"].to_list()
    [1, 2, 3]
    """

    def _distances(self, weights: Tensors, fixed: Tensors, batch: Batch, items: Any) -> Any:
        from torch.nn.functional import embedding

        assert isinstance(batch, HistoryBatch)
        mine, theirs = embedding(batch.users, weights["users"])[:, None], embedding(items, weights["items"])
        memory = embedding(batch.history.clamp_min(0), weights["items"])
        masked = (batch.history[:, None] < 0) | (batch.history[:, None] == items[:, :, None])
        attention = softmax(theirs @ memory.mT, dim=2, masked=masked)
        return squared_distances(mine, attention @ memory, theirs)

    def _scores(self, weights: Tensors, fixed: Tensors, users: Any) -> Any:
        import torch

        items = weights["items"]
        squares = items.square().sum(dim=1)
        scores = items.new_empty((len(users), len(items)))
        # User by user, so that the bits of a user's scores do not depend on the other users of the block.
        for row, user in enumerate(users.tolist()):
            history = fixed["history"][user]
            own = history[history >= 0]
            mine, memory = weights["users"][user], items[own]
            scores[row] = 2 * (items @ mine) - mine.square().sum() - squares
            if not len(own):
                continue
            inner = items @ memory.T  # (n_items, history)
            logits = inner.clone()
            logits[own, torch.arange(len(own), device=own.device)] = -float("inf")
            attention = softmax(logits, dim=1)
            along = attention @ (0.5 * memory @ memory.T)
            along += memory @ mine - inner
            along *= attention
            scores[row] -= 2 * along.sum(dim=1)
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class HLR(HistoryRecommender, SlotRecommender):
    """Hierarchical latent relation modeling (Tran et al., "Hierarchical Latent Relation Modeling for Collaborative
    Metric Learning", RecSys 2021).

    A memory of `n_slots` relations, the rows of M, with keys K is shared by all pairs. First level: the relation of an
    item v and a past item x of the user is ``r(x, v) = M' softmax(K' (x * v))``, and that of the user and the item,
    r(u, v), likewise. Second level: the user attends to these relations with ``w = softmax(u . r)``, and the relation
    of user and item is their mean under w. The distance is ``d(u, v) = |u + sum_x w_x r(x, v) - v|^2``; the score is
    minus that, the loss ``[margin + d(u, i) - d(u, j)]_+``.

    As in the authors' code, u itself is a reference of the first level, so that every user has one; negatives have
    their own relations; at most `max_history` past items are used. Whether keys and memory stay in the unit
    ball is an option there and a parameter here.

    Scores need products of slots only: with a(x, v) the attention of the first level, ``u . r = a . M u``, so the
    second level, its mean c of the attentions, and ``|u + M'c - v|^2`` need M u, M v and M M' only; a(x, v) is computed
    once for all users of a block.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> HLR(dim=8, n_slots=5, epochs=2).fit(town).recommend([7], k=3)["rank"].to_list()
    [1, 2, 3]
    """

    margin: float = 1.0
    max_history: int = 10

    def _distances(self, weights: Tensors, fixed: Tensors, batch: Batch, items: Any) -> Any:
        import torch
        from torch.nn.functional import embedding

        assert isinstance(batch, HistoryBatch)
        mine, theirs = embedding(batch.users, weights["users"]), embedding(items, weights["items"])
        past = embedding(batch.history.clamp_min(0), weights["items"])
        references = torch.cat([mine[:, None], past], dim=1)
        first = softmax((theirs[:, :, None] * references[:, None]) @ weights["keys"], dim=3)
        affinity = (first * (mine @ weights["memory"].T)[:, None, None]).sum(dim=3)  # (n, k, references)
        masked = (batch.history[:, None] < 0) | (batch.history[:, None] == items[:, :, None])
        masked = torch.nn.functional.pad(masked, (1, 0))
        second = softmax(affinity, dim=2, masked=masked)
        relation = (first * second[:, :, :, None]).sum(dim=2) @ weights["memory"]
        return squared_distances(mine[:, None], relation, theirs)

    def _scores(self, weights: Tensors, fixed: Tensors, users: Any) -> Any:
        import torch

        scores = weights["items"].new_empty((len(users), len(weights["items"])))
        most = len(users)
        if most + len(weights["items"]) > _REFERENCES:
            most = max(1, _REFERENCES // (1 + fixed["history"].shape[1]))
        for some in torch.arange(len(users), device=users.device).split(most):
            self._score_some(weights, fixed["history"][users[some]], weights["users"][users[some]], scores, some)
        return scores

    def _score_some(self, weights: Tensors, history: Any, users: Any, scores: Any, rows: Any) -> None:
        """Fill these rows of the scores; the attention of an item to a past item is computed once for all users."""
        import torch

        items, memory = weights["items"], weights["memory"]
        past, at = history.clamp_min(0).unique(return_inverse=True)
        references = torch.cat([users, items[past]])
        of_users, gram = row_by_row(users, memory.T), memory @ memory.T
        slots = len(memory)
        at_once = max(1, _IN_CACHE // (_ITEMS_AT_ONCE * slots * max(1, history.shape[1])))
        for columns in torch.arange(len(items), device=items.device).split(_ITEMS_AT_ONCE):
            # The last block is padded to the same shape, see `row_by_row`.
            theirs = torch.nn.functional.pad(items[columns], (0, 0, 0, _ITEMS_AT_ONCE - len(columns)))
            numbers = torch.nn.functional.pad(columns, (0, _ITEMS_AT_ONCE - len(columns)), value=len(items))
            keyed = (weights["keys"][:, :, None] * theirs.T[:, None]).flatten(1)
            first = softmax(row_by_row(references, keyed).view(len(references), slots, -1), dim=1)
            apart = users.square().sum(dim=1)[:, None] + theirs.square().sum(dim=1) - 2 * row_by_row(users, theirs.T)
            of_items = memory @ theirs.T
            for some in torch.arange(len(users), device=items.device).split(at_once):
                masked = (history[some] < 0)[:, :, None] | (history[some][:, :, None] == numbers)
                mean = _second_level(first[len(users) + at[some]], first[some], of_users[some], masked)
                along = gram.expand(len(some), -1, -1).bmm(mean).mul_(0.5)
                along += of_users[some][:, :, None] - of_items
                along *= mean
                found = -(apart[some] + 2 * along.sum(dim=1))
                scores[rows[some][:, None], columns] = found[:, : len(columns)]


def _second_level(of_past: Any, own: Any, through: Any, masked: Any) -> Any:
    """Mean of the first level's attention under the second level's.

    ``of_past`` has shape ``(n, history, slots, k)``, ``own`` (of the users themselves) ``(n, slots, k)``.
    """
    import torch

    affinity = torch.cat([(through[:, None] @ own)[:, None], through[:, None, None] @ of_past], dim=1).squeeze(2)
    affinity[:, 1:].masked_fill_(masked, -float("inf"))
    weight = softmax(affinity, dim=1)
    of_past *= weight[:, 1:, None]
    return of_past.sum(dim=1) + weight[:, :1] * own


def draw_histories(train: Interactions, max_history: int, random: np.random.Generator) -> NDArray[np.int32]:
    """At most ``max_history`` items of each user, drawn without replacement, padded with -1. ``(n_users, n)``."""
    rows = train.row_of_each()
    order = np.lexsort((random.random(train.n_interactions), rows))
    place = np.arange(train.n_interactions) - train.offsets[rows]
    drawn = np.full((train.n_users, min(max_history, int(train.user_counts.max()))), -1, dtype=np.int32)
    kept = place < max_history
    drawn[rows[kept], place[kept]] = train.indices[order[kept]]
    return drawn
