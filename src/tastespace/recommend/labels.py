"""Attributes of the items of a model: names for interests and items from them, and new ones for a fitted model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.computed_once import computed_once
from tastespace._util.csr import ranges
from tastespace.data.attributes import Categories, aligned_attributes, category_column, item_categories, title_column
from tastespace.data.ids import rows_at
from tastespace.data.interactions import Interactions
from tastespace.data.reading.tables import to_polars
from tastespace.errors import Argument, DataError, TastespaceError, nearest
from tastespace.models.base import Recommender

_Rows: TypeAlias = NDArray[np.integer[Any]]

_FITS = 0.75  # share of the items that must belong to a name,
_PART = 0.4  # to each of two categories in it,
_SUPPORT = 0.5  # and of further items of the same interest
_MAJORITY = 0.5  # share of past items and of heads of the list, which must be exceeded
_HEADS = (5, 10)  # lengths of shorter lists
_LIFT = 1.25  # how many times larger that share must be than elsewhere


class Labeler:
    """Names sets of items by the categories that they have in common.

    Categories come from ``column``, by default the one that looks like categories: see `tastespace.data.attributes`.
    """

    def __init__(
        self,
        train: Interactions,
        column: str | None = None,
        popularity_source: Interactions | None = None,
        *,
        hidden: Collection[str] = (),
        untitled: str = "{id}",
    ) -> None:
        """Prepare names for the items of ``train``.

        Args:
            train: The model's data.
            column: Item attribute with categories.
            popularity_source: Interactions that say what is common; None: those of ``train``.
            hidden: Categories that no name has.
            untitled: Template of an item without a title.
        """
        self._train, self._hidden, self._untitled = train, hidden, untitled
        self._popularity_source = popularity_source or train  # whose interactions say what is common
        self._frame = train.item_attributes
        if column is not None and (self._frame is None or column not in self._frame.columns):
            known = [] if self._frame is None else self._frame.columns
            raise DataError(
                f"the items have no attribute {column!r}; they have {', '.join(map(repr, known)) or 'none'}."
                + nearest(column, known)
            )
        self._column = column
        if column is None and self._frame is not None:
            self._column = computed_once(self._frame, "category column", lambda: category_column(self._frame))

    def labels(
        self,
        items: Sequence[_Rows],
        support: Sequence[_Rows] | None = None,
        evidence: Sequence[tuple[_Rows, NDArray[np.floating[Any]]]] | None = None,
    ) -> list[str | None]:
        """Return names such as "Film-Noir, Crime" for one user's lists of items, where one fits; no name twice.

        A name is one category or two. It fits a list where at least three quarters of the items belong to it (to one of
        two categories, each of which holds two fifths), and where that share is a quarter larger than among all
        interactions, and than on average on the user's other lists. Half of ``support`` must belong to it, too, and a
        quarter more than of all interactions: other items that the same interest stands for, which keeps chance out of
        short lists. So must more than half of the heads of the list, which shorter lists show, and of ``evidence``:
        past items, and how much each counts. Of several names that fit, those with the largest p log(p / q) are taken,
        with p the share of the list and q the larger one of the two others.
        """
        fitting = []
        for at in range(len(items)):
            own = None if evidence is None else evidence[at]
            fitting += [(gain, at, name) for name, gain in self._fitting(items, at, support, own)]
        found: list[str | None] = [None] * len(items)
        for _, at, name in sorted(fitting, key=lambda one: -one[0]):  # stable: of equals the first
            if found[at] is None and name not in found:
                found[at] = name
        return found

    def _fitting(
        self,
        items: Sequence[_Rows],
        at: int,
        support: Sequence[_Rows] | None,
        evidence: tuple[_Rows, NDArray[np.floating[Any]]] | None,
    ) -> list[tuple[str, float]]:
        """Names that fit the list at this place, each with p log(p / q)."""
        if self._categories is None or not len(items[at]):
            return []
        membership = self._categories.membership
        starts = membership.indptr[items[at]].astype(np.int64)
        own = membership.indices[ranges(starts, membership.indptr[items[at] + 1] - starts)]
        share = np.bincount(own, minlength=membership.shape[1]) / len(items[at])
        frequent = np.flatnonzero(share >= _PART)
        if self._hidden:
            frequent = frequent[[self._categories.names[code] not in self._hidden for code in frequent]]
        if not len(frequent):
            return []
        frequent = frequent[np.argsort(-share[frequent], kind="stable")]
        columns = [self._belongs(category) for category in frequent.tolist()]
        others = [rows for other, rows in enumerate(items) if other != at and len(rows)]
        tested = items[at] if support is None else support[at]
        found = []
        for name in [(c,) for c in range(len(frequent))] + list(combinations(range(len(frequent)), 2)):
            belongs = columns[name[0]] if len(name) == 1 else columns[name[0]] | columns[name[1]]
            p = _share(belongs, items[at])
            if p < _FITS or not len(tested):
                continue
            everywhere = self._share_everywhere(tuple(sorted(int(frequent[c]) for c in name)), belongs)
            if _share(belongs, tested) < max(_SUPPORT, _LIFT * everywhere):
                continue
            if any(_share(belongs, items[at][:n]) <= _MAJORITY for n in _HEADS if n < len(items[at])):
                continue
            if evidence is not None and (belongs[evidence[0]] * evidence[1]).sum() <= _MAJORITY * evidence[1].sum():
                continue
            elsewhere = sum(_share(belongs, rows) for rows in others) / len(others) if others else 0.0
            q = max(everywhere, elsewhere)
            if p >= _LIFT * q:
                found.append(
                    (", ".join(self._categories.names[frequent[c]] for c in name), p * np.log(p / max(q, 1e-6)))
                )
        return found

    def _belongs(self, category: int) -> NDArray[np.bool_]:
        """Mask of the items of a category."""
        assert self._categories is not None
        columns = computed_once(self._categories.membership, "columns", self._categories.membership.tocsc)
        found = np.zeros(columns.shape[0], dtype=bool)
        found[columns.indices[columns.indptr[category] : columns.indptr[category + 1]]] = True
        return found

    def _share_everywhere(self, categories: tuple[int, ...], belongs: NDArray[np.bool_]) -> float:
        """Share of all interactions with items of these categories, computed once."""
        counts = self._popularity_source.item_counts

        def make() -> tuple[object, float]:
            share = float(counts[belongs].sum() / max(1, counts.sum()))
            return self._frame, share  # held with it, so that no other frame has its number

        key = "share of categories", id(self._frame), self._column, categories
        return computed_once(self._popularity_source, key, make)[1]

    def titles(self, rows: _Rows) -> list[str]:
        """Titles of these items where there are any, else their ids in the template."""
        ids = [self._untitled.format(id=item) for item in self._train.items.take(rows).to_list()]
        column = title_column(self._frame)
        if column is None or self._frame is None:
            return ids
        names = rows_at(self._frame[column], rows).cast(pl.String, strict=False).to_list()
        return [name or item for name, item in zip(names, ids, strict=True)]

    @cached_property
    def _categories(self) -> Categories | None:
        """The items' categories; None where there are none."""
        if self._column is None or self._frame is None:
            return None
        values = self._frame[self._column]
        categories = computed_once(self._frame, ("categories", self._column), lambda: item_categories(values))
        return categories if categories.names else None


