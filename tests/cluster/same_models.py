"""When two fitted models are the same."""

import numpy as np


def same(one, other):
    for name in ("user_vectors_", "item_vectors_", "item_bias_"):
        if hasattr(one, name):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    keys = [key for key in one.history_[0] if key != "seconds"]
    assert [[row[k] for k in keys] for row in one.history_] == [[row[k] for k in keys] for row in other.history_]
    assert one.best_epoch_ == other.best_epoch_
