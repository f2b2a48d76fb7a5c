"""DPCML's loss and training steps once more, in plain NumPy and float64, for comparison with the kernel.

Nothing here knows a derivative: gradients are central differences of the loss as the paper writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from tastespace import DPCML, Interactions, _native
from tastespace.training.kernel_run import optimizer_memory
from tastespace.training.n_vectors import interests_per_user

SEED = 5


def from_lists(rows: list[list[int]], n_items: int, **ids: Any) -> Interactions:
    """The items of each user."""
    table = np.zeros((len(rows), n_items))
    for user, row in enumerate(rows):
        table[user, list(row)] = 1
    return Interactions.from_scipy(sp.csr_array(table), **ids)


def random_lists(counts: list[int], n_items: int, seed: int = 0) -> Interactions:
    """Users with so many random items each."""
    rng = np.random.default_rng(seed)
    return from_lists([list(rng.choice(n_items, n, replace=False)) for n in counts], n_items)


class Bench:
    """A model's kernel on random vectors, with room for one to look at and change everything."""

    def __init__(self, model: DPCML, train: Interactions, counts: list[int] | None = None, seed: int = SEED) -> None:
        rng = np.random.default_rng(seed)
        self.model, self.train = model, train
        if counts is None:
            wanted = model.n_interests, model.min_interests, model.log_base
            counts = list(interests_per_user(train.user_counts, *wanted))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        users = self._place(rng.standard_normal((int(offsets[-1]), model.dim)), "users", rng)
        items = self._place(rng.standard_normal((train.n_items, model.dim)), "items", rng)
        self.settings = {**model._kernel_settings(), "learning_rate": model.learning_rate}
        self.arrays: dict[str, Any] = {
            "offsets": train.offsets,
            "positives": train.indices,
            "vector_offsets": offsets,
            "users": users,
            "items": items,
            **model._kernel_arrays(train),
            **optimizer_memory(model.optimizer, user=users, item=items),
        }

    def _place(self, rows: Any, side: str, rng: np.random.Generator) -> Any:
        """Random directions; inside the ball (two of three items) where that is where they live."""
        rows = self.model.radius * rows / np.linalg.norm(rows, axis=1, keepdims=True)
        on_sphere = self.model.geometry == "sphere" or (self.model.geometry == "sphere-ball" and side == "users")
        return np.ascontiguousarray(rows if on_sphere else rows * rng.uniform(0.5, 1, (len(rows), 1)), dtype=np.float32)

    def probe(self, positive: int, epoch: int = 0) -> tuple[float, float, float, Any, Any, Any]:
        """Loss, penalty, slope of gamma, candidates, gradient of users, gradient of items."""
        user_gradient, item_gradient = np.zeros_like(self.arrays["users"]), np.zeros_like(self.arrays["items"])
        arrays = {**self.arrays, "gamma": self.arrays["gamma"].copy()}
        loss, dcrs, slope, candidates = _native.probe(
            arrays, self.settings, SEED, epoch, positive, user_gradient, item_gradient
        )
        return loss, dcrs, slope, candidates, user_gradient, item_gradient

    def learn(self, first: int = 0, last: int | None = None, epoch: int = 0, threads: int = 1) -> tuple[Any, ...]:
        """Loss, penalty, visited, skipped, pulls."""
        last = self.train.n_interactions if last is None else last
        return _native.train_range(self.arrays, self.settings, SEED, epoch, first, last, threads)


def visit_order(n: int, epoch: int, seed: int = SEED) -> list[int]:
    """Which positive is visited first, second, ... in an epoch of n positives.

    A gamma is below 0 until DiHarS visits its positive: visiting one at a time shows which it was.
    """
    train = from_lists([list(range(n)), []], n + 2)
    bench = Bench(DPCML(dim=2, sampler="dihars", n_negatives=1, n_interests=1, dcrs=None), train)
    order = []
    for place in range(n):
        bench.arrays["gamma"][:] = -1
        _native.train_range(bench.arrays, bench.settings, seed, epoch, place, place + 1, 1)
        order += np.flatnonzero(bench.arrays["gamma"] >= 0).tolist()
    return order


# ---- the loss ----------------------------------------------------------------------------------------------


def n_beta(model: DPCML, n_negatives: int, n_candidates: int) -> int:
    """N_beta of all negatives, applied to the candidates."""
    return min(max(1, int(Fraction(str(model.beta)) * n_negatives)), n_candidates)


