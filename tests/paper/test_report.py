"""The report of made-up results: what it shows, and what it marks as missing."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tastespace.errors import ParameterError
from tastespace.paper.claims import CLAIMS
from tastespace.paper.report import by_claim, write_report
from tastespace.paper.rows import ReportArchive
from tastespace.paper.runner import ResultCache, run_all
from tastespace.paper.statistics import STATISTICS_TABLES
from tastespace.paper.tables import find_table
from tastespace.paper.verdicts import archived_verdict, judge


@pytest.fixture(scope="module")
def report(done, tmp_path_factory):
    """Two seeds of a part of the overall table, and the forms of DCRS, on the town."""
    folder = tmp_path_factory.mktemp("report")
    cache = ResultCache(folder / "results")
    overall = [
        planned
        for planned in find_table("results1").planned_runs(["town"], 2)
        if planned.method in ("ease", "cml+hars")
    ]
    for row in done([*overall, *find_table("dcrs-hars").planned_runs(["town"], 1)]):
        cache.put(row.planned, row.found)
    run_all(
        [planned for planned in find_table("results1").planned_runs(["town"], 1) if planned.method == "mlp"],
        cache.folder,
        minutes=0,
    )
    with pytest.MonkeyPatch.context() as patch:
        # Figures of data and of trained models need no runs; they are tested with the figures.
        patch.setattr("tastespace.paper.report.FIGURES", _with_runs())
        paths = write_report(folder / "out", cache.folder, datasets=["town"])
    return {path.name: path for path in paths}


def _with_runs():
    from tastespace.paper.figures import FIGURES

    return {name: FIGURES[name] for name in ("dcrs", "accuracy-time", "sampling")}


def test_the_page_is_self_contained_and_whole(report):
    page = report["report.html"].read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "<style>" in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    for tag in ("table", "section", "figure", "article", "div", "details"):
        assert page.count(f"<{tag}") == page.count(f"</{tag}>"), tag


def test_tables_show_both_seeds_and_mark_what_is_missing(report):
    text = report["report.md"].read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| EASE *not in the paper, defaults* |"))
    assert " ± " in row
    assert row.endswith("| 2 |  | 2 |")  # seeds, trials, seconds
    assert "### Overall performance, town (`results1`)" in text
    assert "| HLR *missing* | - |" in text
    assert "| MLP *cut* | - |" in text
    assert "| 22 of 25 rows of table results1 | town | cut, not run |" in text.partition("## Gaps")[2]
    page = report["report.html"].read_text(encoding="utf-8")
    assert '<td>HLR <span class="gap">missing</span></td>' in page


def test_what_was_not_run_is_a_gap(report):
    text = report["report.md"].read_text(encoding="utf-8")
    assert "| table competitors | town | not run |" in text
    assert "| figure sampling | town | not run |" in text
    assert "| table results1 |" not in text.partition("## Gaps")[2]


def test_claims_stand_one_by_one(report):
    text = report["report.md"].read_text(encoding="utf-8")
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("| ")}
    assert lines["claim"] == "| claim | town |"
    judged = lines["Several vectors with spread control (DCRS) do better than without."]
    assert re.search(
        r"\*\* \(1 of 3 pairs: \d of 3 differences significantly for it, \d against it; 1 seed\) \|$", judged
    )
    assert lines["Joint accessibility (GFJA) does better with spread control (DCRS)."].endswith("| **not measured** |")


def test_figures_and_rows_are_files_too(report):
    assert {"dcrs-town.svg", "dcrs-town.png", "accuracy-time-town.png", "results.csv", "claims.csv"} <= set(report)
    rows = pl.read_csv(report["results.csv"], infer_schema_length=None)
    assert {"table", "dataset", "label", "metric", "ours", "paper", "difference", "seeds"} <= set(rows.columns)
    claims = pl.read_csv(report["claims.csv"])
    assert {"difference", "p", "p after Holm", "over", "n", "seeds"} <= set(claims.columns)
    assert (claims["p after Holm"] >= claims["p"]).all()
    assert rows.filter((pl.col("table") == "results1") & (pl.col("label") == "EASE"))["seeds"].to_list() == [2] * 8


def test_a_figure_with_missing_runs_says_so(report):
    text = report["report.md"].read_text(encoding="utf-8")
    assert "Drawn from 3 of 34 runs." in text  # accuracy-time; a run in both of its tables counts once


def test_every_table_says_by_which_command_and_in_what_time(report):
    text, page = (report[name].read_text(encoding="utf-8") for name in ("report.md", "report.html"))
    overall = r"`tastespace paper table results1 --dataset town`: (\d+) runs on one core, (\d+) seconds in all\."
    (found,) = re.findall(overall, text)
    seeds = pl.read_csv(report["results.csv"], infer_schema_length=None).filter(pl.col("table") == "results1")
    assert int(found[0]) == seeds.unique("label")["seeds"].sum()
    assert f"({found[0]} runs on one core, {found[1]} seconds in all)" in page
    assert "`tastespace paper table size`" in text


def test_where_it_was_made_is_said(report):
    text = report["report.md"].read_text(encoding="utf-8")
    for word in ("processor", "memory", "Python", "tastespace", "page made 2", "runs made 2"):
        assert word in text


def test_a_claim_about_other_data_has_an_empty_place():
    cases = (("joint", "steam-200k"), ("joint", "ml-1m"), ("cold", "xing"))
    verdicts = [judge(CLAIMS[name], dataset, []) for name, dataset in cases]
    datasets, rows = by_claim(verdicts)
    assert datasets == ["steam-200k", "ml-1m", "xing"]
    assert rows[CLAIMS["cold"].text] == [None, None, verdicts[2]]
    assert rows[CLAIMS["joint"].text] == [verdicts[0], verdicts[1], None]


ROOT = Path(__file__).parents[2]


def test_the_report_of_an_archive_is_the_report_that_it_was_made_with(report, tmp_path, monkeypatch):
    monkeypatch.setattr("tastespace.paper.report.FIGURES", _with_runs())
    earlier = report["report.md"].parent
    again = write_report(tmp_path / "out", tmp_path / "empty cache", datasets=["town"], archive=earlier)
    for name in ("results.csv", "claims.csv", "figures.csv"):
        before, after = (pl.read_csv(folder / name, infer_schema_length=None) for folder in (earlier, tmp_path / "out"))
        if name == "results.csv":  # why a row is missing is known to the cache alone
            before, after = (frame.with_columns(pl.lit("").alias("state")) for frame in (before, after))
            before, after = (frame.with_columns(pl.lit("").alias("problem")) for frame in (before, after))
        assert after.equals(before), name
    for file in (earlier / "figures").iterdir():
        assert (tmp_path / "out" / "figures" / file.name).read_bytes() == file.read_bytes()
    texts = [(folder / "report.md").read_text(encoding="utf-8") for folder in (earlier, tmp_path / "out")]
    assert "All rows from the archive, 2" in texts[1]
    tables = [[line for line in text.splitlines() if line.startswith("| ") and " ± " in line] for text in texts]
    assert tables[0] == tables[1] != []
    assert {path.name for path in again} == set(report)


def test_runs_of_the_cache_count_more_than_fewer_archived_ones(done, tmp_path, report, monkeypatch):
    monkeypatch.setattr("tastespace.paper.report.FIGURES", {})
    cache = ResultCache(tmp_path / "cache")
    runs = [one for one in find_table("results1").planned_runs(["town"], 3) if one.method == "ease"]
    for row in done(runs):
        cache.put(row.planned, row.found)
    write_report(tmp_path / "out", cache.folder, datasets=["town"], archive=report["report.md"].parent)
    rows = pl.read_csv(tmp_path / "out" / "results.csv", infer_schema_length=None)
    overall = rows.filter((pl.col("table") == "results1") & (pl.col("metric") == "P@3"))
    seeds = dict(overall.select("label", "seeds").rows())
    assert (seeds["EASE"], seeds["CML+HarS"]) == (3, 2)
    assert set(overall["p"].fill_null("")) == {""}  # single users of archived rows are not known


def test_the_committed_results_are_an_archive_of_what_is_declared():
    folder = ROOT / "docs" / "results"
    archive = ReportArchive(folder)
    rows = pl.read_csv(folder / "results.csv", infer_schema_length=None)
    for name, dataset, label in rows.select("table", "dataset", "label").unique().rows():
        table = find_table(name)
        assert dataset in table.datasets
        known = table.labels if name in STATISTICS_TABLES else [spec.label for spec in table.row_specs]
        assert label in known
    best = archive.row("results1", "steam-200k", "APA+DiHarS", {})
    assert (best.ours["P@3"], best.std["P@3"], best.seeds, best.made) == (34.0925, 0.1171, 3, "2026-11-16")
    assert archived_verdict(CLAIMS["hars-unis"], "steam-200k", archive).word == "holds"
    assert archived_verdict(CLAIMS["apa-bpa"], "ml-1m", archive).word == "not measured"  # APA hardly adapted there
    assert archived_verdict(CLAIMS["diverse"], "ml-1m", archive).word == "not measured"  # by the raw MaxDiv alone
    for claim in CLAIMS.values():
        for dataset in claim.datasets:
            verdict = archived_verdict(claim, dataset, archive)
            assert {row["verdict"] for row in verdict.rows()} <= {verdict.word}
    for name, dataset in pl.read_csv(folder / "figures.csv").select("figure", "dataset").rows():
        assert archive.figure(name, dataset)["files"]


def test_text_is_escaped(report, done, tmp_path, monkeypatch):
    monkeypatch.setattr("tastespace.paper.report.FIGURES", {})
    table = replace(find_table("joint"), title="<script>alert(1)</script>")
    monkeypatch.setattr("tastespace.paper.report.TABLES", {"joint": table})
    cache = ResultCache(tmp_path / "cache")
    for row in done(table.planned_runs(["town"], 1)):
        cache.put(row.planned, row.found)
    write_report(tmp_path / "out", cache.folder, datasets=["town"], quick=False)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_without_jinja_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ParameterError, match=r"\(the paper extra\)"):
        write_report(tmp_path, tmp_path)
