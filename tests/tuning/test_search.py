"""`tastespace.tune` on any model and any data."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import tastespace as ts
from tastespace import split
from tastespace.errors import DataError, ParameterError, TrainingError
from tastespace.models import (
    ALS,
    CML,
    EASE,
    Recommender,
    create,
    registry,
)
from tastespace.tuning import TuneResult, read_params, space_of_model
from tastespace.tuning import search as module

SPACE = {"regularization": (1.0, 10.0, 100.0, 1000.0)}


class Shifted(Recommender):
    """A model of one's own: the most popular items, moved by a parameter."""

    def __init__(self, shift: int = 0, alpha: float = 1.0) -> None:
        self.shift = shift
        self.alpha = alpha

    def _fit(self, train, valid, progress):
        if self.alpha < 0:
            raise TrainingError("diverged")
        self.scores_ = np.roll(train.item_counts.astype(np.float32), self.shift)

    def score_block(self, users):
        return np.tile(self.scores_, (len(users), 1))


def test_the_best_trial_is_measured_as_evaluate_does(town):
    result = ts.tune("ease", town, trials=4, space=SPACE, seed=3)
    parts = split.hold_out(town, 0.2, seed=3)
    rest, held_out = parts.rest, parts.held_out
    by_hand = {
        value: ts.evaluate(EASE(regularization=value).fit(rest), held_out, seen=rest, metrics="NDCG@10")["NDCG@10"]
        for value in (*SPACE["regularization"], EASE().regularization)
    }
    tried = {trial["parameters"]["regularization"]: trial["validation"]["NDCG@10"] for trial in result.trials}
    assert len(tried) == 4
    assert tried == {value: pytest.approx(by_hand[value]) for value in tried}
    assert result.value == max(tried.values())
    assert result.given_value == pytest.approx(by_hand[EASE().regularization])
    assert by_hand[result.model().regularization] == pytest.approx(result.value)
    assert result.n_users == int((held_out.user_counts > 0).sum())
    assert create(result.name, **result.params).get_params() == result.model().get_params()


def test_epochs_are_those_that_did_best(town):
    result = ts.tune("cml", town, trials=2, params={"dim": 8, "epochs": 6, "validate_every": 1}, seed=0)
    best = max(result.trials, key=lambda trial: trial["score"])
    assert result.model().epochs == best["best_epoch"] <= 6
    assert result.params["dim"] == 8
    assert all("dim" not in trial["parameters"] for trial in result.trials), "given, so not searched"
    assert result.model().fit(town).is_fitted


def test_every_model_of_the_registry_has_a_space_of_its_own_parameters():
    for name in registry():
        model = create(name)
        space = space_of_model(model)
        assert space or name == "popular"
        first = {key: values[0] for key, values in space.items()}
        model.set_params(**module.unpack(first))  # unknown names are refused


@pytest.mark.parametrize("name", ["popular", "als", "itemknn", "sparse-ease", "bpr", "dpcml", "blend:cml+ease"])
def test_models_are_searched_by_name(town, name):
    params = {"dpcml": {"dim": 4, "epochs": 2}, "bpr": {"epochs": 2}, "blend:cml+ease": {"cml__dim": 4}}.get(name, {})
    result = ts.tune(name, town, trials=2, params=params, threads=1)
    assert result.name == name
    assert len(result.trials) == (1 if name == "popular" else 2)
    assert result.value >= result.given_value
    assert create(name, **result.params).fit(town).is_fitted


def test_a_model_of_ones_own_needs_a_space(town):
    with pytest.raises(ParameterError, match=r"Shifted is no model of the library.*give space="):
        ts.tune(Shifted(), town, trials=2)
    result = ts.tune(Shifted(shift=5), town, trials=4, space={"shift": (0, 1, 2, 5)})
    assert result.params == {}  # the best is the default
    assert result.model().shift == 0
    assert result.value > result.given_value


