"""Base of all vector stores: write, open, search with several vectors, lists for users.

The best k items by the nearest of a user's vectors lie in the union of the best k of each vector, so plain searches and
a merge give the ranking of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from tastespace._util.checks import require_whole
from tastespace.errors import DataError, ParameterError, UnknownIdError
from tastespace.recommend.stores._address import StoreAddress
from tastespace.recommend.stores.vectors import ExportedVectors, plain_id, plain_ids


class Candidates(NamedTuple):
    """Results of the searches of one user: an item may be found once for each vector."""

    numbers: NDArray[np.int64]
    """Number of the item in the store, by which ties are broken, shape ``(n,)``."""
    items: Sequence[Any]
    """Its id."""
    scores: NDArray[np.float64]
    """Minus the squared distance, or the inner product."""
    interests: NDArray[np.int64]
    """Number of the user's vector that the score belongs to."""
    bound: float = -np.inf
    """No item that is not here has a larger score; minus infinity where all items are here."""


class MergedList(NamedTuple):
    """Items by their best score."""

    items: list[Any]
    scores: NDArray[np.float64]
    interests: NDArray[np.int64]


def merged_list(found: Candidates, k: int, seen: Collection[Any] = ()) -> tuple[MergedList, bool]:
    """The best k items by the best score of each, and the vector that gives it; items in ``seen`` are left out.

    The second value is true if the list is certain, false if items that were not found might tie with its last.
    Ties are broken by the item's number, then by the interest's.

    >>> numbers, scores, interests = np.array([3, 1, 1, 2]), np.array([-1.0, -2.0, -0.5, -3.0]), np.array([0, 0, 1, 1])
    >>> found, certain = merged_list(Candidates(numbers, ["c", "a", "a", "b"], scores, interests, -3.0), 2)
    >>> found.items, found.interests.tolist(), certain
    (['a', 'c'], [1, 0], True)
    """
    kept = np.flatnonzero([item not in seen for item in found.items])
    order = kept[np.lexsort((found.interests[kept], found.numbers[kept], -found.scores[kept]))]
    first = np.sort(np.unique(found.numbers[order], return_index=True)[1])
    best = order[first][:k]
    scores = found.scores[best]
    certain = found.bound == -np.inf or (len(best) == k and bool(scores[-1] > found.bound))
    return MergedList([found.items[at] for at in best], scores, found.interests[best]), certain


def candidates_of(
    lists: Sequence[tuple[Sequence[int], Sequence[Any], Sequence[float]]], asked: int, n_items: int
) -> Candidates:
    """The lists of several vectors (numbers, ids, scores, best first) as one; each was asked for ``asked`` items."""
    numbers = np.concatenate([np.asarray(one[0], dtype=np.int64) for one in lists])
    items = [item for one in lists for item in one[1]]
    scores = [np.asarray(one[2], dtype=np.float64) for one in lists]
    interests = np.repeat(np.arange(len(lists)), [len(one) for one in scores])
    bound = -np.inf if asked >= n_items else max(float(one.min()) for one in scores)
    return Candidates(numbers, items, np.concatenate(scores), interests, bound)


