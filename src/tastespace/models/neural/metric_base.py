"""Base of the metric models that learn with torch: vectors in the unit ball, hinge loss on squared distances."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import require_number, require_whole
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.neural.base import Batch, NeuralRecommender, Tensors
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Arrays


@dataclass(kw_only=True, eq=False, repr=False)
class HingeRecommender(NeuralRecommender):
    """Base of the models with a distance of their own; the score of an item is minus its squared distance.

    The loss of a positive is the mean of ``[margin + d(u, i) - d(u, j)]_+`` over its negatives j. After each step the
    vectors of users and items are projected to the unit ball, as in CML.
    """

    dim: int = 100
    learning_rate: float = 0.1
    optimizer: Literal["adam", "adagrad", "sgd"] = "adagrad"
    batch_size: int = 512
    n_negatives: int = 5
    margin: float = 0.5
    """Margin of the hinge, in squared distance."""

    def _check(self) -> None:
        super()._check()
        require_number("margin", self.margin, above=0.0)

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        return {"users": (train.n_users, self.dim), "items": (train.n_items, self.dim)}

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        return {
            "users": in_ball(self._normal(random, train.n_users, self.dim)),
            "items": in_ball(self._normal(random, train.n_items, self.dim)),
        }

    def _normal(self, random: np.random.Generator, *shape: int) -> NDArray[np.float32]:
        """Normal numbers with variance 1 / dim, so that a vector of them has a norm of about 1."""
        return random.normal(0.0, self.dim**-0.5, shape).astype(np.float32)

    def _hinge(self, distances: Any) -> Any:
        """The loss of distances ``(n, 1 + n_negatives)`` whose first column belongs to the positives."""
        return (self.margin + distances[:, :1] - distances[:, 1:]).relu().mean()

    def _after_step(self, weights: Tensors) -> None:
        for name in ("users", "items"):
            confine(weights[name], 1)

    def item_space(self) -> VectorSpace:
        """Vectors of users and items before any translation, for diversity metrics."""
        if not hasattr(self, "weights_"):
            self.require_fitted()
        users = self.weights_["users"]
        return VectorSpace.single(users, self.weights_["items"])

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Minus the squared distances from the items at these rows to all items."""
        self.require_fitted()
        items = self.weights_["items"]
        return np.stack([-np.square(items - items[row]).sum(axis=1) for row in rows])


@dataclass(kw_only=True, eq=False, repr=False)
class DistanceRecommender(HingeRecommender):
    """Base of the models whose loss is the hinge alone: they define `_distances`."""

    @abstractmethod
    def _distances(self, weights: Tensors, fixed: Tensors, batch: Batch, items: Any) -> Any:
        """Squared distances from the users of the batch to ``items`` of shape ``(n, k)``, in the same shape."""

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        return self._hinge(self._distances(weights, fixed, batch, batch.scored_items))


@dataclass(kw_only=True, eq=False, repr=False)
class SlotRecommender(DistanceRecommender):
    """Base of the models with a memory of relations M (slots x dim) and keys K (dim x slots), shared by all pairs.

    Both are initialized normal with variance 1 / dim.
    """

    n_slots: int = 20
    """N: relations in the memory."""
    confine_memory: bool = True
    """Project relations and keys to the unit ball as well; else long relations satisfy the hinge early."""

    def _check(self) -> None:
        super()._check()
        require_whole("n_slots", self.n_slots)
        if not isinstance(self.confine_memory, bool):
            raise ParameterError(f"confine_memory={self.confine_memory!r}: expected True or False.")

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        own = {"keys": (self.dim, self.n_slots), "memory": (self.n_slots, self.dim)}
        return {**super()._weight_shapes(train), **own}

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        weights = super()._initial_weights(train, random)
        weights["keys"] = self._normal(random, self.dim, self.n_slots)
        weights["memory"] = self._normal(random, self.n_slots, self.dim)
        return weights

    def _after_step(self, weights: Tensors) -> None:
        super()._after_step(weights)
        if self.confine_memory:
            confine(weights["memory"], 1)
            confine(weights["keys"], 0)


def in_ball(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows projected to the unit ball."""
    return vectors / np.maximum(1.0, np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def confine(vectors: Any, dimension: int) -> None:
    """Project to the unit ball in place; the vectors of the tensor run along this dimension."""
    vectors.div_(vectors.norm(dim=dimension, keepdim=True).clamp_min_(1.0))


def squared_distances(users: Any, relations: Any, items: Any) -> Any:
    """``|u + r - v|^2`` of tensors with the dimension last; they are broadcast against each other."""
    return (users + relations - items).square().sum(dim=-1)


def softmax(logits: Any, dim: int, masked: Any = None) -> Any:
    """Softmax; masked entries get 0. Unlike torch's own, the same bits for every number of threads."""
    if masked is not None:
        logits = logits.masked_fill(masked, -float("inf"))
    top = logits.detach().amax(dim=dim, keepdim=True).clamp_min(-1e30)  # all masked: no maximum
    powers = (logits - top).exp()
    return powers / powers.sum(dim=dim, keepdim=True).clamp_min(1e-30)


def row_by_row(rows: Any, matrix: Any) -> Any:
    """``rows @ matrix`` with each row's bits independent of the other rows.

    BLAS sums in an order that depends on the shape, so the shape is fixed: blocks of 64 rows, the last one padded.
    """
    import torch

    padded = torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % 64))
    return torch.cat([block @ matrix for block in padded.split(64)])[: len(rows)]
