"""Splits by time: windows, histories, what is held out, and lengths of time."""

from __future__ import annotations

import datetime as dt
import itertools

import numpy as np
import polars as pl
import pytest

from tastespace import Interactions, split
from tastespace.data.merge import concat
from tastespace.data.reading.dates import duration_in, seconds_of
from tastespace.errors import DataError, ParameterError

DAY = 86_400
START = 1_600_000_000


@pytest.fixture(scope="module")
def timed() -> Interactions:
    rng = np.random.default_rng(0)
    rows = pl.DataFrame(
        {
            "user": rng.integers(0, 60, 3000),
            "item": rng.integers(0, 80, 3000),
            "t": START + rng.integers(0, 100 * DAY, 3000),
        }
    )
    return Interactions.from_frame(rows, timestamp="t")


@pytest.fixture(scope="module")
def arriving() -> Interactions:
    """Users who come one after the other, so that nobody is there before and after a moment but one."""
    users = np.repeat(np.arange(100), 10)
    rows = pl.DataFrame({"user": users, "item": np.tile(np.arange(10), 100), "t": START + np.arange(1000)})
    return Interactions.from_frame(rows, timestamp="t")


def test_windows_follow_each_other_and_train_on_all_that_was_before(timed):
    windows = split.rolling(timed, 3, test_share=0.1)
    assert len(windows) == 3
    for train, test in windows:
        assert train.timestamps.max() < test.timestamps.min()
        assert test.n_interactions == pytest.approx(0.1 * timed.n_interactions, abs=3)
    for (train, test), (later, _) in itertools.pairwise(windows):
        assert later.n_interactions == train.n_interactions + test.n_interactions
    assert windows[-1][1].timestamps.max() == timed.timestamps.max()


def test_windows_of_a_length_of_time(timed):
    end = timed.timestamps.max()
    for span in ("7d", 7, dt.timedelta(days=7), "1w", "168h"):
        windows = split.rolling(timed, 2, test_span=span)
        (_, first), (_, second) = windows
        assert second.timestamps.min() > end - 7 * DAY >= first.timestamps.max()
        assert first.timestamps.min() > end - 14 * DAY


def test_users_without_enough_history_are_left_out_of_the_later_parts(arriving):
    past, future = split.by_time(arriving, at=[START + 505], min_history=1)
    assert past.n_interactions == 505
    assert np.flatnonzero(future.user_counts).tolist() == [50]  # five items before, five after
    with pytest.raises(DataError, match="no user of the later part has 6 or more interactions before it"):
        split.by_time(arriving, at=[START + 505], min_history=6)
    with pytest.raises(DataError, match="window 1 of 2: no user of the later part has 3"):
        split.rolling(arriving, 2, test_share=0.1, min_history=3)
    ((_, test),) = split.rolling(arriving, 1, test_share=0.495, min_history=5)
    assert test.n_interactions == 5


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_windows": 0}, ParameterError, "n_windows=0"),
        ({"test_share": 0.5, "n_windows": 2}, ParameterError, "leaves something before the first window"),
        ({"test_share": 0.1, "test_span": "7d"}, ParameterError, "give one of them"),
        ({"test_span": "7 moons"}, ParameterError, "test_span='7 moons': expected a number of days, or text"),
        ({"test_span": "-7d"}, ParameterError, "test_span='-7d'"),
        ({"test_span": 0}, ParameterError, "above 0"),
        ({"test_span": "1y"}, DataError, "no interactions before the first window"),
        ({"test_span": "1min", "n_windows": 30}, DataError, "no interactions in window 1 of 30"),
        ({"min_history": -1}, ParameterError, "min_history=-1"),
    ],
)
def test_what_cannot_be_windows(timed, options, error, message):
    with pytest.raises(error, match=message):
        split.rolling(timed, **options)


def test_windows_need_times(timed):
    from dataclasses import replace

    with pytest.raises(DataError, match="read it with timestamp="):
        split.rolling(replace(timed, timestamps=None))


def test_the_unit_of_times_is_told_by_their_size():
    for per_second, kind in ((1, "s"), (10**3, "ms"), (10**6, "us"), (10**9, "ns")):
        assert duration_in("1d", np.array([START * per_second]), "x") == DAY * per_second, kind
    assert duration_in(dt.timedelta(hours=1), np.array([5]), "x", unit="s") == 3600
    with pytest.raises(DataError, match="the latest timestamp is 5, which is no time after 1973"):
        duration_in("1d", np.array([5]), "x")
    with pytest.raises(ParameterError, match="unit='m'"):
        duration_in("1d", np.array([5]), "x", unit="m")
    for bad in (True, None, [1], float("nan")):
        with pytest.raises(ParameterError, match="expected"):
            seconds_of(bad, "x")


def test_the_last_interactions_are_held_out(timed):
    parts = split.hold_out(timed, 0.2)
    assert parts.how == "the last 20 % of the interactions"
    assert parts.rest.timestamps.max() < parts.held_out.timestamps.min()
    assert parts.rest.n_interactions == pytest.approx(0.8 * timed.n_interactions, abs=2)
    assert (parts.rest.user_counts[parts.held_out.user_counts > 0] > 0).all()
    assert parts.n_cold == 0
    at_random = split.hold_out(timed, 0.2, by="random", seed=3)
    expected = 0.2 * timed.user_counts
    off = at_random.held_out.user_counts - expected
    assert (np.abs(off) < 1).all()
    assert off.max() > 0 > off.min()  # rounded up for some, down for others
    assert at_random.held_out.n_interactions == pytest.approx(expected.sum(), abs=3 * 0.5 * timed.n_users**0.5)
    assert concat(at_random.rest, at_random.held_out).fingerprint() == timed.fingerprint()


