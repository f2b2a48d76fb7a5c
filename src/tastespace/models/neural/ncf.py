"""Neural collaborative filtering: GMF, MLP and NeuMF."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tastespace._util.checks import require_whole
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.neural.base import Batch, NeuralRecommender, Tensors
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Arrays

_PAIRS = 4096  # items that a tower scores at once for a user: their activations fit in the cache


def cross_entropy(logits: Any) -> Any:
    """Binary cross-entropy of logits ``(n, 1 + n_negatives)`` whose first column belongs to the positives."""
    from torch.nn.functional import binary_cross_entropy_with_logits

    labels = logits.new_zeros(logits.shape)
    labels[:, 0] = 1.0
    return binary_cross_entropy_with_logits(logits, labels)


@dataclass(kw_only=True, eq=False, repr=False)
class GMF(NeuralRecommender):
    """Generalized matrix factorization (He et al., "Neural Collaborative Filtering", WWW 2017).

    The score is ``h . (p_u * q_i)`` with a learned h, an inner product in which every coordinate has a weight; the loss
    is binary cross-entropy over the positives and `n_negatives` uniform negatives each.

    The publication does not say how h is initialized; with ones GMF starts as plain matrix factorization.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> GMF(dim=8, epochs=2).fit(town).recommend([7], k=3)["rank"].to_list()
    [1, 2, 3]
    """

    n_negatives: int = 4
    learning_rate: float = 3e-3
    weight_decay: float = 1e-5

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        return {"users": (train.n_users, self.dim), "items": (train.n_items, self.dim), "h": (self.dim,)}

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        return {
            "users": random.normal(0, 0.01, (train.n_users, self.dim)).astype(np.float32),
            "items": random.normal(0, 0.01, (train.n_items, self.dim)).astype(np.float32),
            "h": np.ones(self.dim, dtype=np.float32),
        }

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        from torch.nn.functional import embedding

        mine = embedding(batch.users, weights["users"]) * weights["h"]
        return cross_entropy((mine[:, None, :] * embedding(batch.scored_items, weights["items"])).sum(dim=2))

    def _space(self, weights: Arrays) -> VectorSpace:
        users = weights["users"] * weights["h"]
        return VectorSpace.single(users, weights["items"], "dot")


@dataclass(kw_only=True, eq=False, repr=False)
class MLP(NeuralRecommender):
    """The multi-layer perceptron of neural collaborative filtering (He et al., WWW 2017).

    The score is ``h . phi(p_u, q_i) + b``, where ``z_1 = relu(W_1 [p_u; q_i] + b_1)``,
    ``z_l = relu(W_l z_{l-1} + b_l)`` and phi is the last z. The layers form a tower: the first has as many units
    as p_u, each further one half as many. The loss is binary cross-entropy over the positives and `n_negatives` uniform
    negatives each.

    The publication does not say how layers and h are initialized; here by He's rule, which suits rectifiers. W_1 is
    kept as its user half and its item half: ``W_1 [p; q] = A p + B q``, so that a ranking multiplies each user and each
    item once and never stores 2 d numbers per pair.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = MLP(dim=8, n_layers=2, epochs=2).fit(town)
    >>> model.weights_["w2"].shape, model.recommend([7], k=3)["rank"].to_list()
    ((4, 8), [1, 2, 3])
    """

    n_negatives: int = 4
    batch_size: int = 1024
    weight_decay: float = 1e-5
    n_layers: int = 3
    """Hidden layers of the tower, of dim, dim / 2, dim / 4, ... units."""

    def _check(self) -> None:
        super()._check()
        require_whole("n_layers", self.n_layers)
        if self.dim >> (self.n_layers - 1) < 1:
            raise ParameterError(
                f"n_layers={self.n_layers}: a tower of dim={self.dim} units, halved from layer to layer, has no unit "
                f"left in its last layer. Take n_layers={int(self.dim).bit_length()} or fewer, or a larger dim."
            )

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        sizes = [self.dim >> level for level in range(self.n_layers)]
        found: dict[str, tuple[int, ...]] = {
            "mlp_users": (train.n_users, self.dim),
            "mlp_items": (train.n_items, self.dim),
            "w1_users": (sizes[0], self.dim),
            "w1_items": (sizes[0], self.dim),
            "b1": (sizes[0],),
            "h": (sizes[-1],),
            "b": (1,),
        }
        for level, (wide, narrow) in enumerate(pairwise(sizes), start=2):
            found |= {f"w{level}": (narrow, wide), f"b{level}": (narrow,)}
        return found

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        sizes = [self.dim >> level for level in range(self.n_layers)]
        deviation = (2.0 / (2 * self.dim)) ** 0.5  # W_1 sees two vectors
        found = {
            "mlp_users": random.normal(0, 0.01, (train.n_users, self.dim)),
            "mlp_items": random.normal(0, 0.01, (train.n_items, self.dim)),
            "w1_users": random.normal(0, deviation, (sizes[0], self.dim)),
            "w1_items": random.normal(0, deviation, (sizes[0], self.dim)),
            "b1": np.zeros(sizes[0]),
        }
        for level, (wide, narrow) in enumerate(pairwise(sizes), start=2):
            found[f"w{level}"] = random.normal(0, (2.0 / wide) ** 0.5, (narrow, wide))
            found[f"b{level}"] = np.zeros(narrow)
        found["h"] = random.normal(0, (2.0 / sizes[-1]) ** 0.5, sizes[-1])
        found["b"] = np.zeros(1)  # common to all items: the share of positives
        return {name: array.astype(np.float32) for name, array in found.items()}

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        return cross_entropy(self._tower_logits(weights, batch))

    def _tower_logits(self, weights: Tensors, batch: Batch) -> Any:
        """``h . phi`` of the scored items, shape ``(n, 1 + n_negatives)``."""
        from torch.nn.functional import embedding, linear

        mine = linear(embedding(batch.users, weights["mlp_users"]), weights["w1_users"], weights["b1"])
        theirs = linear(embedding(batch.scored_items, weights["mlp_items"]), weights["w1_items"])
        return self._upper_layers(weights, (mine[:, None, :] + theirs).relu())

    def _upper_layers(self, weights: Tensors, activations: Any) -> Any:
        """From the first layer to the logit, for activations of any shape ``(..., dim)``."""
        from torch.nn.functional import linear

        for level in range(2, self.n_layers + 1):
            activations = linear(activations, weights[f"w{level}"], weights[f"b{level}"]).relu_()
        return activations @ weights["h"] + weights["b"]

    def _scores(self, weights: Tensors, fixed: Tensors, users: Any) -> Any:
        import torch

        theirs = weights["mlp_items"] @ weights["w1_items"].T
        out = torch.empty(len(users), len(theirs), device=theirs.device)
        # User by user, so that the bits of a user's scores do not depend on the other users of the block.
        for row, user in enumerate(users.tolist()):
            mine = weights["w1_users"] @ weights["mlp_users"][user] + weights["b1"]
            for at in range(0, len(theirs), _PAIRS):
                out[row, at : at + _PAIRS] = self._upper_layers(weights, (mine + theirs[at : at + _PAIRS]).relu_())
        return out


@dataclass(kw_only=True, eq=False, repr=False)
class NeuMF(MLP):
    """Neural matrix factorization: GMF and MLP in one model (He et al., WWW 2017).

    The score is ``h_G . (p_u * q_i) + h_M . phi(p'_u, q'_i) + b``, where phi is the tower of `MLP` and both parts have
    vectors of their own; the loss is binary cross-entropy over the positives and `n_negatives` uniform negatives each.

    The publication initializes both parts from trained models and reports gains of 1 to 2 % over random initialization;
    that costs two more trainings, so it is left out here. It gives the vectors of the tower another size than those of
    GMF; here both have `dim`.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> NeuMF(dim=8, epochs=2).fit(town).recommend([7], k=3)["rank"].to_list()
    [1, 2, 3]
    """

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        own = {"users": (train.n_users, self.dim), "items": (train.n_items, self.dim), "h_gmf": (self.dim,)}
        return {**super()._weight_shapes(train), **own}

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        return {
            "users": random.normal(0, 0.01, (train.n_users, self.dim)).astype(np.float32),
            "items": random.normal(0, 0.01, (train.n_items, self.dim)).astype(np.float32),
            "h_gmf": np.ones(self.dim, dtype=np.float32),
            **super()._initial_weights(train, random),
        }

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        from torch.nn.functional import embedding

        mine = embedding(batch.users, weights["users"]) * weights["h_gmf"]
        theirs = embedding(batch.scored_items, weights["items"])
        return cross_entropy((mine[:, None, :] * theirs).sum(dim=2) + self._tower_logits(weights, batch))

    def _scores(self, weights: Tensors, fixed: Tensors, users: Any) -> Any:
        scores = super()._scores(weights, fixed, users)
        for row, user in enumerate(users.tolist()):
            scores[row] += weights["items"] @ (weights["users"][user] * weights["h_gmf"])
        return scores
