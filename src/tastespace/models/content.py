"""Content neighbours: the plain way to meet strangers, against which learnt ways are measured."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.enlarging import enlarged, new_ids
from tastespace.data.features import FeatureEncoder, content_for
from tastespace.data.interactions import Interactions
from tastespace.models.base import Recommender
from tastespace.models.trained import require_whole


class ContentKNN(Recommender):
    """Items whose content is like that of a person's items; strangers get what people with like content took.

    A row of content has each feature times ``ln(1 + n / rows with it)``, scaled to length 1. A user with a history is
    the sum of the rows of the own items, and the score of an item is its inner product with that. A user without is
    served by the `neighbours` users of most similar content: the score of an item is the sum of the similarities of
    those who took it.

    Args:
        neighbours: Users who speak for a stranger.

    >>> import polars as pl
    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = ContentKNN().fit(town)  # by the genres that the town's items carry
    >>> len(model.recommend([7], k=3))
    3
    """

    learns_from_content: ClassVar[bool] = True
    contents_: dict[str, sp.csr_array]
    """Scaled features of users and items."""
    rarity_: dict[str, NDArray[np.float32]]
    """Weight of every feature."""
    encoders_: dict[str, FeatureEncoder]
    tastes_: sp.csr_array
    """What speaks for a user: weights of items, shape ``(n_users, n_items)``."""
    strangers_: NDArray[np.bool_]
    """Who is served by neighbours."""

    def __init__(self, neighbours: int = 100) -> None:
        self.neighbours = neighbours

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        progress: bool | None = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
    ) -> ContentKNN:
        """Remember histories and content; features as in `tastespace.models.dropoutnet.DropoutNet.fit`."""
        self._given = {"user": user_features, "item": item_features}
        return super().fit(train, valid, progress)

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        require_whole("neighbours", self.neighbours)
        self.encoders_, self.rarity_, self.contents_ = {}, {}, {}
        for side, given in vars(self).pop("_given").items():
            content = content_for(train, side, given)
            self.encoders_[side] = FeatureEncoder().fit(content, side)
            matrix = self.encoders_[side].encode(content).matrix
            rows = np.bincount(matrix.indices, minlength=matrix.shape[1])
            self.rarity_[side] = np.log1p(matrix.shape[0] / np.maximum(rows, 1)).astype(np.float32)
            self.contents_[side] = self._scaled(side, matrix)
        self.tastes_ = sp.csr_array(train.matrix, dtype=np.float32)
        self.strangers_ = np.zeros(train.n_users, dtype=bool)

    def _scaled(self, side: str, matrix: sp.csr_array) -> sp.csr_array:
        weighted = sp.csr_array(matrix @ sp.diags_array(self.rarity_[side])) if matrix.shape[1] else matrix
        lengths = np.sqrt(np.asarray(weighted.power(2).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ weighted, dtype=np.float32)

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Scores of all items, shape ``(len(users), n_items)``."""
        self.require_fitted()
        tastes, items = self.tastes_[users], self.contents_["item"]
        by_content = (tastes @ items) @ items.T
        found: NDArray[np.float32] = by_content.toarray().astype(np.float32)
        strange = self.strangers_[users]
        found[strange] = tastes[strange].toarray()
        return found

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Similarities of content."""
        items = self.contents_["item"]
        found: NDArray[np.float32] = (items[rows] @ items.T).toarray()
        return found

    # ---- newcomers -----------------------------------------------------------------------------------------

    def add_items(self, features: Any, ids: Any = None) -> ContentKNN:
        """Take in items that nobody has taken yet; as in `tastespace.models.placing.PlacesNewcomers.add_items`."""
        self.require_fitted()
        new = new_ids(self.train_, "item", features, ids)
        placed = self._scaled("item", self.encoders_["item"].encode(features).matrix)
        whole = enlarged(self.train_, "item", new, features)
        old = whole.items.index_of(self.train_.items.series)
        order = np.empty(whole.n_items, dtype=np.int64)
        order[old] = np.arange(len(old))
        order[whole.items.index_of(new)] = len(old) + np.arange(len(new))
        self.contents_ = {**self.contents_, "item": sp.vstack([self.contents_["item"], placed], format="csr")[order]}
        tastes = self.tastes_.tocoo()
        shape = (self.tastes_.shape[0], whole.n_items)
        self.tastes_ = sp.csr_array((tastes.data, (tastes.coords[0], old[tastes.coords[1]])), shape=shape)
        self.train_ = whole
        return self

    def _fold_in(self, histories: Interactions) -> ContentKNN:
        nothing = sp.csr_array((histories.n_users, self.contents_["user"].shape[1]), dtype=np.float32)
        return self._for(histories, nothing)

    def _fold_in_with(self, histories: Interactions, features: Any) -> ContentKNN:
        return self._for(histories, self._scaled("user", self.encoders_["user"].encode(features).matrix))

    def _for(self, histories: Interactions, content: sp.csr_array) -> ContentKNN:
        new = copy.copy(self)
        new.strangers_ = histories.user_counts == 0
        new.contents_ = {**self.contents_, "user": content}
        alike = (content[new.strangers_] @ self.contents_["user"].T).toarray()
        if alike.shape[1] > self.neighbours:
            bar = np.partition(alike, -self.neighbours, axis=1)[:, -self.neighbours, None]
            alike[alike < bar] = 0.0
        spoken = sp.csr_array(alike) @ self.tastes_
        told = sp.csr_array(histories.matrix, dtype=np.float32).tolil()
        if new.strangers_.any():
            told[new.strangers_] = spoken
        new.tastes_ = sp.csr_array(told, dtype=np.float32)
        return new

    # ---- the model file ------------------------------------------------------------------------------------

    def _learnt(self) -> dict[str, Any]:
        plain = {side: encoder.to_plain() for side, encoder in self.encoders_.items()}
        names = ("contents_", "rarity_", "tastes_", "strangers_")
        return {"encoders_": plain} | {name: getattr(self, name) for name in names}

    def _restore(self, learnt: dict[str, Any]) -> None:
        for name, value in learnt.items():
            setattr(self, name, value)
        self.encoders_ = {side: FeatureEncoder.from_plain(plain) for side, plain in learnt["encoders_"].items()}
