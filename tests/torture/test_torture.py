"""Some kills; `make torture` does 200. A process of its own, because it forks before threads are started."""

import subprocess
import sys
from pathlib import Path

import pytest


def torture(*arguments):
    command = [sys.executable, "-m", "tests.torture", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, cwd=Path(__file__).parents[2])


@pytest.mark.slow
def test_saving_survives_kills():
    done = torture("--kills", "4", "--minutes", "0.3", "--only", "save", "--seed", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 bad" in done.stdout


@pytest.mark.slow
def test_training_downloads_and_the_runner_survive_kills():
    done = torture("--kills", "24", "--minutes", "1", "--seed", "6")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("train_native", "train_neural", "train_dropoutnet", "save", "fetch", "paper"):
        assert f"{name}: " in done.stdout
