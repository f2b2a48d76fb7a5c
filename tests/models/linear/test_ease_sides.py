"""EASE from the side of the users is EASE: against the side of the items, and against plain NumPy."""

from __future__ import annotations

import logging

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from tests.models.formulas import plain_ease

import tastespace
from tastespace import (
    Interactions,
    load,
    split,
)
from tastespace.errors import DataError, ParameterError
from tastespace.models.linear import ease as ease_sides
from tastespace.recipe._families import families

KINDS = ("ones", "weights", "heavy weights")


def random_data(kind, n_users=50, n_items=130, seed=0):
    """Random interactions; the first item and the last user have none."""
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((n_users, n_items), density=0.08, rng=rng, format="lil")
    matrix[n_users - 1] = 0
    matrix[:, [0]] = 0
    matrix = matrix.tocsr()
    matrix.eliminate_zeros()
    matrix.data[:] = {
        "ones": np.ones(matrix.nnz),
        "weights": rng.integers(1, 6, matrix.nnz),
        "heavy weights": np.ceil(100 * rng.lognormal(0, 1.5, matrix.nnz)),
    }[kind]
    return Interactions.from_scipy(matrix, weight=kind != "ones")


def by_numpy(data, regularization):
    """B in double precision, from the definition."""
    dense = data.matrix.toarray().astype(np.float64)
    inverse = np.linalg.inv(dense.T @ dense + regularization * np.eye(data.n_items))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights


def assert_close(found, expected, tolerance=1e-4):
    """Equal up to a share of the largest value of each row."""
    gaps = np.abs(np.atleast_2d(found - expected)).max(axis=1)
    assert (gaps <= tolerance * np.abs(np.atleast_2d(expected)).max(axis=1)).all()


@pytest.mark.parametrize("regularization", [0.5, 30.0])
@pytest.mark.parametrize(
    ("kind", "shape"), [*((kind, (50, 130)) for kind in KINDS), ("ones", (130, 50)), ("weights", (130, 50))]
)
def test_scores_are_those_of_the_other_side_and_of_numpy(kind, regularization, shape):
    data = random_data(kind, *shape)
    expected = data.matrix.toarray().astype(np.float64) @ by_numpy(data, regularization)
    users = np.arange(data.n_users)
    for side in ("users", "items"):
        found = plain_ease(regularization, side=side, threads=1).fit(data).score_block(users)
        assert found.dtype == np.float32
        assert_close(found, expected)
        assert not found[-1].any()  # a user without a history
        assert not found[:, 0].any()  # an item without users


@pytest.mark.parametrize("kind", KINDS)
def test_new_users_have_the_scores_of_their_histories(kind):
    data = random_data(kind)
    weights = by_numpy(data, 5.0)
    histories = [[3, 17, 99], [1], list(range(1, 60, 4)), data.items_of(7)]
    model = plain_ease(5.0, side="users", threads=1).fit(data)
    new = model.fold_in(histories)
    expected = np.array([weights[items].sum(axis=0) for items in histories])
    assert_close(new.score_block(np.arange(4)), expected)
    assert_close(new.score_block(np.array([2])), expected[[2]])
    again = new.fold_in(histories[1:])  # new users of a model of new users
    assert_close(again.score_block(np.arange(3)), expected[1:])
    if kind == "ones":
        assert_close(new.score_block(np.array([3])), model.score_block(np.array([7])))


@pytest.mark.parametrize("kind", KINDS)
def test_items_are_compared_by_columns_of_the_weights(kind):
    data = random_data(kind)
    weights = by_numpy(data, 5.0)
    model = plain_ease(5.0, side="users", threads=1).fit(data)
    items = np.array([4, 0, 129, 4])
    found = model.item_scores(items)
    assert found.shape == (4, 130)
    np.testing.assert_allclose(found, weights[:, items].T, atol=1e-5 * np.abs(weights).max())
    assert (found[np.arange(4), items] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_are_entries_of_the_weights(kind):
    data = random_data(kind)
    weights, matrix = by_numpy(data, 5.0), data.matrix
    model = plain_ease(5.0, side="users", threads=1).fit(data)
    users = [0, 7, 49]
    scores = model.score_block(np.array(users))
    for at, user in enumerate(users):
        row = matrix[[user]]
        for item in (0, 5, 60, *row.indices[:2]):
            found = model.evidence(user, np.array([int(item)]))[:, 0]
            expected = row.data * weights[row.indices, item]
            np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max(initial=0.0))
            assert found.sum() == pytest.approx(scores[at, item], abs=1e-4 * float(np.abs(scores[at]).max()))
    new = model.fold_in([[3, 17, 99]])
    np.testing.assert_allclose(new.evidence(0, np.array([8]))[:, 0], weights[[3, 17, 99], 8], atol=1e-5)


