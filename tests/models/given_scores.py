"""A model whose scores are given."""

import numpy as np

from tastespace.models import Recommender


class Given(Recommender):
    def __init__(self, table=None):
        self.table = table

    def _fit(self, train, valid, progress):
        """Nothing to learn."""

    def can_serve(self, users):
        return np.ones(len(users), dtype=bool)  # whatever their history

    def score_block(self, users):
        return np.asarray(self.table, dtype=np.float32)[users]
