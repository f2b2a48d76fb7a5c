"""Dropout and powers of counts in EASE and SparseEASE, against the formula in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.models.formulas import plain_ease

import tastespace as ts
from tastespace import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.models import SparseEASE, create
from tastespace.models.linear import ease as ease_sides
from tastespace.models.linear.ease import UserSide, item_weights

LAMBDA = 4.0
SETTINGS = [
    {"dropout": 0.5},
    {"user_power": -0.25},
    {"item_power": 0.2},
    {"dropout": 0.3, "user_power": -0.3, "item_power": 0.2},
    {"dropout": 0.67, "user_power": 0.4, "item_power": -0.5},
]


def random_data(weighted=False, n_users=50, n_items=80):
    """Random interactions; the first item and the last user have none."""
    rng = np.random.default_rng(0)
    matrix = sp.random_array((n_users, n_items), density=0.12, rng=rng, format="lil")
    matrix[n_users - 1] = 0
    matrix[:, [0]] = 0
    matrix = matrix.tocsr()
    matrix.eliminate_zeros()
    matrix.data[:] = rng.integers(1, 6, matrix.nnz) if weighted else 1
    return Interactions.from_scipy(matrix, weight=weighted)


def by_numpy(data, dropout=0.0, user_power=0.0, item_power=0.0):
    """B in double precision, from the definition."""
    dense = data.matrix.toarray().astype(np.float64)
    of_users, of_items = (np.maximum((dense != 0).sum(axis=axis), 1) for axis in (1, 0))
    gram = dense.T @ np.diag((of_users / of_users.mean()) ** (2 * user_power)) @ dense
    inverse = np.linalg.inv(gram + np.diag(LAMBDA + dropout / (1 - dropout) * gram.diagonal()))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights * np.outer(of_items**item_power, of_items**-item_power)


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("side", ["items", "users"])
def test_ease_is_the_formula_from_both_sides(setting, weighted, side, tmp_path):
    data = random_data(weighted)
    weights = by_numpy(data, **setting)
    model = plain_ease(LAMBDA, side=side, threads=1, **setting).fit(data)
    expected = data.matrix.toarray().astype(np.float64) @ weights
    scores = model.score_block(np.arange(50))
    assert scores.dtype == np.float32
    assert_close(scores, expected)
    assert not scores[-1].any()  # a user without a history
    assert not scores[:, 0].any()  # an item without users
    if side == "items":
        assert_close(model.weights_, weights)
    items = np.array([4, 0, 79, 4])
    assert_close(model.item_scores(items), weights[:, items].T)
    row = data.matrix[[7]]
    for item in (0, 5, 60, int(row.indices[0])):
        contributions = model.evidence(7, np.array([item]))[:, 0]
        assert_close(contributions, row.data * weights[row.indices, item] + 0.0)
        assert contributions.sum() == pytest.approx(scores[7, item], abs=1e-5)
    new = model.fold_in([[3, 17, 70], [1]])
    assert_close(new.score_block(np.arange(2)), np.array([weights[[3, 17, 70]].sum(axis=0), weights[1]]))
    np.testing.assert_allclose(new.evidence(0, np.array([8]))[:, 0], weights[[3, 17, 70], 8], atol=1e-6)
    for name, one in (("model", model), ("new", new)):
        one.save(tmp_path / name)
        loaded = ts.load(tmp_path / name, verify=True)
        users = np.arange(one.train_.n_users)
        np.testing.assert_array_equal(loaded.score_block(users), one.score_block(users))
        np.testing.assert_array_equal(loaded.evidence(0, np.array([8]))[:, 0], one.evidence(0, np.array([8]))[:, 0])


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_with_all_neighbors_sparse_ease_is_ease(setting):
    data = ts.synthetic.multi_interest(n_users=300, n_items=40, n_interactions=5_000, seed=3).interactions
    assert ((data.matrix.T @ data.matrix).toarray() > 0).all()  # items without a common user are no neighbors
    setting = {"dropout": 0.0, **setting}
    model = SparseEASE(n_neighbors=40, regularization=LAMBDA, threads=1, **setting).fit(data)
    weights = by_numpy(data, **setting)
    np.testing.assert_allclose(model.coefficients_.toarray(), weights, atol=5e-5 * np.abs(weights).max())
    scores = model.score_block(np.array([3]))
    assert model.evidence(3, np.array([5]))[:, 0].sum() == pytest.approx(scores[0, 5], abs=1e-5)
    assert_close(
        model.fold_in([[1, 2]]).score_block(np.array([0]))[0], model.coefficients_[[1, 2]].toarray().sum(axis=0)
    )


def test_zeros_are_plain_ease_to_the_last_bit():
    data = random_data(weighted=True)
    matrix = data.matrix.astype(np.float64)
    plain = {"dropout": 0, "user_power": 0, "item_power": 0}
    np.testing.assert_array_equal(
        plain_ease(LAMBDA, side="items", threads=1, **plain).fit(data).weights_, item_weights(matrix, LAMBDA, 1)
    )
    model = plain_ease(LAMBDA, side="users", threads=1, **plain).fit(data)
    np.testing.assert_array_equal(model.inverse_, UserSide.solve(matrix, LAMBDA, 1).inverse)
    assert not hasattr(model, "item_scale_")
    users = np.arange(50)
    sparse = [SparseEASE(9, item_power=power, threads=1).fit(data).score_block(users) for power in (0.0, 0, 0.2)]
    np.testing.assert_array_equal(sparse[0], sparse[1])
    assert not np.allclose(sparse[0], sparse[2])


def test_a_second_fit_forgets_the_factors_of_the_first():
    data = random_data()
    model = plain_ease(LAMBDA, side="users", threads=1, dropout=0.5, item_power=0.2).fit(data)
    assert model.item_scale_.shape == (80,)
    model.set_params(dropout=0.0, item_power=0.0).fit(data)
    expected = plain_ease(LAMBDA, side="users", threads=1).fit(data)
    np.testing.assert_array_equal(model.score_block(np.arange(50)), expected.score_block(np.arange(50)))
    model.set_params(dropout=0.5, item_power=0.2)  # without a fit nothing changes
    np.testing.assert_array_equal(model.score_block(np.arange(50)), expected.score_block(np.arange(50)))


@pytest.mark.parametrize("side", ["items", "users"])
def test_the_same_bits_for_every_number_of_threads_and_every_block(side):
    data, users = random_data(), np.arange(50)
    one, several = (plain_ease(LAMBDA, side=side, threads=n, **SETTINGS[3]).fit(data) for n in (1, 3))
    expected = one.score_block(users)
    np.testing.assert_array_equal(several.score_block(users), expected)
    np.testing.assert_array_equal(np.concatenate([several.score_block(users[[at]]) for at in users]), expected)


@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[3]], ids=str)
def test_many_items_are_solved_in_single_precision(setting, monkeypatch, caplog):
    monkeypatch.setattr(ease_sides, "LARGE", 60)
    monkeypatch.setattr(ease_sides, "_GRAM_ROWS", 32)
    data = random_data(n_users=200)
    model = plain_ease(LAMBDA, threads=2, **setting).fit(data)
    weights = by_numpy(data, **setting)
    np.testing.assert_allclose(model.weights_, weights, atol=1e-4 * np.abs(weights).max())
    assert not caplog.text


@pytest.mark.parametrize("name", ["ease", "sparse-ease"])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dropout": 1.0}, "dropout=1.0: expected a share from 0 to below 1"),
        ({"dropout": -0.1}, "dropout=-0.1: expected a number, 0 or more"),
        ({"dropout": "half"}, "dropout='half': expected a number, 0 or more"),
        ({"user_power": np.inf}, "user_power=inf: expected a finite number from -2 to 2, such as 0 or -0.25"),
        ({"item_power": 2.5}, "item_power=2.5: expected a finite number from -2 to 2, such as 0 or 0.2"),
        ({"item_power": None}, "item_power=None: expected a finite number"),
    ],
)
def test_bad_parameters(name, parameters, message):
    with pytest.raises(ParameterError, match=message):
        create(name, **parameters)


def test_factors_beyond_the_numbers_of_32_bits_are_refused():
    with pytest.raises(DataError, match=r"cannot be computed from .*: the factors of its items go from .* Raise"):
        plain_ease(1e-70, dropout=0.5).fit(random_data())
