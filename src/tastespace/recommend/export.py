"""Vectors for a vector index or a vector database.

The best items under the smallest distance lie in the union of the best items of each vector, so a plain search for each
of a user's vectors, merged by distance, gives exactly what `recommend` gives.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.atomic import atomic_write
from tastespace.data.ids import fits_numpy
from tastespace.errors import DataError, ParameterError, nearest, require_path
from tastespace.extras import missing
from tastespace.models.base import Recommender
from tastespace.recommend.scoring import require_vectors
from tastespace.recommend.vector_stores.exported_vectors import ExportedVectors, plain_vectors

KINDS = ("npz", "parquet", "faiss", "usearch")


def export(model: Recommender, path: str | Path, kind: str = "npz") -> list[Path]:
    """`Recommender.export`: the files written.

    * ``npz``: one file at ``path`` with ``item_ids``, ``item_vectors``, ``user_ids``, ``user_interests`` and
      ``user_vectors``, one row per vector of a user.
    * ``parquet``: a folder with ``items.parquet`` (item, vector) and ``users.parquet`` (user, interest, vector).
    * ``faiss``: the same folder, with ``items.faiss`` besides: a flat index whose number i is row i of
      ``items.parquet``.
    * ``usearch``: the same with ``items.usearch``, whose keys are these numbers.

    ``about.json`` in the folders (``metric`` in the npz) says how vectors are compared: ``"l2"``, or ``"dot"`` for
    models of inner products. A bias of the items is a last coordinate, 1 for users.
    """
    if kind not in KINDS:
        raise ParameterError(f"kind={kind!r}: expected one of {', '.join(KINDS)}.{nearest(kind, KINDS)}")
    space = require_vectors(model, "vectors to export")
    _require_package(kind)  # before anything is written
    users, items = plain_vectors(space)
    train = model.train_
    owner = np.repeat(np.arange(train.n_users), np.diff(space.user_offsets))
    interest = (np.arange(len(owner)) - space.user_offsets[owner]).astype(np.int32)
    path = require_path(path)
    try:
        if kind == "npz":
            return [_npz(path, model, space.metric, items, users, owner, interest)]
        people = pl.DataFrame([train.users.take(owner).alias("user"), pl.Series("interest", interest)])
        return _folder(path, kind, space.metric, train.items.series, items, people, users)
    except OSError as problem:
        raise DataError(f"{path} could not be written: {problem}") from problem


def write_folder(path: Path, kind: str, vectors: ExportedVectors) -> None:
    """The folder of `export` for vectors that are to be searched by the vector stores of this library."""
    _require_package(kind)
    people = pl.DataFrame({"user": vectors.users, "interest": pl.Series(vectors.interests, dtype=pl.Int32)})
    ids = pl.Series("item", vectors.items)
    try:
        _folder(path, kind, vectors.metric, ids, vectors.item_vectors, people, vectors.user_vectors)
    except OSError as problem:
        raise DataError(f"{path} could not be written: {problem}") from problem


def _folder(
    path: Path,
    kind: str,
    metric: str,
    ids: pl.Series,
    items: NDArray[np.float32],
    people: pl.DataFrame,
    users: NDArray[np.float32],
) -> list[Path]:
    path.mkdir(parents=True, exist_ok=True)
    written = [path / "items.parquet", path / "users.parquet", path / "about.json"]
    tables = (pl.DataFrame([ids.alias("item"), _column(items)]), people.with_columns(_column(users)))
    for file_path, table in zip(written[:2], tables, strict=True):
        # An open file, because polars takes no name that is not UTF-8.
        with atomic_write(file_path) as temporary, temporary.open("wb") as file:
            table.write_parquet(file)
    about = {"metric": metric, "dim": items.shape[1], "items": len(items), "user_vectors": len(users)}
    with atomic_write(written[2]) as temporary:
        temporary.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    if kind == "faiss":
        written.append(_faiss(path / "items.faiss", metric, items))
    if kind == "usearch":
        written.append(_usearch(path / "items.usearch", metric, items))
    return written


def _column(vectors: NDArray[np.float32]) -> pl.Series:
    return pl.Series("vector", vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))


def _npz(path: Path, model: Recommender, metric: str, items: Any, users: Any, owner: Any, interest: Any) -> Path:
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; kind='npz' writes one file, such as {path / 'vectors.npz'}.")
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    train = model.train_
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            metric=np.array(metric),
            item_ids=_ids(train.items.series),
            item_vectors=items,
            user_ids=_ids(train.users.series)[owner],
            user_interests=interest,
            user_vectors=users,
        )
    return path


def _ids(series: pl.Series) -> NDArray[Any]:
    """Ids as an array that opens without pickle: text has a fixed width."""
    if fits_numpy(series.dtype) or series.dtype.is_temporal():
        return series.to_numpy()
    return np.array([str(value) for value in series.to_list()])


def import_faiss() -> Any:
    """The package faiss."""
    try:
        import faiss
    except ImportError as problem:
        raise missing("ann", "kind='faiss' needs faiss", "kind='parquet' needs nothing.") from problem
    return faiss


def import_usearch() -> Any:
    """The module of usearch that has `Index`."""
    try:
        import usearch.index
    except ImportError as problem:
        raise missing("export", "kind='usearch' needs usearch", "kind='parquet' needs nothing.") from problem
    return usearch.index


def _require_package(kind: str) -> None:
    if kind == "faiss":
        import_faiss()
    if kind == "usearch":
        import_usearch()


def _faiss(path: Path, metric: str, items: NDArray[np.float32]) -> Path:
    faiss = import_faiss()
    index = (faiss.IndexFlatL2 if metric == "l2" else faiss.IndexFlatIP)(items.shape[1])
    index.add(items)
    try:
        with atomic_write(path) as temporary:
            faiss.write_index(index, str(temporary))
    except (RuntimeError, TypeError) as problem:  # how faiss says that a file cannot be opened, or is no UTF-8
        raise OSError(str(problem)) from problem
    return path


def _usearch(path: Path, metric: str, items: NDArray[np.float32]) -> Path:
    index = import_usearch().Index(ndim=items.shape[1], metric="l2sq" if metric == "l2" else "ip", dtype="f32")
    index.add(np.arange(len(items)), items)
    try:
        with atomic_write(path) as temporary:
            index.save(str(temporary))
    except (RuntimeError, TypeError, UnicodeEncodeError) as problem:
        raise OSError(str(problem)) from problem
    return path
