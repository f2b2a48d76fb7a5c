"""implicit: ALS, BPR and item-item cosine."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # implicit warns that more slows it down

import numpy as np
from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from implicit.nearest_neighbours import CosineRecommender
from runner import SEED, K, main

DEFAULTS = {"als": {}, "bpr": {}, "cosine": {}}
GRID = [
    ("als", {"factors": 64, "regularization": 1.0, "alpha": 2.0}),
    ("cosine", {"K": 50}),
    ("bpr", {"factors": 64, "learning_rate": 0.05, "iterations": 100}),
    ("als", {"factors": 128, "regularization": 10.0, "alpha": 5.0}),
    ("cosine", {"K": 100}),
    ("als", {"factors": 128, "regularization": 30.0, "alpha": 10.0}),
    ("cosine", {"K": 200}),
    ("als", {"factors": 64, "regularization": 10.0, "alpha": 2.0}),
    ("bpr", {"factors": 100, "learning_rate": 0.02, "regularization": 0.02, "iterations": 200}),
    ("als", {"factors": 128, "regularization": 30.0, "alpha": 2.0}),
    ("als", {"factors": 128, "regularization": 100.0, "alpha": 30.0}),
    ("als", {"factors": 32, "regularization": 10.0, "alpha": 5.0}),
    ("cosine", {"K": 20}),
    ("als", {"factors": 256, "regularization": 30.0, "alpha": 5.0}),
]
CLASSES = {"als": AlternatingLeastSquares, "bpr": BayesianPersonalizedRanking, "cosine": CosineRecommender}

LOWEST = -1e37  # items that the user has get the lowest float32


def prepare(table):
    return table.matrix


class Fitted:
    def __init__(self, model, matrix, users):
        self.model, self.matrix, self.users = model, matrix, users

    def all_lists(self):
        items, scores = self.model.recommend(self.users, self.matrix[self.users], N=K)
        # A list with too few neighbors is filled with items of score 0 that the user has, which are left out here.
        filled = scores == 0 if isinstance(self.model, CosineRecommender) else scores < LOWEST
        return self.users, np.where(filled, -1, items), scores

    def one_list(self, user):
        return self.model.recommend(user, self.matrix[user], N=K)


def fit(method, parameters, matrix, table):
    seed = {} if method == "cosine" else {"random_state": SEED}
    model = CLASSES[method](**parameters, **seed)
    model.fit(matrix, show_progress=False)
    return Fitted(model, matrix, table.people)


if __name__ == "__main__":
    main("implicit", ["implicit", "numpy", "scipy"], DEFAULTS, GRID, prepare, fit)
