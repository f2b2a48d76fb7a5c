"""GMF, MLP and NeuMF: scores and losses against plain NumPy."""

import numpy as np
import pytest
import torch

from tastespace.errors import ParameterError
from tastespace.models.neural import ncf
from tastespace.models.neural.base import Batch
from tastespace.models.neural.ncf import GMF, MLP, NeuMF

pytestmark = pytest.mark.usefixtures("one_core")

MODELS = {"gmf": GMF, "mlp": MLP, "neumf": NeuMF}
SMALL = {"dim": 8, "epochs": 2, "batch_size": 256}


def logit(model, user, item):
    """The score as the publication writes it, for one pair, with the whole W_1 and the concatenated vectors."""
    w = {name: array.astype(np.float64) for name, array in model.weights_.items()}
    total = 0.0
    if isinstance(model, (GMF, NeuMF)):
        total += w["h" if isinstance(model, GMF) else "h_gmf"] @ (w["users"][user] * w["items"][item])
    if isinstance(model, MLP):
        z = np.concatenate([w["mlp_users"][user], w["mlp_items"][item]])
        layers = [
            np.hstack([w["w1_users"], w["w1_items"]]),
            *(w[f"w{level}"] for level in range(2, model.n_layers + 1)),
        ]
        for level, layer in enumerate(layers, start=1):
            z = np.maximum(0.0, layer @ z + w[f"b{level}"])
        total += w["h"] @ z + w["b"][0]
    return total


@pytest.fixture(scope="module")
def fitted(town):
    # A large start, so that rectifiers open and close.
    found = {}
    for name, cls in MODELS.items():
        model = cls(**SMALL, learning_rate=0.1, threads=1).fit(town.interactions)
        found[name] = model
    return found


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_publication(fitted, name, monkeypatch):
    model = fitted[name]
    monkeypatch.setattr(ncf, "_PAIRS", 7)  # several blocks of items, the last one not full
    users = np.array([3, 0, 250])
    expected = [[logit(model, user, item) for item in range(200)] for user in users]
    np.testing.assert_allclose(model.score_block(users), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_is_the_cross_entropy_of_positives_and_negatives(fitted, name):
    model = fitted[name]
    rng = np.random.default_rng(1)
    users, items, negatives = rng.integers(300, size=6), rng.integers(200, size=6), rng.integers(200, size=(6, 3))
    batch = Batch(*(torch.tensor(part) for part in (users, items, negatives)), None)
    loss = model._loss({name: torch.tensor(array) for name, array in model.weights_.items()}, {}, batch)
    terms = [np.log1p(np.exp(-logit(model, u, i))) for u, i in zip(users, items, strict=True)]
    terms += [np.log1p(np.exp(logit(model, u, j))) for u, row in zip(users, negatives, strict=True) for j in row]
    assert float(loss) == pytest.approx(np.mean(terms), rel=1e-4)


def test_the_tower_halves(town):
    shapes = {name: array.shape for name, array in MLP(**SMALL, n_layers=4).fit(town.interactions).weights_.items()}
    assert [shapes["w1_users"], shapes["w1_items"], shapes["w2"], shapes["w3"], shapes["w4"], shapes["h"]] == [
        (8, 8), (8, 8), (4, 8), (2, 4), (1, 2), (1,)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cls", "parameters", "message"),
    [
        (MLP, {"n_layers": 0}, "n_layers=0"),
        (MLP, {"dim": 8, "n_layers": 5}, r"no unit left in its last layer. Take n_layers=4 or fewer"),
        (NeuMF, {"dim": 4, "n_layers": 4}, "n_layers=4"),
        (NeuMF, {"n_negatives": 0}, "n_negatives=0"),
        (GMF, {"learning_rate": 0.0}, "learning_rate=0.0"),
    ],
)
def test_bad_parameters_are_refused(town, cls, parameters, message):
    with pytest.raises(ParameterError, match=message):
        cls(**parameters).fit(town.interactions)