def test_a_trial_that_diverges_is_left_out(town, caplog):
    result = ts.tune(Shifted(), town, trials=3, space={"alpha": (-1.0, 1.0, -2.0)})
    assert result.model().alpha == 1.0
    assert "2 of 3 trials failed" in " ".join(result.notes)
    assert "failed" in str(result)
    with pytest.raises(TrainingError, match="no trial of Shifted could be fitted; the last error: diverged"):
        ts.tune(Shifted(alpha=-3.0), town, trials=2, space={"shift": (0, 1)})


def test_frames_with_times_are_split_by_time(frame):
    by_time = ts.tune("ease", frame, trials=1, user="who", item="what", timestamp="t")
    assert by_time.held_out == "the last 20 % of the interactions"
    at_random = ts.tune("ease", frame, trials=1, user="who", item="what", timestamp="t", split="random")
    assert at_random.held_out == "20 % of each history, drawn at random"
    assert by_time.value != at_random.value
    with pytest.raises(DataError, match="no timestamps"):
        ts.tune("ease", frame, trials=1, user="who", item="what", split="time")


def test_a_split_of_ones_own(town):
    train, held_out = split.leave_k_out(town, 2, seed=7)
    result = ts.tune("ease", town, trials=1, split=(train, held_out))
    report = ts.evaluate(ts.EASE().fit(train), held_out, seen=train, metrics="NDCG@10")
    assert result.value == pytest.approx(report["NDCG@10"])
    assert result.held_out == f"the given {held_out.n_interactions:,} held-out interactions"
    other = ts.synthetic.multi_interest(n_users=20, n_items=20, n_interactions=200).interactions
    for bad, message in (
        ((train, other), "do not share users and items"),
        ((train, train.subset(np.zeros(train.n_interactions, dtype=bool))), "is empty"),
    ):
        with pytest.raises(DataError, match=message):
            ts.tune("ease", town, trials=1, split=bad)
    with pytest.raises(ParameterError, match="or a pair of Interactions"):
        ts.tune("ease", town, trials=1, split=(train,))


def test_a_metric_of_which_smaller_is_better(town):
    result = ts.tune("itemknn", town, trials=5, metric="Gini@10")
    assert result.value == min(trial["validation"]["Gini@10"] for trial in result.trials)


def test_a_search_goes_on_from_its_journal(town, tmp_path, monkeypatch):
    journal = tmp_path / "new" / "trials.journal"
    whole = ts.tune("als", town, trials=6, params={"iterations": 2}, seed=1)
    for trials in (1, 4):
        ts.tune("als", town, trials=trials, params={"iterations": 2}, seed=1, journal=journal)
    with journal.open("a") as file:
        file.write('{"search": "cut o')  # what a killed process may leave
    ran = []
    real = module._TrialRunner.run
    monkeypatch.setattr(module._TrialRunner, "run", lambda *a: ran.append(a) or real(*a))
    resumed = ts.tune("als", town, trials=6, params={"iterations": 2}, seed=1, journal=journal)
    assert len(ran) == 2
    tried = [trial["parameters"] for trial in whole.trials]
    assert [trial["parameters"] for trial in resumed.trials] == tried
    assert resumed.params == whole.params
    assert len([line for line in journal.read_text().splitlines() if line.endswith("}")]) == 6
    other = ts.tune("als", town, trials=1, params={"iterations": 3}, seed=1, journal=journal)
    assert len(other.trials) == 1, "another model has a search of its own in the same file"


def test_a_file_that_is_no_journal_is_refused_and_kept(town, tmp_path):
    file = tmp_path / "clicks.json"
    file.write_text('{"user": 1}\n')
    with pytest.raises(DataError, match="line 1 is no trial of a search"):
        ts.tune("ease", town, trials=1, journal=file)
    assert file.read_text() == '{"user": 1}\n'


