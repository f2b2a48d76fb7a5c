"""Which code a figure depends on: a hash of the sources that fit and measure a model."""

from __future__ import annotations

import ast
import hashlib
import sys
from functools import lru_cache
from pathlib import Path

import tastespace
from tastespace import _native
from tastespace.models import registry

_PACKAGE = Path(tastespace.__file__).parent
_ROOMS = ("models", "training", "evaluation")
"""Where figures come from. What models can be asked after training, and how data is read, decides none: the data
itself is part of a cell's key."""
_OUTSIDE = {"tastespace.models", "tastespace.models.inference"}
_ALWAYS = ("tastespace.evaluation.evaluator", "tastespace.data.split")
_TWO_STAGES = tuple(f"tastespace.recommend.rerank{part}" for part in ("", "_features", "_algorithms"))


_BY_CONTENT = tuple(
    f"tastespace.{name}"
    for name in ("data.features", "data.feature_columns", "data.append_ids", "evaluation.cold_start", "paper.strangers")
)


@lru_cache
def code_version(model: str, two_stages: bool = False, strangers: bool = False) -> str:
    """A hash of the native sources and of all Python that a model's module leads to, 12 hexadecimal digits.

    A change to another model leaves it as it is. ``strangers``: content is read and strangers are measured as well.
    """
    start = [cls.__module__ for cls in registry()[model].__mro__ if cls.__module__.startswith("tastespace.")]
    special = {*(_TWO_STAGES if two_stages else ()), *(_BY_CONTENT if strangers else ())}
    names = _reachable({*start, *_ALWAYS, *special} - _OUTSIDE)
    digest = hashlib.sha256(_native.SOURCES.encode())
    for name in sorted(names):
        digest.update(_source_of(name).read_bytes())
    return digest.hexdigest()[:12]


def _reachable(start: set[str]) -> set[str]:
    """These modules and those of the rooms that they import, directly or not, at any place in their code."""
    found, waiting = set(start), sorted(start)
    while waiting:
        for name in _imported_by(waiting.pop()):
            room = name.split(".")[1] if "." in name else ""
            if room in _ROOMS and name not in found and name not in _OUTSIDE:
                found.add(name)
                waiting.append(name)
    return found


def _imported_by(name: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(_source_of(name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            # `from tastespace.evaluation import theory` may name a module or something in one.
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {one for one in found if one.startswith("tastespace.") and _source_of(one).exists()}


def _source_of(name: str) -> Path:
    """The file of a module; a model of somebody else's is where it was imported from."""
    if not name.startswith("tastespace."):
        return Path(str(sys.modules[name].__file__))
    path = _PACKAGE.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
