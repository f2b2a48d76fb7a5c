import itertools
import json

import pytest
from typer.testing import CliRunner

from tastespace.cli import app
from tastespace.errors import ParameterError
from tastespace.paper import find_method, method_names
from tastespace.paper import tuning as module
from tastespace.paper.tuning import search, space_of
from tastespace.tuning.proposals import make_proposals
from tastespace.tuning.spaces import unpack

QUICK = {"dim": 8, "epochs": 2}


def trials_in(journal):
    return [json.loads(line) for line in journal.read_text().splitlines()]


@pytest.mark.parametrize("grid", ["ours", "paper"])
@pytest.mark.parametrize("name", [n for n in method_names() if "+" in n or n == "gfja"])
def test_every_combination_of_a_space_is_the_method_itself(name, grid):
    method = find_method(name)
    proposals = make_proposals(space_of(method, grid), seed=1)
    for number, wanted in enumerate(itertools.islice(proposals, 15)):
        proposals.tell(-number)  # the first stays the best
        model = method.build(unpack(wanted), seed=0)
        model._check()  # nothing that fit would refuse


def test_the_papers_grid_is_the_papers():
    space = space_of(find_method("apa+dihars"), "paper")
    assert space["margin"] == (1.0, 1.5, 2.0)
    assert space["learning_rate"] == (3e-4, 5e-4, 1e-3, 3e-3, 1e-2)
    assert space["n_negatives"] == (10, 20, 30, 50, 100, 120, 200)
    assert space["beta"] == (1e-5, 5e-5, 1e-4, 3e-4, 5e-4, 1e-3, 1.5e-3)
    assert (space["min_interests"], space["log_base"]) == ((1, 2, 3, 4, 5), (2.0, 3.0, 5.0, 10.0))
    assert space["spread_weight"] == (10.0, 20.0, 30.0)
    assert all(low <= high for low, high in space["spread"])
    with pytest.raises(ParameterError, match="grid='theirs'"):
        space_of(find_method("apa+dihars"), "theirs")


def test_a_search_keeps_the_best_and_resumes(tmp_path, monkeypatch):
    journal = tmp_path / "new folder" / "trials.journal"
    first = search("town", "cml+unis", trials=2, base=QUICK, journal=journal)
    trials = trials_in(journal)
    assert first["trials"] == len(trials) == 2
    best = max(trials, key=lambda trial: trial["score"])
    assert first["parameters"] == best["parameters"]
    assert first["parameters"]["dim"] == 8

    calls = []
    real = module._MethodTrials.run
    monkeypatch.setattr(module._MethodTrials, "run", lambda *a: calls.append(a) or real(*a))
    again = search("town", "cml+unis", trials=3, base=QUICK, journal=journal)
    assert again["trials"] == 3
    assert len(calls) == 1  # the two that were there are not run again


def test_a_resumed_search_tries_what_one_without_a_stop_tries(tmp_path):
    base = {"epochs": 1, "dim": 4}
    whole, parts = tmp_path / "whole.journal", tmp_path / "parts.journal"
    search("town", "cml+unis", trials=8, base=base, journal=whole)
    for trials in (1, 6, 8):
        search("town", "cml+unis", trials=trials, base=base, journal=parts)
    assert [t["parameters"] for t in trials_in(parts)] == [t["parameters"] for t in trials_in(whole)]


def test_searches_with_other_seeds_share_a_file_and_no_trials(tmp_path):
    journal = tmp_path / "trials.journal"
    for seed in (0, 1):
        assert search("town", "ease", trials=1, base={"regularization": 9.0}, seed=seed, journal=journal)["trials"] == 1
    assert len(trials_in(journal)) == 2


def test_a_search_for_the_second_stage_fits_the_first_once(tmp_path, monkeypatch):
    calls = []
    real = module.fit
    monkeypatch.setattr(module, "fit", lambda *a, **k: calls.append(a) or real(*a, **k))
    journal = tmp_path / "trials.journal"
    found = search("town", "cml+hars+dd", trials=9, base=QUICK, journal=journal)
    trials = trials_in(journal)
    assert len(calls) == 1
    assert sorted(trial["parameters"]["weight"] for trial in trials) == [round(0.1 * n, 1) for n in range(1, 10)]
    assert len({trial["score"] for trial in trials}) > 1
    # As if the two stages had been fitted together.
    alone = search("town", "cml+hars+dd", trials=1, base={**QUICK, "weight": found["parameters"]["weight"]})
    assert alone["validation"] == found["validation"]


