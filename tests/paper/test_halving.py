import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tastespace.cli import app
from tastespace.errors import ParameterError
from tastespace.paper import find_method
from tastespace.paper import halving as module
from tastespace.paper.halving import OUR_TRAINER, OURS, ranges, search, varied_share
from tastespace.paper.methods import stored_parameters
from tastespace.paper.tables import FAMILY_METHODS
from tastespace.paper.tuning import space_of

COUNTS = np.repeat([3, 9, 20, 60], 25)


@pytest.fixture
def fast(monkeypatch):
    """Trials that take a made-up time; their score is larger for larger margins."""
    clock = [0.0]
    trials = []

    def fit(self, parameters, until):
        trials.append((parameters, until - clock[0]))
        clock[0] += until - clock[0]
        return {"P@3": 10 * parameters["margin"], "MAP": 0.0, "MRR": 0.0}, True

    monkeypatch.setattr(module.time, "process_time", lambda: clock[0])
    monkeypatch.setattr(module._Search, "_fit", fit)
    return trials


@pytest.mark.parametrize("name", FAMILY_METHODS)
def test_ranges_are_the_papers_but_for_those_that_are_ours(name):
    method = find_method(name)
    found, paper = ranges(method, COUNTS), space_of(method, "paper")
    ours = {key for key in found if found[key] != paper.get(key)} - {"adaptive"}
    assert ours == (set() if name.endswith("+batches") else set(OURS) & set(paper))
    if name.startswith("apa"):
        assert found["adaptive"]
        for least, base in found["adaptive"]:
            assert least in (1, 2)
            assert varied_share(COUNTS, least, base) >= 1 / 3


def test_numbers_that_hardly_vary_are_no_setting():
    with pytest.raises(ParameterError, match="Adaptive numbers cannot be compared"):
        ranges(find_method("apa+hars"), np.full(100, 20))


def test_the_budget_is_spent_by_halves_from_the_published_setting_on(fast, tmp_path):
    found = search("town", "bpa+hars+batches", minutes=1.0, journal=tmp_path / "trials.journal")
    assert [round(seconds, 2) for _, seconds in fast] == [2.5] * 8 + [5.0] * 4 + [10.0] * 2
    first = fast[0][0]
    assert (first["margin"], first["learning_rate"], first["n_interests"], first["spread_weight"]) == (1.0, 1e-3, 5, 10)
    margins = sorted((parameters["margin"] for parameters, _ in fast[:8]), reverse=True)
    assert [parameters["margin"] for parameters, _ in fast[8:12]] == [1.0, *margins[:3]]  # the published one stays
    assert first in [parameters for parameters, _ in fast[12:]]
    assert found["parameters"]["margin"] == margins[0]
    assert (found["seconds"], found["minutes"], found["trials"], found["runs"]) == (60.0, 1.0, 8, 14)
    assert found["split"] == "authors"
    assert found["versions"]["kernels"] >= 3


def test_a_search_that_was_stopped_does_not_spend_its_budget_again(fast, tmp_path, monkeypatch):
    journal, whole = tmp_path / "stopped.journal", search("town", "cml+hars", minutes=1.0)
    n = len(fast)
    real = module._Search._fit

    def stop(self, parameters, until):
        if len(fast) == n + 5:
            raise KeyboardInterrupt
        return real(self, parameters, until)

    with monkeypatch.context() as patch:
        patch.setattr(module._Search, "_fit", stop)
        with pytest.raises(KeyboardInterrupt):
            search("town", "cml+hars", minutes=1.0, journal=journal)
    assert search("town", "cml+hars", minutes=1.0, journal=journal) == whole
    assert len(fast) == 2 * n
    assert search("town", "cml+hars", minutes=1.0, journal=journal) == whole
    assert len(fast) == 2 * n  # finished: nothing is left to spend
    monkeypatch.setitem(module.code_versions.__globals__["VERSIONS"], "kernels", 99)
    search("town", "cml+hars", minutes=1.0, journal=journal)
    assert len(fast) == 3 * n  # trials of another revision do not count


def test_a_training_that_ended_by_itself_is_not_repeated(fast, monkeypatch):
    real = module._Search._fit
    monkeypatch.setattr(module._Search, "_fit", lambda *a: (real(*a)[0], False))
    found = search("town", "bpa+hars", minutes=1.0)
    tried = [json.dumps(parameters) for parameters, _ in fast]
    assert len(set(tried)) == len(tried) == found["trials"] > 8  # the time went to more settings
    assert found["seconds"] > 45


def test_a_trial_that_fails_is_recorded_and_does_not_stop_the_others(fast, tmp_path, monkeypatch):
    real = module._Search._fit

    def fail(self, parameters, until):
        if parameters["margin"] == 2.0:
            raise RuntimeError("too far")
        return real(self, parameters, until)

    monkeypatch.setattr(module._Search, "_fit", fail)
    journal = tmp_path / "trials.journal"
    found = search("town", "cml+hars", minutes=1.0, journal=journal)
    problems = [json.loads(line)["problem"] for line in journal.read_text().splitlines()]
    assert found["failed"] == problems.count("RuntimeError: too far") > 0
    assert found["parameters"]["margin"] == 1.5
    monkeypatch.setattr(module._Search, "_fit", lambda *_: 1 / 0)
    with pytest.raises(ParameterError, match=r"no trial of cml\+hars gave a result: ZeroDivisionError"):
        search("town", "cml+hars", minutes=1.0)


def test_the_command_stores_what_was_found(tmp_path, monkeypatch):
    monkeypatch.setenv("TASTESPACE_PARAMETERS", str(tmp_path / "parameters.json"))
    flags = ["--dataset", "town", "--minutes", "0.004", "--method", "cml+hars", "--method", "ease"]
    done = CliRunner().invoke(app, ["paper", "tune", *flags, "--journal", str(tmp_path / "trials.journal")])
    assert done.exit_code == 0, done.output
    assert "town ease: P@3" in done.output
    entry = json.loads((tmp_path / "parameters.json").read_text())["town"]["cml+hars"]
    assert entry["parameters"].items() >= OUR_TRAINER.items()
    assert entry["minutes"] == 0.004
    assert stored_parameters("town", "cml+hars") == entry["parameters"]
    done = CliRunner().invoke(app, ["paper", "tune", *flags, "--minutes", "0"])
    assert "--minutes 0" in str(done.exception)
