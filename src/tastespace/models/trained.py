"""Base of the models that train by epochs: the epoch loop, validation, checkpoints, partitions, diagnostics."""

from __future__ import annotations

import copy
import logging
import math
import zlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.data.out_of_core.mapped_arrays import release, row_blocks
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender, TrainingData
from tastespace.models.interest_use import interest_findings
from tastespace.models.popular import MostPopular
from tastespace.models.stored_values import (
    DIAGNOSTICS,
    HISTORY,
    TEXT,
    WHOLE,
    Declared,
)
from tastespace.training.loop import (
    Arrays,
    Callback,
    Loop,
    LoopSettings,
    Trainable,
)
from tastespace.training.visits import UserBlockSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments

# ---------------------------------------------------------------------------------------------------------------------
# Diagnoses of a training that ended in a model of no use, which looks like any other until its lists are read.

COLLAPSED = 1e-3
"""Vectors whose variance is a smaller share of their mean square than this are nearly equal."""
_FEWEST = 10  # vectors that can be said to be equal


def below_popular(model: TrainedRecommender, value: float | None) -> list[dict[str, Any]]:
    """A diagnosis if the most popular items do better on the model's validation data, where it reached ``value``."""
    if value is None or model.valid_ is None or type(model.valid_) is not type(model.train_):
        return []
    metric = model._monitored_metric(model.train_)
    popular = MostPopular().fit(model.train_)
    reference = popular._measure(model.valid_, model.train_, metric, model.monitor_protocol, model.threads)
    if not value < reference:  # also where no user counts for the metric
        return []
    return [
        {
            "kind": "below-popular",
            "metric": metric,
            "value": float(value),
            "popular": float(reference),
            "message": (
                f"{metric} on the validation data is {value:.4f}, that of the most popular items {reference:.4f}. The "
                "training failed, or was too short: give it more epochs, another sampler or learning rate, or take "
                "another model."
            ),
        }
    ]


def collapsed_vectors(model: Recommender) -> list[dict[str, Any]]:
    """Diagnoses of sides, users or items with training data, whose vectors are all nearly equal."""
    space = model.vectors()
    if space is None:
        return []
    of_users = np.repeat(model.train_.user_counts > 0, np.diff(space.user_offsets))
    users = space.user_vectors if of_users.all() else space.user_vectors[of_users]  # a copy may not fit in memory
    sides = {"users": users, "items": space.item_vectors[model.train_.item_counts > 0]}
    found = []
    for side, vectors in sides.items():
        share = relative_variance(vectors)
        release(vectors)
        if share is not None and share < COLLAPSED:
            message = (
                f"the vectors of all {side} are nearly equal (their variance is {share:.1e} of their mean square): "
                "they have collapsed, and lists are hardly personal. Lower learning_rate, or take another sampler."
            )
            found.append({"kind": f"collapsed-{side}", "relative_variance": share, "message": message})
    return found


def relative_variance(vectors: NDArray[np.floating[Any]]) -> float | None:
    """Mean squared distance from the mean, as a share of the mean square; None for few or zero vectors.

    >>> relative_variance(np.ones((20, 3)))
    0.0
    """
    if len(vectors) < _FEWEST:
        return None
    square, mean = 0.0, np.zeros(vectors.shape[1])
    for rows in row_blocks(vectors):  # they may be larger than memory
        block = vectors[rows]
        square += float(np.einsum("ij,ij->", block, block, dtype=np.float64)) / len(vectors)
        mean += block.sum(axis=0, dtype=np.float64) / len(vectors)
    return max(0.0, 1.0 - float(mean @ mean) / square) if square > 0 else None


# ---------------------------------------------------------------------------------------------------------------------
# Models that train by epochs: the epoch loop, callbacks, validation, checkpoints.

log = logging.getLogger(__name__)

Self = TypeVar("Self", bound="TrainedRecommender")

# Parameters that do not change what a run computes: a checkpoint may be continued with others.
_NOT_IN_CHECKPOINT_IDENTITY = (
    "checkpoint",
    "checkpoint_epochs",
    "checkpoint_minutes",
    "log_file",
    "max_minutes",
    "spill",
    "threads",
)


