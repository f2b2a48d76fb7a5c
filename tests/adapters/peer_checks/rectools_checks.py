"""Our model in RecTools; run by `test_with_peers.py`, where RecTools is installed."""

from __future__ import annotations

import doctest

import numpy as np
import pandas as pd
import pytest
from rectools import Columns
from rectools.dataset import Dataset, Interactions
from rectools.metrics import NDCG
from rectools.model_selection import TimeRangeSplitter, cross_validate
from rectools.models import PopularModel, model_from_config
from rectools.models.base import ModelBase

import tastespace as ts
from tastespace.adapters import rectools as rectools_model
from tastespace.adapters.rectools import TastespaceModel
from tastespace.errors import ParameterError


def own_model(**changed):
    return ts.DPCML(**{"dim": 8, "n_interests": 3, "epochs": 3, "seed": 1, "threads": 1, **changed})


@pytest.fixture(scope="module")
def frame():
    town = ts.synthetic.multi_interest(n_users=120, n_items=80, n_interactions=2_400, seed=5).interactions
    rows = pd.DataFrame(town.to_frame().to_dict(as_series=False))
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.random.default_rng(1).permutation(len(rows)) % 40, unit="D")
    return pd.DataFrame(
        {
            Columns.User: "u" + rows["user"].astype(str).str.zfill(3),
            Columns.Item: rows["item"] + 1000,
            Columns.Weight: 1.0 + rows["item"] % 3,
            Columns.Datetime: day,
        }
    )


@pytest.fixture(scope="module")
def dataset(frame):
    return Dataset.construct(frame)


@pytest.fixture(scope="module")
def model(dataset):
    return TastespaceModel(own_model()).fit(dataset)


@pytest.fixture(scope="module")
def own(model):
    """The same model, whose ids are the internal ones of RecTools."""
    return model.fitted_


def test_it_is_a_model_of_rectools(model):
    assert isinstance(model, ModelBase)
    assert model.is_fitted


def test_lists_are_those_of_the_model_itself(dataset, model, own):
    users = ["u003", "u077"]
    found = model.recommend(users, dataset, k=5, filter_viewed=True)
    assert list(found.columns) == [Columns.User, Columns.Item, Columns.Score, Columns.Rank]
    for user in users:
        row = dataset.user_id_map.convert_to_internal([user])[0]
        expected = own.recommend(int(row), k=5)
        mine = found[found[Columns.User] == user]
        assert dataset.item_id_map.convert_to_internal(mine[Columns.Item]).tolist() == expected["item"].to_list()
        np.testing.assert_allclose(mine[Columns.Score], expected["score"].to_numpy(), atol=1e-6)


def test_viewed_items_and_a_choice_of_items_are_respected(frame, dataset, model):
    viewed = set(frame[frame[Columns.User] == "u003"][Columns.Item])
    with_viewed = model.recommend(["u003"], dataset, k=80, filter_viewed=False)
    without = model.recommend(["u003"], dataset, k=80, filter_viewed=True)
    assert len(with_viewed) == 80
    assert set(without[Columns.Item]) == set(with_viewed[Columns.Item]) - viewed
    chosen = [1001, 1002, 1003, 1004]
    found = model.recommend(["u003"], dataset, k=10, filter_viewed=False, items_to_recommend=chosen)
    assert set(found[Columns.Item]) == set(chosen)


def test_viewed_is_what_the_given_data_set_says(frame, model, dataset):
    """The data set at hand may have more interactions than the one of training."""
    best = model.recommend(["u003"], dataset, k=5, filter_viewed=True)[Columns.Item].tolist()
    taken = pd.DataFrame({**frame.iloc[:1].to_dict("list"), Columns.User: ["u003"], Columns.Item: [best[0]]})
    later = Dataset(
        dataset.user_id_map,
        dataset.item_id_map,
        Interactions.from_raw(pd.concat([frame, taken]), dataset.user_id_map, dataset.item_id_map),
    )
    assert model.recommend(["u003"], later, k=4, filter_viewed=True)[Columns.Item].tolist() == best[1:]


def test_neighbors_of_items(dataset, model, own):
    found = model.recommend_to_items([1007, 1008], dataset, k=4)
    row = int(dataset.item_id_map.convert_to_internal([1007])[0])
    expected = own.similar_items([row], k=4)["similar"].to_list()
    mine = found[found[Columns.TargetItem] == 1007]
    assert dataset.item_id_map.convert_to_internal(mine[Columns.Item]).tolist() == expected
    some = model.recommend_to_items([1007], dataset, k=2, items_to_recommend=[1001, 1002, 1003])
    assert len(some) == 2
    assert set(some[Columns.Item]) <= {1001, 1002, 1003}


def test_cross_validation_of_rectools(dataset):
    found = cross_validate(
        dataset,
        TimeRangeSplitter("5D", n_splits=2, filter_already_seen=True, filter_cold_users=True, filter_cold_items=True),
        metrics={"ndcg": NDCG(k=10)},
        models={"dpcml": TastespaceModel(own_model(epochs=30)), "popular": PopularModel()},
        k=10,
        filter_viewed=True,
    )
    table = pd.DataFrame(found["metrics"]).groupby("model")["ndcg"].mean()
    assert 0 < table["popular"] < table["dpcml"] <= 1


def test_configurations_and_files(dataset, model, tmp_path):
    config = model.get_config(simple_types=True)
    assert config["model"] == "dpcml"
    again = model_from_config(config).fit(dataset)
    lists = model.recommend(["u003"], dataset, k=5, filter_viewed=True)
    pd.testing.assert_frame_equal(again.recommend(["u003"], dataset, k=5, filter_viewed=True), lists)
    model.save(tmp_path / "model")
    loaded = TastespaceModel.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.recommend(["u003"], dataset, k=5, filter_viewed=True), lists)


def test_weights_are_used_by_models_that_use_them(dataset):
    from tastespace.models import ALS

    assert sorted(set(TastespaceModel(ALS(dim=4, iterations=1)).fit(dataset).fitted_.train_.weights.tolist())) == [
        1,
        2,
        3,
    ]
    assert TastespaceModel(own_model()).fit(dataset).fitted_.train_.weights is None


def test_ease_of_both_libraries_learns_the_same_weights(dataset):
    """As the notebook honest_comparison says; RecTools 0.19 ranks by the transposed ones."""
    from rectools.models import EASEModel

    plain = ts.EASE(regularization=70.0, side="items", **ts.EASE.paper_form())
    own = TastespaceModel(plain).fit(dataset).fitted_.weights_
    theirs = EASEModel(regularization=70.0).fit(dataset).weight
    np.testing.assert_allclose(own, theirs, atol=1e-4)
    assert np.abs(own - own.T).max() > 0.01


def test_what_cannot_be_is_an_error(dataset, model):
    with pytest.raises(ParameterError, match="expected a model of tastespace"):
        TastespaceModel("dpcml")
    with pytest.raises(Exception, match="MostPopular"):
        TastespaceModel(ts.MostPopular()).fit(dataset).recommend_to_items([1007], dataset, k=2)
    with pytest.raises(ValueError, match="cold"):
        model.recommend(["nobody"], dataset, k=2, filter_viewed=True, on_unsupported_targets="raise")


def test_examples_in_docstrings_are_true():
    assert doctest.testmod(rectools_model).failed == 0
