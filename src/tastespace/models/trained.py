"""What models that learn by epochs add to a recommender: callbacks and validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.models.vectors import VectorSpace
from tastespace.training.loop import Callback

Self = TypeVar("Self", bound="TrainedRecommender")


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


class _Candidate(Recommender):
    """Vectors in the middle of training, as a model that can be evaluated."""

    def __init__(self, space: VectorSpace) -> None:
        self.space = space

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        """Nothing to learn: the vectors are given."""

    def vectors(self) -> VectorSpace:
        return self.space


def validator(
    train: Interactions, valid: Interactions, monitor: str, protocol: str, threads: int
) -> Callable[[VectorSpace], float]:
    """A function from vectors to the monitored metric on ``valid``; a wrong metric is refused at once."""
    # Evaluation stands above models; it is needed here only once training runs.
    from tastespace.evaluation import evaluate
    from tastespace.evaluation.metrics import columns_for
    from tastespace.evaluation.protocols import find_protocol

    find_protocol(protocol)
    if [column.label for column in columns_for([monitor], (3, 10))] != [monitor]:
        raise ParameterError(f"monitor={monitor!r}: expected the name of one figure, such as 'NDCG@10' or 'MAP'.")

    def score(space: VectorSpace) -> float:
        candidate = _Candidate(space).fit(train)
        report = evaluate(candidate, valid, seen=train, protocol=protocol, metrics=[monitor], threads=threads)
        if math.isnan(report[monitor]):
            raise ParameterError(
                f"monitor={monitor!r}: no user of {valid!r} counts for it under the {protocol!r} protocol. Choose "
                "another metric or a smaller k."
            )
        return report[monitor]

    return score
