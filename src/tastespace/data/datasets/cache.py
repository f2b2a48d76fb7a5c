"""The local cache of fetched files: written atomically by pooch, verified each time it is read.

Each file has a record ``<file>.json`` with its size and SHA-256. Some publishers give no checksum; with this record a
file that was truncated or edited is detected anyway, and fetched again. The first fetch is trusted; later ones must
give the same file.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from tastespace.atomic import atomic_write
from tastespace.errors import DatasetError

log = logging.getLogger(__name__)

CACHE_VARIABLE = "TASTESPACE_CACHE"


def cache_root(given: str | Path | None = None) -> Path:
    """The folder given, else ``TASTESPACE_CACHE``, else ``tastespace`` in the user's cache folder."""
    if given is None:
        given = os.environ.get(CACHE_VARIABLE) or None
    if given is None:
        from platformdirs import user_cache_path

        return user_cache_path("tastespace", appauthor=False)
    return Path(given).expanduser()


class Cache:
    """Fetched files by data set and file name.

    Where the folder cannot be written to, files go to a temporary folder that is removed when the process ends.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def holds(self, dataset: str, file: str) -> bool:
        """Whether there seems to be such a file; its content is not read."""
        return any(_record_path(root / dataset / file).is_file() for root in self._roots())

    def find(self, dataset: str, file: str) -> Path | None:
        """The verified file, or None where it is missing or damaged (which is logged)."""
        for root in self._roots():
            path = root / dataset / file
            if not path.is_file():
                continue
            damage = _damage(path)
            if damage is None:
                return path
            log.warning("cached file %s is not used: %s.", path, damage)
        return None

    def fetch(self, dataset: str, file: str, source: str, checksum: str | None, write: Callable[[Path], None]) -> Path:
        """Let ``write`` fill a temporary file, verify it, and only then give it its name.

        Of several processes that need the same file, one fetches it and the others wait.

        Args:
            dataset, file: Name in the cache.
            source: Address, for pooch's log.
            checksum: ``"md5:..."`` or ``"sha256:..."``; None where the publisher gives none.
            write: Writes the file to the path it is given.
        """
        import pooch
        from filelock import FileLock

        folder = self._writable_folder(dataset, file)
        target = folder / file
        with FileLock(folder.parent / f".{dataset}.lock"):
            if target.is_file() and _damage(target) is None:
                return target  # fetched by another process in the meantime
            first = None if (checksum or "").startswith("sha256:") else _recorded(target)
            target.unlink(missing_ok=True)  # pooch would keep a damaged file whose checksum is not published
            try:
                with _quiet(pooch.get_logger()):
                    pooch.retrieve(
                        source, checksum, fname=file, path=folder, downloader=lambda _, path, __: write(Path(path))
                    )
            except ValueError as problem:
                raise DatasetError(
                    f"the checksum of {file} is not {checksum}: it was damaged on the way, or the publisher has "
                    f"changed it ({problem})"
                ) from problem
            # A crash before the next line leaves a file without its record: it is fetched again.
            record = {"size": target.stat().st_size, "sha256": pooch.file_hash(str(target))}
            if first is not None and first["sha256"] != record["sha256"]:
                target.unlink()
                raise DatasetError(
                    f"{file} is not the file that was fetched before (SHA-256 {record['sha256']}, it was "
                    f"{first['sha256']}): it was damaged on the way, or the publisher has changed it. If you trust the "
                    f"new one, delete {_record_path(target)} and load again"
                )
            with atomic_write(_record_path(target)) as temporary:
                temporary.write_text(json.dumps(record), encoding="utf-8")
        return target

    def set_mark(self, dataset: str, mark: str) -> None:
        """Create an empty file called ``mark``; without effect where the cache cannot be written to."""
        with contextlib.suppress(OSError):
            (self.root / dataset).mkdir(parents=True, exist_ok=True)
            (self.root / dataset / mark).touch()

    def has_mark(self, dataset: str, mark: str) -> bool:
        """Whether `set_mark` was called, on this machine and for this cache."""
        return (self.root / dataset / mark).exists()

    def _roots(self) -> tuple[Path, ...]:
        return (self.root, _temporary_root()) if _temporary_root.cache_info().currsize else (self.root,)

    def _writable_folder(self, dataset: str, file: str) -> Path:
        """The data set's folder, in the temporary cache where this one cannot be written to."""
        try:
            return _writable(self.root / dataset)
        except OSError as problem:
            log.warning(
                "the cache %s cannot be written to (%s): %s is kept for this process only. Name another folder in %s.",
                self.root,
                problem.strerror or problem,
                file,
                CACHE_VARIABLE,
            )
        return _writable(_temporary_root() / dataset)


def _writable(folder: Path) -> Path:
    """The folder, created where it is missing; `OSError` where no file can be created in it."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.NamedTemporaryFile(dir=folder).close()
    return folder


@lru_cache(maxsize=1)
def _temporary_root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="tastespace-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Only warnings and errors of this logger: pooch's own writes every download to stderr."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _record_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _damage(path: Path) -> str | None:
    """What is wrong with a cached file, None where it is as it was fetched."""
    import pooch

    record = _recorded(path)
    if record is None:
        return "its record (.json) is missing or unreadable"
    if path.stat().st_size != record["size"]:
        return f"it has {path.stat().st_size:,} bytes, {record['size']:,} were fetched"
    return None if pooch.file_hash(str(path)) == record["sha256"] else "its content is not what was fetched"


def _recorded(path: Path) -> dict[str, Any] | None:
    """Size and SHA-256 of a file as it was fetched; None where that is not known."""
    try:
        record = json.loads(_record_path(path).read_text(encoding="utf-8"))
        return {"size": int(record["size"]), "sha256": str(record["sha256"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None
