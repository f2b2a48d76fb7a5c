"""Kernels for whole rows of scores: scores, nearest interests and standardized sums, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import _native
from tastespace.models.vector_space import VectorSpace

THREADS = (1, 2, 3, 8)


def space_of(n_users=37, n_items=53, dim=7, metric="l2", seed=0):
    """Users with one to four vectors each."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 5, n_users))]).astype(np.int64)
    users, items = (rng.standard_normal((n, dim)).astype(np.float32) for n in (offsets[-1], n_items))
    bias = rng.standard_normal(n_items).astype(np.float32) if metric == "dot" else None
    return VectorSpace(users, offsets, items, metric, bias)


def by_vector(space, user):
    """Scores of all items by each vector of a user, in double precision."""
    mine = space.user_vectors[space.user_offsets[user] : space.user_offsets[user + 1]].astype(np.float64)
    items = space.item_vectors.astype(np.float64)
    if space.metric == "l2":
        return -np.square(mine[:, None] - items).sum(axis=2)
    return mine @ items.T + space.item_bias


@pytest.mark.parametrize("metric", ["l2", "dot"])
@pytest.mark.parametrize("n_items", [1, 16, 53])
def test_scores_and_nearest_interests_are_those_of_numpy(metric, n_items):
    space = space_of(n_items=n_items, metric=metric)
    users = np.array([36, 0, 5, 5, 17] + list(range(20)), dtype=np.int32)
    scores, nearest = space.scores(users), space.nearest_interests(users)
    assert scores.shape == nearest.shape == (len(users), n_items)
    for at, user in enumerate(users):
        expected = by_vector(space, user)
        np.testing.assert_allclose(scores[at], expected.max(axis=0), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(nearest[at], expected.argmax(axis=0))


def test_of_equally_near_vectors_the_first_counts():
    same = np.ones((3, 4), dtype=np.float32)
    space = VectorSpace(same, np.array([0, 3], dtype=np.int64), np.zeros((5, 4), dtype=np.float32))
    np.testing.assert_array_equal(space.nearest_interests(np.array([0])), np.zeros((1, 5)))


@pytest.mark.parametrize("threads", THREADS)
def test_every_number_of_threads_and_every_grouping_gives_the_same_bits(threads):
    space = space_of(n_users=100)
    users = np.arange(100)
    scores, nearest = space.scores(users, 1), space.nearest_interests(users, 1)
    np.testing.assert_array_equal(space.scores(users, threads), scores)
    np.testing.assert_array_equal(space.nearest_interests(users, threads), nearest)
    some = np.array([99, 3, 42])
    np.testing.assert_array_equal(space.scores(some, threads), scores[some])
    np.testing.assert_array_equal(space.nearest_interests(some, threads), nearest[some])


@pytest.mark.parametrize("user", [-1, 37])
def test_a_user_out_of_range_is_an_error(user):
    space = space_of()
    for call in (space.scores, space.nearest_interests):
        with pytest.raises(ValueError, match=rf"users: expected indices within 0 \.\.\. 36, given {user}"):
            call(np.array([0, user]))


def test_no_users_give_no_rows():
    space = space_of()
    assert space.scores(np.empty(0, dtype=np.int32)).shape == (0, 53)


# ---- standardized sums -----------------------------------------------------------------------------------------


def standardized(scores):
    """(s - mean) / standard deviation by rows, in double precision; rows of equal scores give zeros."""
    wide = scores.astype(np.float64)
    deviation = wide.std(axis=1, keepdims=True)
    return np.where(deviation > 0, (wide - wide.mean(axis=1, keepdims=True)) / np.where(deviation, deviation, 1.0), 0.0)


@pytest.mark.parametrize("n_columns", [1, 2, 15, 16, 17, 200])
def test_standardized_scores_are_added(n_columns):
    rng = np.random.default_rng(n_columns)
    total, scores = (rng.standard_normal((9, n_columns)).astype(np.float32) for _ in range(2))
    expected = total + 0.3 * standardized(scores)
    assert _native.add_standardized(total, scores, 0.3, 2) == -1
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e4, -3e6, 1e30])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e-42, 1e30])
def test_large_offsets_and_extreme_scales_lose_no_digits(offset, scale):
    """The sums are as exact as the scores themselves, which are float32."""
    rng = np.random.default_rng(1)
    scores = (offset + scale * rng.integers(-500, 500, (4, 300))).astype(np.float32)
    total = np.zeros_like(scores)
    assert _native.add_standardized(total, scores, 1.0, 1) == -1
    np.testing.assert_allclose(total, standardized(scores), rtol=1e-5, atol=1e-6)


def test_an_outlier_in_the_first_place_loses_no_digits():
    scores = np.random.default_rng(2).standard_normal((1, 100)).astype(np.float32)
    scores[0, 0] = 1e7
    total = np.zeros_like(scores)
    _native.add_standardized(total, scores, 1.0, 1)
    np.testing.assert_allclose(total, standardized(scores), rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, -7.25, 0.1, 3e38])
def test_rows_of_equal_scores_add_nothing(value):
    total = np.full((3, 40), 2.0, dtype=np.float32)
    scores = np.full((3, 40), value, dtype=np.float32)
    assert _native.add_standardized(total, scores, 1.0, 1) == -1
    np.testing.assert_array_equal(total, np.full((3, 40), 2.0))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 3, 36])
@pytest.mark.parametrize("threads", THREADS)
def test_the_first_row_that_is_not_finite_is_found_and_adds_nothing(bad, column, threads):
    scores = np.random.default_rng(3).standard_normal((50, 37)).astype(np.float32)
    scores[[41, 7, 23], column] = bad
    total = np.zeros_like(scores)
    assert _native.add_standardized(total, scores, 1.0, threads) == 7
    np.testing.assert_array_equal(total[[7, 23, 41]], 0.0)
    assert (total[[0, 8, 49]] != 0).all()


@pytest.mark.parametrize("threads", THREADS)
def test_standardized_sums_have_the_same_bits_for_every_number_of_threads(threads):
    scores = np.random.default_rng(4).standard_normal((61, 203)).astype(np.float32)
    one, several = np.zeros_like(scores), np.zeros_like(scores)
    _native.add_standardized(one, scores, 0.7, 1)
    _native.add_standardized(several, scores, 0.7, threads)
    np.testing.assert_array_equal(one, several)


def test_arrays_of_other_shapes_and_types_are_refused():
    scores = np.zeros((3, 4), dtype=np.float32)
    with pytest.raises(ValueError, match="total: expected 4 values"):
        _native.add_standardized(np.zeros((3, 5), dtype=np.float32), scores, 1.0, 1)
    with pytest.raises(TypeError):  # a converted copy would take the sums
        _native.add_standardized(np.zeros((3, 4)), scores, 1.0, 1)
    assert _native.add_standardized(np.zeros((0, 4), dtype=np.float32), scores[:0], 1.0, 1) == -1
