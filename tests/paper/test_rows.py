from pathlib import Path

import polars as pl
import pytest

from tastespace.errors import DataError
from tastespace.paper.experiments import Experiment, RowSpec
from tastespace.paper.rows import (
    ReportArchive,
    archived_rows,
    marks_of,
    table_rows,
    to_markdown,
    to_rows,
)
from tastespace.paper.runner import PlannedRun, ResultCache, RunResult, RunStatus


def row(label, method, seed, p3=None, state="done"):
    finished = None
    if p3 is not None:
        finished = RunResult({"metrics": {"P@3": p3, "MRR": 2 * p3}, "seconds": 10.0 + seed}, {})
    return RunStatus(PlannedRun("steam-200k", method, seed, label=label), state, finished)


TWO = Experiment("two", "Two methods", (RowSpec("EASE", "ease"), RowSpec("HarS", "cml+hars")), ("steam-200k",))
ROWS = [row("EASE", "ease", 0, 34.0), row("HarS", "cml+hars", 0, 26.0), row("HarS", "cml+hars", 1, 27.0)]

GOLDEN = Path(__file__).with_name("golden") / "two-methods.md"


@pytest.fixture(autouse=True)
def _searched(monkeypatch):
    monkeypatch.setattr("tastespace.paper.rows.stored_trials", lambda dataset, method: {"cml+hars": 6}.get(method, 0))


def test_the_rendered_table():
    assert to_markdown(TWO, table_rows(TWO, ROWS)) == GOLDEN.read_text(encoding="utf-8")


def test_what_is_missing_is_marked_and_never_invented():
    rows = [ROWS[0], row("HarS", "cml+hars", 0, 26.0), row("HarS", "cml+hars", 1, state="cut")]
    assert [entry.state for entry in table_rows(TWO, rows)] == ["complete", "partial"]
    rows = [row("EASE", "ease", 0, state="failed"), row("HarS", "cml+hars", 0, state="cut")]
    found = table_rows(TWO, rows)
    assert [entry.state for entry in found] == ["failed", "cut"]
    assert "| HarS *cut* | - (26.66)" in to_markdown(TWO, found)


def test_rows_for_programs_have_the_difference():
    by = {(r["label"], r["metric"]): r for r in to_rows(TWO, table_rows(TWO, ROWS))}
    assert by["HarS", "P@3"]["difference"] == pytest.approx(26.5 - 26.66)
    assert by["EASE", "P@3"]["paper"] is None
    assert by["HarS", "NDCG@3"]["ours"] is None


def test_differences_and_tests_can_stand_in_the_table():
    found = to_markdown(TWO, table_rows(TWO, ROWS), p_values={"HarS": "0.001"}, difference=True)
    assert "| P@3 | R@3 | NDCG@3 | P@5 | R@5 | NDCG@5 | MAP | MRR | p | seeds | trials | seconds |" in found
    assert "| 26.50 ± 0.71 (26.66, -0.16) |" in found
    assert found.rstrip().endswith("| 0.001 | 2 | 6 | 10 |")
    titled = to_markdown(TWO, table_rows(TWO, ROWS), dataset_in_title=True)
    assert titled.startswith("### Two methods, steam-200k (`two`)\n\n| method |")


def test_a_table_of_which_nothing_was_run_says_why():
    rows = [RunStatus(PlannedRun("town", "ease", label="EASE"), "failed", problem="no memory\nlooked in /home/ann")]
    text = to_markdown(TWO, table_rows(TWO, rows))
    assert "| EASE *failed*" in text
    assert "* EASE, town: no memory" in text
    (first, *_) = to_rows(TWO, table_rows(TWO, rows))
    assert (first["state"], first["problem"]) == ("failed", "no memory")


def test_quick_rows_are_marked():
    rows = [
        RunStatus(
            PlannedRun("town", "ease", label="EASE", quick=True),
            "done",
            RunResult({"metrics": {"P@3": 1.0}, "seconds": 1}, {}),
        )
    ]
    assert "quick" in table_rows(TWO, rows)[0].note


