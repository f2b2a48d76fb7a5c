"""Weights of interactions: every model uses them or refuses them, none ignores them."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.data import cold_start
from tastespace.data.datasets._catalog import DATASETS
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError
from tastespace.models import create, registry
from tastespace.recommend.rerank.reranked import Reranked

pytestmark = pytest.mark.usefixtures("one_core")

SMALL = {"dim": 6, "epochs": 2, "iterations": 3, "threads": 1, "layers": (8,)}
NAMES = list(registry())
WEIGHTED = [name for name, cls in registry().items() if cls.uses_weights]


def made(name, **changes):
    cls = registry()[name]
    known = cls._parameter_names()
    return create(name, **{k: v for k, v in {**SMALL, **changes}.items() if k in known})


@pytest.fixture(scope="module")
def data():
    return ts.synthetic.multi_interest(n_users=60, n_items=40, n_interactions=700, seed=2).interactions


@pytest.fixture(scope="module")
def weighted(data):
    weights = np.random.default_rng(0).integers(1, 30, data.n_interactions).astype(np.float32)
    return replace(data, weights=weights)


def scores(model, n=60):
    return model.score_block(np.arange(n))


@pytest.mark.parametrize("name", NAMES)
def test_weights_change_the_scores_or_are_refused(data, weighted, name):
    if registry()[name].uses_weights:
        assert not np.allclose(scores(made(name).fit(weighted)), scores(made(name).fit(data)))
    else:
        with pytest.raises(DataError, match=r"does not use weights, given 687 .* weights from 1 to 29") as no:
            made(name).fit(weighted)
        assert registry()[name].__name__ in str(no.value)
        assert "without_weights()" in str(no.value)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_one_are_no_weights(data, name):
    ones = replace(data, weights=np.ones(data.n_interactions, dtype=np.float32))
    np.testing.assert_allclose(scores(made(name).fit(ones)), scores(made(name).fit(data)), rtol=1e-4, atol=1e-5)


def test_the_message_names_all_models_that_use_weights(weighted):
    with pytest.raises(DataError, match=f"take a model that uses them: {', '.join(WEIGHTED)}"):
        made("cml").fit(weighted)


def test_a_reranked_model_uses_weights_where_its_first_stage_does(data, weighted):
    reranked = Reranked(model=made("ease"), how="dd", weight=0.3, pool=10)
    assert not np.allclose(scores(reranked.fit(weighted)), scores(reranked.clone().fit(data)))
    with pytest.raises(DataError, match="Reranked does not use weights"):
        Reranked(model=made("cml")).fit(weighted)


def test_histories_in_a_frame_with_weights_are_refused(data):
    frame = pl.DataFrame({"user": [1, 1], "item": [3, 4], "weight": [2.0, 5.0]})
    for call in (made("ease").fit(data).fold_in, made("cml").fit(data).recommend_for):
        with pytest.raises(DataError, match="column weight, which fold-in does not use"):
            call(frame)


def test_without_weights(data, weighted):
    plain = weighted.without_weights()
    assert plain.weights is None
    assert plain.fingerprint() == data.fingerprint()
    assert weighted.weights is not None
    made("dpcml").fit(plain)


def test_more_interactions_and_histories_with_weights_are_refused(data, weighted):
    model = made("cml").fit(data)
    with pytest.raises(DataError, match="CML does not use weights"):
        model.partial_fit(weighted)
    for folding in (model, made("ease").fit(weighted)):
        with pytest.raises(DataError, match=r"fold-in does not use. Drop them with .without_weights"):
            folding.fold_in(weighted)


def test_negative_weights_are_refused_where_they_mean_nothing(data):
    negative = np.ones(data.n_interactions, dtype=np.float32)
    negative[3] = -2.5
    for name in ("als", "mult-vae"):
        with pytest.raises(DataError, match=r"weights of 0 or more, given 1 negative ones, the smallest -2.5"):
            made(name).fit(replace(data, weights=negative))


def test_cold_start_parts_weight(weighted):
    parts = cold_start.hold_out("t", weighted, None, None, users=0.2, items=0.2)
    table = {(user, item): weight for user, item, weight in weighted.to_frame().rows()}
    for part in (parts.train, parts.new_users, parts.new_items):
        assert part.n_interactions
        assert all(table[user, item] == weight for user, item, weight in part.to_frame().rows())


# ---- the weighted formulas ---------------------------------------------------------------------------------


@pytest.fixture
def plays():
    """Three users, three items, play counts."""
    rows = [("ann", "a", 4), ("ann", "b", 1), ("bob", "a", 2), ("bob", "c", 3), ("cy", "b", 5), ("cy", "c", 1)]
    frame = pl.DataFrame(rows, schema=["user", "item", "plays"], orient="row")
    data = Interactions.from_frame(frame, weight="plays")
    return data, np.array([[4, 1, 0], [2, 0, 3], [0, 5, 1]], dtype=float)


def test_popularity_is_the_sum_of_weights(plays):
    data, table = plays
    np.testing.assert_array_equal(ts.MostPopular().fit(data).item_scores_, table.sum(axis=0))


def test_ease_solves_the_weighted_problem(plays):
    data, table = plays
    inverse = np.linalg.inv(table.T @ table + 7.0 * np.eye(3))
    b = -inverse / np.diag(inverse)
    np.fill_diagonal(b, 0.0)
    np.testing.assert_allclose(
        scores(ts.EASE(regularization=7.0, **ts.EASE.paper_form()).fit(data), 3), table @ b, rtol=1e-5
    )


def test_item_neighbors_by_weighted_cosines(plays):
    data, table = plays
    norms = np.linalg.norm(table, axis=0)
    cosines = (table.T @ table) / (np.outer(norms, norms) + 2.0)
    np.fill_diagonal(cosines, 0.0)
    model = create("itemknn", n_neighbors=3, shrink=2.0).fit(data)
    np.testing.assert_allclose(model.similarity_.toarray(), cosines, rtol=1e-6)
    np.testing.assert_allclose(scores(model, 3), table @ cosines, rtol=1e-6)


def test_als_confidence_grows_with_the_weight(plays):
    data, table = plays
    model = create("als", dim=2, alpha=0.5, regularization=0.3, iterations=200, threads=1).fit(data)
    items = model.item_vectors_.astype(float)
    for row in range(3):
        confidence = np.where(table[row] > 0, 1 + 0.5 * table[row], 1.0)
        left = items.T @ (confidence[:, None] * items) + 0.3 * np.eye(2)
        right = items.T @ (confidence * (table[row] > 0))
        np.testing.assert_allclose(model.user_vectors_[row], np.linalg.solve(left, right), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("n_hidden", [0, 5])
def test_autoencoders_take_weights_as_counts(plays, n_hidden):
    torch = pytest.importorskip("torch")
    data, table = plays
    model = create("mult-dae", dim=4, n_hidden=n_hidden, dropout=0.0, batch_size=3, epochs=1, threads=1).fit(data)
    weights = {name: torch.tensor(array, dtype=torch.float64) for name, array in model.weights_.items()}
    x = torch.tensor(table / np.linalg.norm(table, axis=1, keepdims=True))
    code = x @ weights["in"] + weights["in_bias"]
    if n_hidden:
        code = code.tanh() @ weights["encode"].T + weights["encode_bias"]
    code = code.tanh()
    if n_hidden:
        code = (code @ weights["decode"].T + weights["decode_bias"]).tanh()
    logits = code @ weights["out"].T + weights["out_bias"]
    np.testing.assert_allclose(scores(model, 3), logits.numpy(), rtol=1e-5, atol=1e-6)
    expected = -(torch.tensor(table) * logits.log_softmax(dim=1)).sum(dim=1).mean()
    batch = next(model._batches(data, 0, torch))
    found = model._loss({name: array.float() for name, array in weights.items()}, {}, batch)
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


def test_content_profiles_are_weighted(plays):
    data, table = plays
    content = np.eye(3)[[0, 1, 1]]  # b and c have the same content
    model = create("contentknn").fit(data, item_features=content)
    np.testing.assert_allclose(scores(model, 3), table @ (content @ content.T), rtol=1e-6)


def test_named_data_sets_have_weights_in_the_raw_view_only():
    views = [(name, view) for entry in DATASETS.values() for name, view in entry.views.items()]
    assert len(views) > 10
    assert not [name for name, view in views if view.weights_and_times and name != "raw"]
