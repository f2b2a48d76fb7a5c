"""State of a model as it is stored: class, parameters and learned values; and which modules a file may import."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, DataError, ModelFileError, ParameterError, nearest
from tastespace.models import (
    Recommender,
    create,
    is_registered,
    registry,
)
from tastespace.models.stored_values import require_stored
from tastespace.store._json_values import Tensors, decode, encode

# ---------------------------------------------------------------------------------------------------------------------
# Which modules a model file may make Python import: none that the caller has not named.
#
# A file says which class its model is of. Classes of tastespace are found without any doubt, and so are those of
# modules that the program has imported already. To import another module runs its code, and where that is found depends
# on the working directory.

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
        raise ParameterError(
            Argument("trust", trust), ": expected names of modules that may be imported, or True for all."
        )
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


# ---------------------------------------------------------------------------------------------------------------------
# What is stored of a model: the name of its class, its parameters and what it has learned.
#
# What is learned is found by the convention of `Recommender`: the attributes that end in an underscore, except the
# data (`train_` has files of its own, `valid_` is not kept). A model for which that is not enough defines two methods:
# ``_learned(self)`` returns a dict of what to store, and ``_restore(self, learned)`` takes it back, called on a new
# model that already has its parameters and `train_`.

_NOT_LEARNED = ("train_", "valid_")
_RUN_TIME = ("checkpoint", "log_file", "spill")
"""Parameters that name files of the run in which a model was trained: a model file says nothing of where to write."""


def class_name(model: Recommender) -> str:
    """The registry's name of a model's class, or ``module:Class`` for classes that are not in it.

    >>> from tastespace import EASE
    >>> class_name(EASE())
    'ease'
    """
    cls = type(model)
    for name, known in registry().items():
        if known is cls:
            return name
    if "<locals>" in cls.__qualname__:
        raise DataError(
            f"{cls.__qualname__} is defined inside a function, where load could not find it again. Move the class to "
            "the top of a module."
        )
    return f"{cls.__module__}:{cls.__qualname__}"


def find_class(name: str, where: str) -> type[Recommender]:
    """The class of that name; one outside the registry is looked up in its module."""
    if ":" not in name:
        try:
            return type(create(name))  # unlike `registry`, imports this one model only
        except ParameterError as problem:
            raise ModelFileError(
                f"{where} is a model of the class {name!r}, which this version of tastespace does not have: {problem}"
            ) from problem
    module_name, _, path = name.partition(":")
    found: Any
    try:
        found = sys.modules.get(module_name) or import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as problem:  # a module may fail in any way while it is imported
        raise ModelFileError(
            f"{where} is a model of the class {path} from the module {module_name!r}, which cannot be imported here "
            f"({type(problem).__name__}: {problem}). Import the module first, or put it on the Python path."
        ) from problem
    if not (isinstance(found, type) and issubclass(found, Recommender)):
        raise ModelFileError(f"{where} is a model of the class {name}, which is no tastespace Recommender.")
    return found


def encode_parameters(model: Recommender) -> dict[str, Any]:
    """The constructor's parameters as JSON."""
    return {
        name: encode(value, f"{type(model).__name__}'s parameter {name}")
        for name, value in model.get_params(deep=False).items()
        if name not in _RUN_TIME
    }


def encode_learned(model: Recommender) -> tuple[dict[str, Any], Tensors]:
    """The learned values of a model as JSON, and the arrays that the JSON refers to."""
    tensors: Tensors = {}
    learned = _learned(model)
    encoded = {}
    for name, value in learned.items():
        try:
            encoded[name] = encode(value, name, tensors)
        except DataError as problem:
            raise DataError(f"{type(model).__name__} cannot be saved: {problem}") from problem
    return encoded, tensors


def encode_model(model: Recommender, where: str, tensors: Tensors | None) -> dict[str, Any]:
    """A model inside another: its class, its parameters and, where there are ``tensors``, what it has learned."""
    found: dict[str, Any] = {"$model": class_name(model), "parameters": encode_parameters(model)}
    if tensors is not None:
        found["learned"] = {name: encode(value, f"{where}.{name}", tensors) for name, value in _learned(model).items()}
    return found


