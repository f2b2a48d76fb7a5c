"""Checkpoints: one safetensors file, written atomically, so that a crash leaves the old one or the new one."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from tastespace.atomic import atomic_write
from tastespace.errors import TrainingError

FORMAT = 2
_KEY = "tastespace-checkpoint"


def write_checkpoint(path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, Any]) -> None:
    """Write the arrays and the metadata, atomically."""
    # An empty array has no bytes to store; it is made anew when the run is set up.
    filled = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array.size}
    header = {"format": FORMAT, "checksum": _checksum(filled), **metadata}
    payload = save(filled, metadata={_KEY: json.dumps(header)})
    with atomic_write(path) as temporary:
        temporary.write_bytes(payload)


def read_checkpoint(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What `write_checkpoint` stored."""
    try:
        with safe_open(path, framework="np") as file:
            metadata = json.loads((file.metadata() or {})[_KEY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, KeyError, ValueError) as problem:
        raise TrainingError(
            f"{path} is no readable checkpoint ({problem}). Delete it to train from the start, or give another path."
        ) from problem
    if metadata.get("format") != FORMAT:
        raise TrainingError(
            f"{path} has checkpoint format {metadata.get('format')}, this version reads {FORMAT}. Delete it to train "
            "from the start."
        )
    if metadata.pop("checksum") != _checksum(arrays):
        raise TrainingError(f"{path} is damaged: its numbers changed after they were written. Delete it to train anew.")
    return arrays, metadata


def _checksum(arrays: dict[str, NDArray[Any]]) -> int:
    total = 0
    for name in sorted(arrays):
        total = zlib.crc32(arrays[name].data, zlib.crc32(name.encode(), total))
    return total
