"""Checksums of the bytes of a model: CRC-32 as in zlib."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from tastespace import _native
from tastespace.errors import ModelFileError

VERIFIED_BYTES = 256_000_000
"""Models up to this size are read and compared with their checksums whenever they are opened: some 10 ms per 100 MB."""


def checksum(*parts: bytes | memoryview | mmap.mmap) -> str:
    """CRC-32 as eight hexadecimal digits.

    >>> checksum(b"taste", b"space") == checksum(b"tastespace")
    True
    """
    return f"{crc32_of(*parts):08x}"


def crc32_of(*parts: bytes | memoryview | mmap.mmap, before: int = 0) -> int:
    """The same as a number, continued from ``before``."""
    for part in parts:
        before = _native.crc32(np.frombuffer(part, dtype=np.uint8), before) if len(part) else before
    return before


def require_checksum(path: Path, content: bytes | memoryview | mmap.mmap, expected: str) -> None:
    """Raise unless the bytes of a file are those that were written."""
    if checksum(content) != expected:
        raise ModelFileError(
            f"{path} is damaged: its checksum differs from the one it was written with. Restore a copy, or save the "
            "model again."
        )
