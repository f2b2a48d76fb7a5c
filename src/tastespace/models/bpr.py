"""Bayesian personalized ranking, trained by native kernels."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_choice, require_number, require_whole
from tastespace._util.computed_once import writable
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.data.merge import Added
from tastespace.models.base import TrainingData
from tastespace.models.stored_values import Declared, Numbers, optimizer_means_of
from tastespace.models.trained import PartitionTrained
from tastespace.models.updating import (
    N_OLD,
    Update,
    begin_update,
    carried_over,
    check_update_settings,
    fill_optimizer,
    histories_of,
    new_interactions,
    optimizer_means,
    place_at_items_of_users,
    require_same_dimension,
    require_shared_ids,
    update_epochs,
)
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Callback
from tastespace.training.native_trainer import (
    OPTIMIZERS,
    SCHEDULES,
    BprTrainer,
    LearningRateSchedule,
    Schedule,
    TrainingSettings,
    optimizer_state,
)
from tastespace.training.visits import UpdateVisits, filled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments

_FOLD_IN_EPOCHS = 50  # enough for the vectors to converge
_FOLD_IN_PARALLEL = 2_000  # interactions from which a second thread pays


@dataclass(kw_only=True, eq=False, repr=False)
class BPR(PartitionTrained):
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
    """Course of the learning rate over the epochs."""
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

    def _fit(
        self,
        train: Interactions,
        valid: Interactions | None,
        progress: bool | None,
        callbacks: Sequence[Callback] = (),
        cluster: Any = None,
    ) -> None:
        if cluster is not None:
            self._fit_on_cluster(train, valid, cluster, progress, callbacks)
            return
        random = np.random.default_rng(self.seed)
        users = self._random_vectors(random, train.n_users, self.spill)
        items = self._random_vectors(random, train.n_items)
        bias = np.zeros(len(items), dtype=np.float32)
        self._train(train, valid, progress, callbacks, self._kernel_state(users, items, bias, self.spill))

    def partial_fit(
        self,
        new: TrainingData,
        valid: Interactions | None = None,
        progress: bool | None = None,
        callbacks: Sequence[Callback] = (),
        *,
        epochs: int | None = None,
        n_old: float = N_OLD,
        **columns: Unpack[TableArguments],
    ) -> BPR:
        """Learn from more interactions, which may hold new users and items, at the cost of these interactions.

        As in `DPCML.partial_fit`. A new item starts at the mean of the vectors of the known items that its users have,
        with the mean bias; a new user by fold-in.

        >>> from tastespace import synthetic
        >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
        >>> is_old = town.row_of_each() < 55
        >>> model = BPR(dim=8, epochs=10).fit(town.subset(is_old))
        >>> model.partial_fit(town.subset(~is_old)).train_.n_interactions == town.n_interactions
        True
        """
        self.require_fitted()
        self._check()
        check_update_settings(epochs, n_old)
        found = begin_update(self, new_interactions("partial_fit", self, new, columns))
        train = self.train_ if found is None else found.data
        require_same_dimension(self.dim, self.item_vectors_)
        require_shared_ids(valid, train)
        if found is None:
            return self
        state = self._starting_state(found)
        update = Update(UpdateVisits(found, n_old, self.seed), update_epochs(self.fit_epochs_, epochs))
        self._train(train, valid, progress, callbacks, state, update)
        self.train_, self.valid_ = train, valid
        return self

    def _starting_state(self, found: Added) -> _native.BprState:
        """The state that an update starts from."""
        data = found.data
        users, items = (
            carried_over(self.user_vectors_, found.learned_users),
            carried_over(self.item_vectors_, found.learned_items),
        )
        bias = np.full(data.n_items, self.item_bias_.mean(), dtype=np.float32)
        known = found.learned_items >= 0
        bias[known] = self.item_bias_[found.learned_items[known]]
        place_at_items_of_users(items, known, data)
        new_users = np.flatnonzero((found.learned_users < 0) & (data.user_counts > 0))
        if len(new_users):
            there = copy.copy(self)
            there.item_vectors_, there.item_bias_ = items, bias
            users[new_users] = there._fold_in(histories_of(data, new_users)).user_vectors_
        state = self._kernel_state(users, items, bias)
        means = self.optimizer_means_
        for side, optimizer, rows in (
            ("user", state.user_optimizer, found.learned_users),
            ("item", state.item_optimizer, found.learned_items),
            ("bias", state.bias_optimizer, found.learned_items),
        ):
            learned = np.flatnonzero(rows >= 0)
            fill_optimizer(optimizer, side, means, learned, rows[learned], np.flatnonzero(rows < 0))
        return state

    def _random_vectors(self, random: np.random.Generator, n: int, spill: str | None = None) -> NDArray[np.float32]:
        """Initial vectors: normal with variance 0.01 / dim, shape ``(n, dim)``."""
        scale = 0.1 / np.sqrt(self.dim)
        return filled(spill, (n, self.dim), lambda shape: random.normal(0.0, scale, shape))

    def _train(
        self,
        train: Interactions,
        valid: Interactions | None,
        progress: bool | None,
        callbacks: Sequence[Callback],
        state: _native.BprState,
        update: Update | None = None,
    ) -> None:
        """Run the epochs from this state and keep the result."""
        run = TrainingSettings(
            LearningRateSchedule(self.learning_rate, self.schedule, self.epochs if update is None else update.epochs),
            self.average,
            self.seed,
            resolve_threads(self.threads),
            0 if update is None else self.n_epochs_,
            None if update is None else update.visits,
            self.users_at_once,
            self.spill,
        )
        data = _native.BprData(offsets=train.offsets, positives=train.indices)
        result = self._run_loop(
            BprTrainer(train, data, state, self._kernel_settings(), run),
            train,
            valid,
            validate=self._validator(
                train,
                valid,
                lambda now: self._snapshot(
                    train, user_vectors_=now["users"], item_vectors_=now["items"], item_bias_=now["bias"]
                ),
            ),
            initial=(state.user_vectors, state.item_vectors),
            n_positives=train.n_interactions if update is None else len(update.visits),
            progress=progress,
            callbacks=callbacks,
            update_epochs=None if update is None else update.epochs,
        )
        self.user_vectors_, self.item_vectors_, self.item_bias_ = result["users"], result["items"], result["bias"]
        self.optimizer_means_ = optimizer_means(
            {"user": state.user_optimizer, "item": state.item_optimizer, "bias": state.bias_optimizer}
        )

    def _kernel_state(
        self,
        users: NDArray[np.float32],
        items: NDArray[np.float32],
        bias: NDArray[np.float32],
        spill: str | None = None,
    ) -> _native.BprState:
        return _native.BprState(
            user_vectors=users,
            item_vectors=items,
            bias=bias,
            user_optimizer=optimizer_state(self.optimizer, users, spill),
            item_optimizer=optimizer_state(self.optimizer, items),
            bias_optimizer=optimizer_state(self.optimizer, bias),
        )

    def _kernel_settings(self) -> _native.BprSettings:
        return _native.BprSettings(
            regularization=self.regularization,
            bias_regularization=self.bias_regularization,
            optimizer=_native.OptimizerSettings(optimizer=OPTIMIZERS[self.optimizer], learning_rate=self.learning_rate),
            block_size=self.block_size,
        )

    def _check(self) -> None:
        super()._check()
        self._check_user_blocks(checkpoint=self.checkpoint)
        for name, choices in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            require_choice(name, getattr(self, name), choices)
        for name in ("dim", "block_size", "average"):
            require_whole(name, getattr(self, name))
        require_number("learning_rate", self.learning_rate, above=0.0)
        for name in ("regularization", "bias_regularization"):
            require_number(name, getattr(self, name), least=0.0)

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {
            **super()._stored(learned),
            "user_vectors_": Numbers("float32", ("users", "dim")),
            "item_vectors_": Numbers("float32", ("items", "dim")),
            "item_bias_": Numbers("float32", ("items",)),
            "optimizer_means_": optimizer_means_of("users"),
        }

    def vectors(self) -> VectorSpace:
        """The learned vectors and biases."""
        if not hasattr(self, "item_vectors_"):
            self.require_fitted()
        return VectorSpace.single(self.user_vectors_, self.item_vectors_, "dot", self.item_bias_)

    def _fold_in(self, histories: Interactions) -> BPR:
        """Vectors of new users, learned with the model's own loss and the items fixed."""
        self._check()
        items, bias = writable(self.item_vectors_), writable(self.item_bias_)
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
