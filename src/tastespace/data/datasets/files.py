"""Folders and zip archives with one interface: named files that can be read."""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from tastespace._util.limits import ARCHIVE_BYTES, ARCHIVE_FILES
from tastespace.errors import DataError

DATA_VARIABLE = "TASTESPACE_DATA"
_ARCHIVES = (".zip", ".whl")
_UNREADABLE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, RuntimeError, ValueError, MemoryError)
"""Errors of zipfile for archives that are damaged, encrypted (RuntimeError) or packed in an unknown way."""


class Files(Protocol):
    """Named files in a folder or an archive."""

    label: str
    """Name in messages: the path of the folder or archive."""

    def has(self, name: str) -> bool:
        """Return True if there is a file of that name."""

    def read(self, name: str) -> bytes:
        """The whole file; `DataError` where it is missing or damaged."""


class Folder:
    """The files directly in a folder."""

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self._path = path

    def has(self, name: str) -> bool:
        """Return True if there is a file of that name."""
        return (self._path / name).is_file()

    def read(self, name: str) -> bytes:
        """The whole file."""
        try:
            return (self._path / name).read_bytes()
        except OSError as problem:
            raise DataError(f"{name} cannot be read ({problem.strerror or problem})") from problem


class Archive:
    """The files of a zip archive (a wheel is one), found by their names without folders."""

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self._path = path
        self._names: dict[str, str] | None = None

    def has(self, name: str) -> bool:
        """Return True if there is a file of that name."""
        return name in self._members()

    def read(self, name: str) -> bytes:
        """The whole file, its checksum verified."""
        if not self.has(name):
            raise DataError(f"{name} is not in the archive")
        try:
            with zipfile.ZipFile(self._path) as archive:
                member = archive.getinfo(self._members()[name])
                if member.file_size > ARCHIVE_BYTES:
                    raise DataError(
                        f"{name} in the archive would be {member.file_size / 2**30:,.0f} GB, at most "
                        f"{ARCHIVE_BYTES >> 30} are read. Unpack it, and give the folder, if that is what you expect."
                    )
                return archive.read(member)  # never more than the size it declares
        except _UNREADABLE as problem:  # encrypted, damaged, or packed in a way that is not supported
            raise DataError(f"{name} in the archive cannot be read ({problem})") from problem

    def _members(self) -> dict[str, str]:
        if self._names is None:
            try:
                with zipfile.ZipFile(self._path) as archive:
                    # Of files with the same name the one nearest to the top wins.
                    if len(archive.namelist()) > ARCHIVE_FILES:
                        raise DataError(f"the archive holds more than {ARCHIVE_FILES:,} files")
                    paths = sorted(archive.namelist(), key=lambda path: (path.count("/"), path), reverse=True)
            except _UNREADABLE as problem:
                raise DataError(f"not a readable zip archive ({problem}); it may be cut off") from problem
            self._names = {PurePosixPath(path).name: path for path in paths if not path.endswith("/")}
        return self._names


def open_files(path: Path) -> Files:
    """The files that a path gives: those of an archive, or for any other file those of its folder."""
    return Archive(path) if path.suffix in _ARCHIVES else Folder(path.parent)


def user_folders(given: str | Path | Sequence[str | Path] | None) -> tuple[Path, ...]:
    """The folders to look in: those given, else those in the environment variable."""
    if given is None:
        given = [part for part in os.environ.get(DATA_VARIABLE, "").split(os.pathsep) if part]
    elif isinstance(given, (str, Path)):
        given = [given]
    return tuple(Path(folder).expanduser() for folder in given)


def search_folder(folder: Path, names: Sequence[str], archives: Sequence[str]) -> Iterator[Files]:
    """The folders and archives below ``folder`` that may hold a data set.

    Subfolders called by one of ``names`` come first (with any archive in them), then the folder itself
    with the archives of known names.
    """
    for name in names:
        sub = folder / name
        if sub.is_dir():
            yield Folder(sub)
            yield from (Folder(sub / inner) for inner in names if (sub / inner).is_dir())
            yield from (Archive(path) for path in sorted(sub.iterdir()) if path.suffix in _ARCHIVES)
    if folder.is_dir():
        yield Folder(folder)
        yield from (Archive(folder / name) for name in archives if (folder / name).is_file())