def _share(belongs: NDArray[np.bool_], rows: _Rows) -> float:
    return np.count_nonzero(belongs[rows]) / len(rows)


def set_item_attributes(model: Recommender, attributes: Any, id: str) -> None:
    """Implement `Recommender.set_item_attributes`."""
    model.require_fitted()
    frame, _ = to_polars(attributes)
    if id not in frame.columns:
        raise DataError(
            Argument("id", id),
            f": the item attributes have no such column; their columns are {', '.join(map(repr, frame.columns))}."
            f"{nearest(id, frame.columns)}",
        )
    if id != "item":
        frame = frame.drop("item", strict=False)
    before = model.train_.item_attributes
    try:
        _put(model, aligned_attributes(frame, model.train_.items, "item", id))
    except TastespaceError:  # the model needs an attribute that is gone
        _put(model, before)
        raise


def _put(model: Recommender, aligned: pl.DataFrame | None) -> None:
    """Give a model and the models inside it these attributes."""
    model.train_ = replace(model.train_, item_attributes=aligned)
    if model._popularity_source is not None:
        model._popularity_source = replace(model._popularity_source, item_attributes=aligned)
    for value in vars(model).values():
        for inner in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(inner, Recommender) and inner.is_fitted:
                _put(inner, aligned)
    model._attributes_changed()
