"""M2F and MGMF: scores, losses and the diversity penalty against plain NumPy."""

import numpy as np
import pytest
import torch

from tastespace.errors import ParameterError
from tastespace.models.neural.base import Batch
from tastespace.models.neural.factorization import M2F, MGMF
from tastespace.paper import find_method

pytestmark = pytest.mark.usefixtures("one_core")

MODELS = {"m2f": M2F, "mgmf": MGMF}


def vectors_of(model, user):
    """The vectors of one user, in float64, with MGMF's weights of the coordinates."""
    found = model.weights_["users"][user].reshape(model.n_interests, model.dim).astype(np.float64)
    return found * model.weights_["h"] if isinstance(model, MGMF) else found


def best(model, user, item):
    return max(own @ model.weights_["items"][item].astype(np.float64) for own in vectors_of(model, user))


def some_batch(n_users=300, n_items=200):
    rng = np.random.default_rng(1)
    parts = rng.integers(n_users, size=6), rng.integers(n_items, size=6), rng.integers(n_items, size=(6, 3))
    return *parts, Batch(*(torch.tensor(part) for part in parts), None)


def loss_of(model, train, batch):
    weights = {name: torch.tensor(array).requires_grad_() for name, array in model.weights_.items()}
    return model._loss(weights, model._prepare(train, torch), batch), weights


@pytest.fixture(scope="module")
def fitted(town):
    setting = {"dim": 8, "epochs": 2, "batch_size": 256, "learning_rate": 0.05, "n_interests": 3, "threads": 1}
    return {name: cls(**setting).fit(town.interactions) for name, cls in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_the_best_of_a_users_vectors_counts(fitted, name):
    model = fitted[name]
    users = np.array([3, 0, 250])
    expected = [[best(model, user, item) for item in range(200)] for user in users]
    np.testing.assert_allclose(model.score_block(users), expected, rtol=1e-4, atol=1e-5)
    assert model.recommend([5], k=4)["interest"].is_in([0, 1, 2]).all()
    assert len(model.interests(5)) == 3


def test_mgmf_learns_by_cross_entropy(fitted, town):
    users, items, negatives, batch = some_batch()
    model = fitted["mgmf"]
    terms = [np.log1p(np.exp(-best(model, u, i))) for u, i in zip(users, items, strict=True)]
    terms += [np.log1p(np.exp(best(model, u, j))) for u, row in zip(users, negatives, strict=True) for j in row]
    assert float(loss_of(model, town.interactions, batch)[0].detach()) == pytest.approx(np.mean(terms), rel=1e-4)


def diversity(vectors):
    """The text's delta: squared distances of all ordered pairs, divided by 2 C (C - 1)."""
    count = len(vectors)
    return sum(np.square(a - b).sum() for a in vectors for b in vectors) / (2 * count * (count - 1))


@pytest.mark.parametrize("sides", [(0.05, 0.25), (4.0, 9.0), (None, 0.01), (4.0, None), (None, None)])
@pytest.mark.parametrize("dcrs", [None, "mean"])
def test_m2f_learns_by_least_squares_and_diversity(fitted, town, dcrs, sides):
    users, items, negatives, batch = some_batch()
    train, model = town.interactions, fitted["m2f"]
    terms = [(1 - best(model, u, i)) ** 2 for u, i in zip(users, items, strict=True)]
    terms += [best(model, u, j) ** 2 for u, row in zip(users, negatives, strict=True) for j in row]
    expected = np.mean(terms)
    if dcrs:
        for user in users:
            delta = diversity(vectors_of(model, user))
            low = 0.0 if sides[0] is None else max(0.0, sides[0] - delta)
            high = 0.0 if sides[1] is None else max(0.0, delta - sides[1])
            share = train.n_interactions / (train.n_users * train.user_counts[user])
            expected += 7.0 * share * (low + high) / len(users)
    changed = model.clone().set_params(dcrs=dcrs, spread_weight=7.0, min_spread=sides[0], max_spread=sides[1])
    changed.weights_ = model.weights_
    loss, _ = loss_of(changed, train, batch)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-4)


def test_an_epoch_gives_every_user_the_same_share_of_the_penalty(town):
    train = town.interactions
    user_weight = M2F()._prepare(train, torch)["user_weight"].numpy()
    per_user = np.bincount(train.row_of_each(), weights=user_weight[train.row_of_each()], minlength=train.n_users)
    np.testing.assert_allclose(per_user, train.n_interactions / train.n_users, rtol=1e-5)


def test_only_the_vector_that_scores_an_item_learns_from_it(fitted, town):
    model = fitted["m2f"]
    one = Batch(torch.tensor([4]), torch.tensor([9]), torch.tensor([[17]]), None)
    loss, weights = loss_of(model, town.interactions, one)
    loss.backward()
    moved = np.abs(weights["users"].grad.numpy()[4].reshape(3, 8)).max(axis=1) > 0
    own = vectors_of(model, 4) @ model.weights_["items"][[9, 17]].T
    assert set(np.flatnonzero(moved)) == set(own.argmax(axis=0))
    assert np.flatnonzero(np.abs(weights["users"].grad.numpy()).max(axis=1)).tolist() == [4]


def test_dcrs_keeps_the_spread_within_its_bounds(town):
    method = find_method("m2f+dcrs")
    wanted = {"dim": 8, "epochs": 15, "batch_size": 256, "min_spread": 0.3, "max_spread": 0.4, "threads": 1}
    model = method.build({**wanted, "learning_rate": 0.01}, seed=0).fit(town.interactions)
    found = [diversity(vectors_of(model, user)) for user in range(town.interactions.n_users)]
    assert np.quantile(found, 0.1) > 0.25
    assert np.quantile(found, 0.9) < 0.45
    with pytest.raises(ParameterError, match="another method"):
        method.build({"dcrs": None}, seed=0)


@pytest.mark.parametrize(
    ("cls", "parameters", "message"),
    [
        (M2F, {"n_interests": 0}, "n_interests=0"),
        (MGMF, {"n_interests": "adaptive"}, "n_interests='adaptive'"),
        (M2F, {"dcrs": "triples"}, "dcrs='triples'"),
        (M2F, {"spread_weight": -1.0}, "spread_weight=-1.0"),
        (M2F, {"min_spread": 0.5, "max_spread": 0.1}, "min_spread=0.5 is larger than max_spread=0.1"),
    ],
)
def test_bad_parameters_are_refused(town, cls, parameters, message):
    with pytest.raises(ParameterError, match=message):
        cls(**parameters).fit(town.interactions)
