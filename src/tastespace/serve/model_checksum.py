"""Tells one saved model from another."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tastespace.errors import ModelFileError


def model_checksum(path: Path) -> str:
    """The hash of a model's model.json, which names all its files with their checksums."""
    try:
        return hashlib.sha256((path / "model.json").read_bytes()).hexdigest()[:16]
    except OSError as problem:
        raise ModelFileError(
            f"{path.name}: there is no model ({problem.strerror}). Give the directory of a saved model."
        ) from problem
