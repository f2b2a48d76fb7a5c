import pytest

from tastespace.errors import ParameterError
from tastespace.models.dpcml import CML, DPCML
from tastespace.paper.counted import STATISTICS_TABLES, parameter_mib
from tastespace.paper.numbers import efficiency
from tastespace.paper.runs import load_parts


@pytest.mark.parametrize("dataset", ["ml-1m", "steam-200k", "citeulike-t"])
def test_the_parameter_sizes_are_those_of_the_paper(dataset_dir, dataset):
    dataset_dir(dataset)
    found = STATISTICS_TABLES["size"].table_rows([dataset])
    ours = {entry.label: f"{entry.ours['MiB']:.2f}" for entry in found}
    assert ours == {label: f"{value:.2f}" for label, value in efficiency("parameter_size_mb_C3", dataset).items()}
    assert len(ours) == 3


@pytest.mark.parametrize("dataset", ["ml-1m", "steam-200k", "citeulike-t"])
def test_the_data_sets_are_those_of_the_paper(dataset_dir, dataset):
    dataset_dir(dataset)
    (found,) = STATISTICS_TABLES["datasets"].table_rows([dataset])
    assert {name: round(value, 4) for name, value in found.ours.items()} == pytest.approx(found.theirs, abs=1e-4)


def test_a_data_set_that_is_not_here_is_a_marked_gap(monkeypatch, tmp_path):
    monkeypatch.setenv("TASTESPACE_DATA", str(tmp_path))
    monkeypatch.setattr("tastespace.data.datasets.Search.first", _nowhere)
    load_parts.cache_clear()
    found = STATISTICS_TABLES["size"].table_rows(["ml-10m"])
    assert {entry.state for entry in found} == {"no data"}
    assert not any(entry.ours for entry in found)
    assert found[0].theirs == {"MiB": 30.21}
    assert "not on this machine" in found[0].problem


def _nowhere(*_):
    from tastespace.errors import DatasetError

    raise DatasetError("not on this machine")


def test_the_size_is_that_of_what_is_learned(town):
    train = town.interactions
    model = DPCML(dim=8, n_interests=3, sampler="dihars", epochs=1).fit(train)
    numbers = model.user_vectors_.size + model.item_vectors_.size + train.n_interactions
    assert parameter_mib(model, train) == 4 * numbers / 2**20
    assert parameter_mib(CML(dim=8), train) == 4 * 8 * (train.n_users + train.n_items) / 2**20
    adaptive = DPCML(dim=8, epochs=1).fit(train)
    assert parameter_mib(adaptive, train) == 4 * (adaptive.user_vectors_.size + adaptive.item_vectors_.size) / 2**20


def test_a_table_is_refused_for_a_data_set_that_it_is_not_declared_for():
    with pytest.raises(ParameterError, match="ml-1m"):
        STATISTICS_TABLES["size"].table_rows(["anime"])
