"""Rules for lists as data: allowed items, limits per attribute value, pinned and new items."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, timezone
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tastespace._util.checks import is_whole, require_number, require_share
from tastespace.errors import ParameterError, nearest, require_path

if sys.version_info >= (3, 11):
    import tomllib
else:  # the same library, before it became part of Python
    import tomli as tomllib

_SHOWN = 3


@dataclass(frozen=True)
class Rules:
    """Rules that every list of a request obeys; all of them are optional.

    ``exclude``, ``include``, ``in_stock`` and ``max_age_days`` say which items may be in a list. Of these, lists hold
    the best in their usual order, except ``pinned`` and new items that ``min_new_share`` moves up. In every prefix of
    a list the limits of ``max_per`` hold, and n places have ``floor(min_new_share * n)`` new items or more (all k
    places ``ceil(min_new_share * k)``), as far as pinned items leave places. Where the rules leave fewer items, lists
    are shorter: a list ends before the first place that would break a rule. On shelves the rules hold for each shelf.

    A pinned item is left out of a list like any other item: where it is out of stock or too old, where the user has it
    already or has muted its interest, and where ``items`` or ``filter`` of the request leave it out.

    Ids that the model does not have are ignored; their number is logged.

    Args:
        max_per: At most this many items of each value of an item attribute: ``{"brand": 2}``. An item with several
            values (a list, or text such as ``"Action|Comedy"``) counts for each; one without a value is not limited.
        exclude: Item ids that are never in a list.
        include: The only item ids that may be in a list.
        in_stock: The available items: an item attribute that is true, or above 0, for them; or their ids.
        pinned: Item ids on top of the list, in this order; or by their places, from 1: ``{1: "a", 4: "b"}``.
        min_new_share: Least share of new items in a list, from 0 to 1; needs ``new`` or ``new_days``.
        new: The new items: an item attribute that is true, or above 0, for them; or their ids.
        new_days: Items at most this many days old are new, by ``time``.
        max_age_days: Only items at most this many days old, by ``time``; items without a time are left out.
        time: Item attribute with the time at which an item appeared: dates, times, or seconds since 1970.
        now: The time from which ages are counted: a date or time, text in ISO form, or seconds since 1970. By default
            the newest time of any item.

    >>> import polars as pl
    >>> from tastespace import EASE, Interactions
    >>> taken = pl.DataFrame({"user": [1, 1, 2, 2, 3, 3], "item": ["a", "b", "b", "c", "a", "d"]})
    >>> about = pl.DataFrame({"item": ["a", "b", "c", "d"], "brand": ["x", "x", "y", "y"]})
    >>> model = EASE().fit(Interactions.from_frame(taken, item_attributes=about))
    >>> rules = Rules(max_per={"brand": 1}, pinned=["d"])
    >>> model.recommend(2, k=3, rules=rules)["item"].to_list()
    ['d', 'a']
    """

    max_per: Mapping[str, int] = field(default_factory=dict)
    exclude: Iterable[Any] = ()
    include: Iterable[Any] | None = None
    in_stock: str | Iterable[Any] | None = None
    pinned: Iterable[Any] | Mapping[int, Any] = ()
    min_new_share: float = 0.0
    new: str | Iterable[Any] | None = None
    new_days: float | None = None
    max_age_days: float | None = None
    time: str | None = None
    now: Any = None

    def __post_init__(self) -> None:
        self._check_limits()
        for name in ("exclude", "include", "in_stock", "new"):
            given = getattr(self, name)
            by_column = name in ("in_stock", "new") and isinstance(given, str)
            if given is not None and not by_column:
                object.__setattr__(self, name, _ids(name, given))
        object.__setattr__(self, "pinned", self._checked_pins())
        self._check_new()
        self._check_contradictions()

    @classmethod
    def from_file(cls, path: str | Path) -> Rules:
        r"""Read rules from a TOML file, whose keys are the arguments: ``exclude = ["i1"]``, a table ``[max_per]``, ...

        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        ...     _ = file.write('exclude = ["i1"]\n[max_per]\nbrand = 2\n')
        ...     file.flush()
        ...     Rules.from_file(file.name).max_per["brand"]
        2
        """
        path = require_path(path)
        try:
            with path.open("rb") as file:
                found = tomllib.load(file)
        except OSError as problem:
            raise ParameterError(f"rules {path}: cannot be read ({problem.strerror}).") from problem
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise ParameterError(f"rules {path}: is not TOML: {problem}.") from problem
        known = [one.name for one in fields(cls)]
        for name in found:
            if name not in known:
                raise ParameterError(
                    f"rules {path}: there is no rule {name!r}; expected {', '.join(known)}.{nearest(name, known)}"
                )
        if isinstance(found.get("pinned"), dict):  # keys of TOML are text
            found["pinned"] = {int(at) if at.isdecimal() else at: item for at, item in found["pinned"].items()}
        try:
            return cls(**found)
        except ParameterError as problem:
            raise ParameterError(f"rules {path}: {problem}") from None

    @property
    def places(self) -> dict[int, Any]:
        """Pinned items by place, ascending; those on top have the places 1, 2, ..."""
        return dict(self.pinned) if isinstance(self.pinned, Mapping) else dict(enumerate(self.pinned, 1))

    @property
    def pins_are_on_top(self) -> bool:
        """True if pinned items move up where one before them is left out."""
        return not isinstance(self.pinned, Mapping)

    def with_ids(self, parse: Callable[[list[str]], list[Any]]) -> Rules:
        """Return the same rules with item ids as ``parse`` reads their text: in the type of a model's ids."""

        def parsed(ids: Any) -> Any:
            if ids is None or isinstance(ids, str):
                return ids
            if isinstance(ids, Mapping):
                return dict(zip(ids, parsed(list(ids.values())), strict=True))
            return parse([str(one) for one in ids])

        names = ("exclude", "include", "in_stock", "pinned", "new")
        return replace(self, **{name: parsed(getattr(self, name)) for name in names})

    def _check_limits(self) -> None:
        if not isinstance(self.max_per, Mapping):
            raise ParameterError(f"max_per={self.max_per!r}: expected limits by attribute, such as {{'brand': 2}}.")
        for column, most in self.max_per.items():
            if not isinstance(column, str) or not is_whole(most):
                raise ParameterError(
                    f"max_per={dict(self.max_per)!r}: expected an item attribute and a whole number, 1 or more, "
                    "such as {'brand': 2}; exclude leaves items out altogether."
                )
        object.__setattr__(self, "max_per", dict(self.max_per))

    def _checked_pins(self) -> Any:
        if not isinstance(self.pinned, Mapping):
            pins: Any = _ids("pinned", self.pinned)
            items = list(pins)
        else:
            for place in self.pinned:
                if not is_whole(place):
                    raise ParameterError(
                        f"pinned names the place {place!r}: expected whole numbers from 1, such as {{1: 'a', 4: 'b'}}."
                    )
            items = list(_ids("pinned", [self.pinned[at] for at in sorted(self.pinned)]))
            pins = dict(zip(sorted(map(int, self.pinned)), items, strict=True))
        repeated = [one for at, one in enumerate(items) if one in items[:at]]
        if repeated:
            raise ParameterError(f"pinned names {repeated[0]!r} more than once: expected one place for each item.")
        return pins

    def _check_new(self) -> None:
        require_share("min_new_share", self.min_new_share)
        for name in ("new_days", "max_age_days"):
            value = getattr(self, name)
            if value is None:
                continue
            require_number(name, value, above=0.0)
            if self.time is None:
                raise ParameterError(f"{name}={value!r} needs time, the item attribute with the time of each item.")
        if self.new is not None and self.new_days is not None:
            raise ParameterError("new and new_days both say which items are new: give one of them.")
        says_new = self.new is not None or self.new_days is not None
        if self.min_new_share > 0 and not says_new:
            raise ParameterError(
                f"min_new_share={self.min_new_share!r} needs to know which items are new: give new (an item attribute "
                "or ids), or new_days and time."
            )
        if says_new and self.min_new_share == 0:
            raise ParameterError("new items are named, but min_new_share is 0: give the least share of new items.")
        if self.time is not None and not isinstance(self.time, str):
            raise ParameterError(f"time={self.time!r}: expected the name of an item attribute.")
        if self.time is not None and self.new_days is None and self.max_age_days is None:
            raise ParameterError(f"time={self.time!r} is used by max_age_days and new_days: give one of them.")
        if self.now is not None:
            if self.time is None:
                raise ParameterError(f"now={self.now!r} is used by max_age_days and new_days, with time: give them.")
            seconds(self.now)

    def _check_contradictions(self) -> None:
        pins = list(self.places.values())
        _refuse("pinned and exclude both name", _common(pins, self.exclude), "an item cannot be shown and left out")
        if self.include is not None:
            both = _common(self.include, self.exclude)
            _refuse("include and exclude both name", both, "an item cannot be allowed and left out")
            allowed = set(self.include)
            _refuse(
                "pinned names", [one for one in pins if one not in allowed],
                "include, the only items allowed, does not have them",
            )  # fmt: skip
            if not allowed:
                raise ParameterError("include is empty: nothing may be recommended. Leave it out to allow all items.")


