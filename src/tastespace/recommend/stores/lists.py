"""Lists of many users in PostgreSQL and Redis: readers see the old lists or the new ones, whole.

* ``postgresql://host/database?table=lists``: a row per user and rank, in one transaction.
* ``redis://host:6379/0?key=lists``: a hash with a field per user, whose value is the list as JSON.

Lists of all users take the place of those that were there; lists of some users are put beside the others.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

import polars as pl

from tastespace._util.addresses import filled_in, scheme_of, shown_address, without_secrets
from tastespace._util.extras import missing
from tastespace.errors import DataError, ParameterError
from tastespace.recommend.stores.vectors import plain_id

_POSTGRESQL = ("postgresql", "postgres")
_REDIS = ("redis", "rediss")
_NAMES = {"user": "user_id", "item": "item_id"}  # `user` alone is a function of PostgreSQL
_ALWAYS = ("user", "item", "rank", "score")
_KEPT = (*_ALWAYS, "interest", "title")
_CONNECT_SECONDS = 10
_ABANDONED_SECONDS = 86_400  # until the unfinished lists of a killed run disappear


def write_lists(address: str, frames: Iterable[pl.DataFrame], schema: dict[str, Any], all_users: bool) -> int:
    """Write frames of lists to the database at an address; returns the number of rows.

    Args:
        address: ``postgresql://...?table=NAME`` or ``redis://...?key=NAME``; the name is ``lists`` unless given.
        frames: Columns user, item, rank, score and others; all rows of a user in one frame, by rank.
        schema: Their columns and types.
        all_users: Lists of users that are not among these are removed.
    """
    shown, scheme = shown_address(address), scheme_of(address)
    if scheme not in _POSTGRESQL + _REDIS:
        raise ParameterError(
            f"{shown}: lists are written to a file, or to an address such as postgresql://host/database?table=lists or "
            "redis://host:6379/0?key=lists."
        )
    whole, name = _with_name(filled_in(address), "table" if scheme in _POSTGRESQL else "key", shown)
    write = _to_postgresql if scheme in _POSTGRESQL else _to_redis
    try:
        return write(whole, name, shown, frames, schema, all_users)
    except (DataError, ParameterError):
        raise
    except Exception as problem:
        if type(problem).__module__.partition(".")[0] not in ("psycopg", "redis") and not isinstance(problem, OSError):
            raise
        said = without_secrets(problem, whole) or "no reason given"
        raise DataError(
            f"{shown}: the lists could not be written ({type(problem).__name__}: {said}). What was there is unchanged."
        ) from None


def _with_name(address: str, option: str, shown: str) -> tuple[str, str]:
    """The address without the name of the table or key, and that."""
    place, _, query = address.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    name = dict(options).get(option, "lists")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,100}", name):
        raise ParameterError(f"{shown}: {option}={name!r}: expected letters, digits and _ . : -, a letter first.")
    rest = urlencode([(key, value) for key, value in options if key != option])
    return f"{place}?{rest}" if rest else place, name


def _rows(frame: pl.DataFrame, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    values = [
        [None if one is None else plain_id(one) for one in frame[name]]
        if name in ("user", "item")
        else (frame[name].fill_nan(None) if name == "score" else frame[name]).to_list()
        for name in columns
    ]
    return zip(*values, strict=True)


def _to_postgresql(
    address: str, name: str, shown: str, frames: Iterable[pl.DataFrame], schema: dict[str, Any], all_users: bool
) -> int:
    try:
        import psycopg
        from psycopg import sql
    except ImportError:
        raise missing("postgresql", f"{shown} needs psycopg") from None
    columns = [column for column in _KEPT if column in schema]
    table = sql.Identifier(*name.split("."))
    named = [
        sql.SQL("{} {}").format(sql.Identifier(_NAMES.get(one, one)), sql.SQL(_type(schema[one], one)))
        for one in columns
    ]
    fields = sql.SQL(", ").join(sql.Identifier(_NAMES.get(one, one)) for one in columns)
    with psycopg.connect(address, connect_timeout=_CONNECT_SECONDS) as server, server.cursor() as cursor:
        cursor.execute(
            sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY (user_id, rank))").format(
                table, sql.SQL(", ").join(named)
            )
        )
        for one in named[len(_ALWAYS) :]:  # columns that lists of another model did not have
            cursor.execute(sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {}").format(table, one))
        # Readers go on; another run waits for the end of this one.
        cursor.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(table))
        target = table
        if all_users:
            cursor.execute(sql.SQL("DELETE FROM {}").format(table))
        else:
            target = sql.Identifier("tastespace_new_lists")
            statement = "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} LIMIT 0"
            cursor.execute(sql.SQL(statement).format(target, fields, table))
        n_rows = 0
        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(target, fields)) as copy:
            for frame in frames:
                n_rows += len(frame)
                for row in _rows(frame, columns):
                    copy.write_row(row)
        if all_users:
            _require_rows(n_rows, shown)
        if not all_users:
            delete = "DELETE FROM {} WHERE user_id IN (SELECT user_id FROM {})"
            cursor.execute(sql.SQL(delete).format(table, target))
            cursor.execute(sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(table, fields, fields, target))
    return n_rows


def _type(dtype: Any, column: str) -> str:
    """The type of PostgreSQL for a column of lists."""
    if column in ("rank", "interest"):
        return "integer"
    if column == "score":
        return "real"
    return "bigint" if dtype.is_integer() and column in ("user", "item") else "text"


def _to_redis(
    address: str, name: str, shown: str, frames: Iterable[pl.DataFrame], schema: dict[str, Any], all_users: bool
) -> int:
    try:
        import redis
    except ImportError:
        raise missing("redis", f"{shown} needs redis") from None
    try:
        server = redis.Redis.from_url(address, socket_connect_timeout=_CONNECT_SECONDS)
    except (ValueError, TypeError) as problem:
        raise ParameterError(f"{shown}: {without_secrets(problem, address)}.") from None
    columns = [column for column in _KEPT if column in schema and column != "user"]
    own = f"{name}:{secrets.token_hex(4)}:partial"  # all lists are gathered here, until one step makes them known
    n_rows = 0
    with server, server.pipeline(transaction=True) as step:
        try:
            for frame in frames:
                n_rows += len(frame)
                lists: dict[str, list[dict[str, Any]]] = {}
                for user, *values in _rows(frame, ["user", *columns]):
                    lists.setdefault(str(user), []).append(dict(zip(columns, values, strict=True)))
                if lists:
                    texts: dict[Any, Any] = {user: json.dumps(one, ensure_ascii=False) for user, one in lists.items()}
                    (server if all_users else step).hset(own if all_users else name, mapping=texts)
                if lists and all_users:
                    server.expire(own, _ABANDONED_SECONDS)
            if all_users:
                _require_rows(n_rows, shown)
                step.unlink(name)
                step.rename(own, name)
                step.persist(name)
            step.execute()
        except BaseException:
            if all_users:
                server.unlink(own)
            raise
    return n_rows


def _require_rows(n_rows: int, shown: str) -> None:
    if not n_rows:
        raise DataError(f"{shown}: there is no list to write, so what is there stays. Loosen filter and rules.")
