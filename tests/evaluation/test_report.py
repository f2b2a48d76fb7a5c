"""The report: for a person, for a program, for statistics."""

from __future__ import annotations

import io
import json
import math
import statistics

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from tests.required_services import optional_package

from tastespace import Interactions, evaluate, over_seeds
from tastespace.errors import ParameterError
from tastespace.evaluation import Report


@pytest.fixture
def report(taken, scored):
    train = taken([[0], [0], [0]], 4, users=["ann", "bob", "cyd"])
    test = taken([[1], [], [2, 3]], 4, users=["ann", "bob", "cyd"])
    return evaluate(scored(train, [[0, 3, 2, 1]] * 3), test, protocol="full", k=1, metrics=["P", "MAP", "Coverage"])


def test_values_by_name(report):
    assert list(report) == ["P@1", "Coverage@1", "MAP"]
    assert report["P@1"] == 0.5
    with pytest.raises(
        ParameterError, match=r"the report has no 'P@2'; it has P@1, Coverage@1, MAP\. Did you mean P@1"
    ):
        report["P@2"]


def test_per_user_values_follow_the_users(report):
    assert report.users.to_list() == ["ann", "cyd"]
    assert report.per_user["P@1"].tolist() == [1.0, 0.0]
    assert report.per_user["MAP"].tolist() == pytest.approx([1.0, (1 / 2 + 2 / 3) / 2])
    assert "Coverage@1" not in report.per_user
    for label, values in report.per_user.items():
        assert report[label] == pytest.approx(values.mean())


def test_a_program_gets_plain_values(report):
    text = json.dumps(report.to_dict(), allow_nan=False)
    back = json.loads(text)
    assert back["metrics"] == report.metrics
    assert back["units"] == {"P@1": "fraction", "Coverage@1": "share of the catalog", "MAP": "fraction"}
    assert back["n_users"] == {"P@1": 2, "Coverage@1": 2, "MAP": 2}
    assert back["protocol"] == "full"
    assert back["model"] == "GivenScores()"
    assert back["seconds"] > 0


def test_a_figure_without_users_is_null_in_json(taken, scored):
    train, test = taken([[0], [0]], 4), taken([[1], [2]], 4)
    report = evaluate(scored(train, np.zeros((2, 4))), test, protocol="paper", k=[1, 3])
    assert math.isnan(report["MAP"])
    assert report.n_users["MAP"] == 0
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["metrics"]["MAP"] is None


def shown(report):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(report)
    return console.export_text()


def test_a_person_gets_a_table_with_the_unit_and_the_users_of_every_figure(report):
    text = str(report)
    assert "GivenScores(), protocol 'full'" in text
    for line, label in zip(text.splitlines()[1:], report.metrics, strict=True):
        assert line.split() == [label, f"{report[label]:.4f}", *report.units[label].split(), "2", "users"]
    table = shown(report)
    assert "protocol 'full'" in table
    assert "users" in table
    for label in report.metrics:
        (line,) = (line for line in table.splitlines() if f" {label} " in line)
        assert f"{report[label]:.4f} │ {report.units[label]} " in line


def test_in_percent_only_fractions_change_and_the_unit_says_so(report):
    percent = report.in_percent()
    assert percent.metrics == {"P@1": 50.0, "Coverage@1": report["Coverage@1"], "MAP": 100 * report["MAP"]}
    assert percent.per_user["P@1"].tolist() == [100.0, 0.0]
    assert percent.units == {"P@1": "%", "Coverage@1": "share of the catalog", "MAP": "%"}
    assert percent.n_users == report.n_users
    assert percent.to_frame()["unit"].to_list() == ["%", "share of the catalog", "%"]
    assert str(percent).splitlines()[1].split() == ["P@1", "50.0000", "%", "2", "users"]
    assert "50.00 │ % " in shown(percent)
    assert percent.in_percent().metrics == percent.metrics
    assert report["P@1"] == 0.5  # as it was


def test_a_figure_needs_a_unit():
    with pytest.raises(ParameterError, match="units: no unit is given for MAP"):
        Report("model", "full", {"P@3": 0.1, "MAP": 0.2}, {"P@3": "fraction"}, {"P@3": 3}, pl.Series([1]), {}, 0.1)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_come_in_the_library_of_the_data(library, scored):
    module = optional_package(library)
    make, kind = (module.table, module.Table) if library == "pyarrow" else (module.DataFrame, module.DataFrame)
    table = {"user": ["a", "a", "b", "b"], "item": [1, 2, 1, 3]}
    data = Interactions.from_frame(make(table))
    train, test = data.subset([True, False, True, False]), data.subset([False, True, False, True])
    report = evaluate(scored(train, [[0, 1, 2]] * 2), test, k=1, metrics=["P", "MRR"])
    metrics, by_user, seeds = report.to_frame(), report.to_frame(per_user=True), over_seeds([report, report])
    for frame in (metrics, by_user, seeds):
        assert isinstance(frame, kind)
    columns = {name: list(np.asarray(by_user[name])) for name in ("user", "P@1", "MRR")}
    assert columns == {"user": ["a", "b"], "P@1": [0.0, 1.0], "MRR": [0.5, 1.0]}
    assert list(np.asarray(metrics["metric"])) == ["P@1", "MRR"]
    assert list(np.asarray(metrics["value"])) == [0.5, 0.75]
    assert list(np.asarray(metrics["unit"])) == ["fraction", "fraction"]
    assert list(np.asarray(metrics["n_users"])) == [2, 2]


# ---- over seeds --------------------------------------------------------------------------------------------


def of(metrics, protocol="full", unit="fraction"):
    units = dict.fromkeys(metrics, unit)
    return Report("model", protocol, metrics, units, dict.fromkeys(metrics, 3), pl.Series([1, 2, 3]), {}, 0.1)


def test_mean_and_deviation_over_seeds():
    frame = over_seeds(
        [of({"P@3": 0.10, "MAP": 0.1}), of({"P@3": 0.12, "MAP": 0.1}), of({"P@3": 0.17, "R@3": 0.2, "MAP": 0.4})]
    )
    assert frame["metric"].to_list() == ["P@3", "MAP"]  # R@3 is not in all of them
    assert frame["unit"].to_list() == ["fraction", "fraction"]
    assert frame["mean"].to_list() == pytest.approx([0.13, 0.2])
    assert frame["std"].to_list() == pytest.approx([statistics.stdev([0.10, 0.12, 0.17]), math.sqrt(0.03)])
    assert frame["min"].to_list() == [0.10, 0.1]
    assert frame["max"].to_list() == [0.17, 0.4]
    assert frame["runs"].to_list() == [3, 3]


def test_one_run_has_no_deviation_and_no_run_is_an_error():
    assert over_seeds([of({"P@3": 10.0})])["std"].to_list() == [None]
    with pytest.raises(ParameterError, match="at least one report"):
        over_seeds([])
    with pytest.raises(ParameterError, match="different protocols, full, paper"):
        over_seeds([of({"P@3": 1.0}), of({"P@3": 1.0}, "paper")])


def test_percent_and_fractions_are_never_mixed():
    fractions, percent = of({"P@3": 0.1, "Novelty@3": 2.0}), of({"P@3": 10.0}, unit="%")
    message = r"P@3 has the unit 'fraction' in one report and '%' in another: .*in_percent\(\)"
    with pytest.raises(ParameterError, match=message):
        over_seeds([fractions, fractions, percent])
    assert over_seeds([percent, fractions.in_percent()])["mean"].to_list() == [10.0]
