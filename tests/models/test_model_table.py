"""The registry, the classes in `tastespace.models`, and what `table` says of each model."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tastespace.models
from tastespace import EASE, MostPopular
from tastespace.errors import ParameterError
from tastespace.models import (
    create,
    registry,
    table,
)

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
