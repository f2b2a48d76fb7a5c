"""Some generated tables and command lines; `python -m tests.fuzz` runs more."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.checkpoints import Checkpoints
from tests.fuzz.command_lines import Commands
from tests.fuzz.filters_and_rules import FiltersAndRules
from tests.fuzz.http_requests import HttpRequests
from tests.fuzz.tables import Tables


def raw(outcomes):
    return [f"{one.what}: {one.raw}" for one in outcomes if one.raw is not None]


def test_tables_end_in_our_own_errors(tmp_path):
    outcomes = [Tables(tmp_path).run(number) for number in range(150)]
    assert raw(outcomes) == []
    assert {"read", "DataError", "ParameterError"} <= {one.kind for one in outcomes}


@pytest.mark.usefixtures("one_core")
def test_command_lines_end_in_our_own_errors(tmp_path):
    commands = Commands(tmp_path)
    outcomes = [commands.run(number) for number in range(25)]
    assert raw(outcomes) == []
    assert {"exit 0", "exit 2"} == {one.kind for one in outcomes}


@pytest.mark.usefixtures("one_core")
def test_checkpoints_end_in_our_own_errors(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    outcomes = [checkpoints.run(number) for number in range(60)]
    assert raw(outcomes) == []
    assert {"TrainingError", "continued"} <= {one.kind for one in outcomes}


def test_filters_and_rules_end_in_our_own_errors(tmp_path):
    filters = FiltersAndRules(tmp_path)
    outcomes = [filters.run(number) for number in range(200)]
    assert raw(outcomes) == []
    assert {"read", "DataError", "ParameterError"} <= {one.kind for one in outcomes}


@pytest.mark.usefixtures("one_core")
def test_requests_end_without_an_error_of_the_server(tmp_path):
    requests = HttpRequests(tmp_path)
    try:
        outcomes = [requests.run(number) for number in range(150)]
    finally:
        requests.close()
    assert raw(outcomes) == []
    assert {"200", "422", "431"} <= {one.kind for one in outcomes}


@pytest.mark.slow
def test_two_minutes_of_everything():
    command = [sys.executable, "-m", "tests.fuzz", "--share", "0.05", "--minutes", "2", "--seed", "11"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"generated inputs in \d+ s, 0 bad ends$", done.stdout.rstrip())