def sampled_loss(model: DPCML, positive: Any, negatives: Any, inner: Any, gamma: float, n_negatives: int) -> float:
    """The loss of one positive from s(u, positive), s(u, candidates) and <positive, candidate>."""
    excess = model.margin + positive - negatives
    hinge = np.maximum(excess, 0)
    nearest_first = np.argsort(negatives, kind="stable")
    hard = n_beta(model, n_negatives, len(negatives))
    if model.sampler in ("unis", "pops"):
        return float(hinge.mean())
    if model.sampler == "2sts":
        return float(hinge[np.argsort(-inner, kind="stable")[: model.n_hardest]].mean())
    if model.sampler == "hars":
        return float(hinge[nearest_first[: model.n_hardest]].mean())
    if model.sampler == "ndihars":
        return float(hinge[nearest_first[:hard]].mean())
    assert model.sampler == "dihars"
    return float(gamma + np.maximum(excess - gamma, 0).sum() / hard)


def diversity(vectors: Any) -> float:
    """The text's delta: sums over ordered pairs, divided by 2 C (C - 1)."""
    count = len(vectors)
    gaps = np.square(vectors[:, None] - vectors[None]).sum(axis=2)
    return float(gaps.sum() / (2 * count * (count - 1)))


def penalty(model: DPCML, vectors: Any) -> float:
    """psi of one user."""
    if model.dcrs is None or len(vectors) == 1:
        return 0.0
    low = -np.inf if model.min_spread is None else model.min_spread
    high = np.inf if model.max_spread is None else model.max_spread
    if model.dcrs == "mean":
        delta = diversity(vectors)
        return max(0.0, low - delta) + max(0.0, delta - high)
    total = 0.0
    for a in range(len(vectors)):
        for b in range(len(vectors)):
            if a != b:
                gap = np.square(vectors[a] - vectors[b]).sum()
                total += max(0.0, low - gap) + max(0.0, gap - high)
    return total / len(vectors) ** 2


def slope(function: Callable[[Any], float], at: Any, step: float = 1e-6) -> Any:
    """Central differences of a function of an array."""
    out = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        moved = at.copy()
        moved[place] = at[place] + step
        above = function(moved)
        moved[place] = at[place] - step
        out[place] = (above - function(moved)) / (2 * step)
    return out


