"""Factorizations that want diverse lists: PRD, which orders pairs by how unlike they are, and IDCF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from tastespace.checks import require_number
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.baselines import binary_rows
from tastespace.models.torch_base import Batch, NeuralRecommender, Tensors
from tastespace.models.vectors import VectorSpace
from tastespace.training.loop import Arrays

_TABLE_ITEMS = (
    10_000  # up to so many items their similarities are a table, 400 MB at most; a look-up is 200 times faster
)
_LEAST = 0.1  # dissimilarity of two items that are the same to everybody; a difference is divided by it


@dataclass(kw_only=True, eq=False, repr=False)
class _Factors(NeuralRecommender):
    """One vector per user and per item, whose inner product is the score."""

    regularization: float = 0.02
    """lambda, L2 penalty on the vectors of each triple that is visited."""
    learning_rate: float = 3e-3
    n_negatives: int = 4

    def _check(self) -> None:
        super()._check()
        require_number("regularization", self.regularization, least=0.0)

    def _start(self, train: Interactions, random: np.random.Generator) -> Arrays:
        return {
            "users": random.normal(0, 0.1, (train.n_users, self.dim)).astype(np.float32),
            "items": random.normal(0, 0.1, (train.n_items, self.dim)).astype(np.float32),
        }

    def _triples(self, weights: Tensors, batch: Batch) -> tuple[Any, Any, Any]:
        """Users' vectors, score differences of positive and negatives, and the L2 penalty, all of the batch."""
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
class PRD(_Factors):
    """Personalized ranking with diversity (Hurley, "Personalized Ranking with Diversity", RecSys 2013).

    The score is ``p_u . q_i``. RankALS and RankSGD (Jahrer and Toescher, 2012) want score differences to be rating
    differences; here the wanted difference of a taken item i and another item j depends on how unlike the two are:
    the loss is ``s_j / 2 (p_u . q_i - p_u . q_j - 1 / d_ij)^2 + lambda (|p_u|^2 + |q_i|^2 + |q_j|^2)`` with
    ``d_ij = sqrt(1 - tanh(alpha cos_ij))``, cos_ij the cosine of the two items' users, and s_j the support of j, its
    number of users to a power, with mean 1 over the catalog. With alpha = 0 this is RankSGD.

    The publication's abstract and LibRec's code, which the paper names, were at hand; the equations were not. The
    abstract weights the difference in ratings by the dissimilarity and says that diverse items shall be ranked closely
    together. LibRec multiplies the wanted difference by d_ij (``dissimilarity="multiplies"``), so that items *like* the
    taken ones come close: on synthetic towns larger alpha then makes lists less diverse. The default divides by d_ij
    (0.1 at the least), which does what the abstract promises: d_ij times the difference in scores shall be the
    difference in ratings. LibRec also draws j by popularity and weights it by popularity again; then nothing holds rare
    items back. Here j is drawn uniformly and only the weight remains, with an exponent.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> PRD(dim=8, epochs=2).fit(town).vectors().item_vectors.shape
    (50, 8)
    """

    alpha: float = 1.0
    """How fast the dissimilarity of items falls with their cosine; 0: all pairs alike."""
    dissimilarity: Literal["divides", "multiplies"] = "divides"
    """What it does to the wanted difference of scores."""
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
        unit = binary_rows(train, np.arange(train.n_users)) @ sp.diags_array(1.0 / np.sqrt(np.maximum(counts, 1.0)))
        cosines = sp.csr_array(unit.T.tocsr() @ unit).astype(np.float32)
        cosines.sort_indices()
        return {
            "cosines": cosines.toarray() if train.n_items <= _TABLE_ITEMS else cosines,
            "support": self._tensor(torch, (support / support.mean()).astype(np.float32)),
        }

    def _wanted(self, fixed: Tensors, batch: Batch) -> Any:
        """The wanted score difference of each positive and its negatives."""
        import torch

        shape = batch.negatives.shape
        items = np.repeat(batch.items.cpu().numpy(), shape[1])
        cosines = np.asarray(fixed["cosines"][items, batch.negatives.cpu().numpy().ravel()])
        dissimilarity = np.sqrt(np.maximum(0.0, 1.0 - np.tanh(self.alpha * cosines))).reshape(tuple(shape))
        wanted = dissimilarity if self.dissimilarity == "multiplies" else 1.0 / np.maximum(dissimilarity, _LEAST)
        return self._tensor(torch, wanted.astype(np.float32))

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        _, differences, penalty = self._triples(weights, batch)
        errors = (differences - self._wanted(fixed, batch)).square()
        return 0.5 * (fixed["support"][batch.negatives] * errors).mean() + penalty


@dataclass(kw_only=True, eq=False, repr=False)
class IDCF(_Factors):
    """Item-diversity-based collaborative filtering on BPR (Yang, Fan and Wang, "An Item-Diversity-Based Collaborative
    Filtering Algorithm to Improve the Accuracy of Recommender System", UIC 2018).

    The score is ``p_u . q_i`` and the loss of a positive i and a negative j
    ``- log sigmoid(p_u . q_i - p_u . q_j) + lambda (|p_u|^2 + |q_i|^2 + |q_j|^2) + eta Var(p_u . q)``, where Var is the
    variance of the user's scores over the whole catalog, ``p_u' C p_u`` with C the covariance of all item vectors.

    The publication's text was not at hand. The paper calls it a general variance regularization of factor models,
    used with BPR; which variance is regularized is our reading. This one tells most against the directions in which
    the catalog varies most, popularity and the largest tastes, so that smaller interests come through and the items
    of a list become less alike. With moderate eta accuracy rises as well, as the title has it; with more it falls.

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
            spread = weights["items"] - weights["items"].mean(dim=0)
            covariance = spread.T @ spread / len(spread)
            loss = loss + self.variance_weight * ((users @ covariance) * users).sum(dim=1).mean()
        return loss
