import numpy as np
import pytest

from tastespace import EASE, Interactions, MostPopular, evaluate, split
from tastespace.errors import DataError, NotFittedError, ParameterError
from tastespace.models import create, registry


def test_registry_maps_names_to_classes():
    assert registry()["ease"] is EASE
    assert registry()["popular"] is MostPopular
    with pytest.raises(ParameterError, match="Did you mean ease"):
        create("eas")
    with pytest.raises(ParameterError, match=r"no parameter 'regularizatio'.*Did you mean regularization"):
        create("ease", regularizatio=3)


def test_parameters_are_stored_listed_changed_and_cloned():
    model = EASE(regularization=7.0)
    assert model.get_params() == {"regularization": 7.0, "memory_limit_gb": None, "threads": 0}
    twin = model.clone()
    assert twin is not model
    assert twin.get_params() == model.get_params()
    assert model.set_params(threads=1) is model
    assert twin.threads == 0
    assert repr(model) == "EASE(regularization=7.0, threads=1)"
    assert repr(MostPopular()) == "MostPopular()"
    with pytest.raises(ParameterError, match="has no parameter 'alpha'"):
        model.set_params(alpha=1)


def test_fit_returns_self_and_unfitted_models_say_so(town):
    model = MostPopular()
    for ask in (lambda: model.recommend([1]), lambda: evaluate(model, town.interactions)):
        with pytest.raises(NotFittedError, match=r"call fit\(train\) first"):
            ask()
    assert model.fit(town.interactions) is model


def test_fit_refuses_what_it_cannot_learn_from(town):
    data = town.interactions
    with pytest.raises(DataError, match="fit expects Interactions, given csr_array"):
        MostPopular().fit(data.matrix)
    with pytest.raises(DataError, match="nothing to learn from"):
        MostPopular().fit(data.subset(np.zeros(data.n_interactions, bool)))
    other = Interactions.from_scipy(data.matrix[:50])
    with pytest.raises(DataError, match=r"Split one Interactions with tastespace\.split"):
        MostPopular().fit(data, valid=other)


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
    data = Interactions.from_scipy(__import__("scipy.sparse").sparse.csr_array(np.array([[1, 1, 0], [1, 0, 0]])))
    frame = MostPopular().fit(data).recommend(k=3)
    assert frame["user"].to_list() == [0, 1, 1]
    with pytest.raises(ParameterError, match="k=0"):
        MostPopular().fit(data).recommend(k=0)
