"""Cornac: EASE and BPR. Its WMF needs TensorFlow, which the package does not install."""

import numpy as np
from cornac.data import Dataset
from cornac.models import BPR, EASE
from runner import SEED, K, main, padded

DEFAULTS = {"ease": {}, "bpr": {}}
GRID = [
    ("ease", {"lamb": 200, "posB": False}),
    ("bpr", {"k": 64, "learning_rate": 0.05, "lambda_reg": 0.01, "max_iter": 100}),
    ("ease", {"lamb": 100, "posB": False}),
    ("ease", {"lamb": 500, "posB": False}),
    ("bpr", {"k": 64, "learning_rate": 0.02, "lambda_reg": 0.002, "max_iter": 150}),
    ("ease", {"lamb": 200, "posB": True}),
    ("ease", {"lamb": 50, "posB": False}),
    ("ease", {"lamb": 1000, "posB": False}),
]
CLASSES = {"ease": EASE, "bpr": BPR}


def prepare(table):
    ones = np.ones(len(table.users))
    return Dataset.from_uir(zip(table.users.tolist(), table.items.tolist(), ones, strict=True), seed=SEED)


class Fitted:
    def __init__(self, model, data, users):
        self.model, self.data, self.users = model, data, users

    def one_list(self, user):
        return self.model.recommend(user, k=K, remove_seen=True, train_set=self.data)

    def all_lists(self):  # its recommend() gives no scores: the rank stands for them
        return padded(self.users, [(own, -np.arange(len(own))) for own in map(self.one_list, self.users.tolist())])


def fit(method, parameters, data, table):
    # With a seed BPR runs in one thread, so the seed is left out there: all cores, as the others.
    seed = {"seed": SEED} if method == "ease" else {}
    return Fitted(CLASSES[method](verbose=False, **seed, **parameters).fit(data), data, table.people)


if __name__ == "__main__":
    main("cornac", ["cornac", "numpy", "scipy"], DEFAULTS, GRID, prepare, fit)
