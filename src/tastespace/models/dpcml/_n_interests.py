"""Models that are trained on the way to a number of vectors: for ``n_interests="auto"`` and ``"cross-validated"``."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tastespace.data import split
from tastespace.data.interactions import Interactions
from tastespace.training.loop import Callback

if TYPE_CHECKING:
    from tastespace.models.dpcml.model import DPCML

log = logging.getLogger(__name__)

AUTO = "auto"
TRIED = (1, 2, 4)
"""Numbers of vectors per user that are compared; of equally good ones the smallest is kept."""

STOPPED_BY_USER = ("callback", "interrupted")


def fit_with_best_number(
    model: DPCML,
    train: Interactions,
    valid: Interactions | None,
    progress: bool | None,
    callbacks: Sequence[Callback],
) -> DPCML:
    """A fitted copy of the model with the number of vectors that does best by its ``monitor`` on validation data.

    Without validation data a fifth of each history is held out for the choice, and the copy is then fitted to all of
    ``train`` with the best number and its best number of epochs. Histories too short for that give one vector.
    """
    runs = _Runs(model, progress, callbacks)
    if valid is not None and valid.n_interactions:
        return runs.best(train, valid, then=0)[0]
    rest, held_out = split.inner(train, seed=model.seed)
    if not held_out.n_interactions:
        log.warning("n_interests='auto': histories are too short to hold out a part; every user gets one vector")
        return runs.fit(train, None, {"n_interests": 1}, left=1)
    best, stopped = runs.best(rest, held_out, then=1)
    if stopped:
        log.warning("n_interests='auto': stopped before the fit to everything; a fifth of each history was not used")
        best._keep_anchors(getattr(best, "free_vectors_", None), None)  # assignments are those of the other histories
        return best
    changes = {"n_interests": best.n_interests, "epochs": max(1, best.best_epoch_)}
    return runs.fit(train, None, changes | best._phases_up_to(best.best_epoch_), left=1)


def fit_one_vector(model: DPCML, train: Interactions, progress: bool | None, callbacks: Sequence[Callback]) -> DPCML:
    """Return a fitted copy of the model with one vector per user, trained for `one_vector_epochs`."""
    runs = _Runs(model, progress, callbacks)
    epochs = model.one_vector_epochs or max(1, model.epochs // 2)
    changes = {"n_interests": 1, "epochs": epochs, "one_vector_epochs": None, **runs.own_files(1)}
    one = runs.fit(train, None, changes, left=2)
    if one.stopped_ in STOPPED_BY_USER:
        log.warning("n_interests=%r: stopped before numbers were chosen; every user has one vector", model.n_interests)
    return one


class _Runs:
    """Fits copies of a model, which share its time limit."""

    def __init__(self, model: DPCML, progress: bool | None, callbacks: Sequence[Callback]) -> None:
        self._model, self._progress, self._callbacks = model, progress, callbacks
        self._began = time.monotonic()

    def best(self, train: Interactions, valid: Interactions, then: int) -> tuple[DPCML, bool]:
        """The best of the numbers tried, and whether the user stopped the training; ``then`` more fits will follow."""
        kept: DPCML | None = None
        for at, number in enumerate(TRIED):
            changes = {"n_interests": number, **self.own_files(number)}
            found = self.fit(train, valid, changes, left=len(TRIED) - at + then)
            log.info("n_interests=%d: %s %.5g", number, self._model.monitor, _figure(found))
            if kept is None or _figure(found) > _figure(kept):
                kept = found
            if found.stopped_ in STOPPED_BY_USER:
                return kept, True
        assert kept is not None
        return kept, False

    def fit(self, train: Interactions, valid: Interactions | None, changes: dict[str, Any], left: int) -> DPCML:
        """A copy of the model with these changes, fitted; it is the first of ``left`` that the time left is for."""
        copy = self._model.clone().set_params(**changes)
        if copy.max_minutes is not None:
            remaining = copy.max_minutes - (time.monotonic() - self._began) / 60
            copy.set_params(max_minutes=max(1e-6, remaining / left))
        return copy.fit(train, valid, self._progress, self._callbacks)

    def own_files(self, number: int) -> dict[str, Path]:
        """Checkpoint and log of one number: ``run.ckpt`` becomes ``run.2.ckpt``."""
        given = {name: getattr(self._model, name) for name in ("checkpoint", "log_file")}
        return {
            name: Path(path).with_name(f"{Path(path).stem}.{number}{Path(path).suffix}")
            for name, path in given.items()
            if path is not None
        }


def _figure(model: DPCML) -> float:
    """The monitored metric of the epoch that was kept."""
    figures = [row[model.monitor] for row in model.history_ if model.monitor in row]
    return max(figures, default=float("-inf"))
