"""DPCML(n_interests="auto"): what is compared, what is kept, and everything that uses the number afterwards."""

from __future__ import annotations

import logging

import numpy as np
import polars as pl
import pytest

import tastespace
from tastespace import (
    CML,
    DPCML,
    EASE,
    Blend,
    evaluate,
    split,
    synthetic,
)
from tastespace.errors import ParameterError, TrainingError
from tastespace.models.dpcml import _n_interests as interest_search

SMALL = {"dim": 6, "epochs": 6, "validate_every": 1, "patience": 3, "seed": 0, "threads": 1}


@pytest.fixture(scope="module")
def parts():
    town = synthetic.multi_interest(n_users=70, n_items=60, n_interactions=1500, seed=4).interactions
    return split.per_user(town, (0.6, 0.2, 0.2), seed=0)


@pytest.fixture(scope="module")
def chosen(parts):
    return DPCML(**SMALL, n_interests="auto").fit(parts[0], valid=parts[1])


def assert_same_vectors(one, other):
    for name in ("user_vectors_", "user_offsets_", "item_vectors_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_the_number_that_does_best_on_validation_data_is_kept(parts, chosen):
    train, valid, _ = parts
    tried = [DPCML(**SMALL, n_interests=n).fit(train, valid=valid) for n in (1, 2, 4)]
    figures = [evaluate(one, valid, seen=train, metrics=[one.monitor])[one.monitor] for one in tried]
    best = tried[int(np.argmax(figures))]
    assert chosen.n_interests_ == best.n_interests
    assert chosen.n_interests == "auto"
    assert_same_vectors(chosen, best)
    assert (chosen.best_epoch_, len(chosen.history_), chosen.stopped_) == (
        best.best_epoch_, len(best.history_), best.stopped_,
    )  # fmt: skip


@pytest.mark.parametrize("best", [1, 2, 4])
def test_each_number_can_win(parts, monkeypatch, best):
    figures = {1: 0.3, 2: 0.3, 4: 0.3, best: 0.4}
    monkeypatch.setattr(interest_search, "_figure", lambda model: figures[model.n_interests])
    model = DPCML(**SMALL, n_interests="auto").fit(parts[0], valid=parts[1])
    assert model.n_interests_ == best
    assert (np.diff(model.user_offsets_) == best).all()
    assert model.has_interests


def test_of_equally_good_numbers_the_smallest_is_kept(parts, monkeypatch):
    monkeypatch.setattr(interest_search, "_figure", lambda model: 0.3)
    assert DPCML(**SMALL, n_interests="auto").fit(parts[0], valid=parts[1]).n_interests_ == 1


def test_the_monitor_decides(parts):
    train, valid, _ = parts
    for monitor in ("R@20", "P@3"):
        model = DPCML(**SMALL, n_interests="auto", monitor=monitor).fit(train, valid=valid)
        tried = [DPCML(**SMALL, n_interests=n, monitor=monitor).fit(train, valid=valid) for n in (1, 2, 4)]
        figures = [max(row[monitor] for row in one.history_) for one in tried]
        assert model.n_interests_ == (1, 2, 4)[int(np.argmax(figures))]
    with pytest.raises(ParameterError, match="no metric 'loss'"):
        DPCML(**SMALL, n_interests="auto", monitor="loss").fit(train, valid=valid)


def test_without_validation_data_everything_is_learned_from_in_the_end(parts):
    train = parts[0]
    model = DPCML(**SMALL, n_interests="auto").fit(train)
    held_out, rest = split.per_user(train, (0.2, 0.8), seed=SMALL["seed"])
    inner = DPCML(**SMALL, n_interests="auto").fit(rest, valid=held_out)
    assert model.n_interests_ == inner.n_interests_
    expected = DPCML(**{**SMALL, "epochs": inner.best_epoch_}, n_interests=inner.n_interests_).fit(train)
    assert_same_vectors(model, expected)
    assert model.epochs == SMALL["epochs"]
    assert model.train_ is train
    nothing = parts[1].subset(np.zeros(parts[1].n_interactions, dtype=bool))
    assert_same_vectors(DPCML(**SMALL, n_interests="auto").fit(train, valid=nothing), model)


def test_histories_too_short_give_one_vector_and_a_warning(caplog):
    frame = pl.DataFrame({"user": [1, 1, 2, 2, 3, 3], "item": ["a", "b", "b", "c", "a", "c"]})
    with caplog.at_level(logging.WARNING):
        model = DPCML(**SMALL, n_interests="auto").fit(frame)
    assert model.n_interests_ == 1
    assert "too short" in caplog.text
    assert_same_vectors(model, DPCML(**SMALL, n_interests=1).fit(frame))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_number_of_threads_gives_the_same_bits(parts, chosen, threads):
    again = DPCML(**{**SMALL, "threads": threads}, n_interests="auto").fit(parts[0], valid=parts[1])
    assert_same_vectors(again, chosen)


@pytest.mark.parametrize("given", [2, "adaptive", np.int64(3)])
def test_other_values_are_their_own_number(parts, given):
    assert DPCML(**SMALL, n_interests=given).fit(parts[0]).n_interests_ == given


def test_one_vector_models_have_the_number_one(parts):
    assert CML(dim=4, epochs=1).fit(parts[0]).n_interests_ == 1


@pytest.mark.parametrize("bad", [0, 1.5, "automatic", None, True])
def test_bad_numbers_name_what_is_accepted(parts, bad):
    with pytest.raises(ParameterError, match=r"n_interests=.*whole number.*'adaptive', 'auto' or 'cross-validated'"):
        DPCML(n_interests=bad).fit(parts[0])


# ---- afterwards --------------------------------------------------------------------------------------------------


def test_fold_in_and_partial_fit_use_the_number(parts, monkeypatch):
    monkeypatch.setattr(interest_search, "_figure", lambda model: float(model.n_interests == 2))
    model = DPCML(**SMALL, n_interests="auto").fit(parts[0], valid=parts[1])
    fixed = DPCML(**SMALL, n_interests=2).fit(parts[0], valid=parts[1])
    histories = [parts[0].items_of(user) for user in parts[0].users.series[:3]]
    assert_same_vectors(model.fold_in(histories), fixed.fold_in(histories))
    assert_same_vectors(model.partial_fit(parts[2]), fixed.partial_fit(parts[2]))
    assert model.n_interests_ == 2


def test_a_saved_model_keeps_the_number(parts, chosen, tmp_path):
    chosen.save(tmp_path / "model")
    loaded = tastespace.load(tmp_path / "model", verify=True)
    assert (loaded.n_interests, loaded.n_interests_) == ("auto", chosen.n_interests_)
    history = [parts[0].items_of(parts[0].users[1])]
    assert loaded.recommend_for(history, k=4).equals(chosen.recommend_for(history, k=4))
    again = DPCML(**SMALL, n_interests="auto").fit(parts[0], valid=parts[1])
    assert_same_vectors(loaded.partial_fit(parts[2]), again.partial_fit(parts[2]))


def test_anchored_interests(parts):
    model = DPCML(**SMALL, n_interests="auto", anchor=0.5).fit(parts[0], valid=parts[1])
    assert model.assignments_.shape == (parts[0].n_interactions,)
    assert model.free_vectors_.shape == model.user_vectors_.shape
    again = model.set_params(anchor=0.0).fit(parts[0], valid=parts[1])
    assert not hasattr(again, "assignments_")
    assert not hasattr(again, "free_vectors_")


def test_each_number_has_a_checkpoint_and_a_log_of_its_own(parts, tmp_path, chosen):
    files = {"checkpoint": tmp_path / "run.ckpt", "log_file": tmp_path / "run.csv", "checkpoint_epochs": 1}

    def interrupted(row):
        calls.append(row)
        if len(calls) == 8:
            raise RuntimeError("the machine stops")

    calls: list[dict[str, float]] = []
    with pytest.raises(RuntimeError):
        DPCML(**SMALL, **files, n_interests="auto").fit(parts[0], valid=parts[1], callbacks=[interrupted])
    resumed = DPCML(**SMALL, **files, n_interests="auto").fit(parts[0], valid=parts[1])
    assert_same_vectors(resumed, chosen)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"run.{n}.{kind}" for n in (1, 2, 4) for kind in ("ckpt", "csv")]


