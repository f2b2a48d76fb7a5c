"""DPCML's kernel with anchored interests, and that without them it gives the bits it gave before."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from reference import random_lists

from tastespace._native import generic

# ---- without anchors ---------------------------------------------------------------------------------------

# SHA-256 of the vectors, from the kernel before it knew of anchors. The generic SIMD variant adds in one order and
# without fused operations, so that every x86-64 compiler gives these bits.
BEFORE = {
    "hardest": "48771a5c40d5d61b3da2a158f0081d46b74ef5d3652cd7b84a50338eb2e4bd7e",
    "differentiable": "417c93bcf5606873cb7653757f4a3378cfaeee66343fdc0e019b7e6345aea6a4",
}


def plain_digest(sampler, dcrs, user_region):
    """Three epochs from vectors that are exact in binary: no library's rounding is involved."""
    train = random_lists([3, 5, 4, 14, 9], 30)
    offsets = np.array([0, 1, 4, 6, 10, 13], dtype=np.int64)
    rng = np.random.default_rng(3)
    users, items = (rng.integers(-24, 25, (n, 21)).astype(np.float32) / 128 for n in (13, 30))
    ones = np.ones(5, dtype=np.float32)
    data = generic.DpcmlData(
        offsets=train.offsets,
        positives=train.indices,
        alias_keep=np.empty(0, np.float32),
        alias_other=np.empty(0, np.int32),
        vector_offsets=offsets,
        loss_weight=ones,
        dcrs_weight=ones,
        n_beta=np.full(5, 2, dtype=np.int32),
    )
    state = generic.DpcmlState(
        user_vectors=users,
        item_vectors=items,
        gamma=np.full(train.n_interactions, -1, dtype=np.float32),
        user_optimizer=generic.OptimizerState(
            first=np.zeros_like(users), second=np.empty(0, np.float32), steps=np.empty(0, np.int32)
        ),
        item_optimizer=generic.OptimizerState(
            first=np.zeros_like(items), second=np.empty(0, np.float32), steps=np.empty(0, np.int32)
        ),
    )
    settings = generic.DpcmlSettings(
        sampler=sampler,
        n_negatives=8,
        n_hardest=0 if sampler is generic.Sampler.DIFFERENTIABLE else 3,
        margin=0.5,
        distance_scale=1.0,
        gamma_rule=generic.GammaRule.GRADIENT,
        gamma_rate=0.0625,
        dcrs=dcrs,
        spread_weight=0.5,
        min_spread=0.25,
        max_spread=0.5,
        user_region=user_region,
        item_region=generic.Region.BALL,
        radius=1.0,
        optimizer=generic.OptimizerSettings(optimizer=generic.Optimizer.ADAGRAD, learning_rate=0.125),
        block_size=8,
    )
    for epoch in range(3):
        generic.train_dpcml(data, state, settings, seed=7, epoch=epoch, first=0, last=train.n_interactions, threads=2)
    return hashlib.sha256(users.tobytes() + items.tobytes()).hexdigest()


@pytest.mark.parametrize("name", BEFORE)
def test_without_anchors_the_kernel_gives_the_bits_it_gave_before(name):
    found = {
        "hardest": (generic.Sampler.HARDEST, generic.DcrsForm.MEAN, generic.Region.SPHERE),
        "differentiable": (generic.Sampler.DIFFERENTIABLE, generic.DcrsForm.PAIRS, generic.Region.BALL),
    }
    assert plain_digest(*found[name]) == BEFORE[name]
