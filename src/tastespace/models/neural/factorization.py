"""Matrix factorization with torch: several vectors per user (M2F, MGMF), and trained for diverse lists (PRD, IDCF)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from tastespace._util.checks import require_number, require_whole
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.neural.base import Batch, NeuralRecommender, Tensors
from tastespace.models.neural.losses import SpreadControl
from tastespace.models.neural.ncf import cross_entropy
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Arrays

# ---------------------------------------------------------------------------------------------------------------------
# Matrix factorization with several vectors per user: M2F and MGMF.


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


# ---------------------------------------------------------------------------------------------------------------------
# Matrix factorization trained for diverse lists: PRD (target differences by dissimilarity) and IDCF (variance
# regularization).

_MAX_DENSE_ITEMS = 10_000  # up to here cosines are a dense table (400 MB at most): lookups are 200 times faster
_MIN_DISSIMILARITY = 0.1  # of two items with the same users; differences are divided by it


@dataclass(kw_only=True, eq=False, repr=False)
class _PairwiseMF(NeuralRecommender):
    """One vector per user and per item, whose inner product is the score."""

    regularization: float = 0.02
    """lambda, L2 penalty on the vectors of each sampled triple."""
    learning_rate: float = 3e-3
    n_negatives: int = 4

    def _check(self) -> None:
        super()._check()
        require_number("regularization", self.regularization, least=0.0)

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        return {"users": (train.n_users, self.dim), "items": (train.n_items, self.dim)}

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        return {
            "users": random.normal(0, 0.1, (train.n_users, self.dim)).astype(np.float32),
            "items": random.normal(0, 0.1, (train.n_items, self.dim)).astype(np.float32),
        }

    def _triples(self, weights: Tensors, batch: Batch) -> tuple[Any, Any, Any]:
        """Users' vectors, score differences of positive and negatives, and the L2 penalty of the batch."""
        from torch.nn.functional import embedding

        users, items = embedding(batch.users, weights["users"]), embedding(batch.items, weights["items"])
        others = embedding(batch.negatives, weights["items"])
        differences = ((items[:, None, :] - others) * users[:, None, :]).sum(dim=2)
        squares = users.square().sum(dim=1) + items.square().sum(dim=1) + others.square().sum(dim=2).mean(dim=1)
        return users, differences, self.regularization * squares.mean()

    def _space(self, weights: Arrays) -> VectorSpace:
        users = weights["users"]
        return VectorSpace.single(users, weights["items"], "dot")


