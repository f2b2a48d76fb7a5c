"""What answered a plain request is kept with the model and never outlives what it was made from."""

import copy
import pickle

import numpy as np
import pytest

import tastespace as ts
from tastespace.errors import ParameterError
from tastespace.recommend.request import Request
from tastespace.recommend.topk import TopKLists, top_k_lists


@pytest.fixture
def model(shop):
    return ts.DPCML(dim=8, n_interests=3, epochs=3, threads=1, seed=1).fit(shop)


def test_the_same_request_is_prepared_once(model):
    first = top_k_lists(model, Request(k=5))
    assert top_k_lists(model, Request(k=5)) is first
    assert top_k_lists(model, Request(k=6)) is not first
    assert top_k_lists(model, Request(k=6, filter="year > 1980")) is not top_k_lists(model, Request(k=6))


def test_each_answer_is_that_of_a_model_that_answered_nothing_before(model):
    user = model.train_.users[3]
    options = [
        {"k": 5}, {"k": 7}, {"k": 5, "threads": 2}, {"k": 5, "exclude_seen": False}, {"k": 5, "mix": "proportional"},
        {"k": 5, "mute": [1]}, {"k": 5},
    ]  # fmt: skip
    for more in options:
        assert model.recommend(user, **more).equals(copy.deepcopy(model).recommend(user, **more))


def test_values_that_only_equal_valid_ones_are_still_errors(model):
    user = model.train_.users[3]
    model.recommend(user, k=1, threads=1)
    with pytest.raises(ParameterError, match="k=True"):
        model.recommend(user, k=True, threads=1)
    with pytest.raises(ParameterError, match="threads=True"):
        model.recommend(user, k=1, threads=True)


def test_profiles_and_new_vectors_count_at_once(model):
    user = model.train_.users[3]
    before = model.recommend(user, k=8)
    interest = int(before["interest"][0])
    model.mute(user, [interest])
    assert interest not in model.recommend(user, k=8)["interest"].to_list()
    model.unmute(user, [interest])
    assert model.recommend(user, k=8).equals(before)
    model.item_vectors_ = np.ascontiguousarray(model.item_vectors_[::-1])
    assert model.recommend(user, k=8).equals(copy.deepcopy(model).recommend(user, k=8))
    assert not model.recommend(user, k=8).equals(before)


def test_copies_and_pickles_hold_nothing_of_it(model):
    user = model.train_.users[3]
    expected = model.recommend(user, k=8)
    assert isinstance(model._kept_lists, TopKLists)
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other._kept_lists is None
        assert other.recommend(user, k=8).equals(expected)
