"""Balance: minus the logarithm of a category's share of the history, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from tastespace import DPCML, EASE, Blend, Interactions, synthetic
from tastespace.errors import ParameterError
from tastespace.models.blend.members import Balance


@pytest.fixture(scope="module")
def data():
    """Items with two, one or no category; user 4 has no history."""
    made = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=700, seed=2).interactions
    kinds = [["a", "b"], ["b"], ["c"], [], ["a", "c", "d"]]
    genres = pl.DataFrame({"item": range(made.n_items), "genres": [kinds[i % 5] for i in range(made.n_items)]})
    whole = Interactions.from_frame(made.to_frame(), item_attributes=genres)
    return whole.subset(whole.row_of_each() != 4)


def past(data, user):
    return data.indices[data.offsets[user] : data.offsets[user + 1]]


def test_by_categories(data):
    found = Balance(data).of_users(np.arange(data.n_users))
    kinds = data.item_attributes["genres"].to_list()
    for user in range(data.n_users):
        own = [set(kinds[item]) for item in past(data, user) if kinds[item]]
        logs = {}
        for kind in "abcd":
            share = sum(kind in one for one in own) / max(1, len(own))
            logs[kind] = -math.log(share) if share else 0.0
        for item in range(data.n_items):
            expected = np.mean([logs[kind] for kind in kinds[item]]) if kinds[item] else 0.0
            assert found[user, item] == pytest.approx(expected, abs=1e-5)


def test_some_users_in_any_order(data):
    whole = Balance(data).of_users(np.arange(data.n_users))
    some = np.array([30, 4, 4, 0])
    np.testing.assert_array_equal(Balance(data).of_users(some), whole[some])


def test_what_is_missing_is_said(data):
    bare = Interactions.from_frame(data.to_frame())
    with pytest.raises(ParameterError, match=r"category_balance needs item categories.*no item attributes"):
        Balance(bare)
    ease = EASE().fit(bare)
    with pytest.raises(ParameterError, match="category_balance needs item categories"):
        Blend.of([ease], [1.0], category_balance=0.2)
    with pytest.raises(ParameterError, match="category_balance needs item categories"):
        Blend([EASE()], [1.0], category_balance=0.2).fit(bare).recommend(k=2)


@pytest.mark.parametrize("focus", [0.0, 0.5])
def test_a_blend_adds_it_to_the_score(data, focus):
    members = [DPCML(dim=4, n_interests=3, epochs=3).fit(data), EASE().fit(data)]
    users = np.arange(data.n_users)
    plain = Blend.of(members, [0.5, 0.5], focus=focus).score_block(users)
    balanced = Blend.of(members, [0.5, 0.5], focus=focus, category_balance=0.7).score_block(users)
    np.testing.assert_allclose(balanced, plain + 0.7 * Balance(data).of_users(users), rtol=1e-5, atol=1e-5)


def test_more_balance_gives_more_places_to_smaller_categories(data):
    members = [DPCML(dim=4, n_interests=3, epochs=3).fit(data), EASE().fit(data)]
    logs = Balance(data).of_users(np.arange(data.n_users))
    means = []
    for balance in (0.0, 0.3, 1.0):
        top, _ = Blend.of(members, [0.5, 0.5], category_balance=balance).recommend_indices(k=5)
        means.append(np.take_along_axis(logs, top, axis=1).mean())
    assert means[0] < means[1] < means[2]
