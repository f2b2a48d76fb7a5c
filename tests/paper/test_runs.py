import json

import pytest
from typer.testing import CliRunner

import tastespace as ts
from tastespace.cli import app
from tastespace.errors import ParameterError
from tastespace.paper import run
from tastespace.paper.runs import load_parts

SMALL = {"dim": 16, "epochs": 3}
KEYS = {"dataset", "method", "parameters", "metrics", "seconds_per_epoch", "epochs", "seconds", "peak_mb", "version"}


def test_a_run_reports_what_it_did():
    result = run("town", "bpa+hars", parameters=SMALL, preset="default")
    assert set(result) >= KEYS
    assert result["parameters"]["dim"] == 16
    assert result["epochs"] == 3
    assert set(result["metrics"]) == {"P@3", "R@3", "NDCG@3", "P@5", "R@5", "NDCG@5", "MAP", "MRR"}
    json.dumps(result)
    # The figures are those of the model fitted by hand, in percent.
    parts = load_parts("town", 0)
    model = ts.DPCML(sampler="hars", n_interests=5, monitor="P@3", monitor_protocol="paper", **SMALL)
    by_hand = ts.evaluate(model.fit(parts.train, parts.valid), parts.test, seen=parts.train, protocol="paper")
    assert result["metrics"] == by_hand.metrics


def test_the_seed_changes_training_only_and_the_split_seed_the_split_only():
    runs = {
        key: run("town", "cml+unis", parameters=SMALL, preset="default", seed=key[0], split_seed=key[1])["metrics"]
        for key in ((0, 0), (1, 0), (0, 1))
    }
    assert runs[0, 0] == run("town", "cml+unis", parameters=SMALL, preset="default")["metrics"]
    assert runs[0, 0] != runs[1, 0]
    assert runs[0, 0] != runs[0, 1]
    first, second = load_parts("town", 0), load_parts("town", 1)
    assert first.test.fingerprint() != second.test.fingerprint()


def test_presets():
    published = run("town", "apa+unis", parameters=SMALL, preset="paper")["parameters"]
    assert published["optimizer"] == "adam"
    assert published["block_size"] == 256
    assert published["sampler"] == "uniform"
    with pytest.raises(ParameterError, match="preset='best'"):
        run("town", "apa+unis", preset="best")
    assert run("town", "ease", preset="paper")["epochs"] == 0


def test_authors_splits_are_used_where_they_exist(dataset_dir):
    dataset_dir("steam-200k")
    parts = load_parts("steam-200k", 5)
    assert [p.n_interactions for p in (parts.train, parts.valid, parts.test)] == [67_653, 21_728, 25_758]


def test_run_from_the_command_line(tmp_path):
    file = tmp_path / "deep" / "result.json"
    arguments = ["run", "--dataset", "town", "--method", "cml+hars", "--preset", "default", "--json", str(file)]
    done = CliRunner().invoke(app, [*arguments, "--set", "dim=16", "--set", "epochs=2", "--seed", "4"])
    assert done.exit_code == 0, done.output
    assert "NDCG@5" in done.output
    written = json.loads(file.read_text())
    assert set(written) >= KEYS
    assert (written["seed"], written["parameters"]["epochs"]) == (4, 2)


def test_settings_without_a_value_are_refused():
    arguments = ["run", "--dataset", "town", "--method", "cml+hars", "--set", "dim"]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, ParameterError)
    assert "expected key=value" in str(done.exception)