@pytest.fixture
def archive(tmp_path):
    """What a report of the rows above would have written."""
    rows = [{"table": "two", **one} for one in to_rows(TWO, table_rows(TWO, ROWS), {"EASE": "best", "HarS": "0.001"})]
    pl.DataFrame(rows, infer_schema_length=None).with_columns(
        made=pl.lit("2026-01-02"), version=pl.lit("0.1.0")
    ).write_csv(tmp_path / "results.csv")
    return ReportArchive(tmp_path)


def test_an_archived_row_has_the_figures_of_the_runs_and_says_where_it_is_from(archive):
    (ease, hars) = table_rows(TWO, ROWS)
    found = archive.row("two", "steam-200k", "HarS", hars.published)
    assert (found.ours, found.std, found.seeds, found.trials) == (hars.ours, hars.std, 2, 6)
    assert marks_of(found) == ["archive, 2026-01-02, version 0.1.0, kernels before 3"]
    assert archive.row("two", "steam-200k", "no such row", {}) is None
    assert archive.row("two", "ml-1m", "EASE", ease.published) is None
    assert archive.p_value("two", "steam-200k", "HarS") == "0.001"


def test_archived_rows_stand_in_for_runs_that_are_not_in_the_cache(archive, tmp_path, monkeypatch):
    cache = ResultCache(tmp_path / "cache")
    monkeypatch.setattr(PlannedRun, "key", lambda self: f"{self.method}-{self.seed}")
    names = [row.label for row in archived_rows(TWO, TWO.planned_runs(seeds=2), cache, archive)]
    assert names == ["HarS"]  # of EASE the archive has one seed
    assert len(archived_rows(TWO, TWO.planned_runs(), cache, archive)) == 2
    cache.put(ROWS[1].planned, ROWS[1].found)
    assert [row.label for row in archived_rows(TWO, TWO.planned_runs(), cache, archive)] == ["EASE"]
    assert archived_rows(TWO, TWO.planned_runs(quick=True), cache, archive) == []
    assert archived_rows(TWO, TWO.planned_runs(), cache, None) == []


def test_a_folder_without_results_is_no_archive(tmp_path):
    with pytest.raises(DataError, match=r"has no results\.csv"):
        ReportArchive(tmp_path / "nothing").row("two", "steam-200k", "EASE", {})


def test_a_row_says_which_kernels_made_it_how_vectors_vary_and_what_is_not_the_papers(monkeypatch):
    table = Experiment("two", "Two", (RowSpec("APA", "apa+hars"), RowSpec("PRD", "prd")), ("ml-1m",))
    result = {
        "metrics": {"P@3": 20.0}, "seconds": 1.0, "method": "apa+hars", "parameters": {"margin": 0.75, "dim": 100},
        "interests": {"1": 30, "3": 10}, "versions": {"kernels": 3}, "made": {"kernels": "v4, sources 00ff"},
    }  # fmt: skip
    entry = {"parameters": {"margin": 0.75}, "trials": 1}
    monkeypatch.setattr("tastespace.paper.methods.stored_entries", lambda: {"ml-1m": {"apa+hars": entry}})
    statuses = [RunStatus(PlannedRun("ml-1m", method, label=label), "done", RunResult(result, {}))
                for label, method in (("APA", "apa+hars"), ("PRD", "prd"))]  # fmt: skip
    apa, prd = table_rows(table, statuses)
    assert apa.revision == "kernels 3, sources 00ff"
    assert apa.note == ("vectors: 1 for 75 %, 3 for 25 %, outside the paper: margin 0.75, searched on another split")
    assert "stand-in: divides where the cited one multiplies" in prd.note
    assert to_rows(table, [apa])[0]["revision"] == apa.revision
    entry["split"] = "authors"
    assert "another split" not in table_rows(table, statuses)[0].note
