"""Training in batches with a step of Adam of all vectors, the authors' rule, next to the same in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.training.reference import (
    SEED,
    DpcmlKernel,
    fold_in_order,
    n_beta,
    numeric_gradient,
    penalty,
    random_lists,
)

from tastespace import DPCML, _native, split
from tastespace.errors import ParameterError
from tastespace.models import CML
from tastespace.training.samplers import UNIFORM

COUNTS = [9, 2, 6, 12, 1, 5, 7, 3, 8, 4, 10, 5]
N_ITEMS = 40


class BatchReference:
    """Every vector takes every step; nothing is made up for later."""

    def __init__(self, kernel: DpcmlKernel) -> None:
        self.kernel, self.model, self.train = kernel, kernel.model, kernel.train
        self.users, self.items, self.gamma = (
            kernel.arrays[name].astype(np.float64) for name in ("users", "items", "gamma")
        )
        self.moments = [np.zeros_like(part) for part in (self.users, self.users, self.items, self.items)]
        self.t = 0
        self.each = self.model.n_negatives if self.model.sampler == "unis" else 1
        self.owner = self.train.row_of_each()

    def epoch(self, epoch: int) -> None:
        n = self.train.n_interactions * self.each
        negatives = _native.draw_negatives(
            self.train.offsets, self.train.indices, n_items=self.train.n_items, alias_keep=UNIFORM[0],
            alias_other=UNIFORM[1], users=np.repeat(self.owner, self.each).astype(np.int32),
            n=1 if self.each > 1 else self.model.n_negatives, seed=SEED, epoch=epoch, first=0, threads=1,
        )  # fmt: skip
        order = fold_in_order(n, epoch)
        for start in range(0, n, self.model.block_size):
            batch = order[start : start + self.model.block_size]
            self.step([(key // self.each, negatives[key]) for key in batch])

    def step(self, members: list[tuple[int, Any]]) -> None:
        norms = np.linalg.norm(self.items, axis=1)
        read = sorted({int(item) for p, drawn in members for item in (self.train.indices[p], *drawn)})
        self.items[read] /= np.maximum(1, norms[read] / self.model.radius)[:, None]
        of_users, of_items = np.zeros_like(self.users), np.zeros_like(self.items)
        for positive, drawn in members:
            for vector, item, slope in self.pairs(positive, drawn):
                gap = self.users[vector] - self.items[item]
                of_users[vector] += 2 * slope * gap
                of_items[item] -= 2 * slope * gap
        in_batch = sorted({int(self.owner[positive]) for positive, _ in members})
        for user in in_batch:
            own = slice(*self.kernel.vector_offsets[user : user + 2].tolist())
            weight = self.model.spread_weight / len(in_batch)
            of_users[own] += weight * numeric_gradient(lambda x: penalty(self.model, x), self.users[own])
        self.t += 1
        rate = self.model.learning_rate
        for place, values, gradient in ((0, self.users, of_users), (2, self.items, of_items)):
            mean, square = self.moments[place : place + 2]
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            values -= rate * (mean / (1 - 0.9**self.t)) / (np.sqrt(square / (1 - 0.999**self.t)) + 1e-8)
        norms = np.linalg.norm(self.users, axis=1, keepdims=True)
        on_sphere = self.model.geometry == "sphere-ball"
        self.users /= norms if on_sphere else np.maximum(1, norms)

    def pairs(self, positive: int, drawn: Any) -> list[tuple[int, int, float]]:
        user = int(self.owner[positive])
        first, last = self.kernel.vector_offsets[user : user + 2]
        items = [int(self.train.indices[positive]), *drawn.tolist()]
        gaps = np.square(self.users[first:last, None] - self.items[None, items]).sum(axis=2)
        near, vector = gaps.min(axis=0), first + gaps.argmin(axis=0)
        excess = self.model.margin + near[0] - near[1:]
        if self.model.sampler == "dihars":
            hard = n_beta(self.model, self.train.n_items - COUNTS[user], len(drawn))
            started = self.gamma[positive] >= 0
            if not started:
                self.gamma[positive] = max(0.0, np.sort(excess)[-hard])
            gamma = self.gamma[positive]
            used = [k for k, e in enumerate(excess) if e > gamma or (not started and e == gamma > 0)]
            weight = 1 / hard
            self.gamma[positive] = max(0.0, gamma - self.model.gamma_rate * (1 - len(used) / hard))
        else:
            used, weight = [k for k in [int(near[1:].argmin())] if excess[k] > 0], 1.0
        found = [(int(vector[1 + k]), items[1 + k], -weight) for k in used]
        return [(int(vector[0]), items[0], weight * len(used)), *found] if used else []


@pytest.mark.parametrize(
    ("sampler", "changes"),
    [
        ("unis", {"dcrs": "mean", "n_interests": 3}),
        ("hars", {"dcrs": "pairs", "n_interests": "adaptive", "min_interests": 1, "log_base": 2.0, "geometry": "ball"}),
        ("dihars", {"dcrs": "mean", "n_interests": 2, "n_negatives": 12, "beta": 0.1}),
    ],
)
def test_parameters_after_many_steps_are_those_of_a_plain_implementation(sampler, changes):
    settings = {"geometry": "sphere-ball", "n_negatives": 4, "min_spread": 0.5, "max_spread": 0.6} | changes
    model = DPCML(
        dim=6, sampler=sampler, optimizer="dense-adam", block_size=5, learning_rate=0.02, start="random",
        temperature=0.0, spread_weight=10.0, **settings,
    )  # fmt: skip
    kernel = DpcmlKernel(model, random_lists(COUNTS, N_ITEMS))
    reference = BatchReference(kernel)
    for epoch in range(3):
        totals = kernel.learn(epoch=epoch)
        reference.epoch(epoch)
    assert totals.n_steps == kernel.train.n_interactions * reference.each
    assert reference.t == 3 * -(-totals.n_steps // 5) == kernel.arrays["user_steps"].max()
    np.testing.assert_allclose(kernel.arrays["users"], reference.users, atol=1e-5)
    np.testing.assert_allclose(kernel.arrays["items"], reference.items, atol=1e-5)
    assert np.abs(reference.users - DpcmlKernel(model, kernel.train).arrays["users"]).max() > 0.3  # it learned


def test_an_epoch_in_parts_is_the_same_epoch():
    model = DPCML(dim=6, n_interests=2, sampler="hars", optimizer="dense-adam", block_size=8, start="random")
    whole, parts = (DpcmlKernel(model, random_lists(COUNTS, N_ITEMS)) for _ in range(2))
    whole.learn()
    for first in range(0, whole.train.n_interactions, 16):
        parts.learn(first, min(first + 16, whole.train.n_interactions))
    np.testing.assert_allclose(parts.arrays["users"], whole.arrays["users"], atol=1e-6)
    np.testing.assert_allclose(parts.arrays["items"], whole.arrays["items"], atol=1e-6)


def test_the_penalty_is_a_mean_over_the_users_of_a_batch():
    """The weight of a user's penalty does not depend on how many positives the user has in the batch."""
    kernel = DpcmlKernel(
        DPCML(
            dim=6,
            n_interests=2,
            sampler="hars",
            n_negatives=3,
            optimizer="dense-adam",
            block_size=1000,
            dcrs="mean",
            spread_weight=7.0,
            min_spread=5.0,
            max_spread=None,
            margin=1e-6,
            start="random",
        ),
        random_lists(COUNTS, N_ITEMS),
    )
    users = kernel.arrays["users"].astype(np.float64)
    expected = np.mean([7.0 * penalty(kernel.model, users[2 * u : 2 * u + 2]) for u in range(len(COUNTS))])
    assert kernel.learn().dcrs == pytest.approx(expected, rel=1e-5)


def test_a_fitted_model_folds_in_and_is_updated(town):
    train, valid, _ = split.per_user(town.interactions, seed=0)
    model = CML(dim=16, optimizer="dense-adam", block_size=64, learning_rate=0.01, epochs=4, seed=1).fit(train, valid)
    again = CML(dim=16, optimizer="dense-adam", block_size=64, learning_rate=0.01, epochs=4, seed=1).fit(train, valid)
    np.testing.assert_array_equal(model.user_vectors_, again.user_vectors_)
    assert model.history_[-1]["hinge"] < model.history_[0]["hinge"]
    assert model.recommend(train.users[0], k=3) is not None
    updated = model.partial_fit(valid, epochs=1)
    assert np.isfinite(updated.user_vectors_).all()


def test_anchored_vectors_are_refused():
    train = random_lists(COUNTS, N_ITEMS)
    with pytest.raises(ParameterError, match=r"anchor=0\.5 with optimizer='dense-adam'"):
        DPCML(dim=4, anchor=0.5, optimizer="dense-adam").fit(train)
