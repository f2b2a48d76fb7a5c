"""RecNet and DP-RecNet: scores and losses against their formulas, written out slowly."""

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax

import tastespace as ts
from tastespace.models.neural.base import Batch
from tastespace.models.neural.recnet import DPRecNet, RecNet

pytestmark = pytest.mark.usefixtures("one_core")


def weights_of(model, train):
    """Far from the start, where all units and distributions are nearly equal."""
    start = model._initial_weights(train, np.random.default_rng(0))
    scale = {"users": 3, "items": 10}
    return {name: scale.get(name, 0.5) * array + np.float32(0.05) for name, array in start.items()}


def scores_of(weights, user, share):
    """The embedded space's scores, the network's, and their mixture, for all items."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    embedded = w["items"] @ w["users"][user]
    mine = w["users"][user] @ w["from_user"] + w["bias"]
    network = np.array([np.maximum(0, mine + q @ w["from_item"]) @ w["out"] for q in w["items"]])
    return embedded, network, share * embedded + (1 - share) * network


def batch_of(n_users, n_items, n=6):
    rng = np.random.default_rng(1)
    parts = rng.integers(n_users, size=n), rng.integers(n_items, size=n), rng.integers(n_items, size=(n, 4))
    return Batch(*(torch.tensor(part) for part in parts), None)


def losses(model, weights, batch):
    """RecNet's loss and the expected similarity of two draws from the soft list, of each positive."""
    share = model.embedding_share
    for user, item, others in zip(batch.users.numpy(), batch.items.numpy(), batch.negatives.numpy(), strict=True):
        embedded, network, mixed = scores_of(weights, user, share)
        q = weights["items"].astype(np.float64)
        squares = (weights["users"][user].astype(np.float64) ** 2).sum() + (q[item] ** 2).sum()
        squares += (q[others] ** 2).sum(axis=1).mean()
        ranking = np.mean(
            [
                share * np.log1p(np.exp(embedded[other] - embedded[item]))
                + (1 - share) * np.log1p(np.exp(network[other] - network[item]))
                for other in others
            ]
        )
        shown = np.array([item, *others])
        chance, mix = softmax(mixed[shown]), softmax(q[shown], axis=1)
        similarity = 0.0
        for a in range(len(shown)):
            for b in range(len(shown)):
                divergence = (rel_entr(mix[a], mix[b]).sum() + rel_entr(mix[b], mix[a]).sum()) / 2
                similarity += chance[a] * chance[b] * np.exp(-divergence)
        yield ranking + model.regularization * squares, similarity


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_scores_mix_the_embedded_space_and_the_network(town, share):
    model = RecNet(dim=6, n_hidden=5, embedding_share=share, epochs=1).fit(town.interactions)
    model.weights_ = weights_of(model, town.interactions)
    model._scoring_tensors = (None, None)
    expected = [scores_of(model.weights_, user, share)[2] for user in (4, 0, 7)]
    np.testing.assert_allclose(model.score_block(np.array([4, 0, 7])), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_losses_are_those_of_the_formulas(town, share):
    plain = RecNet(dim=6, n_hidden=5, embedding_share=share, regularization=0.05)
    diverse = DPRecNet(dim=6, n_hidden=5, embedding_share=share, regularization=0.05, diversity_weight=2.0)
    weights = weights_of(plain, town.interactions)
    held = {name: torch.tensor(array) for name, array in weights.items()}
    batch = batch_of(300, 200)
    ranking, similarity = np.mean(list(losses(plain, weights, batch)), axis=0)
    assert 0.05 < similarity < 0.95  # neither all equal nor all different
    assert float(plain._loss(held, {}, batch)) == pytest.approx(ranking, rel=1e-4)
    assert float(diverse._loss(held, {}, batch)) == pytest.approx(ranking + 2.0 * similarity, rel=1e-4)


def test_similarity_has_no_gradient(town):
    """The penalty's gradient mixes lists; vectors are not torn apart for it."""
    model = DPRecNet(dim=6, n_hidden=5, embedding_share=1.0, regularization=0.0)
    start = weights_of(model, town.interactions)
    batch, gradients = batch_of(300, 200), []
    for weight in (0.0, 1.0):
        held = {name: torch.tensor(array).requires_grad_() for name, array in start.items()}
        model.set_params(diversity_weight=weight)._loss(held, {}, batch).backward()
        gradients.append(held["items"].grad)
    moved = gradients[1] - gradients[0]
    assert moved.abs().max() > 1e-6
    # With the embedded space alone, an item's score moves only along its user's vector.
    item, mine = batch.negatives[0, 0], torch.tensor(start["users"])[batch.users[0]]
    assert (torch.cat([batch.items[:, None], batch.negatives], dim=1) == item).sum() == 1
    along = moved[item] @ mine / (mine @ mine) * mine
    torch.testing.assert_close(moved[item], along, rtol=1e-3, atol=1e-6)


def test_without_weight_it_is_recnet(town):
    setting = {"dim": 6, "n_hidden": 5, "epochs": 2, "threads": 1}
    plain = RecNet(**setting).fit(town.interactions)
    same = DPRecNet(**setting, diversity_weight=0.0).fit(town.interactions)
    other = DPRecNet(**setting, diversity_weight=1.0).fit(town.interactions)
    users = np.arange(10)
    np.testing.assert_array_equal(same.score_block(users), plain.score_block(users))
    assert not np.array_equal(other.score_block(users), plain.score_block(users))


def test_items_are_compared_in_the_embedded_space(town):
    train, _, test = ts.split.per_user(town.interactions, (0.6, 0.2, 0.2), seed=0)
    model = RecNet(dim=6, n_hidden=5, epochs=1).fit(train)
    assert model.vectors() is None
    np.testing.assert_array_equal(model.item_space().item_vectors, model.weights_["items"])
    assert ts.evaluate(model, test, metrics=["MaxDiv@3"])["MaxDiv@3"] > 0
