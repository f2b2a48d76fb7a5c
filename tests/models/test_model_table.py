"""The registry, the classes in `tastespace.models`, and what `table` says of each model."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tastespace.models
from tastespace import EASE, MostPopular
from tastespace.errors import ParameterError
from tastespace.models import Recommender, create, registry, table

TABLE = {one.name: one for one in table()}


def test_registry_maps_names_to_classes():
    assert registry()["ease"] is EASE
    assert registry()["popular"] is MostPopular
    with pytest.raises(ParameterError, match="Did you mean ease"):
        create("eas")
    with pytest.raises(ParameterError, match=r"no parameter 'regularizatio'.*Did you mean regularization"):
        create("ease", regularizatio=3)


@pytest.mark.parametrize("name", registry())
def test_every_model_is_importable_under_its_class_name(name):
    cls = registry()[name]
    assert getattr(tastespace.models, cls.__name__) is cls
    assert cls.__name__ in tastespace.models.__all__
    assert cls.__name__ in dir(tastespace.models)
    assert TABLE[name].class_name == cls.__name__
    assert TABLE[name].family


def test_other_names_are_not_in_the_module():
    with pytest.raises(AttributeError, match="has no attribute 'DPCLM'"):
        _ = tastespace.models.DPCLM
    names: dict[str, object] = {}
    exec("from tastespace.models import *", names)
    assert set(tastespace.models.__all__) <= set(names)


def test_type_checkers_know_the_same_classes():
    tree = ast.parse(Path(tastespace.models.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    declared = {(node.module, alias.asname) for node in block.body for alias in node.names}
    assert declared == {(cls.__module__, cls.__name__) for cls in registry().values()}


def test_models_are_imported_when_they_are_used():
    code = (
        "import sys; from tastespace.models import EASE; "
        "print([name for name in ('lightgcn', 'als') if f'tastespace.models.{name}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ---- the table against what the models do ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    """Every model, fitted to a small synthetic data set with features of both sides."""
    from tastespace.data import cold_start

    data = cold_start.load("town")
    found = {}
    for name in registry():
        model = create(name)
        small = {"dim": 4, "epochs": 1, "layers": (8,), "negative_pool_size": 20}
        if not name.endswith("+dn"):
            small = {"dim": 4, "epochs": 1}
        model.set_params(**{key: value for key, value in small.items() if key in model.get_params()})
        content = {"user_features": data.user_features, "item_features": data.item_features}
        takes_content = name.endswith("+dn") or name == "contentknn"
        found[name] = model.fit(data.train, **(content if takes_content else {}))
    return data, found


@pytest.mark.parametrize("name", registry())
def test_the_table_says_what_a_model_does(fitted, name):
    data, models = fitted
    model, said = models[name], TABLE[name]
    items = data.train.items.series.to_list()[:3]
    assert said.interests == ("interest" in model.recommend(k=1).columns)
    if said.fold_in:
        assert len(model.recommend_for([items], k=2)) == 2
    else:
        with pytest.raises(ParameterError, match=type(model).__name__):
            model.recommend_for([items], k=2)
    if said.cold_start:
        assert len(model.recommend_for(None, 2, features=data.new_user_features)) == 2 * data.new_users.n_users
        assert callable(model.add_items)
    else:
        with pytest.raises(ParameterError, match=type(model).__name__):
            model.recommend_for(None, 2, features=np.zeros((1, 3)))
        assert not hasattr(model, "add_items")
    if said.partial_fit:
        before = model.item_space().item_vectors.copy()
        model.partial_fit(data.valid)
        assert not np.array_equal(before, model.item_space().item_vectors)
    else:
        assert not hasattr(model, "partial_fit")


@pytest.mark.parametrize("name", registry())
def test_the_table_names_the_extra_without_which_a_model_does_not_learn(name, town, monkeypatch):
    for package in ("torch", "implicit"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    model = create(name)
    small = {"dim": 4, "epochs": 1}
    model.set_params(**{key: value for key, value in small.items() if key in model.get_params()})
    if TABLE[name].extra is None:
        model.fit(town.interactions)
    else:
        with pytest.raises(ParameterError, match=rf"\(the {TABLE[name].extra} extra\)"):
            model.fit(town.interactions)


def test_two_stages_fold_in_where_the_first_does():
    from tastespace.recommend.rerank.reranked import Reranked

    assert Reranked(EASE()).supports_fold_in
    assert not Reranked(create("lightgcn")).supports_fold_in
    assert not Reranked(EASE()).supports_cold_start
    assert issubclass(Reranked, Recommender)
