"""What all models that learn from more interactions share: checks of the update, its epochs, its optimizer state."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.checks import require_number, require_whole
from tastespace.data.added import Added, added
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError
from tastespace.models.base import Recommender
from tastespace.training.native_trainer import optimizer_arrays
from tastespace.training.update_visits import UpdateVisits

log = logging.getLogger(__name__)

N_OLD = 5
"""Old interactions that an update visits for each new one, by default."""
_EPOCHS_SHARE = 5  # an update takes a fifth of the epochs of the fit


@dataclass(frozen=True)
class Update:
    """What a training run is told that goes on from what a model has learned."""

    visits: UpdateVisits
    epochs: int


def begin_update(model: Recommender, new: Any) -> Added | None:
    """What ``new`` adds to the model's training data; None, with a warning, where all of it is known.

    Raises before anything is computed where the model is not fitted, or ``new`` is no data, is empty, has weights that
    the model does not use, or ids of another type.
    """
    model.require_fitted()
    if not isinstance(new, Interactions):
        raise DataError(f"partial_fit expects Interactions, given {type(new).__name__}.")
    if new.n_interactions == 0:
        raise DataError(f"partial_fit was given {new!r}: nothing to learn from.")
    model._require_usable_weights(new)
    found = added(model.train_, new)
    if found.nothing and not _other_weights(model.train_, found.data):
        log.warning(
            "all %s interactions of the update are in the model's training data already: the model stays as it is",
            f"{new.n_interactions:,}",
        )
        return None
    return found


def _other_weights(old: Interactions, whole: Interactions) -> bool:
    """Whether known pairs have got other weights."""
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


def fill_optimizer(optimizer: _native.OptimizerState, rows: NDArray[np.int64], means: dict[str, Any]) -> None:
    """Start these rows with the mean state that the last training ended with, so that their first steps are small."""
    for part, array in optimizer_arrays(optimizer).items():
        if array.size:
            array[rows] = means[part]


def optimizer_means(optimizers: dict[str, _native.OptimizerState]) -> dict[str, Any]:
    """The mean of each array of the optimizers' states, such as ``user_first``: what an update starts from."""
    return {
        f"{side}_{part}": (array.mean().astype(array.dtype) if array.size else array.dtype.type(0))
        for side, optimizer in optimizers.items()
        for part, array in optimizer_arrays(optimizer).items()
    }
