"""Rules as tables over the items of a model: allowed items, their groups, pinned items and places, new items."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.threads import require_polars
from tastespace.data.attributes import item_categories
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, DataError, ParameterError, nearest
from tastespace.recommend.rules.rules import Rules, seconds

log = logging.getLogger(__name__)

_DAY = 86_400.0


@dataclass(frozen=True, eq=False)
class RuleTables:
    """The rules of one request, over the rows of a model's items."""

    n_items: int
    allowed: NDArray[np.bool_] | None
    """Items that may be in a list, shape ``(n_items,)``; None: all."""
    group_offsets: NDArray[np.int64]
    """Item i is in the groups ``groups[group_offsets[i]:group_offsets[i + 1]]``; empty without limits."""
    groups: NDArray[np.int32]
    most: NDArray[np.int32]
    """Items of each group that a list may hold."""
    pins: NDArray[np.int32]
    """Rows of pinned items, by ascending place."""
    places: NDArray[np.int32]
    on_top: bool
    is_new: NDArray[np.uint8]
    """1 for new items; empty where no share is asked for."""
    share: float

    @property
    def may_skip(self) -> bool:
        """True if a list may hold items other than the best allowed ones and the pinned ones."""
        return len(self.most) > 0 or self.share > 0

    @property
    def reorders(self) -> bool:
        """True if the rules do more than restrict the allowed items."""
        return self.may_skip or len(self.pins) > 0


def rule_tables(train: Interactions, rules: Any, k: int) -> RuleTables | None:
    """Return the rules over the items of ``train`` for lists of k items; None where there are no rules.

    Rules that contradict each other for these items and this k are an error.
    """
    if rules is None:
        return None
    if not isinstance(rules, Rules):
        raise ParameterError(
            Argument("rules", rules),
            ": expected tastespace.Rules(...), or Rules.from_file(path) for rules in a TOML file.",
        )
    require_polars("rules=")
    unknown: dict[str, list[Any]] = {}
    reader = _Reader(train, unknown)
    pins = reader.pins(rules)
    tables = RuleTables(
        train.n_items,
        reader.allowed(rules),
        *reader.groups(rules),
        np.array(list(pins.values()), dtype=np.int32),
        np.array(list(pins), dtype=np.int32),
        rules.pins_are_on_top,
        reader.new(rules).astype(np.uint8) if rules.min_new_share > 0 else np.empty(0, dtype=np.uint8),
        float(rules.min_new_share),
    )
    if unknown:
        counts = ", ".join(f"{len(ids):,} in {name} (such as {ids[0]!r})" for name, ids in unknown.items())
        log.warning("rules: unknown item ids are ignored: %s; the model has ids such as %r", counts, train.items[0])
    _require_possible(train, rules, tables, k)
    return tables


