import json
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

import tastespace
from tastespace.cli import app

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


def test_version_and_help_with_examples():
    assert text_of("--version").strip() == tastespace.__version__
    for name in ("demo", "datasets", "doctor", "run", "tune"):
        assert f"Example: tastespace {name}" in text_of(name, "--help")


def test_doctor_tells_what_is_here(monkeypatch):
    monkeypatch.setenv("TASTESPACE_DATA", "some/folder")
    told = text_of("doctor")
    for word in ("tastespace", tastespace.__version__, "numpy", "polars", "threads", "some/folder", "bench", "cache"):
        assert word in told
    assert any(level in told for level in ("AVX-512", "AVX2", "portable"))


def test_datasets_for_people_and_for_programs():
    table = text_of("datasets")
    for name in tastespace.datasets.names():
        assert name in table
    rows = json.loads(text_of("datasets", "--format", "json"))
    assert [row["name"] for row in rows] == list(tastespace.datasets.names())
    assert {"users", "items", "interactions", "licence", "present"} <= set(rows[0])
    frame = pl.read_csv(text_of("datasets", "--format", "csv").encode())
    assert frame.filter(pl.col("name") == "steam-200k")["interactions"].item() == 115_139
    assert "publisher" in text_of("datasets", "ml-1m")


def test_demo_trains_compares_and_recommends():
    told = text_of("demo", "--person", "12")
    for word in ("a synthetic town", "most popular", "minority", "person 12", "planted", "DPCML"):
        assert word in told


def test_demo_on_a_named_data_set(dataset_dir):
    dataset_dir("ml-100k")
    told = text_of("demo", "--dataset", "ml-100k")
    assert "938 users" in told
    assert "Drama" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("datasets", "ml-1n"), "Did you mean ml-1m"),
        (("demo", "--person", "nobody"), "1 of 1 user ids are unknown, the first is 'nobody'"),
        (("demo", "--dataset", "stem-200k"), "Did you mean steam-200k"),
    ],
)
def test_errors_are_one_line_on_stderr_with_exit_code_2(arguments, message):
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_error():
    for arguments in ("datasets --format json", "datasets", "--help"):
        # The reader leaves before anything is written: cat needs a moment to import, true does not.
        pipe = f"{sys.executable} -c 'from tastespace.cli import main; main()' {arguments} | true"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True)
        assert done.returncode == 0, arguments
        assert done.stderr == ""


def test_broken_simd_choice_is_named():
    done = command("doctor", env={"TASTESPACE_SIMD": "v9", "PATH": "/usr/bin"})
    assert "TASTESPACE_SIMD='v9'" in done.stderr
