import pytest

from tastespace.errors import ParameterError
from tastespace.models import registry
from tastespace.paper.experiments import only
from tastespace.paper.methods import find_method
from tastespace.paper.runner import LIST_DIVERSITY
from tastespace.paper.tables import EXPERIMENTS, TABLES, find_table


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_table_is_declared_with_methods_that_exist(name):
    planned_runs = find_table(name).planned_runs(seeds=2)
    assert len(planned_runs) == 2 * len(find_table(name).row_specs) * len(find_table(name).datasets)
    assert all(planned.title for planned in planned_runs)


def test_the_papers_figures_stand_beside_ours():
    experiment = find_table("results1")
    with_theirs = [line for line in experiment.row_specs if experiment.published("steam-200k", line)]
    assert len(with_theirs) == 23  # all methods of the paper's table
    eta = find_table("eta-hars")
    assert eta.published("steam-200k", eta.row_specs[4])["P@3"] == 29.88
    assert [line.method for line in only(experiment, ["ease", "bpr"]).row_specs] == ["ease", "bpr"]
    with pytest.raises(ParameterError, match="results1"):
        find_table("results")


def test_diversity_has_the_rows_of_the_paper():
    table = find_table("diversity")
    assert len([line for line in table.row_specs if table.published("ml-1m", line)]) == 16
    row = next(line for line in table.row_specs if line.label == "DPCML+APA w/o DCRS, UniS")
    assert table.published("steam-200k", row)["MaxDiv@20"] == 151.516
    assert row.parameters("steam-200k")["dcrs"] is None
    assert set(table.published("steam-200k", table.row_specs[0])) <= set(LIST_DIVERSITY)


def test_inference_has_the_papers_seconds():
    table = find_table("inference")
    assert [table.published("steam-200k", line)["seconds for all"] for line in table.row_specs] == [
        0.05, 0.2, 0.33, 0.67, 3.34, 0.13, 0.22,
    ]  # fmt: skip


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_quick_is_few_epochs_of_what_is_declared(name):
    table = find_table(name)
    planned_runs = table.planned_runs(["town"], 1, quick=True)
    assert 1 <= len(planned_runs) <= len(table.row_specs)
    for planned in planned_runs:
        learns = "epochs" in registry()[find_method(planned.method).model]._parameter_names()
        assert ("epochs" in planned.parameters) == learns


def test_labels_are_unique_within_a_table():
    for table in EXPERIMENTS.values():
        assert len({line.label for line in table.row_specs}) == len(table.row_specs), table.name
    assert set(EXPERIMENTS) < set(TABLES)
