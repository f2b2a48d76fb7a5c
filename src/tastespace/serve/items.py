"""Items that were changed since a model was fitted: those out of stock or deleted, and new ones.

A new item has no place in the model. It is scored as its stand-ins: the items that are most like it by its attributes,
and those that its first takers took, weighted by how alike they are. The next update with `--new-items` learns it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.answers.ids import json_id, new_id_in_type
from tastespace.answers.lists import AnswerOptions
from tastespace.answers.people import Person
from tastespace.answers.types import AnswerError, Item
from tastespace.data.attributes import category_column, item_titles, title_column
from tastespace.data.features import FeatureEncoder
from tastespace.errors import TastespaceError
from tastespace.ranking.scoring import ScoringIndex
from tastespace.recommend.rules.filters import item_mask
from tastespace.recommend.rules.rules import Rules
from tastespace.serve.feedback.removals import StoredItem
from tastespace.serve.served_model import ServedModel

log = logging.getLogger(__name__)

_STAND_INS = 5
_SHARPNESS = 4  # power of similarities: a mean over items that are less alike is a middling score for everybody
_MOST_TAKERS, _MOST_UNKNOWN = 200, 10_000
"""Takers that are remembered of an item that the model lacks, and such items."""

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NewItems:
    """Items that the model lacks, with those that stand in for them."""

    ids: list[Any]
    frame: pl.DataFrame
    """Their attributes, as the model's items have them."""
    stand_ins: sp.csr_array
    """Weights of the model's items, shape ``(n_new, n_items)``; they add up to 1 for each that can be recommended."""

    def allowed(self, options: AnswerOptions) -> NDArray[np.bool_]:
        """Those that a request and the rules allow, shape ``(n_new,)``.

        None where the rules or the request say how a list is to be mixed, which needs items of the model.
        """
        rules = options.rules or Rules()
        is_mixed = options.mix is not None or options.diversity is not None or options.column is not None
        if is_mixed or options.items or rules.include is not None or rules.max_per or rules.pinned or rules.new_days:
            return np.zeros(len(self.ids), dtype=bool)
        if rules.max_age_days is not None or rules.min_new_share:
            return np.zeros(len(self.ids), dtype=bool)
        left_out = {*options.exclude, *rules.exclude}
        found = np.array([one not in left_out for one in self.ids]) & (np.diff(self.stand_ins.indptr) > 0)
        if isinstance(rules.in_stock, str):
            found &= self.frame[rules.in_stock].cast(pl.Float64, strict=False).fill_null(0).to_numpy() > 0
        elif rules.in_stock is not None:
            stocked = set(rules.in_stock)
            found &= np.array([one in stocked for one in self.ids])
        return found if options.filter is None else found & item_mask(options.filter, self.frame)


