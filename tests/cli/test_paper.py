"""`tastespace paper`."""

import json
import time

import pytest

from tastespace.cli import paper as module
from tastespace.paper.experiments import TableRow
from tastespace.paper.paper_tables import find_table

pytestmark = pytest.mark.usefixtures("one_core")


def test_tables_and_figures_are_listed(told):
    rows = json.loads(told("paper", "list", "--format", "json"))
    assert {"table", "figure", "claim"} == {row["kind"] for row in rows}
    names = {row["name"] for row in rows}
    assert {"results1", "datasets", "size", "vectors", "taste-map", "hars-unis"} <= names


def test_without_a_command_everything_is_listed(told):
    assert "results1" in told("paper")
    assert "taste-map" in told("paper")


@pytest.mark.parametrize("width", ["80", "200"])
def test_people_see_all_columns_and_the_spread(monkeypatch, capsys, width):
    table = find_table("diversity")
    figures = {name: 10.0 + at for at, name in enumerate(table.shown)}
    entry = TableRow(
        "town", "CML, HarS", "cml+hars", figures, dict.fromkeys(figures, 0.5), {"MaxDiv@3": 9.0}, 2, 1.0, "complete"
    )
    monkeypatch.setenv("COLUMNS", width)
    module._show(table, [entry])
    said = capsys.readouterr().out
    assert all(name in said for name in table.shown)
    assert "10.00 ± 0.50 (9.00)" in said
    assert "21.00 ± 0.50" in said  # the last of twelve


def test_a_counted_table_runs_nothing(told):
    rows = json.loads(told("paper", "table", "size", "--dataset", "town", "--format", "json"))
    assert [row["label"] for row in rows] == ["CML+HarS", "DPCML+HarS", "DPCML+DiHarS"]
    assert all(row["ours"] > 0 and row["paper"] is None for row in rows)


def test_a_figure_is_drawn(told, tmp_path):
    said = told("paper", "figure", "preferences", "--dataset", "town", "--out", tmp_path / "out").split()
    assert [path.rpartition("/")[2] for path in said] == ["preferences-town.svg", "preferences-town.png"]
    assert (tmp_path / "out" / "preferences-town.png").stat().st_size > 5_000


@pytest.mark.slow
def test_the_quick_table_of_steam(run, tmp_path, dataset_dir):
    """Few epochs of few methods, in under three minutes, and the report of them."""
    dataset_dir("steam-200k")
    cells = tmp_path / "cells"
    start = time.monotonic()
    done = run(
        "paper", "table", "results1", "--dataset", "steam-200k", "--quick", "--results", cells, "--format", "json"
    )
    assert time.monotonic() - start < 180
    rows = {row["label"]: row for row in json.loads(done.out) if row["metric"] == "P@3"}
    assert {row["state"] for row in rows.values()} == {"complete"}
    assert rows["EASE"]["ours"] > rows["most popular"]["ours"] > 10
    assert rows["BPA+HarS"]["paper"] == 29.88
    said = run("paper", "report", "--quick", "--dataset", "steam-200k", "--results", cells, "--out", tmp_path / "out")
    assert "report.html" in said.out
    assert "accuracy-time-steam-200k.png" in said.out


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (("table", "result1"), "results1"),
        (("figure", "vector"), "vectors"),
        (("figure", "vectors", "--dataset", "ml-1m"), "steam-200k"),
        (("table", "size", "--method", "ease"), "no methods"),
    ],
)
def test_mistakes_are_explained(refused, command, word):
    assert word in refused("paper", *command)
