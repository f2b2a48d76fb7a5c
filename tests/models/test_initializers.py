"""Where vectors start, and how a user's additional ones do."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from tastespace import Interactions
from tastespace.models.initializers import grow, start_items, start_users
from tastespace.training.metric import BALL, SPHERE, place


def test_place_brings_rows_back_in_place():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=np.float32)
    for region, expected in ((BALL, [[1.2, 1.6], [0.3, 0.4], [0, 0]]), (SPHERE, [[1.2, 1.6], [1.2, 1.6], [0, 0]])):
        mine = rows.copy()
        assert place(mine, region, 2.0) is mine
        np.testing.assert_allclose(mine, expected, atol=1e-6)


@pytest.mark.parametrize("start", [start_users, start_items])
@pytest.mark.parametrize("radius", [1.0, 2.5])
def test_starts_lie_where_vectors_live(start, radius):
    on_sphere = start(np.random.default_rng(0), 50, 8, SPHERE, radius)
    inside = start(np.random.default_rng(0), 50, 8, BALL, radius)
    assert on_sphere.dtype == inside.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(on_sphere, axis=1), radius, rtol=1e-6)
    assert (np.linalg.norm(inside, axis=1) <= radius * (1 + 1e-6)).all()


def test_starts_are_the_papers():
    """Users N(0, 0.01^2), items N(0, 1/d); on the sphere every direction is as likely as the next."""
    users = start_users(np.random.default_rng(1), 4000, 100, BALL, 1.0)
    assert users.std() == pytest.approx(0.01, rel=0.01)
    assert abs(users.mean()) < 1e-4
    items = start_items(np.random.default_rng(1), 4000, 100, BALL, 1.0)
    norms = np.linalg.norm(items, axis=1)
    assert 0.3 < (norms < 0.999).mean() < 0.7  # a norm of about 1, cut at 1
    assert (items * np.sqrt(100))[norms < 0.999].std() == pytest.approx(1, rel=0.08)
    directions = start_users(np.random.default_rng(2), 4000, 3, SPHERE, 1.0)
    np.testing.assert_allclose(directions.T @ directions / 4000, np.eye(3) / 3, atol=0.03)


def test_additional_vectors_start_at_the_own_item_served_worst():
    whole = Interactions.from_scipy(sp.csr_array([[1, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0]]))
    items = np.array([[1, 0], [0.8, 0.6], [0, 0.5], [-1, 0]], dtype=np.float32)
    old = SimpleNamespace(
        user_vectors_=np.array([[0, -1], [1, 0]], dtype=np.float32), user_offsets_=np.array([0, 1, 2])
    )
    # The model knew two people: its first is row 1 now, its second row 0; row 2 is new. Rows 0 and 1 get two more.
    offsets, had = np.array([0, 3, 5, 6]), np.array([1, 1, 0])
    users = np.full((6, 2), 7, dtype=np.float32)
    copied = grow(old, whole, users, offsets, np.array([1, 0, -1]), had, items, (SPHERE, 1.0))
    assert copied.tolist() == [0, 3]
    np.testing.assert_allclose(users[0], [1, 0])
    np.testing.assert_allclose(users[1], [0, 1], atol=1e-6)  # item 2, brought to the sphere
    np.testing.assert_allclose(users[2], [0.8, 0.6], atol=1e-6)  # what is now served worst
    np.testing.assert_allclose(users[3], [0, -1])
    np.testing.assert_allclose(users[4], [0, 1], atol=1e-6)
    assert (users[5] == 7).all()


def test_nobody_known_nobody_copied():
    whole = Interactions.from_scipy(sp.csr_array([[1, 0], [0, 1]]))
    users, none = np.ones((2, 2), np.float32), np.array([-1, -1])
    old = SimpleNamespace(user_vectors_=np.empty((0, 2)), user_offsets_=np.array([0]))
    assert len(grow(old, whole, users, np.array([0, 1, 2]), none, np.zeros(2, int), users, (SPHERE, 1.0))) == 0
