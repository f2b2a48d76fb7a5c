"""The checkpoint of the recipe: what it holds, that a stopped run resumes to the same bits, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace import Interactions, synthetic
from tastespace.errors import DataError, ParameterError
from tastespace.models.base import Recommender

TRIALS = 5
_FINISHED = 99


@pytest.fixture(scope="module")
def small() -> Interactions:
    return synthetic.multi_interest(n_users=60, n_items=40, n_interactions=900, seed=3).interactions


@pytest.fixture(scope="module")
def expected(small):
    """The model of a run that was never stopped."""
    return ts.fit(small, trials=TRIALS)


def require_same(model, expected):
    users = np.arange(expected.train_.n_users)
    np.testing.assert_array_equal(model.score_block(users), expected.score_block(users))
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    assert [repr(member) for member in model.members_] == [repr(member) for member in expected.members_]
    reports = [dict(one.recipe_) for one in (model, expected)]
    for report in reports:
        del report["seconds"]
        report["trials"] = [{**row, "seconds": 0} for row in report["trials"]]
        report["references"] = [{**row, "seconds": 0} for row in report["references"]]
    assert reports[0] == reports[1]


@pytest.fixture
def press(monkeypatch):
    """Press Ctrl-C at the fit with this number; gives what was fitted."""
    fitted: list[str] = []
    original = Recommender._fit_to

    def call(number):
        fitted.clear()

        def fit(self, train, valid, progress, columns, **arguments):
            if not isinstance(self, ts.MostPopular):  # with which trained models compare themselves
                if len(fitted) == number:
                    raise KeyboardInterrupt
                fitted.append(type(self).__name__)
            return original(self, train, valid, progress, columns, **arguments)

        monkeypatch.setattr(Recommender, "_fit_to", fit)
        return fitted

    return call


@pytest.mark.parametrize(("stops", "last"), [((0, 2, 1), 5), ((TRIALS + 1,), 2), ((TRIALS, 0), 3)])
def test_a_stopped_run_resumes_to_the_same_bits(small, expected, press, tmp_path, stops, last):
    folder = tmp_path / "work"
    for stop in stops:
        press(stop)
        with pytest.raises(KeyboardInterrupt, match=rf"Kept in {folder}: \d models? that w\w+ tried. Do"):
            ts.fit(small, trials=TRIALS, checkpoint=folder)
    fitted = press(-1)
    model = ts.fit(small, trials=TRIALS, checkpoint=folder)
    require_same(model, expected)
    # Of 8: those of the trials, EASE to compare with among them, and three members fitted to everything.
    assert len(fitted) == last


def test_without_a_checkpoint_ctrl_c_says_what_would_have_kept_the_work(small, press):
    press(2)
    with pytest.raises(KeyboardInterrupt, match=r"Lost: 2 models that were tried. With a checkpoint"):
        ts.fit(small, trials=TRIALS)


def test_what_the_folder_holds(small, press, tmp_path):
    folder = tmp_path / "work"
    press(TRIALS - 1)
    with pytest.raises(KeyboardInterrupt):
        ts.fit(small, trials=TRIALS, checkpoint=folder)
    run = json.loads((folder / "run.json").read_text())
    assert run["stage"] == "search"
    assert run["identity"]["trials"] == TRIALS
    rows = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    assert [row["parameters"]["family"] for row in rows] == [
        "linear", "linear, all pairs", "several vectors", "softmax"
    ]  # fmt: skip
    for row in rows:
        assert 0 < row["validation"]["NDCG@10"] <= 1
        assert row["seconds"] > 0
        saved = ts.load(folder / "models" / str(row["number"]), verify=True)
        assert f"{type(saved).__name__}(" in row["parameters"]["model"]
        assert saved.train_.n_interactions < small.n_interactions
    elapsed = [row["elapsed"] for row in rows]
    assert elapsed == sorted(elapsed)


def test_a_finished_run_keeps_its_blend_alone_and_gives_it_again(small, expected, press, tmp_path):
    folder = tmp_path / "work"
    require_same(ts.fit(small, trials=TRIALS, checkpoint=folder), expected)
    assert sorted(path.name for path in folder.iterdir()) == ["model", "run.json", "trials.jsonl"]
    fitted = press(-1)
    require_same(ts.fit(small, trials=TRIALS, checkpoint=folder), expected)
    assert fitted == []
    ts.fit(small, trials=1, checkpoint=folder)  # a new run takes its place
    assert len(ts.load(folder / "model").recipe_["trials"]) == 1


def test_only_the_best_of_a_family_stays(small, tmp_path, press):
    folder = tmp_path / "work"
    press(12)
    with pytest.raises(KeyboardInterrupt):
        ts.fit(small, trials=20, checkpoint=folder)
    rows = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    best = {}
    for row in rows:
        if row.get("saved"):
            best[row["parameters"]["family"]] = str(row["number"])
    assert len(best) < len(rows)
    assert sorted(path.name for path in (folder / "models").iterdir()) == sorted(best.values())


def test_a_damaged_model_and_a_cut_line_are_made_again(small, expected, press, tmp_path, caplog):
    folder = tmp_path / "work"
    press(TRIALS - 1)
    with pytest.raises(KeyboardInterrupt):
        ts.fit(small, trials=TRIALS, checkpoint=folder)
    press(-1)
    journal = folder / "trials.jsonl"
    journal.write_bytes(journal.read_bytes()[:-9])
    (part,) = (folder / "models" / "0").glob("learned-*")
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)
    require_same(ts.fit(small, trials=TRIALS, checkpoint=folder), expected)
    assert "is cut off" in caplog.text
    assert "a model of the checkpoint is fitted again" in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": 7}, "belongs to another run: trials was 5, now it is 7"),
        ({"trials": None, "minutes": 1}, "minutes was None, now it is 1"),
        ({"seed": 4}, "seed was 0, now it is 4"),
        ({"data": "rows"}, "data was '"),
        ({"data": "titles"}, "data was '"),
        ({"version": "9.9"}, "version was '"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(small, press, tmp_path, monkeypatch, changes, message):
    folder = tmp_path / "work"
    press(1)
    with pytest.raises(KeyboardInterrupt):
        ts.fit(small, trials=TRIALS, checkpoint=folder)
    press(-1)
    data = small
    if changes.get("data") == "rows":
        data = small.subset(np.arange(small.n_interactions) > 0)
    if changes.get("data") == "titles":
        titles = pl.DataFrame({"item": small.items.series, "title": ["x"] * small.n_items})
        data = Interactions.from_frame(small.to_frame(), item_attributes=titles)
    if "version" in changes:
        monkeypatch.setattr("tastespace.recipe._checkpoint.version", lambda name: changes["version"])
    arguments = {"trials": TRIALS, **{name: changes[name] for name in changes if name not in ("data", "version")}}
    before = sorted(path.stat().st_mtime_ns for path in folder.rglob("*"))
    with pytest.raises(ParameterError, match="checkpoint=") as problem:
        ts.fit(data, checkpoint=folder, **arguments)
    assert message in str(problem.value)
    assert before == sorted(path.stat().st_mtime_ns for path in folder.rglob("*"))


def test_a_folder_of_something_else_is_refused(small, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ParameterError, match="no checkpoint of a recipe"):
        ts.fit(small, trials=1, checkpoint=tmp_path)
    with pytest.raises(ParameterError, match="no checkpoint of a recipe"):
        ts.fit(small, trials=1, checkpoint=tmp_path / "notes.txt")
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "trials.jsonl").touch()  # of a folder whose deletion was stopped
    assert len(ts.fit(small, trials=1, checkpoint=tmp_path / "left").recipe_["trials"]) == 1
    (tmp_path / "run.json").write_text('{"format": 1, "identity": []}')
    with pytest.raises(DataError, match=r"run\.json cannot be read"):
        ts.fit(small, trials=1, checkpoint=tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_of_minutes_the_time_before_counts(small, press, tmp_path):
    folder = tmp_path / "work"
    press(3)
    with pytest.raises(KeyboardInterrupt):
        ts.fit(small, minutes=1.0, checkpoint=folder)
    press(-1)
    lines = (folder / "trials.jsonl").read_text().splitlines()
    last = {**json.loads(lines[-1]), "elapsed": 59.0}
    (folder / "trials.jsonl").write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    began = time.monotonic()
    model = ts.fit(small, minutes=1.0, checkpoint=folder)
    assert len(model.recipe_["trials"]) == len(lines) == 3
    assert model.recipe_["seconds"] > 59
    assert time.monotonic() - began < 50


@pytest.mark.slow
def test_killed_processes_lose_at_most_the_running_model(tmp_path):
    """SIGKILL after each finished model, until one run comes to its end: the same bits as one that was never killed."""
    town = synthetic.multi_interest(n_users=400, n_items=300, n_interactions=12_000, seed=3).interactions
    data = tmp_path / "clicks.parquet"
    town.to_frame().write_parquet(data)
    folder, out = tmp_path / "work", tmp_path / "model"
    program = "from tastespace.cli.app import main; main()"
    flags = ["--trials", "6", "--checkpoint", str(folder), "--out", str(out)]
    command = [sys.executable, "-c", program, "fit", str(data), *flags]
    kills, journal = 0, folder / "trials.jsonl"
    for _ in range(30):
        before = _n_finished(folder)
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < deadline:
            if before < _FINISHED and _n_finished(folder) > before:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
            time.sleep(0.01)
        if process.wait() == 0:
            break
        assert _n_finished(folder) > before  # nothing is done twice
    assert process.returncode == 0
    assert kills >= 6
    assert not journal.exists()
    assert not folder.exists()  # the model is saved
    require_same(ts.load(out), ts.fit(Interactions.from_file(data), trials=6))


def _n_finished(folder: Path) -> int:
    """Models that are recorded, tried ones and those fitted to everything."""
    journal = folder / "trials.jsonl"
    lines = journal.read_bytes().count(b"\n") if journal.exists() else 0
    if (folder / "model" / "model.json").exists():
        return _FINISHED  # the others are deleted
    return lines + len(list((folder / "final").glob("*/model.json")))