class ItemChanges:
    """Changes of items since a model was fitted. Not for several threads at once: its owner locks."""

    def __init__(self, served: ServedModel) -> None:
        self._served = served
        self.version = 0
        """Higher with every change that lists may show."""
        self._said: dict[Any, StoredItem] = {}
        self._takers: dict[Any, dict[Any, None]] = {}
        self._gone: tuple[int, NDArray[np.int32]] | None = None
        self._new: tuple[int, NewItems | None] | None = None

    def take(self, item: StoredItem) -> None:
        """Note what was said of an item."""
        try:
            found = new_id_in_type(self._served.train.items, item.item, "item")
        except AnswerError:  # of a model whose ids have another type
            return
        self._said[found] = item
        self.version += 1

    def note_taker(self, item: Any, user: Any) -> None:
        """Note that somebody took an item that the model lacks."""
        takers = self._takers.get(item)
        if takers is None:
            if len(self._takers) >= _MOST_UNKNOWN:
                return
            takers = self._takers[item] = {}
        if len(takers) < _MOST_TAKERS:
            takers[user] = None
            self.version += item in self._said

    def forget_user(self, user: Any) -> None:
        """Forget what a user took."""
        self.version += 1
        for takers in self._takers.values():
            takers.pop(user, None)

    def has_taken(self, item: Any, user: Any) -> bool:
        """Return whether a user took an item that the model lacks."""
        return user in self._takers.get(item, ())

    def takers(self, item: Any) -> list[Any]:
        """Users who took an item that the model lacks."""
        return list(self._takers.get(item, ()))

    @property
    def gone(self) -> NDArray[np.int32]:
        """Rows of the items that are not available."""
        if self._gone is None or self._gone[0] != self.version:
            ids = [item for item, said in self._said.items() if not said.is_available]
            rows = self._served.train.items.find(ids) if ids else np.empty(0, np.int64)
            self._gone = self.version, np.unique(rows[rows >= 0]).astype(np.int32)
        return self._gone[1]

    def is_gone(self, item: Any) -> bool:
        """Return whether an item is not available."""
        said = self._said.get(item)
        return said is not None and not said.is_available

    @property
    def has_other_attributes(self) -> bool:
        """True where attributes of items of the model are not yet those that were said."""
        return changed_attributes(self._served, self._said.values()) != self._served.changed

    def new(self, histories: Mapping[Any, NDArray[np.int32]] | None = None) -> NewItems | None:
        """Return the available items that the model lacks, with their stand-ins; None where there are none.

        ``histories`` are the past items of the takers of these items.
        """
        if self._new is None or self._new[0] != self.version or histories is not None:
            self._new = self.version, self._made(histories or {})
        return self._new[1]

    @property
    def unplaced(self) -> list[Any]:
        """Available items that the model lacks."""
        ids = [item for item, said in self._said.items() if said.is_available]
        rows = self._served.train.items.find(ids).tolist() if ids else []
        return [item for item, row in zip(ids, rows, strict=True) if row < 0]

    @property
    def is_current(self) -> bool:
        """True where `new` returns what it did before."""
        return self._new is not None and self._new[0] == self.version

    def _made(self, histories: Mapping[Any, NDArray[np.int32]]) -> NewItems | None:
        ids = self.unplaced
        if not ids:
            return None
        frame = attribute_rows(self._served, [(item, self._said[item].attributes) for item in ids])
        by_content, train = self._by_content(frame), self._served.train
        rows: list[NDArray[np.float64]] = []
        for at, item in enumerate(ids):
            takers = self.takers(item)
            past = [histories[user] for user in takers if user in histories]
            own = np.bincount(np.concatenate(past), minlength=train.n_items) if past else np.zeros(train.n_items)
            taken = _strongest(own / np.sqrt(train.item_counts + 1.0))
            trust = len(past) / (len(past) + 1.0) if taken.any() else 0.0
            alike = _strongest(by_content[at])
            mixed = taken * trust + alike * (1 - trust) if alike.any() else taken
            rows.append(mixed / mixed.sum() if mixed.sum() > 0 else mixed)
        return NewItems(ids, frame, sp.csr_array(np.array(rows)))

    def _by_content(self, frame: pl.DataFrame) -> NDArray[np.float64]:
        """Cosines between the attributes of new items and those of the model's, shape ``(n_new, n_items)``."""
        served = self._served
        attributes = served.train.item_attributes
        if attributes is None or attributes.width < 2:
            return np.zeros((len(frame), served.train.n_items))

        def learn() -> tuple[FeatureEncoder, NDArray[np.float64], sp.csr_array]:
            encoder = FeatureEncoder(None, min_count=2, max_vocabulary=20_000)
            known = encoder.fit(attributes, "item").encode(attributes).matrix
            frequent = np.asarray((known != 0).sum(axis=0)).ravel()
            weights = np.log1p(known.shape[0] / np.maximum(frequent, 1))
            return encoder, weights, _unit(known, weights)

        encoder, weights, known = served.kept.get_or_make("content of items", learn)
        found: NDArray[np.float64] = (_unit(encoder.encode(frame).matrix, weights) @ known.T).toarray()
        return np.maximum(found, 0.0)


