"""The local cache of fetched files: written atomically, verified each time it is read.

Beside each file stands ``<file>.json`` with its size and SHA-256, so that a file that was cut off or edited
is noticed and fetched again.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from tastespace.errors import DatasetError

log = logging.getLogger(__name__)

CACHE_VARIABLE = "TASTESPACE_CACHE"


def cache_root(given: str | Path | None = None) -> Path:
    """The one given, else ``TASTESPACE_CACHE``, else ``tastespace`` in the user's cache folder."""
    if given is None:
        given = os.environ.get(CACHE_VARIABLE) or None
    if given is None:
        given = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "tastespace"
    return Path(given).expanduser()


class Cache:
    """Fetched files by data set and file name.

    A folder that cannot be written to is no obstacle: files then go to a temporary folder that lives as long
    as the process.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def holds(self, dataset: str, file: str) -> bool:
        """Whether there seems to be such a file, without looking at its content."""
        return any(_note(root / dataset / file).is_file() for root in self._roots())

    def find(self, dataset: str, file: str) -> Path | None:
        """The verified file, or None where there is none or it is damaged (which is logged)."""
        for root in self._roots():
            path = root / dataset / file
            if not path.is_file():
                continue
            why = _damage(path)
            if why is None:
                return path
            log.warning("cached file %s is not used: %s.", path, why)
        return None

    def keep(self, dataset: str, file: str, checksum: str | None, write: Callable[[Path], None]) -> Path:
        """Let ``write`` fill a temporary file, verify it, and only then give it its name.

        ``checksum`` is ``"md5:..."`` or ``"sha256:..."``; None where the publisher gives none.
        """
        folder, temporary = self._workspace(dataset, file)
        try:
            write(temporary)
            found = _digest(temporary, checksum.partition(":")[0]) if checksum else None
            if found != checksum:
                raise DatasetError(
                    f"the checksum of {file} is {found}, expected {checksum}: it was damaged on the way, or "
                    "the publisher has changed it"
                )
            _flush(temporary)
            facts = {"size": temporary.stat().st_size, "sha256": _digest(temporary, "sha256")}
            target = folder / file
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        # A crash between the two leaves a file whose note does not fit: it is fetched again, never trusted.
        note = _note(target)
        draft = note.with_name(f"{note.name}.{os.getpid()}")
        draft.write_text(json.dumps(facts), encoding="utf-8")
        draft.replace(note)
        return target

    def remember(self, dataset: str, mark: str) -> None:
        """Leave a mark; without effect where the cache cannot be written to."""
        with contextlib.suppress(OSError):
            (self.root / dataset).mkdir(parents=True, exist_ok=True)
            (self.root / dataset / mark).touch()

    def remembers(self, dataset: str, mark: str) -> bool:
        """Whether the mark was left, on this machine and for this cache."""
        return (self.root / dataset / mark).exists()

    def _roots(self) -> tuple[Path, ...]:
        return (self.root, _temporary_root()) if _temporary_root.cache_info().currsize else (self.root,)

    def _workspace(self, dataset: str, file: str) -> tuple[Path, Path]:
        """The folder for the file, and an empty temporary file in it."""
        folder = self.root / dataset
        try:
            return folder, _empty_file(folder, file)
        except OSError as problem:
            log.warning(
                "the cache %s cannot be written to (%s): %s is kept for this process only. Name another folder in %s.",
                self.root,
                problem.strerror or problem,
                file,
                CACHE_VARIABLE,
            )
        folder = _temporary_root() / dataset
        return folder, _empty_file(folder, file)


def _empty_file(folder: Path, file: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    handle, path = tempfile.mkstemp(prefix=f".{file}.", suffix=".part", dir=folder)
    os.close(handle)
    return Path(path)


@lru_cache(maxsize=1)
def _temporary_root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="tastespace-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _damage(path: Path) -> str | None:
    """What is wrong with a cached file, None where it is as it was fetched."""
    try:
        facts = json.loads(_note(path).read_text(encoding="utf-8"))
        size, digest = int(facts["size"]), f"{facts['sha256']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "its .json note is missing or unreadable"
    if path.stat().st_size != size:
        return f"it has {path.stat().st_size:,} bytes, {size:,} were fetched"
    return None if _digest(path, "sha256") == digest else "its content is not what was fetched"


def _digest(path: Path, method: str) -> str:
    """The checksum of a file, as ``"sha256:..."``."""
    # GroupLens publishes MD5, which guards against accidents only.
    digest = hashlib.new(method, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return f"{method}:{digest.hexdigest()}"


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
