"""PRD and IDCF against their formulas, and the trade-off of all models that train for diverse lists."""

import numpy as np
import pytest
import torch

import tastespace as ts
from tastespace.errors import ParameterError
from tastespace.models import create
from tastespace.models.neural import factorization as diverse_mf
from tastespace.models.neural.base import Batch
from tastespace.models.neural.factorization import IDCF, PRD

pytestmark = pytest.mark.usefixtures("one_core")

FACTORS = {"dim": 16, "batch_size": 512, "learning_rate": 0.02, "n_negatives": 2, "epochs": 15}
NETWORK = {**FACTORS, "n_hidden": 8, "regularization": 1e-3, "n_negatives": 8}
SMALL = {
    "prd": FACTORS,
    "idcf": FACTORS,
    "recnet": NETWORK,
    "dp-recnet": NETWORK,
    "gcn-accdiv": {"batch_size": 512, "epochs": 4},
}


@pytest.fixture(scope="module")
def parts(town):
    return ts.split.per_user(town.interactions, (0.6, 0.2, 0.2), seed=0)


def made(name, **changes):
    return create(name, **{**SMALL[name], **changes})


def triples(seed=0, n=7, n_users=300, n_items=200):
    """A batch of positives and negatives; the loss does not check that they are."""
    rng = np.random.default_rng(seed)
    parts = rng.integers(n_users, size=n), rng.integers(n_items, size=n), rng.integers(n_items, size=(n, 3))
    return Batch(*(torch.tensor(part) for part in parts), None)


def tensors(model, train):
    start = model._initial_weights(train, np.random.default_rng(3))
    return {name: torch.tensor(array) for name, array in start.items()}, model._prepare(train, torch)


def pairs(batch):
    for user, item, others in zip(batch.users, batch.items, batch.negatives, strict=True):
        for other in others:
            yield int(user), int(item), int(other)


# ---- PRD and IDCF ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dissimilarity", ["divides", "multiplies"])
def test_prd_is_a_weighted_square_of_dissimilarity(parts, dissimilarity):
    train = parts[0]
    model = PRD(dim=6, alpha=3.0, support=0.7, regularization=0.2, dissimilarity=dissimilarity)
    weights, fixed = tensors(model, train)
    p, q = weights["users"].numpy().astype(float), weights["items"].numpy().astype(float)
    taken = train.matrix.toarray() != 0
    support = taken.sum(axis=0) ** 0.7
    support = support / support.mean()
    batch, expected = triples(), []
    for user, item, other in pairs(batch):
        a, b = taken[:, item].astype(float), taken[:, other].astype(float)
        distance = np.sqrt(1 - np.tanh(3.0 * (a @ b) / np.sqrt((a @ a) * (b @ b))))
        wanted = distance if dissimilarity == "multiplies" else 1 / max(0.1, distance)
        error = p[user] @ q[item] - p[user] @ q[other] - wanted
        penalty = p[user] @ p[user] + q[item] @ q[item] + q[other] @ q[other]
        expected.append(support[other] / 2 * error**2 + 0.2 * penalty)
    assert float(model._loss(weights, fixed, batch)) == pytest.approx(np.mean(expected), rel=1e-4)


def test_without_dissimilarity_prd_has_one_target_for_all_pairs(parts):
    for dissimilarity in ("divides", "multiplies"):
        model = PRD(alpha=0.0, dissimilarity=dissimilarity)
        assert (model._target_differences(model._prepare(parts[0], torch), triples()) == 1.0).all()


def test_large_catalogs_keep_cosines_sparse(parts, monkeypatch):
    model = PRD()
    table = model._prepare(parts[0], torch)
    monkeypatch.setattr(diverse_mf, "_MAX_DENSE_ITEMS", 10)
    sparse = model._prepare(parts[0], torch)
    assert type(table["cosines"]) is not type(sparse["cosines"])
    np.testing.assert_array_equal(
        model._target_differences(sparse, triples()), model._target_differences(table, triples())
    )


@pytest.mark.parametrize("weight", [0.0, 2.5])
def test_idcf_is_bpr_and_the_variance_of_a_users_scores(parts, weight):
    model = IDCF(dim=6, variance_weight=weight, regularization=0.2)
    weights, fixed = tensors(model, parts[0])
    p, q = weights["users"].numpy().astype(float), weights["items"].numpy().astype(float)
    batch, expected = triples(), []
    for user, item, other in pairs(batch):
        scores = q @ p[user]
        penalty = p[user] @ p[user] + q[item] @ q[item] + q[other] @ q[other]
        ranking = np.log1p(np.exp(scores[other] - scores[item]))
        expected.append(ranking + 0.2 * penalty + weight * np.var(scores))
    assert float(model._loss(weights, fixed, batch)) == pytest.approx(np.mean(expected), rel=1e-4)


