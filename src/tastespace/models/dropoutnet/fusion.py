"""Parameters of the models with fusion networks, and the vectors that the networks give.

Vectors of warm users and items are computed once, after training. The networks stay in the model for cold-start users
and items (`add_users`, `add_items`) and for fold-in.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace._util.checks import require_number, require_whole
from tastespace.data.feature_columns import Kind
from tastespace.data.features import FeatureEncoder, encode_new
from tastespace.data.interactions import Interactions
from tastespace.data.merge import append_ids, new_ids
from tastespace.errors import ParameterError
from tastespace.models.dropoutnet.networks import (
    FusionNetwork,
    SparseRows,
    batch_normalize,
    find_extractor,
)
from tastespace.models.neural.base import NeuralRecommender, Tensors, require_torch
from tastespace.models.vector_space import VectorSpace

Self = TypeVar("Self", bound="FusionRecommender")
SIDES = ("user", "item")
_BLOCK = 4096  # rows that pass through a network at once
_FOLD_IN_STEPS = 50  # enough for the preference input of a new user to converge
_FOLD_IN_RATE = 0.05  # of Adam; preference inputs have a variance of about 1
_FOLD_IN_BATCH = 1024  # users folded in together


@dataclass(kw_only=True, eq=False, repr=False)
class FusionParameters:
    """Parameters besides those of all neural models."""

    dim: int = 100
    batch_size: int = 1024
    n_negatives: int = 10
    """Negatives drawn for each positive: U of UniS and PopS, S of 2stS and HarS, J_2 of (N)DiHarS."""
    negative_pool_size: int = 1000
    """Items from which the negatives of one batch are drawn; the item network runs once for each of them."""
    training: Literal["joint", "pretrained"] = "joint"
    """Preference inputs are learned together with the networks (JT), or are the fixed vectors of a model that was
    trained before (PT)."""
    latent: dict[str, Any] | None = None
    """Parameters of the model that PT trains first, where `fit` is not given a fitted one."""
    layers: tuple[int, ...] = (800, 400, 200)
    """Units of the hidden layers of every network."""
    warm_vectors: Literal["fused", "preference"] = "fused"
    """Vectors of warm users and items: the network's output for preference and content (the paper), or the preference
    input itself, so that the networks are used for cold-start users and items only: half the work, and no loss of
    accuracy on warm ones. In joint training ``"preference"`` adds the loss of every pair without dropout, unless
    `drop_both` is False."""
    drop_both: bool = True
    """True if dropout may hide the preference of the user and of the item of one pair, as in the paper. False (with
    ``warm_vectors="preference"`` only) takes the loss of every pair once with dropout of users and once with dropout of
    items; a side without content is never dropped."""
    dropout: float = 0.5
    """Share of the users and of the items of a batch whose preference input is set to zero."""
    network_decay: float = 0.0
    """L2 penalty on the weights of the fusion networks alone; `weight_decay` is on all weights."""
    user_columns: dict[str, Kind] | None = None
    """Columns of user content and their kinds; None: all, by type. See `tastespace.data.features`."""
    item_columns: dict[str, Kind] | None = None
    """The same for items."""
    min_count: int = 1
    """Users or items that must have a category, tag or word for it to become a feature."""
    max_vocabulary: int = 20_000
    """Most features of one column."""
    user_extractor: str = "identity"
    """Phi_u; see `tastespace.models.dropoutnet.networks`."""
    item_extractor: str = "identity"
    """Phi_i."""

    def _check_fusion(self) -> None:
        for name in ("negative_pool_size", "min_count", "max_vocabulary"):
            require_whole(name, getattr(self, name))
        for name, choices in (("training", ("joint", "pretrained")), ("warm_vectors", ("fused", "preference"))):
            if getattr(self, name) not in choices:
                raise ParameterError(f"{name}={getattr(self, name)!r}: expected {' or '.join(map(repr, choices))}.")
        if not isinstance(self.layers, (tuple, list)) or not self.layers:
            raise ParameterError(f"layers={self.layers!r}: expected the units of each hidden layer, one or more.")
        for width in self.layers:
            require_whole("layers", width)
        share = isinstance(self.dropout, (int, float)) and not isinstance(self.dropout, bool)
        if not share or not 0 <= self.dropout < 1:
            raise ParameterError(f"dropout={self.dropout!r}: expected a share in [0, 1).")
        require_number("network_decay", self.network_decay, least=0.0)
        if not isinstance(self.drop_both, bool):
            raise ParameterError(f"drop_both={self.drop_both!r}: expected True or False.")
        if not self.drop_both and self.warm_vectors != "preference":
            raise ParameterError(
                "drop_both=False pairs dropped users with preference vectors of items, and the other way round: it "
                "needs warm_vectors='preference'."
            )
        if not isinstance(self.latent, (Mapping, type(None))):
            raise ParameterError(f"latent={self.latent!r}: expected a dict of parameters, or None.")
        for name in (self.user_extractor, self.item_extractor):
            find_extractor(name)


class FusionRecommender(FusionParameters, NeuralRecommender):
    """A model whose vectors come from fusion networks; no dataclass, because annotations of those are parameters."""

    learns_from_content: ClassVar[bool] = True
    _metric: ClassVar[Literal["l2", "dot"]] = "l2"
    encoders_: dict[str, FeatureEncoder]
    user_vectors_: NDArray[np.float32]
    """Shape ``(n_users * C, dim)``."""
    item_vectors_: NDArray[np.float32]
    """Shape ``(n_items, dim)``."""
    preference_scales_: dict[str, float]
    """Root mean square of a coordinate of the preference vectors of each side; inputs are divided by it."""
    _content: dict[str, sp.csr_array]
    """Features of all users and items, during training."""
    _latent: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
    """Vectors of a pre-trained model, during training: users ``(n * C, dim)`` and items."""

    # ---- what a model writes -------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _n_vectors(self) -> int:
        """C: vectors per user."""

    @abstractmethod
    def _fold_in_loss(self, histories: Interactions, users: Any, rows: NDArray[np.int64], step: int) -> Any:
        """Loss of the histories of the users at ``rows`` with the vectors ``users`` ``(len(rows), C, dim)``."""

    def _project(self, side: str, vectors: Any) -> Any:
        """Network outputs projected to the region of the vectors; unchanged unless a model says otherwise."""
        return vectors

    # ---- networks ------------------------------------------------------------------------------------------

    def _fusion_network(self, side: str) -> FusionNetwork:
        width = find_extractor(getattr(self, f"{side}_extractor")).width(self.encoders_[side].n_features)
        return FusionNetwork(side, self._n_vectors if side == "user" else 1, self.dim, width, tuple(self.layers))

    def _preference(self, weights: Tensors, fixed: Tensors, side: str, rows: NDArray[np.int64]) -> Any:
        """Preference inputs ``(len(rows), C, dim)``; coordinates are of order 1 whatever the scale of the vectors."""
        import torch
        from torch.nn.functional import embedding

        table = (weights if self.training == "joint" else fixed)[f"{side}s"]
        vectors = embedding(torch.as_tensor(rows, device=self.device), table).view(len(rows), -1, self.dim)
        return vectors / self.preference_scales_[side]

    def _extracted(self, weights: Tensors, side: str, content: sp.csr_array, rows: NDArray[np.int64] | None) -> Any:
        """The extractor's output for some rows of content; None where there are no features."""
        import torch

        if not content.shape[1]:
            return None
        prefix = f"{side}_extract_"
        own = {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
        sparse = SparseRows.of(content, rows, torch, self.device)
        return find_extractor(getattr(self, f"{side}_extractor")).extract(own, sparse)

    def _train_vectors(
        self, weights: Tensors, side: str, rows: NDArray[np.int64], preference: Any, dropped: Any
    ) -> Any:
        """Vectors ``(n, C, dim)`` of a batch whose preference is dropped in some rows, before `_project`."""
        if self.warm_vectors == "fused":
            content = self._extracted(weights, side, self._content[side], rows)
            kept = preference.masked_fill(dropped[:, None, None], 0.0)
            return self._fusion_network(side).fuse(weights, kept, content, batch_normalize)
        vectors = self.preference_scales_[side] * preference
        if not dropped.any():
            return vectors
        content = self._extracted(weights, side, self._content[side], rows[dropped.cpu().numpy()])
        fused = self._fusion_network(side).fuse(weights, preference[dropped] * 0.0, content, batch_normalize)
        return vectors.index_put((dropped.nonzero()[:, 0],), fused)

    def _final_vectors(self, weights: Tensors, side: str, content: sp.csr_array, preference: Any = None) -> Any:
        """Vectors ``(n, C, dim)`` of rows of content; without preference those of cold-start users or items."""
        import torch

        network = self._fusion_network(side)
        if preference is not None and self.warm_vectors == "preference":
            return self._project(side, self.preference_scales_[side] * preference)
        if preference is None:
            preference = torch.zeros(content.shape[0], network.n_vectors, self.dim, device=self.device)
        extracted = self._extracted(weights, side, content, None)
        normalize = network.population_normalizer(weights)
        return self._project(side, network.fuse(weights, preference, extracted, normalize))

    def _compute_vectors(self, train: Interactions, dropped: tuple[str, ...] = ()) -> Tensors:
        """Set the vectors of all users and items; returns the statistics of batch normalization.

        The preference of the sides in ``dropped`` is ignored: their vectors come from content alone.
        """
        torch = require_torch(type(self).__name__)
        statistics: Tensors = {}
        with self._on_threads(torch), torch.no_grad():
            weights = {name: self._tensor(torch, array) for name, array in self.weights_.items()}
            fixed = self._prepare(train, torch)
            for side, n in (("user", train.n_users), ("item", train.n_items)):
                sample = np.unique(np.linspace(0, n - 1, min(n, _BLOCK)).astype(np.int64))
                preference = self._preference(weights, fixed, side, sample)
                content = self._extracted(weights, side, self._content[side], sample)
                share = self.dropout if self.warm_vectors == "fused" else 1.0
                own = self._fusion_network(side).population_statistics(weights, preference, content, share)
                blocks = [np.arange(at, min(n, at + _BLOCK)) for at in range(0, n, _BLOCK)]
                without = np.flatnonzero(train.user_counts == 0) if side == "user" else np.empty(0, dtype=np.int64)
                parts = []
                for rows in blocks:
                    given = None if side in dropped else self._preference(weights, fixed, side, rows)
                    vectors = self._final_vectors({**weights, **own}, side, self._content[side][rows], given)
                    cold = rows[np.isin(rows, without)]
                    if len(cold) and self._content[side].shape[1]:  # nothing was learned of their preference
                        vectors[cold - rows[0]] = self._final_vectors(
                            {**weights, **own}, side, self._content[side][cold]
                        )
                    parts.append(vectors)
                setattr(self, f"{side}_vectors_", torch.cat(parts).reshape(-1, self.dim).cpu().numpy())
                statistics |= own
        return statistics

    def _finalize(self, train: Interactions) -> None:
        """After training: vectors of all; preference inputs and content are no longer needed."""
        statistics = self._compute_vectors(train)
        network = {name: a for name, a in self.weights_.items() if name.startswith(("user_", "item_"))}
        self.weights_ = {**network, **{name: t.cpu().numpy() for name, t in statistics.items()}}
        self._content, self._latent = {}, None

    def vectors(self) -> VectorSpace:
        """Vectors of users and items."""
        if not hasattr(self, "item_vectors_"):
            self.require_fitted()
        offsets = np.arange(len(self.user_vectors_) // self._n_vectors + 1, dtype=np.int64) * self._n_vectors
        return VectorSpace(self.user_vectors_, offsets, self.item_vectors_, self._metric)

    # ---- cold-start users and items ------------------------------------------------------------------------

    def can_serve(self, users: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Users with a history and, where users have features, all others: their vectors come from these."""
        return super().can_serve(users) | (self.encoders_["user"].n_features > 0)

    def add_items(self: Self, features: Any, ids: Any = None) -> Self:
        """Add items without interactions, with the vectors that their content gives; nothing is trained.

        Args:
            features: A frame (or dict of columns) with the ids in column ``item`` and the columns that were features in
                training, or a matrix with as many columns as in training.
            ids: Ids of the rows of a matrix.

        Returns:
            This model, with the new items. Categories that were not in the training content are ignored, with a
            warning. Ids that the model has already are an error.
        """
        return self._add("item", features, ids)

    def add_users(self: Self, features: Any, ids: Any = None) -> Self:
        """Add users without interactions; as `add_items`, with the ids in column ``user``."""
        return self._add("user", features, ids)

    def _add(self: Self, side: str, features: Any, ids: Any) -> Self:
        self.require_fitted()
        new = new_ids(self.train_, side, features, ids)
        old = self.train_.users if side == "user" else self.train_.items
        added = self._cold_vectors(side, self._encoded(side, features)).reshape(len(new), -1)
        whole = append_ids(self.train_, side, new, features)
        source = self._popularity_source
        if source is not None and side == "item":
            source = append_ids(source, side, new, features)
        both = whole.users if side == "user" else whole.items
        before = (self.user_vectors_ if side == "user" else self.item_vectors_).reshape(len(old), -1)
        vectors = np.empty((len(both), before.shape[1]), dtype=np.float32)
        vectors[both.index_of(old.series)] = before
        vectors[both.index_of(new)] = added
        setattr(self, f"{side}_vectors_", vectors.reshape(-1, self.dim))
        self.train_, self._popularity_source = whole, source
        return self

    def _encoded(self, side: str, features: Any) -> sp.csr_array:
        return encode_new(self.encoders_[side], features, side)

    def _cold_vectors(self, side: str, content: sp.csr_array) -> NDArray[np.float32]:
        """Vectors from content alone, shape ``(n, C, dim)``."""
        torch = require_torch(type(self).__name__)
        with self._on_threads(torch), torch.no_grad():
            weights = {name: self._tensor(torch, array) for name, array in self.weights_.items()}
            vectors: NDArray[np.float32] = self._final_vectors(weights, side, content).cpu().numpy()
        return vectors

    # ---- fold-in -------------------------------------------------------------------------------------------

    def _fold_in(self: Self, histories: Interactions) -> Self:
        n_features = self.encoders_["user"].n_features
        return self._fold_in_content(histories, sp.csr_array((histories.n_users, n_features), dtype=np.float32))

    def _fold_in_with(self: Self, histories: Interactions, features: Any) -> Self:
        return self._fold_in_content(histories, self._encoded("user", features))

    def _fold_in_content(self: Self, histories: Interactions, content: sp.csr_array) -> Self:
        """A model for the users of ``histories``: by content and history, or by content alone where there is none."""
        vectors = self._cold_vectors("user", content)
        with_history = np.flatnonzero(histories.user_counts)
        for first in range(0, len(with_history), _FOLD_IN_BATCH):
            rows = with_history[first : first + _FOLD_IN_BATCH]
            vectors[rows] = self._learn_preference(histories, content[rows], rows)
        new = copy.copy(self)
        new.user_vectors_ = vectors.reshape(-1, self.dim)
        return new

    def _learn_preference(
        self, histories: Interactions, content: sp.csr_array, rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Vectors of new users whose preference inputs are learned with networks and items fixed.

        Preference starts at the input of a cold-start user, so that a short history moves the vectors from those that
        content gives.
        """
        torch = require_torch(type(self).__name__)
        with self._on_threads(torch):
            weights = {name: self._tensor(torch, array) for name, array in self.weights_.items()}
            with torch.no_grad():
                cold = self._final_vectors(weights, "user", content)
            as_input = self.warm_vectors == "preference"
            preference = cold / self.preference_scales_["user"] if as_input else cold * 0.0
            preference.requires_grad_()
            optimizer = torch.optim.Adam([preference], lr=_FOLD_IN_RATE)
            for step in range(_FOLD_IN_STEPS):
                users = self._final_vectors(weights, "user", content, preference)
                loss = self._fold_in_loss(histories, users, rows, step)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                found = self._final_vectors(weights, "user", content, preference)
                vectors: NDArray[np.float32] = found.cpu().numpy()
        return vectors
