import json

import pytest
from typer.testing import CliRunner

import tastespace as ts
from tastespace.cli import app
from tastespace.errors import ParameterError
from tastespace.paper import run
from tastespace.paper.data import load_parts
from tastespace.paper.runner import ALL_METRICS, PlannedRun
from tastespace.paper.runs import execute

SMALL = {"dim": 16, "epochs": 3}
KEYS = {"dataset", "method", "parameters", "metrics", "seconds_per_epoch", "epochs", "seconds", "peak_mb", "version"}


def test_a_run_reports_what_it_did():
    result = run("town", "bpa+hars", parameters=SMALL, preset="default")
    assert set(result) >= KEYS
    assert result["parameters"]["dim"] == 16
    assert result["epochs"] == 3
    assert set(result["metrics"]) == {"P@3", "R@3", "NDCG@3", "P@5", "R@5", "NDCG@5", "MAP", "MRR"}
    json.dumps(result)
    assert result["unit"] == "%"
    # The metrics are those of the model fitted by hand, in percent.
    parts = load_parts("town", 0)
    of_paper = {**ts.DPCML.paper_form(), "learning_rate": 0.1}
    model = ts.DPCML(sampler="hars", n_interests=5, monitor="P@3", monitor_protocol="paper", **{**of_paper, **SMALL})
    by_hand = ts.evaluate(model.fit(parts.train, parts.valid), parts.test, seen=parts.train, protocol="paper")
    assert result["metrics"] == by_hand.in_percent().metrics


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
    assert published["optimizer"] == "dense-adam"
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
    assert written["unit"] == "%"
    assert 1 < written["metrics"]["MRR"] < 100


def test_settings_without_a_value_are_refused():
    arguments = ["run", "--dataset", "town", "--method", "cml+hars", "--set", "dim"]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, ParameterError)
    assert "expected key=value" in str(done.exception)


@pytest.fixture(scope="module")
def trained():
    return execute(PlannedRun("town", "bpa+hars", parameters={"dim": 8, "epochs": 3}), threads=1, progress=False)[0]


def test_a_run_records_its_training(trained):
    assert [row["epoch"] for row in trained["history"]] == [1, 2, 3]
    assert all(row["loss"] > 0 and row["seconds"] > 0 for row in trained["history"])
    assert trained["inference_seconds"] > 0
    assert trained["train_seconds"] < trained["seconds"]
    assert set(trained["valid_metrics"]) == {"P@3", "MAP", "MRR"}
    best = trained["history"][trained["best_epoch"] - 1]
    assert best["P@3"] == pytest.approx(trained["valid_metrics"]["P@3"])


def test_all_possible_metrics_are_measured(trained):
    assert {"P@3", "MaxDiv@20", "ILS@3", "Coverage@10", "MAP[Jazz]"} <= set(trained["metrics"])
    popular = execute(PlannedRun("town", "popular"), threads=1)[0]
    assert "Coverage@10" in popular["metrics"]
    assert "MaxDiv@20" not in popular["metrics"]
    assert popular["history"] == []
    assert ALL_METRICS[0] == "P"
