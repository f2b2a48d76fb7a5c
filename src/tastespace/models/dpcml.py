"""DPCML, the paper's model: several vectors per user, one per item, the nearest of a user's vectors counts.

"Improved Diversity-Promoting Collaborative Metric Learning for Recommendation" (TPAMI 2024), Sections 4 and 6.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace import threads as threading
from tastespace.data.building import combine
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.models.start import grow, start_items, start_users
from tastespace.models.trained import TrainedRecommender, validator
from tastespace.models.vectors import VectorSpace
from tastespace.training.counts import interests_per_user, n_hardest
from tastespace.training.loop import Arrays, Callback, Loop, LoopSettings
from tastespace.training.metric import BALL, SPHERE, MetricTrainer, Rates, optimiser_memory
from tastespace.training.samplers import alias_table, find_sampler, popularity_weights

log = logging.getLogger(__name__)

_REGIONS = {"sphere-ball": (SPHERE, BALL), "ball": (BALL, BALL), "sphere": (SPHERE, SPHERE)}  # of users and items
_METHODS = {"sgd": 0, "adagrad": 1, "adam": 2}
_DCRS = {None: 0, "mean": 1, "pairs": 2}
_GAMMA = {"statistic": 0, "random": 0, "average": 1}
_NO_FLOATS, _NO_INTS = np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int32)


@dataclass(kw_only=True, eq=False, repr=False)
class DPCML(TrainedRecommender):
    """Diversity-promoting collaborative metric learning.

    The score of an item is minus the smallest squared distance from any of the user's vectors (Eq. 3). Training
    minimises ``[margin + s(u, positive) - s(u, negative)]_+`` over sampled negatives (Eq. 12) plus a penalty that
    keeps each user's vectors properly apart (DCRS, Eq. 9).

    >>> from tastespace import split, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> train, valid, test = split.per_user(town, seed=0)
    >>> model = DPCML(dim=16, interests=3, epochs=5, seed=0).fit(train, valid=valid)
    >>> model.user_vectors_.shape, model.item_vectors_.shape
    ((180, 16), (50, 16))
    """

    # ---- the space
    dim: int = 100
    """Dimension d of the space."""
    interests: int | str = "adaptive"
    """Vectors per user: a whole number C for everybody (BPA), or ``"adaptive"`` (APA): max(C_1, floor(log_a n_i))
    with n_i the user's train interactions."""
    min_interests: int = 3
    """C_1 of APA: the fewest vectors that anybody gets."""
    log_base: float = 3.0
    """a of APA, above 1: the larger, the fewer vectors."""
    geometry: Literal["sphere-ball", "ball", "sphere"] = "sphere-ball"
    """Where vectors live: users on the sphere and items in the ball; both in the ball; or both on the sphere, which
    is GFJA, the joint-accessibility form: there s = 1 - cos (Eq. 18), and `margin` is in that unit."""
    radius: float = 1.0
    """r of the sphere and the ball."""

    # ---- the loss
    margin: float = 1.0
    """lambda, in squared distance."""
    sampler: str = "hars"
    """Where negatives come from: unis, pops, 2sts, hars, ndihars or dihars; see `tastespace.training.samplers`."""
    candidates: int | None = None
    """Negatives drawn for each positive: U of UniS and PopS, S of 2stS and HarS, J_2 of (N)DiHarS. None: 10, for
    2stS 50, for (N)DiHarS 100."""
    hardest: int = 1
    """How many of the candidates HarS and 2stS use."""
    beta: float = 1e-3
    """The share of a user's negatives that (N)DiHarS aims at, in (0, 1]: N_beta = max(1, floor(beta n_i^-))."""
    gamma: Literal["statistic", "random", "average"] = "statistic"
    """How DiHarS learns its thresholds: started at the first visit's order statistic and moved by projected gradient;
    the paper's random start (uniform in [0, margin)) with projected gradient; or a running average of the order
    statistic."""
    gamma_rate: float = 0.05
    """Step of the projected gradient on gamma, or weight of a new statistic in the running average."""
    popularity_power: float = 1.0
    """PopS and 2stS draw items in proportion to their number of users to this power."""
    weighting: Literal["positive", "user"] = "positive"
    """Whether every positive counts alike (as in the authors' published code) or every user (Eq. 12)."""

    # ---- diversity control (DCRS)
    dcrs: Literal["mean", "pairs"] | None = "mean"
    """Hinge on the user's average pairwise distance (the text), on each pair (the published code), or none."""
    diversity_weight: float = 10.0
    """eta."""
    min_diversity: float | None = 0.05
    """delta_1; None leaves the lower side open."""
    max_diversity: float | None = 0.25
    """delta_2; None leaves the upper side open."""

    # ---- optimisation
    optimiser: Literal["adagrad", "adam", "sgd"] = "adagrad"
    """Row-wise: only vectors with a gradient move."""
    learning_rate: float = 0.1
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls over the epochs."""
    epochs: int = 50
    block: int = 1024
    """Positives per block: item vectors stand still while the users of a block move, and then move themselves."""
    average: int = 10
    """The model is the running mean of the vectors over about so many epochs; 1 takes the last epoch's."""

    # ---- validation, files, the machine
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
    """0 means all cores. The learnt bits do not depend on it."""

    @classmethod
    def paper(cls, **changes: Any) -> DPCML:
        """The plain published setting, with changes."""
        return cls(**{**cls.published(), **changes})

    @classmethod
    def published(cls) -> dict[str, Any]:
        """Parameters of the plain published setting: Adam, batches of 256, 100 epochs, d = 100, no averaging."""
        return {
            "optimiser": "adam",
            "learning_rate": 1e-3,
            "block": 256,
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
        counts = interests_per_user(train.user_counts, self.interests, self.min_interests, self.log_base)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        regions = _REGIONS[self.geometry]
        users = start_users(rng, int(offsets[-1]), self.dim, regions[0], self.radius)
        items = start_items(rng, train.n_items, self.dim, regions[1], self.radius)
        memory = optimiser_memory(self.optimiser, users, items)
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
        from the vectors already there. Vectors that exist move on with the mean of the optimiser's memory, so that
        they do not jump.
        """
        self.require_fitted()
        self._check()
        whole = combine(self.train_, new)
        if valid is not None and (valid.users != whole.users or valid.items != whole.items):
            raise DataError(f"valid ({valid!r}) does not share users and items with old and new data ({whole!r}).")
        counts = interests_per_user(whole.user_counts, self.interests, self.min_interests, self.log_base)
        # Nobody loses a vector; a model fitted with other settings may have given more.
        old_rows = self.train_.users.find(whole.users.series)
        had = np.where(old_rows >= 0, np.diff(self.user_offsets_)[old_rows], 0)
        offsets = np.concatenate([[0], np.cumsum(np.maximum(counts, had))]).astype(np.int64)
        rng = np.random.default_rng(self.seed)
        regions = _REGIONS[self.geometry]
        users = start_users(rng, int(offsets[-1]), self.dim, regions[0], self.radius)
        items = start_items(rng, whole.n_items, self.dim, regions[1], self.radius)
        memory = optimiser_memory(self.optimiser, users, items)
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
            self._kernel_settings(),
            {**self._kernel_arrays(train), **memory},
            Rates(self.learning_rate, self.schedule, self.epochs),
            self.average,
            self.seed,
            threading.resolve(self.threads),
        )
        validate = None
        if valid is not None and valid.n_interactions:
            score = validator(train, valid, self.monitor, self.monitor_protocol, self.threads)

            def validate(result: Arrays) -> float:
                return score(VectorSpace(result["users"], offsets, result["items"]))

        outcome = Loop(trainer, self._loop_settings(train, valid), validate, self._callbacks, progress).run()
        self.user_vectors_, self.item_vectors_ = outcome.result["users"], outcome.result["items"]
        self.user_offsets_ = offsets
        self.history_, self.best_epoch_, self.stopped_ = outcome.history, outcome.best_epoch, outcome.stopped
        self.skipped_positives_ = trainer.skipped
        if trainer.skipped:
            log.warning("%d positives of users who have every item were skipped: no negative exists", trainer.skipped)
        self.memory_means_ = {
            name: (array.mean().astype(array.dtype) if array.size else array.dtype.type(0))
            for name, array in trainer.state().items()
            if name.startswith(("user_", "item_"))
        }

    def vectors(self) -> VectorSpace:
        """The learnt vectors."""
        if not hasattr(self, "item_vectors_"):
            self.require_fitted()
        return VectorSpace(self.user_vectors_, self.user_offsets_, self.item_vectors_)

    # ---- what the kernel and the loop are told --------------------------------------------------------------

    def _kernel_settings(self) -> dict[str, Any]:
        kind = find_sampler(self.sampler)
        users, items = _REGIONS[self.geometry]
        one_sided = self.min_diversity is None and self.max_diversity is None
        return {
            "sampler": kind.code,
            "n_candidates": kind.candidates if self.candidates is None else self.candidates,
            "n_used": 0 if kind.uses_beta or not kind.takes_hardest else self.hardest,
            "margin": self.margin,
            "distance_scale": 0.5 / self.radius**2 if self.geometry == "sphere" else 1.0,
            "gamma_rule": _GAMMA[self.gamma],
            "gamma_rate": self.gamma_rate,
            "dcrs": 0 if self.diversity_weight == 0 or one_sided else _DCRS[self.dcrs],
            "dcrs_weight": self.diversity_weight,
            "dcrs_low": -np.inf if self.min_diversity is None else self.min_diversity,
            "dcrs_high": np.inf if self.max_diversity is None else self.max_diversity,
            "user_region": users,
            "item_region": items,
            "radius": self.radius,
            "method": _METHODS[self.optimiser],
            "beta1": 0.9,
            "beta2": 0.999,
            "epsilon": 1e-8,
            "block": self.block,
        }

    def _kernel_arrays(self, train: Interactions) -> Arrays:
        kind = find_sampler(self.sampler)
        counts = train.user_counts
        # With this share per visit, one epoch gives every user the same eta, however long the history.
        share = (train.n_interactions / (train.n_users * np.maximum(counts, 1))).astype(np.float32)
        keep, other = _NO_FLOATS, _NO_INTS
        if kind.by_popularity:
            keep, other = alias_table(popularity_weights(train, self.popularity_power))
        gamma = np.full(train.n_interactions if kind.code == 3 else 0, -1.0, dtype=np.float32)
        if self.gamma == "random":
            # The paper starts gamma at random without saying how; a violation's size is of the order of the margin.
            gamma[:] = np.random.default_rng([self.seed, 1]).uniform(0, self.margin, len(gamma))
        hard = n_hardest(np.maximum(1, train.n_items - counts), self.beta) if kind.uses_beta else _NO_INTS
        return {
            "alias_keep": keep,
            "alias_other": other,
            "loss_weight": share if self.weighting == "user" else np.ones(train.n_users, dtype=np.float32),
            "dcrs_share": share,
            "n_hardest": hard.astype(np.int32),
            "gamma": gamma,
        }

    def _loop_settings(self, train: Interactions, valid: Interactions | None) -> LoopSettings:
        identity: dict[str, Any] = {}
        if self.checkpoint is not None:
            free = {"checkpoint", "checkpoint_epochs", "checkpoint_minutes", "log_file", "threads"}
            identity = {name: value for name, value in self.get_params().items() if name not in free}
            identity["train"] = train.fingerprint()
            identity["valid"] = None if valid is None else valid.fingerprint()
        return LoopSettings(
            epochs=self.epochs,
            n_positives=train.n_interactions,
            patience=self.patience,
            validate_every=self.validate_every,
            monitor=self.monitor,
            checkpoint=self.checkpoint,
            checkpoint_epochs=self.checkpoint_epochs,
            checkpoint_minutes=self.checkpoint_minutes,
            log_file=self.log_file,
            identity=identity,
        )

    def _check(self) -> None:
        """Every parameter that makes no sense, before anything is computed."""
        find_sampler(self.sampler)
        for name, choices in (
            ("geometry", _REGIONS),
            ("optimiser", _METHODS),
            ("dcrs", _DCRS),
            ("gamma", _GAMMA),
            ("weighting", ("positive", "user")),
            ("schedule", ("constant", "linear", "cosine")),
        ):
            if getattr(self, name) not in choices:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r}: expected one of {', '.join(map(repr, choices))}."
                )
        for name in ("dim", "hardest", "block", "average"):
            _require_whole(name, getattr(self, name))
        if self.candidates is not None:
            _require_whole("candidates", self.candidates)
        for name in ("margin", "learning_rate", "radius", "gamma_rate"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and np.isfinite(value) and value > 0):
                raise ParameterError(f"{name}={value!r}: expected a positive, finite number.")
        if not (np.isfinite(self.diversity_weight) and self.diversity_weight >= 0):
            raise ParameterError(f"diversity_weight={self.diversity_weight!r}: expected a number, 0 or more.")
        if not 0 < self.beta <= 1:
            raise ParameterError(f"beta={self.beta!r}: expected the share of negatives that counts, in (0, 1].")
        low, high = self.min_diversity, self.max_diversity
        if low is not None and high is not None and low > high:
            raise ParameterError(
                f"min_diversity={low} is larger than max_diversity={high}: no diversity lies between them. Swap them, "
                "or switch the regulariser off with dcrs=None."
            )


@dataclass(kw_only=True, eq=False, repr=False)
class CML(DPCML):
    """Collaborative metric learning (Hsieh et al., WWW 2017): DPCML with one vector per user.

    It takes DPCML's parameters but for those that concern several vectors.

    >>> CML(dim=8, sampler="unis").interests
    1
    """

    interests: int | str = field(default=1, init=False)
    min_interests: int = field(default=1, init=False)
    log_base: float = field(default=3.0, init=False)
    dcrs: Literal["mean", "pairs"] | None = field(default=None, init=False)
    diversity_weight: float = field(default=0.0, init=False)
    min_diversity: float | None = field(default=None, init=False)
    max_diversity: float | None = field(default=None, init=False)


def _require_whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ParameterError(f"{name}={value!r}: expected a whole number, 1 or more.")
