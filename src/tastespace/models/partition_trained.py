"""What DPCML, CML and BPR have in common: training on blocks and on partitions of the users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from tastespace.models.base import TrainingData
from tastespace.models.trained_base import TrainedRecommender
from tastespace.training.loop import Callback
from tastespace.training.user_blocks import UserBlockSettings

Self = TypeVar("Self", bound="PartitionTrained")


class PartitionTrained(UserBlockSettings, TrainedRecommender):
    """A model whose users share nothing but the items, so that they can be learned apart."""

    _cluster: Any = None

    def fit(
        self: Self,
        train: TrainingData,
        valid: TrainingData | None = None,
        progress: bool | None = None,
        callbacks: Sequence[Callback] = (),
        cluster: Any = None,
    ) -> Self:
        """Learn from ``train``; the epoch that does best on ``valid`` is kept where it is given.

        Args:
            train, valid: As for every model; ``valid`` chooses the best epoch and stops early.
            progress: Show a progress bar: by default only where standard error is a terminal.
            callbacks: Called after every epoch with its row of `history_`; returning False stops the training.
            cluster: Where to train on partitions of the users: a Dask client, its address, ``"local:4"``,
                ``"processes:4"``, or `tastespace.cluster.ClusterOptions`. None: in this process, without partitions.

        Ctrl-C stops within a second and leaves a usable model; on a cluster it raises, and the same call goes on after
        the last finished round where the options name a storage.
        """
        self._cluster = cluster
        try:
            return super().fit(train, valid, progress, callbacks)
        finally:
            vars(self).pop("_cluster", None)