def test_the_fewer_decide_the_side():
    wide, tall, square = (random_data("ones", *shape) for shape in ((50, 130), (130, 50), (60, 60)))
    assert plain_ease(threads=1).fit(wide).inverse_.shape == (50, 50)
    assert not hasattr(plain_ease(threads=1).fit(wide), "weights_")
    for data in (tall, square):
        model = plain_ease(threads=1).fit(data)
        assert not hasattr(model, "inverse_")
        np.testing.assert_array_equal(model.weights_, plain_ease(threads=1, side="items").fit(data).weights_)
    with pytest.raises(ParameterError, match=r"side='item': expected one of 'auto', 'items', 'users'"):
        plain_ease(side="item").fit(wide)


def test_a_second_fit_may_take_the_other_side():
    wide, tall = random_data("ones", 50, 130), random_data("ones", 130, 50)
    users = np.arange(50)
    model = plain_ease(threads=1).fit(wide).fit(tall)
    np.testing.assert_array_equal(model.score_block(users), plain_ease(threads=1).fit(tall).score_block(users))
    assert sorted(name for name in vars(model) if name.endswith("_")) == [
        "regularization_", "train_", "valid_", "weights_",
    ]  # fmt: skip
    model.fit(wide)
    np.testing.assert_array_equal(model.score_block(users), plain_ease(threads=1).fit(wide).score_block(users))


def test_a_later_change_of_the_regularization_changes_nothing():
    data = random_data("ones")
    model = plain_ease(5.0, threads=1).fit(data)
    before = model.fold_in([[3, 17]]).score_block(np.array([0]))
    model.set_params(regularization=500.0)
    np.testing.assert_array_equal(model.fold_in([[3, 17]]).score_block(np.array([0])), before)


def test_saved_models_know_the_training_data(tmp_path):
    """Also those of new users, whose histories are not what the model learned from."""
    data = random_data("weights")
    model = plain_ease(5.0, threads=1).fit(data)
    new = model.fold_in([[3, 17, 99], [1, 2]])
    for name, one in (("model", model), ("new", new)):
        one.save(tmp_path / name)
        loaded = tastespace.load(tmp_path / name, verify=True)
        users = np.arange(one.train_.n_users)
        np.testing.assert_array_equal(loaded.score_block(users), one.score_block(users))
        np.testing.assert_array_equal(loaded.item_scores(users), one.item_scores(users))
        np.testing.assert_array_equal(loaded.evidence(0, np.array([8]))[:, 0], one.evidence(0, np.array([8]))[:, 0])
        again = loaded.fold_in([[5, 60]]).score_block(np.array([0]))
        np.testing.assert_array_equal(again, model.fold_in([[5, 60]]).score_block(np.array([0])))


@pytest.mark.parametrize("threads", [2, 3])
def test_the_same_bits_for_every_number_of_threads_and_every_block(threads, monkeypatch):
    monkeypatch.setattr(ease_sides, "_USERS_AT_ONCE", 7)
    monkeypatch.setattr(ease_sides, "_NUMBERS_AT_ONCE", 1000)
    data = random_data("weights")
    one, several = (plain_ease(5.0, threads=n).fit(data) for n in (1, threads))
    users = np.arange(50)
    expected = one.score_block(users)
    np.testing.assert_array_equal(several.score_block(users), expected)
    np.testing.assert_array_equal(np.concatenate([several.score_block(users[[at]]) for at in users]), expected)
    histories = [[3, 17, 99], [1], list(range(1, 60, 4))] * 5
    expected = one.fold_in(histories).score_block(np.arange(15))
    new = several.fold_in(histories)
    np.testing.assert_array_equal(new.score_block(np.arange(15)), expected)
    np.testing.assert_array_equal(new.score_block(np.array([4])), expected[[4]])


