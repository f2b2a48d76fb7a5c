"""Two reports user by user: p-values against SciPy, who is compared, and what is printed."""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import scipy.stats
from rich.console import Console
from tests.required_services import optional_package

from tastespace import (
    EASE,
    MostPopular,
    compare,
    evaluate,
    split,
)
from tastespace.errors import ParameterError
from tastespace.evaluation import Report, significance
from tastespace.evaluation.significance import holm


def report(per_user, users=None, protocol="full", model="model", backend="polars", unit="fraction"):
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in per_user.items()}
    n = len(next(iter(arrays.values())))
    return Report(
        model,
        protocol,
        {name: float(np.nanmean(values)) for name, values in arrays.items()},
        dict.fromkeys(arrays, unit),
        {name: int((~np.isnan(values)).sum()) for name, values in arrays.items()},
        pl.Series("user", np.arange(n) if users is None else users),
        arrays,
        0.1,
        backend,
    )


def two(n=80, seed=0):
    rng = np.random.default_rng(seed)
    a = {name: rng.gamma(2.0, 10.0, n) for name in ("P@3", "MAP", "MRR")}
    shift = {"P@3": 4.0, "MAP": 1.0, "MRR": 0.0}
    return report(a, model="first"), report({k: v + rng.normal(shift[k], 9, n) for k, v in a.items()}, model="second")


def test_p_values_are_scipys():
    a, b = two()
    found = compare(a, b)
    assert [row.metric for row in found.rows] == ["P@3", "MAP", "MRR"]
    for row in found.rows:
        left, right = a.per_user[row.metric], b.per_user[row.metric]
        assert row.p_t == pytest.approx(scipy.stats.ttest_rel(right, left).pvalue)
        assert row.p_wilcoxon == pytest.approx(scipy.stats.wilcoxon(right, left).pvalue)
        assert row.difference == pytest.approx(right.mean() - left.mean())
        assert (row.a, row.b) == (pytest.approx(left.mean()), pytest.approx(right.mean()))
        assert row.low < row.difference < row.high
        assert row.n_users == 80
    for which in ("p_t", "p_wilcoxon"):
        plain = [getattr(row, which) for row in found.rows]
        assert [getattr(row, f"{which}_corrected") for row in found.rows] == holm(plain)


def test_each_metric_uses_the_users_who_count_in_both():
    nan = math.nan
    a = report({"P@3": [1, 2, nan, 4, 9], "MAP": [1, 1, 1, 1, 1]}, users=["u1", "u2", "u3", "u4", "u5"])
    b = report({"MAP": [3, 2, 2, 2], "P@3": [8, nan, 6, 3], "R@3": [1, 1, 1, 1]}, users=["u4", "u3", "u1", "u2"])
    found = compare(a, b)
    assert [row.metric for row in found.rows] == ["P@3", "MAP"]
    row = found["P@3"]  # users u1, u2, u4: 1 -> 6, 2 -> 3, 4 -> 8
    assert (row.n_users, row.a, row.b) == (3, pytest.approx(7 / 3), pytest.approx(17 / 3))
    assert row.p_t == pytest.approx(scipy.stats.ttest_rel([6, 3, 8], [1, 2, 4]).pvalue)
    assert found["MAP"].n_users == 4
    assert found["MAP"].difference == pytest.approx(5 / 4)


def test_no_difference_and_the_same_difference_for_all():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a = report({"P@3": [1.0, 2.0, 3.0]})
        same = compare(a, a)["P@3"]
        assert (same.p_t, same.p_wilcoxon, same.low, same.high) == (1.0, 1.0, 0.0, 0.0)
        shifted = compare(a, report({"P@3": [2.0, 3.0, 4.0]}))["P@3"]
        assert (shifted.p_t, shifted.low, shifted.high) == (2 / 2**3, 1.0, 1.0)
        alone = compare(report({"P@3": [1.0]}), report({"P@3": [2.0]}))["P@3"]
        assert (alone.p_t, alone.p_wilcoxon, alone.low, alone.high) == (1.0, 1.0, 1.0, 1.0)


def test_percent_and_fractions_are_never_mixed():
    a, b = two()
    with pytest.raises(ParameterError, match=r"P@3 has the unit 'fraction' in one report and '%' in another"):
        compare(a, b.in_percent())
    fractions, percent = compare(a, b), compare(a.in_percent(), b.in_percent())
    for row, other in zip(fractions.rows, percent.rows, strict=True):
        assert (row.unit, other.unit) == ("fraction", "%")
        assert other.p_wilcoxon == row.p_wilcoxon
        for name in ("a", "b", "difference", "low", "high"):
            assert getattr(other, name) == pytest.approx(100 * getattr(row, name))


