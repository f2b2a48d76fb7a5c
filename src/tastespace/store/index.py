"""The index file of a model directory: not part of the model, which answers without it, and may be damaged alone."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tastespace.errors import ModelFileError
from tastespace.store._manifest import INDEX_FILE
from tastespace.store.files import MappedFile, open_regular, require_checksum


@dataclass(frozen=True)
class StoredIndex:
    """Where the index is, and what it must be."""

    path: Path
    size: int
    crc32: str
    about: Mapping[str, Any]
    """What the index says of itself, such as the checksum of the vectors that it was made from."""

    @classmethod
    def described(cls, entry: Any, folder: Path) -> StoredIndex | None:
        """From the entry of model.json; None where that makes no sense, as if there were no index."""
        if not isinstance(entry, dict):
            return None
        name, size, crc32, about = (entry.get(key) for key in ("name", "bytes", "crc32", "about"))
        if not (isinstance(name, str) and INDEX_FILE.fullmatch(name) and type(size) is int and size > 0):
            return None
        return cls(folder / name, size, crc32, about) if isinstance(crc32, str) and isinstance(about, dict) else None

    def mapped(self) -> tuple[memoryview, MappedFile]:
        """The bytes that were written, which stay in the file, and what tells whether that has changed since."""
        try:
            with open_regular(self.path) as file:
                size = self.path.stat().st_size
                if size != self.size:
                    raise ModelFileError(
                        f"{self.path} has {size:,} bytes, {self.size:,} were written: it was cut off or changed."
                    )
                guard = MappedFile(self.path, file.fileno())
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as problem:
            raise ModelFileError(f"{self.path} cannot be read ({problem.strerror or problem}).") from problem
        require_checksum(self.path, content, self.crc32)
        return memoryview(content), guard
