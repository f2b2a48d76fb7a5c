"""The geometry that vector models share: users as sets of vectors, items as one vector each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.computed_once import computed_once, freeze, is_frozen
from tastespace._util.threads import resolve_threads
from tastespace.data.out_of_core.mapped_arrays import all_finite, row_blocks
from tastespace.errors import DataError

_NO_BIAS = np.empty(0, dtype=np.float32)
_FEW_PAIRS = 2000  # whose scores one thread computes before another has started


@dataclass(frozen=True, eq=False)
class VectorSpace:
    """Everything that scoring needs of a vector model.

    The score of an item is the best over the user's vectors: minus the squared distance for ``metric="l2"``,
    the inner product plus ``item_bias`` for ``metric="dot"``. Larger is better.
    """

    user_vectors: NDArray[np.float32]
    """Shape ``(n_vectors, dim)``, the vectors of one user after the other."""
    user_offsets: NDArray[np.int64]
    """User ``u`` owns the rows ``user_offsets[u]:user_offsets[u + 1]``. Shape ``(n_users + 1,)``."""
    item_vectors: NDArray[np.float32]
    """Shape ``(n_items, dim)``."""
    metric: Literal["l2", "dot"] = "l2"
    item_bias: NDArray[np.float32] | None = None

    @classmethod
    def single(
        cls,
        user_vectors: NDArray[np.float32],
        item_vectors: NDArray[np.float32],
        metric: Literal["l2", "dot"] = "l2",
        item_bias: NDArray[np.float32] | None = None,
    ) -> VectorSpace:
        """A space in which each user has one vector: row u of ``user_vectors`` is that of user u."""
        return cls(user_vectors, _one_each(len(user_vectors)), item_vectors, metric, item_bias)

    def __post_init__(self) -> None:
        self._require_shapes()
        for name in ("user_vectors", "item_vectors"):
            if is_frozen(getattr(self, name)) or all_finite(getattr(self, name)):  # frozen: was looked at before
                continue
            bad = np.flatnonzero(~np.isfinite(getattr(self, name)).all(axis=1))
            raise DataError(
                f"{name}: {len(bad):,} rows hold NaN or infinite values, the first is row {bad[0]}. "
                "Training diverged; lower the learning rate."
            )
        if self.item_bias is None or is_frozen(self.item_bias):
            return
        if not np.isfinite(self.item_bias).all():
            raise DataError("item_bias holds NaN or infinite values; expected a finite number per item.")

    def is_same(self, other: VectorSpace) -> bool:
        """Return whether both are made of the same arrays."""
        return (
            self.user_vectors is other.user_vectors
            and self.user_offsets is other.user_offsets
            and self.item_vectors is other.item_vectors
            and self.item_bias is other.item_bias
            and self.metric == other.metric
        )

    def freeze(self) -> VectorSpace:
        """The same space, whose arrays are read-only from now on: what scoring computes from them is computed once.

        For the vectors of a fitted model, of which one list after the other is asked; see `_util.computed_once`.
        """
        for array in (self.user_vectors, self.user_offsets, self.item_vectors, self.item_bias):
            if array is not None:
                freeze(array)
        return self

    @property
    def is_frozen(self) -> bool:
        """True if nothing can have changed since `freeze`: an array that is a view of a writable one can."""
        bias = self.item_bias
        return (
            is_frozen(self.user_vectors)
            and is_frozen(self.user_offsets)
            and is_frozen(self.item_vectors)
            and (bias is None or is_frozen(bias))
        )

    @property
    def has_valid_offsets(self) -> bool:
        """True if the offsets share all vectors out among the users."""
        offsets = self.user_offsets
        ascending = computed_once(offsets, "ascending", lambda: bool((np.diff(offsets) >= 0).all()))
        return ascending and int(offsets[-1]) == len(self.user_vectors)

    def _require_shapes(self) -> None:
        """Raise where arrays do not fit together: the kernels would read outside of them."""
        users, items, offsets = self.user_vectors, self.item_vectors, self.user_offsets
        for name, array in (("user_vectors", users), ("item_vectors", items), ("item_bias", self.item_bias)):
            if not (array is None and name == "item_bias") and getattr(array, "dtype", np.dtype("O")).kind not in "fiu":
                raise DataError(f"{name}: expected an array of numbers, given {type(array).__name__}.")
        if not isinstance(offsets, np.ndarray):
            raise DataError(f"user_offsets: expected an array of whole numbers, given {type(offsets).__name__}.")
        if users.ndim != 2 or items.ndim != 2 or users.shape[1] != items.shape[1]:
            raise DataError(
                f"user_vectors have the shape {users.shape} and item_vectors {items.shape}; expected rows of the same "
                "length, the dimension of the space."
            )
        if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or not len(offsets):
            raise DataError(
                f"user_offsets is {offsets.dtype} of shape {offsets.shape}, expected whole numbers in a row."
            )
        if offsets[0] != 0 or not self.has_valid_offsets:
            raise DataError(
                f"user_offsets go from {offsets[0]:,} to {offsets[-1]:,}, expected numbers that ascend from 0 to "
                f"{len(users):,}, the number of user vectors."
            )
        if self.item_bias is not None and self.item_bias.shape != (len(items),):
            raise DataError(
                f"item_bias has the shape {self.item_bias.shape}, expected ({len(items)},): one number per item."
            )

    def for_scoring(self) -> _native.ScoringVectors:
        """The vectors as the ranking kernels take them."""
        return _native.ScoringVectors(self.native_users, self.user_terms, self.packed_items, self.scale)

    @property
    def scale(self) -> float:
        """Factor of inner products in scores: a score is ``scale * <x, v>`` plus the terms of both vectors."""
        return 2.0 if self.metric == "l2" else 1.0

    @property
    def native_users(self) -> _native.UserVectors:
        """The users' vectors as the kernels take them."""
        return _native.UserVectors(np.ascontiguousarray(self.user_vectors, dtype=np.float32), self.user_offsets)

    @property
    def exact_items(self) -> _native.ExactItems:
        """The items for scores from the differences themselves."""
        bias = _NO_BIAS if self.item_bias is None else np.ascontiguousarray(self.item_bias, dtype=np.float32)
        items = np.ascontiguousarray(self.item_vectors, dtype=np.float32)
        return _native.ExactItems(items, self.metric == "l2", bias)

    @property
    def user_terms(self) -> NDArray[np.float32]:
        """Term of each user vector in its scores: minus its square, or 0. Shape ``(n_vectors,)``."""
        if self.metric == "l2":
            return computed_once(self.user_vectors, "minus squares", lambda: _minus_squares(self.user_vectors))
        return computed_once(self.user_vectors, "zeros", lambda: np.zeros(len(self.user_vectors), dtype=np.float32))

    @property
    def item_terms(self) -> NDArray[np.float32]:
        """Term of each item in its scores: minus its square, or its bias. Shape ``(n_items,)``."""
        if self.metric == "l2":
            return computed_once(self.item_vectors, "minus squares", lambda: _minus_squares(self.item_vectors))
        bias = np.zeros(len(self.item_vectors)) if self.item_bias is None else self.item_bias
        return np.ascontiguousarray(bias, dtype=np.float32)

    @property
    def packed_items(self) -> _native.PackedItems:
        """All items in the order in which the kernels read them, put in order once for vectors that do not change."""
        if self.metric == "l2":
            return computed_once(self.item_vectors, "packed by distance", self.packed)
        if self.item_bias is None:
            return computed_once(self.item_vectors, "packed by product", self.packed)
        if not is_frozen(self.item_bias):
            return self.packed()
        bias = self.item_bias  # held with what was computed from it, so that no other array has its number
        return computed_once(self.item_vectors, ("packed by product", id(bias)), lambda: (bias, self.packed()))[1]

    def packed(self, rows: NDArray[np.integer[Any]] | None = None) -> _native.PackedItems:
        """The items at these rows, by default all, in the order in which the kernels read them."""
        vectors, terms = self.item_vectors, self.item_terms
        if rows is not None:
            vectors, terms = vectors[rows], terms[rows]
        return _native.PackedItems(np.ascontiguousarray(vectors, dtype=np.float32), terms)

    def scores(self, users: NDArray[np.integer[Any]], threads: int = 0) -> NDArray[np.float32]:
        """Scores of all items, shape ``(len(users), n_items)``: for blocks of users."""
        rows = np.ascontiguousarray(users, dtype=np.int32)
        n_threads = 1 if len(rows) == 1 else resolve_threads(threads)  # to start threads takes longer
        return _native.score_users(self.for_scoring(), rows, n_threads)

    def nearest_interests(self, users: NDArray[np.integer[Any]], threads: int = 0) -> NDArray[np.int32]:
        """The number of the user's vector that scores each item best: shape ``(len(users), n_items)``."""
        rows = np.ascontiguousarray(users, dtype=np.int32)
        return _native.nearest_interests(self.for_scoring(), rows, resolve_threads(threads))

    def pair_scores(
        self, users: NDArray[np.integer[Any]], items: NDArray[np.integer[Any]], threads: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Score of each (user, item) pair and which of the user's vectors gives it, both of shape ``(n,)``.

        Distances are taken from the differences themselves, so that an item at a user's vector has distance 0.
        """
        if len(items) < _FEW_PAIRS:
            threads = 1
        return _native.pair_scores(
            self.native_users,
            self.exact_items,
            users=np.ascontiguousarray(users, dtype=np.int32),
            items=np.ascontiguousarray(items, dtype=np.int32),
            threads=threads,
        )


@lru_cache(maxsize=4)
def _one_each(n_users: int) -> NDArray[np.int64]:
    """Offsets of users with one vector each."""
    offsets = np.arange(n_users + 1, dtype=np.int64)
    freeze(offsets)
    return offsets


def _minus_squares(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    found = np.empty(len(vectors), dtype=np.float32)
    for rows in row_blocks(vectors):  # they may be larger than memory
        block = np.ascontiguousarray(vectors[rows], dtype=np.float32)
        np.einsum("ij,ij->i", block, block, out=found[rows])
    return np.negative(found, out=found)
