"""Learning from more interactions: `update` for any model, and what all models with `partial_fit` share."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_number, require_whole
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.data.merge import Added, added, dislikes_of_both
from tastespace.data.out_of_core.mapped_arrays import row_blocks
from tastespace.data.reading.dates import size_unit
from tastespace.errors import DataError, ParameterError
from tastespace.models.base import Recommender, TrainingData, interactions_from
from tastespace.training.native_trainer import optimizer_arrays
from tastespace.training.visits import UpdateVisits

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments

# ---------------------------------------------------------------------------------------------------------------------
# Initial vectors of new items, from the users who took them.

_ITERATIONS = 3  # which vector of each user, and their mean, in turns


def place_new_items(
    items: NDArray[np.float32],
    unplaced: NDArray[np.bool_],
    users: NDArray[np.float32],
    offsets: NDArray[np.int64],
    ready: NDArray[np.bool_],
    data: Interactions,
) -> None:
    """Put each new item at the mean of the nearest vectors of the users who took it.

    The users of an item share one interest in it: from the mean of all of their vectors, the nearest vector of each
    user is chosen and their mean taken, in turns. Items that no ready user took are left as they are.

    Args:
        items: Vectors of all items, shape ``(n_items, dim)``; those of the items placed are written.
        unplaced: Which items have no place yet, shape ``(n_items,)``; cleared for those that get one.
        users: Vectors of the users; user ``u`` has the rows ``offsets[u]:offsets[u + 1]``.
        offsets: Shape ``(n_users + 1,)``.
        ready: Which users have vectors that mean something, shape ``(n_users,)``.
        data: The interactions of all of them.

    >>> import scipy.sparse as sp
    >>> taken = Interactions.from_scipy(sp.csr_array(np.array([[1, 0], [1, 1]])))
    >>> users = np.array([[1, 0], [0, 1], [0.9, 0], [0, -1]], np.float32)  # two users with two vectors each
    >>> items = np.zeros((2, 2), np.float32)
    >>> place_new_items(items, np.array([True, False]), users, np.array([0, 2, 4]), np.array([True, True]), taken)
    >>> items.round(2).astype(float).round(2).tolist()
    [[0.95, 0.0], [0.0, 0.0]]
    """
    owners = data.row_of_each()
    wanted = np.flatnonzero(unplaced[data.indices] & ready[owners])
    if not len(wanted):
        return
    wanted = wanted[np.argsort(data.indices[wanted], kind="stable")]
    found, starts = np.unique(data.indices[wanted], return_index=True)
    for item, takers in zip(found, np.split(owners[wanted], starts[1:]), strict=True):
        first, counts = offsets[takers], offsets[takers + 1] - offsets[takers]
        of_taker = np.repeat(np.arange(len(takers)), counts)
        rows = users[np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
        center = rows.mean(axis=0)
        for _ in range(_ITERATIONS):
            distances = np.square(rows - center).sum(axis=1)
            nearest = np.lexsort((distances, of_taker))[np.cumsum(counts) - counts]
            center = rows[nearest].mean(axis=0)
        items[item] = center
        unplaced[item] = False


def place_at_items_of_users(items: NDArray[np.float32], known: NDArray[np.bool_], data: Interactions) -> None:
    """Put each new item at the mean of the known items of the users who took it: for models of inner products.

    Every user counts alike, with the mean of the user's known items. Items whose users have none are left as they are.

    Args:
        items: Vectors of all items, shape ``(n_items, dim)``; those of new items are written.
        known: Which items have a vector, shape ``(n_items,)``.
        data: The interactions of all of them.

    >>> import scipy.sparse as sp
    >>> taken = Interactions.from_scipy(sp.csr_array(np.array([[1, 1, 0], [1, 0, 1]])))
    >>> items = np.array([[0, 0], [1, 0], [0, 1]], np.float32)
    >>> place_at_items_of_users(items, np.array([False, True, True]), taken)
    >>> items[0].tolist()
    [0.5, 0.5]
    """
    taken = sp.csr_array(
        (np.ones(data.n_interactions, dtype=np.float32), data.indices, data.offsets), shape=(data.n_users, data.n_items)
    )
    new = np.flatnonzero(~known)
    takers = taken[:, new].T.tocsr()  # a row for each new item
    users = np.unique(takers.indices)
    own = taken[users] @ sp.diags_array(known.astype(np.float32))
    counts = np.asarray(own.sum(axis=1)).ravel()
    means = np.zeros((data.n_users, items.shape[1]), dtype=np.float32)
    means[users] = (own @ np.where(known[:, None], items, 0)) / np.maximum(counts, 1)[:, None]
    useful = np.zeros(data.n_users, dtype=np.float32)
    useful[users] = counts > 0
    n_takers = takers @ useful
    found = n_takers > 0
    items[new[found]] = (takers @ means)[found] / n_takers[found, None]


log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=Recommender)

N_OLD = 4
"""Old interactions that an update visits for each new one, by default."""
_LEAST = 0.25  # quantile of the optimizer's state that new rows start with
_EPOCHS_SHARE = 5  # an update takes a fifth of the epochs of the fit


def update(model: Model, new: TrainingData, progress: bool | None = None, **columns: Unpack[TableArguments]) -> Model:
    """A model that has also learned from ``new``; the given one stays as it is.

    A model with ``partial_fit`` continues from what it has learned, at the cost of the new interactions; any other is
    fitted again, to old and new ones, with the parameters it has and the number of epochs that was chosen for it.

    Args:
        model: A fitted model.
        new: More interactions, with ids of the same types; there may be new users and items. As in
            `Recommender.fit`, a frame of any library will do.
        progress: Show a progress bar: by default only where standard error is a terminal.
        **columns: Of a frame, as in `Recommender.fit`: ``user="customer"``, ``item="sku"``, ... Columns called weight
            and timestamp are read where the model was fitted with weights and times.

    >>> import tastespace as ts
    >>> town = ts.synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> is_old = town.row_of_each() < 55
    >>> model = ts.EASE().fit(town.subset(is_old))
    >>> ts.update(model, town.subset(~is_old)).train_.n_interactions == town.n_interactions
    True
    """
    if not isinstance(model, Recommender):
        raise DataError(f"update expects a fitted model, given {type(model).__name__}.")
    model.require_fitted()
    new = new_interactions("update", model, new, columns)
    if has_only_dislikes(model.train_, new):
        return _with_dislikes(model, new)
    if model.supports_partial_fit:
        later: Any = copy.copy(model)
        later.partial_fit(new, progress=progress)
        return later
    found = begin_update(model, new)
    return model if found is None else fitted_again(model, found.data, progress)


def has_only_dislikes(old: Interactions, new: Interactions) -> bool:
    """Return whether dislikes are all that is new: there is nothing to train on."""
    if new.dislikes is None:
        return False
    if not new.n_interactions:
        return True
    found = added(old, new)
    return found.nothing and not _other_weights(old, found.data)


def _with_dislikes(model: Model, new: Interactions) -> Model:
    """A copy of the model that knows these dislikes of its own users and items; nothing else is to be learned."""
    later = copy.copy(model)
    later.train_ = replace(model.train_, dislikes=dislikes_of_both(model.train_, new))
    later._kept_lists = later._kept_space = None
    return later


def new_interactions(function: str, model: Recommender, new: TrainingData, columns: TableArguments) -> Interactions:
    """Return new data of any kind as `Interactions`, with weights and times where the model was fitted with some."""
    model.require_fitted()
    roles = {"weight": model.train_.weights, "timestamp": model.train_.timestamps}
    has_kinds = columns.get("kind") is not None
    read = [role for role, values in roles.items() if values is not None and not (role == "weight" and has_kinds)]
    if has_kinds and model.train_.events is not None:
        columns = {"events": model.train_.events, **columns}
    found = interactions_from(function, new, columns, "new", read, part=True)
    return found if model.train_.weights is not None or found.events is None else found.without_weights()


def fitted_again(model: Model, data: Interactions, progress: bool | None = None) -> Model:
    """A copy of a model that has no ``partial_fit``, fitted to all of the data."""
    log.info("%s has no partial_fit and is fitted again", type(model).__name__)
    if data.weights is not None and not model.uses_weights:
        data = data.without_weights()
    again = model.as_chosen().fit(data, progress=progress)
    again._served_diversity = model.served_diversity
    return again


@dataclass(frozen=True)
class Update:
    """Options of a training run that continues from what a model has learned."""

    visits: UpdateVisits
    epochs: int


def begin_update(model: Recommender, new: Interactions) -> Added | None:
    """Interactions that ``new`` adds to the model's training data; None, with a warning, where all of it is known.

    Raises before anything is computed where the model is not fitted, or ``new`` is empty, has weights that the model
    does not use, or ids of another type.
    """
    model.require_fitted()
    if new.n_interactions == 0:
        raise DataError(f"partial_fit was given {new!r}: nothing to learn from.")
    model._require_usable_weights(new)
    if model.uses_weights and (new.weights is None) != (model.train_.weights is None):
        one, other = ("no ", "") if new.weights is None else ("", "no ")
        raise DataError(
            f"partial_fit was given interactions with {one}weights, the model was fitted to interactions with "
            f"{other}weights. Give both or neither weights: a column of them, or those of a half-life (with_half_life, "
            "--half-life)."
        )
    if new.timestamps is None and model.train_.timestamps is not None:
        log.warning(
            "the update has no times and the model's interactions have some, which are dropped; read the update with "
            "timestamp= (--timestamp) to keep them"
        )
    _require_same_clock(model.train_, new)
    found = added(model.train_, new)
    if found.nothing and not _other_weights(model.train_, found.data):
        log.warning(
            "all %s interactions of the update are in the model's training data already: the model stays as it is",
            f"{new.n_interactions:,}",
        )
        return None
    return found


def _require_same_clock(old: Interactions, new: Interactions) -> None:
    """Raise where both have times, of different units."""
    if old.timestamps is None or new.timestamps is None:
        return
    ours, theirs = size_unit(old.timestamps), size_unit(new.timestamps)
    if ours != theirs and None not in (ours, theirs):
        raise DataError(
            f"the times of the update are in {theirs} since 1970 (dates are in us), those of the model's interactions "
            f"in {ours}. Give both the same unit, or read the update without times."
        )


def _other_weights(old: Interactions, whole: Interactions) -> bool:
    """Return whether known pairs have got other weights."""
    if old.weights is None or whole.weights is None:
        return False
    return not np.array_equal(old.weights, whole.weights)


def check_update_settings(epochs: Any, n_old: Any) -> None:
    """Raise `ParameterError` for arguments of `partial_fit` that cannot be."""
    if epochs is not None:
        require_whole("epochs", epochs)
    require_number("n_old", n_old, least=0.0)


def update_epochs(fit_epochs: int, given: int | None) -> int:
    """Epochs of an update: as given, else a fifth of those of the fit.

    >>> update_epochs(50, None), update_epochs(3, None), update_epochs(50, 2)
    (10, 1, 2)
    """
    return max(1, round(fit_epochs / _EPOCHS_SHARE)) if given is None else given


def require_same_dimension(dim: int, item_vectors: NDArray[np.float32]) -> None:
    """Raise if ``dim`` was changed after the fit."""
    if dim != item_vectors.shape[1]:
        raise ParameterError(
            f"dim={dim}: the model was fitted with dim={item_vectors.shape[1]} and continues with that. Restore it, or "
            "call fit."
        )


def require_shared_ids(valid: Interactions | None, train: Interactions) -> None:
    """Raise unless validation data has the users and items of old and new data together."""
    if valid is not None and (valid.users != train.users or valid.items != train.items):
        raise DataError(f"valid ({valid!r}) does not share users and items with old and new data ({train!r}).")


def carried_over(learned: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """The learned vectors at these rows, zeros where a row is -1: shape ``(len(rows), dim)``.

    >>> carried_over(np.array([[1.0], [2.0]], np.float32), np.array([1, -1, 0])).tolist()
    [[2.0], [0.0], [1.0]]
    """
    vectors = np.zeros((len(rows), learned.shape[1]), dtype=np.float32)
    vectors[rows >= 0] = learned[rows[rows >= 0]]
    return vectors


def histories_of(data: Interactions, users: NDArray[np.int64]) -> Interactions:
    """The interactions of the users at these ascending rows, for fold-in: the same items, no others' ids."""
    offsets, indices = data.rows_of(users)
    ids = IdMap(data.users.series.gather(pl.Series(users, dtype=pl.UInt32)), "user")
    return replace(
        data, users=ids, offsets=offsets, indices=indices, weights=None, timestamps=None, user_attributes=None,
        dislikes=None,
    )  # fmt: skip


