"""Evaluation of cold-start users and items: candidates and lists, computed by hand."""

import copy

import numpy as np
import pytest
from tests.required_services import optional_package

import tastespace as ts
from tastespace.data import cold_start
from tastespace.errors import ParameterError
from tastespace.evaluation.cold_start import ItemSubset, evaluate_cold, with_new_users
from tastespace.models.content_knn import ContentKNN

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def town():
    return cold_start.load("town")


@pytest.fixture(scope="module")
def model(town):
    return ContentKNN().fit(town.train, user_features=town.user_features, item_features=town.item_features)


def precision(lists, test, k=3):
    """The paper's P@k: over users with k test items or more."""
    values = [
        len(set(lists[user][:k]) & set(test.items_of(user))) / k for user in lists if len(test.items_of(user)) >= k
    ]
    return float(np.mean(values))


def lists_of(frame):
    return {user: rows["item"].to_list() for (user,), rows in frame.group_by("user", maintain_order=True)}


def test_new_items_are_ranked_among_the_new_or_among_all(model, town):
    larger = copy.copy(model).add_items(town.new_item_features)
    new = town.new_items.items.series
    for candidates, items in (("new", new), ("all", None)):
        expected = precision(lists_of(larger.recommend(k=3, items=items)), town.new_items)
        found = evaluate_cold(model, town, candidates=candidates)["cold item"]["P@3"]
        assert found == pytest.approx(expected, abs=1e-6)
    assert model.train_.n_items == town.train.n_items  # the model itself is unchanged


def test_new_users_rank_the_warm_items(model, town):
    found = evaluate_cold(model, town, warm=False)
    assert list(found) == ["cold user", "cold item"]
    lists = lists_of(model.recommend_for(features=town.new_user_features, k=3))
    assert found["cold user"]["P@3"] == pytest.approx(precision(lists, town.new_users), abs=1e-6)


def test_models_without_content_have_no_cold_start_report(town):
    popular = ts.MostPopular().fit(town.train)
    found = evaluate_cold(popular, town)
    assert list(found) == ["warm", "cold user"]
    best = town.train.items.take(np.argsort(-town.train.item_counts, kind="stable")[:3]).to_list()
    lists = dict.fromkeys(town.new_users.users.series, best)
    assert found["cold user"]["P@3"] == pytest.approx(precision(lists, town.new_users), abs=1e-6)
    with pytest.raises(ParameterError, match="candidates="):
        evaluate_cold(popular, town, candidates="some")


@pytest.mark.parametrize("name", ["cml", "dpcml", "ease", "gmf"])
def test_personal_models_without_content_are_evaluated_on_warm_users_only(town, name):
    if name == "gmf":
        optional_package("torch")
    plain = ts.models.create(name, **({} if name == "ease" else {"epochs": 1, "dim": 4})).fit(town.train)
    assert with_new_users(plain, town.new_users, town.new_user_features) is None
    assert list(evaluate_cold(plain, town)) == ["warm"]


def test_a_model_restricted_to_some_of_its_items(town):
    model = ts.DPCML(dim=8, n_interests=2, epochs=2, threads=1).fit(town.train)
    rows = np.array([7, 3, 50])
    some = ItemSubset(model, rows)
    assert some.train_.items.series.to_list() == town.train.items.take(np.sort(rows)).to_list()
    users = np.array([0, 4])
    np.testing.assert_allclose(some.score_block(users), model.score_block(users)[:, np.sort(rows)])
    np.testing.assert_allclose(some.vectors().scores(users), some.score_block(users), atol=1e-6)