def test_a_search_starts_from_what_did_well_elsewhere(monkeypatch):
    stored = {"steam-200k": {"itemknn": {"n_neighbors": 400}, "apa+dihars": {"margin": 1.25}}}
    monkeypatch.setattr(module, "stored_entries", lambda: stored)
    monkeypatch.setattr(module, "stored_parameters", lambda dataset, name: stored.get(dataset, {}).get(name, {}))
    assert module._guess("town", find_method("itemknn")) == {"n_neighbors": 400}
    assert module._guess("town", find_method("ease")) == {}
    assert module._guess("steam-200k", find_method("cml+hars")) == {"margin": 1.25}  # a relative, here
    stored["town"] = {"itemknn": {"n_neighbors": 20}}
    assert module._guess("town", find_method("itemknn")) == {"n_neighbors": 20}  # here first


def test_a_search_starts_exactly_from_what_is_stored_here(monkeypatch):
    kept = {"margin": 0.35, "n_negatives": 20, "schedule": "linear", "patience": 7}  # in no range: 0.35 and patience
    monkeypatch.setattr(module, "stored_parameters", lambda dataset, name: dict(kept))
    tried = []

    def pretend(trier, parameters):
        tried.append(parameters)
        return {"parameters": parameters, "validation": {}, "score": 1.0, "seconds": 0.1}

    monkeypatch.setattr(module._MethodTrials, "run", pretend)
    search("town", "cml+hars", trials=1, base={"epochs": 1})
    usual = find_method("cml+hars").build({}, 0).get_params()
    assert {name: tried[0][name] for name in kept} == kept
    assert tried[0]["learning_rate"] == usual["learning_rate"]  # was not stored: the model's own
    assert tried[0]["epochs"] == 1


def test_trials_that_were_judged_by_something_else_do_not_count(tmp_path, caplog):
    base = {"regularization": 100.0}
    search("town", "ease", trials=1, base=base, journal=tmp_path / "good.journal")
    (good,) = trials_in(tmp_path / "good.journal")
    text = (tmp_path / "good.journal").read_text()
    journal = tmp_path / "other.journal"
    journal.write_text(text.replace(json.dumps(good["validation"]), '{"R@10": 90.0}'))
    assert [trial["validation"] for trial in trials_in(journal)] == [{"R@10": 90.0}]
    assert search("town", "ease", trials=1, base=base, journal=journal)["validation"] == good["validation"]
    assert "1 trials were judged by other metrics" in caplog.text


def test_a_budget_of_minutes_ends_the_search():
    assert search("town", "cml+unis", trials=50, minutes=1e-9, base=QUICK)["trials"] == 1


def test_the_test_part_is_never_looked_at(monkeypatch):
    seen = []
    real = module.evaluate
    monkeypatch.setattr(module, "evaluate", lambda model, data, **k: seen.append(data) or real(model, data, **k))
    search("town", "cml+unis", trials=1, base=QUICK)
    parts = module.load_parts("town", 0)
    assert [d.fingerprint() for d in seen] == [parts.valid.fingerprint()]


def test_models_with_content_are_judged_on_an_inner_split_of_the_training_data(monkeypatch):
    seen = []
    real = module.evaluate_cold
    monkeypatch.setattr(
        module, "evaluate_cold", lambda model, parts, **k: seen.append(parts) or real(model, parts, **k)
    )
    found = search("town", "contentknn", trials=1, base={"n_neighbors": 5})
    assert list(found["validation"]) == ["warm P@3", "cold user P@3", "cold item P@3"]
    real_ones = module.load_parts("town-cold", 0).cold_start
    (inner,) = seen
    trained_on = set(real_ones.train.users.series)
    assert set(inner.new_users.users.series) <= trained_on
    assert not set(inner.new_users.users.series) & set(inner.train.users.series)
    assert not set(inner.new_items.items.series) & {*inner.train.items.series, *real_ones.new_items.items.series}
    kept = {row for part in (real_ones.train, real_ones.valid) for row in part.to_frame().rows()}
    parts = (inner.train, inner.valid, inner.test, inner.new_users, inner.new_items)
    assert {row for part in parts for row in part.to_frame().rows()} <= kept  # nothing of the real test


def test_tune_from_the_command_line(tmp_path):
    arguments = [
        "tune",
        "--dataset",
        "town",
        "--method",
        "ease",
        "--trials",
        "2",
        "--journal",
        str(tmp_path / "trials.journal"),
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["parameters"]["regularization"] > 0


def test_a_trial_that_takes_too_long_is_judged_by_what_it_had(tmp_path):
    journal = tmp_path / "trials.journal"
    search("town", "cml+hars", trials=1, base={"epochs": 500, "patience": 0}, journal=journal, trial_minutes=1e-6)
    (trial,) = trials_in(journal)
    assert trial["cut"]
    assert trial["parameters"]["epochs"] == 500
    assert "max_minutes" not in trial["parameters"]  # a resource, not a choice
