"""Display of a catalog on pages: pictures of items, and categories that are hidden."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tastespace.errors import Argument, ParameterError, nearest

_NAMES = tuple(
    name + ending
    for name in ("image", "img", "picture", "photo", "thumbnail", "poster", "cover")
    for ending in ("", "_url", "_link")
)
_TEXT = (pl.String, pl.Categorical, pl.Enum)
_LONGEST = 2_048  # characters of an address
# Host names in ASCII without user and password, so that one can stand in a content security policy.
_ADDRESS = (
    r"^(?i:(https?))://((?:[A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+(?::[0-9]{1,5})?)(?:[/?#][^\s\"'<>\\^`{|}\x00-\x1f\x7f]*)?$"
)
_MOST_ORIGINS = 20  # that a policy lists one by one


@dataclass(frozen=True)
class Display:
    """Options of the display of items."""

    images: str | None = None
    """Item attribute with the addresses of pictures; ``"auto"``: the one that is called so, if there is one."""
    hide_categories: tuple[str, ...] = ()
    """Categories that no answer names, and no shelf is called after."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """Addresses of the pictures of all items."""

    column: str
    addresses: pl.Series
    """One for each item; null where there is none that a page may load."""
    sources: tuple[str, ...]
    """Origins of the addresses for ``img-src`` of a content security policy, or schemes where there are many."""
    n_refused: int
    """Values that are no addresses of pictures."""


def pictures(attributes: pl.DataFrame | None, wanted: str | None) -> Pictures | None:
    """Pictures in the item attribute called ``wanted``, None without one; see `Display.images`.

    Only ``http`` and ``https`` addresses without user name count: what else a value holds (``javascript:``, ``data:``,
    a path, quotes) is left out. Of lists the first entry counts.

    >>> items = pl.DataFrame({"item": [1, 2, 3], "image": ["https://img.example/1.jpg", "javascript:alert(1)", None]})
    >>> found = pictures(items, "auto")
    >>> found.column, found.addresses.to_list(), found.sources, found.n_refused
    ('image', ['https://img.example/1.jpg', None, None], ('https://img.example',), 1)
    """
    if wanted is None:
        return None
    columns = [] if attributes is None else attributes.columns[1:]
    name: str | None = wanted
    if wanted == "auto":
        lower = {one.lower(): one for one in reversed(columns)}
        name = next((lower[one] for one in _NAMES if one in lower), None)
    elif wanted not in columns:
        known = ", ".join(map(repr, columns)) or "none"
        raise ParameterError(
            Argument("images", wanted),
            f": expected an item attribute with addresses of pictures; there are {known}.{nearest(wanted, columns)}",
        )
    if attributes is None or name is None:
        return None
    values = attributes[name]
    if isinstance(values.dtype, pl.List):
        values = values.list.first()
    if values.dtype not in _TEXT:
        if wanted == "auto":
            return None
        raise ParameterError(
            Argument("images", wanted),
            f": the attribute holds {values.dtype}; expected text, an address for each item.",
        )
    given = values.cast(pl.String).str.strip_chars()
    given = given.set(given == "", None)
    is_address = (given.str.contains(_ADDRESS) & (given.str.len_chars() <= _LONGEST)).fill_null(False)
    found = given.set(~is_address, None)
    n_refused = int((given.is_not_null() & ~is_address).sum())
    if wanted == "auto" and found.null_count() == len(found):
        return None
    origins = found.str.replace(_ADDRESS, "$1://$2").str.to_lowercase().drop_nulls().unique().sort().to_list()
    if len(origins) > _MOST_ORIGINS:
        origins = sorted({one.partition("//")[0] for one in origins})
    return Pictures(name, found, tuple(origins), n_refused)
