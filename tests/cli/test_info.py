"""`tastespace models`, and that it and the help import nothing heavy."""

import json
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

from tastespace.cli import app
from tastespace.cli.app import COMMANDS
from tastespace.models import registry, table

HEAVY = ("torch", "scipy.stats", "scipy.spatial", "optuna", "matplotlib", "pandas", "tastespace.paper")


def test_the_models_for_programs(stdout_of):
    rows = json.loads(stdout_of("models", "--format", "json"))
    assert [row["name"] for row in rows] == list(registry())
    assert next(row for row in rows if row["name"] == "dpcml") == {
        "name": "dpcml", "class_name": "DPCML", "family": "metric learning", "extra": None, "interests": True,
        "fold_in": True, "cold_start": False, "partial_fit": True, "weights": False,
    }  # fmt: skip
    frame = pl.read_csv(stdout_of("models").encode())
    assert frame["class_name"].to_list() == [cls.__name__ for cls in registry().values()]
    assert frame.filter(pl.col("extra") == "neural").height == 20
    assert frame.filter("cold_start")["name"].to_list() == ["contentknn", "dpcml+dn", "cml+dn", "mgmf+dn"]


def test_the_models_as_a_table():
    done = CliRunner().invoke(app, ["models", "--format", "table"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    for name, cls in registry().items():
        row = next(line for line in lines if line.split()[:2] == [name, cls.__name__])
        assert row.count("✓") == sum(
            bool(getattr(one, ability))
            for one in table()
            if one.name == name
            for ability in ("interests", "fold_in", "cold_start", "partial_fit", "weights")
        )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.name)
def test_the_summary_in_the_help_is_the_one_of_the_command(command):
    loaded = command.load()
    assert loaded.name == command.name
    assert command.help == loaded.help.partition("\n")[0]


def test_a_misspelled_command_gets_a_suggestion(run):
    done = run("modls")
    assert done.code == 2
    assert "models" in done.err


def test_unknown_parameters_are_refused_on_the_command_line(error_of, run, shop):
    fit = ("fit", shop.clicks, "--user", "who", "--item", "what", "--out", "a.model", "--model", "dpcml")
    assert "Did you mean n_negatives?" in error_of(*fit, "--set", "n_negative=3")
    done = run("run", "--dataset", "town", "--method", "cml+hars", "--set", "optimiser=adam")
    assert (done.code, done.raw) == (2, b"")
    assert "error: CML has no parameter 'optimiser'" in done.err
    assert done.err.endswith("Did you mean optimizer?\n")


@pytest.mark.parametrize(
    "code",
    [
        "import tastespace",
        "from tastespace.cli.app import app; app(['--help'], standalone_mode=False)",
        "from tastespace.cli.app import app; app(['models', '--format', 'csv'], standalone_mode=False)",
        "from tastespace.cli.app import app; app(['datasets', '--format', 'csv'], standalone_mode=False)",
    ],
)
def test_starting_imports_nothing_heavy(code):
    script = f"import sys\n{code}\nprint('heavy:', [name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["heavy: []"], done.stderr


@pytest.mark.parametrize(
    "command", [one for one in COMMANDS if one.name not in ("run", "tune", "paper")], ids=lambda one: one.name
)
def test_only_paper_commands_import_the_paper(command):
    script = f"import sys, tastespace.cli.{command.target.split(':')[0]}; print('tastespace.paper' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
