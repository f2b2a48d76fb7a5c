"""How a trained DropoutNet takes in newcomers: by content alone, or by content and a short history."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.append_ids import append_ids, new_ids
from tastespace.data.features import FeatureEncoder, encode_new
from tastespace.data.interactions import Interactions
from tastespace.models.torch_base import NeuralRecommender, require_torch

Self = TypeVar("Self", bound="PlacesNewcomers")
_STEPS = 50  # until a newcomer's preference input has settled
_RATE = 0.05  # of Adam; preference inputs have a variance of about 1
_AT_ONCE = 1024  # newcomers whose preference is learned together


class PlacesNewcomers(NeuralRecommender):
    """`add_items`, `add_users` and folding in, for models with fusion networks."""

    encoders_: dict[str, FeatureEncoder]
    user_vectors_: NDArray[np.float32]
    item_vectors_: NDArray[np.float32]

    def add_items(self: Self, features: Any, ids: Any = None) -> Self:
        """Take in items that nobody has taken yet, each where its content puts it; nothing is trained.

        Args:
            features: A frame (or dict of columns) with the ids in column ``item`` and the columns that were features in
                training, or a matrix with as many columns as in training.
            ids: Ids of the rows of a matrix.

        Returns:
            This model, which now knows the new items in every answer. Categories that were not there in training count
            as nothing. Known ids are an error.
        """
        return self._add("item", features, ids)

    def add_users(self: Self, features: Any, ids: Any = None) -> Self:
        """Take in users of whom nothing but content is known; as `add_items`, with the ids in column ``user``."""
        return self._add("user", features, ids)

    @abstractmethod
    def _fuse(self, network: dict[str, Any], side: str, content: sp.csr_array, preference: Any = None) -> Any:
        """Vectors ``(n, C, dim)`` of rows of content."""

    @abstractmethod
    def _first_preference(self, placed: Any) -> Any:
        """Preference inputs of strangers whom their content has placed there, shape ``(n, C, dim)``."""

    @abstractmethod
    def _newcomers_loss(self, histories: Interactions, users: Any, rows: NDArray[np.int64], step: int) -> Any:
        """Loss of the histories of the users at ``rows`` with the vectors ``users`` ``(len(rows), C, dim)``."""

    def _add(self: Self, side: str, features: Any, ids: Any) -> Self:
        self.require_fitted()
        new = new_ids(self.train_, side, features, ids)
        old = self.train_.users if side == "user" else self.train_.items
        vectors = self._place(side, self._encoded(side, features)).reshape(len(new), -1)
        whole = append_ids(self.train_, side, new, features)
        world = None if self._world is None or side == "user" else append_ids(self._world, side, new, features)
        both = whole.users if side == "user" else whole.items
        before = (self.user_vectors_ if side == "user" else self.item_vectors_).reshape(len(old), -1)
        placed = np.empty((len(both), before.shape[1]), dtype=np.float32)
        placed[both.index_of(old.series)] = before
        placed[both.index_of(new)] = vectors
        setattr(self, f"{side}_vectors_", placed.reshape(-1, self.dim))
        self.train_, self._world = whole, world or self._world
        return self

    def _encoded(self, side: str, features: Any) -> sp.csr_array:
        return encode_new(self.encoders_[side], features, side)

    def _place(self, side: str, content: sp.csr_array) -> NDArray[np.float32]:
        """Vectors by content alone, shape ``(n, C, dim)``."""
        torch = require_torch(type(self).__name__)
        with self._on_threads(torch), torch.no_grad():
            found: NDArray[np.float32] = self._fuse(self._network(torch), side, content).cpu().numpy()
        return found

    def _network(self, torch: Any) -> dict[str, Any]:
        return {name: self._tensor(torch, array) for name, array in self.weights_.items()}

    def _fold_in(self: Self, histories: Interactions) -> Self:
        n_features = self.encoders_["user"].n_features
        return self._introduced(histories, sp.csr_array((histories.n_users, n_features), dtype=np.float32))

    def _fold_in_with(self: Self, histories: Interactions, features: Any) -> Self:
        return self._introduced(histories, self._encoded("user", features))

    def _introduced(self: Self, histories: Interactions, content: sp.csr_array) -> Self:
        """A model for the users of ``histories``: those who have one by content and preference, others by content."""
        vectors = self._place("user", content)
        met = np.flatnonzero(histories.user_counts)
        for first in range(0, len(met), _AT_ONCE):
            rows = met[first : first + _AT_ONCE]
            vectors[rows] = self._by_history(histories, content[rows], rows)
        new = copy.copy(self)
        new.user_vectors_ = vectors.reshape(-1, self.dim)
        return new

    def _by_history(
        self, histories: Interactions, content: sp.csr_array, rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Preference inputs are learned with the model's own loss while networks and items stand still.

        They start at what stands for a stranger: a short history moves people from where their content puts them.
        """
        torch = require_torch(type(self).__name__)
        with self._on_threads(torch):
            network = self._network(torch)
            with torch.no_grad():
                preference = self._first_preference(self._fuse(network, "user", content))
            preference.requires_grad_()
            optimizer = torch.optim.Adam([preference], lr=_RATE)
            for step in range(_STEPS):
                loss = self._newcomers_loss(histories, self._fuse(network, "user", content, preference), rows, step)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                found: NDArray[np.float32] = self._fuse(network, "user", content, preference).cpu().numpy()
        return found
