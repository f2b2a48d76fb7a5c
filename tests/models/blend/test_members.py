"""Balance: minus the logarithm of an interest's or a category's share of the history, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from tastespace import (
    DPCML,
    EASE,
    Blend,
    Interactions,
    synthetic,
)
from tastespace.errors import ParameterError
from tastespace.models.blend.members import Balance
from tastespace.models.vector_space import VectorSpace


@pytest.fixture(scope="module")
def data():
    """Items with two, one or no category; user 4 has no history."""
    made = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=700, seed=2).interactions
    kinds = [["a", "b"], ["b"], ["c"], [], ["a", "c", "d"]]
    genres = pl.DataFrame({"item": range(made.n_items), "genres": [kinds[i % 5] for i in range(made.n_items)]})
    whole = Interactions.from_frame(made.to_frame(), item_attributes=genres)
    return whole.subset(whole.row_of_each() != 4)


def space_of(data, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 5, data.n_users))]).astype(np.int64)
    users, items = (rng.standard_normal((n, 3)).astype(np.float32) for n in (offsets[-1], data.n_items))
    return VectorSpace(users, offsets, items)


def past(data, user):
    return data.indices[data.offsets[user] : data.offsets[user + 1]]


def test_by_interests(data):
    space = space_of(data)
    found = Balance(data, "interests", space).of_users(np.arange(data.n_users))
    assert found.shape == (data.n_users, data.n_items)
    assert found.dtype == np.float32
    for user in range(data.n_users):
        mine = space.user_vectors[space.user_offsets[user] : space.user_offsets[user + 1]].astype(np.float64)
        nearest = np.square(mine[:, None] - space.item_vectors).sum(axis=2).argmin(axis=0)
        own = past(data, user)
        for item in range(data.n_items):
            share = (nearest[own] == nearest[item]).mean() if len(own) else 0.0
            assert found[user, item] == pytest.approx(-math.log(share) if share else 0.0, abs=1e-6)


def test_by_categories(data):
    found = Balance(data, "categories").of_users(np.arange(data.n_users))
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


@pytest.mark.parametrize("by", ["interests", "categories"])
def test_some_users_in_any_order_and_every_number_of_threads(data, by):
    space = space_of(data)
    whole = Balance(data, by, space, threads=1).of_users(np.arange(data.n_users))
    some = np.array([30, 4, 4, 0])
    for threads in (1, 2, 3, 8):
        np.testing.assert_array_equal(Balance(data, by, space, threads=threads).of_users(some), whole[some])


def test_what_is_missing_is_said(data):
    with pytest.raises(ParameterError, match="balance_by='taste': expected 'interests' or 'categories'"):
        Balance(data, "taste")
    with pytest.raises(ParameterError, match="needs a member with several vectors per user, such as DPCML"):
        Balance(data, "interests")
    bare = Interactions.from_frame(data.to_frame())
    with pytest.raises(ParameterError, match=r"balance_by='categories' needs item categories.*no item attributes"):
        Balance(bare, "categories")
    model = Blend([EASE()], [1.0], balance=0.2).fit(bare)
    with pytest.raises(ParameterError, match="needs a member with several vectors"):
        model.recommend(k=2)


@pytest.mark.parametrize("by", ["interests", "categories"])
def test_a_blend_adds_it_to_the_sum(data, by):
    members = [DPCML(dim=4, n_interests=3, epochs=3).fit(data), EASE().fit(data)]
    users = np.arange(data.n_users)
    plain = Blend.of(members, [0.5, 0.5]).score_block(users)
    lifted = Blend.of(members, [0.5, 0.5], balance=0.7, balance_by=by).score_block(users)
    logs = Balance(data, by, members[0].vectors()).of_users(users)
    np.testing.assert_allclose(lifted, plain + 0.7 * logs, rtol=1e-5, atol=1e-5)


def test_more_balance_gives_more_places_to_smaller_interests(data):
    members = [DPCML(dim=4, n_interests=3, epochs=3).fit(data), EASE().fit(data)]
    logs = Balance(data, "interests", members[0].vectors()).of_users(np.arange(data.n_users))
    means = []
    for balance in (0.0, 0.3, 1.0):
        top, _ = Blend.of(members, [0.5, 0.5], balance=balance).recommend_indices(k=5)
        means.append(np.take_along_axis(logs, top, axis=1).mean())
    assert means[0] < means[1] < means[2]
