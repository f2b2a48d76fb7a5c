"""Trials: budgets, measuring, models that fail, and memory."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace import CML, EASE, Interactions, MostPopular, evaluate, split
from tastespace._util.interrupts import check_time
from tastespace.errors import DataError, ParameterError, TimeLimitError
from tastespace.models import SparseEASE
from tastespace.models.blend.weights import Accuracy
from tastespace.recipe._families import Family
from tastespace.recipe._trials import (
    Budget,
    Setting,
    Trial,
    best_of_families,
    drop_beaten,
    require_time,
    run_trials,
    sample_users,
)


def trial(family, ndcg, seconds=1.0, model=None):
    return Trial(family, model or MostPopular(), Accuracy(ndcg, ndcg), seconds)


def search(*models):
    """A search that tries these models one after the other."""
    yield from (model for model in models)  # a tuple could not be sent figures


def quiet(text):
    """Shows nothing."""


def counted(n):
    return Budget(None, n, time.monotonic())


def test_figures_are_those_of_evaluate(halves):
    train, held_out = halves
    (found,) = run_trials([Family("a", search(EASE()))], Setting(train, held_out, counted(1), quiet))
    expected = evaluate(EASE().fit(train), held_out, seen=train, metrics=["NDCG@10", "R@20", "MinorityRecall@20"])
    assert list(found.figures) == pytest.approx(list(expected.metrics.values()))
    assert found.seconds > 0


def test_without_categories_the_recall_of_minorities_is_not_known(bare):
    held_out, train = split.per_user(bare, (0.2, 0.8), seed=0)
    (found,) = run_trials([Family("a", search(EASE()))], Setting(train, held_out, counted(1), quiet))
    assert np.isnan(found.figures.minority)


def test_families_take_turns_and_searches_are_sent_their_figures(halves):
    train, held_out = halves
    sent = []

    def learning():
        for regularization in (1.0, 10.0):
            sent.append((yield EASE(regularization)))

    done = run_trials(
        [Family("a", learning()), Family("b", search(MostPopular()))], Setting(train, held_out, counted(9), quiet)
    )
    assert [one.family for one in done] == ["a", "b", "a"]
    assert sent == [done[0].objective, done[2].objective]


@pytest.mark.parametrize("n", [1, 2])
def test_a_number_of_trials_is_kept(halves, n):
    families = [Family(str(at), search(MostPopular(), MostPopular())) for at in range(2)]
    assert len(run_trials(families, Setting(*halves, counted(n), quiet))) == n


@pytest.mark.parametrize(
    "error", [DataError("too large"), MemoryError("too large"), np.linalg.LinAlgError("too large")]
)
def test_a_model_that_fails_is_left_out_with_a_warning(halves, error, monkeypatch, caplog):
    def fails(self, train, valid, progress):
        raise error

    monkeypatch.setattr(EASE, "_fit", fails)
    families = [Family("a", search(EASE(regularization=3.0), MostPopular())), Family("b", search(MostPopular()))]
    done = run_trials(families, Setting(*halves, counted(9), quiet))
    assert [one.family for one in done] == ["b", "a"]  # the search of the failed model goes on
    expected = "needs more memory" if isinstance(error, MemoryError) else "too large"
    assert "EASE(regularization=3.0) was left out: " in caplog.text
    assert expected in caplog.text


def test_other_errors_are_not_hidden(halves, monkeypatch):
    def fails(self, train, valid, progress):
        raise ZeroDivisionError

    monkeypatch.setattr(EASE, "_fit", fails)
    with pytest.raises(ZeroDivisionError):
        run_trials([Family("a", search(EASE()))], Setting(*halves, counted(9), quiet))


def test_models_that_were_beaten_are_dropped(halves):
    good, better, other = (EASE(value).fit(halves[0]) for value in (1.0, 2.0, 3.0))
    trials = [trial("a", 0.1, model=good), trial("a", 0.2, model=better), trial("b", 0.05, model=other)]
    drop_beaten(trials)
    assert [one.model.is_fitted for one in trials] == [False, True, True]
    assert repr(trials[0].model) == "EASE(regularization=1.0)"
    assert best_of_families(trials) == trials[1:]


def test_a_trained_model_ends_in_time_and_has_no_limit_afterwards(halves):
    model = CML(dim=8, epochs=1_000_000, patience=0)
    budget = Budget(2.0, None, time.monotonic())
    (found,) = run_trials([Family("a", search(model, CML(dim=8, epochs=1_000_000)))], Setting(*halves, budget, quiet))
    assert found.model.stopped_ == "time"
    assert found.model.max_minutes is None


def test_time_is_reserved_for_the_last_fits(monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr("tastespace.recipe._trials.time", SimpleNamespace(monotonic=lambda: now))
    budget = Budget(100.0, None, now - 40.0)
    done = [trial("a", 0.1, seconds=10.0), trial("a", 0.2, seconds=5.0), trial("b", 0.1, seconds=10.0)]
    assert budget.reserve(done) == pytest.approx(1.4 * (5.0 + 10.0) + 12.0)
    a, like_b, slow = (
        Family("a", search()), Family("c", search(), like="b"), Family("d", search(), seconds=30.0)
    )  # fmt: skip
    assert budget.allows(done, a)  # 40 + 1.3 * 5 + 33 < 100
    assert budget.allows(done, like_b)  # 40 + 1.3 * 10 + 33 < 100
    assert not budget.allows(done, slow)  # 40 + 1.3 * 30 + 33 > 100
    later = Budget(100.0, None, now - 62.0)
    assert not later.allows(done, a)
    assert later.allows(done, Family("e", search()))  # nothing is known of it: 62 + 33 < 100
    assert budget.minutes_left(done, 0.25) == pytest.approx((100 - 40 - 33) / 60 / 2.4)
    assert Budget(100.0, None, now - 99.0).minutes_left(done, 0.25) == 1 / 60
    assert Budget(1000.0, None, now).minutes_left(done, 0.25) == pytest.approx(250 / 60)  # a quarter at most
    assert Budget(1e-9, None, now).allows([], a)  # at least one
    assert counted(3).minutes_left(done, 0.25) is None


def test_at_most_so_many_users_are_measured(data):
    some = sample_users(data, 7)
    assert (some.user_counts > 0).sum() == 7
    kept = some.user_counts > 0
    np.testing.assert_array_equal(some.user_counts[kept], data.user_counts[kept])
    np.testing.assert_array_equal(sample_users(data, 7).user_counts, some.user_counts)
    assert sample_users(data, 1000) is data


def test_parameters_that_a_model_refuses_are_its_own_error(halves, caplog):
    model = EASE()
    model.regularization = -1.0
    assert run_trials([Family("a", search(model))], Setting(*halves, counted(1), quiet)) == []
    assert "regularization=-1.0: expected a positive, finite number" in caplog.text
    with pytest.raises(ParameterError):
        model.fit(halves[0])


def test_a_model_that_is_too_slow_is_stopped_and_its_family_with_it(halves, monkeypatch):
    """Kernels and loops look at the limit; a family like it is not tried at all."""

    def fits(self, train, valid, progress):
        while True:
            check_time()
            time.sleep(0.01)

    monkeypatch.setattr(EASE, "_fit", fits)
    budget = Budget(8.0, None, time.monotonic())
    families = [
        Family("a", search(EASE(), MostPopular())),
        Family("b", search(MostPopular()), like="a"),
        Family("c", search(MostPopular())),
    ]
    setting = Setting(*halves, budget, quiet)
    done = run_trials(families, setting)
    assert [one.family for one in done] == ["c"]
    assert 2 < budget.elapsed < 5
    assert setting.notes == [
        "EASE() was left out: it takes longer than the budget has time for.",
        "No time was left to try: b.",
    ]


def test_the_cost_of_long_histories_is_known_before(monkeypatch):
    """One user with 50,000 items: 2.5e9 pairs of items."""
    rows = [(0, item) for item in range(50_000)] + [(user, user % 7) for user in range(1, 30)]
    data = Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item"], orient="row"))
    with pytest.raises(TimeLimitError, match=r"2\.5e\+09 pairs of items of one user take longer than 10 seconds"):
        require_time(SparseEASE(), data, 10.0, threads=1)
    require_time(SparseEASE(), data, 100.0, threads=1)
    require_time(SparseEASE(), data, None, threads=1)
    require_time(MostPopular(), data, 1.0, threads=1)


def test_figures_of_all_come_from_the_same_users(data):
    model = ts.fit(data, trials=5)
    report = model.recipe_
    best = next(
        row for row in report["trials"] if row["best"] and row["model"] == report["blend"]["best_member"]["model"]
    )
    assert report["blend"]["best_member"]["ndcg"] == pytest.approx(best["NDCG@10"])
    assert report["blend"]["best_member"]["recall"] == pytest.approx(best["R@20"])
