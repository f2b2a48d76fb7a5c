"""The curve of accuracy against minority recall."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

import tastespace as ts
from tastespace.errors import NotFittedError, ParameterError
from tastespace.recommend.rerank.tradeoff import metrics_of_each

METRICS = ["NDCG@10", "R@20", "MinorityRecall@20"]


@pytest.fixture(scope="module")
def parts(town):
    return ts.split.per_user(town.interactions, seed=0)


@pytest.fixture(scope="module")
def first(parts):
    return ts.EASE(threads=1).fit(parts[0])


@pytest.fixture(scope="module")
def several(parts):
    return ts.DPCML(dim=16, n_interests=3, epochs=15, threads=1).fit(parts[0])


def test_a_row_for_each_degree_of_diversity(parts, several):
    train, valid, test = parts
    frame = ts.tradeoff(several, test, seen=[train, valid], diversities=[0, 0.5, 1], threads=1)
    assert frame.columns == ["diversity", *METRICS]
    assert frame["diversity"].to_list() == [0.0, 0.5, 1.0]
    for row in frame.iter_rows(named=True):
        model = ts.Mixed(several, mix="proportional", diversity=row["diversity"])
        expected = ts.evaluate(model, test, seen=[train, valid], metrics=METRICS, threads=1)
        assert {name: row[name] for name in METRICS} == expected.metrics
    plain = ts.evaluate(several, test, seen=[train, valid], metrics=METRICS, threads=1)
    assert frame["NDCG@10"][0] == plain["NDCG@10"]
    assert frame["NDCG@10"].n_unique() == 3


def test_the_arguments_are_passed_on(parts, several):
    train, _, test = parts
    about = pl.DataFrame({"item": range(200), "kind": ["a", "b"] * 100})
    options = {"protocol": "paper", "categories": "kind", "item_attributes": about, "threads": 1}
    frame = ts.tradeoff(
        several, test, seen=train, diversities=(d for d in (0.25,)), mix="scaled", metrics="CalibrationJS@5", **options
    )
    mixed = ts.Mixed(several, mix="scaled", diversity=0.25)
    expected = ts.evaluate(mixed, test, seen=train, metrics="CalibrationJS@5", **options)
    assert frame.rows() == [(0.25, expected["CalibrationJS@5"])]


@pytest.mark.parametrize("bad", [[0, 1.5], [-0.1], ["0.5"], [True], [float("nan")]])
def test_degrees_of_diversity_are_numbers_from_0_to_1(parts, first, bad):
    with pytest.raises(ParameterError, match="was given, expected numbers from 0 to 1"):
        ts.tradeoff(first, parts[2], diversities=bad)


def test_what_cannot_be_measured(parts, first):
    with pytest.raises(ParameterError, match="diversities is empty"):
        ts.tradeoff(first, parts[2], diversities=[])
    with pytest.raises(NotFittedError):
        ts.tradeoff(ts.EASE(), parts[2])
    with pytest.raises(ParameterError, match="EASE"):  # which has no interests to mix
        ts.tradeoff(first, parts[2], threads=1)
    with pytest.raises(ParameterError, match="no model was given"):
        metrics_of_each([], parts[2])


def test_any_models_in_the_library_of_the_data(parts):
    frame = parts[0].to_frame()
    train = ts.Interactions.from_frame(pd.DataFrame({name: frame[name].to_list() for name in ("user", "item")}))
    models = [(name, model.fit(train)) for name, model in (("most", ts.MostPopular()), ("ease", ts.EASE(threads=1)))]
    found = metrics_of_each(models, parts[2], metrics=["P@5", "MRR"], on_unknown="skip", threads=1)
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns) == ["model", "P@5", "MRR"]
    assert found["model"].tolist() == ["most", "ease"]
