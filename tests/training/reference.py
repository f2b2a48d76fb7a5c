"""DPCML's loss and training steps in plain NumPy and float64, written independently of the kernel.

No derivatives are written out here: gradients are central differences of the loss as the paper writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from tastespace import DPCML, Interactions, _native
from tastespace.models.dpcml.kernel import interests_per_user, kernel_data, kernel_settings, kernel_state
from tastespace.training.native_trainer import OPTIMIZERS, optimizer_arrays, optimizer_state
from tastespace.training.samplers import UNIFORM

SEED = 5


def from_lists(rows: list[list[int]], n_items: int, **ids: Any) -> Interactions:
    """The items of each user."""
    table = np.zeros((len(rows), n_items))
    for user, row in enumerate(rows):
        table[user, list(row)] = 1
    return Interactions.from_scipy(sp.csr_array(table), **ids)


def random_lists(counts: list[int], n_items: int, seed: int = 0) -> Interactions:
    """Users with these numbers of random items."""
    rng = np.random.default_rng(seed)
    return from_lists([list(rng.choice(n_items, n, replace=False)) for n in counts], n_items)


class Step(NamedTuple):
    """Loss and gradients of one positive, as the kernel computes them."""

    loss: float
    dcrs: float
    gamma_slope: float
    negatives: Any
    user_gradient: Any
    item_gradient: Any


class DpcmlKernel:
    """A model's kernel on random vectors, with every array and setting open to inspection and change."""

    def __init__(self, model: DPCML, train: Interactions, counts: list[int] | None = None, seed: int = SEED) -> None:
        rng = np.random.default_rng(seed)
        self.model, self.train = model, train
        if counts is None:
            wanted = model.n_interests, model.min_interests, model.log_base
            counts = list(interests_per_user(train.user_counts, *wanted))
        self.vector_offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        users = self._in_region(rng.standard_normal((int(self.vector_offsets[-1]), model.dim)), "users", rng)
        items = self._in_region(rng.standard_normal((train.n_items, model.dim)), "items", rng)
        self.settings = kernel_settings(model)
        self.data = kernel_data(model, train, self.vector_offsets)
        self.state = kernel_state(model, train, users, items)

    @property
    def arrays(self) -> dict[str, Any]:
        """What is learned, by name: views."""
        state = self.state
        found = {"users": state.user_vectors, "items": state.item_vectors, "gamma": state.gamma}
        for side, optimizer in (("user", state.user_optimizer), ("item", state.item_optimizer)):
            found |= {f"{side}_{part}": array for part, array in optimizer_arrays(optimizer).items()}
        return found

    def _in_region(self, rows: Any, side: str, rng: np.random.Generator) -> Any:
        """Random directions; inside the ball (two of three items) where that is their region."""
        rows = self.model.radius * rows / np.linalg.norm(rows, axis=1, keepdims=True)
        on_sphere = self.model.geometry == "sphere" or (self.model.geometry == "sphere-ball" and side == "users")
        return np.ascontiguousarray(rows if on_sphere else rows * rng.uniform(0.5, 1, (len(rows), 1)), dtype=np.float32)

    def step(self, positive: int, epoch: int = 0) -> Step:
        """Loss and gradients of one positive; nothing is learned."""
        of_users, of_items = np.zeros_like(self.state.user_vectors), np.zeros_like(self.state.item_vectors)
        found = _native.dpcml_loss_and_gradient(
            self.data,
            self.state,
            self.settings,
            seed=SEED,
            epoch=epoch,
            positive_index=positive,
            user_gradient=of_users,
            item_gradient=of_items,
        )
        return Step(found.loss, found.dcrs, found.gamma_slope, found.negatives, of_users, of_items)

    def learn(
        self, first: int = 0, last: int | None = None, epoch: int = 0, threads: int = 1, seed: int = SEED
    ) -> _native.DpcmlTotals:
        """Train on a range of positives."""
        last = self.train.n_interactions if last is None else last
        return _native.train_dpcml(
            self.data, self.state, self.settings, seed=seed, epoch=epoch, first=first, last=last, threads=threads
        )


