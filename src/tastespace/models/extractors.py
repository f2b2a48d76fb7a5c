"""Content extractors, Phi_u and Phi_i of DropoutNet: what is made of the features before the fusion network.

``"identity"`` (the paper's choice) leaves them sparse as they are; ``"dense:128"`` is a learned layer of 128 units with
tanh. `register` adds one of your own under a name, by which parameters and model files call it.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tastespace.errors import ParameterError, nearest
from tastespace.models.fusion import SparseRows, Tensors
from tastespace.training.loop import Arrays


class Extractor(Protocol):
    """Turns sparse features into what the fusion network sees."""

    def width(self, n_features: int) -> int:
        """Numbers per row that come out."""

    def start(self, n_features: int, random: np.random.Generator) -> Arrays:
        """Weights before training, float32; none where nothing is learned."""

    def extract(self, weights: Tensors, content: SparseRows) -> Any:
        """The same rows as `SparseRows` or as a dense tensor ``(n, width)``; ``weights`` as `start` named them."""


class Identity:
    """The features themselves."""

    def width(self, n_features: int) -> int:
        """As many as there are."""
        return n_features

    def start(self, n_features: int, random: np.random.Generator) -> Arrays:
        """Nothing is learned."""
        return {}

    def extract(self, weights: Tensors, content: SparseRows) -> SparseRows:
        """As it is."""
        return content


class Dense:
    """One learned layer with tanh."""

    def __init__(self, units: int) -> None:
        self.units = units

    def width(self, n_features: int) -> int:
        """The number of units."""
        return self.units

    def start(self, n_features: int, random: np.random.Generator) -> Arrays:
        """A table and a bias; the spread suits rows with a handful of features."""
        return {
            "table": random.normal(0, 0.3, (n_features, self.units)).astype(np.float32),
            "bias": np.zeros(self.units, dtype=np.float32),
        }

    def extract(self, weights: Tensors, content: SparseRows) -> Any:
        """``tanh(content @ table + bias)``."""
        return (content.times(weights["table"]) + weights["bias"]).tanh()


_REGISTERED: dict[str, Extractor] = {"identity": Identity()}


def register(name: str, extractor: Extractor) -> None:
    """Make an extractor known by a name; it must be registered again before a model that uses it is loaded.

    >>> register("mine", Dense(16))
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
        f"tastespace.models.extractors.register adds others.{nearest(name, _REGISTERED)}"
    )
