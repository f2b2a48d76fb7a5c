"""Tables that are elsewhere: files of object stores and web servers, and queries, as files of this machine.

`local_files` fetches them into a folder that exists while they are read, so that every format is read as usual.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

import polars as pl

from tastespace._util.addresses import filled_in, is_address, scheme_of, shown_address, with_query, without_secrets
from tastespace._util.extras import missing
from tastespace.errors import Argument, DataError, DatasetError, ParameterError

_WEB = ("http", "https")
_POSTGRESQL = ("postgresql", "postgres")
_OBJECTS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory", "file", "hdfs", "sftp")
_PARQUET = (".parquet", ".pq")
_SECONDS = 60.0
_CONNECT_SECONDS = 10
_EXAMPLES = "s3://bucket/clicks.parquet, https://host/clicks.csv, or postgresql://host/database with a query"


@contextlib.contextmanager
def local_files(sources: Sequence[str | Path], query: str | None = None) -> Iterator[Sequence[str | Path]]:
    """Files of this machine that hold what is at these addresses; names of files stay as they are.

    An address of an object store may be a folder of Parquet files or a pattern. ``query`` is the statement for a
    database. Errors about a fetched file name its address.

    >>> with local_files(["clicks.csv"]) as files:
    ...     files
    ['clicks.csv']
    """
    if isinstance(sources, (str, Path)) or not any(map(is_address, sources)):
        if query is not None:
            raise ParameterError(
                Argument("query", query), f": expected the address of a database beside it, such as {_EXAMPLES}."
            )
        yield sources
        return
    if query is not None and len(sources) != 1:
        raise ParameterError(
            Argument("query", query), f": expected one address of a database, given {len(sources)} sources."
        )
    with tempfile.TemporaryDirectory(prefix="tastespace-") as folder:
        found: list[str | Path] = []
        for number, source in enumerate(sources):
            if not isinstance(source, str) or not is_address(source):
                found.append(source)
                continue
            place = Path(folder) / str(number)
            place.mkdir()
            found += _fetched(filled_in(source), query, place)
        try:
            yield found
        except DataError as problem:
            names = {f"{folder}/{number}": shown_address(source) for number, source in enumerate(sources)}
            raise DataError(*[_renamed(part, names) for part in problem.args]) from None


def _renamed(part: Any, names: dict[str, str]) -> Any:
    """A part of an error with addresses in place of the folders of fetched files."""
    if type(part) is not str:
        return part
    for folder, shown in names.items():
        part = part.replace(f"{folder}/{PurePosixPath(shown).name}", shown).replace(f"{folder}/query.parquet", shown)
        part = part.replace(folder, shown)
    return part


def _fetched(address: str, query: str | None, folder: Path) -> list[Path]:
    address, own_query = with_query(address)
    if query is not None and own_query is not None:
        raise ParameterError(f"{shown_address(address)} has a query, and another was given. Leave one of them out.")
    query = own_query if query is None else query
    scheme = scheme_of(address)
    if scheme in _WEB or scheme in _OBJECTS:
        if query is not None:
            raise ParameterError(
                f"{shown_address(address)} is a file, not a database: leave out ", Argument("query", query), "."
            )
        return [_from_web(address, folder)] if scheme in _WEB else _from_objects(address, folder)
    if query is None or not query.strip():
        raise ParameterError(
            f"{shown_address(address)} is the address of a database: give ",
            Argument("query"),
            ", a statement such as SELECT user, item FROM clicks. Files are at addresses such as s3://bucket/clicks.parquet.",
        )
    frame = read_query(address, query)
    if not len(frame):
        raise DataError(f"{shown_address(address)}: the query returned no rows. Expected one row per interaction.")
    target = folder / "query.parquet"
    try:
        frame.write_parquet(target)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
        kinds = ", ".join(f"{name} ({kind})" for name, kind in frame.schema.items())
        raise DataError(
            f"{shown_address(address)}: the query returned a column that is no number, text or time; its columns are "
            f"{kinds}. Cast it in the query: CAST(id AS TEXT)."
        ) from problem
    return [target]


# ---- files -------------------------------------------------------------------------------------------------------


def _from_web(address: str, folder: Path) -> Path:
    from tastespace.data.datasets.cache import download

    target = folder / (PurePosixPath(urlsplit(address).path).name or "file")
    try:
        download(address, target, timeout=_SECONDS, progress=False)
    except (DatasetError, ValueError) as problem:
        raise DataError(f"{shown_address(address)}: cannot be fetched: {without_secrets(problem, address)}.") from None
    return target


def _from_objects(address: str, folder: Path) -> list[Path]:
    """The file at an address, the files that match it as a pattern, or the Parquet files of a folder."""
    shown = shown_address(address)
    try:
        from fsspec.core import has_magic, url_to_fs
    except ImportError:
        raise missing("cloud", f"{shown} needs fsspec") from None
    try:
        store, path = url_to_fs(address)
        if has_magic(path):
            names = sorted(name for name in store.glob(path) if store.isfile(name))
        elif store.isfile(path):
            names = [path]
        else:
            names = sorted(name for name in store.find(path) if _is_data(name.removeprefix(path)))
        if not names:
            raise DataError(f"{shown}: nothing is there. Expected a file, a pattern, or a folder of Parquet files.")
        found = []
        for number, name in enumerate(names):
            parts = [one for one in PurePosixPath(name).parts if one not in ("/", "..")]
            own = folder if len(names) == 1 else folder / f"{number:06}"
            target = own.joinpath(*(one for one in parts[:-1] if "=" in one), parts[-1])
            target.parent.mkdir(parents=True, exist_ok=True)
            store.get_file(name, str(target))
            found.append(target)
        return found
    except DataError:
        raise
    except ImportError as problem:
        package = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}.get(scheme_of(address))
        if package is None:
            raise ParameterError(
                f"{shown}: fsspec needs another package: {without_secrets(problem, address)}."
            ) from None
        raise missing("cloud", f"{shown} needs {package}") from None
    except Exception as problem:  # each file system has its own
        said = without_secrets(problem, address) or "no reason given"
        raise DataError(
            f"{shown}: cannot be fetched ({type(problem).__name__}: {said}). Credentials are looked for where the "
            "client of the store looks: environment variables, its files, the role of the machine."
        ) from None


def _is_data(name: str) -> bool:
    hidden = any(part.startswith((".", "_")) for part in PurePosixPath(name.lstrip("/")).parts)
    return name.endswith(_PARQUET) and not hidden


# ---- databases ---------------------------------------------------------------------------------------------------


def read_query(address: str, query: str) -> pl.DataFrame:
    """The rows that a statement gives in the database at an address; the database is opened for reading.

    ``sqlite://FILE``, ``duckdb://FILE`` (without a file: in memory, for statements that read files themselves) and
    ``postgresql://...``; other addresses are those of SQLAlchemy, such as ``mysql+pymysql://...``.
    """
    shown, scheme = shown_address(address), scheme_of(address)
    try:
        with _connection(address, scheme, shown) as connection:
            return pl.read_database(query, connection, infer_schema_length=None)
    except (ParameterError, DataError):
        raise
    except Exception as problem:  # each driver has its own
        said = without_secrets(problem, address) or "no reason given"
        raise DataError(
            f"{shown}: the database cannot be read ({type(problem).__name__}: {said}). Check address, credentials and "
            "query."
        ) from None


@contextlib.contextmanager
def _connection(address: str, scheme: str, shown: str) -> Iterator[Any]:
    place = address.partition("://")[2]
    if scheme in _POSTGRESQL:
        try:
            import psycopg
        except ImportError:
            raise missing("postgresql", f"{shown} needs psycopg") from None
        with psycopg.connect(address, connect_timeout=_CONNECT_SECONDS) as server:
            server.read_only = True
            yield server
        return
    if scheme in ("sqlite", "duckdb"):
        if place and not Path(place).is_file():
            raise DataError(
                f"{shown}: no such file {place}. Expected {scheme}://FILE: {scheme}://shop.db here, "
                f"{scheme}:///srv/shop.db in the folder /srv."
            )
        with contextlib.closing(_open_file(scheme, place, shown)) as opened:
            yield opened
        return
    try:
        import sqlalchemy
    except ImportError:
        raise missing("sql", f"{shown} needs sqlalchemy") from None
    try:
        engine = sqlalchemy.create_engine(address)
    except (sqlalchemy.exc.ArgumentError, ImportError) as problem:  # no dialect of this name, or no driver for it
        raise ParameterError(
            f"{shown}: no database of this kind can be opened ({without_secrets(problem, address)}). Expected an "
            f"address such as {_EXAMPLES}, or one of SQLAlchemy whose driver is installed."
        ) from None
    try:
        with engine.connect() as server:
            yield server
    finally:
        engine.dispose()


def _open_file(scheme: str, place: str, shown: str) -> Any:
    if scheme == "sqlite":
        if not place:
            raise ParameterError(f"{shown} names no file: expected one such as sqlite://shop.db.")
        return sqlite3.connect(f"file:{quote(str(Path(place).resolve()))}?mode=ro", uri=True)
    try:
        import duckdb
        import pyarrow  # noqa: F401 - duckdb hands over its rows with it
    except ImportError as problem:
        raise missing("sql", f"{shown} needs {problem.name}") from None
    return duckdb.connect(place, read_only=True) if place else duckdb.connect()
