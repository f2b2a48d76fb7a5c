"""The files of `Interactions` that are not in memory: rows as mapped arrays, ids as Arrow files.

A folder holds ``interactions.json``, which is written last and names the subfolder with the files. A build that was
stopped leaves the table of the build before, if there was one.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.atomic import atomic_write
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Cleaning, Interactions
from tastespace.data.out_of_core.mapped_arrays import map_file
from tastespace.errors import DataError, require_path

FORMAT = 1
_MANIFEST = "interactions.json"
_PREFIX = "table-"
_ARRAYS = ("offsets", "indices", "weights", "timestamps")


class ArrayWriter:
    """An array of one dimension that is appended to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self.dtype: np.dtype[Any] | None = None
        self.length = 0

    def append(self, values: NDArray[Any]) -> None:
        """Write more numbers."""
        self.dtype = values.dtype
        self.length += len(values)
        self._file.write(np.ascontiguousarray(values).data)

    def close(self) -> NDArray[Any]:
        """The whole array, mapped."""
        self._file.close()
        assert self.dtype is not None
        return map_file(self._path, self.dtype, (self.length,))


@contextmanager
def new_table(folder: str | Path) -> Iterator[Path]:
    """A new subfolder for the files of a table; removed where the block raises."""
    where = require_path(folder, "spill")
    if where.is_dir() and any(where.iterdir()) and not _is_ours(where):
        raise DataError(f"{where}: the folder for spilled files holds other files. Give an empty one, or a new name.")
    try:
        own = where / f"{_PREFIX}{secrets.token_hex(4)}"
        own.mkdir(parents=True)
    except OSError as problem:
        raise DataError(f"{where}: cannot be written ({problem.strerror or problem}).") from problem
    try:
        yield own
    except OSError as problem:
        shutil.rmtree(own, ignore_errors=True)
        raise DataError(
            f"{where}: the table could not be written ({problem.strerror or problem}). It takes about as much room as "
            "its rows, twice while it is built."
        ) from problem
    except BaseException:
        shutil.rmtree(own, ignore_errors=True)
        raise


def finish_table(table: Path, arrays: dict[str, NDArray[Any]], ids: dict[str, pl.Series], cleaning: Cleaning) -> None:
    """Write the ids and, last, the file that makes the table the one of its folder; older tables are removed."""
    for kind, series in ids.items():
        series.alias(kind).to_frame().write_ipc(table / f"{kind}s.arrow", compression="uncompressed")
    facts = {
        "format": FORMAT,
        "table": table.name,
        "arrays": {name: [array.dtype.name, len(array)] for name, array in arrays.items()},
        "ids": {kind: len(series) for kind, series in ids.items()},
        "cleaning": asdict(cleaning),
    }
    with atomic_write(table.parent / _MANIFEST) as temporary:
        temporary.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    for old in table.parent.glob(f"{_PREFIX}*"):
        if old != table:
            shutil.rmtree(old, ignore_errors=True)  # who has mapped its files keeps them


def open_spilled(folder: str | Path) -> Interactions:
    """The interactions that ``spill=`` left in a folder, for another process or another day.

    >>> import tempfile
    >>> rows = pl.DataFrame({"user": ["ann", "bob", "ann"], "item": [7, 7, 9]})
    >>> place = Path(tempfile.mkdtemp())
    >>> rows.write_parquet(place / "clicks.parquet")
    >>> data = Interactions.from_file(place / "clicks.parquet", spill=place / "spilled")
    >>> open_spilled(place / "spilled").fingerprint() == data.fingerprint()
    True
    """
    where = require_path(folder, "spill")
    try:
        facts = json.loads((where / _MANIFEST).read_text(encoding="utf-8"))
        table = where / facts["table"]
        arrays = {
            name: map_file(table / f"{name}.bin", np.dtype(kind), (length,))
            for name, (kind, length) in facts["arrays"].items()
        }
        ids = {kind: _read_ids(table / f"{kind}s.arrow", kind) for kind in ("user", "item")}
        cleaning = Cleaning(**facts["cleaning"])
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError) as problem:
        if isinstance(problem, DataError):
            raise
        raise DataError(
            f"{where}: no table of interactions ({problem}). Build one with Interactions.from_file(..., spill=...)."
        ) from problem
    return Interactions(
        ids["user"],
        ids["item"],
        arrays["offsets"],
        arrays["indices"],
        arrays.get("weights"),
        arrays.get("timestamps"),
        cleaning=cleaning,
    )


def array_path(table: Path, name: str) -> Path:
    """The file of one of the arrays of `Interactions`."""
    assert name in _ARRAYS
    return table / f"{name}.bin"


def _read_ids(path: Path, kind: str) -> IdMap:
    with path.open("rb") as file:
        return IdMap(pl.read_ipc(file).to_series(), kind)


def _is_ours(folder: Path) -> bool:
    return all(path.name == _MANIFEST or path.name.startswith((_PREFIX, ".")) for path in folder.iterdir())