def test_strips_do_not_matter(monkeypatch):
    data = random_data("weights")
    users = np.arange(50)
    whole = plain_ease(5.0, threads=1).fit(data)
    monkeypatch.setattr(ease_sides, "_STRIP", 7)
    np.testing.assert_array_equal(plain_ease(5.0, threads=1).fit(data).inverse_, whole.inverse_)
    np.testing.assert_allclose(whole.inverse_, whole.inverse_.T)
    expected = np.linalg.inv((data.matrix @ data.matrix.T).toarray().astype(np.float64) + 5.0 * np.eye(50))
    np.testing.assert_allclose(whole.inverse_[users], expected, atol=1e-6 * expected.max())


def test_double_precision_is_kept_where_single_is_not_enough():
    assert plain_ease(30.0, threads=1).fit(random_data("ones")).inverse_.dtype == np.float32
    assert plain_ease(0.5, threads=1).fit(random_data("heavy weights")).inverse_.dtype == np.float64


def test_the_users_are_not_taken_where_they_are_too_imprecise(caplog):
    """More users than items, so that XX' is singular, and eigenvalues 10^8 times the regularization."""
    tall = random_data("heavy weights", 130, 50)
    with pytest.raises(DataError, match=r"regularization=0.5 cannot be computed precisely .* set side='items'"):
        plain_ease(0.5, side="users", threads=1).fit(tall)
    # With 100 more items, of one user each, there are fewer users than items and XX' is nearly as bad.
    one_each = sp.csr_array((np.ones(100), (np.arange(100), np.arange(100))), shape=(130, 100))
    wide = Interactions.from_scipy(sp.hstack([tall.matrix, 1e-3 * one_each], format="csr"), weight=True)
    assert wide.n_users < wide.n_items
    model = plain_ease(0.5, threads=1).fit(wide)
    assert "Taking the side of the items" in caplog.text
    assert_close(model.score_block(np.arange(130)), wide.matrix.toarray().astype(np.float64) @ by_numpy(wide, 0.5))
    with pytest.raises(DataError, match="from the side of the items"):
        plain_ease(0.5, threads=1, memory_limit_gb=12.5e-9 * 130**2).fit(wide)


def test_the_memory_of_the_side_that_is_taken_counts():
    """1,000 items would need 12 MB, 20 users need 5 kB."""
    data = random_data("ones", 20, 1000)
    assert plain_ease(threads=1, memory_limit_gb=1e-4).fit(data).inverse_.shape == (20, 20)
    message = r"20 users and 1,000 items needs 0\.012 GB .* side of the items and 4\.8e-06 GB from that of the users"
    with pytest.raises(DataError, match=message + r", the limit is 0\.0001 GB.*set side='users'"):
        plain_ease(memory_limit_gb=1e-4, side="items").fit(data)
    with pytest.raises(DataError, match="side of the users") as problem:
        plain_ease(memory_limit_gb=1e-9).fit(data)
    assert "set side" not in str(problem.value)


def test_the_recipe_tries_ease_where_either_side_is_small():
    def tried(data):
        return {family.name: next(family.search) for family in families(data, seed=0, threads=1)}

    few_users = random_data("ones", 20, 7000)
    model = tried(few_users)["linear, all pairs"].fit(few_users)
    assert model.inverse_.shape == (20, 20)
    many = Interactions.from_scipy(sp.csr_array(([1.0], ([0], [0])), shape=(7000, 7000)))
    assert "linear, all pairs" not in tried(many)


def test_both_sides_give_the_same_figures_on_real_data(dataset_dir):
    dataset_dir("ml-100k")
    train, valid, _ = split.per_user(tastespace.datasets.load("ml-100k"), (0.6, 0.2, 0.2), seed=0)
    models = [plain_ease(100.0, side=side, threads=1).fit(train) for side in ("users", "items")]
    users = np.arange(train.n_users)
    assert_close(*(model.score_block(users) for model in models))
    figures = [tastespace.evaluate(m, valid, seen=[train], metrics=["NDCG@10"])["NDCG@10"] for m in models]
    assert figures[0] == pytest.approx(figures[1], abs=1e-5)


