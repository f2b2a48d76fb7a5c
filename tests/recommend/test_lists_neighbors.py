"""Neighbors against brute force."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.recommend.toy_models import Given, assert_best, lists_of, own_vectors, space_of, taken

from tastespace import EASE
from tastespace.errors import DataError, ParameterError, UnknownIdError

pytestmark = pytest.mark.usefixtures("one_core")


def cosine(one, other):
    return one @ other / np.linalg.norm(one) / np.linalg.norm(other)


def user_gap(space, row, other, near=lambda a, b: ((a - b) ** 2).sum()):
    """From each vector to the other's nearest: the mean over the vectors of either, and the mean of both."""
    mine, theirs = own_vectors(space, row), own_vectors(space, other)
    there = np.mean([min(near(a, b) for b in theirs) for a in mine])
    back = np.mean([min(near(a, b) for a in mine) for b in theirs])
    return (there + back) / 2


@pytest.fixture(scope="module")
def dots():
    """A model of inner products, by hand: 12 users of one to three vectors, 20 items with a bias."""
    rng = np.random.default_rng(3)
    users = [rng.normal(size=(1 + number % 3, 4)) for number in range(12)]
    space = space_of(users, rng.normal(size=(20, 4)) * rng.random((20, 1)), "dot", rng.normal(size=20))
    histories = {f"p{number:02d}": [f"x{number:02d}", "x19"] for number in range(12)}
    return Given(space).fit(taken(histories, [f"x{number:02d}" for number in range(20)]))


@pytest.mark.parametrize("k", [1, 7, 200])
def test_similar_items_are_the_nearest(dpcml, k):
    data, vectors = dpcml.train_, dpcml.item_vectors_.astype(np.float64)
    asked = ["i41", "i03", "i89"]
    frame = dpcml.similar_items(asked, k=k)
    assert frame.columns == ["item", "similar", "rank", "score", "distance"]
    assert frame["item"].unique(maintain_order=True).to_list() == asked
    for item, found in lists_of(frame, "similar", "item").items():
        row = int(item[1:])
        gaps = ((vectors - vectors[row]) ** 2).sum(axis=1)
        assert_best(data.items.index_of(found).tolist(), -gaps, [i for i in range(90) if i != row], k)
        mine = frame.filter(frame["item"] == item)
        np.testing.assert_allclose(mine["distance"], gaps[data.items.index_of(found)], atol=1e-5)
        assert (mine["distance"] == -mine["score"]).all()
        assert mine["rank"].to_list() == list(range(1, min(k, 89) + 1))


def test_similar_items_of_inner_products_are_those_of_the_same_direction(dots):
    frame = dots.similar_items(dots.train_.items.series, k=5)
    assert frame.columns == ["item", "similar", "rank", "score"]
    vectors = dots.space.item_vectors.astype(np.float64)
    for item, found in lists_of(frame, "similar", "item").items():
        row, rows = int(item[1:]), [int(one[1:]) for one in found]
        likeness = np.array([cosine(vectors[row], other) for other in vectors])
        assert_best(rows, likeness, [i for i in range(20) if i != row], 5)
        np.testing.assert_allclose(frame.filter(frame["item"] == item)["score"], likeness[rows], atol=1e-6)


def test_similar_items_of_ease_have_the_largest_weights(ease):
    rows = np.arange(90)
    frame = ease.similar_items(ease.train_.items.series, k=6)
    assert frame.columns == ["item", "similar", "rank", "score"]
    for item, found in lists_of(frame, "similar", "item").items():
        row = int(item[1:])
        weights = ease.weights_[:, row].astype(np.float64)  # B_ij: what having i adds to the score of j
        assert_best(ease.train_.items.index_of(found).tolist(), weights, rows[rows != row].tolist(), 6)


def test_similar_items_of_ease_follow_its_recommendations():
    """Whoever took one thing alone is recommended what it weights for; with two things, the closer one counts."""
    data = taken({"a": [1, 2], "b": [1, 2], "c": [1, 2, 3], "d": [3, 4], "e": [4, 3]}, [1, 2, 3, 4])
    model = EASE(regularization=1.0, threads=1).fit(data)
    assert model.similar_items([1, 4], k=1)["similar"].to_list() == [2, 3]


