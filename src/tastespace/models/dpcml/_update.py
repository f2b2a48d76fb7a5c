"""Initial state of an update of DPCML: learned vectors, new items at their users, new users by fold-in."""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.data.merge import Added
from tastespace.models.dpcml._cross_validated import CROSS_VALIDATED, vectors_per_user
from tastespace.models.dpcml._fold_in import fold_in
from tastespace.models.dpcml.kernel import kernel_state, random_vectors, user_region, vector_offsets
from tastespace.models.dpcml.start import extend_user_vectors, interaction_interests, rows_of_users
from tastespace.models.updating import fill_optimizer, histories_of, place_new_items
from tastespace.models.vector_space import VectorSpace

if TYPE_CHECKING:
    from tastespace.models.dpcml.model import DPCML

log = logging.getLogger(__name__)

_FOLD_IN_EPOCHS = 20  # fewer than for users who are folded in for good: training goes on


def starting_state(model: DPCML, found: Added) -> tuple[NDArray[np.int64], _native.DpcmlState]:
    """The rows of each user's vectors, shape ``(n_users + 1,)``, and the state that the update starts from."""
    data = found.data
    # No user loses a vector: the settings may have changed since the model was fitted.
    n_old = np.where(found.old_users >= 0, np.diff(model.user_offsets_)[found.old_users], 0)
    n_vectors = np.maximum(_wanted_vectors(model, found), n_old)
    offsets = vector_offsets(n_vectors)
    users, items = found.learned_users, found.learned_items
    start = _Start(model, data, offsets, items)
    copied = start.copy_users(model, users)
    new_users = np.flatnonzero(users < 0)
    start.place_items()
    folded, copied_folded = start.fold_in(model, new_users)
    if start.unplaced.any():
        start.place_items()  # from new users who also have known items
    start.warn_of_random()
    assignments = start.assignments(model)
    for source, source_users, rows in ((model, users, copied), (folded, start.folded_rows, copied_folded)):
        if model.anchor > 0 and source is not None and hasattr(source, "free_vectors_"):
            own = rows_of_users(source.user_offsets_, source_users[source_users >= 0])
            start.users[rows] = source.free_vectors_[own]
    state = kernel_state(model, data, start.users, start.items)
    if state.anchors is not None and assignments is not None:
        state.anchors.assignments[:] = assignments
    ready = rows_of_users(offsets, np.flatnonzero(start.ready))
    known_items = np.flatnonzero(items >= 0)
    placed_items = np.flatnonzero((items < 0) & ~start.unplaced)
    means = model.optimizer_means_
    learned = rows_of_users(model.user_offsets_, users[users >= 0])
    fill_optimizer(state.user_optimizer, "user", means, copied, learned, np.setdiff1d(ready, copied))
    fill_optimizer(state.item_optimizer, "item", means, known_items, items[known_items], placed_items)
    return offsets, state


def _wanted_vectors(model: DPCML, found: Added) -> NDArray[np.int64]:
    """Return the number of vectors that each user gets by the model's rule, shape ``(n_users,)``.

    Cross-validated numbers are those of new users only, by their items that the model knows: others keep theirs.
    """
    data = found.data
    if model._interest_rule()[0] != CROSS_VALIDATED:
        return vectors_per_user(model, None, data)
    numbers = np.ones(data.n_users, dtype=np.int64)
    new_users, known = np.flatnonzero(found.learned_users < 0), found.learned_items >= 0
    items = np.zeros((data.n_items, model.item_vectors_.shape[1]), dtype=np.float32)
    items[known] = model.item_vectors_[found.learned_items[known]]
    usable = data.subset(known[data.indices])
    numbers[new_users] = vectors_per_user(model, items, histories_of(usable, new_users))
    return numbers


class _Start:
    """The vectors of an update while they are put in their places."""

    def __init__(
        self, model: DPCML, data: Interactions, offsets: NDArray[np.int64], old_items: NDArray[np.int64]
    ) -> None:
        self.data, self.offsets = data, offsets
        self.items = np.empty((data.n_items, model.item_vectors_.shape[1]), dtype=np.float32)
        self.users = np.empty((int(offsets[-1]), self.items.shape[1]), dtype=np.float32)
        known = np.flatnonzero(old_items >= 0)
        self.items[known] = model.item_vectors_[old_items[known]]
        self.unplaced = old_items < 0
        """Items without a place."""
        self.ready = np.zeros(data.n_users, dtype=bool)
        """Users whose vectors mean something."""
        self.folded_rows = np.full(data.n_users, -1, dtype=np.int64)
        """Index of each user among those folded in."""
        self._model = model

    def copy_users(self, source: DPCML, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Take over the vectors of users, at these rows of the source (-1: none), and add what they need more.

        Gives the rows of the vectors that were copied.
        """
        n_known = np.where(rows >= 0, np.diff(source.user_offsets_)[rows], 0)
        region, radius = user_region(self._model), self._model.radius
        self.ready |= rows >= 0
        return extend_user_vectors(
            source.vectors(), rows, n_known, self.data, self.items, self.users, self.offsets, region, radius
        )

    def place_items(self) -> None:
        """Put items without a place at the users who took them."""
        place_new_items(self.items, self.unplaced, self.users, self.offsets, self.ready, self.data)

    def fold_in(self, model: DPCML, new_users: NDArray[np.int64]) -> tuple[DPCML | None, NDArray[np.int64]]:
        """Vectors of the new users who have items with a place; random ones for the others, and for other items.

        Gives the model with these users, and the rows of their vectors.
        """
        data = self.data
        dim_users, dim_items = random_vectors(
            model, int((self.offsets[new_users + 1] - self.offsets[new_users]).sum()), int(self.unplaced.sum())
        )
        self.users[rows_of_users(self.offsets, new_users)] = dim_users
        self.items[self.unplaced] = dim_items
        usable = data.subset(~self.unplaced[data.indices])
        chosen = new_users[usable.user_counts[new_users] > 0]
        if not len(chosen):
            return None, chosen
        there = copy.copy(model)
        there.item_vectors_, there.train_ = self.items, data
        folded = fold_in(there, histories_of(usable, chosen), _FOLD_IN_EPOCHS, np.diff(self.offsets)[chosen])
        self.folded_rows[chosen] = np.arange(len(chosen))
        return folded, self.copy_users(folded, self.folded_rows)

    def warn_of_random(self) -> None:
        """Say which users and items have nothing that places them."""
        n_users, n_items = int((~self.ready).sum()), int(self.unplaced.sum())
        if n_users or n_items:
            log.warning(
                "%s new users and %s new items start at random: no interaction connects them with users or items that "
                "the model knows",
                f"{n_users:,}",
                f"{n_items:,}",
            )

    def assignments(self, model: DPCML) -> NDArray[np.int32] | None:
        """To which interest each interaction belongs where interests are anchored."""
        if model.anchor == 0:
            return None
        space = VectorSpace(self.users, self.offsets, self.items)
        return interaction_interests(space, self.data, self.ready, resolve_threads(model.threads))
