"""The kernels read memory as their arguments say: every size, offset and index is checked before."""

import gc

import numpy as np
import pytest

from tastespace import Interactions, _native, synthetic
from tastespace.errors import DataError
from tastespace.models import Recommender, SparseEASE, VectorSpace


def space_of(**changes):
    """Two users with three vectors, and four items."""
    given = {
        "user_vectors": np.ones((3, 2), np.float32),
        "vector_terms": np.zeros(3, np.float32),
        "vector_offsets": np.array([0, 1, 3]),
    } | changes
    users = _native.UserVectors(given["user_vectors"], given["vector_offsets"])
    packed = _native.PackedItems(np.ones((4, 2), np.float32), np.zeros(4, np.float32))
    return _native.ScoringVectors(users, given["vector_terms"], packed, 1.0)


def exact_items(item_vectors=None, item_bias=()):
    """The same four items."""
    vectors = np.ones((4, 2), np.float32) if item_vectors is None else item_vectors
    return _native.ExactItems(vectors, True, np.array(item_bias, np.float32))


NONE = _native.ItemLists(np.zeros(3, np.int64), np.empty(0, np.int32))
USERS = np.array([0, 1], np.int32)
BAD_SPACES = [
    ({"user_vectors": np.ones((3, 50), np.float32)}, "user_vectors: expected 2 values"),
    ({"vector_terms": np.zeros(1, np.float32)}, "vector_terms: expected 3"),
    ({"vector_offsets": np.array([-(10**6), 1, 3])}, "vector_offsets: expected numbers that ascend from 0 to 3"),
    ({"vector_offsets": np.array([0, 10**6, 3])}, "vector_offsets"),
    ({"vector_offsets": np.array([0, 1, 10**6])}, "vector_offsets"),
    ({"users": np.array([2], np.int32)}, r"users: expected indices within 0 \.\.\. 1, given 2 at position 0"),
    ({"users": np.array([0, -1], np.int32)}, "given -1 at position 1"),
]


@pytest.mark.parametrize(("change", "message"), BAD_SPACES)
def test_vectors_of_every_kernel(change, message):
    users = change.get("users", USERS)
    mix = _native.MixSettings(diversity=0.5, depth=3, k=2)
    for kernel in (
        lambda space: _native.score_users(space, users, threads=1),
        lambda space: _native.nearest_interests(space, users, threads=1),
        lambda space: _native.rank_with_vectors(space, users, NONE, NONE, k=2, threads=1),
        lambda space: _native.list_with_vectors(space, exact_items(), users, NONE, k=2, threads=1),
        lambda space: _native.mix_with_vectors(space, users, np.ones(3), NONE, mix, threads=1),
    ):
        with pytest.raises(ValueError, match=message):
            kernel(space_of(**change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"excluded_items": np.array([4], np.int32)}, r"excluded_items: expected indices within 0 \.\.\. 3, given 4"),
        ({"excluded_items": np.array([-5], np.int32)}, "excluded_items"),
        ({"excluded_offsets": np.array([0, 1, 9])}, "excluded_offsets"),
        ({"test_items": np.array([99], np.int32)}, "test_items"),
        ({"test_offsets": np.array([5, 1, 1])}, "test_offsets"),
        ({"users": np.array([0, 7], np.int32)}, "users"),
        ({"scores": np.zeros((1, 4), np.float32)}, "scores: expected 2 values"),
        ({"k": -1}, "k: expected 0 or more"),
    ],
)
def test_lists_of_a_ranking(change, message):
    def rank(scores, users, excluded_offsets, excluded_items, test_offsets, test_items, k):
        excluded, test = (
            _native.ItemLists(excluded_offsets, excluded_items),
            _native.ItemLists(test_offsets, test_items),
        )
        return _native.rank_with_scores(scores, users, excluded, test, k=k, threads=1)

    given = {
        "scores": np.zeros((2, 4), np.float32),
        "users": np.array([0, 1], np.int32),
        "excluded_offsets": np.array([0, 1, 1]),
        "excluded_items": np.array([2], np.int32),
        "test_offsets": np.array([0, 1, 1]),
        "test_items": np.array([1], np.int32),
        "k": 2,
    }
    assert rank(**given)[1].tolist() == [[0, 1], [0, 1]]
    with pytest.raises(ValueError, match=message):
        rank(**given | change)


