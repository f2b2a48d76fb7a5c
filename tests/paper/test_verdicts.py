from dataclasses import replace

import numpy as np
import pytest

from tastespace.errors import ParameterError
from tastespace.evaluation.significance import hierarchical_bootstrap
from tastespace.paper.claims import CLAIMS, METRICS
from tastespace.paper.data import load_parts
from tastespace.paper.experiments import TableRow
from tastespace.paper.runner import RunResult, RunStatus
from tastespace.paper.verdicts import (
    deviations,
    judge,
    paired_over_genres,
    paired_over_seeds,
    paired_over_users,
    run_claims,
    value_of_run,
)


def measured(claim, gains, noise=1.0, seeds=2, n=400):
    """Finished runs in which each better row is ahead of its worse one by the given gain."""
    rng = np.random.default_rng(0)
    level = {}
    for (better, worse), gain in zip(claim.pairs, gains, strict=True):
        level[worse.label], level[better.label] = 20.0, 20.0 + gain
    users = rng.normal(0, 10, n)
    rows = []
    for planned in claim.planned_runs("town", seeds):
        values = level[planned.title] + users + rng.normal(0, noise, n)
        rows.append(RunStatus(planned, "done", RunResult({}, dict.fromkeys(METRICS, values))))
    return rows


@pytest.mark.parametrize(
    ("gains", "word"),
    [
        ((1.0, 1.0, 1.0), "holds"),
        ((1.0, 1.0, 0.0), "holds"),
        ((1.0, 0.0, 0.0), "mixed"),
        ((1.0, 1.0, -1.0), "mixed"),
        ((0.0, 0.0, 0.0), "no difference"),
        ((-1.0, -1.0, 0.0), "reversed"),
    ],
)
def test_the_verdict_follows_the_measurements(gains, word):
    claim = CLAIMS["dcrs"]
    verdict = judge(claim, "town", measured(claim, gains))
    assert verdict.word == word
    assert len(verdict.rows()) == len(claim.pairs) * len(METRICS)
    assert {row["verdict"] for row in verdict.rows()} == {word}


def test_what_was_not_measured_is_not_judged():
    claim = CLAIMS["hars-unis"]
    assert judge(claim, "town", []).word == "not measured"
    rows = measured(claim, (1.0, 1.0, 1.0))
    rows = [row for row in rows if row.planned.title != "cml+unis"]
    assert len(judge(claim, "town", rows).differences) == 2 * len(METRICS)


@pytest.mark.parametrize(
    ("gains", "expected"),
    [((1.0,), "3 of 3 differences significantly for it, 0 against it; 3 seeds"),
     ((-1.0,), "0 of 3 differences significantly for it, 3 against it; 3 seeds"),
     ((0.0,), "0 of 3 differences significantly for it, 0 against it; 3 seeds")],
)  # fmt: skip
def test_a_verdict_counts_differences_for_and_against_the_claim(gains, expected):
    verdict = judge(CLAIMS["joint"], "town", measured(CLAIMS["joint"], gains, seeds=3))
    assert verdict.tally == expected
    assert {row["seeds"] for row in verdict.rows()} == {3}


def test_a_metric_that_was_not_measured_is_left_out():
    claim = CLAIMS["joint"]
    rows = measured(claim, (1.0,))
    del rows[0].found.per_user["MAP"]
    assert [row["metric"] for row in judge(claim, "town", rows).rows()] == ["P@3", "MRR"]


def test_seeds_that_both_sides_have_are_compared():
    claim = CLAIMS["joint"]
    rows = measured(claim, (1.0,), seeds=3)
    fewer = [row for row in rows if row.planned.title == "gfja" or row.planned.seed < 2]
    verdict = judge(claim, "town", fewer)
    assert verdict.measured == 1
    assert verdict.word == "holds"


def test_a_verdict_says_of_how_many_pairs_and_compares_the_same_seeds():
    claim = CLAIMS["joint"]
    rows = measured(claim, (1.0,), seeds=3)
    holes = [row for row in rows if (row.planned.title, row.planned.seed) not in {("gfja", 0), ("gfja+dcrs", 1)}]
    verdict = judge(claim, "town", holes)
    assert verdict.pairs == "1 of 1 pairs"
    alone = [row for row in rows if row.planned.seed == 2]
    assert judge(claim, "town", alone).differences == verdict.differences


def test_minority_genres_are_judged_over_the_small_genres_alone(monkeypatch):
    claim = CLAIMS["minorities"]
    names, small = np.array(list("abcdef")), np.arange(6) >= 2
    monkeypatch.setattr("tastespace.paper.verdicts.minority_categories", lambda data: (names, None, small))
    rows = []
    for planned in claim.planned_runs("town", 1):
        gain = np.where(small, 1.0, -9.0) * (not planned.method.startswith("cml"))
        values = 10 + gain + np.random.default_rng(len(rows)).normal(0, 0.01, 6)
        metrics = {f"MAP[{name}]": value for name, value in zip(names, values, strict=True)}
        rows.append(RunStatus(planned, "done", RunResult({"metrics": metrics}, {})))
    verdict = judge(claim, "town", rows)
    assert verdict.word == "holds"
    assert {(row["over"], row["n"]) for row in verdict.rows()} == {("genres", 4)}


def test_one_seed_does_not_measure_a_claim_about_seeds():
    claim = CLAIMS["vectors"]
    result = {"history": [{"loss": 1.0}], "best_epoch": 1, "valid_metrics": {"MRR": 1.0}, "metrics": {"MRR": 1.0}}
    rows = [RunStatus(planned, "done", RunResult(result, {})) for planned in claim.planned_runs("town", 1)]
    assert judge(claim, "town", rows).word == "not measured"
    assert claim.seeds == 5


