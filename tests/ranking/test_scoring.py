"""The scoring index: every kind of list against scores in double precision, and against each other."""

from __future__ import annotations

import copy
import itertools
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recommend.toy_models import (
    Given,
    assert_best,
    by_vector,
    in_order,
    lists_of,
    own_vectors,
    past_rows,
    space_of,
    taken,
)

from tastespace import DPCML, Interactions, load
from tastespace.data.ids import IdMap
from tastespace.errors import DataError
from tastespace.models import VectorSpace
from tastespace.ranking.scoring import ScoringIndex
from tastespace.store._state import encode_learned

pytestmark = pytest.mark.usefixtures("one_core")

USERS = (0, 3, 44, 119)


@pytest.fixture(scope="module")
def index(dpcml):
    return ScoringIndex(dpcml, threads=1)


@pytest.fixture(params=["dpcml", "cml", "dots"])
def any_index(request, dots):
    """Distances with several vectors and with one, and inner products."""
    return ScoringIndex(dots if request.param == "dots" else request.getfixturevalue(request.param), threads=1)


@pytest.fixture(scope="module")
def dots():
    """A model of inner products with a bias: 120 users of one to three vectors, the items of the shop's size."""
    rng = np.random.default_rng(3)
    users = [rng.normal(size=(1 + number % 3, 4)) for number in range(120)]
    space = space_of(users, rng.normal(size=(90, 4)), "dot", rng.normal(size=90))
    histories = {f"p{n:03d}": [f"x{x:02d}" for x in {n % 90, 7 * n % 90, 89}] for n in range(120)}
    return Given(space).fit(taken(histories, [f"x{number:02d}" for number in range(90)]))


def unseen(index, user, candidates=None):
    allowed = range(index.train.n_items) if candidates is None else candidates
    return sorted(set(map(int, allowed)) - set(past_rows(index.train, user)))


@pytest.mark.parametrize("candidates", [None, np.arange(0, 90, 4, dtype=np.int32)])
@pytest.mark.parametrize("k", [1, 7, 90])
def test_each_interest_has_its_own_best_items(any_index, k, candidates):
    for user in USERS:
        scores = by_vector(any_index.space, user)
        found = any_index.interest_top_k(user, k, candidates=candidates)
        for interest in range(len(scores)):
            allowed = unseen(any_index, user, candidates)
            assert_best(found.of(interest).tolist(), scores[interest], allowed, k)
            mine = found.query == interest
            np.testing.assert_allclose(found.scores[mine], scores[interest][found.rows[mine]], atol=1e-5)
            assert (np.diff(found.scores[mine]) <= 0).all()
            assert found.rank[mine].tolist() == list(range(1, min(k, len(allowed)) + 1))
        counts = np.bincount(found.query, minlength=len(scores))
        assert found.interests.tolist() == np.repeat(np.arange(len(scores)), counts).tolist()


def test_sets_of_interests_answer_as_if_there_were_no_others(index):
    user = next(u for u in range(120) if len(own_vectors(index.space, u)) >= 3)
    scores = by_vector(index.space, user)
    sets = [[0, 2], [1], [2, 1, 0]]
    found = index.interest_top_k(user, 8, sets, exclude_seen=False)
    for query, interests in enumerate(sets):
        assert_best(found.of(query).tolist(), scores[interests].max(axis=0), range(90), 8)
        for row, interest in zip(found.of(query), found.interests[found.query == query], strict=True):
            assert interest == max(interests, key=lambda x: scores[x, row])


def test_all_interests_together_are_the_list_of_the_user(any_index):
    everybody = np.arange(any_index.train.n_users, dtype=np.int32)
    ((_, whole),) = any_index.top_k(everybody, 12)
    for user in USERS:
        one = any_index.interest_top_k(user, 12, [range(len(own_vectors(any_index.space, user)))])
        mine = whole.query == user
        assert one.rows.tolist() == whole.rows[mine].tolist()
        assert one.scores.tolist() == whole.scores[mine].tolist()
        assert one.interests.tolist() == whole.interests[mine].tolist()


@pytest.mark.parametrize("lengths", [1, 3, 40, 90])
def test_a_split_list_is_the_list_of_the_user_by_interest(any_index, lengths):
    for user in USERS:
        n = len(own_vectors(any_index.space, user))
        whole = any_index.interest_top_k(user, 90, [range(n)])
        groups = [[x] for x in reversed(range(n))]
        split = any_index.split_top_k(user, groups, [lengths] * n)
        for (interest,), (rows, scores) in zip(groups, split, strict=True):
            mine = whole.interests == interest
            assert rows.tolist() == whole.rows[mine][:lengths].tolist()
            assert scores.tolist() == whole.scores[mine][:lengths].tolist()


