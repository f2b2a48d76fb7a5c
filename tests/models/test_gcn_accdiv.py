"""GCN-AccDiv: graphs against NumPy's correlations, filters against powers of dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tastespace.models.gcn_accdiv import GCNAccDiv, _returns, neighbor_graph
from tastespace.models.neural.base import Batch
from tastespace.paper.methods import find_method

pytestmark = pytest.mark.usefixtures("one_core")


def dense_graph(taken, k, furthest):
    """Row by row; ties to the first."""
    with np.errstate(invalid="ignore", divide="ignore"):
        close = np.nan_to_num(np.corrcoef(taken.astype(float)))
    close = np.round(-close if furthest else close, 12)  # equal correlations may differ in their last bits
    np.fill_diagonal(close, 0.0)
    graph = np.zeros_like(close)
    for row, values in enumerate(close):
        chosen = [at for at in np.argsort(-values, kind="stable")[:k] if values[at] > 0]
        if chosen:
            graph[row, chosen] = values[chosen] / values[chosen].sum()
    return graph


def close_enough(found, expected):
    """Equal up to ties that rounding decides: the same weights in every row, and nearly all at the same places."""
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(expected, axis=1), atol=1e-5)
    assert np.mean(np.abs(found - expected).max(axis=1) < 1e-5) > 0.9


@pytest.mark.parametrize("furthest", [False, True])
@pytest.mark.parametrize("kind", ["user", "item"])
def test_neighbors_are_those_of_largest_and_smallest_correlation(patchy, kind, furthest):
    taken = patchy.matrix.toarray() != 0
    nodes = taken if kind == "user" else taken.T
    found = neighbor_graph(sp.csr_array(nodes.astype(np.float32)), 7, furthest)
    close_enough(found.toarray(), dense_graph(nodes, 7, furthest))
    sums = np.asarray(found.sum(axis=1))
    assert np.all((np.abs(sums - 1) < 1e-5) | (sums == 0))
    assert not found.diagonal().any()
    assert sums[~nodes.any(axis=1)].tolist() == [0.0] * int((~nodes.any(axis=1)).sum())


def test_graphs_do_not_depend_on_how_they_are_cut(patchy, monkeypatch):
    rows = sp.csr_array((patchy.matrix != 0).astype(np.float32))
    whole = neighbor_graph(rows, 7, False).toarray()
    monkeypatch.setattr("tastespace.models.gcn_accdiv._PAIRS_AT_ONCE", 1_000)
    np.testing.assert_array_equal(neighbor_graph(rows, 7, False).toarray(), whole)


def test_graphs_of_one_node_and_of_fewer_nodes_than_neighbors():
    assert neighbor_graph(sp.csr_array(np.ones((1, 3), dtype=np.float32)), 5, False).nnz == 0
    three = sp.csr_array(np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=np.float32))
    assert neighbor_graph(three, 5, True).toarray().tolist() == [[0, 0, 1], [0, 0, 1], [0.5, 0.5, 0]]


def mixed(model, fixed, taken, weights):
    """All scores, from dense powers of the graphs."""
    total = np.zeros(taken.shape)
    for name, share in (("near", 1 - model.trade_off), ("far", model.trade_off)):
        graph = fixed[name].toarray().astype(np.float64)
        taps = np.exp(weights[name]) / np.exp(weights[name]).sum()
        for step, tap in enumerate(taps, start=1):
            power = np.linalg.matrix_power(graph, step)
            total += share * tap * (power @ taken if getattr(model, f"{name}_nodes") == "user" else taken @ power.T)
    return total


WEIGHTS = {"near": np.array([0.3, -0.5, 1.0]), "far": np.array([0.2, -0.1]), "log_t": np.array([1.5])}


@pytest.mark.parametrize("far", ["user", "item"])
@pytest.mark.parametrize("near", ["user", "item"])
def test_scores_are_powers_of_the_graphs(patchy, near, far):
    model = GCNAccDiv(near_nodes=near, far_nodes=far, near_order=3, far_order=2, trade_off=0.3, epochs=1).fit(patchy)
    model.weights_ = {name: array.astype(np.float32) for name, array in WEIGHTS.items()}
    model._scoring_tensors = (None, None)
    expected = mixed(model, model._prepare(patchy, torch), patchy.matrix.toarray() != 0, WEIGHTS)
    np.testing.assert_allclose(model.score_block(np.arange(300)), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("far", ["user", "item"])
@pytest.mark.parametrize("near", ["user", "item"])
def test_the_loss_leaves_out_the_interaction_that_it_scores(patchy, near, far):
    model = GCNAccDiv(near_nodes=near, far_nodes=far, near_order=3, far_order=2, trade_off=0.3)
    fixed, taken = model._prepare(patchy, torch), (patchy.matrix.toarray() != 0).astype(float)
    at = np.random.default_rng(0).integers(patchy.n_interactions, size=4)
    users, items = patchy.row_of_each()[at], patchy.indices[at].astype(np.int64)
    negatives = np.array([np.flatnonzero(taken[user] == 0)[:2] for user in users])
    expected = []
    for user, item, others in zip(users, items, negatives, strict=True):
        without = taken.copy()
        without[user, item] = 0
        own, scores = mixed(model, fixed, without, WEIGHTS)[user, item], mixed(model, fixed, taken, WEIGHTS)[user]
        expected += [np.log1p(np.exp(-np.exp(1.5) * (own - scores[other]))) for other in others]
    batch = Batch(torch.tensor(users.astype(np.int64)), torch.tensor(items), torch.tensor(negatives), None)
    weights = {name: torch.tensor(array.astype(np.float32)) for name, array in WEIGHTS.items()}
    assert float(model._loss(weights, fixed, batch)) == pytest.approx(np.mean(expected), rel=1e-4)


def test_what_comes_back_is_the_diagonal_of_the_powers(patchy):
    graph = neighbor_graph(sp.csr_array((patchy.matrix != 0).astype(np.float32)), 7, False)
    for step, found in enumerate(_returns(graph, 3), start=1):
        np.testing.assert_allclose(found, np.diag(np.linalg.matrix_power(graph.toarray(), step)), atol=1e-6)


def test_an_epoch_visits_every_positive_once_and_users_one_after_the_other(patchy):
    order = GCNAccDiv()._order(patchy, epoch=3)
    np.testing.assert_array_equal(np.sort(order), np.arange(patchy.n_interactions))
    owners = patchy.row_of_each()[order]
    assert 1 + np.count_nonzero(np.diff(owners)) == len(np.unique(owners))
    assert not np.array_equal(order, GCNAccDiv()._order(patchy, epoch=4))


def test_the_papers_table_calls_it_graphdiv():
    assert find_method("GraphDiv").model == "gcn-accdiv"
