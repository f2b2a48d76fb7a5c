"""Initial vectors of known users who get additional ones."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from tastespace import Interactions, _native
from tastespace.models.user_vector_init import extend_user_vectors
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