def test_a_split_goes_as_deep_as_the_smallest_group_needs():
    """One interest lies behind all items of the other: its first item is the last but one of the whole list."""
    space = space_of([[[0.0], [1000.0]], [[0.0]]], [*([x / 100] for x in range(300)), [600.0], [700.0]])
    model = Given(space).fit(taken({"ann": [0], "bob": [1]}, range(302)))
    near, behind = ScoringIndex(model, threads=1).split_top_k(0, [[0], [1]], [2, 2])
    assert near[0].tolist() == [1, 2]
    assert behind[0].tolist() == [301, 300]


def test_shelves_are_the_list_split_by_interest(dpcml):
    for user in (f"u{number:03d}" for number in range(0, 120, 8)):
        whole = dpcml.recommend(user, k=90)
        for shelf in dpcml.shelves(user, k=5):
            mine = whole.filter(whole["interest"].is_in(shelf.interests)).head(5)
            assert shelf.items == mine["item"].to_list()
            assert shelf.scores == mine["score"].to_list()


def test_ranks_are_places_in_the_whole_list(any_index):
    for user in USERS:
        interests = range(len(own_vectors(any_index.space, user)))
        whole = any_index.interest_top_k(user, 90, [interests]).rows.tolist()
        for item in (whole[0], whole[5], whole[-1]):
            assert any_index.rank(user, item, interests) == whole.index(item) + 1


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=60), st.integers(1, 8))
def test_equal_scores_are_ordered_by_row(drawn, k):
    items = [[float(position)] for position, _ in drawn]
    had = [row for row, (_, seen) in enumerate(drawn) if seen]
    model = Given(space_of([[[0.0]], [[1.0]]], items)).fit(taken({"ann": had or [0], "bob": [0]}, range(len(items))))
    index = ScoringIndex(model, threads=1)
    scores = -np.square(np.array(items, dtype=np.float64)[:, 0])
    allowed = unseen(index, 0)
    expected = in_order(scores, allowed, k)
    assert index.interest_top_k(0, k).rows.tolist() == expected
    found = list(index.top_k(np.array([0], dtype=np.int32), k))
    assert found[0][1].rows.tolist() == expected
    if expected:
        assert index.rank(0, expected[-1], [0]) == len(expected)


def test_neighbors_of_an_item_are_a_list_with_the_item_as_query(index, dpcml):
    vectors = dpcml.item_vectors_
    as_users = Given(VectorSpace.single(vectors, vectors), several=False)
    own = taken({f"i{row:02d}": [f"i{row:02d}"] for row in range(90)}, dpcml.train_.items.series)
    lists = lists_of(as_users.fit(own).recommend(k=6))
    found = index.similar_items(np.arange(90), 6)
    for row in range(90):
        assert dpcml.train_.items.take(found.of(row)).to_list() == lists[f"i{row:02d}"]


def test_threads_do_not_change_a_bit(dpcml):
    one, two = ScoringIndex(dpcml, threads=1), ScoringIndex(dpcml, threads=2)
    for a, b in (
        (one.interest_top_k(3, 9), two.interest_top_k(3, 9)),
        (one.similar_items(np.arange(20), 9), two.similar_items(np.arange(20), 9)),
        (one.similar_users(np.arange(20), 9), two.similar_users(np.arange(20), 9)),
    ):
        assert a.rows.tolist() == b.rows.tolist()
        assert a.scores.tolist() == b.scores.tolist()


def test_an_index_sees_what_a_model_learned_last(shop):
    """No index is kept by the model, so nothing of an earlier fit is left."""
    from tastespace import DPCML

    model = DPCML(dim=8, epochs=2, threads=1, seed=1).fit(shop)
    before = model.shelves("u003", k=3)
    model.set_params(seed=2).fit(shop)
    fresh = DPCML(dim=8, epochs=2, threads=1, seed=2).fit(shop)
    assert str(model.shelves("u003", k=3)) == str(fresh.shelves("u003", k=3)) != str(before)
    assert model.similar_items("i41").equals(fresh.similar_items("i41"))


def test_vectors_that_do_not_fit_the_data_are_refused():
    model = Given(space_of([[[0.0]]], [[0.0], [1.0]])).fit(taken({"ann": "a", "bob": "b"}, "ab"))
    with pytest.raises(DataError, match=r"Given.vectors gave 1 users .* expected 2 users"):
        ScoringIndex(model).top_k(np.array([0], dtype=np.int32), 1)  # at once, not when the lists are read


# ---- what is computed once -------------------------------------------------------------------------------------------


def answers(model, user, item):
    """All kinds of answers about one user and one item, as plain values."""
    lists = model.recommend(user, k=5), model.recommend(user, k=5, filter=np.arange(model.train_.n_items) % 2 == 0)
    shelves = [(shelf.items, shelf.scores, shelf.name) for shelf in model.shelves(user, k=3)]
    new = model.recommend_for([model.train_.items_of(user)], k=4)
    similar = model.similar_items(item, k=4)
    return [frame.rows() for frame in (*lists, new, similar)], shelves, model.explain(user, item).to_dict()


