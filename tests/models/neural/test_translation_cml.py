"""TransCF and LRML against their formulas, written out slowly."""

import numpy as np
import polars as pl
import pytest
from tests.models.formulas import slopes, softmax

import tastespace as ts
from tastespace.errors import ParameterError
from tastespace.models.neural.translation_cml import LRML, TransCF

torch = pytest.importorskip("torch")

from tastespace.models.neural.base import Batch  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_core")
MODELS = {"transcf": TransCF, "lrml": LRML}
SMALL = {"dim": 8, "epochs": 2, "threads": 1}


def means(train, weights):
    """Mean vectors of the neighbors, one after the other; zero for who has none."""
    users, items = np.zeros_like(weights["users"]), np.zeros_like(weights["items"])
    table = train.matrix.toarray() > 0
    for user in range(train.n_users):
        if table[user].any():
            users[user] = weights["items"][table[user]].mean(axis=0)
    for item in range(train.n_items):
        if table[:, item].any():
            items[item] = weights["users"][table[:, item]].mean(axis=0)
    return users, items


def relation(model, weights, means, user, item):
    if isinstance(model, TransCF):
        return means[0][user] * means[1][item]
    attention = softmax((weights["users"][user] * weights["items"][item]) @ weights["keys"])
    return attention @ weights["memory"]


def distance(model, weights, means, user, item, towards=None):
    """To an item, translated as towards another one if that is given."""
    r = relation(model, weights, means, user, item if towards is None else towards)
    return np.square(weights["users"][user] + r - weights["items"][item]).sum()


def doubles(weights):
    return {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in weights.items()}


def tiny_batch(train, n=7, k=3, seed=0):
    rng = np.random.default_rng(seed)
    pick = rng.choice(train.n_interactions, n)
    drawn = rng.integers(0, train.n_items, (n, k))
    return Batch(
        *(torch.as_tensor(np.asarray(a, np.int64)) for a in (train.row_of_each()[pick], train.indices[pick], drawn)),
        None,
    )


@pytest.fixture(scope="module")
def odd():
    """A user without a history, items that nobody has."""
    frame = pl.DataFrame({"user": [*"aaabbccce"], "item": [0, 1, 2, 0, 3, 1, 4, 5, 2]})
    data = ts.Interactions.from_frame(frame, catalog=list(range(9)))
    return data.subset([True] * 8 + [False])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("data", ["odd", "town"])
def test_the_score_is_minus_the_translated_distance(request, name, data):
    given = request.getfixturevalue(data)
    train = given.interactions if data == "town" else given
    model = MODELS[name](**SMALL).fit(train)
    around = means(train, model.weights_)
    users = np.array([0, 3, 1])
    expected = [
        [-distance(model, model.weights_, around, user, item) for item in range(train.n_items)] for user in users
    ]
    np.testing.assert_allclose(model.score_block(users), expected, rtol=1e-4, atol=1e-5)


def test_transcf_is_ranked_by_vectors_made_once(town):
    model = TransCF(**SMALL).fit(town.interactions)
    assert model.vectors().metric == "dot"
    assert model.vectors() is model.vectors()
    before = model.vectors()
    model.set_params(epochs=3).fit(town.interactions)
    assert model.vectors() is not before
    assert model.item_space().metric == "l2"
    np.testing.assert_array_equal(model.item_space().item_vectors, model.weights_["items"])


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("transcf", {"neighbor_weight": 0.3, "distance_weight": 0.7}),
        ("transcf", {"neighbor_weight": 0.0, "distance_weight": 0.0, "margin": 0.1}),
        ("lrml", {"negative_relation": "own"}),
        ("lrml", {"negative_relation": "positive"}),
    ],
)
def test_the_loss_of_a_batch(town, name, setting):
    train = town.interactions
    model = MODELS[name](**SMALL, **setting)
    start = model._initial_weights(train, np.random.default_rng(1))
    batch, around = tiny_batch(train), means(train, start)
    shared = setting.get("negative_relation") == "positive"
    total = 0.0
    for user, item, others in zip(batch.users.tolist(), batch.items.tolist(), batch.negatives.tolist(), strict=True):
        near = distance(model, start, around, user, item)
        far = [distance(model, start, around, user, j, towards=item if shared else None) for j in others]
        total += np.mean([max(0.0, model.margin + near - d) for d in far])
        if name == "transcf":
            apart = np.square(start["users"][user] - around[0][user]).sum()
            apart += np.square(start["items"][item] - around[1][item]).sum()
            total += setting["neighbor_weight"] * apart + setting["distance_weight"] * near
    loss = model._loss(doubles(start), model._prepare(train, torch), batch)
    assert float(loss.detach()) == pytest.approx(total / 7, rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_finite_differences(odd, name):
    """For TransCF also through the means, whose derivative is written by hand."""
    model = MODELS[name](dim=4, margin=5.0, **({"n_slots": 3} if name == "lrml" else {}))
    start = model._initial_weights(odd, np.random.default_rng(2))
    fixed, batch = model._prepare(odd, torch), tiny_batch(odd, n=5, k=2)
    weights = doubles(start)
    model._loss(weights, fixed, batch).backward()
    for part in weights.values():
        expected = slopes(lambda: model._loss(weights, fixed, batch), part)
        np.testing.assert_allclose(part.grad, expected, atol=1e-7)


def test_the_memory_of_lrml_may_leave_the_ball_if_it_is_not_confined(town):
    free = LRML(**SMALL, learning_rate=0.5, confine_memory=False).fit(town.interactions)
    assert np.linalg.norm(free.weights_["memory"], axis=1).max() > 1.5


@pytest.mark.parametrize(
    ("cls", "parameters", "message"),
    [
        (TransCF, {"margin": 0.0}, "margin=0.0"),
        (TransCF, {"neighbor_weight": -0.1}, "neighbor_weight=-0.1"),
        (TransCF, {"distance_weight": float("nan")}, "distance_weight=nan"),
        (LRML, {"n_slots": 0}, "n_slots=0"),
        (LRML, {"negative_relation": "none"}, "expected 'own' or 'positive'"),
        (LRML, {"confine_memory": 1}, "confine_memory=1: expected True or False"),
        (LRML, {"batch_size": 0}, "batch_size=0"),
    ],
)
def test_bad_parameters_are_refused(town, cls, parameters, message):
    with pytest.raises(ParameterError, match=message):
        cls(**parameters).fit(town.interactions)
