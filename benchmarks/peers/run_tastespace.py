"""tastespace: the default recipe with the same two minutes, DPCML and EASE."""

from runner import SEED, K, main

import tastespace as ts

DEFAULTS = {"fit": {"minutes": 2.0}, "dpcml": {}, "ease": {}}
GRID = []  # `ts.fit` chooses by itself


def prepare(table):
    return ts.Interactions.from_scipy(table.matrix)


class Fitted:
    def __init__(self, model, users):
        self.model, self.users = model, users

    def all_lists(self):
        return self.users, *self.model.recommend_indices(self.users, K)

    def one_list(self, user):
        return self.model.recommend(user, k=K)  # a frame with ids, as its users call it


def fit(method, parameters, data, table):
    if method == "fit":
        model = ts.fit(data, seed=SEED, progress=False, **parameters)
    elif method == "dpcml":
        model = ts.DPCML(seed=SEED, **parameters).fit(data, progress=False)
    else:
        model = ts.EASE(**parameters).fit(data, progress=False)
    return Fitted(model, table.people)


if __name__ == "__main__":
    main("tastespace", ["tastespace", "numpy", "scipy", "polars"], DEFAULTS, GRID, prepare, fit)
