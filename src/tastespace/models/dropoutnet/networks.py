"""Fusion networks of DropoutNet and the content extractors in front of them.

A fusion network maps the preference vector and the content of a user (item) to one vector: layers
``(dim + features) -> 800 -> 400 -> 200 -> dim`` with batch normalization and tanh. Users with C vectors have C networks
h_u^1 ... h_u^C, evaluated as one batched product. Content stays sparse: its part of the first layer is a sum of rows of
a table, one for each feature that is present.

An extractor (Phi_u, Phi_i) transforms the features first. ``"identity"`` (the paper's choice) passes the sparse
features on; ``"dense:128"`` is a learned layer of 128 tanh units. `register_extractor` adds others by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.errors import ParameterError, nearest
from tastespace.models.neural.base import Tensors
from tastespace.training.loop import Arrays

Normalizer = Callable[[int, Any], Any]
"""From the number of a layer and its activations ``(C, n, width)`` to normalized ones."""

_EPSILON = 1e-5
_TANH_VARIANCE = 0.39  # of tanh(x), x standard normal


@dataclass(frozen=True)
class SparseRows:
    """Some rows of a sparse matrix as tensors."""

    columns: Any
    starts: Any
    values: Any

    @classmethod
    def of(cls, matrix: sp.csr_array, rows: NDArray[np.integer[Any]] | None, torch: Any, device: str) -> SparseRows:
        """These rows of the matrix, or all."""
        selected = matrix if rows is None else matrix[rows]
        columns = torch.as_tensor(selected.indices.astype(np.int64), device=device)
        starts = torch.as_tensor(selected.indptr[:-1].astype(np.int64), device=device)
        return cls(columns, starts, torch.as_tensor(np.array(selected.data, dtype=np.float32), device=device))

    def times(self, table: Any) -> Any:
        """The product with a dense table of a row per feature, shape ``(n, width)``."""
        from torch.nn.functional import embedding_bag

        return embedding_bag(self.columns, table, self.starts, mode="sum", per_sample_weights=self.values)


@dataclass(frozen=True)
class FusionNetwork:
    """The shape of the networks of one side; their weights are in a dict under names that begin with the side."""

    side: str
    """``"user"`` or ``"item"``."""
    n_vectors: int
    """C for users, 1 for items."""
    dim: int
    n_features: int
    layers: tuple[int, ...]

    def initial_weights(self, random: np.random.Generator, mean_square: float) -> Arrays:
        """Weights before training, such that every layer's activations have a variance of about 1.

        ``mean_square`` is the mean squared length of a row of content: preference and content then contribute equally
        to the first layer, whatever the number of features.
        """
        c, widths = self.n_vectors, self.layers
        weights = {
            "preference": random.normal(0, self.dim**-0.5, (c, self.dim, widths[0])),
            "content": random.normal(0, mean_square**-0.5, (self.n_features, c * widths[0])),
        }
        for level, width in enumerate(widths, start=1):
            if level > 1:
                weights[f"layer{level}"] = random.normal(0, widths[level - 2] ** -0.5, (c, widths[level - 2], width))
            weights[f"scale{level}"] = np.ones((c, 1, width))
            weights[f"shift{level}"] = np.zeros((c, 1, width))
        weights["out"] = random.normal(0, (widths[-1] * self.dim * _TANH_VARIANCE) ** -0.5, (c, widths[-1], self.dim))
        weights["bias"] = np.zeros((c, 1, self.dim))
        return {f"{self.side}_{name}": array.astype(np.float32) for name, array in weights.items()}

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights and of `population_statistics`."""
        c, widths = self.n_vectors, self.layers
        shapes: dict[str, tuple[int, ...]] = {
            "preference": (c, self.dim, widths[0]),
            "content": (self.n_features, c * widths[0]),
            "out": (c, widths[-1], self.dim),
            "bias": (c, 1, self.dim),
        }
        for level, width in enumerate(widths, start=1):
            if level > 1:
                shapes[f"layer{level}"] = (c, widths[level - 2], width)
            shapes |= {f"{name}{level}": (c, 1, width) for name in ("scale", "shift", "mean", "deviation")}
        return {f"{self.side}_{name}": shape for name, shape in shapes.items()}

    def fuse(self, weights: Tensors, preference: Any, content: Any, normalize: Normalizer) -> Any:
        """Vectors of shape ``(n, C, dim)`` from preference ``(n, C, dim)`` and content.

        Content is `SparseRows`, or the dense output ``(n, n_features)`` of an extractor.
        """
        x = preference.transpose(0, 1) @ self._weight(weights, "preference")
        if self.n_features:
            table = self._weight(weights, "content")
            from_content = content.times(table) if isinstance(content, SparseRows) else content @ table
            x = x + from_content.view(-1, self.n_vectors, self.layers[0]).transpose(0, 1)
        for level in range(1, len(self.layers) + 1):
            if level > 1:
                x = x @ self._weight(weights, f"layer{level}")
            x = normalize(level, x) * self._weight(weights, f"scale{level}") + self._weight(weights, f"shift{level}")
            x = x.tanh()
        return (x @ self._weight(weights, "out") + self._weight(weights, "bias")).transpose(0, 1)

    def population_statistics(self, weights: Tensors, preference: Any, content: Any, dropout: float) -> Tensors:
        """Mean and deviation of every layer over all rows, with and without preference in the shares of training.

        Batch normalization uses them after training. They are a function of the weights alone, so that no running
        averages are kept during training.
        """
        import torch

        statistics: Tensors = {}
        n = len(preference)
        share = torch.cat([torch.full((n, 1), 1 - dropout), torch.full((n, 1), dropout)]).to(preference) / n

        def record(level: int, x: Any) -> Any:
            mean = (x * share).sum(dim=1, keepdim=True)
            deviation = ((x - mean).square() * share).sum(dim=1, keepdim=True).add(_EPSILON).sqrt()
            statistics[f"{self.side}_mean{level}"], statistics[f"{self.side}_deviation{level}"] = mean, deviation
            return (x - mean) / deviation

        both = torch.cat([preference, torch.zeros_like(preference)])
        if isinstance(content, SparseRows):
            starts = torch.cat([content.starts, content.starts + len(content.columns)])
            content = SparseRows(content.columns.repeat(2), starts, content.values.repeat(2))
        elif content is not None:
            content = content.repeat(2, 1)
        self.fuse(weights, both, content, record)
        return statistics

    def population_normalizer(self, statistics: Tensors) -> Normalizer:
        """Normalization by `population_statistics`."""

        def normalize(level: int, x: Any) -> Any:
            return (x - self._weight(statistics, f"mean{level}")) / self._weight(statistics, f"deviation{level}")

        return normalize

    def l2_penalty(self, weights: Tensors) -> Any:
        """Half the sum of the squared weights of the layers."""
        names = ("preference", "content", *(f"layer{level}" for level in range(2, len(self.layers) + 1)), "out")
        return sum(self._weight(weights, name).square().sum() for name in names) / 2

    def _weight(self, weights: Tensors, name: str) -> Any:
        return weights[f"{self.side}_{name}"]


