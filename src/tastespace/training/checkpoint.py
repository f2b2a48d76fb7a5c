"""Checkpoints: one safetensors file, written beside and renamed, so that a crash leaves the old one or the new one."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from tastespace.errors import TrainingError

FORMAT = 1
_KEY = "tastespace-checkpoint"


def write_checkpoint(path: Path, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
    """Write atomically: to a temporary file in the same folder, flushed to disk, then renamed over ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # An empty array has no bytes to store; it is made anew when the run is set up.
    filled = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array.size}
    notes = {"format": FORMAT, "checksum": _checksum(filled), **facts}
    payload = save(filled, metadata={_KEY: json.dumps(notes)})
    # One name, so that a process killed while writing leaves one such file at most, which the next write takes over.
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with temporary.open("wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_checkpoint(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What `write_checkpoint` stored."""
    try:
        with safe_open(path, framework="np") as file:
            facts = json.loads((file.metadata() or {})[_KEY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, KeyError, ValueError) as problem:
        raise TrainingError(
            f"{path} is no readable checkpoint ({problem}). Delete it to train from the start, or give another path."
        ) from problem
    if facts.get("format") != FORMAT:
        raise TrainingError(
            f"{path} has checkpoint format {facts.get('format')}, this version reads {FORMAT}. Delete it to train anew."
        )
    if facts.pop("checksum") != _checksum(arrays):
        raise TrainingError(f"{path} is damaged: its numbers changed after they were written. Delete it to train anew.")
    return arrays, facts


def _checksum(arrays: dict[str, NDArray[Any]]) -> int:
    total = 0
    for name in sorted(arrays):
        total = zlib.crc32(arrays[name].data, zlib.crc32(name.encode(), total))
    return total
