"""Losses on the distances of a batch, in torch: the hinges of all samplers and DCRS, as in the native kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tastespace._util.checks import require_choice, require_spread

_LARGE = 1e30


@dataclass(frozen=True)
class PairDistances:
    """Distances of n positives with k negatives each."""

    positive: Any
    """Distance of the positive, shape ``(n, 1)``."""
    negatives: Any
    """Distances of the negatives, shape ``(n, k)``."""
    usable: Any
    """Mask of the true negatives among them, shape ``(n, k)``, bool."""


def mean_hinge(pairs: PairDistances, margin: float) -> Any:
    """UniS and PopS: the mean over all negatives, shape ``(n,)``."""
    losses = (margin + pairs.positive - pairs.negatives).relu() * pairs.usable
    return losses.sum(dim=1) / pairs.usable.sum(dim=1).clamp_min(1)


def hardest_hinge(pairs: PairDistances, margin: float, hardness: Any, count: Any) -> Any:
    """2stS, HarS and NDiHarS: the mean over the ``count`` negatives of largest ``hardness``, shape ``(n,)``.

    ``count`` is one number or one for each positive, shape ``(n, 1)``.
    """
    import torch

    order = hardness.detach().masked_fill(~pairs.usable, -_LARGE).argsort(dim=1, descending=True, stable=True)
    place = torch.arange(order.shape[1], device=order.device).expand_as(order)
    # Unusable negatives are sorted last and masked.
    taken = (place < count) & pairs.usable.gather(1, order)
    losses = (margin + pairs.positive - pairs.negatives.gather(1, order)).relu() * taken
    return losses.sum(dim=1) / taken.sum(dim=1).clamp_min(1)


def threshold_hinge(pairs: PairDistances, margin: float, gamma: Any, count: Any, rate: float) -> tuple[Any, Any]:
    """DiHarS: ``gamma + sum_j [violation_j - gamma]_+ / N_beta``, shape ``(n,)``, and the gammas after their step.

    A negative gamma is not initialized: it starts at the N_beta-th largest violation (0 if there are fewer) and is then
    updated by projected gradient steps. ``gamma`` and ``count`` have shape ``(n, 1)``.
    """
    violations = (margin + pairs.positive - pairs.negatives).masked_fill(~pairs.usable, -_LARGE)
    ordered = violations.detach().sort(dim=1, descending=True).values
    statistic = ordered.gather(1, (count - 1).clamp_max(ordered.shape[1] - 1)).clamp_min(0.0)
    new = gamma < 0
    gamma = gamma.where(~new, statistic)
    # At the first step gamma equals one violation: it counts as active, else N_beta = 1 would have no gradient.
    active = (violations > gamma) | (new & (gamma > 0) & (violations == gamma))
    losses = gamma[:, 0] + ((violations - gamma) * active).sum(dim=1) / count[:, 0]
    slope = 1.0 - active.sum(dim=1, keepdim=True) / count
    return losses, (gamma - rate * slope).clamp_min(0.0).detach()


@dataclass(kw_only=True, eq=False, repr=False)
class SpreadControl:
    """Parameters of DCRS (the spread of a user's vectors), and its penalty."""

    dcrs: Literal["mean", "pairs"] | None = "mean"
    """The penalty: on the spread, which is half the mean squared distance between two different vectors of a user (the
    paper's text); on the squared distance of each pair (the published code); or none."""
    spread_weight: float = 10.0
    """eta."""
    min_spread: float | None = 0.05
    """delta_1, the lower bound of the spread, or of each pair's squared distance with ``dcrs="pairs"``; None: no lower
    bound."""
    max_spread: float | None = 0.25
    """delta_2, the upper bound, of the same quantity as `min_spread`; None: no upper bound."""

    def _check_spread(self) -> None:
        require_choice("dcrs", self.dcrs, ("mean", "pairs", None))
        require_spread(self.spread_weight, self.min_spread, self.max_spread)

    def _penalty(self, vectors: Any) -> Any:
        """Psi of each user with vectors ``(n, C, dim)``, C at least 2; shape ``(n,)``."""
        count = vectors.shape[1]
        if self.dcrs == "pairs":
            gaps = (vectors[:, :, None] - vectors[:, None]).square().sum(dim=3)
            first, second = zip(*((a, b) for a in range(count) for b in range(count) if a != b), strict=True)
            return self._outside(gaps[:, list(first), list(second)]).sum(dim=1) / count**2
        # All ordered pairs at once: sum |a - b|^2 = 2 C sum |a|^2 - 2 |sum a|^2.
        squares = count * vectors.square().sum(dim=(1, 2)) - vectors.sum(dim=1).square().sum(dim=1)
        return self._outside(squares / (count * (count - 1)))

    def _outside(self, delta: Any) -> Any:
        psi = delta.new_zeros(delta.shape)
        if self.min_spread is not None:
            psi = psi + (self.min_spread - delta).relu()
        if self.max_spread is not None:
            psi = psi + (delta - self.max_spread).relu()
        return psi
