import inspect

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.base import clone as sklearn_clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils._pprint import _changed_params

from tastespace import (
    CML,
    DPCML,
    EASE,
    Interactions,
    MostPopular,
    evaluate,
    split,
)
from tastespace.errors import DataError, NotFittedError, ParameterError
from tastespace.models import Recommender
from tastespace.recommend.rerank.reranked import Reranked


class Recorder(Recommender):
    """Keeps what `_fit` was given."""

    uses_weights = True

    def _fit(self, train, valid, progress):
        self.given_ = train, valid

    def score_block(self, users):
        return np.zeros((len(users), self.given_[0].n_items), dtype=np.float32)


# ---- parameters ------------------------------------------------------------------------------------------------


def test_parameters_are_stored_listed_changed_and_cloned():
    model = EASE(regularization=7.0)
    powers = {"dropout": 0.5, "user_power": -0.25, "item_power": 0.2, "weight_power": 1.0}
    others = {"memory_limit_gb": None, "threads": 0, "side": "auto"}
    assert model.get_params() == {"regularization": 7.0, **powers, **others}
    clone = model.clone()
    assert clone is not model
    assert clone.get_params() == model.get_params()
    assert model.set_params(threads=1) is model
    assert clone.threads == 0
    assert repr(model) == "EASE(regularization=7.0, threads=1)"
    assert repr(MostPopular()) == "MostPopular()"
    with pytest.raises(ParameterError, match="has no parameter 'alpha'"):
        model.set_params(alpha=1)


def test_unknown_keyword_arguments_are_refused_by_the_constructor():
    with pytest.raises(ParameterError, match=r"EASE has no parameter 'regularizatio'; .*Did you mean regularization\?"):
        EASE(regularizatio=3)
    with pytest.raises(ParameterError, match=r"MostPopular has no parameter 'dim'; it has none\."):
        MostPopular(dim=3)
    with pytest.raises(ParameterError, match=r"CML has no parameter 'n_interests': it has one vector per user"):
        CML(n_interests=3)
    with pytest.raises(TypeError):
        EASE(1.0, None, 0, 5)


@pytest.mark.parametrize("cls", [MostPopular, EASE, CML, DPCML, Reranked])
def test_editors_see_the_signature_of_the_constructor(cls):
    names = [] if cls is MostPopular else list(inspect.signature(cls.__init__).parameters)[1:]
    assert list(inspect.signature(cls).parameters) == names
    assert names == cls._parameter_names()


def test_parameters_of_a_nested_model():
    model = Reranked(EASE(regularization=7.0), weight=0.2)
    assert model.get_params(deep=False) == {
        "model": model.model, "how": "mmr", "weight": 0.2, "pool": 100, "column": None,
    }  # fmt: skip
    powers = {"dropout": 0.5, "user_power": -0.25, "item_power": 0.2, "weight_power": 1.0}
    nested = {f"model__{name}": value for name, value in powers.items()}
    nested |= {"model__regularization": 7.0, "model__memory_limit_gb": None, "model__threads": 0, "model__side": "auto"}
    assert model.get_params() == model.get_params(deep=True) == {**model.get_params(deep=False), **nested}
    assert model.set_params(model__regularization=3.0, model=EASE(threads=1)) is model  # in any order
    assert repr(model) == "Reranked(model=EASE(regularization=3.0, threads=1), weight=0.2)"
    with pytest.raises(ParameterError, match=r"has no parameter how__x: how='mmr' is not a model"):
        model.set_params(how__x=1, weight=0.9)
    with pytest.raises(ParameterError, match="EASE has no parameter 'regularizatio'"):
        model.set_params(model__regularizatio=1)
    assert model.weight == 0.2


def test_cloning_copies_what_the_parameters_hold():
    model = Reranked(Reranked(EASE(100.0)))
    clone = model.clone()
    clone.set_params(model__model__regularization=1.0)
    assert model.get_params()["model__model__regularization"] == 100.0
    layered = Recorder()
    layered_clone = sklearn_clone(layered)
    assert type(layered_clone) is Recorder
    assert layered_clone is not layered


def test_scikit_learn_goes_through_a_grid(town):
    model = Reranked(EASE())
    for values in ParameterGrid({"model__regularization": [1.0, 9.0], "weight": [0.1]}):
        one = sklearn_clone(model).set_params(**values).fit(town.interactions)
        assert (one.model.regularization, one.weight) == (values["model__regularization"], 0.1)
    assert not model.is_fitted
    assert model.model.regularization is None


