"""Checkpoints: one safetensors file, written beside and renamed, so that a crash leaves the old one or the new one."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
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
    payload = save(filled, metadata={_KEY: json.dumps({"format": FORMAT, **facts})})
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
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
    return arrays, facts
