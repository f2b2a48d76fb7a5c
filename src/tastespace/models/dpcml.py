"""DPCML, the paper's model: several vectors per user, one per item, the nearest of a user's vectors counts.

"Improved Diversity-Promoting Collaborative Metric Learning for Recommendation" (TPAMI 2024), Sections 4 and 6.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace import threads as threading
from tastespace.checks import require_unweighted
from tastespace.data.concat import concat
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.models.initializers import grow, spread_over_items, start_items, start_users
from tastespace.models.parameters import REGIONS, MetricParameters
from tastespace.models.trained import TrainedRecommender, learn, validator
from tastespace.models.vectors import VectorSpace
from tastespace.training.kernel_run import Arrays, Pace, Rates, optimizer_memory
from tastespace.training.loop import Callback
from tastespace.training.metric import MetricTrainer, place
from tastespace.training.n_vectors import interests_per_user

log = logging.getLogger(__name__)

_FOLD_EPOCHS = 50  # until newcomers' vectors have settled
_FOLD_ALONE = 2_000  # interactions from which a second thread pays


@dataclass(kw_only=True, eq=False, repr=False)
class DPCML(MetricParameters, TrainedRecommender):
    """Diversity-promoting collaborative metric learning.

    The score of an item is minus the smallest squared distance from any of the user's vectors (Eq. 3). Training
    minimizes ``[margin + s(u, positive) - s(u, negative)]_+`` over sampled negatives (Eq. 12) plus a penalty that
    keeps each user's vectors properly apart (DCRS, Eq. 9).

    >>> from tastespace import split, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> train, valid, test = split.per_user(town, seed=0)
    >>> model = DPCML(dim=16, n_interests=3, epochs=5, seed=0).fit(train, valid=valid)
    >>> model.user_vectors_.shape, model.item_vectors_.shape
    ((180, 16), (50, 16))
    """

    has_interests = True

    @classmethod
    def paper(cls, **changes: Any) -> DPCML:
        """The plain published setting, with changes."""
        return cls(**{**cls.published(), **changes})

    @classmethod
    def published(cls) -> dict[str, Any]:
        """Parameters of the plain published setting: Adam, batches of 256, 100 epochs, d = 100, no averaging."""
        return {
            "optimizer": "adam",
            "learning_rate": 1e-3,
            "block_size": 256,
            "epochs": 100,
            "dim": 100,
            "average": 1,
            "margin": 1.0,
            "patience": 0,
            "monitor": "P@3",
            "monitor_protocol": "paper",
            "gamma": "random",
        }

    # ---- learning ------------------------------------------------------------------------------------------

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        self._check()
        rng = np.random.default_rng(self.seed)
        counts = interests_per_user(train.user_counts, self.n_interests, self.min_interests, self.log_base)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        regions = REGIONS[self.geometry]
        users = start_users(rng, int(offsets[-1]), self.dim, regions[0], self.radius)
        items = start_items(rng, train.n_items, self.dim, regions[1], self.radius)
        memory = optimizer_memory(self.optimizer, user=users, item=items)
        self._learn(train, valid, progress, users, offsets, items, memory)

    def partial_fit(
        self,
        new: Interactions,
        valid: Interactions | None = None,
        progress: bool | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> DPCML:
        """Go on with more interactions, for `epochs` epochs; new users and new items are welcome.

        The model afterwards knows everything it knew and everything in ``new``. New users and items start at random,
        as in `fit`. A user whose adaptive number of vectors grows gets a new one at the own item that lies farthest
        from the vectors already there. Vectors that exist move on with the mean of the optimizer's memory, so that
        they do not jump.
        """
        self.require_fitted()
        self._check()
        if not isinstance(new, Interactions):
            raise DataError(f"partial_fit expects Interactions, given {type(new).__name__}.")
        require_unweighted(type(self).__name__, new.weights)
        if self.dim != self.item_vectors_.shape[1]:
            raise ParameterError(
                f"dim={self.dim}: the model was fitted with dim={self.item_vectors_.shape[1]} and goes on with that. "
                "Restore it, or call fit."
            )
        whole = concat(self.train_, new)
        if valid is not None and (valid.users != whole.users or valid.items != whole.items):
            raise DataError(f"valid ({valid!r}) does not share users and items with old and new data ({whole!r}).")
        counts = interests_per_user(whole.user_counts, self.n_interests, self.min_interests, self.log_base)
        # Nobody loses a vector; a model fitted with other settings may have given more.
        old_rows = self.train_.users.find(whole.users.series)
        had = np.where(old_rows >= 0, np.diff(self.user_offsets_)[old_rows], 0)
        offsets = np.concatenate([[0], np.cumsum(np.maximum(counts, had))]).astype(np.int64)
        rng = np.random.default_rng(self.seed)
        regions = REGIONS[self.geometry]
        users = start_users(rng, int(offsets[-1]), self.dim, regions[0], self.radius)
        items = start_items(rng, whole.n_items, self.dim, regions[1], self.radius)
        memory = optimizer_memory(self.optimizer, user=users, item=items)
        old_items = self.train_.items.find(whole.items.series)
        known_items = np.flatnonzero(old_items >= 0)
        items[known_items] = self.item_vectors_[old_items[known_items]]
        known_vectors = grow(self, whole, users, offsets, old_rows, had, items, (regions[0], self.radius))
        for side, known in (("user", known_vectors), ("item", known_items)):
            for part in ("first", "second", "steps"):
                if memory[f"{side}_{part}"].size:
                    memory[f"{side}_{part}"][known] = self.memory_means_[f"{side}_{part}"]
        self._callbacks = tuple(callbacks)
        self._learn(whole, valid, progress, users, offsets, items, memory)
        self.train_, self.valid_ = whole, valid
        return self

    def _learn(
        self,
        train: Interactions,
        valid: Interactions | None,
        progress: bool | None,
        users: NDArray[np.float32],
        offsets: NDArray[np.int64],
        items: NDArray[np.float32],
        memory: Arrays,
    ) -> None:
        trainer = MetricTrainer(
            train,
            users,
            offsets,
            items,
            {**self._kernel_arrays(train), **memory},
            self._kernel_settings(),
            Pace(
                Rates(self.learning_rate, self.schedule, self.epochs),
                self.average,
                self.seed,
                threading.resolve(self.threads),
            ),
        )
        settings = self._loop_settings(train, valid, (users, items), train.n_interactions)
        measure = validator(self, train, valid, lambda result: VectorSpace(result["users"], offsets, result["items"]))
        found = learn(self, trainer, settings, measure, progress)
        self.user_vectors_, self.user_offsets_, self.item_vectors_ = found["users"], offsets, found["items"]
        self.skipped_positives_ = trainer.skipped
        if trainer.skipped:
            log.warning("%d positives of users who have every item were skipped: no negative exists", trainer.skipped)
        self.memory_means_ = {
            name: (array.mean().astype(array.dtype) if array.size else array.dtype.type(0))
            for name, array in trainer.state().items()
            if name.startswith(("user_", "item_"))
        }

    def _fold_in(self, histories: Interactions) -> DPCML:
        """Newcomers' vectors, learned with the model's own loss against items that stand still."""
        self._check()
        counts = interests_per_user(histories.user_counts, self.n_interests, self.min_interests, self.log_base)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        users = spread_over_items(self.item_vectors_, histories, offsets, REGIONS[self.geometry][0], self.radius)
        arrays: Arrays = {
            "offsets": histories.offsets,
            "positives": histories.indices,
            "vector_offsets": offsets,
            "users": users,
            "items": np.require(self.item_vectors_, requirements=["C", "W"]),  # a loaded model's are read-only
            **optimizer_memory(self.optimizer, user=users, item=users[:0]),
            **self._kernel_arrays(histories, self.train_),
        }
        if self.gamma == "random":  # by position: a newcomer's would depend on who else is there
            arrays["gamma"][:] = -1.0
        settings = {**self._kernel_settings(), "learning_rate": self.learning_rate}
        means = np.zeros_like(users)
        n_threads = threading.resolve(self.threads) if histories.n_interactions > _FOLD_ALONE else 1
        _native.learn_newcomers(arrays, settings, self.seed, _FOLD_EPOCHS, self.average, means, n_threads)
        new = copy.copy(self)
        new.user_vectors_ = place(means, REGIONS[self.geometry][0], self.radius)
        new.user_offsets_ = offsets
        return new

    def vectors(self) -> VectorSpace:
        """The learned vectors."""
        if not hasattr(self, "item_vectors_"):
            self.require_fitted()
        return VectorSpace(self.user_vectors_, self.user_offsets_, self.item_vectors_)


@dataclass(kw_only=True, eq=False, repr=False)
class CML(DPCML):
    """Collaborative metric learning (Hsieh et al., WWW 2017): DPCML with one vector per user.

    It takes DPCML's parameters but for those that concern several vectors.

    >>> CML(dim=8, sampler="unis").n_interests
    1
    """

    has_interests = False

    n_interests: int | str = field(default=1, init=False)
    min_interests: int = field(default=1, init=False)
    log_base: float = field(default=3.0, init=False)
    dcrs: Literal["mean", "pairs"] | None = field(default=None, init=False)
    spread_weight: float = field(default=0.0, init=False)
    min_spread: float | None = field(default=None, init=False)
    max_spread: float | None = field(default=None, init=False)
