"""One model as it is served: opened once, never changed, with what every answer needs of its catalog."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

import tastespace
from tastespace.answers.facts import model_facts, plain_value
from tastespace.answers.map import CatalogMap, catalog_map
from tastespace.data.attributes import category_column, category_rows, item_titles, title_column
from tastespace.data.ids import rows_at
from tastespace.errors import ModelFileError
from tastespace.models.base import Recommender
from tastespace.ranking.scoring import ScoringIndex
from tastespace.recommend.request import attribute_frame
from tastespace.recommend.rules.filters import item_mask
from tastespace.serve.errors import HttpError
from tastespace.serve.json_ids import id_from_text, json_ids, shown_id
from tastespace.serve.schemas import Can, ModelAnswer
from tastespace.store import inspect, load

Value = TypeVar("Value")

_NAMES = ("name", "title", "full_name", "username")
_MOST_KEPT = 256
_QUICK_PRODUCTS = 4_000_000
_MOST_LISTED = 300_000
_MOST_USERS = 100_000  # whose ids and rows are remembered


class ServedModel:
    """A fitted model, and what is computed from it once."""

    def __init__(self, model: Recommender, path: Path, checksum: str, generation: int = 0) -> None:
        self.model, self.path, self.checksum, self.generation = model, path, checksum, generation
        self.train = model.train_
        self.index = ScoringIndex(model, threads=1)
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._keeping = threading.Lock()
        self._mapping = threading.Lock()
        self._user_ids: dict[str, Any] = {}
        self._user_rows: dict[Any, int] = {}

    @classmethod
    def open(cls, path: Path) -> ServedModel:
        """The model in a directory, checked by asking it for one list."""
        path = path.resolve()
        checksum = model_checksum(path)
        model = load(path)
        served = cls(model, path, checksum)
        rows = np.flatnonzero(model.can_serve(np.arange(model.train_.n_users)))[:1]
        if len(rows):
            model.recommend_indices(rows, k=1, profile=False, threads=1)
        _ = (served.titles, served.category_codes, served.info)
        return served

    # ---- ids -----------------------------------------------------------------------------------------------

    def user_id(self, text: str) -> Any:
        """A user id of a path in the model's type; of known users it is read once."""
        found = self._user_ids.get(text)
        if found is None:
            found = id_from_text(self.train.users, text, "user")
            if self.user_row(found) >= 0:
                if len(self._user_ids) >= _MOST_USERS:
                    self._user_ids.clear()
                self._user_ids[text] = found
        return found

    def user_row(self, user: Any) -> int:
        """The row of a user of whom the model knows something, -1 for others; looked up once."""
        found = self._user_rows.get(user)
        if found is None:
            found = int(self.train.users.find([user])[0])
            if found < 0 or not self.model.can_serve(np.array([found]))[0]:
                return -1
            if len(self._user_rows) >= _MOST_USERS:
                self._user_rows.clear()
            self._user_rows[user] = found
        return found

    def item_id(self, text: str) -> Any:
        """An item id of a path or query in the model's type."""
        return id_from_text(self.train.items, text, "item")

    def item_row(self, item: Any) -> int:
        """The row of an item; 404 where the model does not have it."""
        row = int(self.train.items.find([item])[0])
        if row < 0:
            raise HttpError(
                404, "unknown_item", f"there is no item {shown_id(item)}.", "GET /v1/items/search finds items."
            )
        return row

    # ---- items ---------------------------------------------------------------------------------------------

    @cached_property
    def titles(self) -> pl.Series | None:
        """The title of each item as text, where items have titles."""
        attributes = self.train.item_attributes
        return None if title_column(attributes) is None else item_titles(attributes, True)

    def titles_at(self, rows: NDArray[np.integer[Any]]) -> list[str | None]:
        """Titles of the items at these rows, None where there are none."""
        if self._listed is not None:
            titles = self._listed[1]
            return [titles[row] for row in rows.tolist()]
        return [None] * len(rows) if self.titles is None else rows_at(self.titles, rows).to_list()

    def ids_at(self, rows: NDArray[np.integer[Any]]) -> list[Any]:
        """Ids of the items at these rows, as JSON has them."""
        if self._listed is not None:
            ids = self._listed[0]
            return [ids[row] for row in rows.tolist()]
        return json_ids(self.train.items, rows)

    @cached_property
    def _listed(self) -> tuple[list[Any], list[str | None]] | None:
        """Ids and titles of all items as lists, where there are not too many: to look one up then takes no time."""
        n = self.train.n_items
        if n > _MOST_LISTED:
            return None
        titles = [None] * n if self.titles is None else self.titles.to_list()
        return json_ids(self.train.items, np.arange(n)), titles

    @cached_property
    def category_names(self) -> list[str]:
        """The categories that are the first of an item."""
        return self._first_categories[0]

    @cached_property
    def category_codes(self) -> NDArray[np.int32]:
        """The first category of each item, -1 where it has none, shape ``(n_items,)``."""
        return self._first_categories[1]

    def categories_at(self, rows: NDArray[np.integer[Any]]) -> list[str | None]:
        """The first category of the items at these rows."""
        names = self.category_names
        return [None if code < 0 else names[code] for code in self.category_codes[rows].tolist()]

    @cached_property
    def _first_categories(self) -> tuple[list[str], NDArray[np.int32]]:
        codes = np.full(self.train.n_items, -1, dtype=np.int32)
        column = self.category_column
        if column is None or self.train.item_attributes is None:
            return [], codes
        pairs = category_rows(self.train.item_attributes[column]).unique("row", keep="first", maintain_order=True)
        counts = pairs["name"].value_counts(sort=True)
        names = sorted(counts["name"].to_list(), key=dict(counts.iter_rows()).__getitem__, reverse=True)
        place = {name: code for code, name in enumerate(names)}
        codes[pairs["row"].to_numpy()] = [place[name] for name in pairs["name"].to_list()]
        return names, codes

    @cached_property
    def category_column(self) -> str | None:
        """The item attribute that holds categories."""
        return category_column(self.train.item_attributes)

    def filter_mask(self, text: str) -> NDArray[np.bool_]:
        """Which items a filter of the request allows, computed once for each text."""
        return self.kept(("filter", text), lambda: item_mask(text, attribute_frame(self.train)))

    # ---- users ---------------------------------------------------------------------------------------------

    @cached_property
    def user_names(self) -> pl.Series | None:
        """The name of each user, where user attributes have one."""
        attributes = self.train.user_attributes
        column = None if attributes is None else next((one for one in _NAMES if one in attributes.columns), None)
        return None if attributes is None or column is None else attributes[column].cast(pl.String)

    @cached_property
    def is_small(self) -> bool:
        """Whether a plain list is made in about a tenth of a millisecond: by vectors, and not too many of them."""
        space = self.index.space
        if space is None:
            return False
        vectors = len(space.user_vectors) / max(1, len(space.user_offsets) - 1)
        return bool(vectors * space.item_vectors.size <= _QUICK_PRODUCTS)

    @cached_property
    def map(self) -> CatalogMap:
        """All items in the plane; requests that come meanwhile wait for the first one."""
        with self._mapping:
            return catalog_map(self.model)

    # ---- the model itself ----------------------------------------------------------------------------------

    @cached_property
    def info(self) -> ModelAnswer:
        """What `GET /v1/model` says, but for the generation."""
        try:
            stored = inspect(self.path)
        except ModelFileError:  # replaced while it was opened; the watcher opens the new one
            stored = {}
        facts = model_facts(self.model)
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

    def kept(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """A value that was computed before for this key, or is computed now; the oldest are forgotten."""
        with self._keeping:
            if key in self._kept:
                self._kept.move_to_end(key)
                found: Value = self._kept[key]
                return found
        found = make()
        with self._keeping:
            self._kept[key] = found
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found


def model_checksum(path: Path) -> str:
    """The hash of a model's model.json, which names all its files with their checksums."""
    try:
        return hashlib.sha256((path / "model.json").read_bytes()).hexdigest()[:16]
    except OSError as problem:
        raise ModelFileError(
            f"{path.name}: there is no model ({problem.strerror}). Give the directory of a saved model."
        ) from problem
