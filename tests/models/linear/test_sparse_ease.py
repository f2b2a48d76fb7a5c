"""Each item's regression on its neighbors is the one that NumPy solves; with all neighbors the model is EASE."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.models.formulas import plain_ease

import tastespace as ts
from tastespace.errors import DataError, ParameterError
from tastespace.models import SparseEASE


@pytest.fixture(scope="module")
def data():
    return ts.synthetic.multi_interest(n_users=120, n_items=70, n_interactions=2_500, seed=3).interactions


def by_numpy(matrix, n_neighbors, regularization, dropout):
    """The same regressions, one after the other, from the dense Gram matrix."""
    dense = matrix.toarray().astype(np.float64)
    gram = dense.T @ dense
    diagonal = gram.diagonal().copy()
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = gram / np.sqrt(np.outer(diagonal, diagonal))
    found = np.zeros_like(gram)
    for j in range(len(gram)):
        others = [i for i in range(len(gram)) if i != j and gram[i, j] != 0]
        near = sorted(others, key=lambda i: (-np.float32(cosine[i, j]), i))[:n_neighbors]
        penalty = regularization + dropout / (1 - dropout) * diagonal[near]
        found[near, j] = np.linalg.solve(gram[np.ix_(near, near)] + np.diag(penalty), gram[near, j])
    return found


@pytest.mark.parametrize("n_neighbors", [1, 7, 40])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_coefficients_are_those_of_every_regression(data, n_neighbors, dropout):
    model = SparseEASE(n_neighbors=n_neighbors, regularization=4.0, dropout=dropout).fit(data)
    expected = by_numpy(data.matrix, n_neighbors, 4.0, dropout)
    np.testing.assert_allclose(model.coefficients_.toarray(), expected, atol=2e-6)
    assert (np.diff(model.coefficients_.tocsc().indptr) <= n_neighbors).all()


def test_weights_and_the_power_of_users_scale_the_matrix(data):
    weights = np.random.default_rng(0).integers(1, 4, data.n_interactions)
    matrix = sp.csr_array((weights.astype(np.float32), data.indices, data.offsets), shape=data.matrix.shape)
    weighted = ts.Interactions.from_scipy(matrix, weight=True)
    model = SparseEASE(n_neighbors=9, regularization=4.0, user_power=-0.25).fit(weighted)
    scaled = sp.diags_array((data.user_counts / data.user_counts.mean()) ** -0.25) @ matrix
    np.testing.assert_allclose(model.coefficients_.toarray(), by_numpy(scaled, 9, 4.0, 0.5), atol=5e-6)
    scores = model.score_block(np.array([3, 5]))
    np.testing.assert_allclose(scores, (matrix[[3, 5]] @ model.coefficients_).toarray(), rtol=1e-6)


def test_with_all_neighbors_and_no_dropout_it_is_ease():
    data = ts.synthetic.multi_interest(n_users=300, n_items=60, n_interactions=6_000, seed=3).interactions
    assert ((data.matrix.T @ data.matrix).toarray() > 0).all()  # items without a common user are no neighbors
    model = SparseEASE(n_neighbors=data.n_items, regularization=30.0, dropout=0.0).fit(data)
    np.testing.assert_allclose(
        model.coefficients_.toarray(), plain_ease(regularization=30.0).fit(data).weights_, atol=2e-6
    )


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_the_same_bits_for_every_number_of_threads(data, threads):
    one = SparseEASE(n_neighbors=11, threads=1).fit(data).coefficients_
    other = SparseEASE(n_neighbors=11, threads=threads).fit(data).coefficients_
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.data, other.data)


def test_a_small_memory_limit_leaves_out_the_smallest_entries(data):
    """Neighbors are the same; the coefficients solve the system whose missing entries are zero."""
    n, k = data.n_items, 5
    limit = n * (16 * k + 8 * 12) / 1e9  # room for 12 entries per row
    model = SparseEASE(n_neighbors=k, regularization=4.0, dropout=0.0, memory_limit_gb=limit)
    assert model._row_length(n) == 12
    coefficients = model.fit(data).coefficients_.tocsc()
    whole = SparseEASE(n_neighbors=k, regularization=4.0, dropout=0.0).fit(data).coefficients_.tocsc()
    np.testing.assert_array_equal(coefficients.indices, whole.indices)
    dense = data.matrix.toarray().astype(np.float64)
    gram = dense.T @ dense
    kept = np.zeros_like(gram, dtype=bool)
    for i in range(n):
        others = [j for j in range(n) if j != i and gram[i, j]]
        kept[i, sorted(others, key=lambda j: (-gram[i, j], j))[:12]] = True
        near = whole[:, [i]].indices
        kept[i, near] = True
    cut = np.where(kept | kept.T, gram, 0.0)
    for j in range(n):
        near = whole.indices[whole.indptr[j] : whole.indptr[j + 1]]
        expected = np.linalg.solve(cut[np.ix_(near, near)] + np.diag(gram.diagonal()[near] + 4.0), gram[near, j])
        np.testing.assert_allclose(coefficients.data[whole.indptr[j] : whole.indptr[j + 1]], expected, atol=2e-6)


def test_items_without_interactions_have_no_coefficients():
    matrix = sp.csr_array(np.array([[1, 0, 1, 0], [1, 0, 1, 1], [0, 0, 1, 1]]))
    model = SparseEASE().fit(ts.Interactions.from_scipy(matrix))
    assert model.coefficients_[:, [1]].nnz == model.coefficients_[[1]].nnz == 0
    assert np.isfinite(model.score_block(np.arange(3))).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors=0: expected a whole number, 1 or more"),
        ({"regularization": 0.0}, "regularization=0.0: expected a positive, finite number"),
        ({"dropout": 1.0}, "dropout=1.0: expected a share from 0 to below 1"),
        ({"dropout": -0.1}, "dropout=-0.1: expected a number, 0 or more"),
        ({"user_power": np.nan}, "user_power=nan: expected a finite number"),
        ({"memory_limit_gb": 0}, "memory_limit_gb=0: expected a positive, finite number"),
    ],
)
def test_bad_parameters(data, parameters, message):
    with pytest.raises(ParameterError, match=message):
        SparseEASE(**parameters).fit(data)


def test_too_little_memory_is_refused_before_the_work(data):
    with pytest.raises(DataError, match=r"on 70 items needs at least .* GB of memory, the limit is 1e-05 GB"):
        SparseEASE(memory_limit_gb=1e-5).fit(data)


def test_users_who_were_not_in_training_get_the_same_scores(data):
    model = SparseEASE(n_neighbors=9).fit(data)
    histories = {7: data.items.take(data.indices[data.offsets[7] : data.offsets[8]]).to_list()}
    again = model.recommend_for(histories, k=5)
    assert again["item"].to_list() == model.recommend([data.users[7]], k=5)["item"].to_list()


def test_it_is_at_least_as_good_as_ease_on_real_data(dataset_dir):
    dataset_dir("ml-100k")
    train, valid, _ = ts.split.per_user(ts.datasets.load("ml-100k"), (0.6, 0.2, 0.2), seed=0)
    figures = [
        ts.evaluate(model.fit(train), valid, seen=[train], metrics=["NDCG@10"])["NDCG@10"]
        for model in (SparseEASE(regularization=100.0), plain_ease(regularization=400.0))
    ]
    assert figures[0] > 0.98 * figures[1]
