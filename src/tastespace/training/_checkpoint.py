"""Checkpoints: one safetensors file, written atomically, so that a crash leaves the old one or the new one."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from tastespace._util.atomic import atomic_write
from tastespace._util.checks import is_whole
from tastespace.errors import TrainingError, shortened

FORMAT = 3
_KEY = "tastespace-checkpoint"
_CHECKSUM = "tastespace-checksum"
_NO_CHECKSUM = b"00000000"
_PLACE = re.compile(rb'"tastespace-checksum":"([0-9a-f]{8})"')


def write_checkpoint(path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, Any]) -> None:
    """Write the arrays and the metadata, atomically, with a checksum of every byte."""
    # An empty array has no bytes to store; it is made again when the run is set up.
    filled = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array.size}
    header = json.dumps({"format": FORMAT, **metadata})
    payload = bytearray(save(filled, metadata={_KEY: header, _CHECKSUM: _NO_CHECKSUM.decode()}))
    first, last = _checksum_place(payload)
    payload[first:last] = f"{zlib.crc32(payload):08x}".encode()
    with atomic_write(path) as temporary:
        temporary.write_bytes(payload)


def read_checkpoint(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and metadata that `write_checkpoint` stored."""
    try:
        payload = bytearray(path.read_bytes())
        header = json.loads(payload[8 : 8 + int.from_bytes(payload[:8], "little")])
        metadata = json.loads(header["__metadata__"][_KEY])
        found = metadata.pop("format")
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as problem:
        raise _unreadable(path, problem) from problem
    if found != FORMAT:
        raise TrainingError(
            f"{path} has checkpoint format {found}, this version reads {FORMAT}. Delete it to train from the start."
        )
    try:
        first, last = _checksum_place(payload)
        stored, payload[first:last] = bytes(payload[first:last]), _NO_CHECKSUM
        if stored != f"{zlib.crc32(payload):08x}".encode():
            raise TrainingError(
                f"{path} is damaged: it changed after it was written. Delete it to train from the start."
            )
        return load(bytes(payload)), metadata
    except (SafetensorError, ValueError) as problem:
        raise _unreadable(path, problem) from problem


def require_run_metadata(path: str | Path, metadata: dict[str, Any]) -> None:
    """Raise unless the metadata are those of a training run: the checksum says nothing of who wrote the file."""

    def whole(value: Any) -> bool:
        return is_whole(value, 0)

    kinds: dict[str, Callable[[Any], bool]] = {
        "identity": lambda value: isinstance(value, dict),
        "history": lambda value: (
            isinstance(value, list)
            and all(isinstance(row, dict) and row.get("epoch") == at + 1 for at, row in enumerate(value))
        ),
        "best_score": lambda value: value is None or (isinstance(value, (int, float)) and math.isfinite(value)),
        "best_epoch": whole,
        "validations_without_improvement": whole,
    }
    for name, is_right in kinds.items():
        if name not in metadata or not is_right(metadata[name]):
            raise TrainingError(
                f"{path} is no checkpoint of a training run: {name} is {shortened(metadata.get(name))}. Delete it to "
                "train from the start."
            )


def require_same_arrays(path: str | Path, stored: dict[str, NDArray[Any]], own: dict[str, NDArray[Any]]) -> None:
    """Raise where an array of a checkpoint has another type or shape than that of the run, or is missing."""
    for name, array in own.items():
        found = stored.get(name)
        if found is None and array.size == 0:
            continue
        if found is None or found.dtype != array.dtype or np.atleast_1d(found).shape != np.atleast_1d(array).shape:
            given = "missing" if found is None else f"{found.dtype} of shape {found.shape}"
            raise TrainingError(
                f"{path} does not fit this run: {name} is {given}, expected {array.dtype} of shape {array.shape}. "
                "Delete it to train from the start."
            )


def _checksum_place(payload: bytearray) -> tuple[int, int]:
    """First and last + 1 of the bytes of the checksum."""
    found = _PLACE.search(payload, 8, 8 + int.from_bytes(payload[:8], "little"))
    if found is None:
        raise ValueError("it has no checksum")
    return found.span(1)


def _unreadable(path: Path, problem: BaseException) -> TrainingError:
    return TrainingError(
        f"{path} is no readable checkpoint ({problem}). Delete it to train from the start, or give another path."
    )
