"""ItemKNN and RP3beta against every pair computed from the dense table."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tastespace import (
    Interactions,
    MostPopular,
    datasets,
    evaluate,
    split,
)
from tastespace.errors import ParameterError
from tastespace.models import item_knn
from tastespace.models.item_knn import ItemKNN, RP3beta


def brute_force(data, k, shrink, normalize=False):
    """Every pair, one after the other, from the definition."""
    table = data.matrix.toarray() > 0
    n = data.n_items
    similarity = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            both = (table[:, i] & table[:, j]).sum()
            if i != j and both:
                similarity[i, j] = both / (np.sqrt(table[:, i].sum() * table[:, j].sum()) + shrink)
    for row in similarity:
        order = sorted(range(n), key=lambda j: (-row[j], j))
        row[order[k:]] = 0
        if normalize and row.any():
            row /= row.sum()
    return similarity


@pytest.fixture(scope="module")
def data():
    matrix = sp.random_array((90, 60), density=0.08, rng=np.random.default_rng(4), format="csr")
    matrix.data[:] = 1
    return Interactions.from_scipy(matrix)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("shrink", [0.0, 3.5])
@pytest.mark.parametrize("k", [1, 7, 1000])
def test_similarities_are_those_of_every_pair(data, k, shrink, normalize, monkeypatch):
    monkeypatch.setattr(item_knn, "_PAIRS_AT_ONCE", 7 * data.n_items)  # several blocks, the last one short
    model = ItemKNN(n_neighbors=k, shrink=shrink, normalize=normalize, threads=2).fit(data)
    expected = brute_force(data, k, shrink, normalize)
    np.testing.assert_allclose(model.similarity_.toarray(), expected, rtol=1e-6)
    assert np.diff(model.similarity_.indptr).max() <= k
    assert model.similarity_.data.dtype == np.float32


def walked(table, k, alpha, beta):
    """Similarities by the definition of the walk, from the dense table of weights."""
    to_item = np.divide(table, table.sum(axis=1, keepdims=True), where=table > 0, out=np.zeros_like(table)) ** alpha
    to_user = np.divide(table, table.sum(axis=0), where=table > 0, out=np.zeros_like(table)).T ** alpha
    popularity = table.sum(axis=0)
    similarity = to_user @ to_item / np.where(popularity > 0, popularity, 1.0) ** beta
    np.fill_diagonal(similarity, 0.0)
    for row in similarity:
        row[sorted(range(len(row)), key=lambda j: (-row[j], j))[k:]] = 0.0
    return similarity


@pytest.mark.parametrize(("k", "alpha", "beta"), [(1000, 0.6, 0.3), (7, 1.0, 0.0), (7, 0.4, 0.5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_random_walks_are_those_of_every_pair(data, k, alpha, beta, weighted, monkeypatch):
    monkeypatch.setattr(item_knn, "_PAIRS_AT_ONCE", 7 * data.n_items)
    if weighted:
        matrix = data.matrix.astype(np.float64)
        matrix.data = np.random.default_rng(1).uniform(0.5, 3.0, matrix.nnz)
        data = Interactions.from_scipy(matrix, weight=True)
    model = RP3beta(n_neighbors=k, alpha=alpha, beta=beta, threads=2).fit(data)
    expected = walked(data.matrix.toarray().astype(np.float64), k, alpha, beta)
    np.testing.assert_allclose(model.similarity_.toarray(), expected, rtol=1e-5)


def test_random_walks_reach_rare_items_more_with_beta(town):
    """Popularity of what is recommended falls as more of it is taken out."""
    counts = town.interactions.item_counts
    lists = (RP3beta(beta=beta).fit(town.interactions).recommend_indices(k=10)[0] for beta in (0.0, 0.5))
    plain, corrected = (counts[found[found >= 0]].mean() for found in lists)
    assert corrected < 0.9 * plain


def test_ties_go_to_the_first_items():
    """Four items that the same two users took: all equally similar, so the index decides."""
    data = Interactions.from_scipy(sp.csr_array(np.ones((2, 4))))
    model = ItemKNN(n_neighbors=2, shrink=0.0).fit(data)
    rows = np.split(model.similarity_.indices, model.similarity_.indptr[1:-1])
    assert [row.tolist() for row in rows] == [[1, 2], [0, 2], [0, 1], [0, 1]]


def test_scores_are_histories_times_similarities(town):
    model = ItemKNN(n_neighbors=20, threads=1).fit(town.interactions)
    users = np.array([7, 0, 7, 33])
    expected = town.interactions.matrix.toarray()[users] @ model.similarity_.toarray()
    np.testing.assert_allclose(model.score_block(users), expected, rtol=1e-5)
    np.testing.assert_array_equal(model.item_scores(users), model.similarity_.toarray()[users])


def test_folded_in_users_are_scored_like_training_users(town):
    """Scores come from the history alone."""
    model = ItemKNN(threads=1).fit(town.interactions)
    user = town.interactions.users[3]
    folded = model.fold_in([town.interactions.items_of(user)])
    np.testing.assert_array_equal(folded.score_block(np.array([0]))[0], model.score_block(np.array([3]))[0])


def test_no_square_of_items_is_ever_held(monkeypatch):
    """30,000 items: dense they would be 3.6 GB; blocks hold the pairs that occur, at most as many as are allowed."""
    rng = np.random.default_rng(0)
    n_users, n_items = 2_000, 30_000
    rows, columns = rng.integers(0, n_users, 40_000), rng.integers(0, n_items, 40_000)
    data = Interactions.from_scipy(sp.csr_array((np.ones(40_000), (rows, columns)), shape=(n_users, n_items)))
    seen = []
    real = item_knn._largest_of_rows
    monkeypatch.setattr(
        item_knn,
        "_largest_of_rows",
        lambda values, common, *a: seen.append((common.shape[0], common.nnz)) or real(values, common, *a),
    )
    model = ItemKNN(n_neighbors=10, threads=1).fit(data)
    assert model.similarity_.shape == (n_items, n_items)
    assert max(n_pairs for _, n_pairs in seen) <= item_knn._PAIRS_AT_ONCE
    assert sum(n_pairs for _, n_pairs in seen) < n_items**2 / 100
    assert sum(rows for rows, _ in seen) == n_items


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors=0: expected a whole number"),
        ({"n_neighbors": 2.5}, "n_neighbors=2.5"),
        ({"shrink": -1.0}, "shrink=-1.0: expected a number, 0 or more"),
        ({"shrink": np.nan}, "shrink=nan"),
        ({"threads": -1}, "threads=-1"),
    ],
)
def test_bad_parameters(data, parameters, message):
    with pytest.raises(ParameterError, match=message):
        ItemKNN(**parameters).fit(data)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors=0: expected a whole number"),
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"beta": -0.1}, "beta=-0.1: expected a number, 0 or more"),
    ],
)
def test_bad_parameters_of_random_walks(data, parameters, message):
    with pytest.raises(ParameterError, match=message):
        RP3beta(**parameters).fit(data)


def test_it_beats_most_popular_on_the_town(town):
    train, _, test = split.per_user(town.interactions)
    popular, knn = (evaluate(m.fit(train), test, k=10)["NDCG@10"] for m in (MostPopular(), ItemKNN(threads=1)))
    assert knn > 1.3 * popular


def test_it_beats_most_popular_on_ml_100k(dataset_dir):
    dataset_dir("ml-100k")
    train, _, test = split.per_user(datasets.load("ml-100k"), seed=0)
    popular, knn = (evaluate(m.fit(train), test, k=10)["NDCG@10"] for m in (MostPopular(), ItemKNN(threads=1)))
    assert knn > 1.3 * popular
