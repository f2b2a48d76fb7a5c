"""The networks of a DropoutNet model at work: on batches, on everybody once training is over, and on newcomers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.models.extractors import find_extractor
from tastespace.models.fusion import Pyramid, SparseRows, by_batch
from tastespace.models.fusion_parameters import FusionParameters
from tastespace.models.placing import PlacesNewcomers
from tastespace.models.torch_base import Tensors, require_torch
from tastespace.models.vectors import VectorSpace

Self = TypeVar("Self", bound="FusionNetworks")
SIDES = ("user", "item")
_BLOCK = 4096  # rows that pass through a network at once


class FusionNetworks(FusionParameters, PlacesNewcomers):
    """What a fitted model holds, and its networks; apart, because the annotations of a dataclass are parameters."""

    learns_from_content: ClassVar[bool] = True
    _metric: ClassVar[Literal["l2", "dot"]] = "l2"
    units_: dict[str, float]
    """Size of a coordinate of the vectors that the preference inputs of each side stand for."""
    _content: dict[str, sp.csr_array]
    """Features of all users and items, while they are needed."""
    _latent: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
    """Vectors of a pre-trained model: users ``(n * C, dim)`` and items."""
    _given: tuple[Any, Any, Any] = (None, None, None)
    """User features, item features and latent model that `fit` was given."""

    @property
    @abstractmethod
    def _copies(self) -> int:
        """C: vectors per user."""

    def _finish(self, side: str, vectors: Any) -> Any:
        """Network outputs brought to where vectors live; as they are, unless a model says otherwise."""
        return vectors

    def _pyramid(self, side: str) -> Pyramid:
        width = find_extractor(getattr(self, f"{side}_extractor")).width(self.encoders_[side].n_features)
        return Pyramid(side, self._copies if side == "user" else 1, self.dim, width, tuple(self.layers))

    def _preference(self, weights: Tensors, fixed: Tensors, side: str, rows: NDArray[np.int64]) -> Any:
        """Shape ``(len(rows), C, dim)``, coordinates of about 1 whatever the scale of the latent vectors."""
        import torch
        from torch.nn.functional import embedding

        table = (weights if self.training == "joint" else fixed)[f"{side}s"]
        vectors = embedding(torch.as_tensor(rows, device=self.device), table).view(len(rows), -1, self.dim)
        return vectors / self.units_[side]

    def _extracted(self, weights: Tensors, side: str, content: sp.csr_array, rows: NDArray[np.int64] | None) -> Any:
        """What the extractor makes of some rows of content; None where there is none."""
        import torch

        if not content.shape[1]:
            return None
        prefix = f"{side}_extract_"
        own = {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
        sparse = SparseRows.of(content, rows, torch, self.device)
        return find_extractor(getattr(self, f"{side}_extractor")).extract(own, sparse)

    def _vectors_of(self, weights: Tensors, side: str, rows: NDArray[np.int64], preference: Any, hidden: Any) -> Any:
        """Vectors ``(n, C, dim)`` of a batch whose preference is hidden in places."""
        if self.known == "fused":
            content = self._extracted(weights, side, self._content[side], rows)
            shown = preference.masked_fill(hidden[:, None, None], 0.0)
            return self._pyramid(side).fuse(weights, shown, content, by_batch)
        standing = self.units_[side] * preference
        if not hidden.any():
            return standing
        content = self._extracted(weights, side, self._content[side], rows[hidden.cpu().numpy()])
        placed = self._pyramid(side).fuse(weights, preference[hidden] * 0.0, content, by_batch)
        return standing.index_put((hidden.nonzero()[:, 0],), placed)

    def _fuse(self, network: Tensors, side: str, content: sp.csr_array, preference: Any = None) -> Any:
        """Vectors ``(n, C, dim)`` of rows of content, by preference too where that is known."""
        import torch

        pyramid = self._pyramid(side)
        if preference is not None and self.known == "anchored":
            return self._finish(side, self.units_[side] * preference)
        if preference is None:
            preference = torch.zeros(content.shape[0], pyramid.copies, self.dim, device=self.device)
        told = self._extracted(network, side, content, None)
        return self._finish(side, pyramid.fuse(network, preference, told, pyramid.by(network)))

    def _first_preference(self, placed: Any) -> Any:
        if self.known == "anchored":
            return placed / self.units_["user"]
        return placed * 0.0

    def vectors(self) -> VectorSpace:
        """Users and items as the networks see them."""
        if not hasattr(self, "item_vectors_"):
            self.require_fitted()
        offsets = np.arange(len(self.user_vectors_) // self._copies + 1, dtype=np.int64) * self._copies
        return VectorSpace(self.user_vectors_, offsets, self.item_vectors_, self._metric)

    def _hiding(self: Self, hidden: tuple[str, ...]) -> Self:
        """The model in the middle of training, with the preference of users or items hidden."""
        self._run_networks(self.train_, hidden)
        return self

    def _run_networks(self, train: Interactions, hidden: tuple[str, ...] = ()) -> Tensors:
        """Set the vectors of everybody; gives the statistics of batch normalization."""
        torch = require_torch(type(self).__name__)
        found: Tensors = {}
        with self._on_threads(torch), torch.no_grad():
            weights = {name: self._tensor(torch, array) for name, array in self.weights_.items()}
            fixed = self._prepare(train, torch)
            for side, n in (("user", train.n_users), ("item", train.n_items)):
                some = np.unique(np.linspace(0, n - 1, min(n, _BLOCK)).astype(np.int64))
                preference = self._preference(weights, fixed, side, some)
                content = self._extracted(weights, side, self._content[side], some)
                masked = self.dropout if self.known == "fused" else 1.0
                statistics = self._pyramid(side).population(weights, preference, content, masked)
                blocks = [np.arange(at, min(n, at + _BLOCK)) for at in range(0, n, _BLOCK)]
                parts = [
                    self._fuse(
                        {**weights, **statistics}, side, self._content[side][rows],
                        None if side in hidden else self._preference(weights, fixed, side, rows),
                    )
                    for rows in blocks
                ]  # fmt: skip
                setattr(self, f"{side}_vectors_", torch.cat(parts).reshape(-1, self.dim).cpu().numpy())
                found |= statistics
        return found

    def _settle(self, train: Interactions) -> None:
        """After training: vectors of everybody; preference inputs and content are no longer needed."""
        statistics = self._run_networks(train)
        network = {name: a for name, a in self.weights_.items() if name.startswith(("user_", "item_"))}
        self.weights_ = {**network, **{name: t.cpu().numpy() for name, t in statistics.items()}}
        self._content, self._latent = {}, None
