"""Named data sets: real recommender data by name, from whatever source has it.

>>> from tastespace import datasets
>>> datasets.names()[:3]
('ml-100k', 'ml-1m', 'ml-10m')

`load` looks in the folders of ``TASTESPACE_DATA``, in the local cache, at the publisher's own address and,
for MovieLens, in an installable package; every source gives the same `Interactions`. None of the data is
part of tastespace: its publishers' terms apply (`describe`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tastespace.data.datasets._catalog import DATASETS, Dataset, Layout
from tastespace.data.datasets._parsers import Content
from tastespace.data.datasets._views import (
    Tables,
    View,
    require_row_counts,
    require_rows,
)
from tastespace.data.datasets.cache import Cache, cache_root
from tastespace.data.datasets.files import Files, user_folders
from tastespace.data.datasets.sources import Search
from tastespace.data.interactions import Interactions
from tastespace.errors import DatasetError, nearest

__all__ = ["Content", "DatasetInfo", "describe", "describe_all", "load", "load_content", "load_split", "names"]

log = logging.getLogger(__name__)

Folders = str | Path | Sequence[str | Path] | None

_TERMS_SHOWN = "terms-shown"
_terms_logged: set[str] = set()


@dataclass(frozen=True)
class DatasetInfo:
    """Facts about a data set that are known without reading it."""

    name: str
    title: str
    users: int
    items: int
    interactions: int
    """Counts of the view "paper"."""
    license: str
    terms: str
    views: Mapping[str, str]
    """Name of each view and what it holds."""
    has_split: bool
    has_content: bool
    present: bool
    """True if the data is on this machine."""
    where: str
    """Path of the data, ``"cached"``, ``"can be fetched"`` or ``"by hand: <address>"``."""


def names() -> tuple[str, ...]:
    """Names that `load` accepts."""
    return tuple(DATASETS)


def load(
    name: str,
    view: str = "paper",
    *,
    data_dirs: Folders = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
    progress: bool | None = None,
    timeout: float = 30.0,
) -> Interactions:
    """A named data set as `Interactions`, with titles, genres and demographics where there are any.

    >>> load("ml-1m", data_dirs="my/data")  # doctest: +SKIP
    Interactions(6,034 users x 3,953 items, 575,271 interactions, 2.41 % dense)

    An unknown name or view is a `DatasetError`, and so is a data set that no source has: the
    message then lists each source tried and why it failed.

    Args:
        name: One of `names`.
        view: ``"paper"`` (the paper's pre-processing: ratings of 4 or more, users with 5 interactions or
            more, its catalog size; for sets that are not in the paper the same idea) or ``"raw"`` (every
            row, with weights and timestamps). ml-1m has ``"publisher"`` too: the paper's list lacks the
            first line of the publisher's file, this view has it. `describe` lists the views of each set.
        data_dirs: Folders to look in first; None: those in ``TASTESPACE_DATA``. Prepared Parquet tables, the
            publishers' files and their archives are recognized, in a subfolder of the set's name or not.
        cache_dir: Folder of fetched files; None: ``TASTESPACE_CACHE``, else the user's cache folder.
        download: Allow fetching over the network.
        progress: Show a bar on stderr while fetching; None: if it is a terminal.
        timeout: Seconds to wait for a server's answer and for each further block of it.
    """
    dataset, chosen = _known(name, view)
    search = Search(user_folders(data_dirs), Cache(cache_root(cache_dir)), download, progress, timeout)
    data = search.first(dataset, lambda layout, files: chosen.build(_tables(dataset, layout, files)))
    _log_terms(dataset, search.cache)
    return data


def load_split(
    name: str, *, data_dirs: Folders = None, cache_dir: str | Path | None = None
) -> tuple[Interactions, Interactions, Interactions]:
    """The published split of a data set: train, validation and test with the same users and items.

    steam-200k and ml-100k have the paper's authors' split, citeulike-a the usual one for cold-start items, yelp2018 and
    amazon-cds-m1 those of the leaderboards, which have an empty validation part: choose on a part of train. The split
    is part of the prepared tables only, so nothing is fetched.

    >>> train, valid, test = load_split("steam-200k", data_dirs="my/data")  # doctest: +SKIP
    """
    dataset, chosen = _known(name, "paper")
    if not dataset.split:
        others = ", ".join(n for n, d in DATASETS.items() if d.split)
        raise DatasetError(
            f"no split of {name!r} was published; {others} have one. Load the data and use tastespace.split."
        )
    search = Search(user_folders(data_dirs), Cache(cache_root(cache_dir)), download=False)
    parts = search.first(dataset, lambda layout, files: chosen.split(_tables(dataset, layout, files)))
    _log_terms(dataset, search.cache)
    return parts


def load_content(name: str, data: Interactions, *, data_dirs: Folders = None) -> Content:
    """Side information as sparse float32 matrices, ``{"user": ..., "item": ...}``; None for a side without.

    Rows follow ``data.users`` and ``data.items``: load the data set first, in any view. xing-2017 has
    features of both sides, citeulike the tags of each article, lastfm-2k the friends of each user. They are
    part of the prepared tables only, so nothing is fetched.

    >>> jobs = load("xing-2017", data_dirs="my/data")  # doctest: +SKIP
    >>> load_content("xing-2017", jobs, data_dirs="my/data")["item"].shape  # doctest: +SKIP
    (10658, 2738)
    """
    dataset, _ = _known(name, "paper")
    read = dataset.content
    if read is None:
        others = ", ".join(n for n, d in DATASETS.items() if d.content)
        raise DatasetError(
            f"{name!r} has no content matrices; {others} have. "
            "Titles and genres, where there are any, are in data.item_attributes."
        )
    search = Search(user_folders(data_dirs), Cache(cache_root()), download=False)
    return search.first(dataset, lambda layout, files: read(files, data))


def describe(name: str, *, data_dirs: Folders = None, cache_dir: str | Path | None = None) -> DatasetInfo:
    """Size, terms, views and location of one data set; nothing is read or fetched.

    >>> describe("ml-1m").interactions
    575271
    """
    dataset, _ = _known(name, "paper")
    where = Search(user_folders(data_dirs), Cache(cache_root(cache_dir))).locate(dataset)
    elsewhere = "can be fetched" if dataset.remotes else f"by hand: {dataset.page}"
    return DatasetInfo(
        dataset.name,
        dataset.title,
        *dataset.counts,
        license=dataset.license,
        terms=dataset.terms,
        views={view: rule.description for view, rule in dataset.views.items()},
        has_split=dataset.split,
        has_content=dataset.content is not None,
        present=where is not None,
        where=where or elsewhere,
    )


def describe_all(*, data_dirs: Folders = None, cache_dir: str | Path | None = None) -> list[DatasetInfo]:
    """`describe` for all data sets, in the order of `names`."""
    return [describe(name, data_dirs=data_dirs, cache_dir=cache_dir) for name in DATASETS]


def _known(name: str, view: str) -> tuple[Dataset, View]:
    if name not in DATASETS:
        raise DatasetError(
            f"unknown data set {name!r}.{nearest(name, DATASETS)} Known are {', '.join(DATASETS)}. "
            "For a table of your own use Interactions.from_file."
        )
    dataset = DATASETS[name]
    if view not in dataset.views:
        known = "; ".join(f"{v!r} ({rule.description})" for v, rule in dataset.views.items())
        raise DatasetError(f"{name!r} has no view {view!r}.{nearest(view, dataset.views)} Its views are {known}.")
    return dataset, dataset.views[view]


def _tables(dataset: Dataset, layout: Layout, files: Files) -> Tables:
    tables = layout.parse(files)
    require_row_counts(tables, dataset.n_rows, dataset.n_listed)
    require_rows(tables, dataset.rows_sha256)
    return tables


def _log_terms(dataset: Dataset, cache: Cache) -> None:
    """Log the terms of use, once per machine; they count as shown only if a handler shows warnings."""
    if dataset.name in _terms_logged or cache.has_mark(dataset.name, _TERMS_SHOWN):
        return
    log.warning("Terms of use of %s: %s", dataset.name, dataset.terms)
    if _warnings_are_shown():
        _terms_logged.add(dataset.name)
        cache.set_mark(dataset.name, _TERMS_SHOWN)


def _warnings_are_shown() -> bool:
    """Return True if a handler shows this module's warnings; without any handler Python's last resort does."""
    logger: logging.Logger | None = log
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return log.isEnabledFor(logging.WARNING)
        if logger.handlers:
            return False  # silenced on purpose
        logger = logger.parent if logger.propagate else None
    return logging.lastResort is not None and log.isEnabledFor(logging.WARNING)
