"""Some generated tables and command lines; `python -m tests.fuzz` runs more."""

import pytest
from tests.fuzz.command_lines import Commands
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
