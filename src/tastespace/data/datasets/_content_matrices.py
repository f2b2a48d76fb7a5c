"""Side information as sparse matrices, row by row in the order of an `Interactions`' ids."""

from __future__ import annotations

import io
import zipfile
from typing import TypedDict

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.datasets._parsers import read_parquet
from tastespace.data.datasets.files import Files
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError


class Content(TypedDict):
    """Feature matrices, None for a side without any."""

    user: sp.csr_array | None
    """Shape ``(n_users, n_user_features)``."""
    item: sp.csr_array | None
    """Shape ``(n_items, n_item_features)``."""


def job_content(files: Files, data: Interactions) -> Content:
    """XING: 831 features of each user, 2,738 of each job, float32."""
    return Content(
        user=_rows_of(_matrix(files, "user_content.npz"), data.users, "user_content.npz"),
        item=_rows_of(_matrix(files, "item_content.npz"), data.items, "item_content.npz"),
    )


def article_tags(files: Files, data: Interactions) -> Content:
    """CiteULike: which tags an article has, 0 or 1."""
    pairs = read_parquet(files, "item_tags.parquet", {"item": "item", "tag": "tag"})
    n_tags = read_parquet(files, "tags.parquet", {"tag": "tag"}).height
    return Content(user=None, item=_indicator(data.items, pairs["item"], pairs["tag"].to_numpy(), n_tags))


def friends(files: Files, data: Interactions) -> Content:
    """Last.fm: who is whose friend, users x users, 0 or 1."""
    links = read_parquet(files, "friends.parquet", {"user_id": "user", "friend_id": "friend"})
    place = data.users.find(links["friend"])
    known = place >= 0
    return Content(
        user=_indicator(data.users, links["user"].filter(pl.Series(known)), place[known], data.n_users),
        item=None,
    )


def _matrix(files: Files, name: str) -> sp.csr_array:
    try:
        return sp.csr_array(sp.load_npz(io.BytesIO(files.read(name))))
    except (ValueError, OSError, KeyError, zipfile.BadZipFile) as problem:
        raise DataError(f"{name} cannot be read as a sparse matrix ({problem})") from problem


def _rows_of(matrix: sp.csr_array, ids: IdMap, name: str) -> sp.csr_array:
    """The rows of a matrix whose row number is the id."""
    wanted = ids.series
    if not wanted.dtype.is_integer() or not wanted.is_between(0, matrix.shape[0] - 1).all():
        raise DataError(
            f"{name} has rows 0 to {matrix.shape[0] - 1:,}, but there are ids such as {ids[len(ids) - 1]!r}; "
            "expected the interactions of the same data set"
        )
    return sp.csr_array(matrix[wanted.to_numpy()])


def _indicator(ids: IdMap, rows: pl.Series, columns: NDArray[np.int64], n_columns: int) -> sp.csr_array:
    """Ones at (id, column), rows in the order of ``ids``; rows of unknown ids are left out."""
    place = ids.find(rows)
    known = place >= 0
    if not known.any():
        raise DataError(
            f"none of the ids in the content, such as {rows[0]!r}, is one of the {len(ids):,} given, such as "
            f"{ids[0]!r}; expected the interactions of the same data set"
        )
    ones = np.ones(int(known.sum()), dtype=np.float32)
    matrix = sp.csr_array((ones, (place[known], columns[known])), shape=(len(ids), n_columns))
    matrix.data[:] = 1.0  # a pair listed twice is still one
    return matrix