def decode_model(
    value: Mapping[str, Any], tensors: Mapping[str, Any], where: str, train: Interactions | None, deep: bool = True
) -> Recommender:
    """The model that `encode_model` was given; fitted where it was and ``train``, its training data, is given."""
    cls = find_class(value["$model"], where)
    if train is None or "learned" not in value:
        return _new_model(cls, value["parameters"], where)
    return rebuild(cls, value["parameters"], train, value["learned"], tensors, where, deep)


def _learned(model: Recommender) -> dict[str, Any]:
    """Learned values of a model, by name."""
    hook = getattr(model, "_learned", None)
    if hook is not None:
        return hook()
    return {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_") and name not in _NOT_LEARNED
    }


def rebuild(
    cls: type[Recommender],
    parameters: Mapping[str, Any],
    train: Interactions,
    encoded: Mapping[str, Any],
    tensors: Mapping[str, Any],
    where: str,
    deep: bool = True,
) -> Recommender:
    """A fitted model from what `encode_parameters` and `encode_learned` gave; ``deep`` looks for NaN in its arrays."""
    # A member of a blend may not use the weights that others use.
    own = train if cls.uses_weights or train.weights is None else train.without_weights()
    model = _new_model(cls, parameters, where)
    learned = {name: decode(value, tensors, f"{where}: {name}", own, deep) for name, value in encoded.items()}
    with _as_stored(cls, where):
        model.train_, model.valid_ = own, None
        _require_learned(model, learned, where, deep)
        _set_learned(model, learned)
    return model


def _require_learned(model: Recommender, learned: Mapping[str, Any], where: str, deep: bool) -> None:
    """Raise unless all of it may become part of the model: what it declares, and nothing that replaces its methods."""
    cls, is_ours = type(model), is_registered(type(model))
    declared = model._stored(learned) if _declares(cls) else None
    if declared is not None:
        require_stored(f"{where}: {cls.__name__}", declared, learned, model.train_, deep, more=not is_ours)
    if hasattr(model, "_restore"):
        return
    for name in learned:
        existing = getattr(cls, name, None)
        is_learned = name.isidentifier() and name.endswith("_") and not name.startswith("_")
        if not is_learned or name in _NOT_LEARNED or callable(existing) or isinstance(existing, property):
            raise ModelFileError(
                f"{where} holds {name!r} as learned by {cls.__name__}: expected names that end in an underscore and "
                "are no methods. The file was not written by save."
            )


def _declares(cls: type[Recommender]) -> bool:
    """Return whether a class stores what it declares: a subclass may store something else than the class it is of."""
    declares, stores = (
        next((at for at, one in enumerate(cls.__mro__) if name in vars(one)), len(cls.__mro__))
        for name in ("_stored", "_learned")
    )
    return declares <= stores


def _new_model(cls: type[Recommender], parameters: Mapping[str, Any], where: str) -> Recommender:
    """An unfitted model with these parameters."""
    known = cls._parameter_names()
    for name in parameters:
        if name not in known:
            raise ModelFileError(
                f"{where} has the parameter {name!r}, but this version's {cls.__name__} has no such parameter; its "
                f"parameters are {', '.join(known) or 'none'}.{nearest(name, known)}"
            )
    given = {
        name: decode(value, {}, f"{where}: parameter {name}")
        for name, value in parameters.items()
        if name not in _RUN_TIME
    }
    with _as_stored(cls, where):
        return cls(**given)


@contextmanager
def _as_stored(cls: type[Recommender], where: str) -> Iterator[None]:
    """Say of any error that the model could not be made again: a class outside the registry may fail in any way."""
    try:
        yield
    except ModelFileError:  # says what is wrong already
        raise
    except Exception as problem:
        raise ModelFileError(
            f"{where}: {cls.__name__} could not be made again from what was stored "
            f"({type(problem).__name__}: {problem}). Is it the version of the class that was saved?"
        ) from problem


def _set_learned(model: Recommender, learned: Mapping[str, Any]) -> None:
    hook = getattr(model, "_restore", None)
    if hook is not None:
        hook(learned)
        return
    for name, value in learned.items():
        setattr(model, name, value)
