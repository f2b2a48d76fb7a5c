"""Content neighbors: the plain way to meet strangers, against which learned ways are measured."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.checks import require_whole
from tastespace.data.append_ids import append_ids, new_ids
from tastespace.data.feature_columns import Kind
from tastespace.data.features import FeatureEncoder, content_for, encode_new, encoder_for, learn_content
from tastespace.data.interactions import Interactions
from tastespace.models.base import Recommender


def _merged(old: NDArray[np.int64], new: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order that brings old rows, followed by new ones, to these places."""
    return np.argsort(np.concatenate([old, new]))


@dataclass(frozen=True)
class _Newcomers:
    """Users or items that come to those who are there."""

    side: str
    ids: pl.Series
    content: sp.csr_array
    """Scaled features, a row for each."""
    whole: Interactions
    """The training data with them."""
    old: NDArray[np.int64]
    """Places in ``whole`` of those who were there."""
    new: NDArray[np.int64]
    """Their own places in it."""

    @property
    def order(self) -> NDArray[np.int64]:
        """The order that brings old rows, followed by new ones, to their places."""
        return _merged(self.old, self.new)


class ContentKNN(Recommender):
    """Items whose content is like that of a person's items; strangers get what people with like content took.

    A row of content has each feature times ``ln(1 + n / rows with it)``, scaled to length 1. A user with a history is
    the sum of the rows of the own items, and the score of an item is its inner product with that. A user without is
    served by the `n_neighbors` users of most similar content: the score of an item is the sum of the similarities of
    those who took it. Whoever cannot be served so, for want of content, gets what most people take.

    Args:
        n_neighbors: Users who speak for a stranger.
        user_columns, item_columns: Columns of content and their kinds; None: all, by type. See
            `tastespace.data.features`.
        min_count: Users or items that must have a category, tag or word for it to become a feature.
        max_vocabulary: Most features of one column.

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
    """Who is served by neighbors."""

    def __init__(
        self,
        n_neighbors: int = 100,
        user_columns: dict[str, Kind] | None = None,
        item_columns: dict[str, Kind] | None = None,
        min_count: int = 1,
        max_vocabulary: int = 20_000,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.user_columns, self.item_columns = user_columns, item_columns
        self.min_count, self.max_vocabulary = min_count, max_vocabulary

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
        for name in ("n_neighbors", "min_count", "max_vocabulary"):
            require_whole(name, getattr(self, name))
        self.encoders_, self.rarity_, self.contents_ = {}, {}, {}
        for side, given in vars(self).pop("_given").items():
            content = content_for(train, side, given)
            self.encoders_[side] = encoder_for(
                content, side, getattr(self, f"{side}_columns"), self.min_count, self.max_vocabulary
            )
            matrix = learn_content(self.encoders_[side], content, side)
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
        found[~found.any(axis=1)] = self.world.item_counts  # nothing speaks for any item
        return found

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Similarities of content."""
        items = self.contents_["item"]
        found: NDArray[np.float32] = (items[rows] @ items.T).toarray()
        return found

    # ---- newcomers -----------------------------------------------------------------------------------------

    def add_items(self, features: Any, ids: Any = None) -> ContentKNN:
        """Take in items that nobody has taken yet; as in `tastespace.models.placing.PlacesNewcomers.add_items`."""
        come = self._newcomers("item", features, ids)
        tastes = self.tastes_.tocoo()
        places = tastes.coords[0], come.old[tastes.coords[1]]
        self.tastes_ = sp.csr_array((tastes.data, places), shape=(tastes.shape[0], come.whole.n_items))
        self._world = None if self._world is None else append_ids(self._world, "item", come.ids, features)
        return self._take_in(come)

    def add_users(self, features: Any, ids: Any = None) -> ContentKNN:
        """Take in users of whom nothing but content is known; as `add_items`, with the ids in column ``user``."""
        come = self._newcomers("user", features, ids)
        self.tastes_ = sp.vstack([self.tastes_, self._spoken(come.content)], format="csr")[come.order]
        self.strangers_ = np.concatenate([self.strangers_, np.ones(len(come.ids), dtype=bool)])[come.order]
        return self._take_in(come)

    def _newcomers(self, side: str, features: Any, ids: Any) -> _Newcomers:
        self.require_fitted()
        new = new_ids(self.train_, side, features, ids)
        content = self._scaled(side, encode_new(self.encoders_[side], features, side))
        whole = append_ids(self.train_, side, new, features)
        known, all_ids = (self.train_.users, whole.users) if side == "user" else (self.train_.items, whole.items)
        return _Newcomers(side, new, content, whole, all_ids.index_of(known.series), all_ids.index_of(new))

    def _take_in(self, come: _Newcomers) -> ContentKNN:
        both = sp.vstack([self.contents_[come.side], come.content], format="csr")
        self.contents_ = {**self.contents_, come.side: both[come.order]}
        self.train_ = come.whole
        return self

    def _spoken(self, content: sp.csr_array) -> sp.csr_array:
        """What the neighbors of strangers with this content took, weighed by likeness."""
        speak = np.flatnonzero(~self.strangers_)
        alike = np.maximum((content @ self.contents_["user"][speak].T).toarray(), 0.0)
        if alike.shape[1] > self.n_neighbors:
            bar = np.partition(alike, -self.n_neighbors, axis=1)[:, -self.n_neighbors, None]
            alike[alike < bar] = 0.0
        return sp.csr_array(sp.csr_array(alike) @ self.tastes_[speak], dtype=np.float32)

    def _fold_in(self, histories: Interactions) -> ContentKNN:
        nothing = sp.csr_array((histories.n_users, self.contents_["user"].shape[1]), dtype=np.float32)
        return self._for(histories, nothing)

    def _fold_in_with(self, histories: Interactions, features: Any) -> ContentKNN:
        return self._for(histories, self._scaled("user", encode_new(self.encoders_["user"], features, "user")))

    def _for(self, histories: Interactions, content: sp.csr_array) -> ContentKNN:
        new = copy.copy(self)
        new.strangers_ = histories.user_counts == 0
        new.contents_ = {**self.contents_, "user": content}
        told = sp.csr_array(histories.matrix, dtype=np.float32)
        met, strange = np.flatnonzero(~new.strangers_), np.flatnonzero(new.strangers_)
        both = sp.vstack([told[met], self._spoken(content[strange])], format="csr")
        new.tastes_ = sp.csr_array(both[_merged(met, strange)], dtype=np.float32)
        return new

    # ---- the model file ------------------------------------------------------------------------------------

    def _learned(self) -> dict[str, Any]:
        plain = {side: encoder.to_plain() for side, encoder in self.encoders_.items()}
        names = ("contents_", "rarity_", "tastes_", "strangers_")
        return {"encoders_": plain} | {name: getattr(self, name) for name in names}

    def _restore(self, learned: dict[str, Any]) -> None:
        for name, value in learned.items():
            setattr(self, name, value)
        self.encoders_ = {side: FeatureEncoder.from_plain(plain) for side, plain in learned["encoders_"].items()}
