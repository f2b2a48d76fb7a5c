"""Files of parameters: what `tastespace tune --out` writes and `tastespace fit --params` reads (TOML)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from tastespace.atomic import atomic_write
from tastespace.errors import ParameterError
from tastespace.models import create

if sys.version_info >= (3, 11):
    import tomllib
else:  # the same library, before it became part of Python
    import tomli as tomllib

_NONE = "none"  # TOML has no null; no parameter has this text as a value


class Params(NamedTuple):
    """A model and its parameters."""

    model: str
    params: dict[str, Any]


def write_params(path: str | Path, model: str, params: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Write the parameters of a model, and under ``found`` how they were found, for people to read."""
    tables = {"model": model, "params": _plain(params), "found": _plain(found)}
    target = Path(path).expanduser()
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target.resolve()) as temporary:
        temporary.write_text(tomli_w.dumps(tables), encoding="utf-8")


def read_params(path: str | Path, model: str | None = None) -> Params:
    """Model and parameters of a file; an error for those of another model than ``model``, or unknown parameters.

    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "params.toml")
    ...     write_params(file, "ease", {"regularization": 200.0}, {"metric": "NDCG@10"})
    ...     read_params(file)
    Params(model='ease', params={'regularization': 200.0})
    """
    file = Path(path).expanduser()
    expected = 'expected a file that tastespace tune --out has written, with model = "NAME" and a table [params]'
    try:
        with file.open("rb") as opened:
            tables = tomllib.load(opened)
    except OSError as problem:
        raise ParameterError(f"{path}: cannot be read ({problem.strerror}); {expected}.") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ParameterError(f"{path} is not TOML ({problem}); {expected}.") from problem
    name, params = tables.get("model"), tables.get("params")
    if not isinstance(name, str) or not isinstance(params, dict):
        raise ParameterError(f"{path}: {expected}.")
    if model is not None and model != name:
        raise ParameterError(f"{path} holds parameters of {name}, not of {model}. Leave the model out, or take {name}.")
    values = {key: _value(value) for key, value in params.items()}
    try:
        create(name, **values)
    except ParameterError as problem:
        raise ParameterError(f"{path}: {problem}") from problem
    return Params(name, values)


def _plain(value: Any) -> Any:
    """A value as one of TOML's types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None:
        return _NONE
    return value if isinstance(value, (bool, int, float)) else str(value)


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, dict):
        return {key: _value(one) for key, one in value.items()}
    return None if value == _NONE else value
