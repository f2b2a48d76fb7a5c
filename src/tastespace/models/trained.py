"""What models that learn by epochs add to a recommender: the loop's parameters, callbacks and validation."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.models.vectors import VectorSpace
from tastespace.training.loop import Callback, LoopSettings

Self = TypeVar("Self", bound="TrainedRecommender")


@dataclass(kw_only=True, eq=False, repr=False)
class LoopParameters:
    """How long to learn, what chooses the epoch, what is written down, which resources are used."""

    epochs: int = 50
    monitor: str = "NDCG@10"
    """Metric of `tastespace.evaluate` that chooses the best epoch where `fit` is given validation data."""
    monitor_protocol: str = "full"
    patience: int = 10
    """Stop after so many validations without a better one; 0 never stops early."""
    validate_every: int = 1
    """Epochs between validations."""
    checkpoint: str | None = None
    """File from which `fit` resumes and to which it writes its state; a resumed run ends in the same bits."""
    checkpoint_epochs: int = 5
    checkpoint_minutes: float | None = None
    log_file: str | None = None
    """Training log, one row per epoch: a name that ends in .csv or .jsonl."""
    seed: int = 0
    threads: int = 0
    """0 means all cores."""

    def _loop_settings(
        self, train: Interactions, valid: Interactions | None, start: Sequence[NDArray[Any]], n_batched: int
    ) -> LoopSettings:
        """For the epoch loop; ``start`` is what learning begins with, ``n_batched`` what an epoch goes through."""
        require_seed(self.seed)
        identity: dict[str, Any] = {}
        if self.checkpoint is not None:
            free = {"checkpoint", "checkpoint_epochs", "checkpoint_minutes", "log_file", "threads"}
            assert isinstance(self, Recommender)
            identity = {name: value for name, value in self.get_params().items() if name not in free}
            identity["model"] = type(self).__name__
            # `partial_fit` starts from what the model has learnt: not the run that `fit` made of the same data.
            identity["start"] = 0
            for array in start:
                identity["start"] = zlib.crc32(np.ascontiguousarray(array).data, identity["start"])
            identity["train"] = train.fingerprint()
            identity["valid"] = None if valid is None else valid.fingerprint()
        return LoopSettings(
            epochs=self.epochs,
            n_positives=n_batched,
            patience=self.patience,
            validate_every=self.validate_every,
            monitor=self.monitor,
            checkpoint=self.checkpoint,
            checkpoint_epochs=self.checkpoint_epochs,
            checkpoint_minutes=self.checkpoint_minutes,
            log_file=self.log_file,
            identity=identity,
        )


class TrainedRecommender(Recommender):
    """A recommender that is trained by epochs."""

    _callbacks: Sequence[Callback] = ()

    def fit(
        self: Self,
        train: Interactions,
        valid: Interactions | None = None,
        progress: bool | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn from ``train``; the epoch that does best on ``valid`` is kept where it is given.

        Args:
            train: What to learn from.
            valid: Chooses the best epoch and stops early; shares users and items with ``train``.
            progress: Show a progress bar: by default only where standard error is a terminal.
            callbacks: Called after every epoch with its row of `history_`; returning False stops the training.

        Ctrl-C stops after the current block and leaves a usable model.
        """
        self._callbacks = tuple(callbacks)
        return super().fit(train, valid, progress)


class Candidate(Recommender):
    """Vectors in the middle of training, as a model that can be evaluated."""

    def __init__(self, space: VectorSpace) -> None:
        self.space = space

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        """Nothing to learn: the vectors are given."""

    def vectors(self) -> VectorSpace:
        """The vectors as they are now."""
        return self.space


def validator(
    train: Interactions, valid: Interactions, monitor: str, protocol: str, threads: int
) -> Callable[[Recommender], float]:
    """A function from a fitted model to the monitored metric on ``valid``; a wrong metric is refused at once."""
    # Evaluation stands above models; it is needed here only once training runs.
    from tastespace.evaluation import evaluate
    from tastespace.evaluation.metrics import columns_for
    from tastespace.evaluation.protocols import find_protocol

    find_protocol(protocol)
    if [column.label for column in columns_for([monitor], (3, 10))] != [monitor]:
        raise ParameterError(f"monitor={monitor!r}: expected the name of one figure, such as 'NDCG@10' or 'MAP'.")

    def score(candidate: Recommender) -> float:
        report = evaluate(candidate, valid, seen=train, protocol=protocol, metrics=[monitor], threads=threads)
        if math.isnan(report[monitor]):
            raise ParameterError(
                f"monitor={monitor!r}: no user of {valid!r} counts for it under the {protocol!r} protocol. Choose "
                "another metric or a smaller k."
            )
        return report[monitor]

    return score


def require_whole(name: str, value: Any, least: int = 1) -> None:
    """Raise unless ``value`` is a whole number, ``least`` or more."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ParameterError(f"{name}={value!r}: expected a whole number, {least} or more.")


def require_number(name: str, value: Any, *, above: float | None = None, least: float | None = None) -> None:
    """Raise unless ``value`` is a finite number in this range."""
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(float(value))
    if above == 0.0 and not (number and value > 0):
        raise ParameterError(f"{name}={value!r}: expected a positive, finite number.")
    if above is not None and not (number and value > above):
        raise ParameterError(f"{name}={value!r}: expected a finite number above {above:g}.")
    if least is not None and not (number and value >= least):
        raise ParameterError(f"{name}={value!r}: expected a number, {least:g} or more.")


def require_seed(seed: Any) -> None:
    """Raise unless the seed is a whole number of 64 bits."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ParameterError(f"seed={seed!r}: expected a whole number from 0 to 2**64 - 1.")
