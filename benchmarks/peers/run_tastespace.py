"""tastespace: the default recipe with two minutes, DPCML and EASE; for the tuned row SparseEASE and ALS besides."""

from runner import SEED, K, main

import tastespace as ts
from tastespace.models import ALS, SparseEASE

DEFAULTS = {"fit": {"minutes": 2.0}, "dpcml": {}, "ease": {}}
GRID = [
    ("ease", {"regularization": 200.0, **ts.EASE.paper_form()}),
    ("dpcml", {}),
    ("ease", {"regularization": 500.0, **ts.EASE.paper_form()}),
    ("sparse-ease", {"n_neighbors": 100, "regularization": 30.0}),
    ("ease", {"regularization": 50.0, **ts.EASE.paper_form()}),
    ("als", {"dim": 64, "alpha": 8.0, "regularization": 30.0, "frequency_power": 1.0}),
    ("ease", {"regularization": 100.0, **ts.EASE.paper_form()}),
    ("dpcml", {"n_negatives": 10, "n_interests": 3}),
    ("ease", {"regularization": 1000.0, **ts.EASE.paper_form()}),
    ("sparse-ease", {"n_neighbors": 300, "regularization": 100.0}),
]
CLASSES = {"dpcml": ts.DPCML, "ease": ts.EASE, "sparse-ease": SparseEASE, "als": ALS}
SEEDED = ("dpcml", "als")


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
    else:
        seed = {"seed": SEED} if method in SEEDED else {}
        model = CLASSES[method](**seed, **parameters).fit(data, progress=False)
    return Fitted(model, table.people)


if __name__ == "__main__":
    main("tastespace", ["tastespace", "numpy", "scipy", "polars"], DEFAULTS, GRID, prepare, fit)
