"""AdaCML and HLR against their formulas, written out slowly."""

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.errors import ParameterError
from tastespace.models import adaptive
from tastespace.models.adaptive import HLR, AdaCML, HistoryBatch, draw_histories

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("one_core")
MODELS = {"adacml": AdaCML, "hlr": HLR}
SMALL = {"dim": 8, "epochs": 2, "threads": 1, "history": 6}


def softmax(logits):
    powers = np.exp(logits - np.max(logits))
    return powers / powers.sum()


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
    data = ts.Interactions.from_frame(frame, catalogue=list(range(9)))
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
    learnt = model._distances(weights, {}, batch, items).numpy()
    np.testing.assert_allclose(np.take_along_axis(scores, items.numpy(), axis=1), -learnt, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_of_a_batch(town, name):
    train = town.interactions
    model = MODELS[name](**SMALL)
    start = model._start(train, np.random.default_rng(1))
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
    model = MODELS[name](dim=3, history=3, margin=5.0, **({"slots": 3} if name == "hlr" else {}))
    batch = tiny_batch(model, odd, n=5, k=2)
    start = model._start(odd, np.random.default_rng(2))
    weights = {part: torch.tensor(a, dtype=torch.float64, requires_grad=True) for part, a in start.items()}
    model._loss(weights, {}, batch).backward()
    step = 1e-5
    for part in weights.values():
        numeric = np.empty(part.shape)
        for at in np.ndindex(*part.shape):
            found = []
            for sign in (1, -1):
                with torch.no_grad():
                    part[at] += sign * step
                    found.append(float(model._loss(weights, {}, batch)))
                    part[at] -= sign * step
            numeric[at] = (found[0] - found[1]) / (2 * step)
        np.testing.assert_allclose(part.grad, numeric, atol=1e-7)


def test_training_draws_histories_anew_and_scoring_does_not(town):
    train = town.interactions
    model = AdaCML(**SMALL, batch=100_000)
    first, second, again = (next(iter(model._batches(train, epoch, torch))) for epoch in (0, 1, 0))
    assert torch.equal(first.history, again.history)
    taken = [dict(zip(batch.users.tolist(), batch.history.tolist(), strict=True)) for batch in (first, second)]
    assert taken[0] != taken[1]
    np.testing.assert_array_equal(history_of(model, train), history_of(model.clone(), train))


@pytest.mark.parametrize("name", MODELS)
def test_a_list_does_not_depend_on_who_else_is_asked_about(town, name):
    model = MODELS[name](**{**SMALL, "dim": 50}).fit(town.interactions)
    every = model.score_block(np.arange(100))
    for user in range(0, 100, 7):
        np.testing.assert_array_equal(model.score_block(np.array([user]))[0], every[user])


def test_hlr_scores_in_pieces_of_any_size(town, monkeypatch):
    model = HLR(**SMALL).fit(town.interactions)
    users = np.arange(50)
    expected = model.score_block(users)
    monkeypatch.setattr(adaptive, "_REFERENCES", 70)
    monkeypatch.setattr(adaptive, "_IN_CACHE", 1)
    np.testing.assert_array_equal(model.score_block(users), expected)
    monkeypatch.setattr(adaptive, "_ITEMS_AT_ONCE", 7)
    np.testing.assert_allclose(model.score_block(users), expected, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_vectors_stay_in_the_ball(town, name):
    model = MODELS[name](**SMALL, learning_rate=0.5).fit(town.interactions)
    for side in ("users", "items"):
        norms = np.linalg.norm(model.weights_[side], axis=1)
        assert norms.max() <= 1 + 1e-5
        assert norms.max() > 0.9
    if name == "hlr":
        assert np.linalg.norm(model.weights_["memory"], axis=1).max() <= 1 + 1e-5
        assert np.linalg.norm(model.weights_["keys"], axis=0).max() <= 1 + 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_learning_lowers_the_loss_and_beats_most_popular(town, name):
    train, _, test = ts.split.per_user(town.interactions, seed=0)
    model = MODELS[name](dim=16, epochs=12, batch=256, threads=1).fit(train)
    losses = [row["loss"] for row in model.history_]
    assert losses[-1] < 0.7 * losses[0]
    ours, popular = (ts.evaluate(m, test, k=10)["NDCG@10"] for m in (model, ts.MostPopular().fit(train)))
    assert ours > 1.3 * popular


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_they_beat_most_popular_on_ml_100k(dataset_dir, name):
    dataset_dir("ml-100k")
    train, valid, test = ts.datasets.load_split("ml-100k")
    model = MODELS[name](epochs=12, validate_every=4, patience=2, threads=1).fit(train, valid)
    seen = [train, valid]
    ours, popular = (ts.evaluate(m, test, seen=seen)["NDCG@10"] for m in (model, ts.MostPopular().fit(train)))
    assert ours > 1.2 * popular


def test_a_resumed_run_ends_in_the_same_bits(town, tmp_path):
    train, valid, _ = ts.split.per_user(town.interactions, seed=0)
    setting = {**SMALL, "epochs": 5}
    whole = AdaCML(**setting).fit(train, valid)
    path = str(tmp_path / "run")
    stopped = AdaCML(**setting, checkpoint=path, checkpoint_epochs=1)
    stopped.fit(train, valid, callbacks=[lambda row: row["epoch"] < 2])
    resumed = AdaCML(**setting, checkpoint=path).fit(train, valid)
    assert len(resumed.history_) == 5
    for part, array in whole.weights_.items():
        np.testing.assert_array_equal(resumed.weights_[part], array)


@pytest.mark.parametrize(
    ("cls", "parameters", "message"),
    [
        (AdaCML, {"history": 0}, "history=0"),
        (AdaCML, {"margin": -1.0}, "margin=-1.0"),
        (HLR, {"slots": 2.5}, "slots=2.5"),
        (HLR, {"history": True}, "history=True"),
        (HLR, {"confine_memory": "yes"}, "confine_memory='yes'"),
    ],
)
def test_bad_parameters_are_refused(town, cls, parameters, message):
    with pytest.raises(ParameterError, match=message):
        cls(**parameters).fit(town.interactions)
