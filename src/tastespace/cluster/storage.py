"""Files that all workers reach: a folder that they share, or any address that fsspec knows (s3://, gs://, ...)."""

from __future__ import annotations

import io
import json
import logging
import os
import secrets
import socket
import time
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from tastespace._util.atomic import atomic_write
from tastespace._util.extras import missing
from tastespace.errors import ClusterError, InterruptedRunError

# ---------------------------------------------------------------------------------------------------------------------
# Driver and workers must have the same version of the library: others would compute something else.

PROTOCOL = 4
"""Raised where a task computes something else, so that workers of another version are refused."""


@lru_cache(maxsize=1)
def library_version() -> str:
    """The version that driver and workers must share."""
    from importlib.metadata import version

    return f"{version('tastespace')}/{PROTOCOL}"


def require_version(wanted: str) -> None:
    """Raise where this worker has another version of the library than the driver, ``wanted``."""
    own = library_version()
    if own != wanted:
        raise InterruptedRunError(
            f"the worker on {socket.gethostname()} (process {os.getpid()}) has tastespace {own}, the driver {wanted}: "
            "their results would differ. Install the same version on all of them."
        )


log = logging.getLogger(__name__)

Value = TypeVar("Value")
_WAITS = (0.1, 0.5, 2.0)  # seconds between attempts
_FACTS = "facts"
_KINDS = {"F32": "<f4", "F16": "<f2", "I32": "<i4", "I64": "<i8"}  # of safetensors


class DamagedFileError(ClusterError):
    """A file of the run is cut off or changed."""


