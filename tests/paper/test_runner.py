import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tastespace.errors import DatasetError
from tastespace.paper.runner import PlannedRun, ResultCache, run_all, why_missing

TWO = [PlannedRun("town", "popular"), PlannedRun("town", "cml+hars", parameters={"dim": 8, "epochs": 2})]


def states(rows):
    return [row.state for row in rows]


def test_runs_are_made_once_and_kept(tmp_path):
    assert states(run_all(TWO, tmp_path, workers=2)) == ["done", "done"]
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    again = run_all([*TWO, PlannedRun("town", "popular", seed=1)], tmp_path, workers=2)
    assert states(again) == ["kept", "kept", "done"]
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert again[1].found.result["metrics"]["P@3"] > 0


def test_a_damaged_result_is_run_again(tmp_path):
    run_all(TWO[:1], tmp_path)
    path = next(tmp_path.glob("*.npz"))
    path.write_bytes(path.read_bytes()[:100])
    assert states(run_all(TWO[:1], tmp_path)) == ["done"]


def test_a_failing_run_says_why_and_the_others_go_on(tmp_path):
    bad = PlannedRun("town", "cml+hars", parameters={"margin": -1.0})
    rows = run_all([bad, TWO[0]], tmp_path, workers=1)
    assert states(rows) == ["failed", "done"]
    assert "margin=-1.0" in rows[0].problem
    assert why_missing(bad, ResultCache(tmp_path)) == ("failed", rows[0].problem)


def test_an_error_of_any_kind_is_kept_and_replaces_an_older_one(tmp_path):
    bad = PlannedRun("town", "cml+hars", parameters={"no_such": 1})
    run_all([bad], tmp_path, minutes=0.0)
    assert why_missing(bad, ResultCache(tmp_path))[0] == "cut"
    (row,) = run_all([bad], tmp_path)
    assert row.state == "failed"
    assert "no_such" in row.problem
    assert why_missing(bad, ResultCache(tmp_path))[0] == "failed"


def test_what_a_budget_ends_is_marked(tmp_path):
    assert states(run_all(TWO, tmp_path, minutes=0.0)) == ["cut", "cut"]
    assert {why_missing(planned, ResultCache(tmp_path))[0] for planned in TWO} == {"cut"}  # for a later report
    assert not list(tmp_path.glob("*.npz"))


def test_a_data_set_that_is_not_here_is_marked_and_looked_for_once(tmp_path, monkeypatch):
    asked = []

    def nowhere(dataset, split_seed=0):
        asked.append(dataset)
        raise DatasetError(f"{dataset} is not on this machine")

    monkeypatch.setattr("tastespace.paper.runner.load_parts", nowhere)
    rows = run_all([PlannedRun("ml-10m", "ease"), PlannedRun("ml-10m", "popular")], tmp_path)
    assert states(rows) == ["no data", "no data"]
    assert rows[1].problem == "ml-10m is not on this machine"
    assert asked == ["ml-10m"]


def test_a_killed_worker_does_not_lose_the_others(tmp_path):
    long = PlannedRun("town", "cml+hars", parameters={"dim": 64, "epochs": 5000, "patience": 0})

    def kill_the_first():
        while not (children := multiprocessing.active_children()):
            time.sleep(0.01)
        children[0].kill()

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    rows = run_all([long, TWO[0]], tmp_path, workers=1)
    killer.join()
    assert states(rows) == ["failed", "done"]
    assert rows[0].problem == "its process ended with code -9"


LONG = """
import sys
from tastespace.paper.runner import PlannedRun
from tastespace.paper.runner import run_all
if __name__ == "__main__":
    long = [PlannedRun("town", "cml+hars", seed, {"dim": 64, "epochs": 100000, "patience": 0}) for seed in range(2)]
    run_all([PlannedRun("town", "popular"), *long], sys.argv[1], workers=1)
"""


def test_control_c_ends_the_workers_and_keeps_what_is_finished(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(LONG)
    child = subprocess.Popen([sys.executable, str(script), str(tmp_path)], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    while not (list(tmp_path.glob("*.npz")) and len(children.read_text().split()) > 1) and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [int(pid) for pid in children.read_text().split()]
    child.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in child.communicate(timeout=60)[1]
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert len(list(tmp_path.glob("*.npz"))) == 1


SCRIPT = """
import multiprocessing, os, signal, sys, time
from tastespace.paper.runner import PlannedRun
from tastespace.paper.runner import run_all, why_missing
planned_runs = [PlannedRun("town", "cml+hars", seed, {"dim": 8, "epochs": 3}) for seed in range(6)]
kind, started = multiprocessing.context.SpawnProcess, []
start_as_usual = kind.start
def start(process):
    start_as_usual(process)
    started.append(process)
    if len(started) == 3 and sys.argv[2] == "kill":  # in the middle of the third run, or before it has begun
        time.sleep(0.5)
        os.killpg(0, signal.SIGKILL)
kind.start = start
rows = run_all(planned_runs, sys.argv[1], workers=1)
print(" ".join(row.state for row in rows))
"""


@pytest.mark.slow
def test_killed_in_the_middle_nothing_is_lost_and_nothing_runs_twice(tmp_path):
    killed = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path), "kill"], start_new_session=True)
    assert killed.returncode == -signal.SIGKILL
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    assert 2 <= len(kept) <= 3
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path), ""], capture_output=True, text=True, check=True)
    said = done.stdout.split()
    assert said.count("kept") == len(kept)
    assert said.count("done") == 6 - len(kept)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())
    assert all(ResultCache(tmp_path).get(PlannedRun("town", "cml+hars", s, {"dim": 8, "epochs": 3})) for s in range(6))
