"""`Interactions` as files: compressed rows as tensors, the ids and attributes of both sides as Parquet."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.model_files import read_regular, require_checksum
from tastespace._util.threads import require_polars
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Cleaning, Interactions
from tastespace.data.reading.options import check_events
from tastespace.errors import DataError, ModelFileError, ParameterError
from tastespace.store._json_values import Tensors

_BLOCK = 1 << 22  # indices that are compared at once
_TYPES = {"offsets": ("int64",), "indices": ("int32",), "weights": ("float32",), "timestamps": ("int64", "float64")}


def summary_of(data: Interactions) -> dict[str, Any]:
    """The counts, fingerprint and column names of the data, for model.json."""
    tables = {"user": data.user_attributes, "item": data.item_attributes}
    return {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": data.n_interactions,
        "fingerprint": data.fingerprint(),
        "backend": data.backend,
        **{
            f"{kind}_attributes": None if table is None else [name for name in table.columns if name != kind]
            for kind, table in tables.items()
        },
        **({} if data.events is None else {"events": data.events}),
        "cleaning": {name: int(count) for name, count in asdict(data.cleaning).items()},
    }


def seen_tensors(data: Interactions) -> Tensors:
    """The arrays of the interactions, those that are there."""
    found = {name: getattr(data, name) for name in _TYPES}
    tensors = {name: array for name, array in found.items() if array is not None}
    counts = {"users": data.n_users, "items": data.n_items, "interactions": data.n_interactions}
    _check_arrays(counts, tensors, "train_")
    offsets, items = data.disliked
    if len(items):
        owners = np.repeat(np.arange(data.n_users, dtype=np.int32), np.diff(offsets))
        tensors |= {"dislike_users": owners, "dislike_items": items}
    return tensors


def table_bytes(data: Interactions, kind: str) -> bytes:
    """The ids of ``kind`` ("user" or "item") and their attributes, as a Parquet file."""
    ids: IdMap = getattr(data, f"{kind}s")
    attributes: pl.DataFrame | None = getattr(data, f"{kind}_attributes")
    frame = ids.series.alias(kind).to_frame()
    if attributes is not None:
        frame = pl.concat([frame, attributes.drop(kind, strict=False)], how="horizontal")
    require_polars("save")
    buffer = io.BytesIO()
    try:
        frame.write_parquet(buffer)
    except pl.exceptions.PolarsError as problem:
        types = ", ".join(f"{name} ({dtype})" for name, dtype in frame.schema.items())
        raise DataError(
            f"the {kind}s cannot be written as Parquet: {str(problem).splitlines()[0]}. Their columns are {types}; "
            "convert the one in question, or leave it out of the attributes."
        ) from problem
    return buffer.getvalue()


def read_table(path: Path, kind: str, summary: Mapping[str, Any], crc32: str | None = None) -> pl.DataFrame:
    """Read what `table_bytes` gave, checked against model.json and its checksum ``crc32``."""
    require_polars("load")
    try:
        content = read_regular(path)
    except OSError as problem:
        raise ModelFileError(f"{path} cannot be read ({problem.strerror or problem}).") from problem
    if crc32 is not None:
        require_checksum(path, content, crc32)
    try:
        frame = pl.read_parquet(content)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as problem:
        reason = next(iter(str(problem).splitlines()), type(problem).__name__)
        raise ModelFileError(f"{path} is damaged: it cannot be read as Parquet ({reason}).") from problem
    expected = [kind, *(summary[f"{kind}_attributes"] or [])]
    if frame.columns != expected:
        raise ModelFileError(f"{path} has the columns {frame.columns}, model.json says {expected}.")
    if len(frame) != summary[f"{kind}s"] or frame[kind].null_count():
        found = len(frame) - frame[kind].null_count()
        raise ModelFileError(f"{path} holds {found:,} {kind} ids, model.json says {summary[f'{kind}s']:,}.")
    return frame


def restore(
    summary: Mapping[str, Any], tensors: Tensors, users: pl.DataFrame, items: pl.DataFrame, where: str, verify: bool
) -> Interactions:
    """The interactions again, on top of the mapped arrays.

    The kernels trust offsets and indices, so a number that would send them outside of an array must end here; that
    costs two passes over them. ``verify`` looks at the order of ids as well.
    """
    dislikes = _dislikes(tensors, users, items, where)
    tensors = {name: array for name, array in tensors.items() if not name.startswith("dislike_")}
    _check_arrays(summary, tensors, where)
    offsets, indices = tensors["offsets"], tensors["indices"]
    _require_ascending(offsets, indices, where)
    if verify:
        for kind, frame in (("user", users), ("item", items)):
            if not frame[kind].is_sorted() or frame[kind].n_unique() < len(frame):
                raise ModelFileError(f"{where}: the {kind} ids are not in ascending order, or one is there twice.")
    counts = {f.name: summary["cleaning"].get(f.name, 0) for f in fields(Cleaning)}
    return Interactions(
        IdMap(users["user"], "user"),
        IdMap(items["item"], "item"),
        offsets,
        indices,
        tensors.get("weights"),
        tensors.get("timestamps"),
        item_attributes=None if summary["item_attributes"] is None else items,
        user_attributes=None if summary["user_attributes"] is None else users,
        dislikes=dislikes,
        events=_events(summary.get("events"), where),
        backend=summary["backend"],
        cleaning=Cleaning(**counts),
    )


def _dislikes(tensors: Tensors, users: pl.DataFrame, items: pl.DataFrame, where: str) -> pl.DataFrame | None:
    """The disliked pairs as ids."""
    arrays = [tensors.get("dislike_users"), tensors.get("dislike_items")]
    if arrays[0] is None and arrays[1] is None:
        return None
    columns = []
    for array, frame, kind in zip(arrays, (users, items), ("user", "item"), strict=True):
        if array is None or arrays[0] is None or array.dtype != np.int32 or array.shape != arrays[0].shape:
            raise ModelFileError(f"{where}: dislike_users and dislike_items are not two int32 arrays of one length.")
        if len(array) and not (array.min() >= 0 and array.max() < len(frame)):
            raise ModelFileError(f"{where}: the {kind}s of dislikes lie outside of 0 ... {len(frame) - 1:,}.")
        columns.append(frame[kind].gather(pl.Series(array)))
    return pl.DataFrame(columns)


def _events(stored: Any, where: str) -> dict[str, float] | None:
    if stored is None:
        return None
    try:
        check_events(stored)
    except ParameterError as problem:
        raise ModelFileError(f"{where}: {problem}") from problem
    return {name: float(weight) for name, weight in stored.items()}


def _require_ascending(offsets: NDArray[np.int64], indices: NDArray[np.int32], where: str) -> None:
    for first in range(0, len(indices), _BLOCK):
        block = indices[first : first + _BLOCK + 1]
        falls = np.flatnonzero(block[1:] <= block[:-1]) + first + 1  # only where another user begins
        if (offsets[np.searchsorted(offsets, falls)] != falls).any():
            raise ModelFileError(f"{where}: the items of a user are not in ascending order.")


def _check_arrays(summary: Mapping[str, Any], tensors: Tensors, where: str) -> None:
    n_users, n_items, n = summary["users"], summary["items"], summary["interactions"]
    for name in ("offsets", "indices"):
        if name not in tensors:
            raise ModelFileError(f"{where}: the array {name!r} of the seen interactions is missing.")
    for name, array in tensors.items():
        expected = n_users + 1 if name == "offsets" else n
        if array.dtype.name not in _TYPES.get(name, ()) or array.shape != (expected,):
            raise ModelFileError(
                f"{where}: {name!r} of the seen interactions is {array.dtype} of shape {array.shape}; expected "
                f"{' or '.join(_TYPES.get(name, ['no such array']))} of shape {(expected,)} for {n_users:,} users and "
                f"{n:,} interactions."
            )
    offsets: NDArray[np.int64] = tensors["offsets"]
    indices: NDArray[np.int32] = tensors["indices"]
    if offsets[0] != 0 or offsets[-1] != n or (offsets[1:] < offsets[:-1]).any():
        raise ModelFileError(f"{where}: the offsets do not ascend from 0 to {n:,}, the number of interactions.")
    if n and (indices.min() < 0 or indices.max() >= n_items):
        raise ModelFileError(f"{where}: the item indices lie outside of 0 ... {n_items - 1:,}.")