def test_the_interval_depends_on_the_seed_only(monkeypatch):
    a, b = two()
    first = compare(a, b, seed=3)
    assert first == compare(a, b, seed=3)
    assert first["MAP"].low != compare(a, b, seed=4)["MAP"].low
    wide, narrow = compare(a, b, confidence=0.99)["P@3"], compare(a, b, confidence=0.5)["P@3"]
    assert wide.low < narrow.low < narrow.high < wide.high
    # In small portions, as for millions of users, it is the same.
    monkeypatch.setattr(significance, "_DRAWS_AT_ONCE", 500)
    assert compare(a, b, seed=3) == first


def test_what_cannot_be_compared():
    a, b = two(n=5)
    with pytest.raises(ParameterError, match="different protocols, 'full' and 'paper'"):
        compare(a, replace(b, protocol="paper"))
    with pytest.raises(ParameterError, match="share no metric or no user"):
        compare(a, report({"R@9": [1.0]}))
    with pytest.raises(ParameterError, match="share no metric or no user"):
        compare(a, replace(b, users=b.users + 100))
    with pytest.raises(ParameterError, match="user ids are Int64 and String: none can match"):
        compare(a, replace(b, users=b.users.cast(pl.String)))
    for wrong in ({"confidence": 1.0}, {"confidence": 0.0}, {"resamples": 0}):
        with pytest.raises(ParameterError, match="expected a share"):
            compare(a, b, **wrong)
    with pytest.raises(ParameterError, match="'P@9' was not compared; there are P@3, MAP, MRR"):
        compare(a, b)["P@9"]


def test_for_a_person_and_for_a_program():
    a, b = two()
    found = compare(a, b)
    frame = found.to_frame()
    assert frame["metric"].to_list() == ["P@3", "MAP", "MRR"]
    assert frame["unit"].to_list() == ["fraction"] * 3
    assert frame["p_t_corrected"].to_list() == [row.p_t_corrected for row in found.rows]
    text = str(found)
    assert text.startswith("a = first\nb = second")
    assert text.count("(80 users)") == text.count("] fraction") == 3
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(found)
    table = console.export_text()
    assert "95 % interval" in table
    assert table.count("│ fraction │") == 3


def test_a_comparison_of_pandas_reports_is_a_pandas_frame():
    pd = optional_package("pandas")
    a, b = (replace(one, backend="pandas") for one in two())
    assert isinstance(compare(a, b).to_frame(), pd.DataFrame)


def test_ease_is_significantly_better_than_most_popular(town):
    train, valid, test = split.per_user(town.interactions, seed=0)
    popular, ease = (evaluate(m.fit(train), test, seen=[train, valid]) for m in (MostPopular(), EASE(threads=1)))
    row = compare(popular, ease)["NDCG@10"]
    assert row.difference == pytest.approx(ease["NDCG@10"] - popular["NDCG@10"])
    assert row.low > 0
    assert row.p_t_corrected < 1e-6
    assert row.p_wilcoxon_corrected < 1e-6


def test_every_metric_is_shown_or_refused(town):
    train, _, test = split.per_user(town.interactions, seed=0)
    metrics = ["NDCG@10", "Coverage@10", "Gini@10"]
    a, b = (evaluate(model.fit(train), test, metrics=metrics) for model in (MostPopular(), EASE()))
    found = compare(a, b)
    assert {row.metric for row in found.rows} == set(metrics)
    row = found["Coverage@10"]
    assert (row.a, row.b, row.difference) == (a["Coverage@10"], b["Coverage@10"], b["Coverage@10"] - a["Coverage@10"])
    assert not row.is_tested
    assert math.isnan(row.p_t_corrected)
    console = Console(file=io.StringIO(), width=200, record=True)
    console.print(found)
    for text in (str(found), console.export_text()):
        assert all(name in text for name in metrics)
        assert "nan" not in text
    assert "no test: one value for all lists" in str(found)
    # Holm's correction counts the tests that were made.
    assert found["NDCG@10"].p_t_corrected == found["NDCG@10"].p_t
    assert [row.metric for row in compare(a, b, metrics=["Gini@10"]).rows] == ["Gini@10"]
    with pytest.raises(ParameterError, match=r"no 'Gini@5'.*Did you mean"):
        compare(a, b, metrics=["Gini@5"])
    more = evaluate(EASE().fit(train), test, metrics=[*metrics, "R@20"])
    assert compare(a, more).only_in_one == ("R@20",)
    assert "only in one of the reports: R@20" in str(compare(a, more))
