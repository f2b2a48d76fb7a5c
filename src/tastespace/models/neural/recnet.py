"""RecNet, a pairwise ranking network over user and item vectors, and its diversity-promoting form, DP-RecNet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tastespace._util.checks import require_number, require_whole
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.neural.base import Batch, NeuralRecommender, Tensors
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Arrays


@dataclass(kw_only=True, eq=False, repr=False)
class RecNet(NeuralRecommender):
    """RecNet (Trofimov et al., "Representation Learning and Pairwise Ranking for Implicit and Explicit Feedback in
    Recommendation Systems", arXiv:1705.00105, 2017).

    A user and an item have vectors p_u and q_i and a network ``g = h . relu(W_u p_u + W_i q_i + b)`` over both. The
    loss of a positive i and a negative j is ``alpha L(p_u . q_i - p_u . q_j) + (1 - alpha) L(g_ui - g_uj) + lambda
    (|p_u|^2 + |q_i|^2 + |q_j|^2)`` with ``L(x) = log(1 + exp(-x))``: the embedded space and the network learn the same
    order. The score is ``alpha p_u . q_i + (1 - alpha) g_ui``.

    The network, with one hidden layer over the joined vectors, and the sum of the two outputs as score follow the
    authors' code. There alpha and its counterpart are 0 or 1 each; one share that weights both loss and score covers
    all three cases. With alpha = 0 the network alone learns little more than popularity.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> RecNet(dim=8, n_hidden=4, epochs=2).fit(town).recommend([7], k=3)["rank"].to_list()
    [1, 2, 3]
    """

    n_hidden: int = 32
    """Units of the hidden layer."""
    embedding_share: float = 0.5
    """alpha, from 0 to 1: weight of the embedded space against the network."""
    regularization: float = 3e-3
    """lambda."""
    learning_rate: float = 5e-3
    n_negatives: int = 4

    def _check(self) -> None:
        super()._check()
        require_whole("n_hidden", self.n_hidden)
        require_number("regularization", self.regularization, least=0.0)
        require_number("embedding_share", self.embedding_share, least=0.0)
        if self.embedding_share > 1:
            raise ParameterError(f"embedding_share={self.embedding_share!r}: expected a number from 0 to 1.")

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        return {
            "users": (train.n_users, self.dim),
            "items": (train.n_items, self.dim),
            "from_user": (self.dim, self.n_hidden),
            "from_item": (self.dim, self.n_hidden),
            "bias": (self.n_hidden,),
            "out": (self.n_hidden,),
        }

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        inner, outer = np.sqrt(6 / (2 * self.dim + self.n_hidden)), np.sqrt(6 / (self.n_hidden + 1))
        return {
            "users": random.normal(0, 0.1, (train.n_users, self.dim)).astype(np.float32),
            "items": random.normal(0, 0.1, (train.n_items, self.dim)).astype(np.float32),
            "from_user": random.uniform(-inner, inner, (self.dim, self.n_hidden)).astype(np.float32),
            "from_item": random.uniform(-inner, inner, (self.dim, self.n_hidden)).astype(np.float32),
            "bias": np.zeros(self.n_hidden, dtype=np.float32),
            "out": random.uniform(-outer, outer, self.n_hidden).astype(np.float32),
        }

    def _ranking(self, weights: Tensors, batch: Batch) -> tuple[Any, Any, Any]:
        """The loss, and scores and vectors of the scored items: the positive and its negatives."""
        from torch.nn.functional import embedding, softplus

        users = embedding(batch.users, weights["users"])
        items = embedding(batch.scored_items, weights["items"])
        embedded = (users[:, None, :] * items).sum(dim=2)
        layer = (users @ weights["from_user"])[:, None, :] + items @ weights["from_item"] + weights["bias"]
        network = layer.relu() @ weights["out"]
        share = self.embedding_share
        loss = share * softplus(embedded[:, 1:] - embedded[:, :1]).mean()
        loss = loss + (1 - share) * softplus(network[:, 1:] - network[:, :1]).mean()
        squares = items.square().sum(dim=2)
        penalty = users.square().sum(dim=1) + squares[:, 0] + squares[:, 1:].mean(dim=1)
        return loss + self.regularization * penalty.mean(), share * embedded + (1 - share) * network, items

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        return self._ranking(weights, batch)[0]

    def _scores(self, weights: Tensors, fixed: Tensors, users: Any) -> Any:
        items, out = weights["items"], (1 - self.embedding_share) * weights["out"]
        projected, inward = items @ weights["from_item"] + weights["bias"], weights["from_user"].T
        scores = items.new_empty((len(users), len(items)))
        # User by user: activations fit in the cache, and scores do not depend on the other users of the block.
        for row, mine in enumerate(weights["users"][users]):
            scores[row] = items @ (self.embedding_share * mine) + (projected + inward @ mine).relu_() @ out
        return scores

    def item_space(self) -> VectorSpace:
        """The embedded space, in which items are compared; the score needs the network as well."""
        self.require_fitted()
        users, items = self.weights_["users"], self.weights_["items"]
        return VectorSpace.single(users, items, "dot")


@dataclass(kw_only=True, eq=False, repr=False)
class DPRecNet(RecNet):
    """Diversity-promoting RecNet (Sidana, Laclau and Amini, "Learning to Recommend Diverse Items over Implicit Feedback
    on PANDOR", RecSys 2018).

    RecNet's loss plus ``eta sum_ij a_i a_j exp(- D_ij)`` over a positive and its negatives.
    Here a is the softmax of their scores, a soft list, and D_ij the symmetric Kullback-Leibler divergence, the mean of
    both directions, of the distributions ``softmax(q_i)`` and ``softmax(q_j)``: the penalty is the expected similarity
    of two draws from the list. With eta = 0 this is RecNet.

    The publication's equations were not at hand, and its public code holds another model (RankALS with a Laplacian of
    item distances). The paper says that a loss based on the Kullback-Leibler divergence regulates the diversity within
    each user's list during training; soft list, exponential and softmax are our reading. The divergence is taken as
    constant, without a gradient: otherwise training separates vectors instead of mixing lists, and accuracy falls much
    more.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> DPRecNet(dim=8, n_hidden=4, epochs=2).fit(town).recommend([7], k=3)["rank"].to_list()
    [1, 2, 3]
    """

    diversity_weight: float = 1.0
    """eta."""

    def _check(self) -> None:
        super()._check()
        require_number("diversity_weight", self.diversity_weight, least=0.0)

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        loss, scores, items = self._ranking(weights, batch)
        if self.diversity_weight:
            chance = scores.softmax(dim=1)
            similarity = (-_divergences(items.detach())).exp()
            expected = (chance[:, :, None] * chance[:, None, :] * similarity).sum(dim=(1, 2)).mean()
            loss = loss + self.diversity_weight * expected
        return loss


def _divergences(vectors: Any) -> Any:
    """Symmetric Kullback-Leibler divergence of all pairs of each row's vectors, ``(n, k, dim)`` to ``(n, k, k)``."""
    logs = vectors.log_softmax(dim=2)
    crossed = logs.exp() @ logs.transpose(1, 2)  # minus the cross-entropy of row's and column's distributions
    own = crossed.diagonal(dim1=1, dim2=2)
    return 0.5 * (own[:, :, None] + own[:, None, :] - crossed - crossed.transpose(1, 2))
