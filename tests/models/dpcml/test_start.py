"""Initial vectors of known users who get additional ones."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from tastespace import Interactions, _native
from tastespace.models.dpcml import start as user_vector_init
from tastespace.models.dpcml.start import extend_user_vectors, spread_over_items
from tastespace.models.vector_space import VectorSpace

SPHERE = _native.Region.SPHERE


def test_additional_vectors_start_at_the_own_item_that_is_farthest():
    train = Interactions.from_scipy(sp.csr_array([[1, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0]]))
    items = np.array([[1, 0], [0.8, 0.6], [0, 0.5], [-1, 0]], dtype=np.float32)
    old = VectorSpace(np.array([[0, -1], [1, 0]], dtype=np.float32), np.array([0, 1, 2]), items)
    # The model knew two users: its first is row 1 now, its second row 0; row 2 is new. Rows 0 and 1 get two more.
    offsets, n_old = np.array([0, 3, 5, 6]), np.array([1, 1, 0])
    users = np.full((6, 2), 7, dtype=np.float32)
    old_rows = np.array([1, 0, -1])
    copied = extend_user_vectors(old, old_rows, n_old, train, items, users, offsets, SPHERE, 1.0)
    assert copied.tolist() == [0, 3]
    np.testing.assert_allclose(users[0], [1, 0])
    np.testing.assert_allclose(users[1], [0, 1], atol=1e-6)  # item 2, projected onto the sphere
    np.testing.assert_allclose(users[2], [0.8, 0.6], atol=1e-6)  # the farthest from the two
    np.testing.assert_allclose(users[3], [0, -1])
    np.testing.assert_allclose(users[4], [0, 1], atol=1e-6)
    assert (users[5] == 7).all()


def test_new_users_are_not_copied():
    train = Interactions.from_scipy(sp.csr_array([[1, 0], [0, 1]]))
    users, none = np.ones((2, 2), np.float32), np.array([-1, -1])
    old = VectorSpace(np.empty((0, 2), np.float32), np.array([0]), users)
    offsets, n_old = np.array([0, 1, 2]), np.zeros(2, int)
    assert len(extend_user_vectors(old, none, n_old, train, users, users, offsets, SPHERE, 1.0)) == 0


def test_vectors_of_new_users_are_spread_over_their_items(monkeypatch):
    """Against a loop over users, and whatever the number of users at once."""
    rng = np.random.default_rng(0)
    matrix = (rng.random((30, 40)) < 0.3).astype(int)
    matrix[3], matrix[3, 5] = 0, 1  # one item, two vectors
    train = Interactions.from_scipy(sp.csr_array(matrix))
    items = rng.normal(0, 0.1, (40, 6)).astype(np.float32)
    counts = rng.integers(1, 4, 30)
    counts[3] = 2
    offsets = np.concatenate([[0], np.cumsum(counts)])
    expected = []
    for user in range(30):
        own = items[np.flatnonzero(matrix[user])].astype(np.float64)
        chosen = [int(((own - own.mean(axis=0)) ** 2).sum(axis=1).argmin())]
        while len(chosen) < counts[user]:
            gaps = ((own[:, None] - own[chosen]) ** 2).sum(axis=2).min(axis=1)
            chosen.append(int(gaps.argmax()))
        expected += list(own[chosen])
    for at_once in (1, 25, 10_000):
        monkeypatch.setattr(user_vector_init, "_PAST_AT_ONCE", at_once)
        found = spread_over_items(items, train, offsets, _native.Region.BALL, 1.0)
        np.testing.assert_allclose(found, expected, atol=1e-6)