def test_items_need_one_term_each():
    with pytest.raises(ValueError, match="terms: expected 4 values"):
        _native.PackedItems(np.ones((4, 2), np.float32), np.zeros(1, np.float32))


def test_arrays_live_as_long_as_what_holds_them():
    def made():
        return space_of(user_vectors=np.full((3, 2), 7, np.float32))

    space = made()
    gc.collect()
    _ = [np.full((3, 2), -1, np.float32) for _ in range(100)]
    assert _native.score_users(space, USERS, 1).tolist() == [[14.0] * 4, [14.0] * 4]


def test_a_user_without_vectors_has_an_empty_mix():
    top, interests, _ = _native.mix_with_vectors(
        space_of(vector_offsets=np.array([0, 0, 3])),
        USERS,
        np.ones(3),
        NONE,
        _native.MixSettings(diversity=0.5, depth=3, k=2),
        threads=1,
    )
    assert top[0].tolist() == interests[0].tolist() == [-1, -1]
    assert (top[1] >= 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"interests": np.full((2, 4), 2, np.int32)}, "interests: expected indices within 0"),
        ({"interests": np.zeros((2, 3), np.int32)}, "interests"),
        ({"first_weights": np.array([0, 2, 1])}, "first_weights"),
        ({"first_weights": np.array([0, 3])}, "first_weights"),
        ({"scores": np.zeros((1, 4), np.float32)}, "scores"),
    ],
)
def test_mixes_of_scores(change, message):
    given = {
        "scores": np.zeros((2, 4), np.float32),
        "interests": np.zeros((2, 4), np.int32),
        "users": USERS,
        "weights": np.ones(3),
        "first_weights": np.array([0, 2, 3]),
        "excluded": NONE,
        "settings": _native.MixSettings(diversity=0.5, depth=3, k=2),
        "threads": 1,
    }
    assert (_native.mix_with_scores(**given)[0] >= 0).all()
    with pytest.raises(ValueError, match=message):
        _native.mix_with_scores(**{**given, **change})


def test_pairs_lists_and_orders():
    vectors, items = np.ones((3, 2), np.float32), np.array([0, 4], np.int32)
    own = _native.UserVectors(vectors, np.array([0, 1, 3]))
    with pytest.raises(ValueError, match="items: expected indices"):
        _native.pair_scores(own, exact_items(), USERS, items, 1)
    with pytest.raises(ValueError, match="item_bias: expected 4"):
        exact_items(item_bias=[0])
    with pytest.raises(ValueError, match="top: expected indices"):
        _native.list_pair_distances(np.array([[9]], np.int32), vectors, np.array([1]), 1)
    with pytest.raises(ValueError, match="scores: expected numbers, given NaN"):
        _native.list_order(np.array([0, 2]), np.array([1, np.nan], np.float32), np.array([0, 1], np.int32), 1)
    with pytest.raises(ValueError, match="offsets: expected numbers that ascend"):
        _native.list_order(np.array([0, 5, 2]), np.ones(2, np.float32), np.array([0, 1], np.int32), 1)


