"""ALS: the least squares, compared with implicit; fold-in; seeds and threads."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from tastespace import MostPopular, datasets, evaluate, split, synthetic
from tastespace.errors import ParameterError
from tastespace.models.als import ALS


@pytest.fixture(scope="module")
def small():
    return synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=2).interactions


def objective_slope(model, data):
    """Half the gradient of Hu et al.'s objective with respect to all vectors, from the dense table."""
    users, items = model.user_vectors_.astype(np.float64), model.item_vectors_.astype(np.float64)
    taken = (data.matrix.toarray() > 0).astype(np.float64)
    excess = (1 + model.alpha * taken) * (users @ items.T - taken)
    return excess @ items + model.regularization * users, excess.T @ users + model.regularization * items


@pytest.mark.parametrize("alpha", [0.0, 4.0])
def test_many_iterations_end_where_the_gradient_vanishes(small, alpha):
    model = ALS(dim=6, regularization=2.0, alpha=alpha, iterations=300, threads=1).fit(small)
    for slope, vectors in zip(objective_slope(model, small), (model.user_vectors_, model.item_vectors_), strict=True):
        assert np.abs(slope).max() < 2e-3 * model.regularization * np.abs(vectors).max()


def test_the_score_is_the_inner_product(small):
    model = ALS(dim=6, iterations=3, threads=1).fit(small)
    expected = model.user_vectors_[:4] @ model.item_vectors_.T
    np.testing.assert_allclose(model.score_block(np.arange(4)), expected, rtol=1e-5, atol=1e-6)


def test_fold_in_solves_the_least_squares_of_the_history(small):
    model = ALS(dim=6, regularization=2.0, alpha=3.0, iterations=4, threads=1).fit(small)
    folded = model.fold_in([small.items_of(user) for user in small.users.series])
    slope, _ = objective_slope(folded, small)
    assert np.abs(slope).max() < 1e-4
    # After many iterations fold-in of the training histories gives the training vectors.
    model.set_params(iterations=300).fit(small)
    folded = model.fold_in([small.items_of(user) for user in small.users.series])
    np.testing.assert_allclose(folded.user_vectors_, model.user_vectors_, atol=1e-3)


def test_seeds_and_threads(small):
    one, again, two, other = (
        ALS(dim=6, iterations=5, seed=seed, threads=threads).fit(small)
        for seed, threads in ((1, 1), (1, 1), (1, 2), (2, 1))
    )
    for same in (again, two):
        np.testing.assert_array_equal(one.user_vectors_, same.user_vectors_)
        np.testing.assert_array_equal(one.item_vectors_, same.item_vectors_)
    assert not np.array_equal(one.item_vectors_, other.item_vectors_)


def test_fitting_is_silent(small, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ALS(dim=6, iterations=2, threads=2).fit(small)
    assert capfd.readouterr() == ("", "")


def objective(users, items, data, regularization, alpha):
    """Hu et al.'s objective, from the dense table."""
    taken = (data.matrix.toarray() > 0).astype(np.float64)
    errors = (1 + alpha * taken) * np.square(taken - users.astype(np.float64) @ items.astype(np.float64).T)
    return errors.sum() + regularization * (np.square(users).sum() + np.square(items).sum())


def test_the_objective_is_as_low_as_that_of_implicit(small):
    implicit = pytest.importorskip("implicit.cpu.als")
    other = implicit.AlternatingLeastSquares(
        factors=6, regularization=2.0, alpha=1.0, iterations=50, num_threads=1, random_state=0
    )
    confidence = sp.csr_matrix(small.matrix) * 4.0  # 1 + alpha
    other.fit(confidence, show_progress=False)
    model = ALS(dim=6, regularization=2.0, alpha=3.0, iterations=50).fit(small)
    reached = objective(model.user_vectors_, model.item_vectors_, small, 2.0, 3.0)
    assert reached <= 1.02 * objective(other.user_factors, other.item_factors, small, 2.0, 3.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dim": 0}, "dim=0: expected a whole number"),
        ({"iterations": 0}, "iterations=0"),
        ({"regularization": 0.0}, r"regularization=0\.0: expected a positive"),
        ({"alpha": -1}, "alpha=-1: expected a number, 0 or more"),
        ({"seed": -1}, "seed=-1"),
        ({"threads": True}, "threads=True"),
    ],
)
def test_bad_parameters(small, parameters, message):
    with pytest.raises(ParameterError, match=message):
        ALS(**parameters).fit(small)


def test_it_beats_most_popular_on_the_town(town):
    train, _, test = split.per_user(town.interactions)
    models = MostPopular(), ALS(dim=16, threads=1)
    popular, als = (evaluate(m.fit(train), test, k=10)["NDCG@10"] for m in models)
    assert als > 1.3 * popular


def test_it_beats_most_popular_on_ml_100k(dataset_dir):
    dataset_dir("ml-100k")
    train, _, test = split.per_user(datasets.load("ml-100k"), seed=0)
    models = MostPopular(), ALS(threads=1)
    popular, als = (evaluate(m.fit(train), test, k=10)["NDCG@10"] for m in models)
    assert als > 1.5 * popular
