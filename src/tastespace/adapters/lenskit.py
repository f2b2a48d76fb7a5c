"""LensKit components: any model of this library as the scorer or the recommender of a LensKit pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.extras import missing
from tastespace.data.interactions import Interactions
from tastespace.errors import NotFittedError
from tastespace.models import Recommender, create

try:
    from lenskit.data import Dataset, ItemList, QueryInput, RecQuery
    from lenskit.pipeline import Component, Pipeline, PipelineBuilder
    from lenskit.training import Trainable, TrainingOptions
    from pydantic import BaseModel
except ImportError as problem:
    raise missing("lenskit", "tastespace.adapters.lenskit needs LensKit") from problem


class TastespaceConfig(BaseModel):
    """Name and parameters of the model; the recommender also takes a mix of interests."""

    model: str = "dpcml"
    """A name of `tastespace.models.registry`."""
    parameters: dict[str, Any] = {}
    mix: str | None = None
    """Mix of interests, as in `Recommender.recommend`; for `TastespaceRecommender`."""
    diversity: float | None = None
    n: int = 10
    """Length of the list where none is asked for; for `TastespaceRecommender`."""


class _Trained(Component, Trainable):  # type: ignore[misc]
    """A model that learns from the interactions of a LensKit data set, weighted where the model uses weights."""

    config: TastespaceConfig
    model_: Recommender

    def train(self, data: Dataset, options: TrainingOptions = TrainingOptions()) -> None:  # noqa: B008
        """Fit the model; users and items are known by their numbers in the data set."""
        if hasattr(self, "model_") and not options.retrain:
            return
        model = create(self.config.model, **self.config.parameters)
        schema = data.schema.relationships[data.default_interaction_class()]
        weight = next((name for name in ("rating", "count") if name in schema.attributes), None)
        field = weight if model.uses_weights else None
        matrix = data.interaction_matrix(format="scipy", layout="csr", field=field)
        self.users_, self.items_ = data.users, data.items
        self.model_ = model.fit(Interactions.from_scipy(matrix, weight=field is not None), progress=False)

    def _for_query(self, query: QueryInput) -> tuple[Recommender, int] | None:
        """A model with this user and the user's row in it: of training, else folded in; None: nothing is known."""
        if not hasattr(self, "model_"):
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: train its pipeline first.")
        asked = RecQuery.create(query)
        row = None if asked.user_id is None else self.users_.number(asked.user_id, missing=None)
        if row is not None and self.model_.can_serve(np.array([row]))[0]:
            return self.model_, int(row)
        history = asked.history_items
        if history is None or not self.model_.supports_fold_in:
            return None
        numbers = history.numbers(vocabulary=self.items_, missing="negative")
        known = [int(one) for one in numbers if one >= 0]
        return (self.model_.fold_in({0: known}), 0) if known else None

    def _rows(self, items: ItemList) -> NDArray[np.int64]:
        return np.asarray(items.numbers(vocabulary=self.items_, missing="negative"), dtype=np.int64)


class TastespaceScorer(_Trained):
    """Scores of items for a user, for pipelines such as LensKit's ``topn_pipeline``.

    A user who was not in training, or has no history there, is folded in from ``query.history_items`` where the model
    can do that; else all scores are NaN, which LensKit's ranker leaves out.

    >>> from lenskit.pipeline import topn_pipeline
    >>> pipeline = topn_pipeline(TastespaceScorer(model="ease", parameters={"regularization": 50.0}), n=10)
    >>> pipeline.component("scorer").config.model
    'ease'
    """

    def __call__(self, query: QueryInput, items: ItemList) -> ItemList:
        """The items with their scores."""
        scores = np.full(len(items), np.nan, dtype=np.float32)
        found = self._for_query(query)
        if found is not None:
            model, user = found
            rows = self._rows(items)
            scores[rows >= 0] = model.score_block(np.array([user], dtype=np.int32))[0][rows[rows >= 0]]
        return ItemList(items, scores=scores)


class TastespaceRecommender(_Trained):
    """Lists with a mix of interests, which no scores of single items express: takes the place of scorer and ranker."""

    def __call__(self, query: QueryInput, items: ItemList, n: int | None = None) -> ItemList:
        """The best n of these items in order; the field ``interest`` says which interest an item matches."""
        length = self.config.n if n is None or n < 0 else n
        found = self._for_query(query)
        rows = self._rows(items)
        rows = rows[rows >= 0]
        if found is None or not len(rows) or not length:
            return ItemList(item_ids=[], scores=np.empty(0, dtype=np.float32), ordered=True)
        model, user = found
        frame = model.recommend(
            [model.train_.users[user]],
            k=length,
            exclude_seen=False,  # the pipeline's candidate selector has decided that
            items=rows.tolist(),
            mix=self.config.mix,
            diversity=self.config.diversity,
        )
        fields = {"interest": frame["interest"].to_numpy()} if "interest" in frame.columns else {}
        return ItemList(
            item_nums=frame["item"].to_numpy(),
            vocabulary=self.items_,
            scores=frame["score"].to_numpy(),
            ordered=True,
            **fields,
        )


def recommender_pipeline(recommender: TastespaceRecommender, name: str | None = None) -> Pipeline:
    """A pipeline of LensKit around a `TastespaceRecommender`: inputs ``query``, ``items``, ``n``."""
    from lenskit.basic.candidates import TrainingItemsCandidateSelector
    from lenskit.basic.history import UserTrainingHistoryLookup

    pipe = PipelineBuilder(name=name)
    query = pipe.create_input("query", RecQuery, int, str, bytes, ItemList)
    items, n = pipe.create_input("items", ItemList), pipe.create_input("n", int, None)
    lookup = pipe.add_component("history-lookup", UserTrainingHistoryLookup(), query=query)
    chosen = pipe.add_component("candidate-selector", TrainingItemsCandidateSelector(), query=lookup)
    candidates = pipe.use_first_of("candidates", items, chosen)
    pipe.add_component("recommender", recommender, query=lookup, items=candidates, n=n)
    pipe.default_component("recommender")
    return pipe.build()