def seconds(moment: Any) -> float:
    """A date, a time, text in ISO form or a number as seconds since 1970; without a time zone it is UTC.

    >>> seconds("1970-01-02"), seconds(date(1970, 1, 2)), seconds(5)
    (86400.0, 86400.0, 5.0)
    """
    expected = f"now={moment!r}: expected a date or time, such as 2024-05-01T12:00:00, or seconds since 1970."
    if isinstance(moment, Real) and not isinstance(moment, bool):
        if not math.isfinite(float(moment)):
            raise ParameterError(expected)
        return float(moment)
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment.replace("Z", "+00:00"))
        except ValueError:
            raise ParameterError(expected) from None
    if isinstance(moment, np.datetime64):
        moment = moment.astype("datetime64[us]").item()
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    if isinstance(moment, date):
        return float((moment - date(1970, 1, 1)).days * 86_400)
    raise ParameterError(expected)


def _ids(name: str, given: Any) -> tuple[Any, ...]:
    """Item ids as a tuple; a single text is refused, because it would be split into letters."""
    if isinstance(given, (str, bytes, Mapping)) or hasattr(given, "columns") or not isinstance(given, Iterable):
        or_column = " or an item attribute" if name in ("in_stock", "new") else ""
        raise ParameterError(f"{name}={given!r}: expected a list of item ids{or_column}, such as ['i1', 'i9'].")
    listed = given.to_list() if isinstance(given, pl.Series) else list(given)
    for one in listed:
        if isinstance(one, (list, tuple, dict, set)) or one is None:
            raise ParameterError(f"{name} has {one!r} among its item ids: expected single ids.")
    return tuple(_plain(one) for one in listed)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _common(a: Iterable[Any], b: Iterable[Any]) -> list[Any]:
    others = set(b)
    return [one for one in a if one in others]


def _refuse(what: str, items: list[Any], why: str) -> None:
    if items:
        shown = ", ".join(map(repr, items[:_SHOWN])) + (
            f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
        )
        raise ParameterError(f"the rules contradict each other: {what} {shown}; {why}.")
