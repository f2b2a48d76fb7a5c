"""Many models on several windows: means, spreads, tests, budgets, and who is left out."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import scipy.stats

from tastespace import (
    DPCML,
    EASE,
    Interactions,
    MostPopular,
    cross_validate,
    evaluate,
    split,
    synthetic,
)
from tastespace.errors import DataError, ParameterError, TrainingError
from tastespace.evaluation.significance import holm
from tastespace.models import ALS


@pytest.fixture(scope="module")
def town() -> Interactions:
    return synthetic.multi_interest(n_users=90, n_items=60, n_interactions=1_800, seed=2).interactions


@pytest.fixture(scope="module")
def timed(town) -> Interactions:
    times = 1_600_000_000 + np.random.default_rng(0).integers(0, 10**7, town.n_interactions)
    return replace(town, timestamps=times)


def test_figures_are_those_of_evaluate(timed):
    windows = split.rolling(timed, 3)
    found = cross_validate(["popular", EASE(regularization=50.0)], timed, windows, ["NDCG@10", "Coverage@5"])
    for name, model in (("popular", MostPopular()), ("ease", EASE(regularization=50.0))):
        reports = [evaluate(model.clone().fit(a), b, seen=a, metrics="NDCG@10", only="warm") for a, b in windows]
        values = [report["NDCG@10"] for report in reports]
        row = found[name, "NDCG@10"]
        assert (row.mean, row.std) == (pytest.approx(np.mean(values)), pytest.approx(np.std(values, ddof=1)))
        assert row.users == sum(report.n_users["NDCG@10"] for report in reports)
        assert found[name, "Coverage@5"].p is None
    assert found.reference == "ease"
    assert found["ease", "NDCG@10"].p is None
    assert found["popular", "NDCG@10"].difference < 0


def test_p_values_are_of_users_and_corrected_together(town):
    found = cross_validate(["popular", "ease", "itemknn"], town, 2, ["NDCG@10", "R@20"], reference="first")
    assert found.reference == "popular"
    plain = []
    for name in ("ease", "itemknn"):
        for metric in ("NDCG@10", "R@20"):
            differences: dict[int, list[float]] = {}
            for ours, theirs in zip(found.reports[name], found.reports["popular"], strict=True):
                for user, a, b in zip(ours.users, ours.per_user[metric], theirs.per_user[metric], strict=True):
                    differences.setdefault(user, []).append(a - b)
            means = [np.mean(values) for values in differences.values()]
            plain.append(scipy.stats.ttest_1samp(means, 0.0).pvalue)
    expected = holm(plain)
    given = [found[name, metric].p for name in ("ease", "itemknn") for metric in ("NDCG@10", "R@20")]
    assert given == pytest.approx(expected)


def test_windows_of_time_or_random_folds_by_name(timed, town):
    def mean(data, by):
        return cross_validate(["popular"], data, by, "NDCG@10")["popular", "NDCG@10"].mean

    assert mean(timed, "time") == mean(timed, 3) != mean(timed, "random")
    assert mean(timed, "random") == mean(town, 3)
    found = cross_validate(["popular"], timed, "time", "NDCG@10")
    assert found.title.startswith(f"3 windows, {sum(found.n_warm)} users, counted once per window")
    with pytest.raises(DataError, match="no timestamps"):
        mean(town, "time")


def test_cold_users_are_counted_and_left_out(timed):
    rows = timed.to_frame()
    late = pl.DataFrame(
        {"user": [1000 + n for n in range(5)], "item": [1, 2, 3, 4, 5], "timestamp": [1_600_000_000 + 10**7 - 1] * 5}
    )
    data = Interactions.from_frame(pl.concat([rows, late]), timestamp="timestamp")
    found = cross_validate(["popular"], data, 2, "NDCG@10")
    assert found.n_cold[-1] == 5
    assert "5 without a training history left out" in found.title
    assert not set(found.reports["popular"][-1].users) & set(late["user"])


def test_trained_models_choose_their_epochs_inside_the_training_part(timed, monkeypatch):
    fits = []
    real = DPCML.fit

    def watch(self, train, valid=None, *rest, **options):
        fits.append((train, valid, self.epochs))
        return real(self, train, valid, *rest, **options)

    monkeypatch.setattr(DPCML, "fit", watch)
    ((train, _),) = windows = split.rolling(timed, 1)
    cross_validate([DPCML(dim=4, epochs=3, validate_every=1)], timed, windows, "NDCG@10")
    (rest, held_out, _), (whole, nothing, epochs) = fits
    assert rest.timestamps.max() < held_out.timestamps.min() <= train.timestamps.max()
    assert whole.n_interactions == train.n_interactions
    assert nothing is None
    assert epochs <= 3


def test_a_budget_finishes_one_window_and_says_so(timed):
    found = cross_validate(["ease", DPCML(dim=8, epochs=500, patience=0)], timed, 3, "NDCG@10", minutes=1e-4)
    assert found.n_windows == 1
    assert any("1 of 3 windows" in note for note in found.notes)
    assert "dpcml was stopped by the time limit before its training had ended." in found.notes
    assert found["ease", "NDCG@10"].std is None
    one = cross_validate(["ease"], timed, 1, "NDCG@10", minutes=1e-6)
    assert "was too small" in one.notes[0]


def test_weights_go_to_the_models_that_use_them(timed):
    found = cross_validate(
        ["ease", DPCML(dim=4, epochs=1)],
        timed.with_half_life("20d"),
        split.rolling(timed.with_half_life("20d"), 1),
        "MRR",
    )
    assert found.notes == ["dpcml learns without the weights of the interactions."]


class Diverging(MostPopular):
    def _fit(self, train, valid, progress):
        raise TrainingError("too large a step")


def test_a_model_that_fails_is_left_out(town):
    found = cross_validate({"bad": Diverging(), "good": "popular"}, town, 2, "NDCG@10")
    assert list(found.reports) == ["good"]
    assert found.notes == ["bad was left out: too large a step"]
    with pytest.raises(TrainingError, match="none of bad could be fitted"):
        cross_validate({"bad": Diverging()}, town, 2, "NDCG@10")


def test_functions_may_fit(town):
    found = cross_validate({"mine": lambda train, minutes: EASE().fit(train), "ease": "ease"}, town, 2, "NDCG@10")
    assert found["mine", "NDCG@10"].mean == found["ease", "NDCG@10"].mean
    assert found["mine", "NDCG@10"].difference == 0.0


def test_two_models_of_a_kind_are_told_apart(town):
    found = cross_validate([ALS(dim=4, iterations=2), ALS(dim=8, iterations=2)], town, 2, "NDCG@10")
    assert list(found.reports) == ["als", "ALS(dim=8, iterations=2)"]


def test_what_is_printed_names_every_metric(town):
    from rich.console import Console

    metrics = ["NDCG@10", "R@20", "Coverage@10", "Novelty@5", "AUC"]
    found = cross_validate(["popular", "ease"], town, 2, metrics)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(found)
    for text in (str(found), console.export_text()):
        for metric in metrics:
            assert metric in text
        assert "Novelty@5 [bits]" in text
        assert "tested against ease" in text
    assert set(found.to_frame()["metric"]) == set(metrics)
    assert len(found.to_frame(windows=True)) == 2 * 2 * 5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"models": []}, ParameterError, r"models=\[\]: expected a list"),
        ({"models": "ease"}, ParameterError, "models='ease': expected a list"),
        ({"models": ["eese"]}, ParameterError, "Did you mean ease"),
        ({"models": ["ease", "ease"]}, ParameterError, "given twice"),
        ({"models": [3]}, ParameterError, "3 is neither"),
        ({"metrics": ["NCDG@10"]}, ParameterError, "Did you mean NDCG"),
        ({"metrics": []}, ParameterError, "at least one"),
        ({"metrics": ["InterestCoverage@5"]}, ParameterError, "popular: .*InterestCoverage@5"),
        ({"reference": "als"}, ParameterError, "reference='als': expected"),
        ({"split": "tmie"}, ParameterError, "split='tmie': expected pairs"),
        ({"split": [1, 2]}, ParameterError, "expected pairs"),
        ({"minutes": 0}, ParameterError, "minutes=0"),
        ({"split": 500}, DataError, "cannot be divided"),
    ],
)
def test_bad_arguments(town, arguments, error, message):
    with pytest.raises(error, match=message):
        cross_validate(**{"models": ["popular"], "data": town, "split": 2, "metrics": "NDCG@10", **arguments})