# ---- all of the family -------------------------------------------------------------------------------------


def list_diversity(model, train, k=10):
    """Mean over the pairs of all lists of one minus the cosine of the two items' users."""
    top, _ = model.recommend_indices(k=k)
    taken = train.matrix.toarray() != 0
    unit = taken / np.maximum(1e-9, np.sqrt(taken.sum(axis=0)))
    cosines = unit.T @ unit
    similarity = [cosines[np.ix_(row, row)][~np.eye(k, dtype=bool)].mean() for row in top]
    return 1 - float(np.mean(similarity))


def on_average(name, parts, **changes):
    """Diversity of lists and NDCG@10, means of two seeds."""
    train, valid, test = parts
    models = [made(name, seed=seed, **changes).fit(train) for seed in (0, 1)]
    diversity = np.mean([list_diversity(model, train) for model in models])
    return diversity, np.mean([ts.evaluate(m, test, seen=[train, valid])["NDCG@10"] for m in models])


@pytest.mark.parametrize(
    ("name", "weight", "values", "gain", "price"),
    [
        # Measured: diversity 0.800, 0.807, 0.824; NDCG@10 0.323, 0.308, 0.259.
        ("prd", "alpha", (0.0, 2.0, 4.0), 0.015, 0.04),
        # 0.795, 0.807, 0.829; 0.351, 0.396, 0.317: a moderate weight helps both.
        ("idcf", "variance_weight", (0.0, 3.0, 100.0), 0.02, 0.04),
        # 0.807, 0.821, 0.841; 0.295, 0.280, 0.249.
        ("dp-recnet", "diversity_weight", (0.0, 3.0, 10.0), 0.02, 0.02),
        # 0.790, 0.798, 0.872; 0.384, 0.369, 0.136.
        ("gcn-accdiv", "trade_off", (0.0, 0.4, 0.7), 0.06, 0.15),
    ],
)
def test_more_weight_gives_more_diverse_lists_at_a_price(parts, name, weight, values, gain, price):
    found = [on_average(name, parts, **{weight: value}) for value in values]
    diversity, accuracy = zip(*found, strict=True)
    assert diversity[0] < diversity[1] < diversity[2]
    assert diversity[2] > diversity[0] + gain
    assert accuracy[2] < max(accuracy) - price


def test_multiplying_by_dissimilarity_makes_lists_less_diverse(parts):
    # Measured 0.800 and 0.797: the reading of PRD that is not the default does the opposite.
    plain, multiplied = (on_average("prd", parts, alpha=a, dissimilarity="multiplies")[0] for a in (0.0, 4.0))
    assert multiplied < plain - 0.001


@pytest.mark.parametrize("name", SMALL)
def test_they_learn_and_beat_most_popular(parts, name):
    train, valid, test = parts
    model = made(name).fit(train)
    losses = [row["loss"] for row in model.history_]
    assert losses[-1] < losses[1] < losses[0]
    seen = [train, valid]
    ours, popular = (ts.evaluate(m, test, seen=seen)["NDCG@10"] for m in (model, ts.MostPopular().fit(train)))
    assert ours > 1.6 * popular


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("prd", "alpha", -1.0),
        ("prd", "support", float("nan")),
        ("prd", "dissimilarity", "adds"),
        ("prd", "regularization", -0.1),
        ("idcf", "variance_weight", -1.0),
        ("idcf", "dim", 0),
        ("recnet", "n_hidden", 0),
        ("recnet", "embedding_share", 1.5),
        ("recnet", "regularization", "much"),
        ("dp-recnet", "diversity_weight", float("inf")),
        ("gcn-accdiv", "trade_off", 1.2),
        ("gcn-accdiv", "trade_off", -0.1),
        ("gcn-accdiv", "near_nodes", "both"),
        ("gcn-accdiv", "n_far_neighbors", 0),
        ("gcn-accdiv", "near_order", 4),
    ],
)
def test_invalid_parameters_are_named(parts, name, parameter, value):
    with pytest.raises(ParameterError, match=f"{parameter}="):
        create(name, **{parameter: value}).fit(parts[0])
