import pytest

from tastespace.errors import ParameterError
from tastespace.paper.experiments import Experiment, RowSpec
from tastespace.paper.methods import stored_parameters
from tastespace.paper.tables import (
    HIGH,
    LOW,
    bounds,
    find_table,
)


def test_a_line_may_borrow_the_parameters_of_another_method():
    line = RowSpec("one vector", "cml+hars", {"epochs": 7}, like="bpa+hars")
    found = line.parameters("steam-200k")
    stored = stored_parameters("steam-200k", "bpa+hars")
    assert found["epochs"] == 7
    assert found["n_negatives"] == stored["n_negatives"]
    assert "interests" not in found  # CML has no such parameter
    assert line.parameters("steam-200k", quick=True)["epochs"] == 2


def test_seeds_are_those_declared_unless_others_are_given():
    table = Experiment("one", "One", (RowSpec("EASE", "ease"),), ("steam-200k",), seeds=3)
    assert [planned.seed for planned in table.planned_runs()] == [0, 1, 2]
    assert len(table.planned_runs(seeds=1)) == 1
    with pytest.raises(ParameterError, match="steam-200k"):
        table.planned_runs(["steam"])


@pytest.mark.parametrize("name", ["delta-unis", "delta-hars"])
def test_the_bounds_of_dcrs_cover_the_whole_map(name):
    table = find_table(name)
    labels = {line.label for line in table.row_specs}
    assert labels == {bounds(low, high) for low in LOW for high in HIGH}
    for planned in table.planned_runs(["steam-200k"]):
        assert planned.parameters.get("min_spread", 0.0) <= planned.parameters.get("max_spread", 1.0)


def test_hardest_candidates_may_be_more_than_one():
    planned_runs = find_table("u-hars").planned_runs(["steam-200k"])
    assert {planned.parameters["n_hardest"] for planned in planned_runs} == {1, 5, 10, 15, 20, 25}
    assert {planned.parameters["n_negatives"] for planned in planned_runs} == {40, 50}
    assert all(planned.key() for planned in find_table("u-hars").planned_runs(["town"])[:1])
