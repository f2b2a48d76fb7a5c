"""The report: for a person, for a program, for statistics."""

from __future__ import annotations

import io
import json
import math
import statistics

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from rich.console import Console

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
    assert report["P@1"] == 50.0
    with pytest.raises(
        ParameterError, match=r"the report has no 'P@2'; it has P@1, Coverage@1, MAP\. Did you mean P@1"
    ):
        report["P@2"]


def test_per_user_values_follow_the_users(report):
    assert report.users.to_list() == ["ann", "cyd"]
    assert report.per_user["P@1"].tolist() == [100.0, 0.0]
    assert report.per_user["MAP"].tolist() == pytest.approx([100.0, 50 * (1 / 2 + 2 / 3)])
    assert "Coverage@1" not in report.per_user
    for label, values in report.per_user.items():
        assert report[label] == pytest.approx(values.mean())


def test_a_program_gets_plain_values(report):
    text = json.dumps(report.to_dict(), allow_nan=False)
    back = json.loads(text)
    assert back["metrics"] == report.metrics
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


def test_a_person_gets_a_table_with_the_users_behind_every_figure(report):
    text = str(report)
    assert "GivenScores(), protocol 'full'" in text
    for line, label in zip(text.splitlines()[1:], report.metrics, strict=True):
        assert line.split() == [label, f"{report[label]:.4f}", "2", "users"]
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(report)
    shown = console.export_text()
    assert "protocol 'full'" in shown
    assert "50.00" in shown
    assert "users" in shown


@pytest.mark.parametrize(("library", "kind"), [(pd, pd.DataFrame), (pl, pl.DataFrame), (pa, pa.Table)])
def test_frames_come_in_the_library_of_the_data(library, kind, scored):
    table = {"user": ["a", "a", "b", "b"], "item": [1, 2, 1, 3]}
    data = Interactions.from_frame(pa.table(table) if library is pa else library.DataFrame(table))
    train, test = data.subset([True, False, True, False]), data.subset([False, True, False, True])
    report = evaluate(scored(train, [[0, 1, 2]] * 2), test, k=1, metrics=["P", "MRR"])
    figures, by_user, spread = report.to_frame(), report.to_frame(per_user=True), over_seeds([report, report])
    for frame in (figures, by_user, spread):
        assert isinstance(frame, kind)
    columns = {name: list(np.asarray(by_user[name])) for name in ("user", "P@1", "MRR")}
    assert columns == {"user": ["a", "b"], "P@1": [0.0, 100.0], "MRR": [50.0, 100.0]}
    assert list(np.asarray(figures["metric"])) == ["P@1", "MRR"]
    assert list(np.asarray(figures["value"])) == [50.0, 75.0]
    assert list(np.asarray(figures["n_users"])) == [2, 2]


# ---- over seeds --------------------------------------------------------------------------------------------


def of(figures, protocol="full"):
    return Report("model", protocol, figures, dict.fromkeys(figures, 3), pl.Series([1, 2, 3]), {}, 0.1)


def test_mean_and_spread_over_seeds():
    frame = over_seeds(
        [of({"P@3": 10.0, "MAP": 1.0}), of({"P@3": 12.0, "MAP": 1.0}), of({"P@3": 17.0, "R@3": 2.0, "MAP": 4.0})]
    )
    assert frame["metric"].to_list() == ["P@3", "MAP"]  # R@3 is not in all of them
    assert frame["mean"].to_list() == [13.0, 2.0]
    assert frame["std"].to_list() == pytest.approx([statistics.stdev([10, 12, 17]), math.sqrt(3)])
    assert frame["min"].to_list() == [10.0, 1.0]
    assert frame["max"].to_list() == [17.0, 4.0]
    assert frame["runs"].to_list() == [3, 3]


def test_one_run_has_no_spread_and_no_run_is_an_error():
    assert over_seeds([of({"P@3": 10.0})])["std"].to_list() == [None]
    with pytest.raises(ParameterError, match="at least one report"):
        over_seeds([])
    with pytest.raises(ParameterError, match="different protocols, full, paper"):
        over_seeds([of({"P@3": 1.0}), of({"P@3": 1.0}, "paper")])
