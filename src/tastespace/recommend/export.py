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
from tastespace.models.vector_space import VectorSpace
from tastespace.recommend.scoring import require_vectors

KINDS = ("npz", "parquet", "faiss")


def export(model: Recommender, path: str | Path, kind: str = "npz") -> list[Path]:
    """`Recommender.export`: the files written.

    * ``npz``: one file at ``path`` with ``item_ids``, ``item_vectors``, ``user_ids``, ``user_interests`` and
      ``user_vectors``, one row per vector of a user.
    * ``parquet``: a folder with ``items.parquet`` (item, vector) and ``users.parquet`` (user, interest, vector).
    * ``faiss``: the same folder, with ``items.faiss`` besides: a flat index whose number i is row i of
      ``items.parquet``.

    ``about.json`` in the folders (``metric`` in the npz) says how vectors are compared: ``"l2"``, or ``"dot"`` for
    models of inner products. A bias of the items is a last coordinate, 1 for users.
    """
    if kind not in KINDS:
        raise ParameterError(f"kind={kind!r}: expected one of {', '.join(KINDS)}.{nearest(kind, KINDS)}")
    space = require_vectors(model, "vectors to export")
    faiss = _import_faiss() if kind == "faiss" else None  # before anything is written
    users, items = _plain(space)
    train = model.train_
    owner = np.repeat(np.arange(train.n_users), np.diff(space.user_offsets))
    interest = (np.arange(len(owner)) - space.user_offsets[owner]).astype(np.int32)
    path = require_path(path)
    try:
        if kind == "npz":
            return [_npz(path, model, space.metric, items, users, owner, interest)]
        path.mkdir(parents=True, exist_ok=True)
        written = [path / "items.parquet", path / "users.parquet", path / "about.json"]
        with (
            atomic_write(written[0]) as temporary,
            temporary.open("wb") as file,
        ):  # polars takes no name that is not UTF-8
            pl.DataFrame([train.items.series.alias("item"), _column(items)]).write_parquet(file)
        with atomic_write(written[1]) as temporary, temporary.open("wb") as file:
            columns = [train.users.take(owner).alias("user"), pl.Series("interest", interest), _column(users)]
            pl.DataFrame(columns).write_parquet(file)
        about = {"metric": space.metric, "dim": items.shape[1], "items": len(items), "user_vectors": len(users)}
        with atomic_write(written[2]) as temporary:
            temporary.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        if faiss is not None:
            written.append(_faiss(faiss, path / "items.faiss", space.metric, items))
    except OSError as problem:
        raise DataError(f"{path} could not be written: {problem}") from problem
    return written


def _plain(space: VectorSpace) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """User and item vectors between which plain L2 distance or inner product is the model's own."""
    users = np.ascontiguousarray(space.user_vectors, dtype=np.float32)
    items = np.ascontiguousarray(space.item_vectors, dtype=np.float32)
    if space.metric == "dot" and space.item_bias is not None:
        users = np.hstack([users, np.ones((len(users), 1), dtype=np.float32)])
        items = np.hstack([items, np.asarray(space.item_bias, dtype=np.float32)[:, None]])
    return users, items


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


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError as problem:
        raise missing("ann", "kind='faiss' needs faiss", "kind='parquet' needs nothing.") from problem
    return faiss


def _faiss(faiss: Any, path: Path, metric: str, items: NDArray[np.float32]) -> Path:
    index = (faiss.IndexFlatL2 if metric == "l2" else faiss.IndexFlatIP)(items.shape[1])
    index.add(items)
    try:
        with atomic_write(path) as temporary:
            faiss.write_index(index, str(temporary))
    except (RuntimeError, TypeError) as problem:  # how faiss says that a file cannot be opened, or is no UTF-8
        raise OSError(str(problem)) from problem
    return path