def epoch_order(counts: Iterable[int], epoch: int, seed: int = SEED) -> list[int]:
    """Which positive comes first, second, ... in an epoch of users with so many positives.

    A gamma is below 0 until DiHarS takes a step of its positive: one step at a time shows which it was.
    """
    counts = list(counts)
    train = from_lists([list(range(n)) for n in counts], max(counts) + 2)
    kernel = DpcmlKernel(DPCML(dim=2, sampler="dihars", n_negatives=1, n_interests=1, dcrs=None), train)
    order = []
    for place in range(train.n_interactions):
        kernel.state.gamma[:] = -1
        kernel.learn(place, place + 1, epoch, seed=seed)
        order += np.flatnonzero(kernel.state.gamma >= 0).tolist()
    return order


# ---- the loss ----------------------------------------------------------------------------------------------


_WORD = (1 << 64) - 1


def _mixed(x: int) -> int:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> shift)) * factor & _WORD
    return x ^ (x >> 31)


def fold_in_order(n: int, epoch: int, seed: int = SEED) -> list[int]:
    """The order of a user's own positives in fold-in: the keyed permutation of `core/random.hpp`, in plain Python."""
    counter, keys = _mixed(_mixed(_mixed(seed + 0x9E3779B97F4A7C15 & _WORD) + epoch & _WORD) + _WORD & _WORD), []
    for _ in range(4):
        counter = counter + 0x9E3779B97F4A7C15 & _WORD
        keys.append(_mixed(counter))
    left_bits = (n - 1).bit_length() // 2 if n > 1 else 0
    mask = (1 << left_bits) - 1
    n_right = (n + mask) >> left_bits
    order = []
    for place in range(n):
        x = place
        while True:
            left, right = x & mask, x >> left_bits
            for first, second in ((keys[0], keys[1]), (keys[2], keys[3])):
                left ^= _mixed(right + first & _WORD) & mask
                right = (right + (_mixed(left + second & _WORD) * n_right >> 64)) % n_right
            x = right << left_bits | left
            if x < n:
                break
        order.append(x)
    return order


def n_beta(model: DPCML, n_negatives: int, n_drawn: int) -> int:
    """N_beta of all negatives, applied to those that were drawn."""
    return min(max(1, int(Fraction(str(model.beta)) * n_negatives)), n_drawn)


def sampled_loss(
    model: DPCML, positive: Any, negatives: Any, inner: Any, gamma: float, n_negatives: int, nearest: Any = None
) -> float:
    """The loss of one positive from d(u, positive), d(u, negatives) and <positive, negative>.

    ``nearest`` are the distances by which the hardest are chosen, if others than ``negatives``.
    """
    excess = model.margin + positive - negatives
    hinge = np.maximum(excess, 0)
    nearest_first = np.argsort(negatives if nearest is None else nearest, kind="stable")
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


def spread(vectors: Any) -> float:
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
        delta = spread(vectors)
        return max(0.0, low - delta) + max(0.0, delta - high)
    total = 0.0
    for a in range(len(vectors)):
        for b in range(len(vectors)):
            if a != b:
                gap = np.square(vectors[a] - vectors[b]).sum()
                total += max(0.0, low - gap) + max(0.0, gap - high)
    return total / len(vectors) ** 2


def numeric_gradient(function: Callable[[Any], float], at: Any, step: float = 1e-6) -> Any:
    """Central differences of a function of an array."""
    out = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        moved = at.copy()
        moved[place] = at[place] + step
        above = function(moved)
        moved[place] = at[place] - step
        out[place] = (above - function(moved)) / (2 * step)
    return out


