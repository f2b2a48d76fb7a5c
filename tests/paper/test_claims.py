import pytest

from tastespace.errors import ParameterError
from tastespace.paper.claims import CLAIMS, find_claim
from tastespace.paper.methods import find_method
from tastespace.paper.tables import EXPERIMENTS


def test_cells_of_a_claim():
    planned_runs = CLAIMS["dcrs"].planned_runs("steam-200k", 3)
    assert len(planned_runs) == 6 * 3
    assert {planned.parameters.get("dcrs", "stored") for planned in planned_runs} == {"stored", None}
    with pytest.raises(ParameterError, match="apa-bpa"):
        find_claim("apa-bpaa")


def test_claims_of_diversity_are_judged_by_it():
    claim = CLAIMS["diverse"]
    assert {metric.partition("@")[0] for metric in claim.metrics} == {"MaxDiv", "RelativeMaxDiv"}
    assert [one.name for one in CLAIMS.values() if one.default] == [
        "apa-bpa", "bpa-cml", "dihars-hars", "hars-unis", "dcrs", "ndihars", "diverse", "dihars-diverse", "joint",
    ]  # fmt: skip
    assert len(CLAIMS["competitors"].pairs) == 17
    assert len(CLAIMS["diversity-competitors"].pairs) == 9


@pytest.mark.parametrize("name", ["halves", "eta", "sizes", "dcrs", "dd", "plain-diverse", "mf", "ease"])
def test_a_claim_is_judged_by_runs_of_the_tables(name):
    claim = CLAIMS[name]
    declared = {planned.key() for table in EXPERIMENTS.values() for planned in table.planned_runs(["town"], 1)}
    assert {planned.key() for planned in claim.planned_runs("town", 1)} <= declared


def test_the_claim_about_cold_start_is_judged_on_cold_start_data():
    claim = CLAIMS["cold"]
    assert claim.datasets == ("xing-2017-cold",)
    assert {metric.rpartition(" ")[0] for metric in claim.metrics} == {"cold user", "cold item"}
    trained = {find_method(line.method).fixed.get("training", "joint") for pair in claim.pairs for line in pair}
    assert trained == {"joint", "pretrained"}
    assert all(better.changes == worse.changes for better, worse in claim.pairs)


def test_every_number_of_vectors_is_held_against_one():
    claim = CLAIMS["vectors"]
    assert len(claim.pairs) == 12
    for several, one in claim.pairs:
        assert several.label.split(",")[0] == one.label.split(",")[0]
        assert one.method.startswith("cml+")
        assert several.changes["n_interests"] in (2, 3, 4, 5)
