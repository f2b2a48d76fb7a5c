"""DPCML, the paper's model: several vectors per user, one per item, the nearest of a user's vectors counts.

"Improved Diversity-Promoting Collaborative Metric Learning for Recommendation" (TPAMI 2024), Sections 4 and 6.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import (
    is_finite_number,
    is_whole,
    require_choice,
    require_number,
    require_share,
    require_spread,
    require_whole,
)
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.base import TrainingData
from tastespace.models.dpcml._anchors import AnchoredTrainer
from tastespace.models.dpcml._cross_validated import CROSS_VALIDATED, vectors_per_user
from tastespace.models.dpcml._fold_in import fold_in, fold_in_longer
from tastespace.models.dpcml._n_interests import AUTO, STOPPED_BY_USER, fit_one_vector, fit_with_best_number
from tastespace.models.dpcml._update import starting_state
from tastespace.models.dpcml.growing import GrowingTrainer
from tastespace.models.dpcml.kernel import (
    DCRS_FORMS,
    DPCML_OPTIMIZERS,
    GAMMA_RULES,
    REGIONS,
    initial_temperature,
    initial_vectors,
    kernel_data,
    kernel_settings,
    kernel_state,
    vector_offsets,
)
from tastespace.models.stored_values import (
    WHOLE,
    Declared,
    Numbers,
    Offsets,
    Plain,
    optimizer_means_of,
)
from tastespace.models.trained import PartitionTrained
from tastespace.models.updating import (
    N_OLD,
    Update,
    begin_update,
    check_update_settings,
    new_interactions,
    optimizer_means,
    require_same_dimension,
    require_shared_ids,
    update_epochs,
)
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Callback
from tastespace.training.native_trainer import (
    SCHEDULES,
    LearningRateSchedule,
    Schedule,
    TrainingSettings,
)
from tastespace.training.phases import Phases
from tastespace.training.samplers import (
    SamplerKind,
    default_hard_negatives,
    find_sampler,
)
from tastespace.training.visits import UpdateVisits

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments

log = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False, repr=False)
class DPCML(PartitionTrained):
    """Diversity-promoting collaborative metric learning.

    d(u, v) is the smallest squared distance between item v and one of user u's vectors. The score is ``-d(u, v)``, so
    that larger is better (Eq. 3). Training minimizes ``[margin + d(u, positive) - d(u, negative)]_+`` over sampled
    negatives (Eq. 12), plus a penalty when the spread of a user's vectors is below `min_spread` or above `max_spread`
    (DCRS, Eq. 9).

    >>> from tastespace import split, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> train, valid, test = split.per_user(town, seed=0)
    >>> model = DPCML(dim=16, n_interests=3, epochs=5, seed=0).fit(train, valid=valid)
    >>> model.user_vectors_.shape, model.item_vectors_.shape
    ((180, 16), (50, 16))

    With `anchor` above 0, `assignments_` says to which of its user's interests each train interaction belongs, shape
    ``(n_interactions,)``, and below 1 `free_vectors_` is the learned part of `user_vectors_`, of the same shape.

    >>> anchored = DPCML(dim=16, n_interests=3, anchor=0.5, epochs=5, seed=0).fit(train, valid=valid)
    >>> anchored.assignments_.shape == (train.n_interactions,), anchored.free_vectors_.shape
    (True, (180, 16))

    `n_negatives_` is how many negatives were drawn for each positive; by default that follows the number of items.

    >>> model.n_negatives_
    5

    `n_interests_` is the number chosen where `n_interests` is ``"auto"``, else it equals `n_interests`.

    >>> DPCML(dim=16, n_interests="auto", epochs=5, seed=0).fit(train, valid=valid).n_interests_ in (1, 2, 4)
    True
    """

    has_interests = True

    # ---- the space
    dim: int = 100
    """Dimension d of the space."""
    n_interests: int | str = "adaptive"
    """Vectors per user: a whole number C for all users (BPA), or ``"adaptive"`` (APA): max(C_1, floor(log_a n_i))
    with n_i the user's train interactions. Or ``"auto"``: 1, 2 and 4 are tried, and the number that does best by
    `monitor` on the validation data is kept, as `n_interests_`. Where `fit` is given none it holds out a fifth of each
    history, chooses, and fits to everything with that number and its best number of epochs. Or ``"cross-validated"``:
    a model with one vector per user is trained first, and each user gets 1, 2, 4 or 8, by which number predicts
    left-out items of the own history best in its space. On Steam-200k (dimension 16) that is 2.5 on average and about
    as good as 3 for all; on MovieLens-100k it is 3.8 and no better than 4 for all."""
    min_interests: int = 3
    """C_1 of APA: minimum number of vectors per user."""
    log_base: float = 3.0
    """a of APA, above 1: the larger, the fewer vectors."""
    geometry: Literal["sphere-ball", "ball", "sphere"] | None = None
    """Regions of the vectors: users on the sphere and items in the ball, as in the paper; both in the ball; or both on
    the sphere, which is GFJA, the joint-accessibility form: there d = 1 - cos (Eq. 18), and `margin` is in that unit.
    None: both in the ball, which is better at every dimension that was tried, but with `anchor` above 0, where the
    sphere is better for users, ``"sphere-ball"``."""
    radius: float = 1.0
    """r of the sphere and the ball."""

    anchor: float = 0.0
    """Share of an interest vector that is the mean of the user's own items that belong to the interest, from 0 (the
    vector is learned freely, as in the paper) to 1 (it is that mean; only item vectors are learned):
    ``(1 - anchor) * free + anchor * mean``, projected to the users' region. Each item belongs to the user's nearest
    vector, decided anew in every epoch; while an item is learned from, it is left out of the mean."""

    # ---- the loss
    margin: float = 1.0
    """lambda, in units of squared distance."""
    sampler: str | None = None
    """Source of negatives: ``"uniform"``, ``"popularity"``, ``"two-stage"``, ``"hard"``, ``"hard-sorted"`` or
    ``"hard-differentiable"``; the paper's UniS, PopS, 2stS, HarS, NDiHarS and DiHarS mean the same, in any case. None:
    ``"hard"``, and ``"uniform"`` for the joint-accessibility form. See `tastespace.training.samplers`."""
    n_negatives: int | None = None
    """Negatives drawn for each positive: U of UniS and PopS, S of 2stS and HarS, J_2 of (N)DiHarS. None: by the number
    of items where `sampler` is None, too: 5 up to 2,000 items, 10 up to 5,000, else 20. With a sampler given 10, for
    2stS 50, for (N)DiHarS 100. `n_negatives_` is the number that `fit` used."""
    n_hardest: int = 1
    """Number of the negatives drawn that HarS and 2stS use, the hardest."""
    beta: float = 1e-3
    """The share of a user's negatives that (N)DiHarS aims at, in (0, 1]: N_beta = max(1, floor(beta n_i^-))."""
    gamma: Literal["statistic", "random", "average"] = "statistic"
    """Thresholds of DiHarS: initialized with the N_beta-th largest margin violation of the first step and updated by
    projected gradient; initialized at random as in the paper (uniform in [0, margin)) and updated by projected
    gradient; or a running average of the N_beta-th largest violation."""
    gamma_rate: float = 0.05
    """Step of the projected gradient on gamma, or weight of a new value in the running average."""
    popularity_power: float = 1.0
    """PopS and 2stS draw items in proportion to their number of users to this power."""
    weighting: Literal["positive", "user"] = "positive"
    """Unit of equal weight in the loss: every positive (the authors' published code) or every user (Eq. 12)."""

    # ---- the spread of a user's vectors (DCRS)
    dcrs: Literal["auto", "mean", "pairs"] | None = "auto"
    """The penalty: on the spread (``"mean"``), which is half the mean squared distance between two different vectors of
    a user (the paper's text); on the squared distance of each pair (the published code); or none. ``"auto"``: on the
    spread from `dim` 48 on. With fewer dimensions users' vectors must lie farther apart to say different things, and
    the penalty costs accuracy; with more it keeps them from fitting single items."""
    spread_weight: float = 10.0
    """eta, the weight of the penalty."""
    min_spread: float | None = 0.05
    """delta_1, the lower bound of the spread, or of each pair's squared distance with ``dcrs="pairs"``; None: no lower
    bound."""
    max_spread: float | None = 0.1
    """delta_2, the upper bound, of the same quantity as `min_spread`; None: no upper bound. It is what keeps several
    vectors from being worse than one where histories are long and dimensions many."""

    # ---- from one vector to several
    start: Literal["one-vector", "random"] = "one-vector"
    """How a user's vectors begin. ``"one-vector"``: the first `one_vector_epochs` train one vector per user, as CML
    does; then all vectors of the user start next to it, each a little towards the centre of a cluster of the user's own
    items. The epoch that is kept may be one with one vector, which several vectors can therefore not be worse than on
    validation data. ``"random"``: all vectors are random at first, as in the paper."""
    one_vector_epochs: int | None = None
    """Epochs with one vector, where that is the `start`; None: half of `epochs`."""
    temperature: float | None = None
    """In training the smallest distance can be replaced by a smooth minimum, so that vectors other than the nearest
    learn too: -T log(mean of exp(-distance / T)). T is this share of `margin` in the first epoch with several vectors
    and falls to `temperature_end` in the last. 0: the smallest distance throughout, as in the paper. None: 0.6 for
    `dim` below 48, else 0. With ``start="random"`` 4 is better than 0.6: vectors are then trained as one at first."""
    temperature_end: float = 0.1
    """Share of `margin` that the temperature falls to; of no effect where `temperature` is 0."""

    # ---- optimization
    epochs: int = 100
    """Of all phases."""
    optimizer: Literal["adagrad", "adam", "sgd", "dense-adam"] = "adagrad"
    """The first three are row-wise, a step for each positive: only vectors with a gradient change. ``"dense-adam"`` is
    the rule of the authors' published code: one step of Adam of all vectors for each batch of `block_size` positives,
    with the sum of their losses and the mean of the penalty over the batch's users, so that the same `spread_weight`
    weighs far less. Positives are shuffled one by one; of UniS and PopS each pair of a positive and a negative is a
    member of a batch of its own. It trains on one thread."""
    learning_rate: float = 0.2
    schedule: Schedule = "constant"
    """Course of the learning rate over the epochs."""
    block_size: int = 1024
    """Positives per block. Within a block user vectors are updated first, with item vectors fixed; then item vectors
    are updated. With ``optimizer="dense-adam"`` the size of a batch."""
    average: int = 10
    """Window, in epochs, of the running mean that becomes the model; 1: no averaging."""

    @classmethod
    def paper(cls, **changes: Any) -> DPCML:
        """The plain published setting, with changes."""
        negatives = {} if "sampler" in changes else {"n_negatives": 10}  # HarS, however many items there are
        return cls(**{**cls.published(), **negatives, **changes})

    @classmethod
    def paper_form(cls) -> dict[str, Any]:
        """Parameters that make the model that of the paper, where this library's defaults go another way.

        >>> CML.paper_form()
        {'geometry': 'sphere-ball'}
        """
        form = {"geometry": "sphere-ball", "dcrs": "mean", "max_spread": 0.25, "start": "random", "temperature": 0.0}
        return {name: value for name, value in form.items() if name not in cls._fixed_parameters}

    @classmethod
    def published(cls) -> dict[str, Any]:
        """Parameters of the plain published setting: one step of Adam for each batch of 256, 100 epochs,
        d = 100, no averaging.

        >>> DPCML.published()["optimizer"]
        'dense-adam'
        """
        return {
            **cls.paper_form(),
            "optimizer": "dense-adam",
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
        self.n_negatives_ = self._negatives_for(train.n_items)
        if self.n_interests == AUTO:
            self._take_learned(fit_with_best_number(self, train, valid, progress, callbacks))
            return
        learned = None
        if self.n_interests == CROSS_VALIDATED:
            one = fit_one_vector(self, train, progress, callbacks)
            if one.stopped_ in STOPPED_BY_USER:
                self._take_learned(one)
                return
            learned = one.item_vectors_
        offsets = vector_offsets(vectors_per_user(self, learned, train))
        users, items = initial_vectors(self, offsets, train.n_items, self.spill)
        state = kernel_state(self, train, users, items, self.spill)
        self._train(train, valid, progress, callbacks, offsets, state)

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
    ) -> DPCML:
        """Learn from more interactions, which may hold new users and items, at the cost of these interactions.

        Each epoch visits every new interaction and ``n_old`` old ones for each, drawn anew: half of them of users with
        new interactions, the others of all users, so that nothing is forgotten. Afterwards the model's training data is
        its old interactions and those in ``new``.

        New items start at the mean of the nearest interest vectors of the users who took them, new users by fold-in;
        those of whom nothing is known start at random, with a warning. No user goes back to one vector, and the
        temperature stays that of the epoch that `fit` kept. A user whose adaptive number of vectors grows
        gets a new one at the item of the user's history that is farthest from the vectors the user has. All continue
        with the mean of the optimizer's last state. Random numbers go on where the last training ended.

        Interactions that are all known leave the model as it is, with a warning. On an error nothing has changed.

        Args:
            new: More interactions; ids of the same types. As in `fit`, a frame will do.
            valid: Held-out interactions with the users and items of old and new data; chooses the epoch.
            progress: Show a progress bar: by default only where standard error is a terminal.
            callbacks: Called after every epoch with its row of `history_`; returning False stops the training.
            epochs: By default a fifth of those of the fit, which suffices as all vectors are learned already.
            n_old: Old interactions that are visited for each new one.
            **columns: Of a frame, as in `tastespace.update`.

        >>> from tastespace import synthetic
        >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
        >>> is_old = town.row_of_each() < 55
        >>> model = DPCML(dim=8, epochs=10).fit(town.subset(is_old))
        >>> model.partial_fit(town.subset(~is_old)).train_.n_interactions == town.n_interactions
        True
        """
        self.require_fitted()
        self._check()
        check_update_settings(epochs, n_old)
        require_same_dimension(self.dim, self.item_vectors_)
        found = begin_update(self, new_interactions("partial_fit", self, new, columns))
        train = self.train_ if found is None else found.data
        require_shared_ids(valid, train)
        if found is None:
            return self
        offsets, state = starting_state(self, found)
        visits = UpdateVisits(found, n_old, self.seed)
        update = Update(visits, update_epochs(self.fit_epochs_, epochs))
        self._train(train, valid, progress, callbacks, offsets, state, update)
        self.train_, self.valid_ = train, valid
        return self

    def _train(
        self,
        train: Interactions,
        valid: Interactions | None,
        progress: bool | None,
        callbacks: Sequence[Callback],
        offsets: NDArray[np.int64],
        state: _native.DpcmlState,
        update: Update | None = None,
    ) -> None:
        """Run the epochs from this state and keep the result; ``offsets`` are the rows of each user's vectors."""
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
        phases = self._phases()
        if update is not None:
            phases = Phases(update.epochs, 0, self.temperature_, self.temperature_)
        kind = GrowingTrainer if state.anchors is None else AnchoredTrainer
        trainer = kind(train, kernel_data(self, train, offsets), state, kernel_settings(self), run, phases, offsets)
        result = self._run_loop(
            trainer,
            train,
            valid,
            validate=self._validator(
                train,
                valid,
                lambda now: self._snapshot(
                    train, user_vectors_=now["users"], user_offsets_=offsets, item_vectors_=now["items"]
                ),
            ),
            initial=(state.user_vectors, state.item_vectors),
            n_positives=train.n_interactions if update is None else len(update.visits),
            progress=progress,
            callbacks=callbacks,
            update_epochs=None if update is None else update.epochs,
            least_epochs=phases.least_epochs if update is None else 0,
        )
        if update is None:
            self.temperature_: float = self._temperature_of(self.fit_epochs_)
        self.user_vectors_, self.user_offsets_ = result["users"], offsets
        self.item_vectors_: NDArray[np.float32] = result["items"]
        self.n_interests_ = self._interest_rule()[0]
        self._keep_anchors(result.get("free"), result.get("assignments"))
        self.skipped_positives_ = trainer.n_skipped + trainer.n_without_others
        if trainer.n_skipped:
            log.warning("%d positives of users who have every item were skipped: no negative exists", trainer.n_skipped)
        if trainer.n_without_others:
            log.warning(
                "%d positives of users who have one item were skipped: with anchor=1 no vector is left without it",
                trainer.n_without_others,
            )
        self.optimizer_means_ = optimizer_means({"user": state.user_optimizer, "item": state.item_optimizer})

    def _take_learned(self, fitted: DPCML) -> None:
        """Learn what another model has learned."""
        learned = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
        self._keep_anchors(None, None)
        vars(self).update({name: value for name, value in learned.items() if name not in ("train_", "valid_")})

    def _keep_anchors(self, free: NDArray[np.float32] | None, assignments: NDArray[np.int32] | None) -> None:
        """Keep what `partial_fit` continues from and what says which item belongs to which interest; None: no more."""
        for name, array in (("free_vectors_", free if self.anchor < 1 else None), ("assignments_", assignments)):
            if array is not None:
                setattr(self, name, array)
            else:
                vars(self).pop(name, None)

    def as_chosen(self) -> DPCML:
        """An unfitted copy with the best number of epochs and, for ``n_interests="auto"``, of vectors per user."""
        again = super().as_chosen().set_params(**self._phases_up_to(self.fit_epochs_))
        return again.set_params(n_interests=self.n_interests_) if self.n_interests == "auto" else again

    def _phases_up_to(self, epoch: int) -> dict[str, Any]:
        """Parameters with which a training of so many epochs goes as the first ones of this model's did."""
        phases = self._phases()
        if epoch < 1 or phases == Phases(self.epochs):
            return {}
        found: dict[str, Any] = {}
        if phases.one_vector_epochs:
            found["one_vector_epochs"] = min(epoch, phases.one_vector_epochs)
        if phases.temperature and epoch > phases.one_vector_epochs:
            found["temperature_end"] = phases.temperature_at(epoch - 1) / self.margin
        return found

    keeps_interests = True

    def _fold_in(self, histories: Interactions) -> DPCML:
        return fold_in(self, histories)

    def _fold_in_longer(self, histories: Interactions, rows: NDArray[np.int64]) -> DPCML:
        return fold_in_longer(self, histories, rows)

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {
            **super()._stored(learned),
            "n_negatives_": WHOLE,
            "temperature_": Plain((int, float)),
            "user_offsets_": Offsets("users", "vectors"),
            "user_vectors_": Numbers("float32", ("vectors", "dim")),
            "item_vectors_": Numbers("float32", ("items", "dim")),
            "n_interests_": Plain((int, str), optional=True),
            "skipped_positives_": WHOLE,
            "optimizer_means_": optimizer_means_of("vectors"),
            "free_vectors_": Numbers("float32", ("vectors", "dim"), optional=True),
            "assignments_": Numbers("int32", ("interactions",), least=-1, below="vectors", optional=True),
        }

    def vectors(self) -> VectorSpace:
        """The learned vectors."""
        if not hasattr(self, "item_vectors_"):
            self.require_fitted()
        kept = self._kept_space
        if (
            kept is not None
            and kept.user_vectors is self.user_vectors_
            and kept.user_offsets is self.user_offsets_
            and kept.item_vectors is self.item_vectors_
            and kept.is_frozen
        ):
            return kept  # nothing can have changed: its checks take longer than the rest of a request
        self._kept_space = space = VectorSpace(self.user_vectors_, self.user_offsets_, self.item_vectors_)
        return space

    # ---- parameters whose value follows from others, and their checks ----------------------------------------

    def _interest_rule(self) -> tuple[int | str, int, float]:
        """Arguments of `interests_per_user`; after ``"auto"`` with the number chosen."""
        n_interests = self.n_interests_ if self.n_interests == AUTO else self.n_interests
        return n_interests, self.min_interests, self.log_base

    def _phases(self) -> Phases:
        """The epochs with one vector and with several, and their temperatures."""
        if self._interest_rule()[0] == 1:
            return Phases(self.epochs)
        one_vector = 0 if self.start == "random" else self.one_vector_epochs
        return Phases(
            self.epochs,
            self.epochs // 2 if one_vector is None else one_vector,
            self._first_temperature() * self.margin,
            self.temperature_end * self.margin,
        )

    def _first_temperature(self) -> float:
        return initial_temperature(self.dim) if self.temperature is None else self.temperature

    def _temperature_of(self, epoch: int) -> float:
        """Temperature with which updates go on after this epoch was kept."""
        phases = self._phases()
        return phases.temperature if epoch <= phases.one_vector_epochs else phases.temperature_at(epoch - 1)

    def _checkpoint_identity(
        self, train: Interactions, valid: Interactions | None, initial: Sequence[NDArray[Any]]
    ) -> dict[str, Any]:
        return {**super()._checkpoint_identity(train, valid, initial), "n_interests": self._interest_rule()[0]}

    def _negatives_for(self, n_items: int) -> int:
        """Negatives drawn for each positive where there are so many items."""
        if self.n_negatives is not None:
            return self.n_negatives
        kind = self._sampler()
        if self.sampler is not None or not kind.takes_hardest:
            return kind.n_negatives
        return max(default_hard_negatives(n_items), self.n_hardest)

    def _current_negatives(self) -> int:
        """The same for what comes after `fit`, which goes on with the number of the fit unless another is given."""
        if self.n_negatives is not None:
            return self.n_negatives
        # On a cluster, settings are also those of a model that is not fitted itself.
        return int(getattr(self, "n_negatives_", self._sampler().n_negatives))

    def _sampler(self) -> SamplerKind:
        default = "uniform" if self.geometry == "sphere" else "hard"
        return find_sampler(default if self.sampler is None else self.sampler)

    def _check(self) -> None:
        super()._check()
        self._check_user_blocks(checkpoint=self.checkpoint, anchor=self.anchor)
        self._sampler()
        for name, choices in (
            ("geometry", (*REGIONS, None)),
            ("optimizer", DPCML_OPTIMIZERS),
            ("dcrs", (*DCRS_FORMS, "auto")),
            ("gamma", GAMMA_RULES),
            ("weighting", ("positive", "user")),
            ("schedule", SCHEDULES),
            ("start", ("one-vector", "random")),
        ):
            require_choice(name, getattr(self, name), choices)
        if not (is_whole(self.n_interests) or self.n_interests in ("adaptive", AUTO, CROSS_VALIDATED)):
            raise ParameterError(
                f"n_interests={self.n_interests!r}: expected a whole number of vectors per user, 1 or more, "
                "'adaptive', 'auto' or 'cross-validated'."
            )
        if is_whole(self.n_interests):
            require_whole("n_interests", self.n_interests)
        for name in ("dim", "min_interests", "n_hardest", "block_size", "average"):
            require_whole(name, getattr(self, name))
        if not is_finite_number(self.log_base) or not self.log_base > 1:
            raise ParameterError(f"log_base={self.log_base!r}: expected a number larger than 1.")
        require_number("popularity_power", self.popularity_power, least=0.0)
        if self.n_negatives is not None:
            require_whole("n_negatives", self.n_negatives)
        sampler = self._sampler()
        n_negatives = self._negatives_for(n_items=1)
        if sampler.takes_hardest and self.n_hardest > n_negatives:
            raise ParameterError(
                f"n_hardest={self.n_hardest} is more than n_negatives={n_negatives}, from which the hardest are "
                "chosen: lower one or raise the other."
            )
        for name in ("margin", "learning_rate", "radius", "gamma_rate"):
            require_number(name, getattr(self, name), above=0.0)
        self._check_phases()
        require_share("anchor", self.anchor)
        if self.optimizer == "dense-adam" and self.anchor > 0:
            raise ParameterError(
                f"anchor={self.anchor:g} with optimizer='dense-adam': anchored vectors learn positive by positive. "
                "Take another optimizer or anchor=0."
            )
        require_spread(self.spread_weight, self.min_spread, self.max_spread)
        number = isinstance(self.beta, (int, float, np.floating)) and not isinstance(self.beta, bool)
        if not (number and 0 < self.beta <= 1):
            raise ParameterError(f"beta={self.beta!r}: expected the share of negatives that counts, in (0, 1].")

    def _check_phases(self) -> None:
        if self.temperature is not None:
            require_number("temperature", self.temperature, least=0.0)
        require_number("temperature_end", self.temperature_end, least=0.0)
        first = self._first_temperature()
        if first > 0 and not 0 < self.temperature_end <= first:
            raise ParameterError(
                f"temperature_end={self.temperature_end:g}: expected a number above 0 and at most "
                f"temperature={first:g}, from which it falls; temperature=0 for the minimum throughout."
            )
        if self.one_vector_epochs is None:
            return
        require_whole("one_vector_epochs", self.one_vector_epochs)
        if self.start == "random":
            raise ParameterError(
                f"one_vector_epochs={self.one_vector_epochs} is for start='one-vector': with start='random' all "
                "vectors are trained from the start. Leave one of them out."
            )
        if self.one_vector_epochs > self.epochs:
            raise ParameterError(
                f"one_vector_epochs={self.one_vector_epochs} is more than epochs={self.epochs}, of which they are a "
                "part: lower it or raise epochs."
            )


