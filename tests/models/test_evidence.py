"""Contributions of past items: they sum to the score where scores are sums over past items."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tastespace import Interactions
from tastespace.models import (
    ALS,
    BPR,
    DPCML,
    EASE,
    Blend,
    ItemKNN,
    MostPopular,
    SparseEASE,
)


@pytest.fixture(scope="module", params=["ones", "weights"])
def data(request):
    """40 users and 30 items; the last user has no history."""
    rng = np.random.default_rng(7)
    matrix = sp.random_array((40, 30), density=0.2, rng=rng, format="lil")
    matrix[39] = 0
    matrix = matrix.tocsr()
    matrix.eliminate_zeros()
    matrix.data[:] = rng.integers(1, 5, matrix.nnz) if request.param == "weights" else 1
    return Interactions.from_scipy(matrix, weight=request.param == "weights")


def past(data, user):
    return data.indices[data.offsets[user] : data.offsets[user + 1]]


def sums(model, data):
    """Sum of the contributions for all users and items."""
    return np.array(
        [[model.evidence(u, np.array([i]))[:, 0].sum() for i in range(data.n_items)] for u in range(data.n_users)]
    )


LINEAR = (
    lambda: EASE(regularization=3.0, threads=1),
    lambda: SparseEASE(n_neighbors=8, regularization=3.0, threads=1),
    lambda: ItemKNN(n_neighbors=6, shrink=1.0, threads=1),
)


@pytest.mark.parametrize("make", LINEAR, ids=lambda make: type(make()).__name__)
def test_contributions_sum_to_the_score(data, make):
    model = make().fit(data)
    scores = model.score_block(np.arange(data.n_users))
    np.testing.assert_allclose(sums(model, data), scores, atol=2e-6 * np.abs(scores).max())
    assert model.evidence(39, np.array([4]))[:, 0].shape == (0,)
    for user, item in ((3, 7), (5, 20)):
        assert model.evidence(user, np.array([item]))[:, 0].shape == past(data, user).shape
        assert model.evidence(user, np.array([item]))[:, 0].dtype == np.float32


@pytest.mark.parametrize("make", LINEAR, ids=lambda make: type(make()).__name__)
def test_a_contribution_is_what_the_score_loses_without_the_past_item(data, make):
    model = make().fit(data)
    user = 3
    item = next(
        i for i in range(data.n_items) if i not in past(data, user) and model.evidence(user, np.array([i]))[:, 0].any()
    )
    contributions = model.evidence(user, np.array([item]))[:, 0]
    histories = data.without_weights()
    for at, left_out in enumerate(past(data, user)):
        kept = [i for i in past(histories, user) if i != left_out]
        whole, shorter = (model.fold_in([list(map(int, one))]) for one in (past(histories, user), kept))
        lost = whole.score_block(np.array([0]))[0, item] - shorter.score_block(np.array([0]))[0, item]
        weight = 1.0 if data.weights is None else data.weights[data.offsets[user] + at]
        assert weight * lost == pytest.approx(contributions[at], abs=1e-5)


def test_a_blend_adds_up_its_members_on_the_scale_of_its_scores(data):
    """With linear members only: the contributions sum to the score, but for the means that it subtracts."""
    members = [make().fit(data) for make in LINEAR]
    weights = [0.5, 0.2, 0.3]
    blend = Blend.of(members, weights, threads=1)
    every = np.arange(data.n_users - 1)  # the last has no scores to standardize
    scores = [member.score_block(every).astype(np.float64) for member in members]
    means = sum(w * s.mean(axis=1) / s.std(axis=1) for w, s in zip(weights, scores, strict=True))
    expected = blend.score_block(every) + means[:, None]
    np.testing.assert_allclose(sums(blend, data)[:-1], expected, atol=1e-5)
    assert blend.evidence(39, np.array([4]))[:, 0].shape == (0,)


def test_members_without_contributions_add_nothing(data):
    plain = data.without_weights()
    ease = EASE(threads=1).fit(plain)
    dpcml = DPCML(dim=4, epochs=2, threads=1).fit(plain)
    blend = Blend.of([dpcml, ease], [0.25, 0.75], threads=1)
    scores = ease.score_block(np.array([3]))[0].astype(np.float64)
    np.testing.assert_allclose(
        blend.evidence(3, np.array([7]))[:, 0], 0.75 / scores.std() * ease.evidence(3, np.array([7]))[:, 0], rtol=1e-5
    )
    assert Blend.of([dpcml, MostPopular().fit(plain)], [0.5, 0.5]).evidence(3, np.array([7])) is None
    assert Blend.of([dpcml, ease], [1.0, 0.0]).evidence(3, np.array([7])) is None


def test_other_models_have_no_contributions(data):
    for model in (MostPopular(), BPR(dim=4, epochs=1, threads=1)):
        plain = data if model.uses_weights else data.without_weights()
        assert model.fit(plain).evidence(0, np.array([0])) is None


def test_contributions_in_least_squares_add_up_to_the_score_of_their_solution(data):
    model = ALS(dim=4, iterations=40, threads=1).fit(data)
    items = np.arange(data.n_items)
    for user in (0, 3, 7):
        found = model.evidence(user, items).sum(axis=0)
        np.testing.assert_allclose(found, model.score_block(np.array([user]))[0], atol=2e-3)
