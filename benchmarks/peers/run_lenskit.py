"""LensKit: EASE, implicit-feedback ALS and item-item neighbors."""

import numpy as np
import pandas as pd
from lenskit import recommend
from lenskit.als import ImplicitMFScorer
from lenskit.batch import recommend as recommend_all
from lenskit.data import from_interactions_df
from lenskit.knn import EASEScorer, ItemKNNScorer
from lenskit.pipeline import topn_pipeline
from lenskit.training import TrainingOptions
from runner import SEED, K, main, padded

DEFAULTS = {"ease": {}, "als": {}, "itemknn": {"feedback": "implicit"}}
GRID = [
    ("ease", {"regularization": 200.0}),
    ("als", {"embedding_size": 64, "regularization": 1.0, "weight": 10.0}),
    ("itemknn", {"feedback": "implicit", "max_nbrs": 100}),
    ("ease", {"regularization": 100.0}),
    ("ease", {"regularization": 500.0}),
    ("als", {"embedding_size": 128, "regularization": 10.0, "weight": 10.0}),
    ("ease", {"regularization": 50.0}),
    ("itemknn", {"feedback": "implicit", "max_nbrs": 50}),
    ("ease", {"regularization": 1000.0}),
]
CLASSES = {"ease": EASEScorer, "als": ImplicitMFScorer, "itemknn": ItemKNNScorer}


def prepare(table):
    return from_interactions_df(pd.DataFrame({"user_id": table.users, "item_id": table.items}))


class Fitted:
    def __init__(self, pipeline, users):
        self.pipeline, self.users = pipeline, users

    def one_list(self, user):
        return recommend(self.pipeline, user, K)

    def all_lists(self):
        found = recommend_all(self.pipeline, self.users.tolist(), K)
        rows = {key.user_id: (own.ids(), own.scores()) for key, own in found}
        none = (np.empty(0, dtype=int), np.empty(0))
        return padded(self.users, [rows.get(user, none) for user in self.users.tolist()])


def fit(method, parameters, data, table):
    pipeline = topn_pipeline(CLASSES[method](**parameters), n=K)
    pipeline.train(data, TrainingOptions(rng=SEED))
    return Fitted(pipeline, table.people)


if __name__ == "__main__":
    main("lenskit", ["lenskit", "torch", "numpy", "scipy"], DEFAULTS, GRID, prepare, fit)
