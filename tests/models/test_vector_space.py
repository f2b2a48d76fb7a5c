"""Scores of single pairs, from vectors, against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace import _native
from tastespace.errors import DataError
from tastespace.models import VectorSpace


def one_pair(user_vectors, items, metric, bias, user, item):
    """Score of every vector of a user for an item, in double precision."""
    found = []
    for vector in np.asarray(user_vectors[user], dtype=np.float64):
        if metric == "l2":
            found.append(-sum((a - b) ** 2 for a, b in zip(vector, items[item].astype(np.float64), strict=True)))
        else:
            found.append(float(vector @ items[item].astype(np.float64)) + (0.0 if bias is None else float(bias[item])))
    return found


def space_of(user_vectors, items, metric="l2", bias=None):
    offsets = np.concatenate([[0], np.cumsum([len(vectors) for vectors in user_vectors])]).astype(np.int64)
    return VectorSpace(np.concatenate(user_vectors).astype(np.float32), offsets, items.astype(np.float32), metric, bias)


@pytest.mark.parametrize(("metric", "with_bias"), [("l2", False), ("dot", False), ("dot", True)])
@pytest.mark.parametrize("dim", [1, 3, 16, 37, 100])  # whole registers and what is left over
def test_pairs_agree_with_plain_numpy(metric, with_bias, dim):
    rng = np.random.default_rng(dim)
    user_vectors = [rng.normal(size=(count, dim)).astype(np.float32) for count in rng.integers(1, 6, 30)]
    items = rng.normal(size=(50, dim)).astype(np.float32)
    bias = rng.normal(size=50).astype(np.float32) if with_bias else None
    users, asked = rng.integers(0, 30, 400), rng.integers(0, 50, 400)
    space = space_of(user_vectors, items, metric, bias)
    scores, interests = space.pair_scores(users, asked)
    assert scores.dtype == np.float32
    assert interests.dtype == np.int32
    for user, item, score, interest in zip(users, asked, scores, interests, strict=True):
        by_vector = one_pair(user_vectors, items, metric, bias, user, item)
        assert score == pytest.approx(max(by_vector), rel=1e-5, abs=1e-5)
        assert by_vector[interest] == pytest.approx(max(by_vector), rel=1e-5, abs=1e-5)
    again = space.pair_scores(users, asked, threads=2)
    assert scores.tobytes() == again[0].tobytes()
    assert interests.tobytes() == again[1].tobytes()


@given(st.integers(0, 2**32), st.sampled_from(["l2", "dot"]), st.integers(1, 20))
def test_pairs_of_ties_name_the_first_vector(seed, metric, dim):
    rng = np.random.default_rng(seed)
    user_vectors = [rng.integers(-1, 2, (count, dim)) for count in rng.integers(1, 6, 8)]  # whole numbers: exact ties
    items, bias = rng.integers(-1, 2, (9, dim)), rng.integers(-3, 4, 9).astype(np.float32)
    bias = None if metric == "l2" else bias
    users, asked = (grid.ravel() for grid in np.meshgrid(np.arange(8), np.arange(9)))
    scores, interests = space_of(user_vectors, items, metric, bias).pair_scores(users, asked)
    for user, item, score, interest in zip(users, asked, scores, interests, strict=True):
        by_vector = one_pair(user_vectors, items, metric, bias, user, item)
        assert score == max(by_vector)
        assert interest == by_vector.index(max(by_vector))


def test_pairs_far_from_the_origin_keep_their_digits():
    here = np.array([[3000.5, -4000.25]], dtype=np.float32)
    items = np.concatenate([here, here + np.float32(1 / 64)])
    scores, _ = space_of([here], items).pair_scores(np.array([0, 0]), np.array([0, 1]))
    assert scores.tolist() == [0.0, -2 / 64**2]


def test_pairs_straight_from_the_kernel():
    users = np.array([[0, 0], [3, 4], [1, 1]], dtype=np.float32)
    items = np.array([[3, 4], [1, 0]], dtype=np.float32)
    offsets, none = np.array([0, 2, 3]), np.empty(0, dtype=np.float32)
    pairs = np.array([0, 0, 1, 1], dtype=np.int32), np.array([0, 1, 0, 1], dtype=np.int32)
    bias, own = np.array([10, 100], dtype=np.float32), _native.UserVectors(users, offsets)
    for threads in (1, 2, 3, 8):
        scores, interests = _native.pair_scores(own, _native.ExactItems(items, True, none), *pairs, threads)
        assert (scores.tolist(), interests.tolist()) == ([0, -1, -13, -1], [1, 0, 0, 0])
        scores, interests = _native.pair_scores(own, _native.ExactItems(items, False, none), *pairs, threads)
        assert (scores.tolist(), interests.tolist()) == ([25, 3, 7, 1], [1, 1, 0, 0])
        scores, interests = _native.pair_scores(own, _native.ExactItems(items, False, bias), *pairs, threads)
        assert (scores.tolist(), interests.tolist()) == ([35, 103, 17, 101], [1, 1, 0, 0])


def test_no_pairs_give_no_scores():
    nobody = np.empty(0, dtype=np.int64)
    scores, interests = space_of([np.ones((1, 2))], np.ones((1, 2))).pair_scores(nobody, nobody)
    assert len(scores) == len(interests) == 0


def test_a_bias_that_is_no_number_is_refused():
    with pytest.raises(DataError, match="item_bias holds NaN or infinite values"):
        space_of([np.ones((1, 2))], np.ones((2, 2)), "dot", np.array([1, np.nan], dtype=np.float32))