@pytest.mark.parametrize("k", [1, 9, 500])
def test_similar_users_are_the_nearest(dpcml, k):
    data, space = dpcml.train_, dpcml.vectors()
    assert len(set(np.diff(space.user_offsets))) > 1  # users differ in the number of their vectors
    frame = dpcml.similar_users(["u040", "u003"], k=k)
    assert frame.columns == ["user", "similar", "rank", "score", "distance"]
    for user, found in lists_of(frame, "similar").items():
        row = int(user[1:])
        gaps = np.array([user_gap(space, row, other) for other in range(120)])
        assert_best(data.users.index_of(found).tolist(), -gaps, [u for u in range(120) if u != row], k)
        mine = frame.filter(frame["user"] == user)
        np.testing.assert_allclose(mine["distance"], gaps[data.users.index_of(found)], atol=1e-6)
        assert (mine["score"].diff().drop_nulls() <= 0).all()


def test_similar_users_of_inner_products_look_in_the_same_directions(dots):
    frame = dots.similar_users(dots.train_.users.series, k=11)
    assert frame.columns == ["user", "similar", "rank", "score"]
    for user, found in lists_of(frame, "similar").items():
        row, rows = int(user[1:]), [int(one[1:]) for one in found]
        likeness = np.array([-user_gap(dots.space, row, u, lambda a, b: -cosine(a, b)) for u in range(12)])
        assert_best(rows, likeness, [u for u in range(12) if u != row], 11)
        np.testing.assert_allclose(frame.filter(frame["user"] == user)["score"], likeness[rows], atol=1e-6)


def test_duplicates_are_at_no_distance_and_nothing_is_similar_to_itself():
    """Far from the origin the expanded square has few digits left; distances that users see have all of them."""
    far = np.array([1000.3, -2000.7])
    space = space_of(
        [[far, far + 5], [far + 5, far], [far + 0.01, far + 5.01]],
        [far, far, far + 0.01, far + 0.02],
    )
    model = Given(space).fit(taken({"ann": "a", "bob": "a", "cem": "b"}, "abcd"))
    users = model.similar_users("ann")
    assert users["similar"].to_list() == ["bob", "cem"]
    assert users["distance"][0] == 0
    assert users["distance"][1] == pytest.approx(user_gap(space, 0, 2), rel=1e-5)
    items = model.similar_items("b")
    assert items["similar"].to_list() == ["a", "c", "d"]
    assert items["distance"][0] == 0
    for frame, kind in (
        (model.similar_users(["ann", "bob", "cem"]), "user"),
        (model.similar_items(list("abcd")), "item"),
    ):
        assert not (frame[kind] == frame["similar"]).any()


def test_many_items_at_once_give_the_same_as_one_by_one(dpcml):
    asked = dpcml.train_.items.series.to_list() * 4  # more than are looked up at a time
    frame = dpcml.similar_items(asked, k=2)
    assert len(frame) == 2 * 360
    assert frame[600:602].equals(dpcml.similar_items(asked[300], k=2))


def test_neighbors_in_pandas(pandas_shop):
    model = EASE(threads=1).fit(pandas_shop)
    assert isinstance(model.similar_items("i41"), pd.DataFrame)


def test_models_that_compare_nothing_say_so(popular, ease):
    with pytest.raises(ParameterError, match="MostPopular does not compare items, so it has no similar ones"):
        popular.similar_items("i41")
    for model in (popular, ease):
        with pytest.raises(ParameterError, match="has no vectors, so it has no similar users"):
            model.similar_users("u003")


def test_bad_arguments_are_refused(dpcml):
    with pytest.raises(UnknownIdError, match=r"the first is 'I41'.*Did you mean i41"):
        dpcml.similar_items(["i40", "I41"])
    with pytest.raises(UnknownIdError, match="the first is 'nobody'"):
        dpcml.similar_users("nobody")
    with pytest.raises(DataError, match="the list of items is empty"):
        dpcml.similar_items([])
    with pytest.raises(DataError, match="the list of users is empty"):
        dpcml.similar_users([])
    with pytest.raises(ParameterError, match="k=0"):
        dpcml.similar_users("u003", k=0)
