"""Imports point one way through the packages, those inside functions and for type checkers included."""

import ast
from pathlib import Path

import pytest

import tastespace

SOURCE = Path(tastespace.__file__).parent
LAYERS = [
    ("cli", "client", "testing"),
    ("online", "paper", "serve"),
    ("tastespace",),  # the public names of the library, which come from the packages below
    ("adapters", "answers", "cluster", "plots", "recipe", "tuning"),
    ("recommend",),
    ("store",),
    ("evaluation",),
    ("ranking",),
    ("models",),
    ("training",),
    ("tastes",),
    ("data",),
    ("_util",),
    ("errors",),
    ("_native",),
]
"""From top to bottom: a module imports from its own package and from layers below, never from one above."""
HEIGHT = {name: -layer for layer, names in enumerate(LAYERS) for name in names}
UPWARD = {"models/inference.py"}
"""The methods of a model are implemented in `recommend`, `store` and `evaluation`, see docs/architecture.md."""
FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def imported(path: str) -> list[tuple[int, str]]:
    """Line and full name of everything of this library that a file imports anywhere."""
    found = []
    for node in ast.walk(ast.parse((SOURCE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            # `from tastespace import store` imports a module, `from tastespace import EASE` the whole library.
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            texts = [ast.unparse(one).removeprefix("f").strip("'\"") for one in node.args]
            assert all(text.startswith("tastespace.") or "tastespace" not in text for text in texts), texts
            found += [(node.lineno, text) for text in texts]
    return [(line, name) for line, name in found if name.split(".")[0] == "tastespace"]


def package_of(name: str) -> str:
    """``"tastespace.models.base.Recommender"`` -> ``"models"``, ``"tastespace.EASE"`` -> ``"tastespace"``."""
    part = name.split(".")[1] if "." in name else ""
    return part if part in HEIGHT else "tastespace"


@pytest.mark.parametrize("path", [path for path in FILES if path not in UPWARD])
def test_imports_point_one_way(path):
    own = "tastespace" if path == "__init__.py" else path.split("/")[0].removesuffix(".py")
    assert own in HEIGHT, f"{path}: give {own!r} a place in LAYERS"
    upward = [
        f"{path}:{line} imports {name}" for line, name in imported(path) if HEIGHT[package_of(name)] > HEIGHT[own]
    ]
    assert upward == []


@pytest.mark.parametrize("path", FILES)
def test_private_modules_are_imported_only_within_their_package(path):
    for line, name in imported(path):
        package, *rest = name.removeprefix("tastespace").strip(".").split(".")
        private = [part for part in rest if part.startswith("_") and not part.startswith("__")]
        modules = [file for part in private for file in (SOURCE / package).rglob(f"{part}.py")]
        assert not modules or path.split("/")[0] == package, f"{path}:{line} imports {name}"


def test_the_exception_is_needed_and_imports_only_what_it_may():
    for path in UPWARD:
        above = {package_of(name) for _, name in imported(path) if HEIGHT[package_of(name)] > HEIGHT["models"]}
        assert above == {"cluster", "evaluation", "answers", "ranking", "recommend", "store"}


def test_the_walk_sees_imports_inside_functions():
    assert any(name.startswith("tastespace.recommend.lists") for _, name in imported("models/inference.py"))
