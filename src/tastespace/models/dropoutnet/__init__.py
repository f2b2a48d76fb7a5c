"""DropoutNet: DPCML, CML and MGMF with content, for cold-start users and items.

Volkovs et al., "DropoutNet: Addressing Cold Start in Recommender Systems" (NeurIPS 2017), as used in Section 7.5 and
Appendix C.8 of the DPCML paper. A fusion network maps the preference vector and the content of a user (item) to its
vectors. In training the preference input of half the users and items of a batch is replaced by zeros (dropout), so that
the networks learn to do without it. Afterwards the networks run once for all users and items: the model is then an
ordinary vector model, and the networks compute vectors of new users and items.

This module holds the three models; `fusion_training` the training, `fusion` the parameters and the vectors of warm,
cold-start and folded-in users, `networks` the networks and content extractors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from tastespace._util.checks import require_number, require_whole
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError, nearest
from tastespace.models.base import Recommender
from tastespace.models.dpcml.model import CML, DPCML
from tastespace.models.dropoutnet.networks import register_extractor
from tastespace.models.dropoutnet.training import DropoutNet, PairBatch
from tastespace.models.neural.base import Tensors
from tastespace.models.neural.factorization import MGMF
from tastespace.models.neural.losses import (
    PairDistances,
    SpreadControl,
    hardest_hinge,
    mean_hinge,
    threshold_hinge,
)
from tastespace.training.loop import Arrays
from tastespace.training.samplers import find_sampler, n_beta

__all__ = ["CMLDN", "DPCMLDN", "MGMFDN", "register_extractor"]

_GEOMETRIES = ("sphere-ball", "ball", "sphere")
# Parameters that the pre-trained model takes over, and those that only models with several vectors have.
_SHARED = (
    "dim", "seed", "threads", "monitor", "monitor_protocol", "margin", "sampler", "n_hardest", "beta", "gamma_rate",
    "popularity_power", "geometry",
)  # fmt: skip
_SHARED_SEVERAL = ("dcrs", "spread_weight", "min_spread", "max_spread")


def _latent(maker: type[Recommender], shared: dict[str, Any], given: Mapping[str, Any] | None) -> Recommender:
    """The model that PT trains first; unknown parameters are an error."""
    names = maker._parameter_names()
    for name in given or {}:
        if name not in names:
            raise ParameterError(
                f"latent={dict(given or {})!r}: {maker.__name__} has no parameter {name!r}; it has {', '.join(names)}."
                + nearest(str(name), names)
            )
    return maker(**{**shared, **(given or {})})


@dataclass(kw_only=True, eq=False, repr=False)
class _MultiVectorDropoutNet(DropoutNet):
    """Models with C vectors per user."""

    has_interests = True
    n_interests: int = 5
    """Vectors per user, C, the same for all users."""

    @property
    def _n_vectors(self) -> int:
        return self.n_interests

    def _check(self) -> None:
        super()._check()
        require_whole("n_interests", self.n_interests)


@dataclass(kw_only=True, eq=False, repr=False)
class DPCMLDN(SpreadControl, _MultiVectorDropoutNet):
    """DPCML with DropoutNet (TPAMI 2024, Appendix C.8): several vectors per user, from preference and content.

    With preference inputs g, content Phi and networks h, user u has the vectors ``h_u^c([g_u^c, Phi_u])`` and item v
    the vector ``h_v([g_v, Phi_v])``. As in `DPCML`, the score is minus the smallest squared distance from any of the
    user's vectors, and training minimizes the hinge ``[margin + s(u, positive) - s(u, negative)]_+`` over sampled
    negatives plus the penalty on the spread of each user's vectors (DCRS). In a batch the preference input of half the
    users and half the items is set to zero, so that cold-start users and items get vectors from content alone:
    `add_users`, `add_items`, ``recommend_for(features=...)``.

    The paper does not say where fused vectors lie; here as in DPCML, users on the sphere and items in the ball.

    >>> import polars as pl
    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> kinds = pl.DataFrame({"item": range(50), "kind": ["ab"[i % 2] for i in range(50)]})
    >>> model = DPCMLDN(dim=8, n_interests=2, layers=(16,), epochs=2).fit(town, item_features=kinds)
    >>> model.add_items(pl.DataFrame({"item": [99], "kind": ["b"]})).train_.n_items
    51
    """

    margin: float = 1.0
    """lambda, in squared distance."""
    sampler: str = "uniform"
    """uniform, popularity, two-stage, hard, hard-sorted or hard-differentiable; see `tastespace.training.samplers`."""
    n_hardest: int = 1
    """Number of the drawn negatives that HarS and 2stS use, hardest first."""
    beta: float = 1e-3
    """Share of a user's negatives that (N)DiHarS targets, in (0, 1]."""
    gamma_rate: float = 0.05
    """Step of DiHarS on its thresholds."""
    popularity_power: float = 1.0
    """PopS and 2stS draw items in proportion to their number of users to this power."""
    geometry: Literal["sphere-ball", "ball", "sphere"] = "sphere-ball"
    """Region of the vectors: users on the unit sphere and items in the unit ball, both in the ball, or both on the
    sphere."""

    def _check(self) -> None:
        super()._check()
        self._check_spread()
        find_sampler(self.sampler)
        require_whole("n_hardest", self.n_hardest)
        for name in ("margin", "gamma_rate"):
            require_number(name, getattr(self, name), above=0.0)
        require_number("popularity_power", self.popularity_power, least=0.0)
        if self.geometry not in _GEOMETRIES:
            raise ParameterError(f"geometry={self.geometry!r}: expected one of {', '.join(_GEOMETRIES)}.")
        n_beta(1, self.beta)  # checks the range of beta

    @property
    def _initial_spread(self) -> float:
        """The middle of the allowed spread: for unit vectors, delta is the share of the variance not in common.

        An open bound counts as 0 below and as 1 above; without DCRS preference inputs start independent.
        """
        bounds = (self.min_spread, self.max_spread)
        if self.dcrs is None or not self.spread_weight or bounds == (None, None) or not self.has_interests:
            return 1.0
        low, high = self.min_spread or 0.0, 1.0 if self.max_spread is None else self.max_spread
        return min(1.0, max(1e-3, (low + high) / 2))

    def _latent_model(self) -> Recommender:
        names = [*_SHARED, *(_SHARED_SEVERAL if self.has_interests else ())]
        shared = {"n_negatives": self.n_negatives, **{name: getattr(self, name) for name in names}}
        if (self.latent or {}).get("geometry", self.geometry) == "sphere":
            for name in ("margin", "gamma_rate"):
                shared[name] = getattr(self, name) / 2  # on the sphere DPCML measures 1 - cos, half a squared distance
        several = {"n_interests": self.n_interests} if self.has_interests else {}
        maker: type[DPCML] = DPCML if self.has_interests else CML
        training = {"epochs": 50, "learning_rate": 0.1}
        return _latent(maker, {**maker.paper_form(), **training, **shared, **several}, self.latent)

    def _pool_power(self) -> float | None:
        return self.popularity_power if find_sampler(self.sampler).by_popularity else None

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        weights = super()._initial_weights(train, random)
        if find_sampler(self.sampler).name == "hard-differentiable":
            weights["gamma"] = np.full((train.n_interactions, 1), -1.0, dtype=np.float32)
        return weights

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        hard = n_beta(np.maximum(1, train.n_items - train.user_counts), self.beta)
        return {**super()._prepare(train, torch), "hard": self._tensor(torch, hard)}

    def _project(self, side: str, vectors: Any) -> Any:
        norms = vectors.norm(dim=2, keepdim=True)
        on_sphere = self.geometry == "sphere" or (self.geometry == "sphere-ball" and side == "user")
        return vectors / norms.clamp_min(1e-6 if on_sphere else 1.0)

    def _pair_loss(self, weights: Tensors, fixed: Tensors, batch: PairBatch, users: Any, items: Any) -> Any:
        import torch

        user_rows = torch.as_tensor(batch.user_rows, device=users.device)
        hard = fixed["hard"][user_rows][batch.users, None]
        losses = self._hinge(weights, batch, users, items, hard)
        if self.dcrs is None or users.shape[1] == 1 or self.spread_weight == 0:
            return losses.mean()
        psi = self._penalty(users) * fixed["user_weight"][user_rows]
        return losses.mean() + self.spread_weight * psi[batch.users].mean()

    def _hinge(self, weights: Tensors, batch: PairBatch, users: Any, items: Any, hard: Any) -> Any:
        """Loss of every positive, shape ``(n,)``."""
        import torch

        squares = users.square().sum(dim=2)[:, :, None] + items.square().sum(dim=1)
        nearest = (squares - 2 * users @ items.T).amin(dim=1)  # of the users to the items of the batch
        own = nearest[batch.users]
        pairs = PairDistances(own.gather(1, batch.items[:, None]), own.gather(1, batch.negatives), batch.usable)
        sampler = find_sampler(self.sampler).name
        if sampler == "two-stage":
            inner = (items[batch.items][:, None] * items[batch.negatives]).sum(dim=2)
            return hardest_hinge(pairs, self.margin, inner, self.n_hardest)
        if sampler == "hard":
            return hardest_hinge(pairs, self.margin, -pairs.negatives, self.n_hardest)
        if sampler == "hard-differentiable" and "gamma" in weights:
            before = weights["gamma"].detach()[batch.positives]
            losses, after = threshold_hinge(pairs, self.margin, before, hard, self.gamma_rate)
            with torch.no_grad():
                weights["gamma"][batch.positives] = after
            return losses
        if sampler in ("hard-sorted", "hard-differentiable"):
            return hardest_hinge(pairs, self.margin, -pairs.negatives, hard)
        return mean_hinge(pairs, self.margin)


