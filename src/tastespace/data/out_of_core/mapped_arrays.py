"""Arrays whose numbers are in files: larger than memory, and written to disk by the system where memory is needed."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.errors import DataError

BLOCK_BYTES = 1 << 26
"""Approximate size of the blocks in which arrays larger than memory are processed."""


def mapped_zeros(folder: Path, shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros backed by a file in ``folder`` that has no name: it is gone with the array, also after a crash.

    >>> array = mapped_zeros(Path(tempfile.mkdtemp()), (2, 3), np.float32)
    >>> array[1] = 7
    >>> float(array.sum())
    21.0
    """
    shape = (shape,) if isinstance(shape, int) else shape
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if not n_bytes:
        return np.zeros(shape, dtype)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".array-", dir=folder)
        os.unlink(name)  # noqa: PTH108, the file lives for as long as it is mapped
        try:
            os.posix_fallocate(descriptor, 0, n_bytes)  # a full disk is an error here, not a crash while writing
            mapped = mmap.mmap(descriptor, n_bytes)
        finally:
            os.close(descriptor)
    except OSError as problem:
        raise DataError(
            f"{folder}: no room for an array of {n_bytes / 1e9:.3g} GB ({problem.strerror or problem}). Free some, or "
            "give another folder."
        ) from problem
    return np.ndarray(shape, dtype, mapped)


def new_zeros(spill: str | Path | None, shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros in memory or, where a folder is given, in a file there (`mapped_zeros`)."""
    return np.zeros(shape, dtype) if spill is None else mapped_zeros(Path(spill).expanduser(), shape, dtype)


def all_finite(array: NDArray[Any]) -> bool:
    """Return True if an array holds no NaN and no infinity; it is read in blocks.

    >>> all_finite(np.array([1.0, np.nan]))
    False
    """
    if array.nbytes <= BLOCK_BYTES:  # also numbers without a dimension
        return bool(np.isfinite(array).all())
    return all(bool(np.isfinite(array[rows]).all()) for rows in row_blocks(array))


def map_file(path: Path, dtype: Any, shape: tuple[int, ...], write: bool = False) -> NDArray[Any]:
    """The numbers of a file, read-only unless ``write``; a file of another length is an error."""
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    try:
        found = path.stat().st_size
        if found != n_bytes:
            raise DataError(f"{path} is damaged: it has {found:,} bytes, expected {n_bytes:,}. Build it again.")
        if not n_bytes:
            return np.zeros(shape, dtype)
        with path.open("r+b" if write else "rb") as file:
            mapped = mmap.mmap(file.fileno(), n_bytes, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ)
    except OSError as problem:
        raise DataError(f"{path}: cannot be opened ({problem.strerror or problem}).") from problem
    return np.ndarray(shape, dtype, mapped)


def is_mapped(array: NDArray[Any]) -> bool:
    """Return True if the numbers of this array are in a file.

    >>> is_mapped(np.zeros(3))
    False
    """
    return _mapping(array) is not None


def release(*arrays: NDArray[Any] | memoryview | bytes) -> None:
    """Take the pages of mapped arrays out of this process's memory; nothing is lost, they come back when used."""
    for array in arrays:
        mapped = _mapping(array)
        if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


def row_blocks(array: NDArray[Any], *others: NDArray[Any], n_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """The rows of an array in blocks of about ``n_bytes``.

    Pages of mapped arrays, also of the ``others`` that the caller works on, leave memory after each block.

    >>> list(row_blocks(np.zeros((5, 2)), n_bytes=32))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    per_row = max(1, array.nbytes // max(1, len(array)))
    step = max(1, n_bytes // per_row)
    for first in range(0, len(array), step):
        yield slice(first, min(len(array), first + step))
        release(array, *others)


def _mapping(array: NDArray[Any] | memoryview | bytes) -> mmap.mmap | None:
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, mmap.mmap) else None