class Twin:
    """A `Bench`'s state in float64, and the same training written down once more."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.model, train = bench, bench.model, bench.train
        self.state = {
            name: bench.arrays[name].astype(np.float64)
            for name in ("users", "items", "gamma", "user_first", "user_second", "item_first", "item_second")
        }
        self.steps = {side: bench.arrays[f"{side}_steps"].copy() for side in ("user", "item")}
        self.owner = train.row_of_each()
        counts = train.user_counts
        self.share = train.n_interactions / (train.n_users * np.maximum(counts, 1))
        self.weight = self.share if self.model.weighting == "user" else np.ones(train.n_users)
        self.n_negatives = train.n_items - counts

    def rows_of(self, user: int) -> slice:
        offsets = self.bench.arrays["vector_offsets"]
        return slice(int(offsets[user]), int(offsets[user + 1]))

    def scale(self) -> float:
        return 0.5 / self.model.radius**2 if self.model.geometry == "sphere" else 1.0

    def loss(self, positive: int, candidates: Any, vectors: Any, items: Any) -> float:
        """Weighted loss of one positive: a function of one user's vectors and all items."""
        user, item = self.owner[positive], self.bench.train.indices[positive]
        near = self.scale() * np.square(vectors[:, None] - items[None, [item, *candidates]]).sum(axis=2).min(axis=0)
        inner = items[candidates] @ items[item]
        gamma = self.state["gamma"][positive] if self.model.sampler == "dihars" else 0.0
        return float(
            self.weight[user] * sampled_loss(self.model, near[0], near[1:], inner, gamma, int(self.n_negatives[user]))
        )

    def penalty(self, user: int, vectors: Any) -> float:
        return float(self.model.spread_weight * self.share[user] * penalty(self.model, vectors))

    def excess(self, positive: int, candidates: Any) -> Any:
        """margin + s(u, positive) - s(u, candidate), the largest first."""
        user, item = self.owner[positive], self.bench.train.indices[positive]
        vectors, items = self.state["users"][self.rows_of(user)], self.state["items"][[item, *candidates]]
        near = self.scale() * np.square(vectors[:, None] - items[None]).sum(axis=2).min(axis=0)
        return np.sort(self.model.margin + near[0] - near[1:])[::-1]

    def pulls(self, positive: int, candidates: Any) -> list[tuple[int, int, float]]:
        """(row of the vector, item, derivative of the loss with respect to their squared distance)."""
        user, item = self.owner[positive], self.bench.train.indices[positive]
        mine, items = self.rows_of(user), self.state["items"]
        touched = [item, *candidates]
        gaps = np.square(self.state["users"][mine][:, None] - items[None, touched]).sum(axis=2)
        gamma = self.state["gamma"][positive] if self.model.sampler == "dihars" else 0.0
        inner = items[candidates] @ items[item]

        def of_gaps(near: Any) -> float:
            return float(self.weight[user]) * sampled_loss(
                self.model,
                self.scale() * near[0],
                self.scale() * near[1:],
                inner,
                gamma,
                int(self.n_negatives[user]),
            )

        strengths = slope(of_gaps, gaps.min(axis=0))
        return [
            (mine.start + int(c), int(v), s) for c, v, s in zip(gaps.argmin(axis=0), touched, strengths, strict=True)
        ]

    def learn(self, first: int, last: int, order: list[int], epoch: int = 0) -> None:
        """What `train_range` does: per block first all users, then the items that they pulled."""
        block = self.model.block_size
        for start in range(first, last, block):
            slots = sorted(order[start : min(last, start + block)], key=lambda p: self.owner[p])
            noted = []
            for positive in slots:
                candidates = self.bench.probe(positive, epoch)[3]
                if len(candidates) == 0:
                    continue
                noted += self._learn_user(positive, candidates)
            for vector, item, strength in noted:
                if abs(strength) > 1e-9:
                    gap = self.state["items"][item] - self.state["users"][vector]
                    self._step("item", item, 2 * strength * gap)

    def _learn_user(self, positive: int, candidates: Any) -> list[tuple[int, int, float]]:
        user = int(self.owner[positive])
        mine = self.rows_of(user)
        if self.model.sampler == "dihars":
            self._start_gamma(positive, candidates)
        pulls = self.pulls(positive, candidates)
        vectors, items = self.state["users"][mine].copy(), self.state["items"]
        gradient = slope(lambda x: self.loss(positive, candidates, x, items) + self.penalty(user, x), vectors)
        for row, part in enumerate(gradient):
            if np.abs(part).max() > 1e-9:
                self._step("user", mine.start + row, part)
        if self.model.sampler == "dihars":
            self._move_gamma(positive)
        return pulls

    def _start_gamma(self, positive: int, candidates: Any) -> None:
        excess = self.excess(positive, candidates)
        hard = n_beta(self.model, int(self.n_negatives[self.owner[positive]]), len(candidates))
        self.statistic = max(0.0, excess[hard - 1])
        if self.state["gamma"][positive] < 0:
            self.state["gamma"][positive] = self.statistic
        self.gamma_slope = 1 - np.sum(excess > self.state["gamma"][positive] + 1e-9) / hard

    def _move_gamma(self, positive: int) -> None:
        gamma, rate = self.state["gamma"], self.model.gamma_rate
        move = rate * (self.statistic - gamma[positive]) if self.model.gamma == "average" else -rate * self.gamma_slope
        gamma[positive] = max(0.0, gamma[positive] + move)

    def _step(self, side: str, row: int, gradient: Any) -> None:
        """Row-wise SGD, Adagrad or Adam, then back to where the geometry wants the row."""
        rows, first, second = (self.state[name] for name in (f"{side}s", f"{side}_first", f"{side}_second"))
        rate = self.model.learning_rate
        if self.model.optimizer == "sgd":
            rows[row] -= rate * gradient
        elif self.model.optimizer == "adagrad":
            first[row] += gradient**2
            rows[row] -= rate * gradient / (np.sqrt(first[row]) + 1e-8)
        else:
            self.steps[side][row] += 1
            t = int(self.steps[side][row])
            first[row] = 0.9 * first[row] + 0.1 * gradient
            second[row] = 0.999 * second[row] + 0.001 * gradient**2
            mean, square = first[row] / (1 - 0.9**t), second[row] / (1 - 0.999**t)
            rows[row] -= rate * mean / (np.sqrt(square) + 1e-8)
        norm, radius = np.linalg.norm(rows[row]), self.model.radius
        on_sphere = self.model.geometry == "sphere" or (self.model.geometry == "sphere-ball" and side == "user")
        if on_sphere or norm > radius:
            rows[row] *= radius / norm
