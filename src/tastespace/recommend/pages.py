"""Lists page by page: a token says what was shown, so that no page repeats an item, whatever has changed since."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tastespace._util.limits import PAGE_ITEMS
from tastespace.data.ids import IdMap, parsed
from tastespace.data.reading.tables import from_polars, to_polars
from tastespace.errors import Argument, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.list_options import Frame, ListOptions
from tastespace.recommend.lists import recommend
from tastespace.recommend.request import candidate_rows
from tastespace.recommend.stores.vectors import plain_id

_VERSION = 1
_LONGEST = 12_000  # characters of a token: it has to fit into a query
_MOST_BYTES = 4_000_000  # of an unpacked token


@dataclass(frozen=True)
class Page:
    """A page of a list, and the token of the next one."""

    items: Frame
    """As `Recommender.recommend` returns it; ranks go on from the page before."""
    next: str | None
    """Token of the next page; None where this is the last one."""


@dataclass(frozen=True)
class Shown:
    """Content of a token: the items of all pages so far."""

    items: tuple[Any, ...] = ()

    def token(self, user: Hashable, more: Iterable[Any]) -> str | None:
        """The token for the page after these further items; None where a list has no more pages.

        >>> token = Shown(("tea",)).token("ann", ["jam"])
        >>> read_token(token, "ann").items
        ('tea', 'jam')
        """
        items = [plain_id(one) for one in (*self.items, *more)]
        if len(items) >= PAGE_ITEMS:
            return None
        content = zlib.compress(json.dumps([_VERSION, _key(user), items], ensure_ascii=False).encode())
        found = base64.urlsafe_b64encode(zlib.crc32(content).to_bytes(4, "big") + content).rstrip(b"=").decode()
        return None if len(found) > _LONGEST else found


def read_token(token: str, user: Hashable) -> Shown:
    """Read a token; an empty one is that of the first page. One that is damaged, or of another user, is an error.

    >>> read_token("", "ann").items
    ()
    """
    if not isinstance(token, str):
        raise ParameterError(Argument("after", token), ": expected the token of a page, as text.")
    if not token:
        return Shown()
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        checksum, content = raw[:4], raw[4:]
        if zlib.crc32(content).to_bytes(4, "big") != checksum:
            raise ValueError("damaged")
        unpacked = zlib.decompressobj().decompress(content, _MOST_BYTES)
        version, key, items = json.loads(unpacked)
        if version != _VERSION or not isinstance(items, list) or len(items) > PAGE_ITEMS:
            raise ValueError("of another version")
    except (ValueError, TypeError, binascii.Error, zlib.error, RecursionError) as problem:
        raise ParameterError(
            Argument("after", token),
            " is no token of a page: give `next` of the page before as it is, or an empty text for the first page.",
        ) from problem
    if key != _key(user):
        raise ParameterError(Argument("after"), " is the token of another user's list. Begin with an empty text.")
    return Shown(tuple(items))


def _key(user: Hashable) -> int:
    return zlib.crc32(json.dumps(None if user is None else plain_id(user)).encode())


def shown_ids(ids: IdMap, shown: Shown) -> list[Any]:
    """The shown items in the type of the ids; those that cannot be of it are left out."""
    return (
        parsed(pl.Series("item", [str(one) for one in shown.items], dtype=pl.String), ids.series.dtype)
        .drop_nulls()
        .to_list()
    )


def recommend_page(model: Recommender, user: Hashable, after: str, request: ListOptions) -> Page:
    """Implement `Recommender.recommend_page`."""
    model.require_fitted()
    train = model.train_
    shown = read_token(after, user)
    allowed = candidate_rows(train, request.items, request.filter)
    mask = np.zeros(train.n_items, dtype=bool)
    mask[slice(None) if allowed is None else allowed] = True
    rows = train.items.find(shown_ids(train.items, shown)) if shown.items else np.empty(0, dtype=np.int64)
    mask[rows[rows >= 0]] = False
    is_left = bool(mask.any())
    found = to_polars(recommend(model, [user], replace(request, items=None, filter=mask if is_left else None)))[0]
    found = found.with_columns(pl.col("rank") + len(shown.items)) if is_left else found.head(0)
    more = found["item"].to_list()
    token = None if len(more) < request.k else shown.token(user, more)
    return Page(from_polars(found, train.backend), token)