_OF_SEVERAL_VECTORS = dict.fromkeys(
    (
        *("n_interests", "min_interests", "log_base", "dcrs", "spread_weight", "min_spread", "max_spread"),
        *("start", "one_vector_epochs", "temperature", "temperature_end"),
    ),
    "it has one vector per user. Take DPCML for several.",
)


@dataclass(kw_only=True, eq=False, repr=False)
class CML(DPCML):
    """Collaborative metric learning (Hsieh et al., WWW 2017): DPCML with one vector per user.

    It takes DPCML's parameters but for those that concern several vectors.

    >>> CML(dim=8, sampler="uniform").n_interests
    1
    """

    has_interests = False
    _fixed_parameters: ClassVar[dict[str, str]] = _OF_SEVERAL_VECTORS

    n_interests: int | str = field(default=1, init=False)
    min_interests: int = field(default=1, init=False)
    log_base: float = field(default=3.0, init=False)
    dcrs: Literal["auto", "mean", "pairs"] | None = field(default=None, init=False)
    spread_weight: float = field(default=0.0, init=False)
    min_spread: float | None = field(default=None, init=False)
    max_spread: float | None = field(default=None, init=False)
    start: Literal["one-vector", "random"] = field(default="random", init=False)
    one_vector_epochs: int | None = field(default=None, init=False)
    temperature: float | None = field(default=0.0, init=False)
    temperature_end: float = field(default=0.0, init=False)
    epochs: int = 50
