"""`tastespace.fit`: what it takes, what it gives, and what it says."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

import tastespace as ts
from tastespace import Blend, Interactions
from tastespace.errors import DataError, ParameterError, TrainingError
from tastespace.models import SparseEASE
from tastespace.recipe import RecipeReport
from tastespace.recipe import _recipe as default_recipe


@pytest.fixture(scope="module")
def model(frame):
    return ts.fit(frame, user="who", item="what", trials=6)


def test_it_gives_a_fitted_blend_that_recommends(model, frame, data):
    assert isinstance(model, Blend)
    lists = model.recommend(k=5)
    assert len(lists) == 5 * data.n_users
    seen = set(frame.select("who", "what").rows())
    assert not seen & set(lists.select("user", "item").rows())
    assert model.train_.n_interactions == data.n_interactions  # all of it
    assert all(member.train_ is model.train_ for member in model.members_)
    assert model.weights_.sum() == pytest.approx(1.0)


def test_the_report_has_a_row_for_each_trial(model):
    rows = model.recipe_["trials"]
    assert [row["family"] for row in rows] == [
        "linear", "linear, all pairs", "several vectors", "softmax", "factorization", "one vector",
    ]  # fmt: skip
    in_blend = [row for row in rows if row["weight"] is not None]
    assert len(in_blend) == len(model.members_)
    np.testing.assert_allclose(sorted(row["weight"] for row in in_blend), sorted(model.weights_))
    text = str(RecipeReport(**model.recipe_))
    assert all(row["model"] in text for row in rows)
    assert model.recipe_["tastes"] in text
    assert max(map(len, text.splitlines()[:7])) <= 120


def test_the_blend_is_not_worse_on_held_out_data_than_the_best_model_alone(model, bare):
    for found in (model, ts.fit(bare, trials=5, seed=3)):
        blend = found.recipe_["blend"]

        def objective(figures):
            minority = figures["minority"]
            parts = [figures["ndcg"], figures["recall"], 0.0 if minority is None else 0.5 * minority]
            return sum(parts) / (2.0 if minority is None else 2.5)

        assert objective(blend["figures"]) >= objective(blend["best_member"]) - 1e-9


@pytest.mark.parametrize("threads", [1, 2])
def test_a_number_of_trials_gives_the_same_bits_every_time(model, data, frame, threads):
    again = ts.fit(frame, user="who", item="what", trials=6, threads=threads)
    users = np.arange(data.n_users)
    np.testing.assert_array_equal(again.weights_, model.weights_)
    np.testing.assert_array_equal(again.score_block(users), model.score_block(users))
    figures = [[row["NDCG@10"], row["R@20"]] for one in (again, model) for row in one.recipe_["trials"]]
    assert figures[:6] == figures[6:]


def test_the_seed_changes_what_is_held_out(data):
    first, second = (ts.fit(data, trials=1, seed=seed).recipe_["trials"][0]["NDCG@10"] for seed in (0, 1))
    assert first != second


def test_a_saved_model_keeps_its_report(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = ts.load(tmp_path / "model", verify=True)
    assert loaded.recipe_ == model.recipe_
    assert str(RecipeReport(**loaded.recipe_)) == str(RecipeReport(**model.recipe_))
    np.testing.assert_array_equal(loaded.score_block(np.arange(5)), model.score_block(np.arange(5)))


def test_a_tiny_budget_gives_a_linear_model_one_with_vectors_and_a_note(data):
    """However slow the machine is: shelves and explanations of the README work after ``ts.fit(data, minutes=0.2)``."""
    model = ts.fit(data, minutes=1e-4)
    assert [trial["family"] for trial in model.recipe_["trials"]] == ["linear", "several vectors"]
    assert model.has_interests
    assert len(model.shelves(data.users[0], k=3)) > 0
    assert any("0.0001 minutes was used up by the first models" in note for note in model.recipe_["notes"])
    assert len(model.recommend(k=2)) == 2 * data.n_users


def test_the_budget_is_a_time_or_a_number_of_trials(data):
    assert ts.fit(data, trials=2).recipe_["notes"] == []
    with pytest.raises(ParameterError, match=r"minutes=1 and trials=2: give only one"):
        ts.fit(data, minutes=1, trials=2)


@pytest.mark.parametrize("n_items", [9, 15])
def test_catalogs_shorter_than_the_lists_that_are_measured(n_items):
    rng = np.random.default_rng(0)
    taken = (rng.random((60, n_items)) < 0.6).astype(np.float32)
    taken[:, 0] = 1  # nobody is without an item
    taken[0, 1] = 0  # nor the first user with all of them
    small = ts.Interactions.from_scipy(sp.csr_array(taken))
    model = ts.fit(small, trials=4)
    assert len(model.recipe_["trials"]) == 4
    assert len(model.recommend(0, k=50)) == n_items - len(small.items_of(0))


def test_an_argument_that_nothing_takes_is_named(frame):
    with pytest.raises(ParameterError, match=r"fit has no argument 'min_ratings'; .*Did you mean min_rating"):
        ts.fit(frame, user="who", item="what", trials=1, min_ratings=3)


@pytest.mark.parametrize(("n_items", "expected"), [(1, "MostPopular()"), (2, "SparseEASE()")])
def test_short_histories_say_what_was_done_instead(n_items, expected, tmp_path, caplog):
    rows = [(user, (user + at) % 7) for user in range(20) for at in range(n_items)]
    model = ts.fit(pl.DataFrame(rows, schema=["user", "item"], orient="row"), minutes=0.1)
    assert repr(model.members_) == f"[{expected}]"
    note = f"Histories are too short to hold anything out: {expected} was fitted without a comparison."
    assert model.recipe_["notes"] == [note]
    assert note in caplog.text
    assert len(model.recommend(0, k=3)) == 3
    model.save(tmp_path / "model")
    for one in (model, ts.load(tmp_path / "model")):
        text = str(RecipeReport(**one.recipe_))
        assert f"Fitted without a comparison: {expected}." in text
        assert "were not compared: no models were" in text


def test_matrices_frames_and_interactions_give_the_same_model(bare):
    expected = ts.fit(bare, trials=2).score_block(np.arange(9))
    for given in (bare.matrix, bare.matrix.tocsc(), bare.to_frame(), bare.to_frame().to_pandas()):
        np.testing.assert_array_equal(ts.fit(given, trials=2).score_block(np.arange(9)), expected)


def test_further_arguments_go_to_the_frame(frame):
    rated = frame.with_columns(stars=pl.int_range(pl.len()) % 5 + 1)
    found = ts.fit(rated, user="who", item="what", rating="stars", min_rating=4, trials=1)
    expected = Interactions.from_frame(rated, user="who", item="what", rating="stars", min_rating=4)
    assert found.train_.fingerprint() == expected.without_weights().fingerprint()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minutes": 0}, "minutes=0: expected a positive, finite number"),
        ({"minutes": -2.0}, "minutes=-2.0"),
        ({"minutes": float("inf")}, "minutes=inf"),
        ({"minutes": "2"}, "minutes='2'"),
        ({"trials": 0}, "trials=0: expected a whole number, 1 or more"),
        ({"trials": 2.0}, "trials=2.0"),
        ({"seed": -1}, "seed=-1"),
        ({"threads": -1}, "threads=-1"),
        ({"user": "who"}, "user= is for a frame, but data is Interactions already. Leave it out"),
        ({"item": "what"}, "item= is for a frame"),
        ({"rating": "stars"}, "rating= is for a frame"),
    ],
)
def test_bad_arguments(data, changes, message):
    with pytest.raises(ParameterError, match=message):
        ts.fit(data, **changes)


def test_bad_data(data, frame):
    with pytest.raises(ParameterError, match="item= is for a frame, but data is a sparse matrix"):
        ts.fit(data.matrix, item="what")
    with pytest.raises(DataError, match="user"):
        ts.fit(frame, trials=1)
    with pytest.raises(DataError, match="nothing to learn"):
        ts.fit(data.subset(np.zeros(data.n_interactions, dtype=bool)), trials=1)
    with pytest.raises((DataError, TypeError)):
        ts.fit([[1, 2]], trials=1)


def test_a_model_that_cannot_be_fitted_is_left_out_with_a_warning(data, monkeypatch, caplog):
    def fails(self, train, valid, progress):
        raise TrainingError("it diverged")

    monkeypatch.setattr("tastespace.models.als.ALS._fit", fails)
    found = ts.fit(data, trials=5)
    assert [row["family"] for row in found.recipe_["trials"]] == [
        "linear", "linear, all pairs", "several vectors", "softmax", "one vector",
    ]  # fmt: skip
    assert "ALS(regularization=30.0, alpha=8.0) was left out: it diverged" in caplog.text


def test_where_no_model_can_be_fitted_the_most_popular_items_remain(data, monkeypatch, caplog):
    monkeypatch.setattr(default_recipe, "run_trials", lambda *given: [])
    found = ts.fit(data, trials=3)
    assert repr(found.members_) == "[MostPopular()]"
    assert found.recipe_["notes"] == [
        "No model of the trials could be fitted (the log says why): MostPopular() was fitted without a comparison."
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_shown_on_standard_error(data, capfd, monkeypatch, terminal):
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes the stream for a terminal
        monkeypatch.setenv("COLUMNS", "200")
    ts.fit(data, trials=1, progress=True)
    out, shown = capfd.readouterr()
    assert out == ""
    places = [shown.index(text) for text in ("linear: SparseEASE(", "choosing the blend", "fitting to everything:")]
    assert places == sorted(places)


def test_progress_is_silent_where_it_is_not_wanted_or_there_is_no_terminal(data, capfd):
    for progress in (False, None):
        ts.fit(data, trials=1, progress=progress)
    assert capfd.readouterr() == ("", "")


def test_trained_members_have_the_epochs_that_were_best_and_no_time_limit(data):
    found = ts.fit(data, trials=4)
    trained = [member for member in found.members_ if hasattr(member, "best_epoch_")]
    assert trained
    for member in trained:
        assert member.max_minutes is None
        assert member.best_epoch_ == member.epochs < 100


def test_models_of_the_trials_are_freed_before_the_last_fits(data, monkeypatch):
    """A fitted model of a trial is not needed any more once the blend is chosen."""
    fitted, alive = [], []
    original = SparseEASE._fit

    def fit(self, train, valid, progress):
        original(self, train, valid, progress)
        if train.n_interactions < data.n_interactions:
            fitted.append(weakref.ref(self))
            return
        gc.collect()
        alive.extend(one() for one in fitted if one() is not None)

    monkeypatch.setattr(SparseEASE, "_fit", fit)
    ts.fit(data, trials=1)
    assert fitted
    assert alive == []
