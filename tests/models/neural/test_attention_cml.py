"""AdaCML and HLR against their formulas, written out slowly."""

import numpy as np
import polars as pl
import pytest
from tests.models.formulas import slopes, softmax

import tastespace as ts
from tastespace.errors import ParameterError
from tastespace.models.neural import attention_cml
from tastespace.models.neural.attention_cml import (
    HLR,
    AdaCML,
    HistoryBatch,
    draw_histories,
)

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("one_core")
MODELS = {"adacml": AdaCML, "hlr": HLR}
SMALL = {"dim": 8, "epochs": 2, "threads": 1, "max_history": 6}


def distance(model, weights, history, user, item):
    """``history`` holds the items that the user is seen through, -1 where there are fewer."""
    u, v = weights["users"][user], weights["items"][item]
    past = [weights["items"][x] for x in history if x not in (-1, item)]
    if isinstance(model, AdaCML):
        moved = u.copy()
        if past:
            for weight, x in zip(softmax([x @ v for x in past]), past, strict=True):
                moved += weight * x
        return np.square(moved - v).sum()
    relations = [softmax((x * v) @ weights["keys"]) @ weights["memory"] for x in [u, *past]]
    weight = softmax([u @ r for r in relations])
    return np.square(u + sum(w * r for w, r in zip(weight, relations, strict=True)) - v).sum()


def history_of(model, train):
    return model._prepare(train, torch)["history"].numpy()


def tiny_batch(model, train, n=7, k=3):
    rng = np.random.default_rng(0)
    pick = rng.choice(train.n_interactions, n)
    users = train.row_of_each()[pick]
    arrays = (users, train.indices[pick], rng.integers(0, train.n_items, (n, k)))
    tensors = [torch.as_tensor(np.asarray(a, np.int64)) for a in arrays]
    return HistoryBatch(*tensors, None, torch.as_tensor(history_of(model, train)[users]))


@pytest.fixture(scope="module")
def odd():
    """One user has a single item, one has none; nobody has the last items."""
    frame = pl.DataFrame({"user": [*"aaabcccce"], "item": [0, 1, 2, 3, 1, 4, 5, 2, 2]})
    data = ts.Interactions.from_frame(frame, catalog=list(range(9)))
    return data.subset([True] * 8 + [False])


def test_histories_are_drawn_from_what_users_took(town):
    train = town.interactions
    drawn = draw_histories(train, 10, np.random.default_rng(0))
    assert drawn.shape == (train.n_users, 10)
    for user, row in enumerate(drawn):
        own = set(train.indices[train.offsets[user] : train.offsets[user + 1]])
        kept = row[row >= 0]
        assert len(kept) == len(set(kept)) == min(10, len(own))
        assert set(kept) <= own
        assert (row[len(kept) :] == -1).all()
    again, other = (draw_histories(train, 10, np.random.default_rng(seed)) for seed in (0, 1))
    np.testing.assert_array_equal(again, drawn)
    assert (other != drawn).any()
    assert draw_histories(train, 10_000, np.random.default_rng(0)).shape[1] == train.user_counts.max()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("data", ["odd", "town"])
def test_the_score_is_minus_the_distance_of_the_formula(request, name, data):
    given = request.getfixturevalue(data)
    train = given.interactions if data == "town" else given
    model = MODELS[name](**SMALL).fit(train)
    history = history_of(model, train)
    users = np.array([3, 1, 0])
    expected = [
        [-distance(model, model.weights_, history[user], user, item) for item in range(train.n_items)] for user in users
    ]
    np.testing.assert_allclose(model.score_block(users), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_training_and_scoring_see_the_same_distances(town, name):
    train = town.interactions
    model = MODELS[name](**SMALL).fit(train)
    batch = tiny_batch(model, train)
    items = torch.cat([batch.items[:, None], batch.negatives], dim=1)
    weights = {part: torch.as_tensor(array) for part, array in model.weights_.items()}
    scores = model.score_block(batch.users.numpy())
    learned = model._distances(weights, {}, batch, items).numpy()
    np.testing.assert_allclose(np.take_along_axis(scores, items.numpy(), axis=1), -learned, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_of_a_batch(town, name):
    train = town.interactions
    model = MODELS[name](**SMALL)
    start = model._initial_weights(train, np.random.default_rng(1))
    batch = tiny_batch(model, train)
    total = 0.0
    rows = (part.tolist() for part in (batch.users, batch.items, batch.negatives, batch.history))
    for user, item, others, history in zip(*rows, strict=True):
        near, *far = (distance(model, start, history, user, x) for x in (item, *others))
        total += np.mean([max(0.0, model.margin + near - d) for d in far])
    loss = model._loss({part: torch.as_tensor(array) for part, array in start.items()}, {}, batch)
    assert float(loss) == pytest.approx(total / 7, rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_finite_differences(odd, name):
    model = MODELS[name](dim=3, max_history=3, margin=5.0, **({"n_slots": 3} if name == "hlr" else {}))
    batch = tiny_batch(model, odd, n=5, k=2)
    start = model._initial_weights(odd, np.random.default_rng(2))
    weights = {part: torch.tensor(a, dtype=torch.float64, requires_grad=True) for part, a in start.items()}
    model._loss(weights, {}, batch).backward()
    for part in weights.values():
        expected = slopes(lambda: model._loss(weights, {}, batch), part)
        np.testing.assert_allclose(part.grad, expected, atol=1e-7)


def test_training_draws_histories_anew_and_scoring_does_not(town):
    train = town.interactions
    model = AdaCML(**SMALL, batch_size=100_000)
    first, second, again = (next(iter(model._batches(train, epoch, torch))) for epoch in (0, 1, 0))
    assert torch.equal(first.history, again.history)
    taken = [dict(zip(batch.users.tolist(), batch.history.tolist(), strict=True)) for batch in (first, second)]
    assert taken[0] != taken[1]
    np.testing.assert_array_equal(history_of(model, train), history_of(model.clone(), train))


def test_hlr_scores_in_pieces_of_any_size(town, monkeypatch):
    model = HLR(**SMALL).fit(town.interactions)
    users = np.arange(50)
    expected = model.score_block(users)
    monkeypatch.setattr(attention_cml, "_REFERENCES", 70)
    monkeypatch.setattr(attention_cml, "_IN_CACHE", 1)
    np.testing.assert_array_equal(model.score_block(users), expected)
    monkeypatch.setattr(attention_cml, "_ITEMS_AT_ONCE", 7)
    np.testing.assert_allclose(model.score_block(users), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("cls", "parameters", "message"),
    [
        (AdaCML, {"max_history": 0}, "max_history=0"),
        (AdaCML, {"margin": -1.0}, "margin=-1.0"),
        (HLR, {"n_slots": 2.5}, "n_slots=2.5"),
        (HLR, {"max_history": True}, "max_history=True"),
        (HLR, {"confine_memory": "yes"}, "confine_memory='yes'"),
    ],
)
def test_bad_parameters_are_refused(town, cls, parameters, message):
    with pytest.raises(ParameterError, match=message):
        cls(**parameters).fit(town.interactions)