def test_what_is_shown_is_what_scikit_learn_shows():
    class Peer(BaseEstimator):
        def __init__(self, how="mmr", model=None, pool=100, weight=0.5):
            self.how, self.model, self.pool, self.weight = how, model, pool, weight

    assert repr(Peer(model=3, pool=7)) == "Peer(model=3, pool=7)"
    model = Reranked(EASE(threads=2), pool=7)
    assert repr(model) == "Reranked(model=EASE(threads=2), pool=7)"
    assert set(_changed_params(model)) == {"model", "pool"}
    assert _changed_params(Reranked(EASE(), column=None, weight=0.5)).keys() == {"model"}


# ---- fit -------------------------------------------------------------------------------------------------------


def test_fit_returns_self_and_unfitted_models_say_so(town):
    model = MostPopular()
    for call in (lambda: model.recommend([1]), lambda: evaluate(model, town.interactions)):
        with pytest.raises(NotFittedError, match=r"call fit\(train\) first"):
            call()
    assert model.fit(town.interactions) is model


def test_fit_refuses_what_it_cannot_learn_from(town):
    data = town.interactions
    for wrong in ([[0, 1]], data.matrix.toarray(), None):
        with pytest.raises(DataError, match=f"a SciPy CSR matrix; given {type(wrong).__name__}"):
            MostPopular().fit(wrong)
    with pytest.raises(DataError, match=r"clicks\.csv: no such file"):
        MostPopular().fit("clicks.csv")
    with pytest.raises(DataError, match="nothing to learn from"):
        MostPopular().fit(data.subset(np.zeros(data.n_interactions, bool)))
    other = Interactions.from_scipy(data.matrix[:50])
    with pytest.raises(DataError, match=r"Split one Interactions with tastespace\.split"):
        MostPopular().fit(data, valid=other)


FRAME = {"user": ["b", "a", "a", "c"], "item": [3, 1, 3, 2], "price": [1.0, 2.0, 3.0, 4.0]}


@pytest.mark.parametrize(
    ("make", "backend"),
    [(pl.DataFrame, "polars"), (pl.LazyFrame, "polars"), (pd.DataFrame, "pandas"), (pa.table, "pyarrow")],
)
def test_fit_takes_frames_of_any_library(make, backend):
    model = Recorder().fit(make(FRAME))
    same = Interactions.from_frame(pl.DataFrame(FRAME))
    assert model.train_ is model.given_[0]
    assert model.train_.fingerprint() == same.fingerprint()
    assert model.train_.weights is None
    assert model.valid_ is None
    assert model.train_.backend == backend


def test_weights_and_times_of_a_frame_are_read():
    frame = pl.DataFrame({**FRAME, "weight": [2, 3, 4, 5], "timestamp": [7, 8, 9, 6]})
    train = Recorder().fit(frame).train_
    assert train.fingerprint() == Interactions.from_frame(frame, weight="weight", timestamp="timestamp").fingerprint()
    assert Recorder().fit(train.to_frame()).train_.fingerprint() == train.fingerprint()


def test_frames_for_training_and_validation_share_users_and_items():
    train, valid = pl.DataFrame(FRAME), pl.DataFrame({"user": ["d", "a"], "item": [9, 2], "weight": [1.5, 2.5]})
    model = Recorder().fit(train, valid=valid)
    assert model.given_ == (model.train_, model.valid_)
    for part in model.given_:
        assert part.users.series.to_list() == ["a", "b", "c", "d"]
        assert part.items.series.to_list() == [1, 2, 3, 9]
    assert model.train_.to_frame().rows() == [("a", 1), ("a", 3), ("b", 3), ("c", 2)]
    assert model.valid_.to_frame().rows() == [("a", 2, 2.5), ("d", 9, 1.5)]


def test_a_frame_without_the_columns_is_refused():
    wrong = pl.DataFrame({"users": [1, 2], "item": [1, 2]})
    message = (
        r"fit was given train as a frame without the column 'user'; its columns are 'users', 'item'\. Did you mean"
    )
    with pytest.raises(DataError, match=message):
        MostPopular().fit(wrong)
    with pytest.raises(DataError, match=r"given valid as a frame without the column 'user'.*user=\.\.\., item=\.\.\."):
        MostPopular().fit(pl.DataFrame(FRAME), valid=wrong)