def _unit(matrix: sp.csr_array, weights: NDArray[np.float64]) -> sp.csr_array:
    weighted = sp.csr_array(matrix @ sp.diags_array(weights))
    lengths = np.sqrt(np.asarray(weighted.power(2).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ weighted)


def _strongest(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest weights, scaled to the sum 1; zeros where there are none."""
    found = np.zeros(len(weights))
    best = np.argsort(-weights, kind="stable")[:_STAND_INS]
    best = best[weights[best] > 0]
    if len(best):
        strength = (weights[best] / weights[best[0]]) ** _SHARPNESS
        found[best] = strength / strength.sum()
    return found


def attribute_rows(served: ServedModel, given: Sequence[tuple[Any, Mapping[str, Any]]]) -> pl.DataFrame:
    """Attributes of items as the columns of the model's items have them; an error for those that do not fit."""
    attributes = served.train.item_attributes
    columns = {} if attributes is None else dict(list(attributes.schema.items())[1:])
    for _, said in given:
        for name in said:
            if name not in columns:
                known = ", ".join(columns) or "none"
                raise AnswerError(
                    "unknown_attribute", f"the items have no attribute {name[:60]!r}; they have {known}.",
                    "Give some of these, or fit the model with --items.",
                )  # fmt: skip
    made = [pl.Series("item", [json_id(item) for item, _ in given], dtype=pl.String, strict=False)]
    for name, kind in columns.items():
        values = [said.get(name) for _, said in given]
        try:
            if kind.is_temporal():
                made.append(pl.Series(name, values, dtype=pl.String).str.strptime(kind))  # type: ignore[arg-type]
            else:
                made.append(pl.Series(name, values, dtype=kind, strict=True))
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            raise AnswerError(
                "wrong_attribute", f"a value of {name!r} does not fit: expected one of the type {kind}.",
                "Give it as the model's items have it.",
            ) from None  # fmt: skip
    return pl.DataFrame(made)


def changed_attributes(served: ServedModel, said: Any) -> dict[Any, Mapping[str, Any]]:
    """Attributes that were said of items of the model, by their row."""
    with_some = [one for one in said if one.attributes]
    found = {}
    for one in with_some:
        try:
            item = new_id_in_type(served.train.items, one.item, "item")
        except AnswerError:
            continue
        row = int(served.train.items.find([item])[0])
        if row >= 0:
            found[row] = one.attributes
    return found


def with_attributes(served: ServedModel, said: Sequence[StoredItem]) -> None:
    """Give a model that was just opened the attributes that were said of its items."""
    changed = changed_attributes(served, said)
    attributes = served.train.item_attributes
    if changed and attributes is not None:
        frame = attributes
        columns = frame.columns
        for row, given in changed.items():
            try:
                one = attribute_rows(served, [(None, {k: v for k, v in given.items() if k in columns[1:]})])
            except AnswerError as problem:
                log.warning("attributes of an item are left as they were: %s", problem)
                continue
            for name in given:
                if name in columns[1:]:
                    values = frame[name].clone()
                    frame = frame.with_columns(
                        pl.concat([values.head(row), one[name], values.slice(row + 1)]).alias(name)
                    )
        try:
            served.replace_attributes(frame)
        except TastespaceError as problem:
            log.warning("attributes of items are left as they were: %s", problem)
    served.changed = changed


def inserted(
    new: NewItems, options: AnswerOptions, index: ScoringIndex, person: Person, items: list[Item], usable: Sequence[int]
) -> list[Item]:
    """A list with the new items that belong on it, at the places of their scores."""
    scores = index.source.block(np.array([person.row], dtype=np.int32))[0]
    mine = new.stand_ins[list(usable)] @ scores
    best = np.argsort(-mine, kind="stable")[: options.k]
    titles = item_titles(new.frame, True) if title_column(new.frame) is not None else None
    category = category_column(new.frame)
    entries = []
    for at in best.tolist():
        row = usable[at]
        stand_in = int(new.stand_ins.indices[new.stand_ins.indptr[row]])
        interest = None
        if index.model.has_interests:
            pair = np.array([person.row], dtype=np.int32), np.array([stand_in], dtype=np.int32)
            interest = int(index.pair_interests(*pair)[1][0])
        value = None if category is None else new.frame[category][row]
        shown = value[0] if isinstance(value, (list, pl.Series)) and len(value) else value
        entries.append(
            Item(
                json_id(new.ids[row]), None if titles is None else titles[row],
                None if shown is None else str(shown).split("|")[0], 0, float(mine[at]), interest, None,
                [] if options.because else None,
            )
        )  # fmt: skip
    whole = sorted([*items, *entries], key=lambda one: -(one.score if one.score is not None else -np.inf))[: options.k]
    for at, one in enumerate(whole):
        one.rank = at + 1
    return whole
