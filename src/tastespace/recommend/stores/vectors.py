"""Vectors for a vector index or database: plain vectors whose distances or inner products are the model's scores.

The best items under the smallest distance lie in the union of the best items of each vector, so a plain search for each
of a user's vectors, merged by distance, gives exactly the list of `recommend`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.atomic import atomic_write
from tastespace._util.extras import missing
from tastespace.data.ids import fits_numpy
from tastespace.errors import (
    Argument,
    DataError,
    ParameterError,
    nearest,
    require_path,
)
from tastespace.models.base import Recommender
from tastespace.models.blend.members import named_members
from tastespace.models.blend.model import Blend
from tastespace.models.vector_space import VectorSpace
from tastespace.ranking.scoring import require_vectors

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ExportedVectors:
    """Vectors of items and users with their ids, which are whole numbers or text."""

    metric: str
    """``"l2"`` or ``"dot"``."""
    items: list[Any]
    """Ids of items, ascending: the place is the number of the item."""
    item_vectors: NDArray[np.float32]
    users: list[Any]
    """Ids of users, one for each row of `user_vectors`."""
    interests: list[int]
    """Numbers of the vectors of a user, from 0."""
    user_vectors: NDArray[np.float32]

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return int(self.item_vectors.shape[1])


def vector_model(model: Recommender, member: str | None = None) -> Recommender:
    """Return the part of a model that ranks by vectors alone: the model itself, or a member of a blend.

    A blend ranks by a sum of scores, which no vector index computes. ``member`` is the name of one of its members, such
    as ``"dpcml"``; None: the one with vectors that has most weight, which is logged, because its lists are others.

    >>> from tastespace import Blend, CML, EASE, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> blend = Blend.of([CML(dim=8, epochs=5).fit(town), EASE().fit(town)], [0.7, 0.3])
    >>> vector_model(blend, "cml")
    CML(epochs=5, dim=8)
    """
    model.require_fitted()
    named = named_members(model.members_) if isinstance(model, Blend) else {}
    able = {name: one for name, one in named.items() if one.vectors() is not None}
    with_vectors = f"with vectors {', '.join(able)}" if able else "none of which has vectors"
    if member is not None:
        if member in able:
            return able[member]
        what = f"its members are {', '.join(named)}, {with_vectors}" if named else "it is no blend and has no members"
        raise ParameterError(Argument("member", member), f": {type(model).__name__} has none of this kind; {what}.")
    if model.vectors() is not None or not named:
        return model
    if not able:
        raise ParameterError(
            f"{type(model).__name__} ranks by the scores of its members {', '.join(named)}, {with_vectors}: there is "
            "nothing that a vector index could search. Models with vectors are DPCML (several per user) and CML."
        )
    weights = dict(zip(named, cast(Blend, model).weights_, strict=True))
    chosen = max(able, key=lambda name: weights[name])
    log.warning(
        "%s ranks by a weighted sum of the scores of %s, which no vector index computes: these are the vectors of %s, "
        "which ranks alone there",
        type(model).__name__,
        ", ".join(named),
        chosen,
    )
    return able[chosen]


def vectors_to_export(model: Recommender) -> ExportedVectors:
    """Return the vectors of a model; raise for one that has none."""
    space = require_vectors(model, "vectors to export")
    users, items = plain_vectors(space)
    train = model.train_
    owner = np.repeat(np.arange(train.n_users), np.diff(space.user_offsets))
    interest = np.arange(len(owner)) - space.user_offsets[owner]
    ids = np.array(plain_ids(train.users.series), dtype=object)
    return ExportedVectors(
        space.metric, plain_ids(train.items.series), items, ids[owner].tolist(), interest.tolist(), users
    )


def plain_vectors(space: VectorSpace) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """User and item vectors between which plain L2 distance or inner product is the model's own."""
    users = np.ascontiguousarray(space.user_vectors, dtype=np.float32)
    items = np.ascontiguousarray(space.item_vectors, dtype=np.float32)
    if space.metric == "dot" and space.item_bias is not None:
        users = np.hstack([users, np.ones((len(users), 1), dtype=np.float32)])
        items = np.hstack([items, np.asarray(space.item_bias, dtype=np.float32)[:, None]])
    return users, items


def plain_ids(ids: pl.Series | Iterable[Any]) -> list[Any]:
    """Ids as a store takes them: whole numbers and text as they are, all else as text.

    >>> import datetime
    >>> plain_ids([7, "jam", datetime.date(2024, 1, 2)])
    [7, 'jam', '2024-01-02']
    """
    values = ids.to_list() if isinstance(ids, pl.Series) else list(ids)
    return [plain_id(value) for value in values]


def plain_id(value: Any) -> Any:
    """One id as a store takes it."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    return str(value)


def storable(value: Any) -> bool:
    """Return true if stores can hold an id: text, or a whole number of 64 bits."""
    return not isinstance(value, int) or -(2**63) <= value < 2**63


KINDS = ("npz", "parquet", "faiss", "usearch")


def export(model: Recommender, path: str | Path, kind: str = "npz", member: str | None = None) -> list[Path]:
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
    model = vector_model(model, member)
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
    """Write the folder of `export` for vectors that are searched by the vector stores of this library."""
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
    except (RuntimeError, TypeError) as problem:  # raised by faiss for a file that cannot be opened or is no UTF-8
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
