"""The model directory on disk: a save is there as a whole or not at all.

Data files get names that were never used before, and `model.json`, which names them, is replaced last, by one rename.
So a crash at any moment leaves the old model or the new one, and a reader that has mapped the old files keeps them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tastespace._util.atomic import atomic_write, flush, written_name
from tastespace._util.model_files import crc32_of, read_regular
from tastespace.data.out_of_core.mapped_arrays import release
from tastespace.errors import ModelFileError
from tastespace.store._manifest import (
    DATA_FILE,
    FORMAT,
    INDEXES,
    NAME,
    PARTS,
    manifest_text,
)

log = logging.getLogger(__name__)

_PIECE = 1 << 24
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def write_model(
    folder: Path,
    parts: Mapping[str, Iterable[bytes | memoryview]],
    content: Mapping[str, Any],
    index: tuple[memoryview, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Write a model: the bytes of its ``parts`` and the ``content`` of model.json, which gets the table of files.

    ``index`` is the bytes of an index and its metadata. Returns the table.
    """
    made: list[Path] = []
    try:
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        _make(folder, made)
        with _locked(folder):
            require_free(folder)
            save = _Save(folder)
            try:
                files = {part: save.write_part(part, chunks) for part, chunks in parts.items()}
                extra = {}
                if index is not None:
                    extra = {"index": {**save.write_part("ann", [index[0]]), "about": dict(index[1])}}
                save.commit(manifest_text({**content, **extra, "files": files}))
            except BaseException:
                save.undo()
                raise
            save.delete_old({entry["name"] for entry in (*files.values(), *extra.values())})
    except BaseException as problem:
        for path in made:
            with contextlib.suppress(OSError):  # only those that are still empty
                path.rmdir()
        if isinstance(problem, OSError):
            raise ModelFileError(_explain(folder, problem)) from problem
        raise
    return files


class _Save:
    """One save in progress."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._token = secrets.token_hex(8)

    def write_part(self, part: str, chunks: Iterable[bytes | memoryview]) -> dict[str, Any]:
        """Write one data file; returns its line of the table."""
        name = f"{part}-{self._token}.{ {**PARTS, **INDEXES}[part] }"
        size, crc = self._write(name, chunks)
        return {"name": name, "bytes": size, "crc32": f"{crc:08x}"}

    def commit(self, text: bytes) -> None:
        """Put model.json in place: from here on the directory holds the new model.

        Each data file and its name are on disk by now; model.json, which refers to them, must not be there before.
        """
        try:
            self._write(NAME, [text])
        except OSError as problem:
            if not self._is_committed():
                raise
            raise ModelFileError(
                f"{self._folder}: the new model is in place, but the system could not confirm that it has reached the "
                f"disk ({problem.strerror or problem}). Save it again before you rely on it."
            ) from problem

    def _write(self, name: str, chunks: Iterable[bytes | memoryview]) -> tuple[int, int]:
        size, crc = 0, 0
        with atomic_write(self._folder / name) as temporary, temporary.open("wb") as file:
            for chunk in chunks:
                for first in range(0, len(chunk), _PIECE):
                    piece = memoryview(chunk)[first : first + _PIECE]
                    file.write(piece)
                    size, crc = size + len(piece), crc32_of(piece, before=crc)
                    release(piece)
        return size, crc

    def undo(self) -> None:
        """Remove what a failed save has written, unless the new model is in place already."""
        with contextlib.suppress(OSError):  # what is left, the next save deletes
            if self._is_committed():  # Ctrl-C may come right after the rename
                return
            for path in self._folder.iterdir():
                if self._token in path.name:
                    path.unlink()

    def _is_committed(self) -> bool:
        """Return whether model.json is the one of this save."""
        path = self._folder / NAME
        return path.exists() and self._token in path.read_text(encoding="utf-8", errors="replace")

    def delete_old(self, named: set[str]) -> None:
        """Delete our files that model.json does not name: those of the model before, and of saves that were killed."""
        try:
            for path in self._folder.iterdir():
                if _is_ours(path) and path.name not in named:
                    path.unlink()
        except OSError as problem:  # the new model is in place; the next save tries again
            log.warning("%s: files of an earlier save could not be deleted: %s", self._folder, problem)


def check_sizes(folder: Path, files: Mapping[str, Any]) -> None:
    """All data files are there in full size."""
    for entry in files.values():
        path = folder / entry["name"]
        try:
            size = path.stat().st_size
        except OSError as problem:
            raise ModelFileError(
                f"{path} is missing, or cannot be reached ({problem.strerror or problem}): the model is not complete. "
                "Copy the whole directory, or save the model again."
            ) from problem
        if size != entry["bytes"]:
            raise ModelFileError(
                f"{path} has {size:,} bytes, {entry['bytes']:,} were written: it was cut off or changed. "
                "Copy the whole directory again, or save the model again."
            )


def _make(folder: Path, made: list[Path]) -> None:
    """Make the directory and those above it, ``made``, to stay."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as problem:
        blocking = next((path for path in folder.parents if path.is_file()), folder)
        raise _is_file(blocking) from problem
    for path in made:
        flush(path.parent)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One save at a time: a second one would take the files of the first for leftovers."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def require_free(folder: Path) -> None:
    """Raise unless a model may be saved here: a new name, an empty directory, a model, or what a killed save left."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise _is_file(folder)
    entries = {path.name: path for path in folder.iterdir()}
    if NAME in entries:
        # A damaged model may be written over: it is enough that this was one.
        foreign = [] if f'"{FORMAT}"'.encode() in read_regular(entries[NAME]) else [NAME]
    else:
        foreign = sorted(name for name, path in entries.items() if not _is_ours(path))
    if foreign:
        raise ModelFileError(
            f"{folder} is not empty and no tastespace model: it holds {', '.join(foreign[:3])}"
            f"{', ...' if len(foreign) > 3 else ''}. Give a new name or an empty directory."
        )


def _is_file(path: Path) -> ModelFileError:
    return ModelFileError(f"{path} is a file; a model is saved as a directory. Give a name that is not taken.")


def _is_ours(path: Path) -> bool:
    """Return whether this is a data file, or a temporary file of `atomic_write` that a killed save left."""
    written = written_name(path.name)
    name = path.name if written is None else written
    return (DATA_FILE.fullmatch(name) is not None or (written == NAME)) and path.is_file()


def _explain(folder: Path, problem: OSError) -> str:
    if problem.errno in _FULL:
        cause, advice = "the disk is full, or a limit on it is reached", "Make room and save again."
    elif problem.errno in _FORBIDDEN:
        cause, advice = "there is no permission to write", "Change the permissions, or give another directory."
    else:
        cause, advice = "writing failed", "Save again, or give another directory."
    before = "Nothing is left behind."
    with contextlib.suppress(OSError):
        if (folder / NAME).exists():
            before = "The model that was there is untouched."
    return f"{folder}: the model was not saved, {cause} ({problem.strerror or problem}). {before} {advice}"
