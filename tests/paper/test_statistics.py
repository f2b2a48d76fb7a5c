import polars as pl
import pytest

import tastespace as ts
from tastespace.errors import ParameterError
from tastespace.models.dpcml.model import CML, DPCML
from tastespace.paper.data import load_parts
from tastespace.paper.experiments import published_efficiency
from tastespace.paper.statistics import STATISTICS_TABLES, category_shares, minority_categories, parameter_mib


@pytest.mark.parametrize("dataset", ["ml-1m", "steam-200k", "citeulike-t"])
def test_the_parameter_sizes_are_those_of_the_paper(dataset_dir, dataset):
    dataset_dir(dataset)
    found = STATISTICS_TABLES["size"].rows([dataset])
    ours = {entry.label: f"{entry.ours['MiB']:.2f}" for entry in found}
    assert ours == {
        label: f"{value:.2f}" for label, value in published_efficiency("parameter_size_mb_C3", dataset).items()
    }
    assert len(ours) == 3


@pytest.mark.parametrize("dataset", ["ml-1m", "steam-200k", "citeulike-t"])
def test_the_data_sets_are_those_of_the_paper(dataset_dir, dataset):
    dataset_dir(dataset)
    (found,) = STATISTICS_TABLES["datasets"].rows([dataset])
    assert {name: round(value, 4) for name, value in found.ours.items()} == pytest.approx(found.published, abs=1e-4)


def test_a_data_set_that_is_not_here_is_marked(monkeypatch, tmp_path):
    monkeypatch.setenv("TASTESPACE_DATA", str(tmp_path))
    monkeypatch.setattr("tastespace.data.datasets.Search.first", _nowhere)
    load_parts.cache_clear()
    found = STATISTICS_TABLES["size"].rows(["ml-10m"])
    assert {entry.state for entry in found} == {"no data"}
    assert not any(entry.ours for entry in found)
    assert found[0].published == {"MiB": 30.21}
    assert "not on this machine" in found[0].problem


def _nowhere(*_):
    from tastespace.errors import DatasetError

    raise DatasetError("not on this machine")


def test_the_size_is_that_of_the_learned_parameters(town):
    train = town.interactions
    model = DPCML(dim=8, n_interests=3, sampler="dihars", epochs=1).fit(train)
    numbers = model.user_vectors_.size + model.item_vectors_.size + train.n_interactions
    assert parameter_mib(model, train) == 4 * numbers / 2**20
    assert parameter_mib(CML(dim=8), train) == 4 * 8 * (train.n_users + train.n_items) / 2**20
    adaptive = DPCML(dim=8, epochs=1).fit(train)
    assert parameter_mib(adaptive, train) == 4 * (adaptive.user_vectors_.size + adaptive.item_vectors_.size) / 2**20


def test_a_table_is_refused_for_a_data_set_that_it_is_not_declared_for():
    with pytest.raises(ParameterError, match="ml-1m"):
        STATISTICS_TABLES["size"].rows(["anime"])


def test_shares_of_categories_sum_to_one():
    names, shares = category_shares(load_parts("town").train)
    assert len(names) == 12
    assert shares.sum() == pytest.approx(1)
    assert (shares[:-1] >= shares[1:]).all()


def test_a_minority_has_less_than_half_an_even_share():
    taken = {"big": 500, "fair": 300, "small": 60, "tiny": 1}
    pairs = [(user, kind) for kind, count in taken.items() for user in range(count)]
    data = ts.Interactions.from_frame(
        pl.DataFrame(pairs, schema=["user", "item"], orient="row"),
        item_attributes=pl.DataFrame({"item": list(taken), "genres": [[kind] for kind in taken]}),
    )
    names, shares, small = minority_categories(data)
    assert names.tolist() == ["big", "fair", "small"]  # one taker says nothing
    assert shares[2] == pytest.approx(60 / 861)
    assert small.tolist() == [False, False, True]
