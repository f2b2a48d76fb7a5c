"""Batches that share users and negatives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.training.reference import random_lists

from tastespace.training.samplers import SharedNegatives, in_runs


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 5), st.integers(0, 3))
def test_runs_are_a_permutation_in_which_a_users_positives_stand_together(counts, length, seed):
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    order = in_runs(offsets, length, np.random.default_rng(seed))
    assert sorted(order.tolist()) == list(range(offsets[-1]))
    owner = np.repeat(np.arange(len(counts)), counts)[order]
    changes = 1 + np.count_nonzero(np.diff(owner)) if len(owner) else 0
    assert changes <= sum(-(-count // length) for count in counts)


@pytest.mark.parametrize("power", [None, 1.0])
def test_negatives_come_from_one_pool_and_are_different(power):
    data = random_lists([5, 3, 8, 20], 24)
    source = SharedNegatives(data, pool=10, n=4, seed=1, power=power)
    users = np.array([0, 1, 2, 3, 3, 3])
    items, usable = source.draw(users, epoch=0, first=0)
    assert len(np.unique(items)) <= 10
    for row, user in enumerate(users):
        assert len(set(items[row])) == 4
        own = set(data.items_of(user))
        assert usable[row].tolist() == [item not in own for item in items[row]]
    again = source.draw(users, epoch=0, first=0)[0]
    np.testing.assert_array_equal(again, items)
    assert (source.draw(users, epoch=1, first=0)[0] != items).any()


def test_every_item_is_drawn_alike_or_by_popularity():
    data = random_lists([2] * 60, 12)
    users = np.zeros(200, dtype=np.int64)
    counts = sum(
        np.bincount(SharedNegatives(data, 4, 2, seed=0).draw(users, e, 0)[0].ravel(), minlength=12) for e in range(300)
    )
    np.testing.assert_allclose(counts / counts.sum(), 1 / 12, atol=0.02)
    one = SharedNegatives(data, 1, 1, seed=0, power=1.0)
    drawn = np.bincount([one.draw(users[:1], e, 0)[0][0, 0] for e in range(3000)], minlength=12)
    np.testing.assert_allclose(drawn / 3000, data.item_counts / data.n_interactions, atol=0.03)


def test_a_pool_larger_than_the_catalog():
    data = random_lists([3, 1], 3)
    items, usable = SharedNegatives(data, pool=100, n=10, seed=0).draw(np.array([0, 1]), 0, 0)
    assert items.shape == (2, 3)
    assert usable.sum(axis=1).tolist() == [0, 2]
