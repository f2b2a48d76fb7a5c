"""Inputs of an evaluation: interactions in the indices of a model, and what metrics read in addition to the lists."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.attributes import Categories, item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, ParameterError, UnknownIdError
from tastespace.evaluation.protocols import Protocol
from tastespace.evaluation.shelf_checks import ShelfChecks, sampled_users, why_no_reasons
from tastespace.models.base import Recommender
from tastespace.models.vector_space import VectorSpace
from tastespace.ranking.scoring import ScoringIndex

# ---------------------------------------------------------------------------------------------------------------------
# Interactions in the indices of a model, and set operations on lists of items per user.

Lists = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Offsets of shape ``(n_users + 1,)`` and item indices, ascending within a user."""

_CHOICES = ("error", "skip", "zero")


@dataclass(frozen=True, eq=False)
class Aligned:
    """Interactions in a model's indices."""

    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    n_unknown: NDArray[np.int64]
    """Per user of the model, interactions with items that are not in it (only for ``"zero"``)."""
    unknown_users: pl.Series
    """Users that are not in the model and that count (only for ``"zero"``)."""
    unknown_user_counts: NDArray[np.int64]
    """Number of interactions of each of them."""

    @property
    def n_unknown_users(self) -> int:
        """Users that are not in the model and that count."""
        return len(self.unknown_users)


def align(data: Interactions, model_data: Interactions, what: str, on_unknown: str) -> Aligned:
    """``data`` in the indices of ``model_data``; ``on_unknown`` is ``"error"``, ``"skip"`` or ``"zero"``."""
    if on_unknown not in _CHOICES:
        raise ParameterError(Argument("on_unknown", on_unknown), f": expected one of {', '.join(_CHOICES)}.")
    n_users = model_data.n_users
    if data.users == model_data.users and data.items == model_data.items:
        no_users = data.users.series.clear()
        return Aligned(data.offsets, data.indices, np.zeros(n_users, np.int64), no_users, np.empty(0, np.int64))
    _require_same_kind(data.users.series, model_data.users.series, what, "user")
    _require_same_kind(data.items.series, model_data.items.series, what, "item")
    user_at, item_at = model_data.users.find(data.users.series), model_data.items.find(data.items.series)
    rows, columns = user_at[data.row_of_each()], item_at[data.indices]
    is_unknown = (user_at < 0) & (data.user_counts > 0)
    unknown_users = data.users.series.filter(pl.Series(is_unknown))
    unknown_items = data.items.series.filter(pl.Series((item_at < 0) & (data.item_counts > 0)))
    if on_unknown == "error" and (len(unknown_users) or len(unknown_items)):
        example = repr(unknown_users[0]) if len(unknown_users) else repr(unknown_items[0])
        raise UnknownIdError(
            f"the {what} data holds {len(unknown_users):,} users and {len(unknown_items):,} items that the model has "
            f"never seen (for example {example}). Split one Interactions with tastespace.split, or pass ",
            Argument("on_unknown", "skip"),
            " or ",
            Argument("on_unknown", "zero"),
            ".",
        )
    known = (rows >= 0) & (columns >= 0)
    order = np.lexsort((columns[known], rows[known]))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows[known], minlength=n_users))])
    n_unknown = np.bincount(rows[(rows >= 0) & (columns < 0)], minlength=n_users)
    zero = on_unknown == "zero"
    return Aligned(
        offsets.astype(np.int64),
        columns[known][order].astype(np.int32),
        n_unknown if zero else np.zeros(n_users, np.int64),
        unknown_users if zero else unknown_users.clear(),
        data.user_counts[is_unknown] if zero else np.empty(0, np.int64),
    )


def _require_same_kind(given: pl.Series, known: pl.Series, what: str, side: str) -> None:
    """Raise where one side has numbers and the other text: a mistake in reading the data, not a set of unknown ids."""
    if len(given) and given.dtype.is_numeric() != known.dtype.is_numeric():
        raise UnknownIdError(
            f"the {side} ids of the {what} data are {given.dtype} such as {given[0]!r}, those of the model are "
            f"{known.dtype} such as {known[0]!r}: none can match. Read both with the same type of id."
        )


