"""Mult-VAE and Mult-DAE: their loss against torch's distributions, sparse input against dense, fold-in."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Multinomial, Normal, kl_divergence

from tastespace.errors import ParameterError
from tastespace.models.neural.autoencoders import Histories, MultDAE, MultVAE

pytestmark = pytest.mark.usefixtures("one_core")

SMALL = {"dim": 6, "epochs": 2, "batch_size": 64, "threads": 1}
MODELS = {
    "vae": lambda **more: MultVAE(**{"n_hidden": 20, **SMALL, **more}),
    "dae": lambda **more: MultDAE(**{**SMALL, **more}),
    "deep dae": lambda **more: MultDAE(**{"n_hidden": 20, **SMALL, **more}),
    "shallow vae": lambda **more: MultVAE(**{"n_hidden": 0, **SMALL, **more}),
}


def dense_encoder(model, weights, rows):
    """The network's first half on the rows of a dense matrix."""
    first = rows / rows.norm(dim=1, keepdim=True) @ weights["in"] + weights["in_bias"]
    return torch.tanh(first) @ weights["encode"].T + weights["encode_bias"] if model.n_hidden else first


def dense_decoder(model, weights, codes):
    if model.n_hidden:
        codes = torch.tanh(codes @ weights["decode"].T + weights["decode_bias"])
    return codes @ weights["out"].T + weights["out_bias"]


@pytest.fixture(scope="module")
def fitted(town):
    return {name: make(learning_rate=0.01).fit(town.interactions) for name, make in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_is_that_of_the_distributions(fitted, town, name):
    """Without dropout: the negative log-likelihood of a multinomial, and the divergence of two Gaussians."""
    train = town.interactions
    model = fitted[name].clone().set_params(dropout=0.0)
    weights = {key: torch.tensor(array) for key, array in fitted[name].weights_.items()}
    if isinstance(model, MultVAE):
        model.set_params(beta=0.7, anneal_epochs=10)
    batch = list(model._batches(train, 4, torch))[1]
    assert isinstance(batch, Histories)
    assert batch.progress == pytest.approx(4 + 64 / 300)
    rows = torch.tensor(train.matrix.toarray()[batch.users.numpy()], dtype=torch.float32)
    encoded = dense_encoder(model, weights, rows)
    if isinstance(model, MultVAE):
        mean, deviation = encoded[:, :6], torch.exp(0.5 * encoded[:, 6:])
        noise = torch.randn(mean.shape, generator=model._random(torch, 4, 64))
        codes = mean + deviation * noise
        divergence = kl_divergence(Normal(mean, deviation), Normal(0.0, 1.0)).sum(dim=1).mean()
        cost = 0.7 * batch.progress / 10 * divergence
    else:
        codes, cost = torch.tanh(encoded), 0.0
    logits = dense_decoder(model, weights, codes)
    total = 0.0
    for row, logit in zip(rows, logits, strict=True):
        n = int(row.sum())
        # torch counts the orders in which the items may have come: n! of them.
        total += math.lgamma(n + 1) - float(Multinomial(n, logits=logit).log_prob(row))
    assert float(model._loss(weights, {}, batch)) == pytest.approx(total / len(rows) + float(cost), rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_whole_history(fitted, town, name):
    model = fitted[name]
    weights = {key: torch.tensor(array) for key, array in model.weights_.items()}
    rows = torch.tensor(town.interactions.matrix.toarray()[[7, 0, 299]], dtype=torch.float32)
    encoded = dense_encoder(model, weights, rows)
    codes = encoded[:, :6] if isinstance(model, MultVAE) else torch.tanh(encoded)
    expected = dense_decoder(model, weights, codes)
    np.testing.assert_allclose(model.score_block(np.array([7, 0, 299])), expected, rtol=1e-4, atol=1e-5)


def test_dropout_keeps_the_expected_input(town):
    """On average the encoder sees what it would see of the whole history."""
    train = town.interactions
    model = MultDAE(**SMALL, dropout=0.4).fit(train)
    weights = {key: torch.tensor(array) for key, array in model.weights_.items()}
    items, offsets = torch.tensor(train.indices[: train.offsets[5]].astype(np.int64)), torch.tensor(train.offsets[:6])
    seen = []
    model._code = lambda encoded, batch: (seen.append(encoded) or encoded.tanh(), 0.0)
    for epoch in range(400):
        random = model._random(torch, epoch, 0)
        model._loss(weights, {}, Histories(torch.arange(5), items, None, random, offsets=offsets, progress=0.0))
    expected = dense_encoder(model, weights, torch.tensor(train.matrix.toarray()[:5], dtype=torch.float32))
    spread = torch.stack(seen).std(dim=0) / 20
    assert (spread > 0).all()
    assert ((torch.stack(seen).mean(dim=0) - expected).abs() < 5 * spread).all()


def test_beta_rises_to_its_cap():
    model, encoded = MultVAE(dim=3, beta=0.5, anneal_epochs=8), torch.ones(2, 6)
    whole = 0.5 * 3 * (math.e + 1 - 1 - 1)
    for progress, weight in ((0.0, 0.0), (2.0, 0.125), (8.0, 0.5), (50.0, 0.5)):
        batch = Histories(None, None, None, torch.Generator().manual_seed(0), offsets=None, progress=progress)
        assert float(model._code(encoded, batch)[1]) == pytest.approx(weight * whole)
    model.set_params(anneal_epochs=0)
    assert float(model._code(encoded, batch)[1]) == pytest.approx(0.5 * whole)


@pytest.mark.parametrize("name", MODELS)
def test_folded_in_users_are_scored_like_users_with_the_same_history(fitted, town, name):
    model, train = fitted[name], town.interactions
    folded = model.fold_in({"x": train.items_of(train.users[9]), "y": train.items_of(train.users[30])})
    np.testing.assert_allclose(folded.score_block(np.array([0, 1])), model.score_block(np.array([9, 30])), rtol=1e-5)
    ours = model.recommend([train.users[9]], k=5)["item"].to_list()
    assert folded.recommend(["x"], k=5)["item"].to_list() == ours


@pytest.mark.parametrize(
    ("cls", "parameters", "message"),
    [
        (MultVAE, {"n_hidden": -1}, "n_hidden=-1"),
        (MultDAE, {"dropout": 1.0}, r"dropout=1.0: expected the share of a history to drop, below 1"),
        (MultDAE, {"dropout": -0.1}, "dropout=-0.1"),
        (MultVAE, {"beta": -0.1}, "beta=-0.1"),
        (MultVAE, {"anneal_epochs": 1.5}, "anneal_epochs=1.5"),
    ],
)
def test_bad_parameters_are_refused(town, cls, parameters, message):
    with pytest.raises(ParameterError, match=message):
        cls(**parameters).fit(town.interactions)