def test_short_histories_are_held_out_as_often_as_long_ones():
    rows = pl.DataFrame({"user": np.repeat(np.arange(4_000), 3), "item": np.tile(np.arange(3), 4_000)})
    pairs = pl.DataFrame({"user": np.repeat(np.arange(4_000, 4_100), 2), "item": np.tile(np.arange(2), 100)})
    data = Interactions.from_frame(pl.concat([rows, pairs]))
    found = split.hold_out(data, 0.1, seed=1)
    counts = found.held_out.user_counts
    assert set(counts[:4_000].tolist()) == {0, 1}
    assert not counts[4_000:].any()
    assert counts.sum() == pytest.approx(0.3 * 4_000, abs=4 * (4_000 * 0.3 * 0.7) ** 0.5)


def test_users_without_an_earlier_history_are_counted_and_left_out():
    rows = [{"user": f"old{u}", "item": i, "t": START + i} for u in range(30) for i in range(20)]
    rows += [{"user": f"new{u}", "item": u, "t": START + 19} for u in range(7)]
    parts = split.hold_out(Interactions.from_frame(pl.DataFrame(rows), timestamp="t"), 0.1)
    assert parts.n_cold == 7
    assert parts.notes == ["7 users have no history before the held-out part and do not count."]
    assert all(user.startswith("old") for user in parts.held_out.to_frame()["user"])


def test_the_last_items_of_each_where_nobody_stays(arriving):
    parts = split.hold_out(arriving, 0.2)
    assert parts.how == "the last 20 % of each history"
    assert (parts.held_out.user_counts == 2).all()
    assert set(parts.held_out.indices.tolist()) == {8, 9}
    alike = split.hold_out(
        Interactions.from_frame(arriving.to_frame().with_columns(timestamp=5), timestamp="timestamp"), 0.2
    )
    assert (alike.held_out.user_counts == 2).all()


def test_folds_divide_the_data(timed):
    pairs = split.folds(timed, 4, seed=1)
    total = sum(test.n_interactions for _, test in pairs)
    assert total == timed.n_interactions
    for train, test in pairs:
        assert train.n_interactions + test.n_interactions == timed.n_interactions
        assert (abs(test.user_counts - timed.user_counts / 4) < 1).all()
    with pytest.raises(ParameterError, match="n=1"):
        split.folds(timed, 1)
    with pytest.raises(DataError, match="cannot be divided into 9 folds"):
        split.folds(Interactions.from_frame(pl.DataFrame({"user": [1, 2], "item": [1, 2]})), 9)


def test_old_interactions_weigh_less(timed):
    weighted = timed.with_half_life("30d")
    age = (timed.timestamps.max() - timed.timestamps) / (30 * DAY)
    np.testing.assert_allclose(weighted.weights, 0.5**age, rtol=1e-5)
    twice = weighted.with_half_life(30)
    np.testing.assert_allclose(twice.weights, 0.25**age, rtol=1e-5)
    assert (timed.with_half_life("1s").weights > 0).all()
    later = timed.with_half_life("30d", latest=timed.timestamps.max() - 30 * DAY)
    np.testing.assert_allclose(later.weights, 2 * weighted.weights, rtol=1e-5)
    assert np.isfinite(timed.with_half_life("1s", latest=0).weights).all()
    dates = timed.to_frame().with_columns(day=pl.from_epoch("timestamp"))
    dated = Interactions.from_frame(dates, timestamp="day").with_half_life("30d")
    np.testing.assert_allclose(dated.weights, weighted.weights, rtol=1e-5)


def test_a_half_life_needs_times_of_a_known_unit(timed):
    from dataclasses import replace

    with pytest.raises(DataError, match="with_half_life needs timestamps"):
        replace(timed, timestamps=None).with_half_life(30)
    with pytest.raises(DataError, match="Say it with unit="):
        replace(timed, timestamps=np.arange(timed.n_interactions)).with_half_life(30)
    with pytest.raises(ParameterError, match="half_life='soon': expected"):
        timed.with_half_life("soon")


def test_a_half_life_changes_what_a_model_learns(timed):
    from tastespace import EASE, MostPopular

    for kind in (EASE, MostPopular):
        plain, weighted = kind().fit(timed), kind().fit(timed.with_half_life("10d"))
        users = np.arange(5)
        assert not np.allclose(plain.score_block(users), weighted.score_block(users))


def test_half_of_the_history_must_lie_before_the_cut():
    """Where most interactions have the latest time, a global cut would leave too little to learn from."""
    for n_early, how in ((9, "of the interactions"), (7, "of each history")):
        times = [item if item < n_early else 99 for item in range(20)]
        rows = [{"user": user, "item": item, "t": times[item]} for user in range(40) for item in range(20)]
        found = split.hold_out(Interactions.from_frame(pl.DataFrame(rows), timestamp="t"), 0.2)
        assert found.how == f"the last 20 % {how}"