@dataclass(kw_only=True, eq=False, repr=False)
class CMLDN(DPCMLDN):
    """CML with DropoutNet: `DPCMLDN` with one vector per user.

    >>> CMLDN(dim=8).n_interests
    1
    """

    has_interests = False

    n_interests: int = field(default=1, init=False)
    dcrs: Literal["mean", "pairs"] | None = field(default=None, init=False)
    spread_weight: float = field(default=0.0, init=False)
    min_spread: float | None = field(default=None, init=False)
    max_spread: float | None = field(default=None, init=False)


@dataclass(kw_only=True, eq=False, repr=False)
class MGMFDN(_MultiVectorDropoutNet):
    """MGMF with DropoutNet (Volkovs et al., NeurIPS 2017): the score is ``max_c h_u^c . h_v``.

    In joint training the loss is MGMF's binary cross-entropy over the positives and `n_negatives` uniform negatives
    each. With a pre-trained MGMF it is DropoutNet's: the squared difference between the fused inner products and those
    of the pre-trained vectors, over the same pairs and each of the C vectors.

    >>> MGMFDN(dim=8, n_interests=2).n_interests
    2
    """

    _metric: ClassVar[Literal["l2", "dot"]] = "dot"

    def _latent_model(self) -> Recommender:
        shared = {"dim": self.dim, "n_interests": self.n_interests, "seed": self.seed, "threads": self.threads}
        watched = {"monitor": self.monitor, "monitor_protocol": self.monitor_protocol}
        return _latent(MGMF, {**shared, **watched}, self.latent)

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        fixed = super()._prepare(train, torch)
        if self._latent is not None:
            users, items = (self._tensor(torch, part) for part in self._latent)
            fixed["target_users"], fixed["target_items"] = users.view(train.n_users, -1, self.dim), items
        return fixed

    def _pair_loss(self, weights: Tensors, fixed: Tensors, batch: PairBatch, users: Any, items: Any) -> Any:
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits

        scored = batch.scored_items
        usable = batch.usable.new_ones(len(scored), 1)
        usable = usable.expand(-1, scored.shape[1]).clone()
        usable[:, 1:] = batch.usable
        if "target_users" in fixed:
            rows = [torch.as_tensor(part, device=users.device) for part in (batch.user_rows, batch.item_rows)]
            wanted = self._inner(fixed["target_users"][rows[0]], fixed["target_items"][rows[1]], batch, scored)
            error = (self._inner(users, items, batch, scored) - wanted).square().mean(dim=1)
            return (error * usable).sum() / usable.sum()
        logits = self._inner(users, items, batch, scored).amax(dim=1)
        labels = logits.new_zeros(logits.shape)
        labels[:, 0] = 1.0
        return binary_cross_entropy_with_logits(logits[usable], labels[usable])

    def _inner(self, users: Any, items: Any, batch: PairBatch, scored: Any) -> Any:
        """Inner products of every vector of the user with the scored items, shape ``(n, C, 1 + n_negatives)``."""
        own = (users @ items.T)[batch.users]
        return own.gather(2, scored[:, None].expand(-1, own.shape[1], -1))
