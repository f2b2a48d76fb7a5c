"""Items taken together, and the next item of a session."""

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.errors import DataError, ParameterError, UnknownIdError
from tastespace.models import BPR
from tastespace.recommend.together import followers, next_scores


@pytest.fixture(scope="module")
def shop():
    """Baskets: bread and butter belong together, everybody buys water, two people have the same two rare things."""
    rows = [(u, "water", 5) for u in range(200)]
    rows += [(u, item, at) for u in range(60) for item, at in (("bread", 1), ("butter", 2))]
    rows += [(u, item, 9_999_999) for u in (150, 151) for item in ("harp", "lyre")]
    rows += [(u, "butter", 20 * 86_400) for u in range(60, 80)] + [(u, "bread", 1) for u in range(60, 80)]
    frame = pl.DataFrame(rows, schema=["user", "item", "at"], orient="row").with_columns(pl.col("at") + 1_700_000_000)
    about = pl.DataFrame(
        {"item": ["water", "bread", "butter", "harp", "lyre"], "kind": ["drink", *["food"] * 2, *["art"] * 2]}
    )
    return ts.Interactions.from_frame(frame, timestamp="at", item_attributes=about)


def test_the_lift_is_shrunken(shop):
    model = ts.MostPopular().fit(shop)
    found = model.taken_together(["bread", "harp"], 2)
    assert found.columns == ["item", "together", "rank", "lift", "users"]
    # Pairs divided by those of chance and ten: 80 of both, 80 * 80 / 200 by chance.
    assert found.rows()[0] == ("bread", "butter", 1, pytest.approx(80 / (80 * 80 / 200 + 10)), 80)
    assert found.rows()[1][1] == "water"
    # Two common users are no reason, though chance gives 2 * 2 / 200 of them: water has as many, and a lift as low.
    assert found.rows()[2] == ("harp", "lyre", 1, pytest.approx(2 / (0.02 + 10)), 2)
    near = model.taken_together("bread", 1, within="1d")
    assert near.rows()[0][1:] == ("butter", 1, pytest.approx(60 / (80 * 80 / 200 + 10)), 60)
    assert model.taken_together("bread", filter='kind = "drink"')["together"].to_list() == ["water"]
    with pytest.raises(UnknownIdError):
        model.taken_together("lute")
    with pytest.raises(ParameterError, match="within= needs times"):
        ts.MostPopular().fit(ts.Interactions.from_frame(shop.to_frame().drop("timestamp"))).taken_together(
            "bread", within="1d"
        )


def test_companions_agree_with_a_matrix_product(town):
    train = town.interactions
    both = ((train.matrix > 0).astype(int).T @ (train.matrix > 0).astype(int)).toarray()
    np.fill_diagonal(both, 0)
    n = train.item_counts
    lifts = both / (np.outer(n, n) / train.n_users + 10)
    found = ts.MostPopular().fit(train).taken_together([train.items[7]], train.n_items)
    rows = train.items.find(found["together"])
    assert np.allclose(found["lift"], lifts[7][rows])
    assert (np.diff(found["lift"]) <= 0).all()
    assert len(rows) == (both[7] > 0).sum()


def sequences():
    """Two series of items, always in order; a user sees one of them."""
    rng = np.random.default_rng(0)
    rows = []
    for user in range(200):
        start, first = int(rng.integers(0, 15)), 20 * (user % 2)
        rows += [(user, first + (start + at) % 20, 1_700_000_000 + at) for at in range(6)]
    return pl.DataFrame(rows, schema=["user", "item", "at"], orient="row")


@pytest.mark.parametrize("make", [ts.EASE, lambda: ts.DPCML(dim=8, epochs=3, seed=0), ts.MostPopular])
def test_the_next_item_follows_the_last(make):
    model = make().fit(ts.Interactions.from_frame(sequences(), timestamp="at"))
    found = model.next_items([3, 4, 5], 3)
    assert found.columns == ["item", "rank", "score"]
    assert found["item"][0] in (6, 7)
    assert not {3, 4, 5} & set(found["item"])
    assert model.next_items([5, 4, 99], 3)["item"][0] == 6 or make is not ts.EASE  # unknown ones are left out
    # The order matters: the last item says more than the first.
    assert model.next_items([8, 28], 1)["item"][0] >= 20 > model.next_items([28, 8], 1)["item"][0]
    assert 5 in model.next_items([4, 5], 40, include_seen=True)["item"]
    with pytest.raises(DataError, match="the session holds no item of the model"):
        model.next_items([77, 78])


def test_followers_by_hand_and_blends_and_data_without_times(town):
    frame = pl.DataFrame({"user": [1, 1, 1, 2, 2], "item": [0, 1, 2, 0, 2], "at": [1, 2, 3, 1, 2]})
    found = followers(ts.Interactions.from_frame(frame, timestamp="at")).toarray()
    counts = np.array([[0, 1, 1.5], [0, 0, 1], [0, 0, 0]])
    assert np.allclose(found, counts / (counts.sum(axis=1, keepdims=True) + 20))
    ease, bpr = ts.EASE().fit(town.interactions), BPR(dim=4, epochs=1, seed=0).fit(town.interactions)
    blend = ts.Blend.of([ease, bpr], [0.5, 0.5])
    for model in (ease, bpr, blend):
        scores = next_scores(model, np.array([5, 9]))
        assert scores.shape == (town.interactions.n_items,)
        assert np.isfinite(scores).all()
        assert scores.std() > 0
