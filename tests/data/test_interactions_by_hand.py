"""Interactions built by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tastespace import Interactions, synthetic
from tastespace.errors import DataError


@pytest.fixture(scope="module")
def data():
    return synthetic.multi_interest(n_users=20, n_items=15, n_interactions=100, seed=1).interactions


def changed(array, at, value):
    found = array.copy()
    found[at] = value
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: {"offsets": changed(d.offsets, 0, -(10**6))}, "ascend from 0"),
        (lambda d: {"offsets": changed(d.offsets, -1, 10**6)}, "ascend from 0"),
        (lambda d: {"offsets": changed(d.offsets, 5, 10**6)}, "ascend from 0"),
        (lambda d: {"offsets": d.offsets[:-1]}, "one per user and one more, given 20"),
        (lambda d: {"offsets": d.offsets[:0]}, "given 0"),
        (lambda d: {"offsets": d.offsets.astype(np.int32)}, "array of int64 of one dimension, given int32"),
        (lambda d: {"offsets": d.offsets.tolist()}, "given list"),
        (lambda d: {"indices": changed(d.indices, 3, 15)}, r"0 \.\.\. 14, given 0 \.\.\. 15"),
        (lambda d: {"indices": changed(d.indices, 3, -1)}, "given -1"),
        (lambda d: {"indices": d.indices[:-1]}, "ascend from 0"),
        (lambda d: {"indices": d.indices.astype(np.int64)}, "array of int32"),
        (lambda d: {"indices": d.indices[:, None]}, "one dimension"),
        (lambda d: {"weights": np.ones(3, dtype=np.float32)}, "weights: expected .* one per interaction"),
        (lambda d: {"timestamps": np.ones(3)}, "timestamps"),
        (lambda d: {"timestamps": np.full(d.n_interactions, "x", dtype=object)}, "timestamps: .*given object"),
        (lambda d: {"users": None}, "users: expected an IdMap, given NoneType"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(data, change, message):
    with pytest.raises(DataError, match=message):
        replace(data, **change(data))


def test_arrays_that_fit_are_taken(data):
    again = Interactions(data.users, data.items, data.offsets, data.indices)
    assert again.fingerprint() == replace(data, item_attributes=None).fingerprint()
    empty = Interactions(data.users, data.items, np.zeros(21, dtype=np.int64), np.empty(0, dtype=np.int32))
    assert empty.n_interactions == 0


def test_checked_arrays_stay_as_they_were_checked(data):
    """SciPy and the kernels trust them: an index that is written afterwards would be read outside of their memory."""
    own = data.indices.copy()
    built = replace(data, indices=own)
    for name in ("offsets", "indices"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(built, name)[0] = 10**6
    own[0] += 0  # the caller's array is the caller's
    assert built.n_interactions == data.n_interactions
