"""The report: the table, why the blend was chosen, and the sentence about tastes in all its cases."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import CML, DPCML, EASE
from tastespace.models import ALS
from tastespace.models.blend.weights import Accuracy
from tastespace.recipe._choice import Choice
from tastespace.recipe._trials import Trial
from tastespace.recipe.report import (
    RecipeReport,
    make_report,
    report_without_choice,
    tastes_sentence,
)

NAN = float("nan")


PLAIN = {"n_tastes": 5, "focus": 0.0, "lift": 0.0, "category_balance": 0.0}


def choice(figures=(0.3, 0.4, 0.2), plain=(0.3, 0.4, 0.1), models=None, used=PLAIN, by_categories=False, p=0.01):
    trials = [Trial("a", model, Accuracy(0.1, 0.2), 1.0) for model in models or [EASE(), DPCML()]]
    return Choice(
        trials=trials,
        weights=np.full(len(trials), 1 / len(trials)),
        parameters=used,
        by_categories=by_categories,
        figures=Accuracy(*figures),
        best_member=(trials[0], Accuracy(0.25, 0.35, 0.1)),
        without_tastes=Accuracy(*plain),
        tastes_per_user=2.56,
        several=0.714,
        minority_p=p,
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "Lists by the sum of what all of them say are best; shelves show each of them."),
        (
            {"used": {**PLAIN, "focus": 0.3}},
            "Serving them changes NDCG@10 +0.0 %, R@20 +0.0 %, the recall of items of smaller tastes +100.0 %, on "
            "held-out data.",
        ),
        (
            {"used": {**PLAIN, "category_balance": 0.3}, "by_categories": True, "figures": (0.309, 0.38, 0.11)},
            "Serving them changes NDCG@10 +3.0 %, R@20 -5.0 %, the recall of items outside the main category +10.0 %, "
            "on held-out data.",
        ),
        (
            {"used": {**PLAIN, "lift": 0.1}, "figures": (0.3, 0.4, NAN), "plain": (0.3, 0.4, NAN), "p": None},
            "Serving them changes NDCG@10 +0.0 %, R@20 +0.0 %, on held-out data.",
        ),
        (
            {"used": {**PLAIN, "lift": 0.1}, "p": 0.213},
            "smaller tastes +100.0 %, on held-out data. The last may be chance (p = 0.21).",
        ),
        ({"used": {**PLAIN, "lift": 0.1}, "plain": (0.0, 0.4, 0.1)}, "NDCG@10 +0.0 %"),
    ],
)
def test_the_sentence_about_tastes(given, expected):
    found = tastes_sentence(choice(**given))
    assert found.startswith("People here have 2.6 tastes on average, 71 % of them two or more. ")
    assert found.endswith(expected) or expected == "NDCG@10 +0.0 %"
    assert expected in found


def test_the_reason():
    def reason(**given):
        chosen = choice(**given)
        return make_report(chosen.trials, chosen, [], 1.0).reason

    assert reason() == (
        "Chosen: the blend of 2 models, NDCG@10 0.3000 and R@20 0.4000 on held-out data; the best model alone, "
        "EASE(), has 0.2500 and 0.3500."
    )
    assert reason(models=[EASE()]) == "Chosen: EASE(), NDCG@10 0.3000 and R@20 0.4000 on held-out data."


def test_a_member_that_is_there_for_its_vectors_alone():
    chosen = choice(models=[EASE(), ALS(), DPCML()])
    chosen.weights[:] = 0.6, 0.4, 0.0
    report = make_report(chosen.trials, chosen, [], 1.0)
    assert "the blend of 2 models" in report.reason
    assert report.reason.endswith(" DPCML() is kept beside: its item vectors group past items.")
    assert report.blend_size == "a blend of 2 models, and 1 beside that groups past items,"
    less = report.with_members([0, 1], [0.6, 0.4])
    assert less.blend_size == "a blend of 2 models"
    assert less.notes == ["The figures of the blend are those with DPCML(), left out since."]
    assert "beside" not in less.reason


def test_the_table_shows_what_differs_between_trials():
    common = {"epochs": 100, "patience": 5, "validate_every": 2, "seed": 3, "threads": 2}
    models = [
        DPCML(n_interests=3, anchor=0.5, n_negatives=10, **common),
        DPCML(n_interests=3, n_negatives=10, **common),
        ALS(alpha=8.0, frequency_power=1.0, seed=3, threads=2),
        ALS(dim=128, frequency_power=1.0, seed=3, threads=2),
    ]
    chosen = choice(models=models)
    report = make_report(chosen.trials, chosen, ["A note."], 1.0)
    assert [row["model"] for row in report.trials] == [
        "DPCML(n_interests=3, anchor=0.5, n_negatives=10)",
        "DPCML(n_interests=3, anchor=0.0, n_negatives=10)",
        "ALS(dim=64, alpha=8.0)",
        "ALS(dim=128, alpha=1.0)",
    ]
    assert report.trials[0]["setting"] == repr(models[0])
    lines = str(report).splitlines()
    assert lines[0].split() == ["family", "model", "NDCG@10", "R@20", "minority", "seconds", "weight"]
    assert lines[1].startswith("a       DPCML(n_interests=3, anchor=0.5, n_negatives=10)  0.1000   0.2000")
    assert lines[1].endswith("0.25")
    assert lines[-1] == "A note."


def test_trials_outside_the_blend_have_no_weight():
    chosen = choice()
    other = Trial("b", CML(), Accuracy(0.1, 0.2, 0.3), 2.0)
    report = make_report([*chosen.trials, other], chosen, [], 1.0)
    assert [row["weight"] for row in report.trials] == [0.5, 0.5, None]
    assert [row["MinorityRecall@20"] for row in report.trials] == [None, None, 0.3]
    assert str(report).splitlines()[3].split() == ["b", "CML()", "0.1000", "0.2000", "0.3000", "2.0"]


@pytest.mark.parametrize("plain", [(0.3, 0.4, 0.1), (0.3, 0.4, NAN)])
def test_plain_values_make_the_same_report_again(plain):
    chosen = choice(plain=plain)
    report = make_report(chosen.trials, chosen, ["A note."], 1.0)
    assert RecipeReport(**report.to_dict()) == report
    assert report.blend["parameters"] == PLAIN
    assert report.blend["without_tastes"]["minority"] == (None if np.isnan(plain[2]) else plain[2])


def test_a_report_without_a_comparison():
    report = report_without_choice(EASE(), ["A note."], 1.0)
    assert report.reason == "Fitted without a comparison: EASE()."
    text = str(RecipeReport(**report.to_dict()))
    assert text.splitlines()[-3:] == [
        "Fitted without a comparison: EASE().",
        "Tastes were not compared: no models were.",
        "A note.",
    ]
