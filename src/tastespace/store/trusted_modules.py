"""Which modules a model file may make Python import: none that the caller has not named.

A file says which class its model is of. Classes of tastespace are found without any doubt, and so are those of modules
that the program has imported already. To import another module runs its code, and where that is found depends on the
working directory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from tastespace.errors import ModelFileError, ParameterError

Trust: TypeAlias = "bool | str | Iterable[str]"


def require_trust(trust: Trust) -> bool | frozenset[str]:
    """The modules that a caller trusts: all of them, or those of these names and what is inside of them.

    >>> sorted(require_trust(["shop.models", "helpers"]))
    ['helpers', 'shop.models']
    """
    if isinstance(trust, bool):
        return trust
    names = [trust] if isinstance(trust, str) else trust
    found = frozenset(names) if isinstance(names, Iterable) else None
    if found is None or not all(isinstance(name, str) and name for name in found):
        raise ParameterError(f"trust={trust!r}: expected names of modules that may be imported, or True for all.")
    return found


def require_trusted(content: Any, trust: bool | frozenset[str], where: str) -> None:
    """Raise unless every class that the content of model.json names comes from a module that may be imported."""
    for name in _class_names(content):
        module = name.partition(":")[0]
        if ":" not in name or module in sys.modules or _is_within(module, "tastespace") or trust is True:
            continue
        if trust is not False and any(_is_within(module, known) for known in trust):
            continue
        raise ModelFileError(
            f"{where} holds a model of the class {name}. Its module is not imported, and to open the model would run "
            f"its code. Import {module} first, or allow it: load(path, trust={module!r}); on the command line "
            f"tastespace --trust {module} ..."
        )


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _class_names(content: Any) -> Iterator[str]:
    """Names of classes in the content of model.json: that of the model itself, and of all models inside."""
    waiting = [content]
    if isinstance(content, dict):
        yield str(content.get("class", ""))
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "$model" in value:
                yield str(value["$model"])
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
