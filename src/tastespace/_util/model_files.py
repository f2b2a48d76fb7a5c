"""Files of a model directory: regular ones only, with checksums, and mapped ones that a model uses in place."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import weakref
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tastespace import _native
from tastespace.errors import ModelChangedError, ModelFileError

# ---------------------------------------------------------------------------------------------------------------------
# Checksums of the bytes of a model: CRC-32 as in zlib.

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


# ---------------------------------------------------------------------------------------------------------------------
# Opening files of a model directory: regular ones only, because a pipe or a device in their place never ends.


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; a folder, pipe, socket or device is an error, and nothing is waited for.

    >>> open_regular(Path("/dev/null"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tastespace.errors.ModelFileError: /dev/null is no regular file, but a device; ...
    """
    flags = ("O_NONBLOCK", "O_CLOEXEC", "O_NOFOLLOW")
    try:
        handle = os.open(path, os.O_RDONLY | sum(getattr(os, name, 0) for name in flags))
    except OSError as problem:
        if problem.errno != errno.ELOOP:
            raise
        raise ModelFileError(
            f"{path} is a symbolic link, which may lead anywhere; a model is a directory of regular files. Copy the "
            "files themselves (cp -L, rsync -L)."
        ) from problem
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise ModelFileError(
                f"{path} is no regular file, but a {_kind(mode)}; a model is a directory of regular files. Restore "
                "a copy."
            )
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path) -> bytes:
    """All bytes of a regular file."""
    with open_regular(path) as file:
        return file.read()


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "folder" if stat.S_ISDIR(mode) else "device"


# ---------------------------------------------------------------------------------------------------------------------
# Files whose numbers a model uses in place: what happens to them while they are open.
#
# A save of ours never changes a file that was there: it writes new ones and deletes the old ones, whose bytes stay for
# those that have them mapped. Other programs may cut a file off or write over it in place (`cp`, `truncate`, `rsync
# --inplace`). To touch a mapped page beyond the end of its file ends the process (SIGBUS), and offsets that have
# changed point anywhere. So small files are read into memory, and large ones are looked at before each answer.

READ_BYTES = 16_000_000
"""Files up to this size are read; larger ones are mapped, so that processes share their memory."""
_ALIGNMENT = 64


class MappedFile:
    """Tells whether a file that is mapped is still what it was. A copy in another process has its own memory."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = os.dup(handle)
        weakref.finalize(self, os.close, self._handle)
        self._before = self._now()

    def require_unchanged(self) -> None:
        """Raise `ModelChangedError` where the file was cut off or written to since it was opened; a microsecond."""
        if self._now() != self._before:
            raise ModelChangedError(
                f"{self._path} was cut off or written to while the model was in use. Load the model again. To replace "
                "a model, save over it or rename a new file to its name: a file in use must not change."
            )

    def _now(self) -> tuple[int, int]:
        found = os.fstat(self._handle)
        return found.st_size, found.st_mtime_ns

    def __reduce__(self) -> tuple[Any, ...]:
        return (_InMemory, ())


class _InMemory:
    """Takes the place of `MappedFile` for arrays that were copied or sent to another process."""

    def require_unchanged(self) -> None:
        """Nothing can happen to it."""


def open_numbers(path: Path, file: BinaryIO, populate: bool) -> tuple[memoryview, MappedFile | None]:
    """The bytes of a file, read-only and aligned: read where it is small, else mapped."""
    size = os.fstat(file.fileno()).st_size
    if size > READ_BYTES:
        flags = mmap.MAP_SHARED | (getattr(mmap, "MAP_POPULATE", 0) if populate else 0)
        guard = MappedFile(path, file.fileno())
        return memoryview(mmap.mmap(file.fileno(), size, flags=flags, prot=mmap.PROT_READ)), guard
    space = np.empty(size + _ALIGNMENT, dtype=np.uint8)
    first = -space.ctypes.data % _ALIGNMENT
    n_read = file.readinto(space[first : first + size].data) if size else 0  # type: ignore[attr-defined]
    if n_read != size:
        raise ModelFileError(f"{path} was cut off while it was read. Restore a copy, or save the model again.")
    space.flags.writeable = False  # nobody can write to it: what is computed from it may be kept
    return space[first : first + size].data, None