def fill_optimizer(
    optimizer: _native.OptimizerState,
    side: str,
    means: Mapping[str, Any],
    known: NDArray[np.int64],
    learned: NDArray[np.int64],
    placed: NDArray[np.int64],
) -> None:
    """Start rows with the state that the last training ended with, so that their first steps are small.

    Args:
        optimizer: The state that is filled.
        side: ``"user"``, ``"item"``, ...: the first part of the names in ``means``.
        means: What `optimizer_means` gave then.
        known: Rows that were learned.
        learned: Which rows of the last training they were.
        placed: Rows that are new but have a place: they start like the rows that have learned least, a quarter of all.
    """
    for part, array in optimizer_arrays(optimizer).items():
        if not array.size:
            continue
        last = means.get(f"{side}_{part}")
        if last is None:  # of another optimizer
            array[known] = array[placed] = 0
            continue
        wide = (slice(None), *(None,) * (array.ndim - 1))
        array[known] = last[learned][wide]
        array[placed] = np.quantile(last, _LEAST).astype(array.dtype)


def _row_means(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean of each row, in blocks: the array may be larger than memory."""
    found = np.empty(len(array), dtype=array.dtype)
    for rows in row_blocks(array):
        array[rows].mean(axis=1, out=found[rows])
    return found


def optimizer_means(optimizers: dict[str, _native.OptimizerState]) -> dict[str, Any]:
    """The mean of each row of the optimizers' states, such as ``user_first``: what an update starts from."""
    return {
        f"{side}_{part}": _row_means(array) if array.ndim == 2 else array.copy()
        for side, optimizer in optimizers.items()
        for part, array in optimizer_arrays(optimizer).items()
        if array.size
    }
