"""Graph filters over nearest and furthest neighbors, to trade accuracy for diversity: GCN-AccDiv."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace._util.checks import require_number, require_whole
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.neural.base import Batch, NeuralRecommender, Tensors
from tastespace.training.loop import Arrays

_PAIRS_AT_ONCE = 4_000_000  # correlations that are computed in one block: some 100 MB


@dataclass(kw_only=True, eq=False, repr=False)
class GCNAccDiv(NeuralRecommender):
    """Accuracy and diversity by graph convolutions (Isufi, Pocchiari and Hanjalic, "Accuracy-Diversity Trade-off in
    Recommender Systems via Graph Convolutions", Information Processing and Management 2021); GraphDiv in the paper's
    table.

    Each node, a user or an item, has edges to its k nearest neighbors in a graph N and to its k furthest in a graph F:
    those with the largest and the most negative Pearson correlation of the interactions, weighted by its size; the
    weights of a node sum to 1. With X the users x items matrix of ones and zeros, N over users and F over items the
    scores are ``(1 - alpha) sum_l a_l N^l X + alpha sum_l b_l X (F')^l``, where a and b, each positive with sum 1,
    are learned: the loss of a positive i and a negative j is ``- log sigmoid(t (s_ui - s_uj))`` with a learned t > 0,
    and an interaction is left out of the filter when its own score is computed. Both graphs may be over users or over
    items; users and items, in this order, is the default of the authors' code.

    The publication predicts ratings: its graphs differ from item to item or from user to user, because only neighbors
    who rated count, and their weights are averages of ratings. Without ratings such an average is always 1, so there
    is one graph for all. Signed filter taps would let training turn the furthest neighbors into a second measure
    of nearness, so they are convex combinations, as kernels are in the multi-kernel learning that inspired the
    publication's regularizer; that one then has nothing left to do. The convolutional network of the authors' code, one
    layer of leaky rectifiers without biases, is this linear filter wherever its inputs and taps are not negative.

    `dim` and `weight_decay` have no meaning here: what is learned is a handful of numbers.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> GCNAccDiv(epochs=2).fit(town).recommend([7], k=3)["rank"].to_list()
    [1, 2, 3]
    """

    trade_off: float = 0.1
    """alpha, from 0 (nearest neighbors only) to 1 (furthest only)."""
    near_nodes: Literal["user", "item"] = "user"
    """Nodes of the graph of nearest neighbors."""
    far_nodes: Literal["user", "item"] = "item"
    """Nodes of the graph of furthest neighbors."""
    n_near_neighbors: int = 30
    """k of the graph of nearest neighbors."""
    n_far_neighbors: int = 40
    """k of the graph of furthest neighbors."""
    near_order: int = 2
    """Order of the filter over nearest neighbors: 1 to 3 steps."""
    far_order: int = 1
    """Order of the filter over furthest neighbors; the furthest of the furthest are near again."""
    learning_rate: float = 0.05
    epochs: int = 5
    batch_size: int = 4096

    def _check(self) -> None:
        super()._check()
        require_number("trade_off", self.trade_off, least=0.0)
        if self.trade_off > 1:
            raise ParameterError(f"trade_off={self.trade_off!r}: expected a number from 0 to 1.")
        for name in ("near", "far"):
            nodes = getattr(self, f"{name}_nodes")
            if nodes not in ("user", "item"):
                raise ParameterError(f"{name}_nodes={nodes!r}: expected 'user' or 'item'.")
            require_whole(f"n_{name}_neighbors", getattr(self, f"n_{name}_neighbors"))
            require_whole(f"{name}_order", getattr(self, f"{name}_order"))
            if getattr(self, f"{name}_order") > 3:
                raise ParameterError(f"{name}_order={getattr(self, f'{name}_order')}: expected 1, 2 or 3 steps.")

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        return {"near": (self.near_order,), "far": (self.far_order,), "log_t": (1,)}

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        return {
            "near": np.zeros(self.near_order, dtype=np.float32),
            "far": np.zeros(self.far_order, dtype=np.float32),
            "log_t": np.full(1, 3.0, dtype=np.float32),  # scores are shares of neighbors, far below 1
        }

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        rows = train.matrix
        found: Tensors = {"rows": rows}
        for name, furthest in (("near", False), ("far", True)):
            kind, order = getattr(self, f"{name}_nodes"), getattr(self, f"{name}_order")
            nodes = rows if kind == "user" else rows.T.tocsr()
            graph = neighbor_graph(nodes, getattr(self, f"n_{name}_neighbors"), furthest)
            found[name], found[f"{name}_back"] = graph, _returns(graph, order)
        return found

    def _order(self, train: Interactions, epoch: int) -> NDArray[np.int64]:
        # User by user, because a filter gives all scores of a user at once.
        place = np.random.default_rng([self.seed, epoch]).permutation(train.n_users)
        return np.argsort(place[train.row_of_each()], kind="stable")

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        import torch
        from torch.nn.functional import softplus

        users, mine = np.unique(batch.users.cpu().numpy(), return_inverse=True)
        items = batch.scored_items.cpu().numpy()
        scores: Any = 0.0
        for name, share in self._shares():
            kind, back = getattr(self, f"{name}_nodes"), fixed[f"{name}_back"]
            node = users[mine] if kind == "user" else items[:, 0]
            taps = []
            for step, tap in enumerate(_filtered(fixed["rows"], fixed[name], kind, users, len(back))):
                scored = tap[mine[:, None], items]
                scored[:, 0] -= back[step][node]
                taps.append(scored)
            stacked = self._tensor(torch, np.stack(taps, axis=2))
            scores = scores + share * (stacked @ weights[name].softmax(dim=0))
        return softplus(weights["log_t"].exp() * (scores[:, 1:] - scores[:, :1])).mean()

    def _scores(self, weights: Tensors, fixed: Tensors, users: Any) -> Any:
        import torch

        rows = users.cpu().numpy()
        scores = np.zeros((len(rows), fixed["rows"].shape[1]), dtype=np.float32)
        for name, share in self._shares():
            mixed = (share * weights[name].softmax(dim=0)).cpu().numpy()
            kind = getattr(self, f"{name}_nodes")
            taps = _filtered(fixed["rows"], fixed[name], kind, rows, len(mixed))
            for weight, tap in zip(mixed, taps, strict=True):
                scores += weight * tap
        return torch.as_tensor(scores)

    def _shares(self) -> tuple[tuple[str, float], tuple[str, float]]:
        return ("near", 1.0 - self.trade_off), ("far", self.trade_off)


def neighbor_graph(nodes: sp.csr_array, k: int, furthest: bool) -> sp.csr_array:
    """Each row's k most correlated other rows, or the k most anti-correlated, with weights that sum to 1.

    Ties go to the first. Rows of zeros, and rows that have no correlation of this sign, have no neighbors.

    >>> rows = sp.csr_array(np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=np.float32))
    >>> neighbor_graph(rows, 1, furthest=False).toarray().argmax(axis=1).tolist()
    [1, 0, 0]
    >>> neighbor_graph(rows, 1, furthest=True).toarray().tolist()[0]
    [0.0, 0.0, 1.0]
    """
    n_nodes, n_columns = nodes.shape
    counts = np.asarray(nodes.sum(axis=1), dtype=np.float64)
    deviation = np.sqrt(np.maximum(counts * (n_columns - counts), 0.0))
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    transposed, k = nodes.T.tocsr(), min(k, n_nodes - 1)
    step = max(1, _PAIRS_AT_ONCE // n_nodes)
    parts = [sp.csr_array((0, n_nodes), dtype=np.float32)]
    for first in range(0, n_nodes if k else 0, step):
        block = np.arange(first, min(n_nodes, first + step))
        close = (nodes[block] @ transposed).toarray() * float(n_columns) - np.outer(counts[block], counts)
        close *= np.outer(scale[block], -scale if furthest else scale)
        close[np.arange(len(block)), block] = 0.0
        close[~_largest(close, k)] = 0.0
        total = close.sum(axis=1, keepdims=True)
        parts.append(sp.csr_array((close / np.where(total > 0, total, 1.0)).astype(np.float32)))
    graph = sp.vstack(parts, format="csr") if k else sp.csr_array((n_nodes, n_nodes), dtype=np.float32)
    return sp.csr_array(graph)


def _largest(values: NDArray[np.float64], k: int) -> NDArray[np.bool_]:
    """Mask of the values that are positive and among the k largest of their row; of equal ones the first."""
    least = -np.partition(-values, k - 1, axis=1)[:, k - 1 : k]
    above, level = values > least, values == least
    level &= level.cumsum(axis=1) <= k - above.sum(axis=1, keepdims=True)
    chosen: NDArray[np.bool_] = (above | level) & (values > 0)
    return chosen


def _filtered(
    rows: sp.csr_array, graph: sp.csr_array, kind: str, users: NDArray[np.integer[Any]], order: int
) -> list[NDArray[np.float32]]:
    """The users' rows after 1, 2, ..., ``order`` steps over the graph: each of shape ``(len(users), n_items)``."""
    taps = []
    now = graph[users] if kind == "user" else rows[users]
    for _ in range(order):
        if kind == "user":
            taps.append((now @ rows).toarray())
            now = now @ graph if len(taps) < order else now
        else:
            now = now @ graph.T
            taps.append(now.toarray())
    return taps


def _returns(graph: sp.csr_array, order: int) -> list[NDArray[np.float32]]:
    """Share of its own signal that each node gets back after 1, 2, ... steps: the diagonals of the powers."""
    found = [graph.diagonal()]
    power = graph
    for _ in range(order - 1):
        found.append(np.asarray(power.multiply(graph.T).sum(axis=1), dtype=np.float32))
        power = power @ graph if len(found) < order else power
    return found