class VectorStore(ABC):
    """Item and user vectors in a database or index.

    `recommend` gives the lists of the model's own `recommend`; distances are those that the store computes, so items
    whose distances differ by rounding only may change places.
    """

    metric: str
    """``"l2"`` or ``"dot"``."""
    dim: int
    n_items: int

    def __init__(self, address: StoreAddress) -> None:
        self.address = address

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_items:,} items, {self.dim} dimensions, {self.metric})"

    @abstractmethod
    def write(self, vectors: ExportedVectors, replace: bool) -> None:
        """Write all vectors, in place of those that were there; afterwards the store is open.

        Vectors of another dimension or metric under the same name are an error unless ``replace``.
        """

    @abstractmethod
    def open(self) -> None:
        """Read `metric`, `dim` and `n_items` of what is stored."""

    @abstractmethod
    def user_vectors(self, user: Hashable) -> NDArray[np.float32]:
        """The stored vectors of a user, shape ``(n_interests, dim)``; an unknown user is an error."""

    @abstractmethod
    def _candidates(self, vectors: NDArray[np.float32], n: int, seen: Collection[Any]) -> Candidates:
        """Search for each vector: return at least the best ``n`` items that are not in ``seen``."""

    def close(self) -> None:  # noqa: B027 - nothing to do for files
        """Close the connection, if there is one."""

    def __enter__(self) -> VectorStore:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def search(self, vectors: ArrayLike, k: int = 10, *, seen: Iterable[Hashable] = ()) -> MergedList:
        """The best k items for a user with these vectors, shape ``(n_interests, dim)``; ``seen`` items are left out."""
        require_whole("k", k)
        try:
            query = np.ascontiguousarray(np.atleast_2d(np.asarray(vectors, dtype=np.float32)))
        except (TypeError, ValueError) as problem:
            raise DataError(
                f"vectors are no rows of {self.dim} numbers, as the vectors in {self.address} have: {problem}"
            ) from problem
        if isinstance(seen, str) or not isinstance(seen, Iterable):
            raise ParameterError(f"seen={seen!r}: expected a list of items to leave out; an empty one for none.")
        if query.ndim != 2 or query.shape[1] != self.dim or not len(query):
            raise DataError(
                f"vectors have the shape {np.shape(vectors)}; expected one or more rows of {self.dim} numbers, as the "
                f"vectors in {self.address} have."
            )
        if not np.isfinite(query).all():
            raise DataError("vectors hold NaN or infinite values; expected finite numbers.")
        left_out = set(plain_ids(seen))
        wanted = k + 1  # one more, so that a tie with the last is seen
        while True:
            found, certain = merged_list(self._candidates(query, wanted, left_out), k, left_out)
            if certain or wanted >= self.n_items:
                return found
            wanted = min(2 * wanted, self.n_items)

    def recommend(
        self, user: Hashable, k: int = 10, *, seen: Iterable[Hashable] = (), vectors: ArrayLike | None = None
    ) -> pl.DataFrame:
        """The best k items of a user, by the stored vectors or by these: user, item, rank, score, distance, interest.

        ``distance`` is squared and given for models of distances only. ``seen`` are items to leave out: a store does
        not know the user's items.
        """
        found = self.search(self.user_vectors(user) if vectors is None else vectors, k, seen=seen)
        n = len(found.items)
        columns = {
            "user": pl.Series([plain_id(user)] * n),
            "item": pl.Series(found.items),
            "rank": pl.Series(np.arange(1, n + 1, dtype=np.int32)),
            "score": pl.Series(found.scores.astype(np.float32)),
        }
        if self.metric == "l2":
            columns["distance"] = -columns["score"]
        return pl.DataFrame({**columns, "interest": pl.Series(found.interests.astype(np.int32))})

    # ---- for the engines -----------------------------------------------------------------------------------

    def _remember(self, vectors: ExportedVectors) -> None:
        self.metric, self.dim, self.n_items = vectors.metric, vectors.dim, len(vectors.items)

    def _require_same(self, vectors: ExportedVectors, metric: str, dim: int, replace: bool) -> None:
        """Raise where other vectors are stored under the same name, unless they may be replaced."""
        if not replace and (metric, dim) != (vectors.metric, vectors.dim):
            raise ParameterError(
                f"{self.address} has vectors of {dim} dimensions compared by {metric} under the name "
                f"{self.address.name!r}; the model's have {vectors.dim}, compared by {vectors.metric}. Choose another "
                "place or name (?name=...), or replace them (replace=True, --replace)."
            )

    def _unreachable(self, problem: BaseException, advice: str = "") -> DataError:
        text = str(problem).strip().splitlines()
        return DataError(
            f"{self.address} cannot be reached or used: {text[0] if text else type(problem).__name__}. {advice}".strip()
        )

    def _require_folder(self) -> None:
        """Raise where the folder of a file to be written is missing: engines only say "cannot open"."""
        folder = self.address.path.parent
        if not folder.is_dir():
            raise DataError(
                f"{self.address} cannot be written: there is no folder {folder}. Make it first, or name another place."
            )

    def _not_ours(self, found: str) -> DataError:
        return DataError(
            f"{self.address}: {found}. Write vectors there with export_to or tastespace export --to, or check the name "
            f"(?name=..., now {self.address.name!r})."
        )

    def _foreign(self, found: str) -> DataError:
        return DataError(
            f"{self.address}: {found} is there and was not written by tastespace, so it is left as it is. Choose "
            f"another name (?name=..., now {self.address.name!r}) or place."
        )

    def _unknown_user(self, user: Hashable) -> UnknownIdError:
        return UnknownIdError(
            f"{self.address} has no vectors of the user {user!r} ({type(user).__name__}). Give the vectors of a person "
            "who was not in training: recommend(user, vectors=...)."
        )
