"""Dislikes in models: never in a list, against the neighbors of what is disliked, through files and updates."""

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.models import ALS, BPR, EASE, Blend, ItemKNN, SparseEASE
from tastespace.models.updating import update
from tastespace.ranking.source import ScoreSource


@pytest.fixture(scope="module")
def events():
    rng = np.random.default_rng(0)
    kinds = rng.choice(["view", "purchase", "dislike"], 600, p=[0.7, 0.2, 0.1])
    return pl.DataFrame({"user": rng.integers(0, 40, 600), "item": rng.integers(0, 30, 600), "event": kinds})


@pytest.fixture(scope="module")
def data(events):
    return ts.Interactions.from_frame(events, kind="event")


def models():
    return [EASE(), Blend([SparseEASE()], [1.0]), Blend([ts.DPCML(epochs=1, dim=4), ItemKNN()], [0.5, 0.5]),
            ts.DPCML(epochs=1, dim=4), BPR(epochs=1, dim=4), ALS(dim=4)]  # fmt: skip


@pytest.mark.parametrize("model", models(), ids=lambda one: repr(one)[:30])
def test_disliked_items_are_in_no_list(model, data, tmp_path):
    model.fit(data if model.uses_weights else data.without_weights())
    lists = model.recommend(k=30, exclude_seen=False)
    assert not len(lists.join(data.dislikes, on=["user", "item"], how="semi"))
    user, item = data.dislikes.row(0)
    if model.has_interests:
        assert all(item not in shelf.items for shelf in model.shelves(user, k=30, exclude_seen=False))
    for new in (["purchase", "dislike"], ["dislike"]):
        rows = pl.DataFrame({"user": [user] * len(new), "item": [25, 26][-len(new) :], "event": new})
        later = update(model, rows, kind="event")
        assert 26 not in later.recommend(user, k=30, exclude_seen=False)["item"].to_list()
    model.save(tmp_path / "model")
    again = ts.load(tmp_path / "model")
    assert again.recommend(user, k=30, exclude_seen=False).equals(model.recommend(user, k=30, exclude_seen=False))
    assert again.train_.events == data.events
    assert again.train_.fingerprint() == model.train_.fingerprint()


@pytest.mark.parametrize("model", [EASE(), SparseEASE(), ItemKNN(), Blend([SparseEASE()], [1.0])], ids=repr)
def test_a_dislike_counts_against_the_neighbors_of_the_item(model, data):
    model.fit(data)
    row = int(data.users.find([data.dislikes["user"][0]])[0])
    disliked = data.disliked[1][slice(*data.disliked[0][row : row + 2])]
    member = model.members_[0] if isinstance(model, Blend) else model
    plain = member.score_block(np.array([row]))[0]
    of_items = member.history_scores(member.train_.dislike_matrix[[row]])[0]
    assert len(disliked)
    assert np.abs(of_items).max() > 0
    found = ScoreSource.of(model).block(np.array([row], dtype=np.int32))[0]
    expected = plain - of_items
    if isinstance(model, Blend):
        found, expected = found - found.mean(), (expected - expected.mean()) / plain.std()
    np.testing.assert_allclose(found, expected, atol=2e-4 * np.abs(expected).max())


def test_weight_power_0_ignores_weights(data):
    users = np.arange(data.n_users)
    for cls in (EASE, SparseEASE, ALS):
        plain = cls().fit(data.without_weights()).score_block(users)
        np.testing.assert_array_equal(cls(weight_power=0.0).fit(data).score_block(users), plain)
        root = cls(weight_power=0.5).fit(data).score_block(users)
        np.testing.assert_array_equal(root, cls().fit(data.powered(0.5)).score_block(users))
        assert not np.array_equal(root, plain)


def test_evaluation_of_one_kind(data, events):
    model = EASE().fit(data)
    moved = events.with_columns(item=(pl.col("item") + 1) % 30)
    known = pl.DataFrame(data.to_frame()).select("user", "item")
    fresh = moved.join(known, on=["user", "item"], how="anti").join(data.dislikes, on=["user", "item"], how="anti")
    found = ts.evaluate(model, fresh, kind="event", target="purchase", k=5, metrics=["R"])
    expected = ts.evaluate(model, fresh.filter(event="purchase").select("user", "item"), k=5, metrics=["R"])
    assert found.metrics == expected.metrics
