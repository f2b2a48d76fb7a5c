"""One model as it is served: opened once and never changed; and reasons not to serve another in its place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import tastespace
from tastespace._util.lru import LruCache
from tastespace.answers.catalog import Catalog, model_facts, plain_value
from tastespace.answers.display import Display
from tastespace.answers.ids import id_from_text
from tastespace.errors import ModelFileError
from tastespace.models.base import Recommender
from tastespace.serve.schemas import Can, ModelAnswer
from tastespace.store import inspect, load

_QUICK_PRODUCTS = 4_000_000
_MOST_USERS = 100_000  # whose ids and rows are remembered
_SAME_ITEMS = 0.5  # least share of the smaller catalog that both have, and of titles that agree
_SAME_PAIRS, _SAME_POPULARITY = 0.1, 0.3  # below both the same ids name other items
_COMPARED_USERS, _FEWEST_COMPARED = 2_000, 100  # users whose histories are compared; fewer ids or pairs say nothing


class ServedModel(Catalog):
    """A fitted model from a directory, and what is computed from it once."""

    def __init__(self, model: Recommender, path: Path, checksum: str, display: Display | None = None) -> None:
        super().__init__(model, display)
        self.path, self.checksum, self.generation = path, checksum, 0
        self.changed: dict[int, Any] = {}
        """Attributes of items that are not those of the file, by row."""
        self._user_ids: LruCache[str, Any] = LruCache(_MOST_USERS)
        self._user_rows: LruCache[Any, int] = LruCache(_MOST_USERS)

    @classmethod
    def open(
        cls,
        path: Path,
        prepare: Callable[[ServedModel], None] = lambda served: None,
        display: Display | None = None,
    ) -> ServedModel:
        """Return the model in a directory, checked by asking it for one list, after ``prepare`` has changed it."""
        path = path.resolve()
        checksum = model_checksum(path)
        model = load(path)
        served = cls(model, path, checksum, display)
        prepare(served)
        rows = np.flatnonzero(model.can_serve(np.arange(model.train_.n_users)))[:1]
        if len(rows):
            model.recommend_indices(rows, k=1, profile=False, threads=1)
        _ = (served.titles, served.category_codes, served.info)
        return served

    def replace_attributes(self, frame: pl.DataFrame) -> None:
        """Use other attributes of the items; before the first answer."""
        self.model.set_item_attributes(frame)
        Catalog.__init__(self, self.model)

    def user_id(self, text: str) -> Any:
        """Return a user id of a path in the model's type; those of known users are read once."""
        found = self._user_ids.get(text)
        if found is None:
            found = id_from_text(self.train.users, text, "user")
            if self.user_row(found) >= 0:
                self._user_ids.put(text, found)
        return found

    def user_row(self, user: Any) -> int:
        """Return the row of a user with a history, -1 for others; known ones are looked up once."""
        found = self._user_rows.get(user)
        if found is None:
            found = int(self.train.users.find([user])[0])
            if found < 0 or not self.model.can_serve(np.array([found]))[0]:
                return -1
            self._user_rows.put(user, found)
        return found

    def item_id(self, text: str) -> Any:
        """Return an item id of a path or query in the model's type."""
        return id_from_text(self.train.items, text, "item")

    @cached_property
    def is_small(self) -> bool:
        """True where a list takes some tenths of a millisecond: made by one kernel, from not too many vectors."""
        space, program = self.index.space, self.index.program
        if program is not None:
            return program.is_whole and program.products <= _QUICK_PRODUCTS
        if space is None:
            return False
        vectors = len(space.user_vectors) / max(1, len(space.user_offsets) - 1)
        return bool(vectors * space.item_vectors.size <= _QUICK_PRODUCTS)

    @cached_property
    def info(self) -> ModelAnswer:
        """Answer of `GET /v1/model`."""
        try:
            stored = inspect(self.path)
        except ModelFileError:  # replaced while it was opened; the watcher opens the new one
            stored = {}
        facts = model_facts(self)
        return ModelAnswer(
            name=self.path.name,
            class_=facts.pop("class"),
            can=Can(**facts.pop("can")),
            version=str(stored.get("version") or tastespace.__version__),
            fitted=stored.get("created"),
            generation=self.generation,
            metrics={name: plain_value(value) for name, value in (stored.get("metrics") or {}).items()},
            **facts,
        )


