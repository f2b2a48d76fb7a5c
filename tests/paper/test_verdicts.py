from dataclasses import replace

import numpy as np
import pytest

from tastespace.errors import ParameterError
from tastespace.paper.cells import RunResult
from tastespace.paper.claims import CLAIMS, METRICS
from tastespace.paper.runner import RunStatus
from tastespace.paper.runs import load_parts
from tastespace.paper.verdicts import judge, run_claims


def measured(claim, gains, noise=1.0, seeds=2, n=400):
    """RunResult cells in which each better line is ahead of its worse one by the given gain."""
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
        ((1.0, 1.0, -1.0), "holds in part"),
        ((0.0, 0.0, 0.0), "does not hold here"),
        ((-1.0, -1.0, -1.0), "does not hold here"),
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
    ("gains", "told"),
    [((1.0,), "3 of 3 differences significantly for it, 0 against it; 3 seeds"),
     ((-1.0,), "0 of 3 differences significantly for it, 3 against it; 3 seeds"),
     ((0.0,), "0 of 3 differences significantly for it, 0 against it; 3 seeds")],
)  # fmt: skip
def test_a_verdict_tells_what_speaks_for_and_against(gains, told):
    verdict = judge(CLAIMS["joint"], "town", measured(CLAIMS["joint"], gains, seeds=3))
    assert verdict.tally == told
    assert {row["seeds"] for row in verdict.rows()} == {3}


def test_a_metric_that_was_not_measured_is_left_out():
    claim = CLAIMS["joint"]
    rows = measured(claim, (1.0,))
    del rows[0].finished.per_user["MAP"]
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

    def pretend(cells, folder, **_):
        ran.extend(cells)
        rng = np.random.default_rng(1)
        result = {"history": [{"loss": 1.0}], "best_epoch": 1, "valid_metrics": {"MRR": 1.0}, "metrics": {"MRR": 1.0}}
        return [RunStatus(planned, "done", RunResult(result, dict.fromkeys(METRICS, rng.normal(size=50)))) for planned in cells]

    monkeypatch.setattr("tastespace.paper.verdicts.run_all", pretend)
    verdicts = run_claims(claims, "town", tmp_path, seeds=2)
    assert [verdict.measured for verdict in verdicts] == [3, 12]
    keys = [planned.key() for planned in ran]
    assert len(set(keys)) == len(keys)
    assert len(keys) < sum(len({line.label for pair in claim.pairs for line in pair}) for claim in claims) * 2


def test_genres_are_asked_for_before_anything_is_run(monkeypatch, tmp_path):
    parts = load_parts("town")
    bare = replace(parts, train=replace(parts.train, item_attributes=None))
    monkeypatch.setattr("tastespace.paper.verdicts.load_parts", lambda dataset: bare)
    with pytest.raises(ParameterError, match="have none"):
        run_claims([CLAIMS["minorities"]], "town", tmp_path)
