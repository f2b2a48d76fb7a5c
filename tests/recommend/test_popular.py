"""Popular and trending items: windows of time, filters, clocks that are wrong."""

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.errors import ParameterError
from tastespace.recommend.popular import Recent, popularity

DAY = 86_400
NOW = 1_760_000_000
# Item: its interactions by age in days. The hit is popular, the star rises, the fad is over, the odd one is new.
AGES = {"hit": [*range(60)] * 4, "star": [*range(30, 60)] + [0, 1, 2, 3] * 8, "fad": [*range(20, 60)] * 3, "odd": [2]}


@pytest.fixture(scope="module")
def rows():
    listed = [(f"u{at}", item, NOW - age * DAY) for item, ages in AGES.items() for at, age in enumerate(ages)]
    return pl.DataFrame(listed, schema=["user", "item", "at"], orient="row")


@pytest.fixture(scope="module")
def model(rows):
    about = pl.DataFrame({"item": list(AGES), "year": [1990, 2020, 2000, 2024]})
    return ts.MostPopular().fit(ts.Interactions.from_frame(rows, timestamp="at", item_attributes=about))


def test_windows_and_the_rise_are_those_of_a_count_by_hand(model):
    assert model.popular_items()["item"].to_list() == ["hit", "fad", "star", "odd"]
    assert model.popular_items()["users"].to_list() == [len(AGES[item]) for item in ("hit", "fad", "star", "odd")]
    week = model.popular_items(since="7d")
    recent = {item: sum(age < 7 for age in ages) for item, ages in AGES.items()}
    assert dict(zip(week["item"], week["users"], strict=True)) == {item: n for item, n in recent.items() if n}
    assert week["item"].to_list() == ["star", "hit", "odd"]
    trending = model.popular_items(trending=True)
    before = {item: sum(7 <= age < 35 for age in ages) for item, ages in AGES.items()}
    share = sum(recent.values()) / sum(before.values())
    scores = {item: (n - before[item] * share) / np.sqrt(before[item] * share + 1) for item, n in recent.items() if n}
    assert trending["item"].to_list() == sorted(scores, key=lambda item: -scores[item]) == ["star", "odd", "hit"]
    assert np.allclose(trending["score"], sorted(scores.values(), reverse=True))


def test_a_filter_and_the_length_hold(model):
    assert model.popular_items(1, since="7d", filter="year > 2000")["item"].to_list() == ["star"]
    assert model.popular_items(trending=True, filter="year = 2000")["item"].to_list() == []
    with pytest.raises(ParameterError, match="since='soon': expected a number of days"):
        model.popular_items(since="soon")


def test_what_came_since_counts(model):
    train = model.train_
    odd = int(train.items.find(["odd"])[0])
    recent = Recent(np.full(50, odd, dtype=np.int32), np.full(50, NOW + 3_600.0))
    assert train.items[int(popularity(train, 1, since="7d", recent=recent).rows[0])] == "odd"
    assert popularity(train, 4, recent=recent).users[-1] == 51


def test_a_clock_in_the_future_moves_no_window(rows):
    wrong = pl.DataFrame({"user": ["x", "y"], "item": ["fad", "fad"], "at": [4_000_000_000, 4_000_000_001]})
    data = ts.Interactions.from_frame(pl.concat([rows, wrong]), timestamp="at")
    found = ts.MostPopular().fit(data).popular_items(since="7d")
    assert found["item"].to_list() == ["star", "hit", "odd"]


def test_windows_need_times(rows):
    model = ts.MostPopular().fit(ts.Interactions.from_frame(rows))
    for options in ({"since": "7d"}, {"trending": True}):
        with pytest.raises(
            ParameterError, match="need times, and the model was fitted without: fit it with timestamp="
        ):
            model.popular_items(**options)
