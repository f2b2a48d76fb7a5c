"""Matrix factorization with several vectors per user: M2F and MGMF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tastespace.checks import require_whole
from tastespace.data.interactions import Interactions
from tastespace.models.ncf import cross_entropy
from tastespace.models.torch_base import Batch, NeuralRecommender, Tensors
from tastespace.models.torch_losses import SpreadControl
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Arrays


@dataclass(kw_only=True, eq=False, repr=False)
class _MultiVectorMF(NeuralRecommender):
    """Models with C vectors per user; the score is the largest over the user's vectors."""

    has_interests = True
    n_interests: int = 3
    """Vectors per user: C, m in the publication on M2F."""

    def _check(self) -> None:
        super()._check()
        require_whole("n_interests", self.n_interests)

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        return {"users": (train.n_users, self.n_interests * self.dim), "items": (train.n_items, self.dim)}

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        width = self.n_interests * self.dim  # a row holds the vectors of a user, one after the other
        return {
            "users": random.normal(0, 0.01, (train.n_users, width)).astype(np.float32),
            "items": random.normal(0, 0.01, (train.n_items, self.dim)).astype(np.float32),
        }

    def _vectors_of(self, weights: Tensors, users: Any) -> Any:
        """Shape ``(n, C, dim)``."""
        from torch.nn.functional import embedding

        return embedding(users, weights["users"]).view(len(users), self.n_interests, self.dim)

    def _best(self, weights: Tensors, mine: Any, batch: Batch) -> Any:
        """The largest inner product of the user's vectors with each scored item, shape ``(n, 1 + n_negatives)``."""
        from torch.nn.functional import embedding

        items = embedding(batch.scored_items, weights["items"])
        return (mine @ items.transpose(1, 2)).max(dim=1).values

    def _space(self, weights: Arrays) -> VectorSpace:
        users = weights["users"].reshape(-1, self.dim)
        offsets = np.arange(len(weights["users"]) + 1, dtype=np.int64) * self.n_interests
        return VectorSpace(users, offsets, weights["items"], "dot")


@dataclass(kw_only=True, eq=False, repr=False)
class M2F(SpreadControl, _MultiVectorMF):
    """Multi-vector matrix factorization (Weston et al., RecSys 2013; Guo et al., "The Stereotyping Problem in
    Collaboratively Filtered Recommender Systems", EAAMO 2021).

    The score is ``s(u, i) = max_c p_{u,c} . q_i``. The loss of a positive is the squared error
    ``(1 - s(u, i))^2 + sum_j s(u, j)^2``, divided by the number of its terms, where j are `n_negatives` uniform items
    that the user does not have. With DCRS (of the DPCML paper) it adds
    ``eta ([delta_1 - delta_u]_+ + [delta_u - delta_2]_+)``, where delta_u is the sum of the squared distances of all
    ordered pairs of the user's vectors, divided by 2 C (C - 1); each user has the same part in it over an epoch,
    whatever the length of the history.

    The publication is about ratings and fits the observed entries alone; that would make all scores 1 where only
    positives are known, so unobserved entries are drawn and count as 0. How the least squares are initialized
    and solved is left open: here at random, with Adam.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = M2F(dim=8, n_interests=2, epochs=2).fit(town)
    >>> model.vectors().user_vectors.shape
    (120, 8)
    """

    n_negatives: int = 8
    learning_rate: float = 3e-3
    weight_decay: float = 1e-5
    dcrs: Literal["mean", "pairs"] | None = None
    """The penalty: on the spread of a user's vectors, on the squared distance of each pair, or none."""

    def _check(self) -> None:
        super()._check()
        self._check_spread()

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        # A user has one step per interaction: with this weight, an epoch gives every user the same eta.
        user_weight = train.n_interactions / (train.n_users * np.maximum(train.user_counts, 1))
        return {"user_weight": self._tensor(torch, user_weight.astype(np.float32))}

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        mine = self._vectors_of(weights, batch.users)
        scores = self._best(weights, mine, batch)
        error = (scores.square().sum(dim=1) - 2 * scores[:, 0] + 1).mean() / scores.shape[1]
        if self.dcrs is None or self.n_interests == 1:
            return error
        return error + self.spread_weight * (fixed["user_weight"][batch.users] * self._penalty(mine)).mean()


@dataclass(kw_only=True, eq=False, repr=False)
class MGMF(_MultiVectorMF):
    """Multi-vector generalized matrix factorization: `GMF` with several vectors per user.

    A competitor in the DPCML paper (TPAMI 2024), which made it from M2F (Guo et al., EAAMO 2021) and GMF (He et al.,
    WWW 2017). The score is ``max_c h . (p_{u,c} * q_i)`` with a learned h; the loss is binary cross-entropy over the
    positives and `n_negatives` uniform negatives each.

    The paper gives no more than this; h starts at ones, as in `GMF`.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = MGMF(dim=8, n_interests=2, epochs=2).fit(town)
    >>> model.vectors().user_vectors.shape
    (120, 8)
    """

    n_negatives: int = 4
    learning_rate: float = 3e-3
    weight_decay: float = 1e-5

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        return {**super()._weight_shapes(train), "h": (self.dim,)}

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        return {**super()._initial_weights(train, random), "h": np.ones(self.dim, dtype=np.float32)}

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        return cross_entropy(self._best(weights, self._vectors_of(weights, batch.users) * weights["h"], batch))

    def _space(self, weights: Arrays) -> VectorSpace:
        return super()._space({**weights, "users": weights["users"] * np.tile(weights["h"], self.n_interests)})