def test_a_killed_search_goes_on(tmp_path):
    journal = tmp_path / "trials.journal"
    script = textwrap.dedent(
        f"""
        import tastespace as ts
        town = ts.synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1600, seed=1).interactions
        ts.tune("als", town, trials=400, journal={str(journal)!r}, threads=1)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") < 3):
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    kept = [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]
    assert len(kept) >= 3
    town = ts.synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1600, seed=1).interactions
    resumed = ts.tune("als", town, trials=len(kept) + 1, journal=journal, threads=1)
    assert [one["parameters"] for one in resumed.trials[: len(kept)]] == [one["parameters"] for one in kept]


def test_a_budget_too_small_for_two_gives_one_and_says_so(town):
    result = ts.tune("cml", town, minutes=1e-6, params={"dim": 8, "epochs": 100_000, "patience": 0})
    assert len(result.trials) == 1
    assert result.notes[0] == "The budget of 1e-06 minutes was used up by the first trial; give more for a choice."
    assert "stopped by the time limit" in result.notes[1]


def test_the_file_holds_what_the_model_needs(town, tmp_path):
    result = ts.tune(EASE(regularization=3.0), town, trials=1, space={"regularization": (3.0,)})
    result.save(tmp_path / "new" / "params.toml")
    assert read_params(tmp_path / "new" / "params.toml") == ("ease", {"regularization": 3.0})
    assert 'held_out = "20 % of each history, drawn at random"' in (tmp_path / "new" / "params.toml").read_text()


def test_what_is_printed(town, capfd):
    result = ts.tune("ease", town, trials=3, progress=True)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].split() == ["trial", "NDCG@10", "best", "so", "far", "seconds", "parameters"]
    assert len(lines) == 4
    assert f"{result.value:.4f}" in str(result)
    assert "as given" in result.summary
    assert result.to_frame().columns == ["trial", "NDCG@10", "seconds", "best_epoch", "parameters"]
    assert isinstance(result, TuneResult)
    assert not math.isnan(result.given_value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "eese"}, "no model 'eese'.*Did you mean ease"),
        ({"model": 7}, "model=7: expected the name of a model"),
        ({"metric": "NCDG@10"}, "no metric 'NCDG@10'.*Did you mean"),
        ({"metric": "NDCG"}, "metric='NDCG': expected one metric"),
        ({"split": "tmie"}, "split='tmie': expected"),
        ({"trials": 0}, "trials=0: expected"),
        ({"minutes": -1}, "minutes=-1: expected"),
        ({"params": {"regularisation": 1.0}}, r"EASE has no parameter 'regularisation'.*Did you mean regularization"),
        ({"space": {"lambda": (1, 2)}}, "EASE has no parameter 'lambda'"),
        ({"space": {"regularization": 3.0}}, r"space\['regularization'\]=3.0: expected a list"),
        ({"space": 5}, "space=5: expected names"),
        ({"share": 1.5}, "share=1.5: expected"),
        ({"user": "who"}, "user= is for a frame"),
    ],
)
def test_bad_arguments(town, arguments, message):
    with pytest.raises(ParameterError, match=message):
        ts.tune(**{"model": "ease", "data": town, "trials": 1, **arguments})


def test_histories_too_short(tmp_path):
    import polars as pl

    tiny = pl.DataFrame({"user": [1, 2, 3], "item": [1, 2, 1]})
    with pytest.raises(DataError, match="too short to hold out 20 %"):
        ts.tune("ease", tiny, trials=1)


def test_parameters_of_the_model_are_kept(town):
    result = ts.tune(ALS(dim=8, iterations=2, alpha=0.5), town, trials=2, space={"regularization": (1.0, 2.0)})
    assert (result.model().dim, result.model().alpha) == (8, 0.5)
    assert result.params["dim"] == 8
    assert isinstance(ts.tune(CML(dim=4, epochs=1), town, trials=1, space={"margin": (1.0,)}).model(), CML)