# ---------------------------------------------------------------------------------------------------------------------
# Reasons not to serve one model in place of another: requests, rules and feedback are about the catalog of the first.


def replacement_problem(now: ServedModel, new: ServedModel) -> str | None:
    """Return why ``new`` cannot take the place of ``now``, None where it can.

    Ids must have the same types, the item attributes must all be there, and the catalog must be the same one, grown or
    shrunk. Equal ids prove nothing where they are numbers, which every catalog has: then titles are compared, or
    without titles the histories of common users and the popularity of common items.
    """
    if new.info.id_types != now.info.id_types:
        return f"its ids are of the types {new.info.id_types}, those of the served one {now.info.id_types}"
    lost = [name for name in now.info.item_columns if name not in new.info.item_columns]
    if lost:
        return f"its items lack the attributes {', '.join(lost)}, which those of the served one have"
    old, other = now.train, new.train
    rows = other.items.find(old.items.series)
    both = np.flatnonzero(rows >= 0)
    smaller = min(old.n_items, other.n_items)
    if len(both) < _SAME_ITEMS * smaller:
        return f"it has another catalog: it shares {len(both):,} of {smaller:,} items with the served one"
    users = other.users.find(old.users.series)
    if not (users >= 0).any() and min(old.n_users, other.n_users) >= _FEWEST_COMPARED:
        return f"it knows none of the {old.n_users:,} users of the served one"
    if now.titles is not None and new.titles is not None:
        here, there = now.titles.gather(both), new.titles.gather(rows[both])
        named = here.is_not_null() & there.is_not_null()
        n_named, n_same = int(named.sum()), int((named & (here == there)).sum())
        if n_named:
            if n_same >= _SAME_ITEMS * n_named:
                return None
            return f"it has another catalog: of {n_named:,} items with the same id {n_same:,} have the same title"
    shared, compared, by_chance = _shared_pairs(now, new, rows, users)
    if compared < _FEWEST_COMPARED or shared >= max(_SAME_PAIRS * compared, 2 * by_chance):
        return None
    alike = _rank_correlation(old.item_counts[both], other.item_counts[rows[both]])
    if not alike < _SAME_POPULARITY:  # NaN where all are equally popular
        return None
    return (
        f"it has another catalog: of {compared:,} interactions between known users and known items of the served one "
        f"it has {shared:,}, and other items are popular"
    )


def _shared_pairs(
    now: ServedModel, new: ServedModel, rows: NDArray[np.int64], users: NDArray[np.int64]
) -> tuple[int, int, float]:
    """Interactions of ``now`` that ``new`` has too, those that it could have, and how many it would have by chance.

    Of a sample of common users.

    ``rows`` and ``users`` are the rows in ``new`` of the items and users of ``now``, -1 for others.
    """
    common = np.flatnonzero(users >= 0)
    sample = common[:: max(1, len(common) // _COMPARED_USERS)]
    shared, compared, by_chance = 0, 0, 0.0
    for user in sample.tolist():
        past = rows[now.index.seen(user)]
        past = past[past >= 0]
        theirs = new.index.seen(int(users[user]))
        compared += len(past)
        by_chance += len(past) * len(theirs) / new.train.n_items
        shared += int(np.isin(past, theirs, assume_unique=True).sum())
    return shared, compared, by_chance


def _rank_correlation(one: NDArray[np.integer[Any]], other: NDArray[np.integer[Any]]) -> float:
    """Spearman's rank correlation; NaN where one of them is constant.

    >>> float(_rank_correlation(np.array([1, 2, 2, 5]), np.array([10, 20, 20, 90])))
    1.0
    """
    ranks = []
    for values in (one, other):
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - (counts + 1) / 2)[place])  # ties have the mean of their ranks
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.corrcoef(ranks)[0, 1])


def model_checksum(path: Path) -> str:
    """Return the hash of a model's model.json, which names all its files with their checksums."""
    try:
        return hashlib.sha256((path / "model.json").read_bytes()).hexdigest()[:16]
    except OSError as problem:
        raise ModelFileError(
            f"{path.name}: there is no model ({problem.strerror}). Give the directory of a saved model."
        ) from problem