class TrainedRecommender(LoopSettings, Recommender):
    """A recommender that trains by epochs. The settings of the loop are parameters of the model."""

    history_: list[dict[str, Any]]
    """A row for each epoch: loss, seconds, and the monitored metric where it was measured."""
    best_epoch_: int
    """The epoch that was kept, counted from 1."""
    fit_epochs_: int
    """The epoch that `fit` kept: updates (`partial_fit`) set `history_` and `best_epoch_`, not this."""
    n_epochs_: int
    """Epochs of `fit` and of all updates."""
    diagnostics_: list[dict[str, Any]]
    """Findings on the last fit, one dict each with ``kind`` and ``message``. Saved with the model.

    Problems: ``"below-popular"`` (worse on validation data than the most popular items), ``"collapsed-users"`` and
    ``"collapsed-items"`` (vectors nearly equal), ``"dead-interests"`` (many interest vectors that no past item is
    nearest to), ``"collapsed-interests"`` (many users whose vectors are nearly equal), ``"diverged"``,
    ``"checkpoint-not-written"``, ``"log-not-written"``. No problem: ``"interests"``, for models of several vectors per
    user, with ``n_users``, ``n_vectors``, ``n_dead``, ``n_collapsed``, ``effective`` (mean effective number of
    interests) and ``effective_quantiles``; see `tastespace.models.interest_use`."""
    stopped_: str
    """Reason for stopping: ``"finished"``, ``"early"``, ``"time"``, ``"callback"``, ``"interrupted"`` or
    ``"diverged"``."""

    def fit(
        self: Self,
        train: TrainingData,
        valid: TrainingData | None = None,
        progress: bool | None = None,
        callbacks: Sequence[Callback] = (),
        **columns: Unpack[TableArguments],
    ) -> Self:
        """Learn from ``train`` as `Recommender.fit` does; ``valid`` chooses the best epoch and stops training early.

        Args:
            train, valid, progress: As in `Recommender.fit`.
            callbacks: Called after every epoch with its row of `history_`; returning False stops the training.
            **columns: Of a frame, as in `Recommender.fit`: ``user="customer"``, ``min_rating=4``, ...

        Ctrl-C stops within a second and leaves a usable model.
        """
        return self._fit_to(train, valid, progress, columns, callbacks=callbacks)

    @abstractmethod
    def _fit(
        self,
        train: Interactions,
        valid: Interactions | None,
        progress: bool | None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """Learn with `_run_loop`; sets the attributes that end in an underscore."""

    def _after_fit(self) -> None:
        """Add to `diagnostics_` what is known of interest vectors, and where the model is of no use.

        A problem is logged once, also where `fit` takes over what another model learned and found.
        """
        found = [*below_popular(self, self._best_monitored()), *collapsed_vectors(self), *interest_findings(self)]
        known = {one["kind"] for one in self.diagnostics_}
        for one in found:
            if one["kind"] not in known:
                level = logging.INFO if one["kind"] == "interests" else logging.WARNING
                log.log(level, "%s: %s", type(self).__name__, one["message"])
        kinds = {one["kind"] for one in found}
        self.diagnostics_ = [*(one for one in self.diagnostics_ if one["kind"] not in kinds), *found]

    def _best_monitored(self) -> float | None:
        """The monitored metric of the epoch that was kept; None without validation data."""
        values = [row[self.monitor] for row in self.history_ if self.monitor in row]
        return max(values, default=None)

    def _check(self) -> None:
        super()._check()
        self._check_loop()

    def as_chosen(self: Self) -> Self:
        """An unfitted copy with the best number of epochs; it has files of its own, such as ``run-final.csv``."""
        again = super().as_chosen()
        best = self.fit_epochs_
        if best > 0 and "epochs" in self._parameter_names():
            again.set_params(epochs=best)
        for name in ("checkpoint", "log_file"):
            path = getattr(self, name)
            if path is not None:
                again.set_params(**{name: str(with_final(path))})
        return again

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {
            "fit_epochs_": WHOLE,
            "n_epochs_": WHOLE,
            "history_": HISTORY,
            "best_epoch_": WHOLE,
            "stopped_": TEXT,
            "diagnostics_": DIAGNOSTICS,
        }

    def _run_loop(
        self,
        trainable: Trainable,
        train: Interactions,
        valid: Interactions | None,
        *,
        validate: Callable[[Arrays], float] | None,
        initial: Sequence[NDArray[Any]],
        n_positives: int,
        progress: bool | None,
        callbacks: Sequence[Callback],
        update_epochs: int | None = None,
        least_epochs: int = 0,
    ) -> Arrays:
        """Run the epochs; returns what was learned and sets `history_`, `best_epoch_` and `stopped_`.

        ``validate`` comes from `_validator`, ``initial`` are the values that training starts from, ``n_positives`` is
        what an epoch goes through, and ``update_epochs`` are the epochs of an update of what is learned; None: a fit.
        Validations up to ``least_epochs`` do not count for ``patience``.
        """
        settings: TrainedRecommender = self
        identity = {} if self.checkpoint is None else self._checkpoint_identity(train, valid, initial)
        n_before = 0
        if update_epochs is not None:
            settings, n_before = copy.copy(self), self.n_epochs_
            settings.epochs = update_epochs
            identity |= {"update_epochs": update_epochs, "n_epochs": n_before}
        outcome = Loop(
            trainable,
            settings,
            n_positives=n_positives,
            validate=validate,
            callbacks=tuple(callbacks),
            progress=progress,
            identity=identity,
            least_epochs=least_epochs,
        ).run()
        if update_epochs is None:
            self.fit_epochs_ = outcome.best_epoch
        self.n_epochs_ = n_before + len(outcome.history)
        self.history_, self.best_epoch_, self.stopped_ = outcome.history, outcome.best_epoch, outcome.stopped
        self.diagnostics_ = outcome.diagnostics
        return outcome.result

    def _checkpoint_identity(
        self, train: Interactions, valid: Interactions | None, initial: Sequence[NDArray[Any]]
    ) -> dict[str, Any]:
        """Facts that must be the same for a checkpoint to be continued."""
        identity = {name: value for name, value in self.get_params().items() if name not in _NOT_IN_CHECKPOINT_IDENTITY}
        identity["model"] = type(self).__name__
        # `partial_fit` starts from what the model has learned: not the run that `fit` made of the same data.
        identity["start"] = 0
        for array in initial:
            identity["start"] = zlib.crc32(np.ascontiguousarray(array).data, identity["start"])
        identity["train"] = train.fingerprint()
        identity["valid"] = None if valid is None else valid.fingerprint()
        return identity

    def _monitored_metric(self, train: Interactions) -> str:
        """`monitor`, with a list that is no longer than the catalog."""
        name, _, k = self.monitor.partition("@")
        return f"{name}@{min(int(k), train.n_items)}" if k else name

    def _validator(
        self, train: Interactions, valid: Interactions | None, model_of: Callable[[Arrays], Recommender]
    ) -> Callable[[Arrays], float] | None:
        """A function from what is learned so far to the monitored metric on ``valid``; None without validation data.

        ``model_of`` makes a fitted model of what is learned so far, see `_snapshot`. An invalid metric raises an error
        before training.
        """
        if valid is None or not valid.n_interactions:
            return None
        held_out = valid
        self._check_metric(self.monitor, self.monitor_protocol)
        metric = self._monitored_metric(train)

        def validate(result: Arrays) -> float:
            value = model_of(result)._measure(held_out, train, metric, self.monitor_protocol, self.threads)
            if math.isnan(value):
                raise ParameterError(
                    f"monitor={self.monitor!r}: no user of {held_out!r} counts for it under the "
                    f"{self.monitor_protocol!r} protocol. Choose another metric or a smaller k."
                )
            return value

        return validate

    def _snapshot(self: Self, train: Interactions, **learned: Any) -> Self:
        """A copy that is as the model would be if training ended now; ``learned`` are its attributes by name."""
        model = copy.copy(self)
        model._mapped_files = ()  # of what an update started from
        vars(model).update(train_=train, **learned)
        return model


def with_final(path: str | Path) -> Path:
    """The name of a file of the second fit, to all of the data.

    >>> with_final("run.csv").name
    'run-final.csv'
    """
    return Path(path).with_stem(f"{Path(path).stem}-final")


# ---------------------------------------------------------------------------------------------------------------------
# Base of DPCML, CML and BPR: training on blocks and on partitions of the users.

PartitionSelf = TypeVar("PartitionSelf", bound="PartitionTrained")


class PartitionTrained(UserBlockSettings, TrainedRecommender):
    """A model whose users share nothing but the items, so that they can be learned apart."""

    def fit(
        self: PartitionSelf,
        train: TrainingData,
        valid: TrainingData | None = None,
        progress: bool | None = None,
        callbacks: Sequence[Callback] = (),
        cluster: Any = None,
        **columns: Unpack[TableArguments],
    ) -> PartitionSelf:
        """Learn from ``train`` as `TrainedRecommender.fit` does, on a cluster where one is given.

        Args:
            train, valid, progress, callbacks, **columns: As in `TrainedRecommender.fit`.
            cluster: Where to train on partitions of the users: a Dask client, its address, ``"local:4"``,
                ``"processes:4"``, or `tastespace.cluster.ClusterOptions`. None: in this process, without partitions.

        On a cluster Ctrl-C raises, and the same call resumes after the last finished round where the options name a
        storage.
        """
        return self._fit_to(train, valid, progress, columns, callbacks=callbacks, cluster=cluster)