def test_claims_that_share_a_run_are_all_judged(monkeypatch, tmp_path):
    claims = [CLAIMS["bpa-cml"], CLAIMS["vectors"]]  # on town, CML is the C = 1 of the other
    ran = []

    def pretend(planned_runs, folder, **_):
        ran.extend(planned_runs)
        rng = np.random.default_rng(1)
        result = {"history": [{"loss": 1.0}], "best_epoch": 1, "valid_metrics": {"MRR": 1.0}, "metrics": {"MRR": 1.0}}
        return [
            RunStatus(planned, "done", RunResult(result, dict.fromkeys(METRICS, rng.normal(size=50))))
            for planned in planned_runs
        ]

    monkeypatch.setattr("tastespace.paper.verdicts.run_all", pretend)
    verdicts = run_claims(claims, "town", tmp_path, seeds=2)
    assert [verdict.measured for verdict in verdicts] == [3, 12]
    keys = [planned.key() for planned in ran]
    assert len(set(keys)) == len(keys)
    assert len(keys) < sum(len({line.label for pair in claim.pairs for line in pair}) for claim in claims) * 2


def test_genres_are_required_before_anything_is_run(monkeypatch, tmp_path):
    parts = load_parts("town")
    bare = replace(parts, train=replace(parts.train, item_attributes=None))
    monkeypatch.setattr("tastespace.paper.verdicts.load_parts", lambda dataset: bare)
    with pytest.raises(ParameterError, match="have no genres"):
        run_claims([CLAIMS["minorities"]], "town", tmp_path)


def test_differences_over_users_are_tested_over_seeds_and_users():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, (3, 200)), rng.normal(0.8, 1, (3, 200))
    a[:, :5] = np.nan
    runs = [[RunResult({}, {"P@3": values}) for values in side] for side in (a, b)]
    found = paired_over_users(*runs, "P@3")
    assert found.n == 195
    assert found.p_value == hierarchical_bootstrap(a - b)
    assert found.mean == pytest.approx((a[:, 5:] - b[:, 5:]).mean())
    assert paired_over_users(runs[0], runs[0], "P@3").p_value == 1.0


def run(loss, valid, test, genres=()):
    history = [{"loss": 9.0}, {"loss": loss + 7, "hinge": loss}, {"loss": 0.0}]  # the second epoch was kept
    metrics = {"MRR": test, **{f"MAP[{name}]": value for name, value in genres}}
    return RunResult(
        {"history": history, "best_epoch": 2, "valid_metrics": {"MRR": valid}, "metrics": metrics}, {}
    )  # fmt: skip


def test_over_seeds_a_smaller_loss_is_better():
    many, one = [run(1.0 + 0.1 * s, 30 + s, 20 - s) for s in range(5)], [run(1.5, 29, 21 + s) for s in range(5)]
    assert [value_of_run(many[3], f) for f in ("train loss", "validation MRR", "test MRR")] == [1.3, 33, 17]
    loss = paired_over_seeds(many, one, "train loss")
    assert loss.mean == pytest.approx(0.3)
    assert loss.p_value < 0.05
    assert loss.n == 5
    assert paired_over_seeds(many, one, "validation MRR").mean == pytest.approx(3.0)
    assert paired_over_seeds(many, one, "test MRR").mean == pytest.approx(-5.0)
    assert paired_over_seeds(many[:1], one[:1], "train loss").p_value == 1.0  # one seed has no standard deviation


def test_over_genres_each_genre_counts_once():
    first = [run(1, 1, 1, [("a", 4.0 + s), ("b", 2.0), ("c", 1.0)]) for s in range(2)]
    second = [run(1, 1, 1, [("a", 3.0 + s), ("b", 1.5), ("c", 0.0)]) for s in range(2)]
    found = paired_over_genres(first, second, ["a", "b", "without items"])
    assert found.n == 2
    assert found.mean == pytest.approx(0.75)


def test_the_same_difference_everywhere_gets_the_exact_test():
    one, other = ([RunResult({}, {"P@3": np.array([0.1, 0.2, 0.7]) + gain})] for gain in (0.2, 0.0))
    found = paired_over_users(one, other, "P@3")
    assert found.mean == pytest.approx(0.2)
    assert found.p_value == 2 / 2**3  # all three signs agree by chance


@pytest.fixture
def entry():
    return TableRow(dataset="ml-1m", label="TransCF", method="transcf", ours={"P@3": 19.6, "MRR": 24.0},
                 published={"P@3": 10.0, "MRR": 24.0}, std={}, seeds=1, seconds=1.0, state="complete")  # fmt: skip


def said(*entries):
    return deviations("results1", list(entries))


def test_a_large_deviation_is_named_with_a_reason_and_its_budget(entry):
    (text,) = said(replace(entry, trials=1))
    assert text.startswith("TransCF: P@3 96 % above; Adagrad at rates")
    assert text.endswith("(1 trial).")
    (low,) = said(replace(entry, ours={"P@3": 8.0}))
    assert "P@3 20 % below;" in low
    (second,) = said(replace(entry, method="cml+hars+dd"))
    assert "another first stage" in second


def test_a_quick_run_is_not_compared(entry):
    assert said(replace(entry, note="quick")) == []


def test_a_small_deviation_or_a_method_not_in_the_paper_is_not_named(entry):
    assert (
        said(replace(entry, ours={"P@3": 10.9, "MRR": 21.7}), replace(entry, published={}), replace(entry, ours={}))
        == []
    )


def test_other_tables_are_not_about_accuracy_of_competitors(entry):
    assert deviations("cold", [entry]) == []
