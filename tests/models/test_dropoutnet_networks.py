"""Fusion networks against NumPy, gradients against finite differences, statistics of batch normalization."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tastespace.errors import ParameterError
from tastespace.models.dropoutnet.networks import (
    Dense,
    FusionNetwork,
    SparseRows,
    batch_normalize,
    find_extractor,
    register_extractor,
)

pytestmark = pytest.mark.usefixtures("one_core")

DIM, FEATURES, N_VECTORS, N = 3, 7, 2, 9


@pytest.fixture
def network():
    rng = np.random.default_rng(0)
    shape = FusionNetwork("user", N_VECTORS, DIM, FEATURES, (5, 4))
    start = shape.initial_weights(rng, 2.0)
    weights = {name: rng.normal(0, 0.7, array.shape) for name, array in start.items()}
    content = sp.random_array((N, FEATURES), density=0.4, rng=rng, format="csr")
    preference = rng.normal(size=(N, N_VECTORS, DIM))
    preference[::3] = 0.0
    return shape, weights, content, preference


def tensors(weights):
    return {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}


def sparse(content):
    rows = SparseRows.of(content, None, torch, "cpu")
    return SparseRows(rows.columns, rows.starts, rows.values.double())


def by_hand(shape, weights, content, preference):
    """Network by network, layer by layer."""
    own = {name.removeprefix("user_"): array for name, array in weights.items()}
    found = np.empty_like(preference)
    for c in range(shape.n_vectors):
        first = shape.layers[0]
        table = own["content"][:, c * first : (c + 1) * first]
        x = preference[:, c] @ own["preference"][c] + content.toarray().astype(np.float32) @ table
        for level in range(1, len(shape.layers) + 1):
            if level > 1:
                x = x @ own[f"layer{level}"][c]
            x = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)
            x = np.tanh(x * own[f"scale{level}"][c] + own[f"shift{level}"][c])
        found[:, c] = x @ own["out"][c] + own["bias"][c]
    return found


def test_the_penalty_is_half_the_squares_of_all_layers(network):
    shape, weights, *_ = network
    layers = [a for name, a in weights.items() if not any(word in name for word in ("scale", "shift", "bias"))]
    found = shape.l2_penalty(tensors(weights)).item()
    assert found == pytest.approx(sum(np.square(a).sum() for a in layers) / 2)


def test_forward(network):
    shape, weights, content, preference = network
    found = shape.fuse(tensors(weights), torch.tensor(preference), sparse(content), batch_normalize)
    np.testing.assert_allclose(found.detach().numpy(), by_hand(*network), atol=1e-6)


def test_gradients_are_slopes(network):
    shape, weights, content, preference = network
    rng = np.random.default_rng(1)
    direction = rng.normal(size=preference.shape)
    learned, inputs = tensors(weights), torch.tensor(preference, requires_grad=True)
    (shape.fuse(learned, inputs, sparse(content), batch_normalize) * torch.tensor(direction)).sum().backward()
    for name, array in weights.items():
        place = tuple(rng.integers(0, size) for size in array.shape)
        values = []
        for step in (1e-5, -1e-5):
            moved = {**weights, name: array.copy()}
            moved[name][place] += step
            values.append((by_hand(shape, moved, content, preference) * direction).sum())
        slope = (values[0] - values[1]) / 2e-5
        assert float(learned[name].grad[place]) == pytest.approx(slope, rel=1e-3, abs=1e-5), name
    assert inputs.grad.abs().sum() > 0


def test_statistics_are_over_all_rows_with_and_without_preference(network):
    shape, weights, content, preference = network
    learned = {name: torch.tensor(array) for name, array in weights.items()}
    found = shape.population_statistics(learned, torch.tensor(preference), sparse(content), dropout=0.5)
    both = np.concatenate([preference, np.zeros_like(preference)])
    expected = by_hand(shape, weights, sp.vstack([content, content]), both)
    settled = shape.fuse(learned, torch.tensor(preference), sparse(content), shape.population_normalizer(found))
    np.testing.assert_allclose(settled.numpy(), expected[:N], atol=1e-5)
    alone = shape.population_statistics(learned, torch.tensor(preference), sparse(content), dropout=0.0)
    settled = shape.fuse(learned, torch.tensor(preference), sparse(content), shape.population_normalizer(alone))
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
    shape = FusionNetwork("item", 1, 20, 300, (64, 32))
    weights = {n: torch.tensor(a) for n, a in shape.initial_weights(rng, content.power(2).sum() / 400).items()}
    rows = SparseRows.of(content, None, torch, "cpu")
    from_content = rows.times(weights["item_content"]).std()
    from_preference = (torch.randn(400, 20) @ weights["item_preference"][0]).std()
    assert 0.7 < from_content / from_preference < 1.4
    vectors = shape.fuse(weights, torch.randn(400, 1, 20), rows, batch_normalize)
    assert 0.7 < vectors.norm(dim=2).mean() < 1.4


def test_extractors():
    assert find_extractor("identity").width(9) == 9
    dense = find_extractor("dense:4")
    weights = {n: torch.tensor(a) for n, a in dense.initial_weights(3, np.random.default_rng(0)).items()}
    rows = SparseRows.of(sp.csr_array(np.eye(3)), None, torch, "cpu")
    expected = np.tanh(weights["table"].numpy())
    np.testing.assert_allclose(dense.extract(weights, rows).numpy(), expected, atol=1e-6)
    register_extractor("own", Dense(2))
    assert find_extractor("own").width(9) == 2
    for name in ("dense", "dense:0", "dense:x", "idendity"):
        with pytest.raises(ParameterError, match="no content extractor"):
            find_extractor(name)
    with pytest.raises(ParameterError, match="without a colon"):
        register_extractor("a:b", Dense(2))
