"""One model as it is served: opened once and never changed."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import tastespace
from tastespace._util.lru import LruCache
from tastespace.answers.catalog import Catalog, model_facts, plain_value
from tastespace.answers.ids import id_from_text
from tastespace.errors import ModelFileError
from tastespace.models.base import Recommender
from tastespace.serve.schemas import Can, ModelAnswer
from tastespace.store import inspect, load

_QUICK_PRODUCTS = 4_000_000
_MOST_USERS = 100_000  # whose ids and rows are remembered


class ServedModel(Catalog):
    """A fitted model from a directory, and what is computed from it once."""

    def __init__(self, model: Recommender, path: Path, checksum: str) -> None:
        super().__init__(model)
        self.path, self.checksum, self.generation = path, checksum, 0
        self._user_ids: LruCache[str, Any] = LruCache(_MOST_USERS)
        self._user_rows: LruCache[Any, int] = LruCache(_MOST_USERS)

    @classmethod
    def open(cls, path: Path) -> ServedModel:
        """Return the model in a directory, checked by asking it for one list."""
        path = path.resolve()
        checksum = model_checksum(path)
        model = load(path)
        served = cls(model, path, checksum)
        rows = np.flatnonzero(model.can_serve(np.arange(model.train_.n_users)))[:1]
        if len(rows):
            model.recommend_indices(rows, k=1, profile=False, threads=1)
        _ = (served.titles, served.category_codes, served.info)
        return served

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
        """True where a list takes about a tenth of a millisecond: made from vectors, not too many of them."""
        space = self.index.space
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


def model_checksum(path: Path) -> str:
    """Return the hash of a model's model.json, which names all its files with their checksums."""
    try:
        return hashlib.sha256((path / "model.json").read_bytes()).hexdigest()[:16]
    except OSError as problem:
        raise ModelFileError(
            f"{path.name}: there is no model ({problem.strerror}). Give the directory of a saved model."
        ) from problem
