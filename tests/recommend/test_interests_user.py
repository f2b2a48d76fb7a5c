"""One user's interests and the past items assigned to them, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from tests.recommend.toy_models import Given, by_vector, in_order, past_rows, space_of, taken

from tastespace.errors import ParameterError, UnknownIdError
from tastespace.recommend.interests import user_interests

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.mark.parametrize("user", ["u000", "u044", "u119"])
def test_past_items_are_assigned_to_the_interest_that_scores_them_best(dpcml, user):
    view = user_interests(dpcml, user, "interests")
    row = int(user[1:])
    scores = by_vector(dpcml.vectors(), row)
    assert view.past.tolist() == past_rows(dpcml.train_, row)
    np.testing.assert_allclose(view.index.interest_scores(row, view.past), scores[:, view.past], atol=1e-5)
    np.testing.assert_allclose(view.past_strength, scores[:, view.past].max(axis=0), atol=1e-5)
    assert view.n_interests == len(scores) == np.diff(dpcml.user_offsets_)[row]
    assert view.assigned_interest.tolist() == [int(scores[:, item].argmax()) for item in view.past]
    assert view.weights.sum() == pytest.approx(1)
    for interest in range(view.n_interests):
        mine = [item for item in view.past if scores[:, item].argmax() == interest]
        assert view.weights[interest] == pytest.approx(len(mine) / len(view.past))
        assert view.past_of([interest]).tolist() == in_order(scores[interest], mine, 99)
    everything = view.past_of(list(range(view.n_interests)))
    assert everything.tolist() == in_order(scores.max(axis=0), view.past.tolist(), 99)


def test_inner_products_include_the_bias_of_the_items():
    space = space_of([[[1, 0], [0, 2]], [[1, 1]]], [[3, 0], [0, 1], [1, 1]], "dot", [0, 5, -1])
    model = Given(space).fit(taken({"ann": "ab", "bob": "c"}, "abc"))
    view = user_interests(model, "ann", "interests")
    assert view.index.interest_scores(0, view.past).tolist() == [[3, 5], [0, 7]]
    assert view.past_strength.tolist() == [3, 7]
    assert view.index.interest_scores(0, np.arange(3)).tolist() == [[3, 5, 0], [0, 7, 1]]
    assert view.assigned_interest.tolist() == [0, 1]
    assert not view.index.has_distances


def test_a_user_without_a_past_has_interests_of_equal_weight():
    data = taken({"ann": "abc", "bob": "a"}, "abc")
    data = data.subset(np.arange(data.n_interactions) < 3)
    view = user_interests(Given(space_of([[[0]], [[1], [2]]], [[0], [1], [2]])).fit(data), "bob", "interests")
    assert view.weights.tolist() == [0.5, 0.5]
    assert view.past_of([0, 1]).tolist() == []


def test_only_models_with_vectors_have_user_interests(ease, popular, dpcml):
    for model in (ease, popular):
        name = type(model).__name__
        with pytest.raises(ParameterError, match=f"{name} has no vectors, so it has no interests"):
            model.interests("u003")
        with pytest.raises(ParameterError, match=f"{name} has no vectors, so it has no shelves"):
            model.shelves("u003")
    with pytest.raises(UnknownIdError, match=r"the first is 'U003'.*Did you mean u003"):
        user_interests(dpcml, "U003", "interests")
