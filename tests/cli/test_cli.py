import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import tastespace
from tastespace.cli import app
from tastespace.cli.app import COMMANDS as REGISTERED
from tastespace.cli.config import tomllib

runner = CliRunner()


def text_of(*arguments):
    done = runner.invoke(app, list(arguments), env={"COLUMNS": "140", "TERM": "dumb"})
    assert done.exit_code == 0, done.output
    return done.stdout


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", "from tastespace.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        **options,
    )


COMMANDS = [
    "demo", "fit", "update", "run-daily", "recommend", "shelves", "interests", "map", "explore", "explain", "similar",
    "popular", "together", "next",
    "serve", "serve-token", "report", "delete-user", "user-data", "put-item", "delete-item",
    "profile", "diversity", "attributes", "index", "evaluate", "export", "inspect", "run",
    "tune", "compare", "models", "datasets", "doctor",
]  # fmt: skip


def test_the_version():
    assert text_of("--version").strip() == tastespace.__version__


def test_the_help_lists_every_command():
    listed = [command.name for command in REGISTERED]
    assert listed == [*COMMANDS, "paper"]
    output = text_of("--help")
    assert [name for name in COMMANDS if f"│ {name} " not in output] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_ends_in_an_example(name):
    output = text_of(name, "--help")
    example = output.strip().splitlines()[-1].strip()
    assert example.startswith(f"Example: tastespace {name}")
    flags = [word for word in example.split() if word.startswith("-")]
    assert all(flag in output.partition("Example:")[0] for flag in flags)


def test_doctor_tells_what_is_here(monkeypatch):
    monkeypatch.setenv("TASTESPACE_DATA", "some/folder")
    output = text_of("doctor")
    for word in ("tastespace", tastespace.__version__, "numpy", "polars", "threads", "some/folder", "bench", "cache"):
        assert word in output
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in project["optional-dependencies"].keys() - {"test"}:
        assert f"\n{extra} " in output
    assert any(level in output for level in ("AVX-512", "AVX2", "portable"))


def test_datasets_as_a_table_and_as_rows():
    table = text_of("datasets")
    for name in tastespace.datasets.names():
        assert name in table
    rows = json.loads(text_of("datasets", "--format", "json"))
    assert [row["name"] for row in rows] == list(tastespace.datasets.names())
    assert {"users", "items", "interactions", "license", "present"} <= set(rows[0])
    frame = pl.read_csv(text_of("datasets", "--format", "csv").encode())
    assert frame.filter(pl.col("name") == "steam-200k")["interactions"].item() == 115_139
    assert "publisher" in text_of("datasets", "ml-1m")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("datasets", "ml-1n"), "Did you mean ml-1m"),
        (("demo", "--user", "nobody"), "1 of 1 user ids are unknown, the first is 'nobody'"),
        (("demo", "--dataset", "stem-200k"), "Did you mean steam-200k"),
    ],
)
def test_errors_are_one_line_on_stderr_with_exit_code_2(error_of, arguments, message):
    assert message in error_of(*arguments)


def test_a_program_of_its_own_refuses_in_the_same_way():
    done = command("datasets", "ml-1n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown data set 'ml-1n'")
    assert done.stderr.count("\n") == 1


def test_a_closed_pipe_is_no_error():
    for arguments in ("datasets", "--help"):
        # The reader leaves before anything is written: cat needs a moment to import, true does not.
        pipe = f"{sys.executable} -c 'from tastespace.cli import main; main()' {arguments} | true"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True)
        assert done.returncode == 0, arguments
        assert done.stderr == ""


def test_shells_can_complete(run, monkeypatch):
    assert "--install-completion" in run("--help").out
    monkeypatch.setenv("_TASTESPACE_COMPLETE", "source_bash")  # not --show-completion, which asks the parent process
    assert "complete -o default -F _tastespace_completion tastespace" in run().out
    monkeypatch.setenv("_TASTESPACE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tastespace rec")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert run().out.split() == ["recommend"]
    monkeypatch.setenv("COMP_WORDS", "tastespace recommend --hi")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert run().out.split() == ["--history", "--history-file"]


def test_what_the_library_does_is_logged_on_request(run, shop):
    fit = ("fit", shop.clicks, "--user", "who", "--item", "what", "--model", "popular", "--out", "a.model")
    quiet, verbose = run(*fit), run("--verbose", *fit)
    assert (quiet.code, verbose.code, verbose.out) == (0, 0, "")
    assert "INFO" not in quiet.err
    assert "INFO     saved MostPopular to a.model" in verbose.err


def test_broken_simd_choice_is_named():
    done = command("doctor", env={**os.environ, "TASTESPACE_SIMD": "v9"})
    assert "TASTESPACE_SIMD='v9'" in done.stderr
