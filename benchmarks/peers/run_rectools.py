"""RecTools: EASE, and implicit's ALS and item-item cosine behind its interface."""

import os

import numpy as np
import pandas as pd
from implicit.als import AlternatingLeastSquares
from implicit.nearest_neighbours import CosineRecommender
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import EASEModel, ImplicitALSWrapperModel, ImplicitItemKNNWrapperModel
from runner import SEED, K, main, padded
from threadpoolctl import threadpool_limits

DEFAULTS = {"ease": {}, "als": {}, "knn": {}}
GRID = [
    ("ease", {"regularization": 200.0}),
    ("als", {"factors": 128, "regularization": 10.0, "alpha": 5.0}),
    ("ease", {"regularization": 100.0}),
    ("knn", {"K": 100}),
    ("als", {"factors": 64, "regularization": 10.0, "alpha": 2.0}),
    ("ease", {"regularization": 500.0}),
    ("ease", {"regularization": 50.0}),
    ("als", {"factors": 128, "regularization": 30.0, "alpha": 10.0}),
    ("ease", {"regularization": 1000.0}),
]


def prepare(table):
    frame = pd.DataFrame({Columns.User: table.users, Columns.Item: table.items, Columns.Weight: 1.0})
    frame[Columns.Datetime] = pd.Timestamp("2020-01-01")
    return Dataset.construct(frame)


class Fitted:
    def __init__(self, model, data, users):
        self.model, self.data, self.users = model, data, users

    def recommend(self, users):
        return self.model.recommend(users=users, dataset=self.data, k=K, filter_viewed=True)

    def all_lists(self):
        found = self.recommend(self.users)
        rows = {user: (own[Columns.Item], own[Columns.Score]) for user, own in found.groupby(Columns.User)}
        none = (np.empty(0, dtype=int), np.empty(0))
        return padded(self.users, [rows.get(user, none) for user in self.users])

    def one_list(self, user):
        return self.recommend([user])


def fit(method, parameters, data, table):
    # implicit warns that more than one thread of BLAS slows its models down; EASE is all BLAS.
    threadpool_limits(os.cpu_count() if method == "ease" else 1, "blas")
    if method == "ease":
        model = EASEModel(**parameters).fit(data)
    elif method == "als":
        model = ImplicitALSWrapperModel(AlternatingLeastSquares(random_state=SEED, **parameters)).fit(data)
    else:
        model = ImplicitItemKNNWrapperModel(CosineRecommender(**parameters)).fit(data)
    return Fitted(model, data, table.people)


if __name__ == "__main__":
    main("rectools", ["rectools", "numpy", "scipy", "pandas"], DEFAULTS, GRID, prepare, fit)
