"""The model directory and real processes: killed, out of disk, reading while another one writes."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import polars as pl
import pytest
from tests.store.model_equality import assert_same_model, is_same_model

from tastespace import EASE, Interactions, MostPopular
from tastespace.store import load, save

START = """
import sys
from tastespace.store import load, save
sys.stdin.readline()
"""


def start(code, *arguments):
    command = [sys.executable, "-c", START + code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two models of half a megabyte and some, in directories of their own."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("two")
    models = []
    for name in ("one", "other"):
        rows = {"user": [f"{name}-{i}" for i in rng.integers(0, 800, 20_000)], "item": rng.integers(0, 400, 20_000)}
        model = EASE(threads=1).fit(Interactions.from_frame(pl.DataFrame(rows)))
        save(model, folder / name)
        models.append(model)
    return folder, models


def test_killed_at_random_moments(tmp_path, two):
    stored, models = two
    target, kills = tmp_path / "model", 20
    save(models[0], target)
    # To import takes longer than to save: the child that is killed is forked from one that has imported everything.
    code = """
import os
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        models = [load(path) for path in sys.argv[2:]]
        save(models[0], sys.argv[1])
        os.write(1, b"%d\\n" % os.getpid())
        while True:
            for model in reversed(models):
                save(model, sys.argv[1])
    os.waitpid(child, 0)
    os.write(1, b"dead\\n")
"""
    process = start(code, target, stored / "one", stored / "other")
    watchdog = threading.Timer(600, process.kill)
    watchdog.start()
    try:
        go(process)
        for _ in range(kills):
            go(process)
            child = int(process.stdout.readline())
            time.sleep(random.uniform(0, 0.08))
            os.kill(child, signal.SIGKILL)
            assert process.stdout.readline() == "dead\n"
            loaded = load(target, verify=True)
            assert sum(is_same_model(loaded, model) for model in models) == 1
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
    save(models[1], target)
    assert len(list(target.iterdir())) == 5
    assert_same_model(load(target, verify=True), models[1])


def test_a_full_disk(tmp_path, two):
    stored, models = two
    target = tmp_path / "model"
    small = MostPopular().fit(models[0].train_)
    save(small, target)
    before = sorted(path.name for path in target.iterdir())
    code = """
import resource, signal
from tastespace.errors import ModelFileError
model = load(sys.argv[2])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for target in (sys.argv[1], sys.argv[1] + "-new"):
    try:
        save(model, target)
    except ModelFileError as problem:
        print(problem)
"""
    out, err = start(code, target, stored / "one").communicate("go\n", timeout=60)
    first, second = out.splitlines()
    assert "the model was not saved, the disk is full, or a limit on it is reached (File too large)" in first, err
    assert "The model that was there is untouched." in first
    assert "Nothing is left behind." in second
    assert sorted(path.name for path in target.iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert_same_model(load(target, verify=True), small)


def test_a_model_that_another_process_has_open_stays_as_it_was(tmp_path, two):
    _, models = two
    target = tmp_path / "model"
    save(models[0], target)
    code = """
model = load(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
save(model, sys.argv[1] + "-copy")
print(model.train_.users[0], float(model.weights_.sum(dtype="f8")), flush=True)
"""
    process = start(code, target)
    go(process)
    assert process.stdout.readline() == "open\n"
    for model in (models[1], models[0], models[1]):
        save(model, target)
    out, err = process.communicate("go\n", timeout=60)
    user, total = out.split()
    assert user.startswith("one-"), err
    assert float(total) == float(models[0].weights_.sum(dtype="f8"))
    assert_same_model(load(tmp_path / "model-copy", verify=True), models[0])
    assert_same_model(load(target, verify=True), models[1])
