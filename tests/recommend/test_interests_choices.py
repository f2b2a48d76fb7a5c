"""Muted and boosted interests of a request: forms that are understood, and errors for the others."""

from __future__ import annotations

import numpy as np
import pytest
from tests.recommend.toy_models import Given, space_of, taken

from tastespace.errors import DataError, ParameterError, UnknownIdError

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def model():
    """Ann has three interests on a line, Bob one."""
    items = [[100.0 * x + y] for x in range(3) for y in range(10)]
    space = space_of([[[0.0], [100.0], [200.0]], [[0.0]]], items)
    return Given(space).fit(taken({"ann": [0, 1, 10, 20], "bob": [0, 1]}, range(30)))


@pytest.mark.parametrize("mute", [[1], (1,), {1}, 1, np.int64(1), np.array([1]), {"ann": [1]}, {"ann": 1}])
def test_forms_of_mute(model, mute):
    found = model.recommend("ann", k=30, mute=mute)
    assert sorted(found["item"]) == [*range(2, 10), *range(21, 30)]


@pytest.mark.parametrize("mute", [None, (), [], {}, np.array([], dtype=int)])
def test_nothing_muted_and_nothing_boosted(model, mute):
    assert model.recommend(k=5, mute=mute, boost={}).equals(model.recommend(k=5))


@pytest.mark.parametrize("boost", [{1: 50}, {np.int64(1): 50.0}, {"ann": {1: 50}}])
def test_forms_of_boost(model, boost):
    assert model.recommend("ann", k=4, boost=boost)["interest"].to_list() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mute": [3]}, "interest 3 was named, but user 'ann' has the interests 0 to 2; model.interests"),
        ({"mute": "0"}, "interest '0' was named"),
        ({"mute": [True]}, "interest True was named"),
        ({"mute": -1}, r"mute=-1: expected numbers of interests"),
        ({"mute": 1.5}, r"mute=1.5: expected numbers of interests"),
        ({"mute": {"bob": [1]}}, "interest 1 was named, but user 'bob' has only interest 0"),
        ({"boost": {7: 2}}, "interest 7 was named, but user 'ann'"),
        ({"boost": {"ann": {7: 2}}}, "interest 7 was named, but user 'ann'"),
        ({"boost": {"ann": {1: 2}, "bob": 3}}, "boost=3: expected factors by interest"),
        ({"boost": [1]}, r"boost=\[1\]: expected factors by interest"),
        ({"boost": {0: 0}}, "expected positive factors; mute= leaves an interest out"),
        ({"boost": {0: float("inf")}}, "expected positive factors of at most 1,000,000"),
        ({"boost": {0: 1e308}}, "expected positive factors of at most 1,000,000"),
        ({"boost": {0: 2}, "mix": "nearest"}, "boost= multiplies the weights.*mix='nearest' does not use"),
        ({"boost": {0: 2}, "mix": "scaled"}, "mix='scaled' does not use. Use mix='proportional'"),
        ({"boost": {0: 2}, "mix": "calibrated"}, "mix='calibrated' does not use.*column='interest'"),
    ],
)
def test_choices_that_are_refused(model, arguments, message):
    with pytest.raises(ParameterError, match=message):
        model.recommend("ann", k=3, **arguments)


def test_choices_of_one_user_do_not_fit_several(model, tmp_path):
    for name, choice, example in (("mute", [1], r"\[1\]"), ("boost", {0: 2.0}, r"\{0: 2.0\}")):
        message = rf"{name}=.* concerns one user, and 2 users are requested.*{name}=\{{'ann': {example}\}}"
        for request in (
            lambda **chosen: model.recommend(["ann", "bob"], **chosen),
            lambda **chosen: model.recommend(**chosen),
            lambda **chosen: model.recommend_indices(**chosen),
            lambda **chosen: model.recommend_to(tmp_path / "lists.csv", **chosen),
            lambda **chosen: model.recommend(["ann", "nobody"], on_unknown="popular", **chosen),
        ):
            with pytest.raises(ParameterError, match=message):
                request(**{name: choice})
    assert not list(tmp_path.iterdir())


def test_choices_by_user_need_known_users(model):
    with pytest.raises(UnknownIdError, match=r"the first is 'anna'.*Did you mean ann"):
        model.recommend(mute={"anna": [1]})
    with pytest.raises(ParameterError, match=r"mute: user index 2 was given, expected 0 to 1"):
        model.recommend_indices(mute={2: [1]})
    with pytest.raises(ParameterError, match=r"boost: user index 'ann' was given"):
        model.recommend_indices(boost={"ann": {1: 2.0}})


def test_all_interests_muted(model):
    with pytest.raises(DataError, match=r"all 3 interests are muted: nothing is left to recommend"):
        model.recommend("ann", mute=[0, 1, 2])


def test_an_unknown_user_with_popular_items_has_nothing_to_mute(model):
    assert model.recommend("nobody", k=2, on_unknown="popular", mute=[1])["item"].to_list() == [0, 1]


def test_models_without_vectors_have_no_interests_to_choose(ease):
    for arguments in ({"mute": [0]}, {"boost": {0: 2.0}}):
        with pytest.raises(ParameterError, match=r"EASE has no vectors|needs interests, and EASE"):
            ease.recommend("u003", **arguments)