def test_the_fit_to_everything_has_the_checkpoint_that_was_named(parts, tmp_path):
    path = tmp_path / "run.ckpt"
    model = DPCML(**SMALL, checkpoint=path, n_interests="auto").fit(parts[0])
    assert path.exists()
    assert_same_vectors(DPCML(**SMALL, checkpoint=path, n_interests="auto").fit(parts[0]), model)


def test_a_checkpoint_of_partial_fit_knows_the_number(parts, tmp_path, monkeypatch):
    path = tmp_path / "more.ckpt"
    for number, message in ((2, None), (4, "n_interests was 2, now it is 4")):
        monkeypatch.setattr(interest_search, "_figure", lambda model, n=number: float(model.n_interests == n))
        model = DPCML(**SMALL, n_interests="auto").fit(parts[0], valid=parts[1]).set_params(checkpoint=path)
        if message is None:
            model.partial_fit(parts[2])
        else:
            with pytest.raises(TrainingError, match=message):
                model.partial_fit(parts[2])


def test_a_callback_that_stops_ends_the_comparison(parts):
    seen = []

    def stop(row):
        seen.append(row["epoch"])
        return len(seen) < 2

    model = DPCML(**SMALL, n_interests="auto", anchor=0.5).fit(parts[0], callbacks=[stop])
    assert (model.n_interests_, model.stopped_, seen) == (1, "callback", [1, 2])
    assert not hasattr(model, "assignments_")  # those of other histories than train_
    assert len(model.recommend(k=2)) == 2 * parts[0].n_users
    model.set_params(epochs=1).partial_fit(parts[2])


def test_the_numbers_share_the_time_limit(parts, monkeypatch):
    limits = []
    original = interest_search._Runs.fit

    def fit(self, train, valid, changes, left):
        found = original(self, train, valid, changes, left)
        limits.append(found.max_minutes)
        return found

    monkeypatch.setattr(interest_search._Runs, "fit", fit)
    DPCML(**SMALL, n_interests="auto", max_minutes=4.0).fit(parts[0])
    assert limits[0] <= 1.0
    assert len(limits) == 4
    assert max(limits) <= 4.0


def test_a_blend_fits_its_member_to_everything_with_the_number_chosen(parts):
    model = Blend([DPCML(**SMALL, n_interests="auto"), EASE()]).fit(parts[0])
    held_out, rest = split.per_user(parts[0], (0.2, 0.8), seed=0)
    inner = DPCML(**SMALL, n_interests="auto").fit(rest, valid=held_out)
    assert model.members_[0].n_interests == inner.n_interests_
    assert repr(inner.as_chosen()).count(f"n_interests={inner.n_interests_}") == 1
    assert model.members[0].n_interests == "auto"
