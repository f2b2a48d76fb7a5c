"""The default recipe on views and purchases: validation decides how far weights count, and it pays."""

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.data import split
from tastespace.errors import ParameterError


def shop(n_users=250, n_items=120, n_groups=8, n_views=14, n_bought=6):
    """People buy from two groups of items, and view anything."""
    rng = np.random.default_rng(1)
    group = np.arange(n_items) % n_groups
    rows = []
    for user in range(n_users):
        own = np.flatnonzero(np.isin(group, rng.choice(n_groups, 2, replace=False)))
        rows += [(user, int(item), "purchase") for item in rng.choice(own, n_bought, replace=False)]
        rows += [(user, int(item), "view") for item in rng.choice(n_items, n_views, replace=False)]
    return pl.DataFrame(rows, schema=["user", "item", "event"], orient="row")


@pytest.fixture(scope="module")
def halves():
    events = shop()
    bought = ts.Interactions.from_frame(events, kind="event", target="purchase")
    _, test = split.leave_k_out(bought, 1, seed=3)
    held_out = pl.DataFrame(test.to_frame()).select("user", "item")
    return events.join(held_out, on=["user", "item"], how="anti"), held_out


def test_weights_of_kinds_pay_and_validation_finds_that(halves):
    train, test = halves
    weighted = ts.fit(train, kind="event", target="purchase", trials=2)
    plain = ts.fit(train.select("user", "item"), trials=2)
    best = weighted.members_[int(weighted.weights_.argmax())]
    assert best.weight_power >= 0.5
    found, without = (ts.evaluate(one, test, k=10, metrics=["R"])["R@10"] for one in (weighted, plain))
    assert found > 1.2 * without, (found, without)
    assert weighted.train_.weights.max() >= 5
    again = ts.update(weighted, pl.DataFrame({"user": [3], "item": [5], "event": ["purchase"]}), kind="event")
    assert again.train_.n_interactions >= weighted.train_.n_interactions


def test_weights_that_say_nothing_are_not_used():
    rng = np.random.default_rng(0)
    rows = pl.DataFrame({"user": rng.integers(0, 100, 1500), "item": rng.integers(0, 40, 1500)}).unique()
    model = ts.fit(rows.with_columns(event=pl.lit("view")), kind="event", trials=2)
    assert model.train_.weights is None
    assert all(one.get_params().get("weight_power", 1.0) == 1.0 for one in model.members_)


def test_half_life_is_for_data_with_times():
    rows = shop(n_users=40, n_items=30).with_row_index("t").with_columns(pl.col("t").cast(pl.Int64) + 1_700_000_000)
    model = ts.fit(rows, kind="event", timestamp="t", half_life="5s", trials=1)
    assert 0 < model.train_.weights.min() < 0.5
    with pytest.raises(ParameterError, match="target='purchase': the data are Interactions"):
        ts.fit(ts.Interactions.from_frame(rows, kind="event"), target="purchase", trials=1)
