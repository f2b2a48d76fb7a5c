"""Bayesian personalized ranking, trained by native kernels."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tastespace import _native
from tastespace.checks import require_choice, require_number, require_whole
from tastespace.data.interactions import Interactions
from tastespace.models.trained_base import TrainedRecommender
from tastespace.models.vector_space import VectorSpace
from tastespace.threads import resolve_threads
from tastespace.training.loop import Arrays
from tastespace.training.native_trainer import (
    OPTIMIZERS,
    SCHEDULES,
    BprTrainer,
    LearningRateSchedule,
    Schedule,
    TrainingSettings,
    optimizer_state,
)

_FOLD_IN_EPOCHS = 50  # enough for the vectors to converge
_FOLD_IN_PARALLEL = 2_000  # interactions from which a second thread pays


@dataclass(kw_only=True, eq=False, repr=False)
class BPR(TrainedRecommender):
    """Matrix factorization with the BPR criterion (Rendle et al., "BPR: Bayesian Personalized Ranking from Implicit
    Feedback", UAI 2009).

    The score is ``s(u, i) = <x_u, v_i> + b_i``. For every positive (u, i) of an epoch an item j that u did not take is
    drawn uniformly, and ``-ln sigmoid(s(u, i) - s(u, j))`` plus half the regularization times the squares of x_u, v_i,
    v_j, b_i and b_j takes a step downwards.

    The publication draws positives with replacement; here an epoch takes each once, in a new random order. It has no
    item bias in its formulas, though its authors' software has; the start of the vectors, the optimizer and the number
    of steps are open as well. Row-wise Adagrad and the running mean are those of DPCML.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = BPR(dim=8, epochs=5).fit(town)
    >>> model.user_vectors_.shape, model.item_vectors_.shape, model.item_bias_.shape
    ((60, 8), (50, 8), (50,))
    """

    epochs: int = 100
    dim: int = 100
    """Dimension k of the vectors."""
    learning_rate: float = 0.05
    schedule: Schedule = "constant"
    """How the learning rate falls over the epochs."""
    regularization: float = 0.01
    """lambda_Theta for the vectors of users and items."""
    bias_regularization: float = 0.01
    """The same for the items' biases."""
    optimizer: Literal["adagrad", "adam", "sgd"] = "adagrad"
    """Row-wise: only what has a gradient changes."""
    block_size: int = 1024
    """Positives per block. Within a block user vectors are updated first, with the items fixed; then the items are
    updated."""
    average: int = 10
    """Window, in epochs, of the running mean that becomes the model; 1: no averaging."""

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        self._check()
        random = np.random.default_rng(self.seed)
        users, items = (
            random.normal(0.0, 0.1 / np.sqrt(self.dim), (n, self.dim)).astype(np.float32)
            for n in (train.n_users, train.n_items)
        )
        bias = np.zeros(len(items), dtype=np.float32)
        state = _native.BprState(
            user_vectors=users,
            item_vectors=items,
            bias=bias,
            user_optimizer=optimizer_state(self.optimizer, users),
            item_optimizer=optimizer_state(self.optimizer, items),
            bias_optimizer=optimizer_state(self.optimizer, bias),
        )
        run = TrainingSettings(
            LearningRateSchedule(self.learning_rate, self.schedule, self.epochs),
            self.average,
            self.seed,
            resolve_threads(self.threads),
        )
        data = _native.BprData(offsets=train.offsets, positives=train.indices)
        result = self._run_loop(
            BprTrainer(train, data, state, self._kernel_settings(), run),
            train,
            valid,
            validate=self._validator(train, valid, _space),
            initial=(users, items),
            n_positives=train.n_interactions,
            progress=progress,
        )
        self.user_vectors_, self.item_vectors_, self.item_bias_ = result["users"], result["items"], result["bias"]

    def _kernel_settings(self) -> _native.BprSettings:
        return _native.BprSettings(
            regularization=self.regularization,
            bias_regularization=self.bias_regularization,
            optimizer=_native.OptimizerSettings(optimizer=OPTIMIZERS[self.optimizer], learning_rate=self.learning_rate),
            block_size=self.block_size,
        )

    def _check(self) -> None:
        super()._check()
        for name, choices in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            require_choice(name, getattr(self, name), choices)
        for name in ("dim", "block_size", "average"):
            require_whole(name, getattr(self, name))
        require_number("learning_rate", self.learning_rate, above=0.0)
        for name in ("regularization", "bias_regularization"):
            require_number(name, getattr(self, name), least=0.0)

    def vectors(self) -> VectorSpace:
        """The learned vectors and biases."""
        if not hasattr(self, "item_vectors_"):
            self.require_fitted()
        return _space({"users": self.user_vectors_, "items": self.item_vectors_, "bias": self.item_bias_})

    def _fold_in(self, histories: Interactions) -> BPR:
        """Vectors of new users, learned with the model's own loss and the items fixed."""
        self._check()
        # A loaded model's arrays are mapped for reading only.
        items, bias = (np.require(a, requirements=["C", "W"]) for a in (self.item_vectors_, self.item_bias_))
        users = np.zeros((histories.n_users, items.shape[1]), dtype=np.float32)
        state = _native.BprState(
            user_vectors=users,
            item_vectors=items,
            bias=bias,
            user_optimizer=optimizer_state(self.optimizer, users),
            item_optimizer=optimizer_state(self.optimizer, items[:0]),
            bias_optimizer=optimizer_state(self.optimizer, bias[:0]),
        )
        model = copy.copy(self)
        model.user_vectors_ = np.zeros_like(users)
        _native.fold_in_bpr(
            _native.BprData(offsets=histories.offsets, positives=histories.indices),
            state,
            self._kernel_settings(),
            mean_user_vectors=model.user_vectors_,
            seed=self.seed,
            epochs=_FOLD_IN_EPOCHS,
            average=self.average,
            threads=resolve_threads(self.threads) if histories.n_interactions > _FOLD_IN_PARALLEL else 1,
        )
        return model


def _space(result: Arrays) -> VectorSpace:
    return VectorSpace.single(result["users"], result["items"], "dot", result["bias"])