def test_negatives():
    with pytest.raises(ValueError, match="positives: expected indices"):
        _native.draw_negatives(
            np.array([0, 1]), np.array([7], np.int32), 3, np.empty(0, np.float32), np.empty(0, np.int32),
            np.zeros(1, np.int32), 2, 0, 0, 0, 1,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positives": np.array([0, 7], np.int32)}, "positives: expected indices"),
        ({"offsets": np.array([0, 9])}, "offsets: expected"),
        ({"last": 3}, "expected a range within 0 ... 2"),
        ({"alias_keep": np.ones(2, np.float32)}, "alias_keep: expected 3"),
        ({"threads": 0}, "threads"),
    ],
)
def test_touched_items(change, message):
    none = {"alias_keep": np.empty(0, np.float32), "alias_other": np.empty(0, np.int32)}
    given = {
        "offsets": np.array([0, 2]),
        "positives": np.array([0, 2], np.int32),
        "n_items": 3,
        "n_negatives": 1,
        **none,
    }
    given |= {"seed": 1, "epoch": 0, "first": 0, "last": 2, "threads": 2}
    assert _native.touched_items(**given).tolist() == [1, 1, 1]
    assert _native.touched_items(**given | {"n_negatives": 0}).tolist() == [1, 0, 1]
    assert _native.touched_items(**given | {"last": 0}).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match=message):
        _native.touched_items(**given | change)


@pytest.mark.parametrize("relevance", [[np.nan, 0.5], [1.0, np.nan]])
def test_calibrated_lists_refuse_nan(relevance):
    one = np.zeros(1, np.int32)
    category_sets = _native.CategorySets(offsets=np.array([0, 1]), terms=one, categories=one, shares=np.ones(1))

    def calibrated(relevance, sets):
        pools = _native.Pools(offsets=np.array([0, 2]), relevance=relevance, sets=np.array(sets, np.int32))
        settings = _native.Calibration(weight=0.5, smoothing=0.01, k=2)
        return _native.calibrated_lists(pools, category_sets, np.ones((1, 1)), settings, 1)

    with pytest.raises(ValueError, match="NaN"):
        calibrated(np.array(relevance), [0, 0])
    with pytest.raises(ValueError, match="sets: expected indices"):
        calibrated(np.ones(2), [0, 3])


def test_crc32_is_that_of_zlib():
    import zlib

    data = np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8)
    for n in (0, 1, 7, 8, 15, 63, 64, 65, 127, 128, 144, 1000, 5000):
        assert _native.crc32(data[:n]) == zlib.crc32(data[:n].tobytes())
        assert _native.crc32(data[n:], _native.crc32(data[:n])) == zlib.crc32(data.tobytes())


# ---- through the public interface --------------------------------------------------------------------------


class Given(Recommender):
    """A model whose vectors are given."""

    def __init__(self, make=None):
        self.make = make

    def _fit(self, train, valid, progress):
        """Nothing to learn."""

    def vectors(self):
        return self.make(self.train_)


def space(train, *, dim=3, first=0, bias=None):
    offsets = np.arange(train.n_users + 1)
    offsets[0] = first
    n_items = train.n_items
    own = np.ones((train.n_users, dim), np.float32)
    return VectorSpace(own, offsets, np.ones((n_items, 3), np.float32), "dot", None if bias is None else np.zeros(bias))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda train: space(train, dim=64), "rows of the same length"),
        (lambda train: space(train, first=-5), "ascend from 0"),
        (lambda train: space(train, bias=2), "one number per item"),
    ],
)
def test_vectors_of_a_custom_model(make, message):
    town = synthetic.multi_interest(n_users=20, n_items=15, n_interactions=100, seed=1).interactions
    model = Given(make).fit(town)
    with pytest.raises(DataError, match=message):
        model.recommend(k=3)


@pytest.mark.parametrize("threads", [1, 2])
def test_values_that_overflow_end_in_an_error(threads):
    import scipy.sparse as sp

    dense = np.random.default_rng(0).random((12, 8)).astype(np.float32)
    huge = Interactions.from_scipy(sp.csr_array(dense * np.float32(1e30)), weight=True)
    with pytest.raises(DataError, match="too large"):
        SparseEASE(n_neighbors=3, threads=threads).fit(huge)  # once an endless loop, or the end of the process


