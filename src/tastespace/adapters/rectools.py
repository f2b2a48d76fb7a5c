"""A RecTools model: any model of this library with the methods of `rectools.models.base.ModelBase`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tastespace._util.extras import missing
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models import Recommender, create, name_of
from tastespace.ranking.scoring import ScoringIndex

try:
    from rectools.dataset import Dataset
    from rectools.models.base import ModelBase, ModelConfig
except ImportError as problem:
    raise missing("rectools", "tastespace.adapters.rectools needs RecTools") from problem


class TastespaceModelConfig(ModelConfig):  # type: ignore[misc]
    """The configuration of `TastespaceModel`."""

    model: str
    """A name of `tastespace.models.registry`."""
    parameters: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies defaults


class TastespaceModel(ModelBase[TastespaceModelConfig]):  # type: ignore[misc]
    """A model for `rectools.models`, cross-validation and metrics of RecTools.

    Users without interactions in the data set (warm and cold ones, in the words of RecTools) are not supported, which
    RecTools says or skips, by its ``on_unsupported_targets``. Weights of the interactions are used by models that use
    weights.

    Args:
        model: An unfitted model, which is cloned at `fit`.
        verbose: 0: no progress bar.

    >>> from tastespace import EASE
    >>> TastespaceModel(EASE(regularization=50.0)).get_config(simple_types=True)["model"]
    'ease'
    """

    recommends_for_warm = False
    recommends_for_cold = False
    config_class = TastespaceModelConfig

    def __init__(self, model: Recommender, verbose: int = 0) -> None:
        super().__init__(verbose=verbose)
        if not isinstance(model, Recommender):
            raise ParameterError(f"expected a model of tastespace, such as DPCML(), given {type(model).__name__}.")
        self.model = model
        self.fitted_: Recommender

    def _get_config(self) -> TastespaceModelConfig:
        parameters = self.model.get_params(deep=False)
        return TastespaceModelConfig(
            cls=type(self), model=name_of(type(self.model)), parameters=parameters, verbose=self.verbose
        )

    @classmethod
    def _from_config(cls, config: TastespaceModelConfig) -> TastespaceModel:
        return cls(create(config.model, **config.parameters), verbose=config.verbose)

    def _fit(self, dataset: Dataset) -> None:
        model = self.model.clone()
        matrix = dataset.get_user_item_matrix(include_weights=model.uses_weights)
        data = Interactions.from_scipy(matrix, weight=model.uses_weights)
        self.fitted_ = model.fit(data, progress=bool(self.verbose))

    def _recommend_u2i(
        self, user_ids: Any, dataset: Dataset, k: int, filter_viewed: bool, sorted_item_ids_to_recommend: Any
    ) -> tuple[Any, Any, Any]:
        data = self.fitted_.train_
        users = np.asarray(user_ids, dtype=np.int32)
        if len(users) and users.max() >= data.n_users:
            raise ParameterError(
                f"{int((users >= data.n_users).sum()):,} users are not in the data set that the model was fitted on. "
                "Fit it again, to a data set with them."
            )
        users = users[self.fitted_.can_serve(users)]
        viewed = self._viewed(dataset) if filter_viewed else sp.csr_array((data.n_users, data.n_items))
        excluded = (viewed.indptr.astype(np.int64), viewed.indices.astype(np.int32))
        allowed = sorted_item_ids_to_recommend
        candidates = None if allowed is None else np.asarray(allowed, dtype=np.int32)
        found: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        index = ScoringIndex(self.fitted_)
        for block, top in index.ranked(index.ranker(min(k, data.n_items), excluded, candidates), users):
            for part, values in zip(found, (block.users[top.query], top.rows, top.scores), strict=True):
                part.append(values)
        return tuple(np.concatenate(part) if part else np.empty(0, dtype=np.int64) for part in found)  # type: ignore[return-value]

    def _viewed(self, dataset: Dataset) -> Any:
        """Items of each user of the model in this data set, which may have more users and items than the model."""
        data = self.fitted_.train_
        matrix = sp.csr_array(dataset.get_user_item_matrix(include_weights=False))
        rows, columns = min(matrix.shape[0], data.n_users), min(matrix.shape[1], data.n_items)
        matrix = sp.csr_array(matrix[:rows, :columns])
        matrix.resize((data.n_users, data.n_items))
        matrix.sort_indices()
        return matrix

    def _recommend_i2i(
        self, target_ids: Any, dataset: Dataset, k: int, sorted_item_ids_to_recommend: Any
    ) -> tuple[Any, Any, Any]:
        data = self.fitted_.train_
        targets = np.asarray(target_ids, dtype=np.int64)
        # All of them, where only some may be recommended: neighbors are not searched among a choice.
        length = k if sorted_item_ids_to_recommend is None else data.n_items
        found = self.fitted_.similar_items(targets.tolist(), k=min(length, data.n_items))
        items, similar, scores = (found[name].to_numpy() for name in ("item", "similar", "score"))
        if sorted_item_ids_to_recommend is not None:
            kept = np.isin(similar, sorted_item_ids_to_recommend)
            items, similar, scores = items[kept], similar[kept], scores[kept]
            first = np.flatnonzero(np.r_[True, items[1:] != items[:-1]]) if len(items) else np.empty(0, dtype=np.int64)
            place = np.arange(len(items)) - np.repeat(first, np.diff(np.r_[first, len(items)]))
            items, similar, scores = items[place < k], similar[place < k], scores[place < k]
        return items, similar, scores
