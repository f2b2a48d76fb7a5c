import numpy as np
import pytest
import scipy.sparse as sp
from tests.models.formulas import plain_ease

from tastespace import (
    Interactions,
    MostPopular,
    split,
)
from tastespace.errors import DataError, ParameterError


def test_most_popular_counts_users(town):
    model = MostPopular().fit(town.interactions)
    assert model.item_scores_.tolist() == town.interactions.matrix.sum(axis=0).tolist()
    assert np.array_equal(model.score_block(np.array([0, 5]))[0], model.item_scores_)


def test_ease_solves_its_normal_equations(town):
    """Each column of B minimizes |x_j - X b|^2 + lambda |b|^2 with b_j = 0: the gradient vanishes elsewhere."""
    data = town.interactions
    weights = plain_ease(regularization=30.0).fit(data).weights_.astype(np.float64)
    gram = (data.matrix.T @ data.matrix).toarray().astype(np.float64)
    gradient = gram @ weights - gram + 30.0 * weights
    np.fill_diagonal(gradient, 0.0)
    assert np.diag(weights).tolist() == [0.0] * data.n_items
    assert np.abs(gradient).max() < 1e-3 * np.abs(gram).max()


def test_ease_on_more_items_than_one_strip():
    rng = np.random.default_rng(0)
    matrix = sp.random_array((300, 1500), density=0.02, rng=rng, format="csr")
    model = plain_ease(regularization=5.0, side="items").fit(Interactions.from_scipy(matrix))
    gram = ((matrix != 0).astype(np.float64).T @ (matrix != 0).astype(np.float64)).toarray() + 5.0 * np.eye(1500)
    inverse = np.linalg.inv(gram)
    expected = -inverse / np.diag(inverse)
    np.fill_diagonal(expected, 0.0)
    assert np.allclose(model.weights_, expected, atol=1e-5)


def test_ease_scores_are_rows_times_weights(town):
    model = plain_ease().fit(town.interactions)
    users = np.array([7, 0, 7, 33])
    expected = town.interactions.matrix.toarray()[users] @ model.weights_
    assert np.allclose(model.score_block(users), expected, atol=1e-5)


def test_ease_refuses_politely_when_memory_is_short(town):
    with pytest.raises(
        DataError, match=r"300 users and 200 items needs 0\.00048 GB of memory from the side of the items"
    ):
        plain_ease(memory_limit_gb=1e-9).fit(town.interactions)
    with pytest.raises(ParameterError, match="regularization=-1"):
        plain_ease(regularization=-1).fit(town.interactions)


def test_ease_beats_most_popular_on_the_town(town):
    from tastespace import evaluate

    train, _, test = split.per_user(town.interactions)
    popular, ease = (evaluate(m.fit(train), test, k=10)["NDCG@10"] for m in (MostPopular(), plain_ease()))
    assert ease > 1.5 * popular
