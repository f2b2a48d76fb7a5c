"""What models that learn by epochs add to a recommender: the loop's parameters, callbacks and validation."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace.checks import require_seed
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender, TrainingData
from tastespace.models.vectors import VectorSpace
from tastespace.training.loop import Arrays, Callback, Loop, LoopSettings, Trainee

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
    max_minutes: float | None = None
    """Stop after the epoch in which training has taken so long; None: never. What was best until then is kept."""
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
            free = {"checkpoint", "checkpoint_epochs", "checkpoint_minutes", "log_file", "max_minutes", "threads"}
            assert isinstance(self, Recommender)
            identity = {name: value for name, value in self.get_params().items() if name not in free}
            identity["model"] = type(self).__name__
            # `partial_fit` starts from what the model has learned: not the run that `fit` made of the same data.
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
            max_minutes=self.max_minutes,
            identity=identity,
        )


class TrainedRecommender(Recommender):
    """A recommender that is trained by epochs."""

    _callbacks: Sequence[Callback] = ()
    history_: list[dict[str, Any]]
    """A row for each epoch: loss, seconds, and the monitored metric where it was measured."""
    best_epoch_: int
    """The epoch that was kept, counted from 1."""
    stopped_: str
    """Why training ended: ``"finished"``, ``"early"``, ``"time"``, ``"callback"`` or ``"interrupted"``."""

    def fit(
        self: Self,
        train: TrainingData,
        valid: TrainingData | None = None,
        progress: bool | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn from ``train``; the epoch that does best on ``valid`` is kept where it is given.

        Args:
            train, valid: As for every model; ``valid`` chooses the best epoch and stops early.
            progress: Show a progress bar: by default only where standard error is a terminal.
            callbacks: Called after every epoch with its row of `history_`; returning False stops the training.

        Ctrl-C stops after the current block and leaves a usable model.
        """
        self._callbacks = tuple(callbacks)
        return super().fit(train, valid, progress)


def learn(
    model: TrainedRecommender,
    trainee: Trainee,
    settings: LoopSettings,
    measure: Callable[[Arrays], float] | None,
    progress: bool | None,
) -> Arrays:
    """Run the loop for a model: what it has learned; the model is told how training went."""
    outcome = Loop(trainee, settings, measure, model._callbacks, progress).run()
    model.history_, model.best_epoch_, model.stopped_ = outcome.history, outcome.best_epoch, outcome.stopped
    return outcome.result


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
    parameters: LoopParameters,
    train: Interactions,
    valid: Interactions | None,
    candidate: Callable[[Arrays], Recommender | VectorSpace],
) -> Callable[[Arrays], float] | None:
    """A function from what is learned so far to the monitored metric on ``valid``; None where nothing was held out.

    ``candidate`` makes a model of it that can be evaluated, or its vectors. A wrong metric is refused at once.
    """
    if valid is None or not valid.n_interactions:
        return None
    # Evaluation stands above models; it is needed here only once training runs.
    from tastespace.evaluation import evaluate
    from tastespace.evaluation.metrics import columns_for
    from tastespace.evaluation.protocols import find_protocol

    monitor, protocol, held_out = parameters.monitor, parameters.monitor_protocol, valid
    find_protocol(protocol)
    if [column.label for column in columns_for([monitor], (3, 10))] != [monitor]:
        raise ParameterError(f"monitor={monitor!r}: expected the name of one figure, such as 'NDCG@10' or 'MAP'.")

    def score(result: Arrays) -> float:
        found = candidate(result)
        model = Candidate(found).fit(train) if isinstance(found, VectorSpace) else found
        report = evaluate(model, held_out, seen=train, protocol=protocol, metrics=[monitor], threads=parameters.threads)
        if math.isnan(report[monitor]):
            raise ParameterError(
                f"monitor={monitor!r}: no user of {held_out!r} counts for it under the {protocol!r} protocol. Choose "
                "another metric or a smaller k."
            )
        return report[monitor]

    return score