class _Reader:
    """Reads rules against the ids and attributes of the items."""

    def __init__(self, train: Interactions, unknown: dict[str, list[Any]]) -> None:
        self._train = train
        self._frame = train.item_attributes
        self._unknown = unknown

    def rows(self, name: str, ids: Iterable[Any]) -> NDArray[np.int64]:
        """Rows of these ids, -1 for those that the model does not have, which are noted."""
        given = list(ids)
        found = self._train.items.find(given)
        missing = [one for one, row in zip(given, found, strict=True) if row < 0]
        if missing:
            self._unknown[name] = missing
        return found

    def mask(self, name: str, ids: Iterable[Any]) -> NDArray[np.bool_]:
        """True for the items with these ids."""
        rows = self.rows(name, ids)
        found = np.zeros(self._train.n_items, dtype=bool)
        found[rows[rows >= 0]] = True
        return found

    def column(self, name: str, column: str) -> pl.Series:
        """An item attribute that a rule names."""
        known = [] if self._frame is None else self._frame.columns[1:]
        if self._frame is None or column not in known:
            raise ParameterError(
                f"rules: {name} names the item attribute {column!r}; the items have "
                f"{', '.join(map(repr, known)) or 'none'}.{nearest(column, known)}"
                + ("" if known else " model.set_item_attributes gives them some.")
            )
        return self._frame[column]

    def truth(self, name: str, column: str) -> NDArray[np.bool_]:
        """True for the items whose attribute is true, or above 0."""
        values = self.column(name, column)
        if values.dtype == pl.Boolean:
            return values.fill_null(False).to_numpy()
        if not values.dtype.is_numeric():
            raise ParameterError(
                f"rules: {name} names the item attribute {column!r}, which holds {values.dtype}: expected true or "
                "false, or numbers, of which those above 0 count."
            )
        return (values.cast(pl.Float64).fill_nan(None).fill_null(0.0) > 0).to_numpy()

    def allowed(self, rules: Rules) -> NDArray[np.bool_] | None:
        """The items that may be in a list."""
        parts: dict[str, NDArray[np.bool_]] = {}
        if rules.exclude:
            parts["exclude"] = ~self.mask("exclude", rules.exclude)
        if rules.include is not None:
            parts["include"] = self.mask("include", rules.include)
        if rules.in_stock is not None:
            by_column = isinstance(rules.in_stock, str)
            parts["in_stock"] = (self.truth if by_column else self.mask)("in_stock", rules.in_stock)  # type: ignore[arg-type]
        if rules.max_age_days is not None:
            parts["max_age_days"] = self.ages(rules) <= rules.max_age_days
        if not parts:
            return None
        allowed = np.logical_and.reduce(list(parts.values()))
        if not allowed.any():
            left = ", ".join(f"{name} {int(mask.sum()):,}" for name, mask in parts.items())
            raise DataError(
                f"the rules leave none of the {len(allowed):,} items; each alone leaves: {left}. Widen them."
            )
        return allowed

    def ages(self, rules: Rules) -> NDArray[np.float64]:
        """Age of each item in days, infinite where its time is unknown."""
        assert rules.time is not None
        values = self.column("time", rules.time)
        if values.dtype == pl.String:
            try:
                values = values.str.to_datetime(strict=False)
            except pl.exceptions.ComputeError:
                raise DataError(
                    f"rules: time names the item attribute {rules.time!r}, whose text is no dates or times, such as "
                    f"{values.drop_nulls().first()!r}: expected 2024-05-01 or 2024-05-01T12:00:00."
                ) from None
        if isinstance(values.dtype, (pl.Date, pl.Datetime)):
            times = values.cast(pl.Datetime("us")).dt.epoch("us").cast(pl.Float64) / 1e6
        elif values.dtype.is_numeric():
            times = values.cast(pl.Float64)
        else:
            raise ParameterError(
                f"rules: time names the item attribute {rules.time!r}, which holds {values.dtype}: expected dates, "
                "times, or seconds since 1970."
            )
        known = times.fill_null(float("nan")).to_numpy()
        if np.isnan(known).all():
            raise DataError(f"rules: no item has a time in the attribute {rules.time!r}.")
        now = float(np.nanmax(known)) if rules.now is None else seconds(rules.now)
        return np.where(np.isnan(known), np.inf, (now - known) / _DAY)

    def new(self, rules: Rules) -> NDArray[np.bool_]:
        """The new items."""
        if rules.new_days is not None:
            return self.ages(rules) <= rules.new_days
        assert rules.new is not None
        return self.truth("new", rules.new) if isinstance(rules.new, str) else self.mask("new", rules.new)

    def groups(self, rules: Rules) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Offsets and groups of the items, and the limit of each group; a group is a value of an attribute."""
        none = np.empty(0, dtype=np.int32)
        if not rules.max_per:
            return np.empty(0, dtype=np.int64), none, none
        members: list[tuple[NDArray[Any], NDArray[Any]]] = []
        most: list[NDArray[np.int32]] = []
        for column, limit in rules.max_per.items():
            membership = item_categories(self.column("max_per", column)).membership
            owner = np.repeat(np.arange(self._train.n_items), np.diff(membership.indptr))
            members.append((owner, membership.indices + sum(len(one) for one in most)))
            most.append(np.full(membership.shape[1], limit, dtype=np.int32))
        owners = np.concatenate([owner for owner, _ in members])
        groups = np.concatenate([group for _, group in members]).astype(np.int32)
        counts = np.bincount(owners, minlength=self._train.n_items)
        order = np.argsort(owners, kind="stable")
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), groups[order], np.concatenate(most)

    def pins(self, rules: Rules) -> dict[int, int]:
        """Rows of the pinned items by place; on top they move up where an id is unknown."""
        places = rules.places
        rows = self.rows("pinned", places.values())
        known = {at: int(row) for at, row in zip(places, rows, strict=True) if row >= 0}
        return dict(enumerate(known.values(), 1)) if rules.pins_are_on_top else known


def _require_possible(train: Interactions, rules: Rules, tables: RuleTables, k: int) -> None:
    """Raise where rules contradict each other for these items and lists of k."""
    if tables.share > 0:
        _require_new(rules, tables, k)
    contradict = "the rules contradict each other:"
    if len(tables.places) and tables.places[-1] > k:
        raise ParameterError(
            f"{contradict} pinned names the place {tables.places[-1]}, and lists have only {k} places. Pin fewer "
            "items, or ask for longer lists."
        )
    if len(tables.most) and len(tables.pins):
        held = np.concatenate([_groups_of(tables, row) for row in tables.pins])
        counts = np.bincount(held, minlength=len(tables.most))
        for group in np.flatnonzero(counts > tables.most):
            pinned = [train.items[int(row)] for row in tables.pins if group in _groups_of(tables, row)]
            limits = ", ".join(f"{column}: {most}" for column, most in rules.max_per.items())
            raise ParameterError(
                f"{contradict} pinned has {counts[group]} items of one value ({', '.join(map(repr, pinned))}), and "
                f"max_per allows {tables.most[group]} ({limits}). Pin fewer of them, or raise the limit."
            )
    if tables.share > 0:
        needed = math.ceil(tables.share * k - 1e-9)
        old = int((tables.is_new[tables.pins] == 0).sum())
        if needed > k - old:
            raise ParameterError(
                f"{contradict} min_new_share={tables.share:g} asks for {needed} new items among {k}, and {old} "
                "places have pinned items that are not new. Pin fewer of them, or lower the share."
            )


def _groups_of(tables: RuleTables, row: Any) -> NDArray[np.int32]:
    return tables.groups[tables.group_offsets[row] : tables.group_offsets[row + 1]]


def _require_new(rules: Rules, tables: RuleTables, k: int) -> None:
    """Raise if no new item may be in a list; log where there are too few for a list of k."""
    is_new = tables.is_new > 0
    may_be = is_new if tables.allowed is None else is_new & tables.allowed
    by = "new" if rules.new is not None else f"new_days={rules.new_days:g}"
    if not is_new.any():
        raise DataError(
            f"rules: min_new_share={tables.share:g} asks for new items, and no item of the model is new by {by}. Leave "
            "min_new_share out, or name items that the model has."
        )
    if not may_be.any():
        names = [name for name in ("exclude", "include", "in_stock", "max_age_days") if getattr(rules, name)]
        raise ParameterError(
            f"the rules contradict each other: min_new_share={tables.share:g} asks for new items, and none of the "
            f"{int(is_new.sum()):,} new by {by} is left by {', '.join(names)}."
        )
    wanted, n_new = math.ceil(tables.share * k - 1e-9), int(may_be.sum())
    if n_new < wanted:
        log.warning(
            "rules: min_new_share=%g asks for %d new items among k=%d, and %d may be shown: lists are shorter than k",
            tables.share,
            wanted,
            k,
            n_new,
        )
