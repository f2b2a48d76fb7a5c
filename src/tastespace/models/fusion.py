"""Fusion networks of DropoutNet: what is known of a user or an item by preference and by content, made one vector.

A network is a pyramid ``(dim + features) -> 800 -> 400 -> 200 -> dim`` with batch normalization and tanh. Users with C
vectors have C networks side by side, h_u^1 ... h_u^C, computed together. Content stays sparse: its part of the first
layer is a sum of rows of a table, one for each feature that is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.training.loop import Arrays

Tensors = dict[str, Any]
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
        """The rows at these places, or all."""
        taken = matrix if rows is None else matrix[rows]
        columns = torch.as_tensor(taken.indices.astype(np.int64), device=device)
        starts = torch.as_tensor(taken.indptr[:-1].astype(np.int64), device=device)
        return cls(columns, starts, torch.as_tensor(np.array(taken.data, dtype=np.float32), device=device))

    def times(self, table: Any) -> Any:
        """The product with a dense table of a row per feature, shape ``(n, width)``."""
        from torch.nn.functional import embedding_bag

        return embedding_bag(self.columns, table, self.starts, mode="sum", per_sample_weights=self.values)


@dataclass(frozen=True)
class Pyramid:
    """The shape of the networks of one side; their weights are in a dict under names that begin with the side."""

    side: str
    copies: int
    """C for users, 1 for items."""
    dim: int
    n_features: int
    layers: tuple[int, ...]

    def start(self, random: np.random.Generator, usual: float) -> Arrays:
        """Weights before training, such that every layer's activations have a variance of about 1.

        ``usual`` is the mean squared length of a row of content: preference and content then have equal parts in the
        first layer, however many features there are.
        """
        c, widths = self.copies, self.layers
        found = {
            "preference": random.normal(0, self.dim**-0.5, (c, self.dim, widths[0])),
            "content": random.normal(0, usual**-0.5, (self.n_features, c * widths[0])),
        }
        for level, width in enumerate(widths, start=1):
            if level > 1:
                found[f"layer{level}"] = random.normal(0, widths[level - 2] ** -0.5, (c, widths[level - 2], width))
            found[f"scale{level}"] = np.ones((c, 1, width))
            found[f"shift{level}"] = np.zeros((c, 1, width))
        found["out"] = random.normal(0, (widths[-1] * self.dim * _TANH_VARIANCE) ** -0.5, (c, widths[-1], self.dim))
        found["bias"] = np.zeros((c, 1, self.dim))
        return {f"{self.side}_{name}": array.astype(np.float32) for name, array in found.items()}

    def fuse(self, weights: Tensors, preference: Any, content: Any, normalize: Normalizer) -> Any:
        """Vectors of shape ``(n, C, dim)`` from preference ``(n, C, dim)`` and content.

        Content is `SparseRows`, or the dense output ``(n, n_features)`` of an extractor.
        """
        x = preference.transpose(0, 1) @ self._of(weights, "preference")
        if self.n_features:
            table = self._of(weights, "content")
            told = content.times(table) if isinstance(content, SparseRows) else content @ table
            x = x + told.view(-1, self.copies, self.layers[0]).transpose(0, 1)
        for level in range(1, len(self.layers) + 1):
            if level > 1:
                x = x @ self._of(weights, f"layer{level}")
            x = normalize(level, x) * self._of(weights, f"scale{level}") + self._of(weights, f"shift{level}")
            x = x.tanh()
        return (x @ self._of(weights, "out") + self._of(weights, "bias")).transpose(0, 1)

    def population(self, weights: Tensors, preference: Any, content: Any, dropout: float) -> Tensors:
        """Mean and deviation of every layer over all rows, each with its preference and without, in training's shares.

        What batch normalization uses once training is over: a function of the weights alone, so that nothing has to
        be averaged along the way.
        """
        import torch

        found: Tensors = {}
        n = len(preference)
        share = torch.cat([torch.full((n, 1), 1 - dropout), torch.full((n, 1), dropout)]).to(preference) / n

        def note(level: int, x: Any) -> Any:
            mean = (x * share).sum(dim=1, keepdim=True)
            deviation = ((x - mean).square() * share).sum(dim=1, keepdim=True).add(_EPSILON).sqrt()
            found[f"{self.side}_mean{level}"], found[f"{self.side}_deviation{level}"] = mean, deviation
            return (x - mean) / deviation

        both = torch.cat([preference, torch.zeros_like(preference)])
        if isinstance(content, SparseRows):
            starts = torch.cat([content.starts, content.starts + len(content.columns)])
            content = SparseRows(content.columns.repeat(2), starts, content.values.repeat(2))
        elif content is not None:
            content = content.repeat(2, 1)
        self.fuse(weights, both, content, note)
        return found

    def by(self, statistics: Tensors) -> Normalizer:
        """Normalization by what `population` found."""

        def normalize(level: int, x: Any) -> Any:
            return (x - self._of(statistics, f"mean{level}")) / self._of(statistics, f"deviation{level}")

        return normalize

    def penalty(self, weights: Tensors) -> Any:
        """Half the sum of the squared weights of the layers."""
        names = ("preference", "content", *(f"layer{level}" for level in range(2, len(self.layers) + 1)), "out")
        return sum(self._of(weights, name).square().sum() for name in names) / 2

    def _of(self, weights: Tensors, name: str) -> Any:
        return weights[f"{self.side}_{name}"]


def by_batch(level: int, x: Any) -> Any:
    """Batch normalization in training: by mean and deviation of the batch, for each network and unit."""
    mean = x.mean(dim=1, keepdim=True)
    centerd = x - mean
    return centerd * (centerd.square().mean(dim=1, keepdim=True) + _EPSILON).rsqrt()
