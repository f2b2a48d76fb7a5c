"""The parameters of DPCML and CML: what each means, which values make sense, what the kernel is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tastespace.checks import require_number, require_seed, require_spread, require_whole
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.trained import LoopParameters
from tastespace.training.kernel_run import Arrays
from tastespace.training.metric import BALL, SPHERE
from tastespace.training.n_vectors import n_hardest
from tastespace.training.samplers import SamplerKind, alias_table, find_sampler, popularity_weights

REGIONS = {"sphere-ball": (SPHERE, BALL), "ball": (BALL, BALL), "sphere": (SPHERE, SPHERE)}  # of users and items
_METHODS = {"sgd": 0, "adagrad": 1, "adam": 2}
_DCRS = {None: 0, "mean": 1, "pairs": 2}
_GAMMA = {"statistic": 0, "random": 0, "average": 1}
_NO_FLOATS, _NO_INTS = np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int32)


@dataclass(kw_only=True, eq=False, repr=False)
class MetricParameters(LoopParameters):
    """Everything that can be set, with the paper's symbols."""

    # ---- the space
    dim: int = 100
    """Dimension d of the space."""
    n_interests: int | str = "adaptive"
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
    sampler: str | None = None
    """Where negatives come from: ``"uniform"``, ``"popularity"``, ``"two-stage"``, ``"hard"``, ``"hard-sorted"`` or
    ``"hard-differentiable"``; the paper's UniS, PopS, 2stS, HarS, NDiHarS and DiHarS mean the same, in any case. None:
    ``"hard"``, and ``"uniform"`` for the joint-accessibility form. See `tastespace.training.samplers`."""
    n_negatives: int | None = None
    """Negatives drawn for each positive: U of UniS and PopS, S of 2stS and HarS, J_2 of (N)DiHarS. None: 10, for
    2stS 50, for (N)DiHarS 100."""
    n_hardest: int = 1
    """How many of the negatives drawn HarS and 2stS use, the hardest."""
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
    spread_weight: float = 10.0
    """eta."""
    min_spread: float | None = 0.05
    """delta_1; None leaves the lower side open."""
    max_spread: float | None = 0.25
    """delta_2; None leaves the upper side open."""

    # ---- optimization
    optimizer: Literal["adagrad", "adam", "sgd"] = "adagrad"
    """Row-wise: only vectors with a gradient move."""
    learning_rate: float = 0.1
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls over the epochs."""
    block_size: int = 1024
    """Positives per block: item vectors stand still while the users of a block move, and then move themselves."""
    average: int = 10
    """The model is the running mean of the vectors over about so many epochs; 1 takes the last epoch's."""

    def _kernel_settings(self) -> dict[str, Any]:
        kind = self._sampler()
        users, items = REGIONS[self.geometry]
        one_sided = self.min_spread is None and self.max_spread is None
        return {
            "sampler": kind.code,
            "n_candidates": kind.n_negatives if self.n_negatives is None else self.n_negatives,
            "n_used": 0 if kind.uses_beta or not kind.takes_hardest else self.n_hardest,
            "margin": self.margin,
            "distance_scale": 0.5 / self.radius**2 if self.geometry == "sphere" else 1.0,
            "gamma_rule": _GAMMA[self.gamma],
            "gamma_rate": self.gamma_rate,
            "dcrs": 0 if self.spread_weight == 0 or one_sided else _DCRS[self.dcrs],
            "dcrs_weight": self.spread_weight,
            "dcrs_low": -np.inf if self.min_spread is None else self.min_spread,
            "dcrs_high": np.inf if self.max_spread is None else self.max_spread,
            "user_region": users,
            "item_region": items,
            "radius": self.radius,
            "method": _METHODS[self.optimizer],
            "beta1": 0.9,
            "beta2": 0.999,
            "epsilon": 1e-8,
            "block_size": self.block_size,
        }

    def _kernel_arrays(self, train: Interactions, world: Interactions | None = None) -> Arrays:
        """Arrays for learning from ``train``; popularity and the usual history are those of ``world``, if given."""
        kind = self._sampler()
        counts = train.user_counts
        world = world or train
        # With this share per visit, one epoch gives every user the same eta, however long the history.
        share = (world.n_interactions / (world.n_users * np.maximum(counts, 1))).astype(np.float32)
        keep, other = _NO_FLOATS, _NO_INTS
        if kind.by_popularity:
            keep, other = alias_table(popularity_weights(world, self.popularity_power))
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

    def _sampler(self) -> SamplerKind:
        default = "uniform" if self.geometry == "sphere" else "hard"
        return find_sampler(default if self.sampler is None else self.sampler)

    def _check(self) -> None:
        """Every parameter that makes no sense, before anything is computed."""
        self._sampler()
        for name, choices in (
            ("geometry", REGIONS),
            ("optimizer", _METHODS),
            ("dcrs", _DCRS),
            ("gamma", _GAMMA),
            ("weighting", ("positive", "user")),
            ("schedule", ("constant", "linear", "cosine")),
        ):
            if getattr(self, name) not in choices:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r}: expected one of {', '.join(map(repr, choices))}."
                )
        require_seed(self.seed)
        for name in ("dim", "n_hardest", "block_size", "average"):
            require_whole(name, getattr(self, name))
        if self.n_negatives is not None:
            require_whole("n_negatives", self.n_negatives)
        for name in ("margin", "learning_rate", "radius", "gamma_rate"):
            require_number(name, getattr(self, name), above=0.0)
        require_spread(self.spread_weight, self.min_spread, self.max_spread)
        number = isinstance(self.beta, (int, float, np.floating)) and not isinstance(self.beta, bool)
        if not (number and 0 < self.beta <= 1):
            raise ParameterError(f"beta={self.beta!r}: expected the share of negatives that counts, in (0, 1].")
