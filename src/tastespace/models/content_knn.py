"""Content-based nearest neighbors: the baseline for cold-start users and items."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace._util.checks import require_whole
from tastespace.data.feature_columns import Kind
from tastespace.data.features import (
    FeatureEncoder,
    content_for,
    encode_new,
    encoder_for,
    learn_content,
)
from tastespace.data.interactions import Interactions
from tastespace.data.merge import append_ids, new_ids
from tastespace.errors import ModelFileError
from tastespace.models.base import Recommender, TrainingData
from tastespace.models.stored_values import (
    Declared,
    Named,
    Numbers,
    Sparse,
    Unchecked,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments


@dataclass(frozen=True)
class _Added:
    """Users or items that are added to a model."""

    side: str
    ids: pl.Series
    content: sp.csr_array
    """Scaled features, a row for each id."""
    whole: Interactions
    """The training data with the new ids."""
    old: NDArray[np.int64]
    """Indices in ``whole`` of the ids that were there before."""
    new: NDArray[np.int64]
    """Indices in ``whole`` of the new ids."""

    @property
    def order(self) -> NDArray[np.int64]:
        """The permutation of old rows followed by new rows to the order of ``whole``."""
        return np.argsort(np.concatenate([self.old, self.new]))


class ContentKNN(Recommender):
    """Items whose content is similar to that of the user's items; cold-start users get the items of similar users.

    A row of content has each feature times ``ln(1 + n / rows with it)``, scaled to length 1. The profile of a warm user
    is the sum of the content rows of the user's items (times the weights of the interactions, where there are any), and
    the score of an item is its inner product with the profile. For a cold-start user the score of an item is the sum of
    the similarities of those of the `n_neighbors` users of most similar content who have it (times the weights). Users
    whose scores are all 0, for lack of content, get the most popular items.

    Args:
        n_neighbors: Neighbors of a cold-start user.
        user_columns, item_columns: Columns of content and their kinds; None: all, by type. See
            `tastespace.data.features`.
        min_count: Users or items that must have a category, tag or word for it to become a feature.
        max_vocabulary: Most features of one column.

    >>> import polars as pl
    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = ContentKNN().fit(town)  # content: the genres of the items
    >>> len(model.recommend([7], k=3))
    3
    """

    learns_from_content: ClassVar[bool] = True
    uses_weights = True
    contents_: dict[str, sp.csr_array]
    """Scaled features of users and items."""
    feature_weights_: dict[str, NDArray[np.float32]]
    """``ln(1 + n / rows with it)`` of every feature of users and items."""
    encoders_: dict[str, FeatureEncoder]
    item_weights_: sp.csr_array
    """Items of each warm user, and of the neighbors of each cold-start user; shape ``(n_users, n_items)``."""
    is_cold_: NDArray[np.bool_]
    """True for cold-start users, shape ``(n_users,)``."""

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
        train: TrainingData,
        valid: TrainingData | None = None,
        progress: bool | None = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
        **columns: Unpack[TableArguments],
    ) -> ContentKNN:
        """Encode the content; features as in `tastespace.models.dropoutnet.training.DropoutNet.fit`."""
        return self._fit_to(train, valid, progress, columns, features={"user": user_features, "item": item_features})

    def _check(self) -> None:
        super()._check()
        for name in ("n_neighbors", "min_count", "max_vocabulary"):
            require_whole(name, getattr(self, name))

    def _fit(
        self,
        train: Interactions,
        valid: Interactions | None,
        progress: bool | None,
        features: Mapping[str, Any] | None = None,
    ) -> None:
        self.encoders_, self.feature_weights_, self.contents_ = {}, {}, {}
        for side in ("user", "item"):
            content = content_for(train, side, (features or {}).get(side))
            self.encoders_[side] = encoder_for(
                content, side, getattr(self, f"{side}_columns"), self.min_count, self.max_vocabulary
            )
            matrix = learn_content(self.encoders_[side], content, side)
            rows = np.bincount(matrix.indices, minlength=matrix.shape[1])
            self.feature_weights_[side] = np.log1p(matrix.shape[0] / np.maximum(rows, 1)).astype(np.float32)
            self.contents_[side] = self._scaled(side, matrix)
        self.item_weights_ = sp.csr_array(train.matrix, dtype=np.float32)
        self.is_cold_ = np.zeros(train.n_users, dtype=bool)

    def _scaled(self, side: str, matrix: sp.csr_array) -> sp.csr_array:
        weighted = sp.csr_array(matrix @ sp.diags_array(self.feature_weights_[side])) if matrix.shape[1] else matrix
        lengths = np.sqrt(np.asarray(weighted.power(2).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ weighted, dtype=np.float32)

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Scores of all items, shape ``(len(users), n_items)``."""
        self.require_fitted()
        profiles, items = self.item_weights_[users], self.contents_["item"]
        by_content = (profiles @ items) @ items.T
        scores: NDArray[np.float32] = by_content.toarray().astype(np.float32)
        cold = self.is_cold_[users]
        scores[cold] = profiles[cold].toarray()
        scores[~scores.any(axis=1)] = self.popularity_source.item_counts
        return scores

    def can_serve(self, users: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """All users: without a history by their features, without those by popularity."""
        return np.ones(len(users), dtype=bool)

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Content similarities of the items at these rows to all items."""
        items = self.contents_["item"]
        found: NDArray[np.float32] = (items[rows] @ items.T).toarray()
        return found

    # ---- cold-start users and items ------------------------------------------------------------------------

    def add_items(self, features: Any, ids: Any = None) -> ContentKNN:
        """Add items without interactions; as in `tastespace.models.dropoutnet.fusion.FusionRecommender.add_items`."""
        added = self._added("item", features, ids)
        old = self.item_weights_.tocoo()
        coords = old.coords[0], added.old[old.coords[1]]
        self.item_weights_ = sp.csr_array((old.data, coords), shape=(old.shape[0], added.whole.n_items))
        self._popularity_source = (
            None
            if self._popularity_source is None
            else append_ids(self._popularity_source, "item", added.ids, features)
        )
        return self._add(added)

    def add_users(self, features: Any, ids: Any = None) -> ContentKNN:
        """Add users without interactions; as `add_items`, with the ids in column ``user``."""
        added = self._added("user", features, ids)
        both = sp.vstack([self.item_weights_, self._items_of_neighbors(added.content)], format="csr")
        self.item_weights_ = both[added.order]
        self.is_cold_ = np.concatenate([self.is_cold_, np.ones(len(added.ids), dtype=bool)])[added.order]
        return self._add(added)

    def _added(self, side: str, features: Any, ids: Any) -> _Added:
        self.require_fitted()
        new = new_ids(self.train_, side, features, ids)
        content = self._scaled(side, encode_new(self.encoders_[side], features, side))
        whole = append_ids(self.train_, side, new, features)
        old, all_ids = (self.train_.users, whole.users) if side == "user" else (self.train_.items, whole.items)
        return _Added(side, new, content, whole, all_ids.index_of(old.series), all_ids.index_of(new))

    def _add(self, added: _Added) -> ContentKNN:
        both = sp.vstack([self.contents_[added.side], added.content], format="csr")
        self.contents_ = {**self.contents_, added.side: both[added.order]}
        self.train_ = added.whole
        return self

    def _items_of_neighbors(self, content: sp.csr_array) -> sp.csr_array:
        """Items of the nearest warm users of cold-start users with this content, weighted by similarity."""
        warm = np.flatnonzero(~self.is_cold_)
        similarity = np.maximum((content @ self.contents_["user"][warm].T).toarray(), 0.0)
        if similarity.shape[1] > self.n_neighbors:
            least = np.partition(similarity, -self.n_neighbors, axis=1)[:, -self.n_neighbors, None]
            similarity[similarity < least] = 0.0
        return sp.csr_array(sp.csr_array(similarity) @ self.item_weights_[warm], dtype=np.float32)

    def _fold_in(self, histories: Interactions) -> ContentKNN:
        empty = sp.csr_array((histories.n_users, self.contents_["user"].shape[1]), dtype=np.float32)
        return self._fold_in_content(histories, empty)

    def _fold_in_with(self, histories: Interactions, features: Any) -> ContentKNN:
        content = encode_new(self.encoders_["user"], features, "user")
        return self._fold_in_content(histories, self._scaled("user", content))

    def _fold_in_content(self, histories: Interactions, content: sp.csr_array) -> ContentKNN:
        new = copy.copy(self)
        new.is_cold_ = histories.user_counts == 0
        new.contents_ = {**self.contents_, "user": content}
        own = sp.csr_array(histories.matrix, dtype=np.float32)
        warm, cold = np.flatnonzero(~new.is_cold_), np.flatnonzero(new.is_cold_)
        both = sp.vstack([own[warm], self._items_of_neighbors(content[cold])], format="csr")
        new.item_weights_ = sp.csr_array(both[np.argsort(np.concatenate([warm, cold]))], dtype=np.float32)
        return new

    # ---- the model file ------------------------------------------------------------------------------------

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {
            "encoders_": Unchecked(),
            "contents_": Named({"user": Sparse("users", "user_features"), "item": Sparse("items", "item_features")}),
            "feature_weights_": Named({side: Numbers("float32", (f"{side}_features",)) for side in ("user", "item")}),
            "item_weights_": Sparse("users", "items"),
            "is_cold_": Numbers("bool", ("users",)),
        }

    def _learned(self) -> dict[str, Any]:
        plain = {side: encoder.to_plain() for side, encoder in self.encoders_.items()}
        names = ("contents_", "feature_weights_", "item_weights_", "is_cold_")
        return {"encoders_": plain} | {name: getattr(self, name) for name in names}

    def _restore(self, learned: dict[str, Any]) -> None:
        for name, value in learned.items():
            setattr(self, name, value)
        self.encoders_ = {side: FeatureEncoder.from_plain(learned["encoders_"][side]) for side in ("user", "item")}
        for side, encoder in self.encoders_.items():
            if encoder.n_features != self.contents_[side].shape[1]:
                raise ModelFileError(
                    f"ContentKNN: its encoder of {side}s gives {encoder.n_features} features, its contents have "
                    f"{self.contents_[side].shape[1]}. Save the model again, or restore a copy."
                )
