"""Folders with an index file of faiss or usearch: items and users are Parquet beside it, see `export`."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Hashable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.errors import DataError
from tastespace.recommend.stores._base import Candidates, VectorStore, candidates_of
from tastespace.recommend.stores.vectors import (
    ExportedVectors,
    import_faiss,
    import_usearch,
    plain_id,
    plain_ids,
    write_folder,
)


class IndexStore(VectorStore):
    """A folder that ``export(kind="faiss")`` or ``kind="usearch"`` writes."""

    kind: str

    def write(self, vectors: ExportedVectors, replace: bool) -> None:
        """Write the folder, in place of what was there."""
        folder = self.address.path
        if (folder / "about.json").exists():
            about = self._about(folder)
            self._require_same(vectors, about["metric"], about["dim"], replace)
        write_folder(folder, self.kind, vectors)
        self.open()

    def open(self) -> None:
        """Read ids and map the index."""
        folder = self.address.path
        about = self._about(folder)
        self.metric, self.dim, self.n_items = about["metric"], about["dim"], about["items"]
        try:
            self._items = plain_ids(pl.read_parquet(folder / "items.parquet", columns=["item"])["item"])
            self._users = pl.read_parquet(folder / "users.parquet")
        except (OSError, pl.exceptions.PolarsError) as problem:
            raise self._unreachable(problem) from problem
        path = folder / f"items.{self.kind}"
        if not path.is_file():
            raise self._not_ours(f"there is no {path.name} in the folder")
        self._read(path)

    def _about(self, folder: Path) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise self._not_ours("there is no about.json that says what the vectors are") from problem
        return found

    @abstractmethod
    def _read(self, path: Path) -> None:
        """Read the index file."""

    @abstractmethod
    def _search(self, vectors: NDArray[np.float32], n: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Numbers and scores of the best n items for each vector, both of shape ``(len(vectors), n)``."""

    def user_vectors(self, user: Hashable) -> NDArray[np.float32]:
        """The stored vectors of a user, shape ``(n_interests, dim)``; an unknown user is an error."""
        wanted = plain_id(user)
        whole = self._users["user"].dtype.is_integer()
        if isinstance(wanted, int) != whole:
            raise self._unknown_user(user)
        ids = self._users["user"] if whole else self._users["user"].cast(pl.String)
        mine = self._users.filter(ids == wanted).sort("interest")
        if not len(mine):
            raise self._unknown_user(user)
        return np.asarray(mine["vector"].to_numpy(), dtype=np.float32)

    def _candidates(self, vectors: NDArray[np.float32], n: int, seen: Collection[Any]) -> Candidates:
        limit = min(n + len(seen), self.n_items)
        numbers, scores = self._search(vectors, limit)
        lists = []
        for found, values in zip(numbers, scores, strict=True):
            lists.append((found, [self._items[at] for at in found], values))
        return candidates_of(lists, limit, self.n_items)


class FaissStore(IndexStore):
    """``faiss://folder``: a flat index, which searches exactly."""

    kind = "faiss"

    def _read(self, path: Path) -> None:
        faiss = import_faiss()
        try:
            self._index = faiss.read_index(str(path))
        except RuntimeError as problem:
            raise DataError(f"{path} is no index of faiss that can be read: {problem}") from problem

    def _search(self, vectors: NDArray[np.float32], n: int) -> tuple[NDArray[Any], NDArray[Any]]:
        values, numbers = self._index.search(vectors, n)
        return numbers, -values if self.metric == "l2" else values


class UsearchStore(IndexStore):
    """``usearch://folder``: an index of usearch, searched exactly, so that lists are those of the model."""

    kind = "usearch"

    def _read(self, path: Path) -> None:
        usearch = import_usearch()
        try:
            self._index = usearch.Index.restore(str(path), view=True)
        except Exception as problem:  # usearch raises plain exceptions of many kinds
            raise DataError(f"{path} is no index of usearch that can be read: {problem}") from problem
        if self._index is None:
            raise DataError(f"{path} is no index of usearch that can be read.")

    def _search(self, vectors: NDArray[np.float32], n: int) -> tuple[NDArray[Any], NDArray[Any]]:
        found = self._index.search(vectors, n, exact=True)
        numbers, values = (np.atleast_2d(one) for one in (found.keys, found.distances))
        return numbers.astype(np.int64), -values if self.metric == "l2" else 1 - values
