"""Check that the arrays of `Interactions` fit together: kernels trust them, and would read outside of their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tastespace.data.ids import IdMap
from tastespace.errors import DataError

if TYPE_CHECKING:
    from tastespace.data.interactions import Interactions


def require_consistent(data: Interactions) -> None:
    """Raise unless offsets and indices lie within their arrays, and there is one weight and time per interaction.

    One pass over the arrays, some 5 ms for 10 million interactions.
    """
    offsets, indices = data.offsets, data.indices
    for name, ids in (("users", data.users), ("items", data.items)):
        if not isinstance(ids, IdMap):
            raise DataError(
                f"{name}: expected an IdMap, given {type(ids).__name__}. Build interactions with from_frame."
            )
    _require_array("offsets", offsets, np.int64)
    _require_array("indices", indices, np.int32)
    n, n_users, n_items = len(indices), len(data.users), len(data.items)
    if len(offsets) != n_users + 1:
        raise DataError(
            f"offsets: expected {n_users + 1:,} numbers, one per user and one more, given {len(offsets):,}. Build "
            "interactions with from_frame, from_file or from_scipy."
        )
    if offsets[0] != 0 or offsets[-1] != n or (offsets[1:] < offsets[:-1]).any():
        raise DataError(
            f"offsets: expected numbers that ascend from 0 to {n:,}, the number of indices, given {offsets[0]:,} ... "
            f"{offsets[-1]:,}. User u has the items indices[offsets[u]:offsets[u + 1]]."
        )
    if n and (indices.min() < 0 or indices.max() >= n_items):
        raise DataError(
            f"indices: expected rows of items, 0 ... {n_items - 1:,}, given {indices.min():,} ... {indices.max():,}. "
            "Turn ids into rows with items.index_of, or build interactions with from_frame."
        )
    for name, values in (("weights", data.weights), ("timestamps", data.timestamps)):
        if values is not None and (np.shape(values) != (n,) or np.asarray(values).dtype.kind not in "iuf"):
            raise DataError(
                f"{name}: expected {n:,} numbers, one per interaction, given {np.asarray(values).dtype} of shape "
                f"{np.shape(values)}."
            )


def _require_array(name: str, array: Any, dtype: type[np.generic]) -> None:
    if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype == dtype:
        return
    given = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
    raise DataError(
        f"{name}: expected an array of {np.dtype(dtype)} of one dimension, given {given}. Build interactions with "
        "from_frame, from_file or from_scipy."
    )
