"""Our components in pipelines of LensKit; run by `test_with_peers.py`, where LensKit is installed."""

from __future__ import annotations

import doctest

import numpy as np
import pandas as pd
import pytest
from lenskit.batch import recommend
from lenskit.data import ItemList, RecQuery, from_interactions_df
from lenskit.metrics import NDCG, RunAnalysis
from lenskit.pipeline import topn_pipeline
from lenskit.splitting import SampleFrac, crossfold_users

import tastespace as ts
from tastespace.adapters import lenskit as lenskit_component
from tastespace.adapters.lenskit import TastespaceRecommender, TastespaceScorer, recommender_pipeline
from tastespace.errors import NotFittedError, ParameterError

PARAMETERS = {"dim": 8, "n_interests": 3, "epochs": 3, "seed": 1, "threads": 1}


@pytest.fixture(scope="module")
def town():
    return ts.synthetic.multi_interest(n_users=120, n_items=80, n_interactions=2_400, seed=5).interactions


@pytest.fixture(scope="module")
def dataset(town):
    frame = pd.DataFrame(town.to_frame().to_dict(as_series=False))
    # Text, in an order of its own: numbers in LensKit are other numbers than ours.
    frame["user_id"], frame["item_id"] = "u" + frame["user"].astype(str), "i" + frame["item"].astype(str)
    return from_interactions_df(frame[["user_id", "item_id"]])


@pytest.fixture(scope="module")
def pipeline(dataset):
    found = topn_pipeline(TastespaceScorer(model="dpcml", parameters=PARAMETERS), n=10)
    found.train(dataset)
    return found


def text_of(town):
    frame = town.to_frame()
    return ts.Interactions.from_frame(
        frame.select(user="u" + frame["user"].cast(str), item="i" + frame["item"].cast(str))
    )


def test_lists_are_those_of_the_model_itself(town, dataset, pipeline):
    own = ts.DPCML(**PARAMETERS).fit(text_of(town))
    for user in ("u3", "u77"):
        found = pipeline.run(query=user, n=10)
        expected = own.recommend(user, k=10)
        assert list(found.ids()) == expected["item"].to_list()
        np.testing.assert_allclose(found.scores(), expected["score"].to_numpy(), atol=1e-6)


def test_batch_runner_and_evaluation_work(dataset):
    (split, *_) = crossfold_users(dataset, 4, SampleFrac(0.3, rng=1), rng=1)
    found = {}
    for name, scorer in {
        "dpcml": TastespaceScorer(model="dpcml", parameters={**PARAMETERS, "epochs": 60}),
        "popular": TastespaceScorer(model="popular"),
    }.items():
        pipe = topn_pipeline(scorer, n=10)
        pipe.train(split.train)
        lists = recommend(pipe, list(split.test.keys()), n=10, n_jobs=1)
        assert len(lists) == len(split.test)
        analysis = RunAnalysis()
        analysis.add_metric(NDCG(10))
        found[name] = analysis.measure(lists, split.test).list_summary().loc["NDCG@10", "mean"]
    assert 0 < found["popular"] < found["dpcml"] <= 1


def test_people_who_were_not_in_training_are_folded_in(town, pipeline):
    history = ItemList(item_ids=[f"i{item}" for item in town.items_of(7)])
    found = pipeline.run(query=RecQuery(user_id="zoe", history_items=history), n=5)
    assert len(found) == 5
    assert not set(found.ids()) & set(history.ids())
    model = pipeline.component("scorer").model_
    numbers = history.numbers(vocabulary=pipeline.component("scorer").items_)
    expected = model.recommend_for([numbers.tolist()], k=5)["item"].to_list()
    assert list(found.numbers(vocabulary=pipeline.component("scorer").items_)) == expected
    # Nothing is known of a person without history: no scores, so that the ranker has nothing to rank.
    assert len(pipeline.run(query=RecQuery(user_id="yan"), n=5)) == 0


def test_unknown_items_have_no_score(pipeline):
    scored = pipeline.run("scorer", query="u3", items=ItemList(item_ids=["i1", "nothing", "i2"]))
    assert np.isnan(scored.scores()).tolist() == [False, True, False]


def test_a_mix_of_interests_is_a_recommender_of_its_own(town, dataset):
    own = ts.DPCML(**PARAMETERS).fit(text_of(town))
    component = TastespaceRecommender(model="dpcml", parameters=PARAMETERS, mix="proportional", n=7)
    pipe = recommender_pipeline(component)
    pipe.train(dataset)
    found = pipe.run(query="u3")
    expected = own.recommend("u3", k=7, mix="proportional")
    assert list(found.ids()) == expected["item"].to_list()
    assert found.field("interest").tolist() == expected["interest"].to_list()
    assert len(pipe.run(query="u3", n=2)) == 2
    assert set(pipe.run(query="u3", items=ItemList(item_ids=["i1", "i2", "i9"])).ids()) == {"i1", "i2", "i9"}
    assert len(recommend(pipe, ["u3", "u4"], n=4, n_jobs=1)) == 2


def test_ratings_are_weights_where_the_model_uses_them(town):
    frame = pd.DataFrame(town.to_frame().to_dict(as_series=False)).rename(
        columns={"user": "user_id", "item": "item_id"}
    )
    frame["rating"] = np.arange(len(frame)) % 5 + 1.0
    rated = from_interactions_df(frame[["user_id", "item_id", "rating"]])
    weighted = TastespaceScorer(model="als", parameters={"dim": 4, "iterations": 2})
    weighted.train(rated)
    assert sorted(set(weighted.model_.train_.weights.tolist())) == [1, 2, 3, 4, 5]
    plain = TastespaceScorer(model="dpcml", parameters=PARAMETERS)
    plain.train(rated)
    assert plain.model_.train_.weights is None


def test_what_cannot_be_is_an_error(dataset):
    with pytest.raises(NotFittedError, match="is not trained yet"):
        TastespaceScorer(model="ease")(query="u1", items=ItemList(item_ids=["i1"]))
    with pytest.raises(ParameterError, match="no parameter 'dimension'"):
        TastespaceScorer(model="dpcml", parameters={"dimension": 8}).train(dataset)
    bad = recommender_pipeline(TastespaceRecommender(model="ease", mix="scaled"))
    bad.train(dataset)
    with pytest.raises(Exception, match="scaled"):
        bad.run(query="u3")


def test_examples_in_docstrings_are_true():
    assert doctest.testmod(lenskit_component).failed == 0
