"""Members of a blend: checks, names, how each is fitted, and how much of a history an item's categories hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_number
from tastespace._util.computed_once import computed_once
from tastespace._util.csr import ranges
from tastespace._util.interrupts import interrupts_end_task
from tastespace.data.attributes import item_categories, require_category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.models.base import Recommender

# ---------------------------------------------------------------------------------------------------------------------
# Members of a blend and their weights: checks, names, and how each is fitted.

_SUM_TOLERANCE = 1e-6


def checked_members(members: Any) -> list[Recommender]:
    """The members as a list; an error unless they are models."""
    if isinstance(members, Recommender) or not isinstance(members, Sequence):
        raise ParameterError(f"members={members!r}: expected a list of models, such as [DPCML(), EASE()].")
    found = list(members)
    for member in found:
        if not isinstance(member, Recommender):
            raise ParameterError(f"members={found!r}: {member!r} is not a model. Expected a list of models.")
    if not found:
        raise ParameterError("members=[]: expected at least one model.")
    if len({id(member) for member in found}) < len(found):
        raise ParameterError(f"members={found!r}: the same model twice. Give it once, with the sum of the weights.")
    return found


def checked_weights(weights: Any, n_members: int) -> NDArray[np.float64] | None:
    """The weights with the sum 1, None where none are given; an error unless there is one for each member.

    >>> checked_weights([0.25, 0.75], 2)
    array([0.25, 0.75])
    """
    if weights is None:
        return None
    if not isinstance(weights, (list, tuple)):
        raise ParameterError(f"weights={weights!r}: expected a list of numbers, such as [0.7, 0.3].")
    given = list(weights)
    if len(given) != n_members:
        raise ParameterError(f"weights={given!r}: {len(given)} weights for {n_members} members, expected one each.")
    for weight in given:
        require_number("weights", weight, least=0.0)
    if abs(sum(given) - 1.0) > _SUM_TOLERANCE:
        raise ParameterError(
            f"weights={given!r} sum to {sum(given):g}, expected 1. Divide each by their sum, or leave weights out to "
            "have them chosen on validation data."
        )
    return np.asarray(given, dtype=np.float64) / math.fsum(given)  # sum() of 0.3, 0.3, 0.3 and 0.1 is not 1


def named_members(members: Sequence[Recommender]) -> dict[str, Recommender]:
    """The members by the names of their parameters: as in `tastespace.models.create`, a second DPCML is dpcml_2.

    >>> from tastespace.models import DPCML, EASE
    >>> list(named_members([DPCML(), EASE(), DPCML()]))
    ['dpcml', 'ease', 'dpcml_2']
    """
    from tastespace.models import name_of

    found: dict[str, Recommender] = {}
    for member in members:
        kind = name = name_of(type(member))
        number = 1
        while name in found:
            number += 1
            name = f"{kind}_{number}"
        found[name] = member
    return found


def require_same_data(members: Sequence[Recommender]) -> None:
    """Raise unless all members are fitted to the same users, items and interactions."""
    first = members[0]
    for member in members:
        member.require_fitted()
        for kind in ("users", "items"):
            ours, theirs = getattr(first.train_, kind), getattr(member.train_, kind)
            if ours != theirs:
                other_ids = " with other ids" if len(ours) == len(theirs) else ""
                raise DataError(
                    f"the members of a blend must be fitted on the same users and items: {type(first).__name__} has "
                    f"{len(ours):,} {kind}, {type(member).__name__} {len(theirs):,}{other_ids}. Fit all of them on the "
                    "same data."
                )
        ours, theirs = first.train_, member.train_
        if not (np.array_equal(ours.offsets, theirs.offsets) and np.array_equal(ours.indices, theirs.indices)):
            raise DataError(
                f"the members of a blend must be fitted on the same interactions: {type(first).__name__} has "
                f"{ours.n_interactions:,}, {type(member).__name__} {theirs.n_interactions:,}"
                f"{' others' if ours.n_interactions == theirs.n_interactions else ''}. Fit all on the same data."
            )


@interrupts_end_task()
def fitted_member(
    member: Recommender, train: Interactions, valid: Interactions | None, progress: bool | None
) -> Recommender:
    """The member, fitted; one that does not use weights is given the data without them."""
    if train.weights is not None and not member.uses_weights:
        train, valid = train.without_weights(), None if valid is None else valid.without_weights()
    return member.fit(train, valid, progress)


# ---------------------------------------------------------------------------------------------------------------------
# How much of a user's history an item's categories hold: what a blend uses to serve smaller categories.


class Balance:
    """Minus the logarithm of the share of a user's history that an item's categories hold.

    An item has the mean over its categories: log 10 for a tenth of the history, 0 for all of it. A category that the
    history does not have counts 0, so that nothing is recommended for its novelty alone. Added to standardized scores,
    it makes up for the advantage that items of a user's main category have in every list.
    """

    def __init__(self, train: Interactions) -> None:
        self._train = train
        column = require_category_column(train.item_attributes, None, purpose="category_balance", argument="column")
        # Fold-in copies have the same items: a server holds one for each new user.
        self._membership, self._mean_of_item = computed_once(
            train.item_attributes, "balance", lambda: _category_tables(column)
        )

    @property
    def categories(self) -> dict[str, Any]:
        """The categories of the items as the kernel of blends takes them."""
        column = self._train.item_attributes
        return computed_once(column, "sets of categories", lambda: _category_sets(self._membership))

    def of_users(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Of all items for these users: shape ``(len(users), n_items)``."""
        return np.ascontiguousarray((self._mean_of_item @ self._category_logs(users).T).T, dtype=np.float32)

    def _category_logs(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """For each user and category: shape ``(len(users), n_categories)``."""
        taken = self._taken(users)
        totals = np.asarray((taken @ self._membership).toarray())
        with_category = np.asarray(taken @ (np.diff(self._membership.indptr) > 0).astype(np.float64))
        return _minus_log(totals, with_category[:, None])

    def _taken(self, users: NDArray[np.integer[Any]]) -> Any:
        """The histories of these users as a matrix of ones, ``(len(users), n_items)``."""
        first, counts = self._train.offsets[users], self._train.user_counts[users]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        items = self._train.indices[ranges(first, counts)]
        return sp.csr_array((np.ones(len(items)), items, offsets), shape=(len(users), self._train.n_items))


def _category_tables(column: pl.Series) -> tuple[Any, Any]:
    """Categories of items, ``(n_items, n_categories)``: with ones, and with rows that sum to one."""
    membership = item_categories(column).membership
    counts = np.maximum(np.asarray(membership.sum(axis=1)).ravel(), 1.0)
    return membership, sp.csr_array(sp.diags_array(1.0 / counts) @ membership, dtype=np.float32)


def _category_sets(membership: Any) -> dict[str, Any]:
    """The different sets of categories, and which of them each item has."""
    bounds = membership.indptr.tolist()
    categories = np.ascontiguousarray(membership.indices, dtype=np.int32)
    known: dict[bytes, int] = {}
    of_item = [known.setdefault(categories[a:b].tobytes(), len(known)) for a, b in pairwise(bounds)]
    sets = [np.frombuffer(one, dtype=np.int32) for one in known]
    offsets = np.cumsum([0, *map(len, sets)], dtype=np.int64)
    return {
        "n_categories": membership.shape[1],
        "sets": _native.ItemLists(offsets, np.concatenate([np.empty(0, np.int32), *sets])),
        "set_of_item": np.array(of_item, dtype=np.int32),
    }


def _minus_log(counts: NDArray[np.float64], total: Any) -> NDArray[np.float32]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(counts > 0, -np.log(np.minimum(counts / np.maximum(total, 1.0), 1.0)), 0.0).astype(np.float32)
