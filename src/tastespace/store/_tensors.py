"""Arrays in safetensors files: written in one pass, large ones mapped instead of read.

The safetensors library copies what it reads. Here the header is parsed and the numbers of a large file stay where they
are: a model opens in the time that its header takes, and processes that use the same model share its memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tastespace._util.model_files import MappedFile, open_numbers, open_regular, require_checksum
from tastespace.errors import ModelFileError

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
"""Names that safetensors gives to types of NumPy."""

_ALIGNMENT = 64  # of the first number, so that the kernels' loads stay within cache lines
_LONGEST_HEADER = 100_000_000  # the safetensors library's own limit


def type_name(dtype: np.dtype[Any]) -> str | None:
    """The safetensors name of a type, None where there is none.

    >>> type_name(np.dtype(np.float32)), type_name(np.dtype("datetime64[s]"))
    ('F32', None)
    """
    return next((name for name, known in DTYPES.items() if known == dtype.newbyteorder("<")), None)


def safetensors_chunks(tensors: Mapping[str, NDArray[Any]]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file in pieces, so that no second copy of the arrays is made."""
    # Wide types first: then every array starts at a multiple of its own width, without gaps, which are forbidden.
    plain = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
        for name, array in sorted(tensors.items(), key=lambda pair: (-pair[1].dtype.itemsize, pair[0]))
    }
    header, at = {}, 0
    for name, array in plain.items():
        header[name] = {
            "dtype": type_name(array.dtype),
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    yield len(text).to_bytes(8, "little") + text
    for array in plain.values():
        if array.nbytes:
            yield array.reshape(-1).view(np.uint8).data


def map_tensors(path: Path, crc32: str | None = None) -> tuple[dict[str, NDArray[Any]], MappedFile | None]:
    """All arrays of a safetensors file, read-only, and what tells whether the file has changed, where it is mapped.

    Where the checksum ``crc32`` of the whole file is given, the file is read and compared with it.
    """
    try:
        with open_regular(path) as file:
            mapped, guard = open_numbers(path, file, populate=crc32 is not None)
    except (OSError, ValueError) as problem:
        raise ModelFileError(f"{path}: cannot be opened ({problem}).") from problem
    if crc32 is not None:
        require_checksum(path, mapped, crc32)
    header, start = _header(path, mapped)
    tensors: dict[str, NDArray[Any]] = {}
    spans = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape, (first, last) = _entry(path, name, entry, len(mapped) - start)
        try:
            array = np.ndarray(shape, dtype, mapped, start + first) if last > first else np.empty(shape, dtype)
        except (ValueError, OverflowError) as problem:  # more dimensions, or larger ones, than NumPy has
            _damaged(path, f"tensor {name!r} has the impossible shape {shape}", problem)
        if not array.flags.aligned:
            _damaged(path, f"tensor {name!r} starts at byte {start + first}, within a number")
        array.flags.writeable = False
        tensors[name] = array
        spans.append((first, last))
    end = 0
    for first, last in sorted(spans):
        if first != end:
            _damaged(path, f"its tensors overlap or leave a gap at byte {end}")
        end = last
    if end != len(mapped) - start:
        _damaged(path, f"its tensors end at byte {end}, the file at {len(mapped) - start}")
    return tensors, guard


def _header(path: Path, mapped: memoryview) -> tuple[dict[str, Any], int]:
    """The header, and where the numbers start."""
    length = int.from_bytes(mapped[:8], "little")
    if len(mapped) < 8 or length > min(_LONGEST_HEADER, len(mapped) - 8):
        _damaged(path, f"a header of {length} bytes does not fit into a file of {len(mapped)}")
    try:
        header = json.loads(bytes(mapped[8 : 8 + length]).decode("utf-8"))
    except (ValueError, RecursionError) as problem:
        _damaged(path, "its header is not JSON", problem)
    if not isinstance(header, dict):
        _damaged(path, "its header is not a JSON object")
    return header, 8 + length


def _entry(path: Path, name: str, entry: Any, end: int) -> tuple[np.dtype[Any], list[int], list[int]]:
    """Type, shape and bytes of one tensor, each checked."""
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    code, shape, span = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(code, str) or code not in DTYPES:
        _damaged(path, f"tensor {name!r} has the unknown type {code!r}")
    if not (_are_sizes(shape) and _are_sizes(span) and len(span) == 2 and span[0] <= span[1] <= end):
        _damaged(path, f"tensor {name!r} has the shape {shape!r} at bytes {span!r} of {end}")
    dtype = DTYPES[code]
    if math.prod(shape) * dtype.itemsize != span[1] - span[0]:
        _damaged(path, f"tensor {name!r}: {code} of shape {shape} does not take {span[1] - span[0]} bytes")
    return dtype, shape, span


def _are_sizes(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)


def _damaged(path: Path, what: str, problem: Exception | None = None) -> NoReturn:
    raise ModelFileError(f"{path} is damaged: {what}. Save the model again, or restore a copy.") from problem