def entries_of(
    offsets: NDArray[np.integer[Any]], rows: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The entries ``offsets[r]:offsets[r + 1]`` of these rows: position in ``rows`` and entry, both of shape ``(n,)``.

    >>> position, entry = entries_of(np.array([0, 2, 2, 5]), np.array([2, 0]))
    >>> position.tolist(), entry.tolist()
    ([0, 0, 0, 1, 1], [2, 3, 4, 0, 1])
    """
    counts = np.asarray(offsets[rows + 1] - offsets[rows], dtype=np.int64)
    starts = offsets[rows] - (np.cumsum(counts) - counts)
    return np.repeat(np.arange(len(rows)), counts), np.repeat(starts, counts) + np.arange(int(counts.sum()))


def subtract_lists(lists: Lists, taken: Lists) -> tuple[Lists, int]:
    """``lists`` without the items that are also in ``taken``, and how many those were."""
    (offsets, items), (taken_offsets, taken_items) = lists, taken
    n_users = len(offsets) - 1
    width = int(max(items.max(initial=0), taken_items.max(initial=0))) + 1
    own = np.repeat(np.arange(n_users), np.diff(offsets)) * width + items
    other = np.repeat(np.arange(n_users), np.diff(taken_offsets)) * width + taken_items
    at = np.searchsorted(other, own)
    repeated = np.zeros(len(own), dtype=bool)
    inside = at < len(other)
    repeated[inside] = other[at[inside]] == own[inside]
    if not repeated.any():
        return lists, 0
    kept_before = np.concatenate([[0], np.cumsum(~repeated)])
    return (kept_before[offsets].astype(np.int64), items[~repeated]), int(repeated.sum())


# ---------------------------------------------------------------------------------------------------------------------
# Inputs of metrics in addition to a block of lists: the training data, categories of the items, vectors.

# Bounds the table of users by categories that is held at once.
_USERS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class MetricInputs:
    """Inputs of metrics in addition to the lists; costly parts are computed when a metric first needs them."""

    model_name: str
    train: Interactions
    protocol: Protocol
    item_vectors: NDArray[np.float32] | None
    category_column: str | None
    """Item attribute that holds the categories; None chooses the one that looks like categories."""
    n_unknown: NDArray[np.int64]
    """Test items of each user that are not in the model; they are never found. Shape ``(n_users,)``."""
    n_excluded: NDArray[np.int64]
    """Items of each user that are not candidates. Shape ``(n_users,)``."""
    threads: int
    item_attributes: pl.DataFrame | None = None
    """Attributes of the items in the order of the training data; None: those of the training data."""
    model: Recommender | None = None
    """The model, for metrics of its interests and shelves."""
    evaluated: NDArray[np.integer[Any]] | None = None
    """Rows of the users who are measured, of whom `sample` takes some."""

    def require(self, needs: str, metric: str) -> None:
        """Raise unless the metric has what it needs, as `Metric.needs` names it."""
        if needs == "vectors":
            self.require_item_vectors(metric)
        elif needs == "interests":
            self.require_interests(metric)
        elif needs == "reasons":
            self.require_interests(metric)
            why = None if self.model is None else why_no_reasons(self.model)
            if why is not None:
                raise ParameterError(f"{metric} needs the past items behind a recommendation: {why} Leave it out.")
        elif needs == "categories" and not self.categories:
            raise ParameterError(f"{metric}: no item has a category in the attribute {self._category_values.name!r}.")

    def require_item_vectors(self, metric: str) -> NDArray[np.float32]:
        """The item vectors, or an error that says why this metric cannot be computed."""
        if self.item_vectors is None:
            raise ParameterError(
                f"{metric} measures distances between item vectors, and {self.model_name} has none. Leave it out, or "
                "use CategoryILD, which needs only item categories."
            )
        return self.item_vectors

    def require_interests(self, metric: str) -> VectorSpace:
        """The vectors of the users' interests, or an error that says why this metric cannot be computed."""
        if self._interests is None:
            raise ParameterError(
                f"{metric} needs a model whose users have interests, and {self.model_name} has no vectors. Leave it "
                "out, or use a model such as DPCML."
            )
        return self._interests

    @property
    def categories(self) -> list[str]:
        """Names of all categories, ascending."""
        return self._item_categories.names

    @cached_property
    def membership(self) -> NDArray[np.bool_]:
        """Mask of the items of each category, shape ``(n_items, n_categories)``."""
        return self._item_categories.table()

    @cached_property
    def main_category(self) -> NDArray[np.int64]:
        """Category with most of the user's training items, -1 where none has one. Shape ``(n_users,)``.

        An item of several categories counts for each; of equal ones the first by name is taken.
        """
        membership = self.membership.astype(np.int32)
        main = np.full(self.train.n_users, -1, dtype=np.int64)
        for first in range(0, len(main), _USERS_AT_ONCE):
            totals = self._taken[first : first + _USERS_AT_ONCE] @ membership
            main[first : first + len(totals)] = np.where(totals.any(axis=1), totals.argmax(axis=1), -1)
        return main

    def categories_of(self, items: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All categories of these items: position in ``items`` and number of the category, both of shape ``(n,)``."""
        member = self._item_categories.membership
        position, at = entries_of(member.indptr, items)
        return position, member.indices[at].astype(np.int64)

    def history(self, users: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """All training items of these users: position in ``users`` and item, both of shape ``(n,)``."""
        position, at = entries_of(self.train.offsets, users)
        return position, self.train.indices[at]

    def history_mix(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Shares of the categories in the training items of these users, shape ``(len(users), n_categories)``.

        An item of several categories spreads its weight equally over them; a row sums to 1, or is 0 without any.
        """
        return _shares((self._taken[users] @ self._category_shares).toarray())

    def list_mix(self, top: NDArray[np.int32]) -> NDArray[np.float64]:
        """Shares of the categories in lists of items, -1 after a list's end. Shape ``(len(top), n_categories)``."""
        position, place = np.nonzero(top >= 0)
        shape = len(top), self.train.n_items
        lists = sp.csr_array((np.ones(len(position)), (position, top[position, place])), shape=shape)
        return _shares((lists @ self._category_shares).toarray())

    @cached_property
    def self_information(self) -> NDArray[np.float64]:
        """-log2 of the share of training users who took the item, in bits.

        An item without interactions counts as one that a single user took.
        """
        n_users = np.count_nonzero(self.train.user_counts)
        return -np.log2(np.maximum(self.train.item_counts, 1) / n_users)

    @cached_property
    def _taken(self) -> sp.csr_array:
        """Matrix with 1 for each item that a user has in training, whatever its weight."""
        train = self.train
        ones = np.ones(train.n_interactions, dtype=np.int32)
        return sp.csr_array((ones, train.indices, train.offsets), shape=(train.n_users, train.n_items))

    @cached_property
    def _category_shares(self) -> sp.csr_array:
        """Share of each category in each item: rows sum to 1, or are 0 for items without a category."""
        member = self._item_categories.membership
        counts = np.diff(member.indptr)
        return sp.csr_array((1.0 / np.repeat(counts, counts), member.indices, member.indptr), shape=member.shape)

    @cached_property
    def _interests(self) -> VectorSpace | None:
        return None if self.model is None else self.model.interest_space()

    @cached_property
    def index(self) -> ScoringIndex:
        """The model's interests, for models that have any: which of them an item matches."""
        assert self.model is not None  # require_interests was called
        return ScoringIndex(self.model, self.threads)

    @cached_property
    def shelves(self) -> ShelfChecks:
        """The shelves of single users."""
        assert self.model is not None
        return ShelfChecks(self.model)

    @cached_property
    def sample(self) -> NDArray[np.int64]:
        """Rows of the users, ascending, whose shelves are checked: a fixed sample of those with a history."""
        rows = np.arange(self.train.n_users) if self.evaluated is None else self.evaluated
        return sampled_users(rows[self.train.user_counts[rows] > 0])

    @cached_property
    def _item_categories(self) -> Categories:
        return item_categories(self._category_values)

    @cached_property
    def _category_values(self) -> pl.Series:
        attributes, name = self.item_attributes, self.category_column
        if attributes is None:
            attributes = self.train.item_attributes
        return require_category_column(attributes, name, purpose="a metric by category", argument="categories")


def _shares(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = totals.sum(axis=1, keepdims=True)
    return np.divide(totals, whole, out=np.zeros_like(totals), where=whole > 0)