class Storage:
    """Named files below a folder or address. Each is written as a whole; a failed attempt is repeated.

    >>> import tempfile
    >>> storage = Storage(tempfile.mkdtemp())
    >>> storage.write_arrays("part/0", {"x": np.arange(3)}, {"round": 1})
    >>> storage.read_arrays("part/0")[1], storage.names("part/")
    ({'round': 1}, ['part/0'])
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._path = Path(root).expanduser() if "://" not in root else None
        if self._path is None:
            try:
                from fsspec.core import url_to_fs
            except ImportError as problem:
                raise missing("cluster", f"{root} needs fsspec") from problem
            self._files, self._base = url_to_fs(root)

    def read(self, name: str) -> bytes:
        """The bytes of a file; `FileNotFoundError` where there is none."""
        if self._path is not None:
            where = self._path / name
            return self._repeated(where.read_bytes, f"read {where}")
        return self._repeated(lambda: bytes(self._files.cat_file(f"{self._base}/{name}")), f"read {name}")

    def write(self, name: str, content: bytes, flush: bool = True) -> None:
        """Replace a file. Without ``flush`` it may be lost in a power failure: for what can be computed again."""

        def attempt() -> None:
            if self._path is not None and flush:
                with atomic_write(self._path / name) as temporary:
                    temporary.write_bytes(content)
            elif self._path is not None:
                where = self._path / name
                where.parent.mkdir(parents=True, exist_ok=True)
                temporary = where.with_name(f".{where.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
                temporary.write_bytes(content)
                temporary.replace(where)
            else:
                self._files.makedirs(f"{self._base}/{name}".rpartition("/")[0], exist_ok=True)
                self._files.pipe_file(f"{self._base}/{name}", content)

        self._repeated(attempt, f"write {self.root}/{name}")

    def names(self, prefix: str) -> list[str]:
        """The names that begin with this folder, sorted."""
        if self._path is not None:
            folder = self._path / prefix
            return sorted(f"{prefix}{file.name}" for file in folder.glob("*") if not file.name.startswith("."))
        if not self._files.exists(f"{self._base}/{prefix}"):
            return []
        found = self._files.ls(f"{self._base}/{prefix}", detail=False, refresh=True)
        return sorted(f"{prefix}{str(name).rstrip('/').rpartition('/')[2]}" for name in found)

    def has(self, name: str) -> bool:
        """Return True if there is such a file."""
        if self._path is not None:
            return (self._path / name).exists()
        return bool(self._files.exists(f"{self._base}/{name}"))

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self._path is not None:
            (self._path / name).unlink(missing_ok=True)
        elif self._files.exists(f"{self._base}/{name}"):
            self._files.rm_file(f"{self._base}/{name}")

    def write_arrays(self, name: str, arrays: dict[str, NDArray[Any]], facts: Any = None, flush: bool = True) -> None:
        """Write arrays and facts (JSON) with a checksum."""
        filled = {key: np.ascontiguousarray(array) for key, array in arrays.items() if array.size}
        empty = {key: [array.dtype.str, list(array.shape)] for key, array in arrays.items() if not array.size}
        content = save(filled, metadata={_FACTS: json.dumps({"facts": facts, "empty": empty})})
        self.write(name, zlib.crc32(content).to_bytes(8, "little") + content, flush)

    def write_frame(self, name: str, frame: pl.DataFrame, flush: bool = True) -> None:
        """Write a table with a checksum."""
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        content = buffer.getvalue()
        self.write(name, zlib.crc32(content).to_bytes(8, "little") + content, flush)

    def read_frame(self, name: str) -> pl.DataFrame:
        """Return the table that `write_frame` wrote; `DamagedFileError` if the file is not whole."""
        return pl.read_parquet(io.BytesIO(self._checked(name)))

    def _checked(self, name: str) -> bytes:
        """Content of a file behind its checksum, which it fits."""
        content = self.read(name)
        if zlib.crc32(content[8:]).to_bytes(8, "little") != content[:8]:
            raise DamagedFileError(f"{self.root}/{name} is damaged: it was cut off, or changed after it was written.")
        return content[8:]

    def read_arrays(self, name: str) -> tuple[dict[str, NDArray[Any]], Any]:
        """Return the arrays that `write_arrays` wrote; `DamagedFileError` if the file is not whole."""
        content = self._checked(name)
        try:
            arrays: dict[str, NDArray[Any]] = load(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            stored = json.loads(header["__metadata__"][_FACTS])
        except (SafetensorError, ValueError, KeyError) as problem:
            raise DamagedFileError(f"{self.root}/{name} is damaged ({problem}).") from problem
        arrays |= {key: np.zeros(shape, np.dtype(kind)) for key, (kind, shape) in stored["empty"].items()}
        return arrays, stored["facts"]

    def read_rows(self, name: str, rows: NDArray[np.integer[Any]]) -> dict[str, NDArray[Any]]:
        """Some rows of the arrays that `write_arrays` wrote, which have a row for the same things.

        Few rows of a file in a folder are read alone; then its length is checked, not its checksum.
        """
        if self._path is None:
            return {key: array[rows] for key, array in self.read_arrays(name)[0].items() if array.size}
        where = self._path / name

        def attempt() -> dict[str, NDArray[Any]] | None:
            with where.open("rb") as file:
                head = file.read(16)
                length = int.from_bytes(head[8:], "little")
                try:
                    header = json.loads(file.read(length))
                    end = 16 + length + max(facts["data_offsets"][1] for key, facts in header.items() if key[0] != "_")
                except (ValueError, KeyError, TypeError):
                    return None
            if where.stat().st_size != end:
                return None
            found = {}
            for key, facts in header.items():
                if not key.startswith("_"):
                    kind, start = np.dtype(_KINDS[facts["dtype"]]), 16 + length + facts["data_offsets"][0]
                    found[key] = np.memmap(where, kind, "r", start, tuple(facts["shape"]))[rows]
            return found

        found = self._repeated(attempt, f"read {where}")
        if found is None:
            raise DamagedFileError(f"{where} is damaged: it was cut off, or changed after it was written.")
        return {key: np.asarray(array) for key, array in found.items()}

    def write_facts(self, name: str, facts: Any) -> None:
        """Write JSON."""
        self.write(name, json.dumps(facts, indent=1).encode())

    def read_facts(self, name: str) -> Any:
        """Read JSON; None where there is no such file."""
        try:
            return json.loads(self.read(name))
        except FileNotFoundError:
            return None
        except ValueError as problem:
            raise DamagedFileError(f"{self.root}/{name} is damaged ({problem}).") from problem

    def _repeated(self, attempt: Callable[[], Value], what: str) -> Value:
        """Storage over a network fails now and then: four attempts."""
        for wait in _WAITS:
            try:
                return attempt()
            except FileNotFoundError:
                raise
            except OSError as problem:
                log.warning("could not %s (%s); once more in %g s", what, problem, wait)
                time.sleep(wait)
        try:
            return attempt()
        except FileNotFoundError:
            raise
        except OSError as problem:
            raise InterruptedRunError(
                f"could not {what} in {len(_WAITS) + 1} attempts ({problem}). See to the storage."
            ) from problem
