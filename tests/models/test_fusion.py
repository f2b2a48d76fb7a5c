"""Fusion networks against plain NumPy, their gradients against differences, and statistics against their meaning."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tastespace.errors import ParameterError
from tastespace.models.extractors import Dense, find_extractor, register
from tastespace.models.fusion import Pyramid, SparseRows, by_batch

pytestmark = pytest.mark.usefixtures("one_core")

DIM, FEATURES, COPIES, N = 3, 7, 2, 9


@pytest.fixture
def network():
    rng = np.random.default_rng(0)
    pyramid = Pyramid("user", COPIES, DIM, FEATURES, (5, 4))
    start = pyramid.start(rng, 2.0)
    weights = {name: rng.normal(0, 0.7, array.shape) for name, array in start.items()}
    content = sp.random_array((N, FEATURES), density=0.4, rng=rng, format="csr")
    preference = rng.normal(size=(N, COPIES, DIM))
    preference[::3] = 0.0
    return pyramid, weights, content, preference


def tensors(weights):
    return {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}


def sparse(content):
    rows = SparseRows.of(content, None, torch, "cpu")
    return SparseRows(rows.columns, rows.starts, rows.values.double())


def by_hand(pyramid, weights, content, preference):
    """Copy after copy, layer after layer."""
    own = {name.removeprefix("user_"): array for name, array in weights.items()}
    found = np.empty_like(preference)
    for copy in range(pyramid.copies):
        first = pyramid.layers[0]
        table = own["content"][:, copy * first : (copy + 1) * first]
        x = preference[:, copy] @ own["preference"][copy] + content.toarray().astype(np.float32) @ table
        for level in range(1, len(pyramid.layers) + 1):
            if level > 1:
                x = x @ own[f"layer{level}"][copy]
            x = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)
            x = np.tanh(x * own[f"scale{level}"][copy] + own[f"shift{level}"][copy])
        found[:, copy] = x @ own["out"][copy] + own["bias"][copy]
    return found


def test_the_penalty_is_half_the_squares_of_all_layers(network):
    pyramid, weights, *_ = network
    layers = [a for name, a in weights.items() if not any(word in name for word in ("scale", "shift", "bias"))]
    found = pyramid.penalty(tensors(weights)).item()
    assert found == pytest.approx(sum(np.square(a).sum() for a in layers) / 2)


def test_forward(network):
    pyramid, weights, content, preference = network
    found = pyramid.fuse(tensors(weights), torch.tensor(preference), sparse(content), by_batch)
    np.testing.assert_allclose(found.detach().numpy(), by_hand(*network), atol=1e-6)


def test_gradients_are_slopes(network):
    pyramid, weights, content, preference = network
    rng = np.random.default_rng(1)
    direction = rng.normal(size=preference.shape)
    learned, inputs = tensors(weights), torch.tensor(preference, requires_grad=True)
    (pyramid.fuse(learned, inputs, sparse(content), by_batch) * torch.tensor(direction)).sum().backward()
    for name, array in weights.items():
        place = tuple(rng.integers(0, size) for size in array.shape)
        values = []
        for step in (1e-5, -1e-5):
            moved = {**weights, name: array.copy()}
            moved[name][place] += step
            values.append((by_hand(pyramid, moved, content, preference) * direction).sum())
        slope = (values[0] - values[1]) / 2e-5
        assert float(learned[name].grad[place]) == pytest.approx(slope, rel=1e-3, abs=1e-5), name
    assert inputs.grad.abs().sum() > 0


def test_statistics_are_those_of_everybody_with_and_without_preference(network):
    pyramid, weights, content, preference = network
    learned = {name: torch.tensor(array) for name, array in weights.items()}
    found = pyramid.population(learned, torch.tensor(preference), sparse(content), dropout=0.5)
    both = np.concatenate([preference, np.zeros_like(preference)])
    expected = by_hand(pyramid, weights, sp.vstack([content, content]), both)
    settled = pyramid.fuse(learned, torch.tensor(preference), sparse(content), pyramid.by(found))
    np.testing.assert_allclose(settled.numpy(), expected[:N], atol=1e-5)
    alone = pyramid.population(learned, torch.tensor(preference), sparse(content), dropout=0.0)
    settled = pyramid.fuse(learned, torch.tensor(preference), sparse(content), pyramid.by(alone))
    np.testing.assert_allclose(settled.numpy(), by_hand(*network), atol=1e-5)


def test_some_rows_of_a_sparse_matrix():
    matrix = sp.csr_array(np.array([[0, 2, 0], [0, 0, 0], [1, 0, 3.0]]))
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    rows = np.array([2, 1, 0, 2])
    found = SparseRows.of(matrix, rows, torch, "cpu").times(torch.tensor(table))
    np.testing.assert_array_equal(found.numpy(), matrix.toarray()[rows] @ table)


def test_layers_start_at_the_same_size():
    rng = np.random.default_rng(3)
    content = sp.csr_array((rng.random((400, 300)) < 0.1).astype(np.float32))
    pyramid = Pyramid("item", 1, 20, 300, (64, 32))
    weights = {n: torch.tensor(a) for n, a in pyramid.start(rng, content.power(2).sum() / 400).items()}
    rows = SparseRows.of(content, None, torch, "cpu")
    told = rows.times(weights["item_content"]).std()
    known = (torch.randn(400, 20) @ weights["item_preference"][0]).std()
    assert 0.7 < told / known < 1.4
    vectors = pyramid.fuse(weights, torch.randn(400, 1, 20), rows, by_batch)
    assert 0.7 < vectors.norm(dim=2).mean() < 1.4


def test_extractors():
    assert find_extractor("identity").width(9) == 9
    dense = find_extractor("dense:4")
    weights = {n: torch.tensor(a) for n, a in dense.start(3, np.random.default_rng(0)).items()}
    rows = SparseRows.of(sp.csr_array(np.eye(3)), None, torch, "cpu")
    expected = np.tanh(weights["table"].numpy())
    np.testing.assert_allclose(dense.extract(weights, rows).numpy(), expected, atol=1e-6)
    register("own", Dense(2))
    assert find_extractor("own").width(9) == 2
    for name in ("dense", "dense:0", "dense:x", "idendity"):
        with pytest.raises(ParameterError, match="no content extractor"):
            find_extractor(name)
    with pytest.raises(ParameterError, match="without a colon"):
        register("a:b", Dense(2))