def copied(model):
    """The same model with arrays of its own, of which nothing has been computed."""
    other = copy.copy(model)
    other.user_vectors_, other.item_vectors_ = model.user_vectors_.copy(), model.item_vectors_.copy()
    other.user_offsets_ = model.user_offsets_.copy()
    return other


def test_answers_follow_every_change_of_the_model(shop):
    model = DPCML(dim=6, n_interests=3, epochs=3, seed=0, threads=1).fit(shop)
    user, item = shop.users[7], shop.items[3]

    def check():
        first, again = answers(model, user, item), answers(model, user, item)
        assert first == again == answers(copied(model), user, item)
        return first

    seen = [check()]
    model.fit(shop)
    assert check() == seen[0]  # the same seed
    model.set_params(seed=1).fit(shop)
    seen.append(check())
    model.partial_fit(Interactions.from_frame(pl.DataFrame({"user": [user], "item": [shop.items[80]]}), part=True))
    seen.append(check())
    model.item_vectors_ = model.item_vectors_[::-1]
    seen.append(check())
    model.user_vectors_ = np.ascontiguousarray(model.user_vectors_[:, ::-1])
    seen.append(check())
    names = pl.DataFrame({"item": shop.items.series, "title": [f"new {i}" for i in range(shop.n_items)]})
    model.set_item_attributes(names)
    seen.append(check())
    assert all(one != other for one, other in itertools.pairwise(seen))
    assert model.explain(user, item).title == "new 3"


def test_vectors_of_a_model_that_answered_are_read_only(shop):
    model = DPCML(dim=6, n_interests=2, epochs=1, seed=0, threads=1).fit(shop)
    model.item_vectors_[0] += 0.01  # before the first answer
    model.recommend(shop.users[0])
    for array in (model.item_vectors_, model.user_vectors_):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


def test_a_saved_model_gives_the_same_answers(shop, tmp_path):
    model = DPCML(dim=6, n_interests=2, epochs=2, seed=0, threads=1).fit(shop)
    before = answers(model, shop.users[5], shop.items[4])
    model.save(tmp_path / "shop.model")
    loaded = load(tmp_path / "shop.model")
    assert answers(loaded, shop.users[5], shop.items[4]) == before
    assert encode_learned(model)[0].keys() == encode_learned(copied(model))[0].keys()  # nothing else is stored


def test_threads_that_ask_at_once_get_the_same_answers(shop):
    model = DPCML(dim=6, n_interests=3, epochs=2, seed=0, threads=1).fit(shop)
    users = [shop.users[row] for row in range(24)]
    expected = [answers(copied(model), user, shop.items[3]) for user in users[:4]]
    lists = copied(model).recommend(users, k=6).rows()
    with ThreadPoolExecutor(8) as pool:  # the first answers of this model
        found = list(pool.map(lambda at: answers(model, users[at % 4], shop.items[3]), range(32)))
        one_by_one = list(pool.map(lambda user: model.recommend(user, k=6).rows(), users))
    assert found == expected * 8
    assert [row for rows in one_by_one for row in rows] == lists


def test_an_answer_for_one_user_takes_no_memory_that_grows_with_the_users():
    n_users, n_items, random = 200_000, 40, np.random.default_rng(0)
    offsets = np.arange(n_users + 1, dtype=np.int64)
    indices = np.repeat(random.integers(0, n_items, n_users // 1000, dtype=np.int32), 1000)
    model = DPCML(dim=2, n_interests=1, seed=0, threads=1)
    ids = (IdMap(pl.Series(np.arange(n)), kind) for n, kind in ((n_users, "user"), (n_items, "item")))
    model.train_, model.valid_, model.n_interests_ = Interactions(*ids, offsets, indices), None, 1
    model.user_offsets_ = offsets.copy()
    model.user_vectors_ = random.random((n_users, 2), dtype=np.float32) - 0.5
    model.item_vectors_ = random.random((n_items, 2), dtype=np.float32) - 0.5
    mask = np.arange(n_items) % 2 == 0
    asked = {
        "recommend": lambda: model.recommend(7, k=5),
        "all items": lambda: model.recommend(7, k=5, exclude_seen=False),
        "filter": lambda: model.recommend(7, k=5, filter=mask),
        "few": lambda: model.recommend(7, k=5, items=[1, 2]),
        "proportional": lambda: model.recommend(7, k=5, mix="proportional"),
        "shelves": lambda: model.shelves(7),
        "similar_items": lambda: model.similar_items(3),
        "explain": lambda: model.explain(7, 3),
        "recommend_for": lambda: model.recommend_for([[1, 2, 3]]),
    }
    for name, ask in asked.items():
        ask()
        tracemalloc.start()
        ask()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < n_users, name  # less than a byte for each user
