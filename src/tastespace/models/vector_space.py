"""The geometry that vector models share: users as sets of vectors, items as one vector each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.errors import DataError
from tastespace.threads import resolve_threads


class ScoringVectors(NamedTuple):
    """Vectors as the ranking kernels take them: a score is the largest, over the user's vectors x, of
    ``scale * <x, v> + user_terms[x] + item_terms[v]``.
    """

    users: NDArray[np.float32]
    """Shape ``(n_vectors, dim)``."""
    user_terms: NDArray[np.float32]
    """Shape ``(n_vectors,)``."""
    offsets: NDArray[np.int64]
    """User ``u`` owns the rows ``offsets[u]:offsets[u + 1]`` of `users`."""
    items: NDArray[np.float32]
    """Shape ``(n_items, dim)``."""
    item_terms: NDArray[np.float32]
    """Shape ``(n_items,)``."""
    scale: float


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
        offsets = np.arange(len(user_vectors) + 1, dtype=np.int64)
        return cls(user_vectors, offsets, item_vectors, metric, item_bias)

    def __post_init__(self) -> None:
        for name in ("user_vectors", "item_vectors"):
            bad = np.flatnonzero(~np.isfinite(getattr(self, name)).all(axis=1))
            if len(bad):
                raise DataError(
                    f"{name}: {len(bad):,} rows hold NaN or infinite values, the first is row {bad[0]}. "
                    "Training diverged; lower the learning rate."
                )
        if self.item_bias is not None and not np.isfinite(self.item_bias).all():
            raise DataError("item_bias holds NaN or infinite values; expected a finite number per item.")

    def for_scoring(self) -> ScoringVectors:
        """The vectors as the ranking kernels take them."""
        users = np.ascontiguousarray(self.user_vectors, dtype=np.float32)
        items = np.ascontiguousarray(self.item_vectors, dtype=np.float32)
        if self.metric == "l2":
            user_terms, item_terms = (
                -np.einsum("ij,ij->i", users, users),
                -np.einsum("ij,ij->i", items, items),
            )
            scale = 2.0
        else:
            user_terms = np.zeros(len(users), dtype=np.float32)
            bias = np.zeros(len(items)) if self.item_bias is None else self.item_bias
            item_terms, scale = np.ascontiguousarray(bias, dtype=np.float32), 1.0
        return ScoringVectors(users, user_terms, self.user_offsets, items, item_terms, scale)

    def scores(self, users: NDArray[np.integer[Any]], threads: int = 0) -> NDArray[np.float32]:
        """Scores of all items, shape ``(len(users), n_items)``: for blocks of users."""
        rows = np.ascontiguousarray(users, dtype=np.int32)
        return _native.score_users(*self.for_scoring(), rows, resolve_threads(threads))

    def nearest_interests(self, users: NDArray[np.integer[Any]], threads: int = 0) -> NDArray[np.int32]:
        """Which of the user's vectors scores each item best: shape ``(len(users), n_items)``."""
        rows = np.ascontiguousarray(users, dtype=np.int32)
        return _native.nearest_interests(*self.for_scoring(), rows, resolve_threads(threads))

    def pair_scores(
        self, users: NDArray[np.integer[Any]], items: NDArray[np.integer[Any]], threads: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Score of each (user, item) pair and which of the user's vectors gives it, both of shape ``(n,)``.

        Distances are taken from the differences themselves, so that an item at a user's vector has distance 0.
        """
        bias = np.empty(0, dtype=np.float32) if self.item_bias is None else self.item_bias
        return _native.pair_scores(
            np.ascontiguousarray(self.user_vectors, dtype=np.float32),
            self.user_offsets,
            np.ascontiguousarray(self.item_vectors, dtype=np.float32),
            by_distance=self.metric == "l2",
            item_bias=np.ascontiguousarray(bias, dtype=np.float32),
            users=np.ascontiguousarray(users, dtype=np.int32),
            items=np.ascontiguousarray(items, dtype=np.int32),
            threads=threads,
        )
