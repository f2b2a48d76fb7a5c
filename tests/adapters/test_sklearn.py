"""Searches of scikit-learn over our models, splits and metrics."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV

import tastespace as ts
from tastespace.adapters.sklearn import cv_splits, metric_scorer, search_data
from tastespace.errors import DataError, ParameterError

GRID = {"regularization": [1.0, 30.0, 1000.0]}


@pytest.fixture(scope="module")
def data():
    return ts.synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1_600, seed=3).interactions


def test_a_grid_search_finds_the_numbers_of_evaluate(data):
    pairs = ts.split.folds(data, 3)
    search = GridSearchCV(
        ts.EASE(threads=1), GRID, cv=cv_splits(data, pairs), scoring=metric_scorer("NDCG@10", threads=1)
    ).fit(search_data(data))
    for at, value in enumerate(GRID["regularization"]):
        for fold, (train, test) in enumerate(pairs):
            model = ts.EASE(regularization=value, threads=1).fit(train)
            own = ts.evaluate(model, test, metrics=["NDCG@10"], threads=1)["NDCG@10"]
            assert search.cv_results_[f"split{fold}_test_score"][at] == pytest.approx(own, abs=1e-12)
    best = GRID["regularization"][int(np.argmax(search.cv_results_["mean_test_score"]))]
    assert search.best_params_ == {"regularization": best}
    # The best is fitted to everything, and is an ordinary model.
    whole = ts.EASE(regularization=best, threads=1).fit(data)
    assert search.best_estimator_.recommend(k=5).equals(whole.recommend(k=5))


def test_values_are_those_of_tune(data):
    train, valid = ts.split.inner(data, seed=0)
    search = GridSearchCV(
        ts.EASE(threads=1),
        GRID,
        cv=cv_splits(data, [(train, valid)]),
        scoring=metric_scorer("NDCG@10", seen=train, threads=1),
        refit=False,
    ).fit(search_data(data))
    for value, score in zip(GRID["regularization"], search.cv_results_["mean_test_score"], strict=True):
        model = ts.EASE(regularization=value, threads=1)
        tuned = ts.tune(model, data, split=(train, valid), metric="NDCG@10", trials=1)  # the model as it is given
        assert score == pytest.approx(tuned.value, abs=1e-12)


def test_trained_models_several_metrics_and_random_search(data):
    search = RandomizedSearchCV(
        ts.DPCML(dim=4, epochs=1, threads=1, seed=1),
        {"n_interests": [1, 2, 3], "margin": [0.5, 1.0]},
        n_iter=2,
        random_state=1,
        cv=cv_splits(data, [ts.split.leave_k_out(data, 2)]),
        scoring={"ndcg": metric_scorer("NDCG@10"), "gini": metric_scorer("Gini@10")},
        refit="ndcg",
    ).fit(search_data(data))
    assert (search.cv_results_["mean_test_ndcg"] > 0).all()
    assert (search.cv_results_["mean_test_gini"] < 0).all()  # smaller is better, so the sign is changed
    assert search.best_estimator_.train_.n_interactions == data.n_interactions


def test_models_are_cloned_as_estimators():
    model = ts.DPCML(dim=4, n_interests=2)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()


def test_what_makes_no_sense_is_an_error(data):
    other = ts.synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    with pytest.raises(DataError, match="search_data expects Interactions, given list"):
        search_data([1, 2])
    with pytest.raises(DataError, match="has other users or items than the data"):
        cv_splits(data, ts.split.folds(other, 2))
    train, test = ts.split.leave_k_out(data, 1)
    with pytest.raises(DataError, match="has interactions that the data"):
        cv_splits(train, [(train, test)])
    with pytest.raises(ParameterError, match="no pair"):
        cv_splits(data, [])
    for not_pairs in ((train, test), 3, ["ab"], [(train, test, test)]):
        with pytest.raises(ParameterError, match="cv_splits expects pairs of Interactions"):
            cv_splits(data, not_pairs)
    with pytest.raises(DataError, match="cv_splits expects Interactions, given str"):
        cv_splits("data", [(train, test)])
    with pytest.raises(ParameterError, match="expected the name of one metric"):
        metric_scorer("NDCG")
    with pytest.raises(ParameterError, match=r"no option 'protocoll'; expected some of seen.* Did you mean protocol\?"):
        metric_scorer("NDCG@10", protocoll="full")
    search = GridSearchCV(ts.EASE(), GRID, cv=2, scoring=metric_scorer("NDCG@10"))
    with pytest.raises(ParameterError, match=r"whole histories of 39 people .* Give the search cv=cv_splits"):
        search.fit(search_data(data))
    everybody = KFold(3, shuffle=True, random_state=1)  # cuts each history, so it may be used
    assert clone(search).set_params(cv=everybody).fit(search_data(data)).best_score_ > 0.1
    with pytest.raises(DataError, match=r"is not an array\. .*search_data\(data\)"):
        search.set_params(cv=cv_splits(data, ts.split.folds(data, 2))).fit(data)
    with pytest.raises(ParameterError, match="no targets"):
        metric_scorer("MAP")(ts.EASE().fit(train), test, np.ones(3))
