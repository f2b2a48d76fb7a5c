"""Addresses such as ``s3://shop/clicks.parquet`` and ``postgresql://db/shop``: which they are, and without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, unquote_plus

from tastespace.errors import ParameterError

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SQL = re.compile(r"[?&]query=")
_SECRET_OPTION = re.compile(r"([?&][^=&]*(?:pass|pwd|token|secret|key|sig|cred)[^=&]*=)([^&]*)", re.IGNORECASE)
_SHORTEST = 3  # characters of a secret that is looked for in other people's messages


def is_address(text: object) -> bool:
    """Return True for text that begins like an address: letters, a colon and two slashes.

    >>> is_address("s3://shop/clicks.parquet"), is_address("clicks.parquet"), is_address("C:/clicks.parquet")
    (True, False, False)
    """
    return isinstance(text, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text) is not None


def scheme_of(address: str) -> str:
    """The part of an address before ``://``, in small letters.

    >>> scheme_of("S3://shop/clicks.parquet")
    's3'
    """
    return address.partition("://")[0].lower()


def shown_address(address: str | Path) -> str:
    """An address as it may be shown: without user, password, options and query. File names stay as they are.

    A password that should be encoded and is not (``a/b@c``) is hidden too.

    >>> shown_address("postgresql://ann:secret@db/shop?sslmode=require"), shown_address("s3://shop/a@b.csv")
    ('postgresql://***@db/shop', 's3://shop/a@b.csv')
    """
    text = str(address)
    if not is_address(text):
        return text
    scheme, _, rest = text.partition("://")
    rest = _SQL.split(rest, maxsplit=1)[0]
    host = re.split("[/?#]", rest, maxsplit=1)[0]
    if "@" in rest and ("@" in host or ":" in host):
        rest = f"***@{rest.rpartition('@')[2]}"
    return f"{scheme}://{rest.partition('?')[0]}"


def masked_address(text: str) -> str:
    """An address with *** for its password and for options that may be secrets; ``${NAME}`` stays, as all else does.

    >>> masked_address("postgresql://ann:secret@db/shop?sslmode=require"), masked_address("redis://:${REDIS}@db/0")
    ('postgresql://ann:***@db/shop?sslmode=require', 'redis://:${REDIS}@db/0')
    """
    if not is_address(text):
        return text
    scheme, _, rest = text.partition("://")
    sql = _SQL.search(rest)
    before, statement = (rest, "") if sql is None else (rest[: sql.start()], rest[sql.start() :])
    if shown_address(text).startswith(f"{scheme}://***@"):
        user, at, place = before.rpartition("@")
        name, colon, password = user.partition(":")
        if not colon and scheme in ("http", "https"):  # a token
            name, password = "", name
        password = "***" if password and not _VARIABLE.fullmatch(password) else password
        before = f"{name}{colon}{password}{at}{place}"
    return f"{scheme}://{_SECRET_OPTION.sub(_masked_option, before)}{statement}"


def _masked_option(found: re.Match[str]) -> str:
    return found[0] if _VARIABLE.fullmatch(found[2]) else f"{found[1]}***"


def without_secrets(text: object, address: str) -> str:
    """The first line of what another library says, without the password and the options of this address.

    >>> without_secrets("no user ann with hunter2", "postgresql://ann:hunter2@db/shop")
    'no user ann with ***'
    """
    said = str(text).strip()
    for secret in sorted(set(_secrets(address)), key=len, reverse=True):
        said = said.replace(secret, "***")
    return next(iter(said.splitlines()), "").rstrip(".")[:300]


def _secrets(address: str) -> Iterator[str]:
    if not is_address(address):
        return
    yield address
    rest = _SQL.split(address.partition("://")[2], maxsplit=1)[0]
    if shown_address(address).partition("://")[2].startswith("***@"):
        user, colon, password = rest.rpartition("@")[0].partition(":")
        secret = password if colon else user
        pieces = re.split("[@/?:#]", unquote(secret))  # a password that is not encoded is taken apart by some libraries
        yield from (one for one in (secret, unquote(secret), *pieces) if len(one) >= _SHORTEST)
    for raw in re.split("[?&]", rest)[1:]:
        value = raw.partition("=")[2]
        yield from (one for one in (value, unquote_plus(value)) if len(one) >= _SHORTEST)


def filled_in(address: str) -> str:
    """The address with the environment variables that it names as ``${NAME}``, so that files need hold no passwords.

    >>> filled_in("s3://shop/clicks.csv")
    's3://shop/clicks.csv'
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            raise ParameterError(f"{shown_address(address)}: the environment variable {name} is not set.")
        return os.environ[name]

    return _VARIABLE.sub(value, address)


def with_query(address: str) -> tuple[str, str | None]:
    """An address of a database without its option ``query``, and that.

    >>> with_query("postgresql://db/shop?sslmode=require&query=SELECT+1")
    ('postgresql://db/shop?sslmode=require', 'SELECT 1')
    """
    found = _SQL.search(address)
    if found is None:
        return address, None
    statement, _, others = address[found.end() :].partition(
        "&"
    )  # a statement has its own & encoded, as all options have
    before = address[: found.start()]
    return f"{before}{'&' if '?' in before else '?'}{others}" if others else before, unquote_plus(statement)
