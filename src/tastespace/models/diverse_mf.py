"""Matrix factorization trained for diverse lists: PRD (target differences by dissimilarity) and IDCF (variance
regularization).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from tastespace.checks import require_number
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.torch_base import Batch, NeuralRecommender, Tensors
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Arrays

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
    """How fast the dissimilarity of items falls with their cosine; 0: the same for all pairs."""
    dissimilarity: Literal["divides", "multiplies"] = "divides"
    """How it enters the target difference of scores."""
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
