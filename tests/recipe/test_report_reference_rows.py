"""Most popular and EASE beside the blend."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import tastespace as ts
from tastespace import evaluate, split
from tastespace.models import EASE, MostPopular, SparseEASE
from tastespace.models.blend.weights import Accuracy
from tastespace.recipe import RecipeReport
from tastespace.recipe._trials import Budget, Setting, Trial
from tastespace.recipe.report import reference_rows


def test_the_rows_are_what_evaluate_gives(bare):
    model = ts.fit(bare, trials=1, seed=2)
    parts = split.hold_out(bare, 0.2, seed=2)
    held_out, train = parts.held_out, parts.rest
    rows = model.recipe_["references"]
    assert [row["label"] for row in rows] == ["most popular", "EASE"]
    for row, reference in zip(rows, (MostPopular(), EASE()), strict=True):
        report = evaluate(reference.fit(train), held_out, seen=train, metrics=["NDCG@10", "R@20"])
        assert row["NDCG@10"] == pytest.approx(report["NDCG@10"])
        assert row["R@20"] == pytest.approx(report["R@20"])
        assert row["MinorityRecall@20"] is None
    report = RecipeReport(**model.recipe_)
    assert f"most popular {rows[0]['NDCG@10']:.4f} and" in str(report)
    assert report.held_out == "20 % of each history, drawn at random"
    del model.recipe_["references"], model.recipe_["held_out"]  # a model of an earlier version
    assert RecipeReport(**model.recipe_).references == []


def test_without_time_for_ease_the_sparse_one_stands_for_it(halves):
    train, held_out = halves
    fitted = SparseEASE().fit(train)
    done = [Trial("linear", fitted, Accuracy(0.1, 0.2), 1.0)]
    rows = reference_rows(done, Setting(train, held_out, Budget(1e-9, None, time.monotonic()), lambda text: None, 1))
    assert [row["label"] for row in rows] == ["most popular", "SparseEASE"]
    assert rows[0]["MinorityRecall@20"] > 0


def test_with_times_the_recipe_chooses_on_the_future(bare):
    times = 1_600_000_000 + np.random.default_rng(0).permutation(bare.n_interactions)
    model = ts.fit(replace(bare, timestamps=times), trials=2)
    assert model.recipe_["held_out"] == "the last 20 % of the interactions"
    assert model.train_.n_interactions == bare.n_interactions
