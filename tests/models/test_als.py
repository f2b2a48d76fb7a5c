"""ALS: the least squares and the kernel, compared with NumPy and implicit; fold-in; seeds and threads."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from tastespace import (
    MostPopular,
    _native,
    datasets,
    evaluate,
    split,
    synthetic,
)
from tastespace.errors import ParameterError
from tastespace.models.als import ALS


@pytest.fixture(scope="module")
def small():
    return synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=2).interactions


def objective_slope(model, data):
    """Half the gradient of Hu et al.'s objective with respect to all vectors, from the dense table."""
    users, items = model.user_vectors_.astype(np.float64), model.item_vectors_.astype(np.float64)
    weights = data.matrix.toarray().astype(np.float64)
    confidence = 1 + model.alpha * weights
    excess = confidence * (users @ items.T - (weights > 0))
    by_user, by_item = (
        model.regularization * (confidence.sum(axis=axis) / confidence.sum(axis=axis).mean()) ** model.frequency_power
        for axis in (1, 0)
    )
    return excess @ items + by_user[:, None] * users, excess.T @ users + by_item[:, None] * items


@pytest.mark.parametrize("alpha", [0.0, 4.0])
def test_many_iterations_end_where_the_gradient_vanishes(small, alpha):
    model = ALS(dim=6, regularization=2.0, alpha=alpha, iterations=300, threads=1).fit(small)
    for slope, vectors in zip(objective_slope(model, small), (model.user_vectors_, model.item_vectors_), strict=True):
        assert np.abs(slope).max() < 2e-3 * model.regularization * np.abs(vectors).max()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("frequency_power", [0.5, 1.0])
def test_frequent_users_and_items_are_regularized_more(small, weighted, frequency_power):
    data = small
    if weighted:
        data = replace(small, weights=(np.arange(small.n_interactions) % 4 + 1).astype(np.float32))
    model = ALS(dim=6, regularization=4.0, alpha=2.0, iterations=300, frequency_power=frequency_power).fit(data)
    for slope, vectors in zip(objective_slope(model, data), (model.user_vectors_, model.item_vectors_), strict=True):
        assert np.abs(slope).max() < 2e-3 * model.regularization * np.abs(vectors).max()


# ---- the kernel ----------------------------------------------------------------------------------------------------


def half_step(matrix, fixed, ridge, start, n_steps, threads=1):
    """Vectors of the rows of a matrix of additional confidences, from ``start`` on."""
    vectors = start.copy()
    _native.als_half_step(
        offsets=matrix.indptr.astype(np.int64),
        columns=matrix.indices.astype(np.int32),
        extra=matrix.data.astype(np.float32),
        fixed=fixed,
        gram=fixed.T @ fixed,
        regularization=ridge,
        n_steps=n_steps,
        vectors=vectors,
        threads=threads,
    )
    return vectors


@pytest.fixture(scope="module", params=[1, 5, 16, 37])
def system(request):
    """Rows of confidences, the fixed vectors, regularization and a start; the row 3 is empty."""
    rng, dim = np.random.default_rng(request.param), request.param
    table = rng.random((30, 50)) * (rng.random((30, 50)) < 0.3) * 5
    table[3] = 0.0
    fixed, start = (rng.standard_normal((n, dim)).astype(np.float32) for n in (50, 30))
    return sp.csr_array(table), fixed, rng.uniform(1, 5, 30).astype(np.float32), start


def exact(matrix, fixed, ridge):
    """The solutions of the least squares, row by row in double precision."""
    wide = fixed.astype(np.float64)
    found = np.zeros((matrix.shape[0], fixed.shape[1]))
    for row, extra in enumerate(matrix.toarray()):
        left = wide.T @ (wide * (1 + extra)[:, None]) + ridge[row] * np.eye(fixed.shape[1])
        found[row] = np.linalg.solve(left, wide.T @ np.where(extra > 0, 1 + extra, 0.0))
    return found


def test_many_steps_of_the_kernel_solve_the_least_squares(system):
    matrix, fixed, ridge, start = system
    found = half_step(matrix, fixed, ridge, start, n_steps=100)
    np.testing.assert_allclose(found, exact(matrix, fixed, ridge), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(found[3], 0.0)


def test_each_step_of_the_kernel_is_one_of_conjugate_gradients(system):
    """From NumPy: after n steps the same vectors."""
    matrix, fixed, ridge, start = system
    wide = fixed.astype(np.float64)
    for row in (0, 7):
        extra = matrix.toarray()[row]
        left = wide.T @ (wide * (1 + extra)[:, None]) + ridge[row] * np.eye(fixed.shape[1])
        x = start[row].astype(np.float64)
        residual = wide.T @ np.where(extra > 0, 1 + extra, 0.0) - left @ x
        direction = residual.copy()
        for n_steps in range(1, min(4, fixed.shape[1] + 1)):
            length = residual @ residual / (direction @ left @ direction)
            x = x + length * direction
            later = residual - length * left @ direction
            direction = later + later @ later / (residual @ residual) * direction
            residual = later
            found = half_step(matrix, fixed, ridge, start, n_steps)[row]
            np.testing.assert_allclose(found, x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_every_number_of_threads_gives_the_same_bits(system, threads):
    matrix, fixed, ridge, start = system
    one, several = (half_step(matrix, fixed, ridge, start, 3, n) for n in (1, threads))
    np.testing.assert_array_equal(one, several)


def test_arrays_that_do_not_fit_are_refused(system):
    matrix, fixed, ridge, start = system
    for given in ((matrix, fixed, ridge[1:], start), (matrix[1:], fixed, ridge, start)):
        with pytest.raises(ValueError, match=r"expected \d+ values \(one per row of vectors"):
            half_step(*given, n_steps=1)


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
    confidence = sp.csr_matrix(small.matrix) * 4.0  # 1 + alpha
    with threadpool_limits(1, "blas"):  # as implicit itself advises
        other = implicit.AlternatingLeastSquares(
            factors=6, regularization=2.0, alpha=1.0, iterations=50, num_threads=1, random_state=0
        )
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
        ({"frequency_power": -0.5}, "frequency_power=-0.5: expected a number, 0 or more"),
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
