"""Matrix factorisation with torch: GMF, MLP and NeuMF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tastespace.data.interactions import Interactions
from tastespace.models.neural import Batch, NeuralRecommender, Tensors
from tastespace.models.vectors import VectorSpace
from tastespace.training.loop import Arrays


@dataclass(kw_only=True, eq=False, repr=False)
class GMF(NeuralRecommender):
    """Generalised matrix factorisation (He et al., "Neural Collaborative Filtering", WWW 2017).

    The score is ``h . (p_u * q_i)`` with a learnt h, an inner product in which every coordinate has a weight; the loss
    is binary cross-entropy over the positives and `negatives` uniform negatives each.

    The publication leaves the start of h open; ones make GMF start as plain matrix factorisation.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> GMF(dim=8, epochs=2).fit(town).recommend([7], k=3)["rank"].to_list()
    [1, 2, 3]
    """

    negatives: int = 4

    def _start(self, train: Interactions, random: np.random.Generator) -> Arrays:
        return {
            "users": random.normal(0, 0.01, (train.n_users, self.dim)).astype(np.float32),
            "items": random.normal(0, 0.01, (train.n_items, self.dim)).astype(np.float32),
            "h": np.ones(self.dim, dtype=np.float32),
        }

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        import torch

        mine = weights["users"][batch.users] * weights["h"]
        items = torch.cat([batch.items[:, None], batch.negatives], dim=1)
        logits = (mine[:, None, :] * weights["items"][items]).sum(dim=2)
        labels = torch.zeros_like(logits)
        labels[:, 0] = 1.0
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)

    def _space(self, weights: Arrays) -> VectorSpace:
        users = weights["users"] * weights["h"]
        return VectorSpace(users, np.arange(len(users) + 1, dtype=np.int64), weights["items"], "dot")