@dataclass(kw_only=True, eq=False, repr=False)
class PRD(_PairwiseMF):
    """Personalized ranking with diversity (Hurley, "Personalized Ranking with Diversity", RecSys 2013).

    The score is ``p_u . q_i``. RankALS and RankSGD (Jahrer and Toescher, 2012) fit score differences to rating
    differences; here the target difference of a positive i and another item j depends on their dissimilarity: the loss
    is ``s_j / 2 (p_u . q_i - p_u . q_j - 1 / d_ij)^2 + lambda (|p_u|^2 + |q_i|^2 + |q_j|^2)`` with
    ``d_ij = sqrt(1 - tanh(alpha cos_ij))``, cos_ij the cosine of the two items' users, and s_j the support of j, its
    number of users to a power, with mean 1 over the catalog. With alpha = 0 this is RankSGD.

    The publication's abstract and LibRec's code, which the paper names, were at hand; the equations were not. The
    abstract weights the difference in ratings by the dissimilarity and says that diverse items shall be ranked closely
    together. LibRec multiplies the target difference by d_ij (``dissimilarity="multiplies"``), so that items *similar*
    to the positives get close scores: on synthetic data larger alpha then makes lists less diverse. The default divides
    by d_ij (at least 0.1), which does what the abstract promises: d_ij times the difference in scores is the difference
    in ratings. LibRec also draws j by popularity and weights it by popularity again; rare items are then hardly ever
    negatives. Here j is drawn uniformly and only the weight remains, with an exponent.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> PRD(dim=8, epochs=2).fit(town).vectors().item_vectors.shape
    (50, 8)
    """

    alpha: float = 1.0
    """Rate at which the dissimilarity of items falls with their cosine; 0: the same for all pairs."""
    dissimilarity: Literal["divides", "multiplies"] = "divides"
    """Role of the dissimilarity in the target difference of scores."""
    support: float = 0.5
    """Exponent of an item's number of users in s_j; the publication's is 1, and 0 gives all items the same weight."""
    regularization: float = 0.05

    def _check(self) -> None:
        super()._check()
        require_number("alpha", self.alpha, least=0.0)
        require_number("support", self.support, least=0.0)
        if self.dissimilarity not in ("divides", "multiplies"):
            raise ParameterError(f"dissimilarity={self.dissimilarity!r}: expected 'divides' or 'multiplies'.")

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        counts = train.item_counts.astype(np.float64)
        share = counts / counts.max()  # a large power of a large count would overflow
        support = np.where(share > 0, share**self.support, 0.0)
        unit = train.matrix @ sp.diags_array(1.0 / np.sqrt(np.maximum(counts, 1.0)))
        cosines = sp.csr_array(unit.T.tocsr() @ unit).astype(np.float32)
        cosines.sort_indices()
        return {
            "cosines": cosines.toarray() if train.n_items <= _MAX_DENSE_ITEMS else cosines,
            "support": self._tensor(torch, (support / support.mean()).astype(np.float32)),
        }

    def _target_differences(self, fixed: Tensors, batch: Batch) -> Any:
        """Target score differences of each positive and its negatives, shape ``(n, n_negatives)``."""
        import torch

        shape = batch.negatives.shape
        items = np.repeat(batch.items.cpu().numpy(), shape[1])
        cosines = np.asarray(fixed["cosines"][items, batch.negatives.cpu().numpy().ravel()])
        dissimilarity = np.sqrt(np.maximum(0.0, 1.0 - np.tanh(self.alpha * cosines))).reshape(tuple(shape))
        target = (
            dissimilarity if self.dissimilarity == "multiplies" else 1.0 / np.maximum(dissimilarity, _MIN_DISSIMILARITY)
        )
        return self._tensor(torch, target.astype(np.float32))

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        _, differences, penalty = self._triples(weights, batch)
        errors = (differences - self._target_differences(fixed, batch)).square()
        return 0.5 * (fixed["support"][batch.negatives] * errors).mean() + penalty


@dataclass(kw_only=True, eq=False, repr=False)
class IDCF(_PairwiseMF):
    """Item-diversity-based collaborative filtering on BPR (Yang, Fan and Wang, "An Item-Diversity-Based Collaborative
    Filtering Algorithm to Improve the Accuracy of Recommender System", UIC 2018).

    The score is ``p_u . q_i`` and the loss of a positive i and a negative j
    ``- log sigmoid(p_u . q_i - p_u . q_j) + lambda (|p_u|^2 + |q_i|^2 + |q_j|^2) + eta Var(p_u . q)``, where Var is the
    variance of the user's scores over the whole catalog, ``p_u' C p_u`` with C the covariance of all item vectors.

    The publication's text was not at hand. The paper calls it a general variance regularization of factor models,
    used with BPR; which variance is regularized is our reading. This one penalizes most the directions in which the
    catalog varies most, popularity and the largest groups of items, so that smaller interests get a larger part and
    lists more diverse. With moderate eta accuracy rises as well, as the title says; with larger eta it falls.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> IDCF(dim=8, epochs=2).fit(town).vectors().item_vectors.shape
    (50, 8)
    """

    variance_weight: float = 3.0
    """eta; 0 gives BPR."""
    epochs: int = 60

    def _check(self) -> None:
        super()._check()
        require_number("variance_weight", self.variance_weight, least=0.0)

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        from torch.nn.functional import softplus

        users, differences, penalty = self._triples(weights, batch)
        loss = softplus(-differences).mean() + penalty
        if self.variance_weight:
            centered = weights["items"] - weights["items"].mean(dim=0)
            covariance = centered.T @ centered / len(centered)
            loss = loss + self.variance_weight * ((users @ covariance) * users).sum(dim=1).mean()
        return loss