def test_a_model_in_double_precision_is_saved_and_opened(tmp_path):
    frame = pl.DataFrame({"user": [1, 1, 2, 2, 3], "item": [*"abcde"], "rating": [1, 2, 3, 4, 5]})
    model = plain_ease(side="users").fit(Interactions.from_frame(frame, weight="rating"))
    assert model.inverse_.dtype == np.float64
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").score_block(np.arange(3)), model.score_block(np.arange(3)))


# ---- many items: single precision, where that is enough ------------------------------------------------------


@pytest.fixture
def large_from_100(monkeypatch):
    """Matrices of 100 rows are large ones."""
    monkeypatch.setattr(ease_sides, "LARGE", 100)
    monkeypatch.setattr(ease_sides, "_BYTES_IN_SINGLE", (4.2, 0))
    monkeypatch.setattr(ease_sides, "LARGE", 100)
    monkeypatch.setattr(ease_sides, "_GRAM_ROWS", 48)


@pytest.mark.usefixtures("large_from_100")
@pytest.mark.parametrize("regularization", [5.0, 300.0])
@pytest.mark.parametrize("kind", KINDS[:2])
def test_single_precision_gives_the_scores_of_numpy(kind, regularization, caplog):
    data = random_data(kind, 400, 130)
    model = plain_ease(regularization, threads=2).fit(data)
    assert model.weights_.dtype == np.float32
    assert model.weights_.flags.c_contiguous
    expected = by_numpy(data, regularization)
    assert_close(model.weights_, expected)
    assert not model.weights_.diagonal().any()
    users = np.arange(data.n_users)
    assert_close(model.score_block(users), data.matrix.toarray().astype(np.float64) @ expected)
    assert not caplog.text
    again = plain_ease(regularization, threads=1).fit(data)
    np.testing.assert_array_equal(again.weights_, model.weights_)


@pytest.mark.usefixtures("large_from_100")
def test_where_single_precision_is_not_enough_double_is_taken(caplog):
    data = random_data("heavy weights", 400, 130)
    matrix = data.matrix.astype(np.float64)
    doubled = Interactions.from_scipy(sp.hstack([data.matrix, data.matrix[:, :40]]).tocsr(), weight=True)  # twins
    assert ease_sides.single_item_weights(matrix, 1e6, 1) is not None
    with caplog.at_level(logging.WARNING):
        model = plain_ease(1e-3, threads=1, side="items").fit(doubled)
    assert "cannot be computed precisely in single precision" in caplog.text
    scores = model.score_block(np.arange(400))
    expected = doubled.matrix.toarray().astype(np.float64) @ by_numpy(doubled, 1e-3)
    assert_close(scores, expected, 1e-3)
    assert ease_sides.single_item_weights(doubled.matrix.astype(np.float64), 1e-3, 1) is None
    with pytest.raises(DataError, match="GB"):  # single would do with less
        plain_ease(1e-3, threads=1, side="items", memory_limit_gb=6 * 170**2 / 1e9).fit(doubled)


@pytest.mark.usefixtures("large_from_100")
def test_the_user_side_is_inverted_block_by_block_too():
    data = random_data("ones", 120, 200)
    expected = data.matrix.toarray().astype(np.float64) @ by_numpy(data, 20.0)
    assert_close(plain_ease(20.0, threads=2, side="users").fit(data).score_block(np.arange(120)), expected)


@pytest.mark.usefixtures("large_from_100")
def test_single_precision_ranks_as_double_does():
    town = tastespace.synthetic.multi_interest(n_users=500, n_items=300, n_interactions=12_000, seed=2).interactions
    train, _, test = split.per_user(town, seed=0)
    single = tastespace.evaluate(plain_ease(50.0, threads=1).fit(train), test, seen=train)["NDCG@10"]
    exact = plain_ease(50.0, threads=1).fit(train)
    exact.weights_ = ease_sides.item_weights(train.matrix.astype(np.float64), 50.0, 1)
    assert abs(single - tastespace.evaluate(exact, test, seen=train)["NDCG@10"]) < 1e-4
