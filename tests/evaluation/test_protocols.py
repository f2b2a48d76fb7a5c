"""Protocols worked by hand, and golden values on the authors' own split."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.models.formulas import plain_ease

from tastespace import (
    MostPopular,
    datasets,
    evaluate,
)
from tastespace.errors import ParameterError
from tastespace.evaluation import FULL, PAPER
from tastespace.evaluation.protocols import find_protocol

LOG3 = math.log2(3)
METRICS = ["P", "R", "NDCG", "HitRate", "MAP", "MRR"]


@pytest.fixture(scope="module")
def example(taken, scored):
    """Two users, eight items.

    User 0 has taken 0 and tests on 2 and 3; with item 1, a validation item, in the ranking it reads
    1, [2], 4, [3], ... User 1 has taken 1 and tests on 2, 3 and 4; items 0, 2 and 5 tie, and so do 4 and 6.
    Larger scores come first and equal ones by ascending item: [3], 0, [2], 5, [4], 6, 7.
    """
    train, valid, test = taken([[0], [1]], 8), taken([[1], [0]], 8), taken([[2, 3], [2, 3, 4]], 8)
    scores = [[9, 8, 7, 5, 6, 1, 2, 3], [5, 9, 5, 7, 1, 5, 1, 0]]
    return scored(train, scores), train, valid, test


def test_paper_by_hand(example):
    model, train, valid, test = example
    report = evaluate(model, test, seen=[train, valid], protocol="paper", k=[2, 3], metrics=METRICS)
    ideal = {2: 1 + 1 / LOG3, 3: 1 + 1 / LOG3 + 1 / 2}
    expected = {
        # Both users have two test items. User 0 hits at 2, user 1 at 1.
        "P@2": [1 / 2, 1 / 2],
        "R@2": [1 / 2, 1 / 3],
        "NDCG@2": [(1 / LOG3) / ideal[2], 1 / ideal[2]],
        "HitRate@2": [1, 1],
        # A user with two test items does not count at k = 3. User 1 hits at 1 and at 3: of the three items that
        # tie, item 2 comes after item 0 and before item 5.
        "P@3": [math.nan, 2 / 3],
        "R@3": [math.nan, 2 / 3],
        "NDCG@3": [math.nan, (1 + 1 / 2) / ideal[3]],
        "HitRate@3": [math.nan, 1],
        # MAP and MRR need three test items too. Hits at 1, 3 and 5 (item 4 before item 6).
        "MAP": [math.nan, (1 / 1 + 2 / 3 + 3 / 5) / 3],
        "MRR": [math.nan, 1],
    }
    assert set(report.metrics) == set(expected)
    for label, values in expected.items():
        assert report.per_user[label].tolist() == pytest.approx(values, nan_ok=True), label
        assert report[label] == pytest.approx(np.nanmean(values))
        assert report.n_users[label] == np.count_nonzero(~np.isnan(values))


def test_full_by_hand(example):
    model, train, valid, test = example
    report = evaluate(model, test, seen=[train, valid], protocol="full", k=3, metrics=METRICS)
    # Without the validation items: [2], 4, [3], ... and [3], [2], 5, [4], 6, 7. All users count.
    expected = {
        "P@3": [2 / 3, 2 / 3],
        "R@3": [1, 2 / 3],
        "NDCG@3": [(1 + 1 / 2) / (1 + 1 / LOG3), (1 + 1 / LOG3) / (1 + 1 / LOG3 + 1 / 2)],
        "HitRate@3": [1, 1],
        "MAP": [(1 + 2 / 3) / 2, (1 + 1 + 3 / 4) / 3],
        "MRR": [1, 1],
    }
    for label, values in expected.items():
        assert report.per_user[label].tolist() == pytest.approx(values), label


def test_validation_items_stay_in_the_papers_ranking(example):
    model, train, valid, test = example
    alone = evaluate(model, test, seen=train, protocol="paper", k=2)
    both = evaluate(model, test, seen=[train, valid], protocol="paper", k=2)
    assert alone.metrics == both.metrics
    assert evaluate(model, test, seen=[train, valid], k=2).metrics != evaluate(model, test, seen=train, k=2).metrics


def test_what_the_model_was_fitted_with_is_seen_by_default(example, scored):
    model, train, valid, test = example
    fitted = scored(train, model.table_, valid=valid)
    for protocol in ("paper", "full"):
        by_default = evaluate(fitted, test, protocol=protocol, k=2)
        assert by_default.metrics == evaluate(model, test, seen=[train, valid], protocol=protocol, k=2).metrics


def test_a_protocol_of_your_own(example):
    model, train, valid, test = example
    own = replace(FULL, name="mine", ideal_uses_all_k=True)
    report = evaluate(model, test, seen=[train, valid], protocol=own, k=3)
    assert report.protocol == "mine"
    assert report.per_user["NDCG@3"][0] == pytest.approx((1 + 1 / 2) / (1 + 1 / LOG3 + 1 / 2))


def test_names_of_protocols():
    assert find_protocol("paper") is PAPER
    assert find_protocol(FULL) is FULL
    with pytest.raises(ParameterError, match=r"protocol='papr': expected 'paper' or 'full'\. Did you mean paper"):
        find_protocol("papr")


def test_the_protocols_own_cutoffs_are_used_as_far_as_the_catalog_reaches(taken, scored, town):
    report = evaluate(MostPopular().fit(town.interactions), town.interactions, seen=[], metrics="P")
    assert list(report.metrics) == ["P@5", "P@10"]
    small = scored(taken([[0], [0]], 4), np.zeros((2, 4)))
    assert list(evaluate(small, taken([[1], []], 4), protocol="paper", metrics=["P", "MAP"]).metrics) == ["P@3", "MAP"]


LABELS = ("P@3", "R@3", "NDCG@3", "P@5", "R@5", "NDCG@5", "MAP", "MRR")
GOLDEN = [
    (plain_ease(50.0, threads=1), (0.3407, 0.1967, 0.3546, 0.3325, 0.1726, 0.3509, 0.2741, 0.5674)),
    (MostPopular(), (0.1292, 0.0657, 0.1352, 0.1345, 0.0669, 0.1483, 0.1001, 0.2847)),
]


@pytest.mark.parametrize(("model", "expected"), GOLDEN, ids=["EASE", "MostPopular"])
def test_golden_values_on_the_authors_split(model, expected, dataset_dir):
    """Measured independently of this project; ties of most-popular's counts may move the last digit."""
    folder = dataset_dir("steam-200k")
    train, _, test = datasets.load_split("steam-200k", data_dirs=folder.parent)
    report = evaluate(model.clone().fit(train), test, seen=train, protocol="paper")
    assert {label: report[label] for label in LABELS} == pytest.approx(
        dict(zip(LABELS, expected, strict=True)), abs=0.0002
    )
    assert report.n_users["P@3"] == report.n_users["MAP"] == 2488
    assert report.n_users["P@5"] == 1304
