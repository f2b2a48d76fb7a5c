"""Addresses of vector stores: ``qdrant://localhost:6333?name=shop``, ``sqlite://shop.sqlite``, ..."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl

from tastespace.errors import ParameterError, nearest, require_path

ENGINES = {
    "qdrant": "_qdrant.QdrantStore",
    "lance": "_lance.LanceStore",
    "pgvector": "_sql.PgvectorStore",
    "duckdb": "_sql.DuckDBStore",
    "sqlite": "_sqlite_vec.SqliteVecStore",
    "faiss": "_index_files.FaissStore",
    "usearch": "_index_files.UsearchStore",
}
"""Name of each engine -> module and class."""
DEFAULT_NAME = "tastespace"
_EXAMPLES = "qdrant://localhost:6333, lance://folder, pgvector://user@host/database, duckdb://file, sqlite://file"
_OPTIONS = {"qdrant": ("name", "https"), "faiss": (), "usearch": ()}


@dataclass(frozen=True)
class StoreAddress:
    """An address in its parts."""

    engine: str
    place: str
    """Text behind ``://``: a path, a host, or a database with user and host."""
    name: str = DEFAULT_NAME
    """Tables and collections are called ``NAME_items`` and ``NAME_users``."""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The place as a file or folder."""
        return require_path(self.place)

    def __str__(self) -> str:
        """The address without a password, for messages."""
        return f"{self.engine}://{_without_password(self.place)}"


def parse_address(address: str) -> StoreAddress:
    """Split an address ``ENGINE://PLACE?name=NAME``.

    >>> place = parse_address("qdrant://localhost:6333?name=shop")
    >>> place.engine, place.place, place.name
    ('qdrant', 'localhost:6333', 'shop')
    """
    if not isinstance(address, str):
        raise ParameterError(f"expected the address of a vector store such as {_EXAMPLES}; given {address!r}.")
    engine, colon, rest = address.partition("://")
    if not colon or engine not in ENGINES:
        raise ParameterError(
            f"{_without_password(address)!r} is no address of a vector store: expected ENGINE://PLACE with one of "
            f"{', '.join(ENGINES)}, such as {_EXAMPLES}.{nearest(engine, ENGINES)}"
        )
    place, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    known = _OPTIONS.get(engine, ("name",))
    for option in options if engine != "pgvector" else ():  # whose other options are those of PostgreSQL
        if option not in known:
            allowed = (
                f"take {', '.join(known)}" if known else "take no options: a folder holds the vectors of one model"
            )
            raise ParameterError(f"{option}={options[option]}: {engine} addresses {allowed}.{nearest(option, known)}")
    name = options.pop("name", DEFAULT_NAME)
    if not place:
        raise ParameterError(f"{address!r} names no place: expected something behind {engine}://.")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,50}", name):
        raise ParameterError(f"name={name!r}: expected at most 51 letters, digits and underscores, no digit first.")
    return StoreAddress(engine, place, name, options)


def _without_password(text: str) -> str:
    """An address with *** for what stands between the user and the last @.

    >>> _without_password("postgres://ann:a:b@c@host:5432/shop"), _without_password("localhost:6333")
    ('postgres://ann:***@host:5432/shop', 'localhost:6333')
    """
    return re.sub(r"^((?:\w+://)?[^:/@]*):.*@", r"\1:***@", text)
