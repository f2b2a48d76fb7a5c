"""Initial vectors of new items."""

import numpy as np
import pytest
import scipy.sparse as sp

from tastespace import Interactions
from tastespace.models.updating import place_at_items_of_users, place_new_items


@pytest.fixture
def taken():
    rng = np.random.default_rng(4)
    return Interactions.from_scipy(sp.csr_array(rng.random((12, 9)) < 0.4))


def test_a_new_item_is_at_the_mean_of_the_nearest_vectors_of_its_users(taken):
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 4, 12)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    users = rng.standard_normal((offsets[-1], 6)).astype(np.float32)
    items = rng.standard_normal((9, 6)).astype(np.float32)
    before = items.copy()
    unplaced = np.arange(9) < 3
    ready = np.arange(12) != 2
    place_new_items(items, unplaced, users, offsets, ready, taken)
    assert not unplaced.any()
    np.testing.assert_array_equal(items[3:], before[3:])
    for item in range(3):
        takers = [u for u in range(12) if ready[u] and item in taken.indices[taken.offsets[u] : taken.offsets[u + 1]]]
        own = [users[offsets[u] : offsets[u + 1]] for u in takers]
        center = np.concatenate(own).mean(axis=0)
        for _ in range(3):
            center = np.mean([v[np.square(v - center).sum(axis=1).argmin()] for v in own], axis=0)
        np.testing.assert_allclose(items[item], center, rtol=1e-5, atol=1e-6)


def test_items_without_a_ready_user_stay(taken):
    items = np.ones((9, 2), np.float32)
    unplaced = np.ones(9, dtype=bool)
    place_new_items(items, unplaced, np.zeros((12, 2), np.float32), np.arange(13), np.zeros(12, dtype=bool), taken)
    assert unplaced.all()
    assert (items == 1).all()


def test_at_the_known_items_of_the_users(taken):
    items = np.random.default_rng(6).standard_normal((9, 3)).astype(np.float32)
    known = np.arange(9) >= 2
    given = items.copy()
    place_at_items_of_users(items, known, taken)
    dense = taken.matrix.toarray()
    for item in range(2):
        means = [given[(dense[u] > 0) & known].mean(axis=0) for u in range(12) if dense[u, item] and dense[u, 2:].any()]
        np.testing.assert_allclose(items[item], np.mean(means, axis=0), rtol=1e-5)
    np.testing.assert_array_equal(items[2:], given[2:])
