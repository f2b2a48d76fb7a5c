"""LightGCN: propagation against powers of a dense matrix, gradient and loss against plain torch."""

import numpy as np
import pytest
import torch

from tastespace.errors import ParameterError
from tastespace.models.neural.base import Batch
from tastespace.models.neural.lightgcn import (
    LightGCN,
    _propagation,
    adjacency,
    propagate,
)

pytestmark = pytest.mark.usefixtures("one_core")


def dense_propagation(train, layers):
    """(I + N + ... + N^K) / (K + 1), in float64."""
    taken = train.matrix.toarray() != 0
    n_users, n_items = taken.shape
    graph = np.zeros((n_users + n_items,) * 2)
    graph[:n_users, n_users:], graph[n_users:, :n_users] = taken, taken.T
    degrees = graph.sum(axis=1)
    roots = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    normalized = roots[:, None] * graph * roots
    return sum(np.linalg.matrix_power(normalized, power) for power in range(layers + 1)) / (layers + 1)


@pytest.mark.parametrize("n_layers", [1, 2, 3, 5])
def test_propagation_is_the_mean_of_matrix_powers(patchy, n_layers):
    start = np.random.default_rng(0).standard_normal((500, 6)).astype(np.float32)
    expected = dense_propagation(patchy, n_layers) @ start
    np.testing.assert_allclose(propagate(adjacency(patchy), start, n_layers), expected, rtol=1e-4, atol=1e-5)
    model = LightGCN(n_layers=n_layers)
    fixed = model._prepare(patchy, torch)
    graph = [fixed[name] for name in ("neighbors", "offsets", "scale")]
    found = _propagation().apply(torch.tensor(start), n_layers, *graph)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_loss_and_its_gradient_are_those_of_dense_algebra(patchy):
    model = LightGCN(dim=6, n_layers=3, regularization=0.3)
    start = model._initial_weights(patchy, np.random.default_rng(0))["nodes"]
    rng = np.random.default_rng(1)
    parts = rng.integers(300, size=9), rng.integers(200, size=9), rng.integers(200, size=(9, 2))
    users, items, negatives = (torch.tensor(part) for part in parts)

    nodes = torch.tensor(start).requires_grad_()
    loss = model._loss({"nodes": nodes}, model._prepare(patchy, torch), Batch(users, items, negatives, None))
    loss.backward()

    dense = torch.tensor(start, dtype=torch.float64).requires_grad_()
    final = torch.tensor(dense_propagation(patchy, 3)) @ dense
    total = 0.0
    for user, item, others in zip(users, items, negatives, strict=True):
        for other in others:
            gap = final[user] @ final[300 + item] - final[user] @ final[300 + other]
            total = total - torch.log(torch.sigmoid(gap)) / (9 * 2)
        rows = dense[torch.stack([user, 300 + item, *(300 + others)])]
        total = total + 0.3 / 2 * rows.square().sum() / 9
    total.backward()
    assert float(loss.detach()) == pytest.approx(float(total.detach()), rel=1e-5)
    np.testing.assert_allclose(nodes.grad, dense.grad, rtol=1e-3, atol=1e-6)


def test_the_model_is_its_propagated_vectors(town):
    model = LightGCN(dim=8, epochs=2, n_layers=2, threads=1).fit(town.interactions)
    vectors = dense_propagation(town.interactions, 2) @ model.weights_["nodes"]
    expected = vectors[[4, 0]] @ vectors[300:].T
    np.testing.assert_allclose(model.score_block(np.array([4, 0])), expected, rtol=1e-3, atol=1e-5)
    assert model.vectors() is model.vectors()  # propagated once
    before = model.vectors()
    model.set_params(epochs=3).fit(town.interactions)
    assert model.vectors() is not before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_layers": 0}, "n_layers=0"),
        ({"regularization": -1.0}, "regularization=-1.0"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_bad_parameters_are_refused(town, parameters, message):
    with pytest.raises(ParameterError, match=message):
        LightGCN(**parameters).fit(town.interactions)
