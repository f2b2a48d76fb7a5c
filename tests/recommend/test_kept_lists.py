"""What answered a plain request is kept with the model and never outlives what it was made from."""

import copy
import pickle

import numpy as np
import polars as pl
import pytest
from tests.recommend.toy_models import Given

import tastespace as ts
from tastespace.errors import ParameterError
from tastespace.models import VectorSpace
from tastespace.models.list_options import ListOptions
from tastespace.recommend import lists as topk
from tastespace.recommend.lists import TopKLists, top_k_lists


@pytest.fixture
def model(shop):
    return ts.DPCML(dim=8, n_interests=3, epochs=3, threads=1, seed=1).fit(shop)


def test_the_same_request_is_prepared_once(model):
    first = top_k_lists(model, ListOptions(k=5))
    assert top_k_lists(model, ListOptions(k=5)) is first
    assert top_k_lists(model, ListOptions(k=6)) is not first
    assert top_k_lists(model, ListOptions(k=6, filter="year > 1980")) is not top_k_lists(model, ListOptions(k=6))


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


def test_a_bias_that_can_change_is_read_again(shop):
    """A view of an array that others may write to cannot be frozen."""
    random = np.random.default_rng(0)
    users, items = (random.normal(size=(n, 4)).astype(np.float32) for n in (shop.n_users, shop.n_items))
    table = random.normal(size=(shop.n_items, 2)).astype(np.float32)
    space = VectorSpace(users, np.arange(shop.n_users + 1), items, "dot", table[:, 0])
    model, user = Given(space, several=False).fit(shop), shop.users[3]
    before = model.recommend(user, k=5)
    table[:, 0] *= -9
    after = model.recommend(user, k=5)
    assert after.equals(copy.deepcopy(model).recommend(user, k=5))
    assert not after.equals(before)


def test_a_model_that_is_fitted_between_two_parts_of_a_request(model, shop, monkeypatch):
    """As by another thread: rows of the new users must not meet the lists of the old ones."""
    frame = shop.to_frame().select("user", "item")
    first, user = shop.users[0], shop.users[9]
    others = ts.Interactions.from_frame(frame.filter(pl.col("user") != first))  # each user has another row
    expected = copy.copy(model).fit(others).recommend(user, k=5)
    for asked in (user, [user]):
        model.fit(shop).recommend(user, k=5)
        stale = top_k_lists(model, ListOptions(k=5, profile=True))
        model.fit(others)
        answers = iter([stale])
        monkeypatch.setattr(topk, "top_k_lists", lambda *given, a=answers: next(a, None) or top_k_lists(*given))
        assert model.recommend(asked, k=5).equals(expected)
