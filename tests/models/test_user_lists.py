"""Lists with exact scores from one native call, and the selection of the best scores behind all lists."""

import numpy as np
import pytest

from tastespace import _native
from tastespace._util.csr import no_items
from tastespace.models import VectorSpace


def random_space(metric, n_users=7, n_items=600, dim=5, bias=False):
    random = np.random.default_rng(3)
    counts = random.integers(1, 5, n_users)
    vectors = random.normal(size=(int(counts.sum()), dim)).astype(np.float32)
    items = random.normal(size=(n_items, dim)).astype(np.float32)
    items[n_items // 2] = items[3]  # a tie
    own = random.normal(size=n_items).astype(np.float32) if bias else None
    return VectorSpace(vectors, np.concatenate([[0], np.cumsum(counts)]), items, metric, own)


@pytest.mark.parametrize(("metric", "bias"), [("l2", False), ("dot", False), ("dot", True)])
@pytest.mark.parametrize("k", [1, 10, 100, 700])
@pytest.mark.parametrize("threads", [1, 3])
def test_lists_are_those_of_the_kernels_one_by_one(metric, bias, k, threads):
    space = random_space(metric, bias=bias)
    users = np.array([4, 0, 6], dtype=np.int32)
    n_users, n_items = 7, 600
    left_out = np.tile(np.arange(0, 600, 15, dtype=np.int32), n_users)
    excluded = _native.ItemLists(np.arange(n_users + 1) * 40, left_out)
    allowed = (np.arange(n_items) % 7 != 0).astype(np.uint8)
    vectors = space.for_scoring()
    top, scores, interests, n_found, nan_user = _native.list_with_vectors(
        vectors, space.exact_items, users, excluded, k=k, threads=threads, allowed=allowed
    )
    nothing = _native.ItemLists(*no_items(n_users))
    _, plain, _ = _native.rank_with_vectors(vectors, users, excluded, nothing, k=k, threads=1, allowed=allowed)
    assert nan_user == -1
    assert n_found == (plain >= 0).sum()
    for row, user in enumerate(users):
        found = plain[row][plain[row] >= 0]
        own, numbers = space.pair_scores(np.full(len(found), user), found)
        order = np.lexsort((found, -own))
        n = len(found)
        np.testing.assert_array_equal(top[row, :n], found[order])
        np.testing.assert_array_equal(scores[row, :n], own[order])
        np.testing.assert_array_equal(interests[row, :n], numbers[order])
        assert (top[row, n:] == -1).all()
        assert np.isnan(scores[row, n:]).all()


def test_chosen_items_are_given_by_their_rows():
    space = random_space("l2")
    chosen = np.arange(1, 600, 3, dtype=np.int32)
    users, nothing = np.array([2, 5], dtype=np.int32), _native.ItemLists(*no_items(7))
    chosen_only = _native.ScoringVectors(space.native_users, space.user_terms, space.packed(chosen), space.scale)
    top = _native.list_with_vectors(chosen_only, space.exact_items, users, nothing, k=20, threads=1, item_rows=chosen)
    allowed = np.zeros(600, dtype=np.uint8)
    allowed[chosen] = 1
    whole = _native.list_with_vectors(
        space.for_scoring(), space.exact_items, users, nothing, k=20, threads=1, allowed=allowed
    )
    for one, other in zip(top, whole, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [1, 15, 16, 33, 500, 2000])
@pytest.mark.parametrize("kind", ["different", "equal", "zeros", "few", "infinite"])
def test_the_best_scores_in_order_of_score_and_index(n, kind):
    random = np.random.default_rng(n)
    scores = {
        "different": random.normal(size=n),
        "equal": np.full(n, 2.5),
        "zeros": random.choice([0.0, -0.0, -1e-40, 1e-40, -1.0], n),
        "few": random.integers(0, 4, n),
        "infinite": random.choice([-np.inf, np.inf, 1.0], n),
    }[kind].astype(np.float32)[None, :]
    expected = np.lexsort((np.arange(n), -scores[0]))
    users, nothing = np.zeros(1, dtype=np.int32), _native.ItemLists(*no_items(1))
    for k in (1, 10, 50, 300, n):
        _, top, _ = _native.rank_with_scores(scores, users, nothing, nothing, k=k, threads=1)
        np.testing.assert_array_equal(top[0, : min(k, n)], expected[:k])
        assert (top[0, n:] == -1).all()
