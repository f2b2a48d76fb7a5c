"""Graph convolution over users and items: LightGCN."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace._util.checks import require_number, require_whole
from tastespace.data.interactions import Interactions
from tastespace.models.neural.base import Batch, NeuralRecommender, Tensors
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Arrays


@dataclass(kw_only=True, eq=False, repr=False)
class LightGCN(NeuralRecommender):
    """Light graph convolution (He et al., "LightGCN: Simplifying and Powering Graph Convolution Network for
    Recommendation", SIGIR 2020).

    Users and items are the nodes of a graph whose edges are the interactions. With A its adjacency matrix, D the
    degrees and ``N = D^{-1/2} A D^{-1/2}``, the vectors of all nodes are
    ``E = (E_0 + N E_0 + ... + N^K E_0) / (K + 1)`` with learned E_0, and the score is ``e_u . e_i``. The loss of a
    positive i and a negative j is
    ``- log sigmoid(e_u . e_i - e_u . e_j) + lambda / 2 (|e0_u|^2 + |e0_i|^2 + |e0_j|^2)``.

    The publication penalizes all of E_0, its code the vectors of the batch; this follows the code. N is symmetric, so
    the gradient is the same propagation, and no layers have to be stored; its entries are products of a number of the
    row and one of the column, so that a layer is a sum of neighbors' rows between two scalings.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = LightGCN(dim=8, n_layers=2, epochs=2).fit(town)
    >>> model.vectors().item_vectors.shape
    (50, 8)
    """

    n_layers: int = 2
    """K, the number of propagation layers."""
    regularization: float = 1e-3
    """lambda."""
    learning_rate: float = 5e-3
    epochs: int = 100

    def _check(self) -> None:
        super()._check()
        require_whole("n_layers", self.n_layers)
        require_number("regularization", self.regularization, least=0.0)

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        return {"nodes": (train.n_users + train.n_items, self.dim)}

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        return {"nodes": random.normal(0, 0.1, (train.n_users + train.n_items, self.dim)).astype(np.float32)}

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        graph = adjacency(train)
        return {
            "neighbors": self._tensor(torch, graph.indices),
            "offsets": self._tensor(torch, graph.indptr),
            "scale": self._tensor(torch, _scale(graph)),
            "n_users": train.n_users,
        }

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        import torch
        from torch.nn.functional import embedding, softplus

        initial, n_users = weights["nodes"], fixed["n_users"]
        final = _propagation().apply(initial, self.n_layers, fixed["neighbors"], fixed["offsets"], fixed["scale"])
        nodes = torch.cat([batch.users[:, None], batch.items[:, None] + n_users, batch.negatives + n_users], dim=1)
        mine, positive, negatives = embedding(nodes, final).split([1, 1, nodes.shape[1] - 2], dim=1)
        ranking = softplus((mine * (negatives - positive)).sum(dim=2)).mean()
        # Squares of the rows that occur in the batch, times their number of occurrences.
        counts = torch.bincount(nodes.flatten(), minlength=len(initial)).to(initial.dtype)
        return ranking + 0.5 * self.regularization / len(nodes) * (counts @ initial.square().sum(dim=1))

    def _space(self, weights: Arrays) -> VectorSpace:
        if self._cached_space[0] is not weights:
            users, items = np.split(
                propagate(adjacency(self.train_), weights["nodes"], self.n_layers), [self.train_.n_users]
            )
            self._cached_space = (weights, VectorSpace.single(users, items, "dot"))
        return self._cached_space[1]


def adjacency(train: Interactions) -> sp.csr_array:
    """The graph: users first, then items; an edge has the value 1."""
    matrix = sp.csr_array(
        (np.ones(train.n_interactions, dtype=np.float32), train.indices, train.offsets),
        shape=(train.n_users, train.n_items),
    )
    return sp.csr_array(sp.block_array([[None, matrix], [matrix.T, None]], format="csr"))


def propagate(graph: sp.csr_array, initial: NDArray[np.float32], n_layers: int) -> NDArray[np.float32]:
    """The mean of the layers, without torch."""
    scale = _scale(graph)
    total, scaled = initial.copy(), initial * scale
    for _ in range(n_layers):
        layer = scale * (graph @ scaled)
        total += layer
        scaled = scale * layer
    return total / np.float32(n_layers + 1)


def _scale(graph: sp.csr_array) -> NDArray[np.float32]:
    """One over the root of each degree, a column; 1 for nodes without edges, where it has no effect."""
    return (1 / np.sqrt(np.maximum(1, np.diff(graph.indptr)))).astype(np.float32)[:, None]


@cache
def _propagation() -> Any:
    """The mean of the layers as an autograd function: it is linear and symmetric, hence its own derivative."""
    import torch

    def run(initial: Any, n_layers: int, neighbors: Any, offsets: Any, scale: Any) -> Any:
        total, layer = initial.clone(), initial
        for _ in range(n_layers):
            # Sums of rows by `embedding_bag` take a third of the time of a product with a sparse matrix.
            layer = torch.nn.functional.embedding_bag(
                neighbors, layer * scale, offsets, mode="sum", include_last_offset=True
            ).mul_(scale)
            total += layer
        return total.div_(n_layers + 1)

    class Propagation(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, initial: Any, n_layers: int, *graph: Any) -> Any:
            ctx.n_layers = n_layers
            ctx.save_for_backward(*graph)
            return run(initial, n_layers, *graph)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return run(gradient, ctx.n_layers, *ctx.saved_tensors), None, None, None, None

    return Propagation