def test_half_steps_of_als():
    given = {
        "offsets": np.array([0, 1]),
        "columns": np.array([5], np.int32),
        "extra": np.ones(1, np.float32),
        "fixed": np.ones((2, 3), np.float32),
        "gram": np.eye(3, dtype=np.float32),
        "regularization": np.ones(1, np.float32),
        "n_steps": 1,
        "vectors": np.zeros((1, 3), np.float32),
        "threads": 1,
    }
    with pytest.raises(ValueError, match="columns: expected indices"):
        _native.als_half_step(**given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"item_vectors": np.ones((4, 3), np.float32)}, "item_vectors: expected 2 values"),
        ({"item_vectors": np.ones((3, 2), np.float32)}, "item_vectors: expected 4 values"),
        ({"item_bias": np.ones(3, np.float32)}, "item_bias: expected 4"),
        ({"item_rows": np.arange(3, dtype=np.int32)}, "item_rows: expected 4"),
        ({"item_rows": np.array([0, 1, 2, 4], np.int32)}, r"item_rows: expected indices within 0 \.\.\. 3, given 4"),
        ({"allowed": np.ones(3, np.uint8)}, "allowed: expected 4"),
        ({"k": -1}, "k: expected 0 or more"),
    ],
)
def test_items_of_lists_with_scores(change, message):
    exact = {name: change[name] for name in ("item_vectors", "item_bias") if name in change}
    options = {"k": 2} | {name: value for name, value in change.items() if name not in exact}
    with pytest.raises(ValueError, match=message):
        _native.list_with_vectors(space_of(), exact_items(**exact), USERS, NONE, **options, threads=1)


def test_programs_of_blends():
    """Sizes and indices when a program is made, and what can have changed when it is called."""
    rows = _native.PastRows(dense=np.eye(3, dtype=np.float32))
    taste_of_past = np.zeros(3, dtype=np.int32)
    given = {
        "members": [(rows, 1.0, None, 0.0)],
        "n_items": 3,
        "past": _native.ItemLists(np.array([0, 2, 3]), np.array([0, 1, 2], dtype=np.int32)),
        "disliked": _native.ItemLists(np.zeros(3, np.int64), np.empty(0, np.int32)),
        "taste_of_past": taste_of_past,
        "taste_offsets": np.array([0, 1, 2]),
        "focus": 0.0,
        "lift": 0.0,
    }
    program = _native.BlendProgram(**given)
    assert program.is_whole
    values, _, scales, bad = program.parts(np.array([1], np.int32), [None], None, 1)
    assert values.argmax() == 2
    assert scales[0, 0] == pytest.approx(1 / np.std([0.0, 0.0, 1.0]))
    assert bad == (-1, -1)
    for change, message in (
        ({"n_items": 4}, "items"),
        ({"taste_of_past": np.zeros(2, np.int32)}, "taste_of_past"),
        ({"taste_offsets": np.array([0, 1])}, "taste_offsets"),
        ({"members": [(rows, 1.0, np.ones(2, np.float32), 0.0)]}, "past_weights"),
        ({"balance": 0.5}, "balance"),
    ):
        with pytest.raises(ValueError, match=message):
            _native.BlendProgram(**given | change)
    with pytest.raises(ValueError, match="users"):
        program.totals(np.array([2], np.int32), [None], None, None, 1)
    with pytest.raises(ValueError, match="given"):
        program.totals(np.array([0], np.int32), [np.zeros((1, 3), np.float32)], None, None, 1)
    with pytest.raises(ValueError, match="nearest"):
        _native.BlendProgram(**given | {"members": [(False, 1.0, None, 0.0)]}).totals(
            np.array([0], np.int32), [np.zeros((1, 3), np.float32)], None, None, 1
        )
    with pytest.raises(ValueError, match="columns"):
        _native.PastRows(offsets=np.array([0, 1]), columns=np.array([1], np.int32), values=np.ones(1, np.float32))
    taste_of_past[1] = 1
    with pytest.raises(ValueError, match="taste_of_past"):
        program.totals(np.array([0], np.int32), [None], None, None, 1)
