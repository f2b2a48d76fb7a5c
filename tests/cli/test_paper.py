"""`tastespace paper`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tastespace.cli import paper as module
from tastespace.paper import methods
from tastespace.paper.experiments import TableRow
from tastespace.paper.tables import find_table

pytestmark = pytest.mark.usefixtures("one_core")


def test_tables_and_figures_are_listed(stdout_of):
    rows = json.loads(stdout_of("paper", "list", "--format", "json"))
    assert {"table", "figure", "claim"} == {row["kind"] for row in rows}
    names = {row["name"] for row in rows}
    assert {"results1", "datasets", "size", "vectors", "taste-map", "hars-unis"} <= names


def test_without_a_command_everything_is_listed(stdout_of):
    assert "results1" in stdout_of("paper")
    assert "taste-map" in stdout_of("paper")


@pytest.mark.parametrize("width", ["80", "200"])
def test_a_table_shows_all_columns_and_standard_deviations(monkeypatch, capsys, width):
    table = find_table("diversity")
    values = {name: 10.0 + at for at, name in enumerate(table.shown)}
    entry = TableRow(
        "town", "CML, HarS", "cml+hars", values, dict.fromkeys(values, 0.5), {"MaxDiv@3": 9.0}, 2, 1.0, "complete"
    )
    monkeypatch.setenv("COLUMNS", width)
    module._show(table, [entry])
    said = capsys.readouterr().out
    assert all(name in said for name in table.shown)
    assert "10.00 ± 0.50 (9.00)" in said
    assert "21.00 ± 0.50" in said  # the last of twelve


def test_a_table_counted_in_the_data_runs_nothing(stdout_of):
    rows = json.loads(stdout_of("paper", "table", "size", "--dataset", "town", "--format", "json"))
    assert [row["label"] for row in rows] == ["CML+HarS", "DPCML+HarS", "DPCML+DiHarS"]
    assert all(row["ours"] > 0 and row["paper"] is None for row in rows)


def test_a_figure_is_drawn(stdout_of, tmp_path):
    said = stdout_of("paper", "figure", "preferences", "--dataset", "town", "--out", tmp_path / "out").split()
    assert [path.rpartition("/")[2] for path in said] == ["preferences-town.svg", "preferences-town.png"]
    assert (tmp_path / "out" / "preferences-town.png").stat().st_size > 5_000


@pytest.mark.slow
def test_the_quick_table_of_steam(run, tmp_path, dataset_dir):
    """Few epochs of few methods, and the report of them."""
    dataset_dir("steam-200k")
    results = tmp_path / "results"
    done = run(
        "paper", "table", "results1", "--dataset", "steam-200k", "--quick", "--results", results, "--format", "json"
    )
    rows = {row["label"]: row for row in json.loads(done.out) if row["metric"] == "P@3"}
    assert {row["state"] for row in rows.values()} == {"complete"}
    assert rows["EASE"]["ours"] > rows["most popular"]["ours"] > 10
    assert rows["BPA+HarS"]["paper"] == 29.88
    said = run("paper", "report", "--quick", "--dataset", "steam-200k", "--results", results, "--out", tmp_path / "out")
    assert "report.html" in said.out
    assert "accuracy-time-steam-200k.png" in said.out


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (("table", "result1"), "results1"),
        (("figure", "vector"), "vectors"),
        (("figure", "vectors", "--dataset", "ml-1m"), "steam-200k"),
        (("table", "size", "--method", "ease"), "is computed from the data, without models"),
    ],
)
def test_mistakes_are_explained(error_of, command, word):
    assert word in error_of("paper", *command)


LOADED = """
import sys
from tastespace.cli import app
app(sys.argv[1:], standalone_mode=False)
print()
print(sorted(name for name in sys.modules if name.startswith("tastespace.paper")))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["paper", "--help"], ["run", "--help"], ["datasets"]])
def test_the_papers_experiments_are_not_loaded_by(arguments):
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_archived_rows_are_shown_without_running_anything(stdout_of, tmp_path):
    archive = Path(__file__).parents[2] / "docs" / "results"
    said = stdout_of(
        "paper", "table", "results1", "--dataset", "steam-200k", "--method", "apa+dihars", "--archive", archive,
        "--results", tmp_path / "empty", "--format", "json",
    )  # fmt: skip
    rows = {row["metric"]: row for row in json.loads(said)}
    assert (rows["P@3"]["ours"], rows["P@3"]["seeds"], rows["P@3"]["made"]) == (34.0925, 3, "2026-11-16")
    assert not list(tmp_path.glob("empty/*"))


def test_a_folder_that_is_no_archive_is_refused(error_of, tmp_path):
    assert "--archive" in error_of("paper", "report", "--archive", tmp_path, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tuned_parameters_go_to_the_users_file_or_the_one_named(run, tmp_path, monkeypatch):
    own = tmp_path / "data" / "parameters.json"
    monkeypatch.setenv("TASTESPACE_PARAMETERS", str(own))
    before = methods._PACKAGE_FILE.read_bytes()
    search = ("tune", "--dataset", "town", "--method", "ease", "--trials", "1", "--store")
    assert str(own) in run(*search).err.replace("\n", "")
    assert json.loads(own.read_text())["town"]["ease"]["trials"] == 1
    assert methods.stored_trials("town", "ease") == 1
    named = tmp_path / "named.json"
    run(*search, "--params-file", named)
    assert list(json.loads(named.read_text())) == ["town"]
    assert methods._PACKAGE_FILE.read_bytes() == before


def test_a_file_for_parameters_without_store_is_refused(error_of, tmp_path):
    said = error_of("tune", "--dataset", "town", "--method", "ease", "--params-file", tmp_path / "p.json")
    assert "--store" in said
