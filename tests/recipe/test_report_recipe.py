"""The report: the table, why the blend was chosen, and the sentence about several tastes in all its cases."""

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


def choice(figures=(0.3, 0.4, 0.2), one=(0.3, 0.4, 0.1), models=None, balance=0.0, by="interests", p=0.01):
    trials = [Trial("a", model, Accuracy(0.1, 0.2), 1.0) for model in models or [EASE(), DPCML()]]
    return Choice(
        trials=trials,
        weights=np.full(len(trials), 1 / len(trials)),
        balance=balance,
        balance_by=by,
        figures=Accuracy(*figures),
        best_member=(trials[0], Accuracy(0.25, 0.35, 0.1)),
        one_vector=None if one is None else Accuracy(*one),
        minority_p=p,
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"models": [EASE(), CML()]}, "were not compared: no model of the trials has several vectors per user."),
        ({"one": None}, "were not compared: no model of the trials has one vector per user."),
        ({"figures": (0.3, 0.4, NAN), "one": (0.3, 0.4, NAN)}, "no user has held-out items outside the main interest."),
        (
            {"figures": (0.3, 0.4, NAN), "by": "categories"},
            "were not compared: no user has held-out items outside the main category.",
        ),
        (
            {"figures": (0.3, 0.4, 0.1004)},
            "One vector is enough here: several interests do not notably improve the recall of items outside a user's "
            "main interest (from 0.1000 to 0.1004).",
        ),
        ({"figures": (0.3, 0.4, 0.05)}, "One vector is enough here"),
        ({"figures": (0.3, 0.4, 0.0), "one": (0.3, 0.4, 0.0)}, "One vector is enough here"),
        (
            {},
            "This data has users with several tastes: several interests improve the recall of items outside a user's "
            "main interest by 100.0 % (from 0.1000 to 0.2000) at no loss of accuracy.",
        ),
        (
            {"p": 0.2},
            "One vector may be enough here: the recall of items outside a user's main interest is higher with several "
            "interests (from 0.1000 to 0.2000), but that may be chance (p = 0.2).",
        ),
        ({"one": (0.3, 0.4, 0.0)}, "from 0.0000 to 0.2000 at no loss of accuracy."),
        ({"figures": (0.3, 0.38, 0.2)}, "(from 0.1000 to 0.2000) for 5.0 % less accuracy."),
        (
            {"figures": (0.27, 0.4, 0.2), "by": "categories"},
            "main category by 100.0 % (from 0.1000 to 0.2000) for 10.0 % less",
        ),
    ],
)
def test_the_sentence_about_several_tastes(given, expected):
    assert expected in tastes_sentence(choice(**given))


def test_the_reason():
    def reason(**given):
        chosen = choice(**given)
        return make_report(chosen.trials, chosen, [], 1.0).reason

    assert reason() == (
        "Chosen: the blend of 2 models, NDCG@10 0.3000 and R@20 0.4000 on held-out data; the best model alone has "
        "0.2500 and 0.3500."
    )
    assert reason(balance=0.3).endswith("0.3500. Smaller interests get more weight (balance 0.3 by interests).")
    one = reason(models=[EASE()], balance=0.1, by="categories")
    assert one == (
        "Chosen: EASE(), NDCG@10 0.3000 and R@20 0.4000 on held-out data. Smaller interests get more weight (balance "
        "0.1 by categories)."
    )


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


@pytest.mark.parametrize("one", [(0.3, 0.4, 0.1), None])
def test_plain_values_make_the_same_report_again(one):
    chosen = choice(one=one)
    report = make_report(chosen.trials, chosen, ["A note."], 1.0)
    assert RecipeReport(**report.to_dict()) == report


def test_a_report_without_a_comparison():
    report = report_without_choice(EASE(), ["A note."], 1.0)
    assert report.reason == "Fitted without a comparison: EASE()."
    text = str(RecipeReport(**report.to_dict()))
    assert text.splitlines()[-3:] == [
        "Fitted without a comparison: EASE().",
        "Several interests per user were not compared: no interactions were held out.",
        "A note.",
    ]