class NumpyReference:
    """The state of a `DpcmlKernel` in float64, and the same training in plain NumPy."""

    def __init__(self, kernel: DpcmlKernel) -> None:
        self.kernel, self.model, train = kernel, kernel.model, kernel.train
        self.state = {
            name: kernel.arrays[name].astype(np.float64)
            for name in ("users", "items", "gamma", "user_first", "user_second", "item_first", "item_second")
        }
        self.steps = {side: kernel.arrays[f"{side}_steps"].copy() for side in ("user", "item")}
        self.owner = train.row_of_each()
        counts = train.user_counts
        self.user_weight = train.n_interactions / (train.n_users * np.maximum(counts, 1))
        self.weight = self.user_weight if self.model.weighting == "user" else np.ones(train.n_users)
        self.n_negatives = train.n_items - counts

    def rows_of(self, user: int) -> slice:
        offsets = self.kernel.vector_offsets
        return slice(int(offsets[user]), int(offsets[user + 1]))

    def scale(self) -> float:
        return 0.5 / self.model.radius**2 if self.model.geometry == "sphere" else 1.0

    def loss(self, positive: int, negatives: Any, vectors: Any, items: Any) -> float:
        """Weighted loss of one positive: a function of one user's vectors and all items."""
        user, item = self.owner[positive], self.kernel.train.indices[positive]
        near = self.scale() * np.square(vectors[:, None] - items[None, [item, *negatives]]).sum(axis=2).min(axis=0)
        inner = items[negatives] @ items[item]
        gamma = self.state["gamma"][positive] if self.model.sampler == "dihars" else 0.0
        return float(
            self.weight[user] * sampled_loss(self.model, near[0], near[1:], inner, gamma, int(self.n_negatives[user]))
        )

    def penalty(self, user: int, vectors: Any) -> float:
        return float(self.model.spread_weight * self.user_weight[user] * penalty(self.model, vectors))

    def vectors(self, positive: int, learned: Any) -> Any:
        """The vectors of the positive's user in its step, as a function of what is learned of this user."""
        return learned

    def vector_for_items(self, positive: int, row: int) -> Any:
        """The user vector with which the items of a step are updated: as it is by then."""
        return self.state["users"][row]

    def excess(self, positive: int, negatives: Any) -> Any:
        """margin + s(u, positive) - s(u, negative), the largest first."""
        user, item = self.owner[positive], self.kernel.train.indices[positive]
        vectors = self.vectors(positive, self.state["users"][self.rows_of(user)])
        items = self.state["items"][[item, *negatives]]
        near = self.scale() * np.square(vectors[:, None] - items[None]).sum(axis=2).min(axis=0)
        return np.sort(self.model.margin + near[0] - near[1:])[::-1]

    def pair_gradients(self, positive: int, negatives: Any) -> list[tuple[int, int, float]]:
        """(row of the vector, item, derivative of the loss with respect to their squared distance)."""
        user, item = self.owner[positive], self.kernel.train.indices[positive]
        own, items = self.rows_of(user), self.state["items"]
        touched = [item, *negatives]
        gaps = np.square(self.vectors(positive, self.state["users"][own])[:, None] - items[None, touched]).sum(axis=2)
        gamma = self.state["gamma"][positive] if self.model.sampler == "dihars" else 0.0
        inner = items[negatives] @ items[item]

        def of_gaps(near: Any) -> float:
            return float(self.weight[user]) * sampled_loss(
                self.model,
                self.scale() * near[0],
                self.scale() * near[1:],
                inner,
                gamma,
                int(self.n_negatives[user]),
            )

        derivatives = numeric_gradient(of_gaps, gaps.min(axis=0))
        return [
            (own.start + int(c), int(v), s) for c, v, s in zip(gaps.argmin(axis=0), touched, derivatives, strict=True)
        ]

    def learn(self, first: int, last: int, order: list[int], epoch: int = 0) -> None:
        """What `train_dpcml` does: per block first all users, then the items with pair gradients."""
        block = self.model.block_size
        for start in range(first, last, block):
            slots = sorted(order[start : min(last, start + block)], key=lambda p: self.owner[p])
            recorded = []
            for positive in slots:
                negatives = self.kernel.step(positive, epoch).negatives
                if len(negatives) == 0:
                    continue
                recorded += [(positive, *pair) for pair in self._learn_user(positive, negatives)]
            for positive, vector, item, derivative in recorded:
                if abs(derivative) > 1e-9:
                    gap = self.state["items"][item] - self.vector_for_items(positive, vector)
                    self._step("item", item, 2 * derivative * gap)

    def _learn_user(self, positive: int, negatives: Any) -> list[tuple[int, int, float]]:
        user = int(self.owner[positive])
        own = self.rows_of(user)
        if self.model.sampler == "dihars":
            self._start_gamma(positive, negatives)
        pairs = self.pair_gradients(positive, negatives)
        learned, items = self.state["users"][own].copy(), self.state["items"]

        def of_learned(moved: Any) -> float:
            vectors = self.vectors(positive, moved)
            return self.loss(positive, negatives, vectors, items) + self.penalty(user, vectors)

        gradient = numeric_gradient(of_learned, learned)
        for row, part in enumerate(gradient):
            if np.abs(part).max() > 1e-9:
                self._step("user", own.start + row, part)
        if self.model.sampler == "dihars":
            self._move_gamma(positive)
        return pairs

    def _start_gamma(self, positive: int, negatives: Any) -> None:
        excess = self.excess(positive, negatives)
        hard = n_beta(self.model, int(self.n_negatives[self.owner[positive]]), len(negatives))
        self.statistic = max(0.0, excess[hard - 1])
        if self.state["gamma"][positive] < 0:
            self.state["gamma"][positive] = self.statistic
        self.gamma_slope = 1 - np.sum(excess > self.state["gamma"][positive] + 1e-9) / hard

    def _move_gamma(self, positive: int) -> None:
        gamma, rate = self.state["gamma"], self.model.gamma_rate
        move = rate * (self.statistic - gamma[positive]) if self.model.gamma == "average" else -rate * self.gamma_slope
        gamma[positive] = max(0.0, gamma[positive] + move)

    def _step(self, side: str, row: int, gradient: Any) -> None:
        """Row-wise SGD, Adagrad or Adam, then the projection."""
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