def batch_normalize(level: int, x: Any) -> Any:
    """Batch normalization in training: by mean and deviation of the batch, for each network and unit."""
    mean = x.mean(dim=1, keepdim=True)
    centered = x - mean
    return centered * (centered.square().mean(dim=1, keepdim=True) + _EPSILON).rsqrt()


# ---- content extractors ------------------------------------------------------------------------------------


class Extractor(Protocol):
    """Turns sparse features into the content input of a fusion network."""

    def width(self, n_features: int) -> int:
        """Number of outputs per row."""

    def initial_weights(self, n_features: int, random: np.random.Generator) -> Arrays:
        """Weights before training, float32; empty where nothing is learned."""

    def extract(self, weights: Tensors, content: SparseRows) -> Any:
        """The same rows as `SparseRows` or as a dense tensor ``(n, width)``; names as in `initial_weights`."""


class Identity:
    """The features themselves."""

    def width(self, n_features: int) -> int:
        """The number of features."""
        return n_features

    def initial_weights(self, n_features: int, random: np.random.Generator) -> Arrays:
        """Nothing is learned."""
        return {}

    def extract(self, weights: Tensors, content: SparseRows) -> SparseRows:
        """The rows unchanged."""
        return content


class Dense:
    """One learned layer with tanh."""

    def __init__(self, n_units: int) -> None:
        self.n_units = n_units

    def width(self, n_features: int) -> int:
        """The number of units."""
        return self.n_units

    def initial_weights(self, n_features: int, random: np.random.Generator) -> Arrays:
        """A table and a bias; the standard deviation suits rows with a handful of features."""
        return {
            "table": random.normal(0, 0.3, (n_features, self.n_units)).astype(np.float32),
            "bias": np.zeros(self.n_units, dtype=np.float32),
        }

    def extract(self, weights: Tensors, content: SparseRows) -> Any:
        """``tanh(content @ table + bias)``."""
        return (content.times(weights["table"]) + weights["bias"]).tanh()


_REGISTERED: dict[str, Extractor] = {"identity": Identity()}


def register_extractor(name: str, extractor: Extractor) -> None:
    """Register an extractor under a name; register it again before a model that uses it is loaded.

    >>> register_extractor("mine", Dense(16))
    >>> find_extractor("mine").width(500)
    16
    """
    if ":" in name or not name:
        raise ParameterError(f"an extractor cannot be called {name!r}: expected a name without a colon.")
    _REGISTERED[name] = extractor


def find_extractor(name: str) -> Extractor:
    """An extractor by name.

    >>> find_extractor("dense:64").width(2738)
    64
    """
    if name in _REGISTERED:
        return _REGISTERED[name]
    kind, _, units = str(name).partition(":")
    if kind == "dense" and units.isdecimal() and int(units):
        return Dense(int(units))
    raise ParameterError(
        f"no content extractor {name!r}; there are {', '.join(_REGISTERED)} and dense:<units>, and "
        f"tastespace.models.dropoutnet.register_extractor adds others.{nearest(name, _REGISTERED)}"
    )
