"""CategoryPopular against the plain formula, and what it does without categories."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.data.attributes import item_categories
from tastespace.errors import ParameterError
from tastespace.models import CategoryPopular


@pytest.fixture(scope="module")
def data():
    frame = ts.synthetic.multi_interest(n_users=60, n_items=40, n_interactions=700, seed=4).interactions.to_frame()
    kinds = pl.DataFrame({"item": range(40), "genres": ["a|b", "b", "c", None] * 10})
    return ts.Interactions.from_frame(frame, item_attributes=kinds)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_scores_are_those_of_the_formula(data, power):
    model = CategoryPopular(power=power).fit(data)
    table = item_categories(data.item_attributes["genres"]).table()
    table = np.column_stack([table, ~table.any(axis=1)]).astype(float)  # items without categories are one of their own
    popularity = data.item_counts + 0.5
    for user in (0, 7, 31):
        own = data.indices[data.offsets[user] : data.offsets[user + 1]]
        counts = table[own].sum(axis=0)
        shares = np.where(counts > 0, (counts / counts.sum()) ** power, 0.0)
        expected = [
            sum(shares[c] * popularity[v] / (table[:, c] @ popularity) for c in np.flatnonzero(table[v]))
            for v in range(data.n_items)
        ]
        np.testing.assert_allclose(model.score_block(np.array([user]))[0], expected, rtol=1e-4, atol=2e-6)


def test_the_logarithm_keeps_the_order_and_new_users_are_scored_by_their_history(data):
    plain, logarithm = (CategoryPopular(logarithm=flag).fit(data) for flag in (False, True))
    assert plain.recommend(k=10)["item"].to_list() == logarithm.recommend(k=10)["item"].to_list()
    history = data.items_of(data.users[3])
    assert (
        plain.recommend_for([history], k=8)["item"].to_list() == plain.recommend(data.users[3], k=8)["item"].to_list()
    )


def test_a_smaller_power_serves_smaller_interests():
    town = ts.synthetic.multi_interest(n_users=400, n_items=400, n_interactions=16_000, seed=1).interactions
    train, _, test = ts.split.per_user(town, seed=0)
    recall = [
        ts.evaluate(CategoryPopular(power=power).fit(train), test, seen=train, metrics=["MinorityRecall@20"])
        for power in (1.0, 0.5)
    ]
    assert recall[1]["MinorityRecall@20"] > recall[0]["MinorityRecall@20"]


def test_without_categories_it_ranks_by_popularity(data):
    frame = data.to_frame()
    lists = [model.fit(frame).recommend(k=7)["item"].to_list() for model in (CategoryPopular(), ts.MostPopular())]
    assert lists[0] == lists[1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"power": -1}, "power=-1: expected"),
        ({"logarithm": 1}, "logarithm=1: expected True or False"),
        ({"column": "genre"}, "Did you mean genres"),
    ],
)
def test_bad_parameters(data, parameters, message):
    with pytest.raises(ParameterError, match=message):
        CategoryPopular(**parameters).fit(data)
