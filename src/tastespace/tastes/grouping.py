"""Groups of the users' past items: which past item belongs to which of a user's tastes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.csr import ranges
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions

ITEMS_PER_TASTE = 4
"""Past items that a user needs for each taste: with fewer than twice as many there is one."""
_LEAST_GAIN = 0.05  # length that two groups' sums have more than their sum, for each past item: less is one taste
_AT_ONCE = 1 << 17  # past items that are assigned together


@dataclass(frozen=True, eq=False)
class Tastes:
    """The tastes of all users of some interactions; every user has one or more, the largest first when they are made.

    >>> tastes = Tastes(np.array([0, 2, 3]), np.array([0, 0, 1, 0], dtype=np.int32), np.array([0, 3, 4]))
    >>> tastes.sizes.tolist(), tastes.shares.round(2).tolist()
    ([2, 1, 1], [0.67, 0.33, 1.0])
    """

    offsets: NDArray[np.int64]
    """User u has the tastes ``offsets[u]:offsets[u + 1]``, shape ``(n_users + 1,)``."""
    of_past: NDArray[np.int32]
    """Taste of each interaction, from 0 for each user: shape ``(n_interactions,)``."""
    user_offsets: NDArray[np.int64]
    """Offsets of the interactions: user u has ``of_past[user_offsets[u]:user_offsets[u + 1]]``."""

    @classmethod
    def of(cls, of_past: NDArray[np.int32], user_offsets: NDArray[np.int64]) -> Tastes:
        """The tastes whose numbers are these; users without interactions have one that is empty."""
        counts = np.ones(len(user_offsets) - 1, dtype=np.int64)
        with_past = np.flatnonzero(np.diff(user_offsets) > 0)
        if len(with_past):
            counts[with_past] = np.maximum.reduceat(of_past, user_offsets[with_past]) + 1
        return cls(np.concatenate([[0], np.cumsum(counts)]), of_past, user_offsets)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of tastes of each user, shape ``(n_users,)``."""
        return np.diff(self.offsets)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Row of each interaction's taste among the tastes of all users, shape ``(n_interactions,)``."""
        return np.repeat(self.offsets[:-1], np.diff(self.user_offsets)) + self.of_past

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of past items of each taste, shape ``(offsets[-1],)``."""
        return np.bincount(self.rows, minlength=int(self.offsets[-1]))

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """Share of the user's past items that each taste holds, 1 for users without any: shape ``(offsets[-1],)``."""
        n_past = np.repeat(np.diff(self.user_offsets), self.counts)
        return np.where(n_past > 0, self.sizes / np.maximum(n_past, 1), 1.0)

    def of_user(self, user: int) -> NDArray[np.int32]:
        """The taste of each past item of the user at this row."""
        return self.of_past[self.user_offsets[user] : self.user_offsets[user + 1]]

    def first_rows(self, users: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Offsets of the tastes of some users one after the other, shape ``(len(users) + 1,)``."""
        return np.concatenate([[0], np.cumsum(self.counts[users])])

    def histories(self, train: Interactions, users: NDArray[np.integer[Any]]) -> sp.csr_array:
        """The past items of each taste of these users, with their weights: ``(number of tastes, n_items)``.

        ``train`` holds the interactions that were grouped.
        """
        counts = np.diff(self.user_offsets)[users]
        places = ranges(self.user_offsets[users], counts)
        rows = np.repeat(self.first_rows(users)[:-1], counts) + self.of_past[places]
        order = np.argsort(rows, kind="stable")
        values = np.ones(len(places), np.float32) if train.weights is None else train.weights[places].astype(np.float32)
        n_rows = int(self.counts[users].sum())
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))])
        return sp.csr_array((values[order], train.indices[places][order], offsets), shape=(n_rows, train.n_items))

    def centers(self, train: Interactions, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """The mean vector of the past items of each taste, shape ``(offsets[-1], dim)``; 0 for an empty one."""
        order = np.argsort(self.rows, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        scale = np.repeat(1.0 / np.maximum(self.sizes, 1), self.sizes).astype(np.float32)
        means = sp.csr_array((scale, train.indices[order], offsets), shape=(len(self.sizes), train.n_items))
        return np.ascontiguousarray(means @ vectors, dtype=np.float32)


def directions(vectors: NDArray[np.float32], counts: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
    """Item vectors less their mean over all interactions, with length 1: what they have apart from popularity.

    ``counts`` are the interactions of each item, shape ``(n_items,)``. A vector at the mean stays 0.
    """
    total = max(1, int(counts.sum()))
    centered = vectors - (counts[None, :] @ vectors.astype(np.float64) / total).astype(np.float32)
    lengths = np.linalg.norm(centered, axis=1, keepdims=True)
    return np.ascontiguousarray(centered / np.maximum(lengths, 1e-12), dtype=np.float32)


def group_tastes(train: Interactions, vectors: NDArray[np.float32], most: int, threads: int = 0) -> Tastes:
    """Group the past items of each user by the `directions` of the items, ``(n_items, dim)``.

    A user has at most ``most`` tastes and one for every four past items, of two items or more each; groups that point
    nearly the same way are one. The largest taste is number 0.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=900, seed=1).interactions
    >>> vectors = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    >>> tastes = group_tastes(town, directions(vectors, town.item_counts), most=3)
    >>> int(tastes.counts.max()), len(tastes.of_past) == town.n_interactions
    (3, True)
    """
    found = _native.taste_groups(
        np.ascontiguousarray(vectors, dtype=np.float32), train.offsets, train.indices, most=most,
        items_per_taste=ITEMS_PER_TASTE, least_gain=_LEAST_GAIN, threads=resolve_threads(threads),
    )  # fmt: skip
    return Tastes.of(found, train.offsets)


def carried_over(
    tastes: Tastes,
    before: Interactions,
    train: Interactions,
    old_users: NDArray[np.int64],
    vectors: NDArray[np.float32],
    most: int,
    threads: int = 0,
) -> Tastes:
    """The tastes of users whose histories have grown: what is known keeps its number, new items join the nearest taste.

    Users who are new, or had too few past items for more than one taste, are grouped.

    Args:
        tastes: The tastes before.
        before: The interactions that they group.
        train: The interactions now.
        old_users: Row of each user in ``before``, -1 for new users.
        vectors: Directions of the items of ``train``.
        most: Tastes of a new user, at most.
        threads: 0 means all cores.
    """
    old_items = before.items.find(train.items.series)
    had_few = np.append(before.user_counts < 2 * ITEMS_PER_TASTE, True)  # the last: of row -1
    owner = np.where(had_few[old_users], -1, old_users)[train.row_of_each()]
    item = old_items[train.indices]
    keys = before.row_of_each() * before.n_items + before.indices
    order = np.argsort(keys, kind="stable")
    wanted = owner * before.n_items + item
    place = np.searchsorted(keys[order], wanted).clip(0, max(0, len(keys) - 1))
    known = (owner >= 0) & (item >= 0)
    if len(keys):
        known &= keys[order][place] == wanted
    else:
        known &= False
    grouped = group_tastes(train, vectors, most, threads).of_past
    found = np.where(known, tastes.of_past[order[place]] if len(keys) else 0, grouped).astype(np.int32)
    joining = np.flatnonzero((owner >= 0) & ~known)
    if not len(joining):
        return Tastes.of(found, train.offsets)
    at = old_items[old_items >= 0]
    old_vectors = np.zeros((before.n_items, vectors.shape[1]), dtype=np.float32)
    old_vectors[at] = vectors[old_items >= 0]
    centers = tastes.centers(before, old_vectors)
    centers /= np.maximum(np.linalg.norm(centers, axis=1, keepdims=True), 1e-12)
    for first in range(0, len(joining), _AT_ONCE):
        part = joining[first : first + _AT_ONCE]
        own = vectors[train.indices[part]]
        closest = np.full(len(part), -np.inf)
        for x in range(int(tastes.counts.max())):
            has = tastes.counts[owner[part]] > x
            rows = np.where(has, tastes.offsets[owner[part]] + x, 0)
            closeness = np.where(has, np.einsum("ij,ij->i", own, centers[rows]), -np.inf)
            nearer = closeness > closest
            found[part[nearer]] = x
            closest = np.maximum(closest, closeness)
    return Tastes.of(found, train.offsets)
