"""Values as strict JSON: what JSON cannot express is an object whose first key starts with a dollar sign.

========================================================  ==============================================
value                                                     in JSON
========================================================  ==============================================
None, True, 3, 0.5, "text", [...], {"name": ...}          itself
NaN, infinity, minus infinity                             {"$float": "nan"}, "inf", "-inf"
(1, 2)                                                    {"$tuple": [1, 2]}
{1: 2}, {"$name": 2}                                      {"$dict": [[1, 2]]}, {"$dict": [["$name", 2]]}
Path("run.ckpt")                                          {"$path": "run.ckpt"}
np.float32(0.5), other NumPy numbers, flags and strings   {"$numpy": "float32", "value": 0.5}
an array                                                  {"$array": tensor, "dtype": ..., "shape": [...]}
a SciPy CSR array (or matrix)                             {"$csr": {"data", "indices", "indptr"}, "shape", "matrix"}
a model                                                   {"$model": class, "parameters": {...}, "learned": {...}}
========================================================  ==============================================

A model among the parameters of another has no "learned"; one among what another has learned has the same training data.

An array's numbers go to a safetensors file, under the name given here. Type and shape are stored as well: a file that
belongs to another model is detected before its numbers are used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ModelFileError
from tastespace.models.base import Recommender
from tastespace.models.stored_values import Wrong, require_csr_parts
from tastespace.store._tensors import type_name

Tensors = dict[str, NDArray[Any]]

_SCALARS: dict[str, type[np.generic]] = {
    "bool": np.bool_,
    "str": np.str_,
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": np.dtype(f"float{bits}").type for bits in (16, 32, 64)},
}


def encode(value: Any, where: str, tensors: Tensors | None = None) -> Any:
    """A value as strict JSON; arrays are put into ``tensors``, and refused where there are none.

    ``where`` names the value in messages.

    >>> encode({"loss": [0.5, float("nan")], "steps": np.int32(3)}, "history_")
    {'loss': [0.5, {'$float': 'nan'}], 'steps': {'$numpy': 'int32', 'value': 3}}
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if type(value) is list:
        return [encode(part, f"{where}[{i}]", tensors) for i, part in enumerate(value)]
    if type(value) is tuple:
        return {"$tuple": [encode(part, f"{where}[{i}]", tensors) for i, part in enumerate(value)]}
    if type(value) is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: encode(part, f"{where}.{key}", tensors) for key, part in value.items()}
        keys = [encode(key, f"a key of {where}") for key in value]
        parts = [encode(part, f"{where}[{key!r}]", tensors) for key, part in value.items()]
        return {"$dict": [list(pair) for pair in zip(keys, parts, strict=True)]}
    if isinstance(value, os.PathLike):
        return {"$path": os.fsdecode(value)}
    if isinstance(value, np.generic):
        return _scalar(value, where)
    if isinstance(value, Recommender):
        from tastespace.store._state import encode_model  # which needs this module

        return encode_model(value, where, tensors)
    if tensors is not None:
        if type(value) in (np.ndarray, np.memmap):
            return _array(value, where, tensors)
        if sp.issparse(value) and value.format == "csr" and value.ndim == 2:
            csr = {part: _array(getattr(value, part), f"{where}.{part}", tensors) for part in _CSR}
            return {"$csr": csr, "shape": list(map(int, value.shape)), "matrix": isinstance(value, sp.spmatrix)}
    raise _refusal(value, where, tensors)


_CSR = ("data", "indices", "indptr")


def _scalar(value: np.generic, where: str) -> Any:
    if isinstance(value, np.str_):
        return {"$numpy": "str", "value": str.__str__(value)}  # `item` would drop NULs at the end
    if value.dtype.name not in _SCALARS:
        raise _refusal(value, where, None)
    return {"$numpy": value.dtype.name, "value": encode(value.item(), where)}


def _array(array: NDArray[Any], where: str, tensors: Tensors) -> dict[str, Any]:
    code = type_name(array.dtype)
    if code is None:
        raise DataError(
            f"{where} is an array of {array.dtype}, which a model file cannot hold: it holds numbers of up to 64 bits "
            "and flags. Convert it, or define _learned and _restore in the model."
        )
    name, number = where, 1
    while name in tensors or name == "__metadata__":  # the one name that safetensors keeps for itself
        number += 1
        name = f"{where}#{number}"
    tensors[name] = array
    return {"$array": name, "dtype": code, "shape": list(array.shape)}


def _refusal(value: Any, where: str, tensors: Tensors | None) -> DataError:
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    arrays = "" if tensors is None else "NumPy arrays, SciPy CSR arrays, "
    hook = "" if tensors is None else ", or define _learned and _restore in the model"
    return DataError(
        f"{where} is of type {kind}, which a model file cannot hold: it holds {arrays}numbers, text, None, and lists, "
        f"tuples and dicts of those. Convert it{hook}."
    )


def decode(
    value: Any, tensors: Mapping[str, NDArray[Any]], where: str, train: Interactions | None = None, deep: bool = True
) -> Any:
    """The value that `encode` was given; ``train`` is the training data of fitted models in it.

    ``deep`` looks for NaN in what they have learned, too.

    >>> decode({"$tuple": [1, {"$float": "inf"}]}, {}, "example")
    (1, inf)
    """
    if isinstance(value, list):
        return [decode(part, tensors, where, train, deep) for part in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("$"):
        return {key: decode(part, tensors, where, train, deep) for key, part in value.items()}
    try:
        return _tagged(tag, value, tensors, where, train, deep)
    except ModelFileError:  # says what is wrong already
        raise
    except Wrong as problem:
        raise ModelFileError(f"{where} is damaged: {problem}. Save the model again, or restore a copy.") from None
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as problem:
        raise ModelFileError(
            f"{where} holds {str(value)[:80]}, which this version cannot read ({type(problem).__name__}: {problem})."
        ) from problem


def _tagged(
    tag: str,
    value: dict[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    where: str,
    train: Interactions | None,
    deep: bool,
) -> Any:
    content = value[tag]
    if tag == "$float":
        return float(content)
    if tag == "$tuple":
        return tuple(decode(list(content), tensors, where, train, deep))
    if tag == "$dict":
        return {decode(key, tensors, where): decode(part, tensors, where, train, deep) for key, part in content}
    if tag == "$path":
        return Path(content)
    if tag == "$numpy":
        return _SCALARS[content](decode(value["value"], tensors, where))
    if tag == "$array":
        found = tensors[content]
        if type_name(found.dtype) != value["dtype"] or list(found.shape) != value["shape"]:
            raise ModelFileError(
                f"{where}: the array {content!r} is {type_name(found.dtype)} of shape {list(found.shape)} in its file, "
                f"model.json says {value['dtype']} of shape {value['shape']}. The files belong to different models."
            )
        return found
    if tag == "$model":
        from tastespace.store._state import decode_model

        return decode_model(value, tensors, where, train, deep)
    if tag == "$csr":
        kind = sp.csr_matrix if value["matrix"] else sp.csr_array
        data, indices, indptr = (decode(content[part], tensors, where) for part in _CSR)
        shape = value["shape"]
        if not (isinstance(shape, list) and len(shape) == 2 and all(type(n) is int and n >= 0 for n in shape)):
            raise ValueError(f"the shape {shape!r}")
        require_csr_parts(data, indices, indptr, tuple(shape))  # SciPy trusts them
        return kind((data, indices, indptr), shape=tuple(shape))
    raise KeyError(tag)
