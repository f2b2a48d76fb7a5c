"""Past items behind the items of a list."""

import numpy as np
import pytest

import tastespace as ts
from tastespace.ranking.scoring import ScoringIndex
from tastespace.recommend.explanations import list_reasons, reasons


@pytest.mark.parametrize("k", [3, 500])
def test_nearest_past_items_by_distance(town, k):
    model = ts.DPCML(dim=8, n_interests=3, epochs=2, seed=1).fit(town.interactions)
    vectors, past = model.item_vectors_, model.train_.indices[model.train_.offsets[7] : model.train_.offsets[8]]
    items = np.array([3, 50, 120])
    for item, (rows, weights) in zip(items, reasons(ScoringIndex(model), 7, items, k), strict=True):
        gaps = ((vectors[past] - vectors[item]) ** 2).sum(axis=1)
        expected = np.sort(gaps)[:k]
        np.testing.assert_allclose(((vectors[rows] - vectors[item]) ** 2).sum(axis=1), expected, atol=1e-5)
        np.testing.assert_allclose(weights, 1 / (1 + expected), atol=1e-5)


def test_cosines_shares_of_the_score_and_nothing(town):
    data, items = town.interactions, np.array([3, 50])
    model = ts.models.create("bpr", dim=8, epochs=2, seed=1).fit(data)
    space = model.vectors()
    unit = space.item_vectors / np.linalg.norm(space.item_vectors, axis=1, keepdims=True)
    for item, (rows, weights) in zip(items, reasons(ScoringIndex(model), 7, items), strict=True):
        np.testing.assert_allclose(weights, unit[rows] @ unit[item], atol=1e-5)
        assert (np.diff(weights) <= 1e-6).all()
    linear = ts.EASE().fit(data)
    (rows, shares), _ = reasons(ScoringIndex(linear), 7, items)
    found = linear.explain(7, int(data.items[3]), k=3)
    assert data.items.take(rows).to_list() == [one for one, _, _ in found.because]
    np.testing.assert_allclose(shares, [share for _, _, share in found.because], rtol=1e-5)
    assert [len(rows) for rows, _ in reasons(ScoringIndex(ts.MostPopular().fit(data)), 7, items)] == [0, 0]


def test_the_reasons_of_many_lists_are_the_nearest_past_items_of_each(town):
    model = ts.DPCML(dim=8, n_interests=3, epochs=2, seed=1).fit(town.interactions)
    index = ScoringIndex(model, threads=1)
    users = np.repeat(np.arange(20, dtype=np.int32), 4)
    items = np.random.default_rng(0).integers(0, model.train_.n_items, len(users)).astype(np.int32)
    found, weights = list_reasons(index, users, items, 3)
    for user, item, rows, own in zip(users, items, found, weights, strict=True):
        past = index.seen(user)
        gaps = ((model.item_vectors_[past] - model.item_vectors_[item]).astype(np.float64) ** 2).sum(axis=1)
        assert own[: len(past)] == pytest.approx(1 / (1 + np.sort(gaps)[:3]), rel=1e-4)
        assert set(rows[rows >= 0].tolist()) <= set(past.tolist())
