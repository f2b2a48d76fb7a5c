"""Spectral is the formula with NumPy's singular value decomposition; new users, contributions and files follow it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import tastespace as ts
from tastespace import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.models import Spectral, create
from tastespace.models.linear import spectral
from tastespace.models.linear.spectral import right_singular_vectors

SETTINGS = [
    {},  # GF-CF
    {"low_pass_power": 0.7, "linear_power": 0.6, "low_pass_weight": 1.0},
    {"low_pass_power": 0.0, "linear_power": -0.2, "low_pass_weight": 0.1},
    {"low_pass_weight": 0.0},
    {"linear": False, "low_pass_power": 0.3},
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


def normalized(data):
    dense = data.matrix.toarray().astype(np.float64)
    of_users, of_items = dense.sum(axis=1), dense.sum(axis=0)
    of_users[of_users == 0] = of_items[of_items == 0] = 1.0
    return dense / np.sqrt(np.outer(of_users, of_items)), of_items


def by_numpy(data, dim, low_pass_weight=0.3, low_pass_power=0.5, linear_power=0.5, linear=True):
    """Matrix by which histories are multiplied, from the definition."""
    matrix, sums = normalized(data)
    vectors = np.linalg.svd(matrix)[2][:dim].T
    found = low_pass_weight * np.diag(sums**-low_pass_power) @ vectors @ vectors.T @ np.diag(sums**low_pass_power)
    if linear:
        found += np.diag(sums ** (0.5 - linear_power)) @ matrix.T @ matrix @ np.diag(sums ** (linear_power - 0.5))
    return found


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(np.abs(expected).max(), 1e-3))


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_items", [80, 35])
def test_scores_are_the_formula(setting, weighted, n_items, tmp_path):
    data = random_data(weighted, n_items=n_items)
    whole = by_numpy(data, 7, **setting)
    model = Spectral(dim=7, threads=1, **setting).fit(data)
    scores = model.score_block(np.arange(50))
    assert scores.dtype == np.float32
    assert_close(scores, data.matrix.toarray() @ whole)
    assert not scores[-1].any()  # a user without a history
    assert not scores[:, 0].any()  # an item that nobody took
    items = np.array([4, 0, n_items - 1, 4])
    assert_close(model.item_scores(items), whole[:, items].T)
    row = data.matrix[[7]]
    for item in (0, 5, 30, int(row.indices[0])):
        contributions = model.evidence(7, np.array([item]))[:, 0]
        assert contributions.dtype == np.float32
        assert_close(contributions, row.data * whole[row.indices, item])
        assert contributions.sum() == pytest.approx(scores[7, item], abs=1e-5)
    assert model.evidence(49, np.array([3]))[:, 0].shape == (0,)
    new = model.fold_in([[3, 17, 30], [1]])
    assert_close(new.score_block(np.arange(2)), np.array([whole[[3, 17, 30]].sum(axis=0), whole[1]]))
    assert_close(new.fold_in([[2]]).score_block(np.array([0]))[0], whole[2])
    for name, one in (("model", model), ("new", new)):
        one.save(tmp_path / name)
        loaded = ts.load(tmp_path / name, verify=True)
        users = np.arange(one.train_.n_users)
        np.testing.assert_array_equal(loaded.score_block(users), one.score_block(users))
        np.testing.assert_array_equal(loaded.evidence(0, np.array([8]))[:, 0], one.evidence(0, np.array([8]))[:, 0])
        np.testing.assert_array_equal(loaded.fold_in([[5]]).score_block([0]), model.fold_in([[5]]).score_block([0]))


def test_without_the_linear_filter_it_has_vectors():
    data = random_data()
    model = Spectral(dim=5, linear=False, threads=1).fit(data)
    space = model.vectors()
    assert space.metric == "dot"
    assert_close(space.user_vectors @ space.item_vectors.T, data.matrix.toarray() @ by_numpy(data, 5, linear=False))
    assert model.fold_in([[3, 4]]).vectors().user_vectors.shape == (1, 5)
    model.set_params(linear=True).fit(data)
    assert model.vectors() is None
    assert not hasattr(model, "user_vectors_")


@pytest.mark.parametrize("shape", [(300, 200), (150, 260)])
def test_the_subspace_iteration_finds_the_singular_vectors(shape, monkeypatch):
    monkeypatch.setattr(spectral, "_SMALL", 0)
    monkeypatch.setattr(spectral, "_ROWS_AT_ONCE", 33)
    data = ts.synthetic.multi_interest(n_users=shape[0], n_items=shape[1], n_interactions=6_000, seed=1).interactions
    matrix, _ = normalized(data)
    _, values, right = np.linalg.svd(matrix)
    found = right_singular_vectors(sp.csr_array(matrix), 8, 60, 0, 1)
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(matrix @ found, axis=0), values[:8], atol=1e-5)
    np.testing.assert_allclose(found @ found.T, right[:8].T @ right[:8], atol=1e-3)
    for threads in (2, 3):
        np.testing.assert_array_equal(right_singular_vectors(sp.csr_array(matrix), 8, 60, 0, threads), found)
    few = right_singular_vectors(sp.csr_array(matrix), 8, 4, 3, 1)  # of the default number of passes, another seed
    assert (np.linalg.norm(matrix @ few, axis=0) > 0.97 * values[:8]).all()
    whole = right_singular_vectors(sp.csr_array(matrix), min(shape), 1, 0, 1)  # the whole space: exact after a pass
    np.testing.assert_allclose(whole @ whole.T @ matrix.T, matrix.T, atol=3e-3)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("small", [0, 1_000])
def test_the_same_bits_for_every_number_of_threads_and_every_block(linear, small, monkeypatch):
    monkeypatch.setattr(spectral, "_SMALL", small)
    monkeypatch.setattr(spectral, "_USERS_AT_ONCE", 7)
    data, users = random_data(weighted=True), np.arange(50)
    one, several = (Spectral(dim=6, linear=linear, threads=n).fit(data) for n in (1, 3))
    expected = one.score_block(users)
    np.testing.assert_array_equal(several.score_block(users), expected)
    np.testing.assert_array_equal(np.concatenate([several.score_block(users[[at]]) for at in users]), expected)


def test_the_unit_of_the_weights_does_not_matter():
    data = random_data(weighted=True)
    setting = {"low_pass_power": 0.7, "linear_power": 0.2, "dim": 6, "threads": 1}
    found = Spectral(**setting).fit(data).score_block(np.arange(50))
    larger = Spectral(**setting).fit(Interactions.from_scipy(1000 * data.matrix, weight=True))
    np.testing.assert_allclose(larger.score_block(np.arange(50)), 1000 * found, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("small", [0, 1_000])
def test_more_vectors_than_the_matrix_has_are_left_out(small, monkeypatch, caplog):
    monkeypatch.setattr(spectral, "_SMALL", small)
    matrix = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])  # of rank 2
    data = Interactions.from_scipy(sp.csr_array(matrix))
    model = Spectral(dim=100, threads=1).fit(data)
    assert "dim=100 is more than a matrix of 3 users and 4 items has; taking 3" in caplog.text
    assert model.item_vectors_.shape == (4, 2)
    assert_close(model.score_block(np.arange(3)), matrix @ by_numpy(data, 2))


def test_one_user_with_a_history():
    data = Interactions.from_scipy(sp.csr_array(np.array([[1, 0, 1, 1], [0, 0, 0, 0]])))
    model = Spectral(dim=1, threads=1).fit(data)
    assert_close(model.score_block(np.arange(2)), data.matrix.toarray() @ by_numpy(data, 1))
    assert not model.fold_in([[1]]).score_block(np.array([0])).any()  # the item that nobody took


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dim": 0}, "dim=0: expected a whole number, 1 or more"),
        ({"iterations": 0}, "iterations=0: expected a whole number, 1 or more"),
        ({"low_pass_weight": -1}, "low_pass_weight=-1: expected a number, 0 or more"),
        ({"low_pass_power": 3}, "low_pass_power=3: expected a finite number from -2 to 2, such as 0 or 0.5"),
        ({"linear_power": np.nan}, "linear_power=nan: expected a finite number from -2 to 2"),
        ({"linear": "no"}, "linear='no': expected True or False"),
        ({"linear": False, "low_pass_weight": 0}, "leaves no scores"),
        ({"seed": -1}, "seed=-1: expected a whole number from 0"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ParameterError, match=message):
        create("spectral", **parameters)


def test_bad_data():
    matrix = np.eye(3) * [1e-30, 1, 1e30]
    wide = Interactions.from_scipy(sp.csr_array(matrix), weight=True)
    for setting in ({"low_pass_power": 1.0}, {"linear_power": 2.0}):
        with pytest.raises(DataError, match=r"the factors of its items go from .* Take powers nearer to 0\.5"):
            Spectral(**setting).fit(wide)
    huge = Interactions.from_scipy(sp.csr_array(np.eye(3) * 1e37), weight=True)
    with pytest.raises(DataError, match=r"weights up to 1e\+37"):
        Spectral().fit(huge)
    matrix[0, 0] = -1.0
    with pytest.raises(DataError, match=r"Spectral needs weights of 0 or more, given 1 negative"):
        Spectral().fit(Interactions.from_scipy(sp.csr_array(matrix), weight=True))


def test_too_little_memory_is_refused_before_the_work():
    with pytest.raises(
        ParameterError, match=r"Spectral with dim=2000000000 .* takes about .* GB of memory, .* are free"
    ):
        Spectral(dim=2_000_000_000).fit(random_data())