# ---- BPR ---------------------------------------------------------------------------------------------------


class BprKernel:
    """BPR's kernel on random vectors."""

    def __init__(
        self,
        train: Interactions,
        dim: int = 5,
        optimizer: str = "sgd",
        rate: float = 0.05,
        block_size: int = 4,
        seed: int = SEED,
    ) -> None:
        random = np.random.default_rng(seed)
        self.train, self.optimizer, self.learning_rate = train, optimizer, rate
        users, items, bias = (
            random.normal(0, 0.7, shape).astype(np.float32)
            for shape in ((train.n_users, dim), (train.n_items, dim), train.n_items)
        )
        self.settings = _native.BprSettings(
            regularization=0.03,
            bias_regularization=0.02,
            optimizer=_native.OptimizerSettings(optimizer=OPTIMIZERS[optimizer], learning_rate=rate),
            block_size=block_size,
        )
        self.data = _native.BprData(offsets=train.offsets, positives=train.indices)
        self.state = _native.BprState(
            user_vectors=users,
            item_vectors=items,
            bias=bias,
            user_optimizer=optimizer_state(optimizer, users),
            item_optimizer=optimizer_state(optimizer, items),
            bias_optimizer=optimizer_state(optimizer, bias),
        )

    @property
    def arrays(self) -> dict[str, Any]:
        """What is learned, by name: views."""
        state = self.state
        found = {"users": state.user_vectors, "items": state.item_vectors, "bias": state.bias}
        optimizers = {"user": state.user_optimizer, "item": state.item_optimizer, "bias": state.bias_optimizer}
        for side, optimizer in optimizers.items():
            found |= {f"{side}_{part}": array for part, array in optimizer_arrays(optimizer).items()}
        return found

    def learn(self, first: int = 0, last: int | None = None, epoch: int = 0, threads: int = 1) -> _native.BprTotals:
        """Train on a range of positives."""
        last = self.train.n_interactions if last is None else last
        return _native.train_bpr(
            self.data, self.state, self.settings, seed=SEED, epoch=epoch, first=first, last=last, threads=threads
        )

    def copies(self) -> dict[str, Any]:
        """What is learned, without the optimizer's state: copies."""
        return {name: self.arrays[name].copy() for name in ("users", "items", "bias")}

    def negative(self, positive: int, epoch: int = 0) -> int:
        """The item that a step compares with, -1 where there is none."""
        train = self.train
        user = np.array([train.row_of_each()[positive]], dtype=np.int32)
        keep, other = UNIFORM
        drawn = _native.draw_negatives(
            train.offsets,
            train.indices,
            train.n_items,
            alias_keep=keep,
            alias_other=other,
            users=user,
            n=1,
            seed=SEED,
            epoch=epoch,
            first=positive,
            threads=1,
        )
        return int(drawn[0, 0])
