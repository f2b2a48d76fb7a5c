"""One person's vectors and what belongs to them, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import Given, by_vector, in_order, past_rows, space_of, taken
from hypothesis import given
from hypothesis import strategies as st

from tastespace.errors import ParameterError, UnknownIdError
from tastespace.recommend.user_view import best_rows, meet

pytestmark = pytest.mark.usefixtures("one_core")


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=60), st.integers(1, 8))
def test_the_best_rows_are_those_of_a_sort(drawn, k):
    scores = np.array([score for score, _ in drawn], dtype=np.float32)
    allowed = np.array([allowed for _, allowed in drawn], dtype=bool)
    assert best_rows(scores, allowed, k).tolist() == in_order(scores, np.flatnonzero(allowed).tolist(), k)


@pytest.mark.parametrize("user", ["u000", "u044", "u119"])
def test_a_person_is_seen_through_every_vector(dpcml, user):
    person = meet(dpcml, user, "interests")
    row = int(user[1:])
    scores = by_vector(dpcml.vectors(), row)
    np.testing.assert_allclose(person.scores, scores, atol=1e-5)
    assert person.n_vectors == len(scores) == np.diff(dpcml.user_offsets_)[row]
    assert person.past.tolist() == past_rows(dpcml.train_, row)
    assert person.belongs.tolist() == [int(scores[:, item].argmax()) for item in person.past]
    assert person.weights.sum() == pytest.approx(1)
    for vector in range(person.n_vectors):
        mine = [item for item in person.past if scores[:, item].argmax() == vector]
        assert person.weights[vector] == pytest.approx(len(mine) / len(person.past))
        assert person.past_of([vector]).tolist() == in_order(scores[vector], mine, 99)
    everything = person.past_of(list(range(person.n_vectors)))
    assert everything.tolist() == in_order(scores.max(axis=0), person.past.tolist(), 99)


def test_inner_products_carry_the_bias_of_the_items():
    space = space_of([[[1, 0], [0, 2]], [[1, 1]]], [[3, 0], [0, 1], [1, 1]], "dot", [0, 5, -1])
    model = Given(space).fit(taken({"ann": "ab", "bob": "c"}, "abc"))
    person = meet(model, "ann", "interests")
    assert person.scores.tolist() == [[3, 5, 0], [0, 7, 1]]
    assert person.belongs.tolist() == [0, 1]
    assert not person.by_distance


def test_what_may_be_recommended(dpcml):
    person = meet(dpcml, "u003", "interests")
    seen = set(person.past.tolist())
    some = np.array([1, 5, 40, 41], dtype=np.int32)
    assert set(np.flatnonzero(person.allowed(90, None, True))) == set(range(90)) - seen
    assert person.allowed(90, None, False).all()
    assert set(np.flatnonzero(person.allowed(90, some, True))) == set(some) - seen
    assert set(np.flatnonzero(person.allowed(90, some, False))) == set(some)


def test_a_person_without_a_past_has_interests_of_equal_weight():
    data = taken({"ann": "abc", "bob": "a"}, "abc")
    data = data.subset(np.arange(data.n_interactions) < 3)
    person = meet(Given(space_of([[[0]], [[1], [2]]], [[0], [1], [2]])).fit(data), "bob", "interests")
    assert person.weights.tolist() == [0.5, 0.5]
    assert person.past_of([0, 1]).tolist() == []


def test_only_models_with_vectors_see_people_so(ease, popular, dpcml):
    for model in (ease, popular):
        name = type(model).__name__
        with pytest.raises(ParameterError, match=f"{name} has no vectors, so it has no interests"):
            model.interests("u003")
        with pytest.raises(ParameterError, match=f"{name} has no vectors, so it has no shelves"):
            model.shelves("u003")
        with pytest.raises(ParameterError, match=f"{name} has no vectors, so it has no explanations"):
            model.explain("u003", "i41")
    with pytest.raises(UnknownIdError, match=r"the first is 'U003'.*Did you mean u003"):
        meet(dpcml, "U003", "interests")