def test_columns_of_a_frame_are_named_as_in_the_function_fit():
    frame = pd.DataFrame({"who": ["a", "a", "b", "c", "c"], "sku": [3, 1, 3, 2, 1], "stars": [5, 1, 4, 5, 2]})
    held_out = frame.assign(sku=[1, 1, 2, 3, 1])
    names = {"user": "who", "item": "sku", "rating": "stars", "min_rating": 4}
    model = Recorder().fit(frame, held_out, catalog=[1, 2, 3, 4], **names)
    assert pl.DataFrame(model.train_.to_frame()).rows() == [("a", 3), ("b", 3), ("c", 2)]
    assert pl.DataFrame(model.valid_.to_frame()).rows() == [("a", 1), ("b", 2), ("c", 3)]
    assert model.train_.items.series.to_list() == model.valid_.items.series.to_list() == [1, 2, 3, 4]
    with pytest.raises(ParameterError, match=r"fit has no argument 'usr'; of a frame it takes user, .*mean user"):
        Recorder().fit(frame, usr="who")
    with pytest.raises(ParameterError, match="user= is for a frame, but train is Interactions already"):
        Recorder().fit(model.train_, user="who")
    with pytest.raises(ParameterError, match="min_user= is for a frame, but train is a sparse matrix already"):
        EASE().fit(model.train_.matrix, min_user=2)


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix, sp.coo_array])
def test_fit_takes_sparse_matrices(make):
    dense = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    model = Recorder().fit(make(dense), valid=make(dense.T))
    assert model.train_.matrix.toarray().tolist() == dense.tolist()
    assert model.valid_.matrix.toarray().tolist() == dense.T.tolist()
    assert model.train_.weights is None
    assert Recorder().fit(make(2 * dense)).train_.weights.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(DataError, match="has other users or items than train"):
        MostPopular().fit(make(dense), valid=make(dense[:2]))


def test_training_and_validation_data_are_of_one_kind(town):
    data = town.interactions
    with pytest.raises(DataError, match="valid is a sparse matrix, train is Interactions: give both as the same kind"):
        MostPopular().fit(data, valid=data.matrix)
    with pytest.raises(DataError, match="valid is Interactions, train is a frame"):
        MostPopular().fit(pl.DataFrame(FRAME), valid=data)


def test_the_same_model_is_learned_from_a_frame_a_matrix_and_interactions(town):
    train, valid = split.per_user(town.interactions, (0.8, 0.2))
    expected = CML(dim=8, epochs=3).fit(train, valid).vectors()
    by_matrix = CML(dim=8, epochs=3).fit(train.matrix, valid.matrix).vectors()
    by_frame = CML(dim=8, epochs=3).fit(train.to_frame(), valid=valid.to_frame()).vectors()
    for found in (by_matrix, by_frame):
        np.testing.assert_array_equal(found.user_vectors, expected.user_vectors)
        np.testing.assert_array_equal(found.item_vectors, expected.item_vectors)


# ---- lists -----------------------------------------------------------------------------------------------------


def test_recommend_gives_ids_ranks_and_nothing_seen(town):
    train, _ = split.per_user(town.interactions, (0.8, 0.2))
    model = EASE().fit(train)
    frame = model.recommend([3, 9], k=7)
    assert frame.columns == ["user", "item", "rank", "score"]
    assert frame["user"].to_list() == [3] * 7 + [9] * 7
    assert frame["rank"].to_list() == list(range(1, 8)) * 2
    for user in (3, 9):
        mine = frame.filter(frame["user"] == user)
        assert not set(mine["item"]) & set(train.items_of(user))
        scores = model.score_block(np.array([user]))[0]
        scores[train.items_of(user)] = -np.inf
        assert mine["item"].to_list() == np.argsort(-scores, kind="stable")[:7].tolist()
        assert np.allclose(mine["score"], np.sort(scores)[::-1][:7])


def test_fewer_candidates_give_fewer_rows():
    data = Interactions.from_scipy(sp.csr_array(np.array([[1, 1, 0], [1, 0, 0]])))
    frame = MostPopular().fit(data).recommend(k=3)
    assert frame["user"].to_list() == [0, 1, 1]
    with pytest.raises(ParameterError, match="k=0"):
        MostPopular().fit(data).recommend(k=0)
