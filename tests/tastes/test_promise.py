"""What tastes promise, on real data: reasons are true, names are the same everywhere, muted tastes stay away."""

from __future__ import annotations

import numpy as np
import pytest

import tastespace as ts
from tastespace.answers.catalog import Catalog
from tastespace.answers.lists import AnswerOptions, ListAnswers
from tastespace.answers.people import People
from tastespace.answers.tastes import TasteAnswers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(dataset_dir):
    dataset_dir("steam-200k")
    data = ts.datasets.load("steam-200k")
    members = [ts.EASE(), ts.models.SparseEASE(), ts.CML(dim=32, epochs=8, seed=0)]
    return ts.Blend(members, [0.4, 0.3, 0.3], focus=0.2, lift=0.1).fit(data)


@pytest.fixture(scope="module")
def users(model):
    """Rows of 200 users with two tastes or more."""
    rows = np.flatnonzero(model.tastes().counts > 1)
    return np.sort(np.random.default_rng(0).choice(rows, 200, replace=False)).tolist()


def test_the_two_strongest_reasons_of_nine_items_in_ten_are_of_the_shelf(model, users):
    """Over all shelves together; a shelf has items for most tastes."""
    train, true, tastes_with_items = model.train_, [], []
    for row in users:
        taste_of, shelves = model.tastes().of_user(row), model.shelves(train.users[row], k=8)
        tastes_with_items.append(len(shelves) / model.tastes().counts[row])
        for shelf in shelves:
            items = train.items.index_of(shelf.items)
            evidence = model.evidence(row, items)
            two = np.argsort(-evidence, axis=0, kind="stable")[:2]
            true += (taste_of[two] == shelf.interest).all(axis=0).tolist()
    assert len(true) > 2_000
    assert np.mean(true) >= 0.9
    assert np.mean(tastes_with_items) > 0.9


def test_a_taste_has_one_name_for_every_length_and_in_every_place(model, users):
    answers = TasteAnswers(ListAnswers(People(Catalog(model))))
    for row in users[:60]:
        user = model.train_.users[row]
        expected = dict(model.interests(user).select("interest", "name").iter_rows())
        assert len(set(expected.values())) == len(expected)
        shown = {}
        for k in (5, 8, 20):
            for shelf in model.shelves(user, k=k):
                assert shelf.name == expected[shelf.interest]
                shown[shelf.interest] = shelf.items
        for shelf in model.shelves(user, k=8, mute=[0]):
            assert shelf.name == expected[shelf.interest]
        person = answers.lists.people.require(user)
        assert {one.interest: one.name for one in answers.interests(person, AnswerOptions())[0]} == expected
        assert all(one.name == expected[one.interest] for one in answers.shelves(person, AnswerOptions(k=5)))
        for interest, items in shown.items():
            found = model.explain(user, items[0])
            assert (found.interest, found.name) == (interest, expected[interest])
            assert {x: name for x, name, _ in found.tastes}.items() <= expected.items()
            answer = answers.explanation(person, int(model.train_.items.index_of(items[:1])[0]), AnswerOptions())
            assert (answer.interest, answer.interest_name) == (interest, expected[interest])
            assert [(one.interest, one.share) for one in answer.tastes] == [(x, share) for x, _, share in found.tastes]


def test_nothing_that_only_a_muted_taste_speaks_for_comes_back(model, users):
    leaked = listed = 0
    for row in users[:100]:
        user, taste_of = model.train_.users[row], model.tastes().of_user(row)
        strongest = model.taste_parts(np.array([row])).strongest()[0]
        found = model.recommend(user, k=20, mute=[0])
        items = model.train_.items.index_of(found["item"])
        assert not (strongest[items] == 0).any()
        evidence = np.maximum(model.evidence(row, items), 0)
        leaked += int((evidence[taste_of != 0].sum(axis=0) == 0).sum())
        listed += len(items)
    assert listed > 1_900
    assert leaked == 0
