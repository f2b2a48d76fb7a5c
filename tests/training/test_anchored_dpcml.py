"""DPCML's kernel with anchored interests, and that without them it gives the bits it gave before."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from tests.training.anchored_reference import AnchoredReference, anchored, lloyd
from tests.training.reference import SEED, DpcmlKernel, epoch_order, from_lists, numeric_gradient, random_lists

from tastespace import DPCML, _native
from tastespace._native import generic

# One vector, several, fewer items than vectors, and a user who has most items.
COUNTS, VECTORS, N_ITEMS = [3, 5, 2, 14, 7], [1, 3, 4, 4, 2], 18
SAMPLERS = {
    "unis": {"sampler": "unis"},
    "2sts": {"sampler": "2sts", "n_hardest": 3},
    "hars": {"sampler": "hars", "n_hardest": 3},
    "dihars": {"sampler": "dihars", "beta": 0.25, "gamma": "random"},
}
# Bounds that random vectors violate.
DCRS = {
    "off": {"dcrs": None},
    "mean": {"dcrs": "mean", "min_spread": 3.0, "max_spread": 4.0},
    "pairs": {"dcrs": "pairs", "min_spread": 1.6, "max_spread": 1.7},
}
GEOMETRIES = {"sphere-ball": 0.6, "ball": 0.5, "sphere": 0.3}  # and a margin that some negatives violate
ANCHORS = [0.3, 0.7, 1.0]


def a_model(anchor, sampler="unis", dcrs="off", geometry="sphere-ball", **changes):
    chosen = {
        "anchor": anchor,
        "dim": 5,
        "geometry": geometry,
        "margin": GEOMETRIES[geometry],
        "n_negatives": 6,
        "spread_weight": 0.7,
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "seed": SEED,
        **SAMPLERS[sampler],
        **DCRS[dcrs],
        **changes,
    }
    return DPCML(**chosen)


def refresh(kernel, iterations=1, threads=1):
    _native.refresh_anchors(kernel.data, kernel.state, kernel.settings, iterations=iterations, threads=threads)


def move_items(kernel):
    """Some way towards each other, and back to where they must lie."""
    items = kernel.arrays["items"]
    items[:] = 0.6 * items + 0.4 * np.roll(items, 1, axis=0)
    if kernel.model.geometry == "sphere":
        items *= kernel.model.radius / np.linalg.norm(items, axis=1, keepdims=True)


def a_kernel(model, train=None, vectors=None):
    """Refreshed, and with items that have moved since, as in the middle of an epoch."""
    kernel = DpcmlKernel(model, random_lists(COUNTS, N_ITEMS) if train is None else train, vectors or VECTORS)
    refresh(kernel)
    move_items(kernel)
    if model.sampler == "dihars":
        kernel.arrays["gamma"][:] = np.random.default_rng(SEED).uniform(0.05, 0.4, len(kernel.arrays["gamma"]))
    return kernel


# ---- gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dcrs", DCRS)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("anchor", ANCHORS)
def test_loss_and_gradient(anchor, sampler, dcrs, geometry):
    kernel = a_kernel(a_model(anchor, sampler, dcrs, geometry))
    check_gradients(kernel, (kernel.train.offsets[1:] - 1).tolist())


@pytest.mark.parametrize("dim", [3, 4, 16, 23, 37])
@pytest.mark.parametrize("anchor", ANCHORS)
def test_gradient_for_every_width_of_register(anchor, dim):
    kernel = a_kernel(a_model(anchor, "hars", "mean", dim=dim, margin=1.5))
    check_gradients(kernel, (kernel.train.offsets[1:] - 1).tolist())


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_gradient_of_every_positive_with_another_radius(geometry):
    kernel = a_kernel(a_model(0.5, "unis", "mean", geometry, weighting="user", radius=1.7))
    check_gradients(kernel, range(kernel.train.n_interactions))
    left = kernel.state.anchors.counts[:-2]  # some interests have no item, or none but the positive
    assert (left == 0).any()
    assert (left == 1).any()


def check_gradients(kernel, positives):
    reference, active = AnchoredReference(kernel), 0
    for positive in positives:
        step = kernel.step(positive)
        check_gradient(kernel, reference, positive, step)
        active += bool(step.item_gradient.any())
    assert active > 0


def check_gradient(kernel, reference, positive, step):
    user, items = reference.owner[positive], reference.state["items"]
    own = reference.rows_of(user)
    free = reference.state["users"][own]
    vectors = reference.vectors(positive, free)
    assert step.loss == pytest.approx(reference.loss(positive, step.negatives, vectors, items), rel=1e-5, abs=1e-6)
    assert step.dcrs == pytest.approx(reference.penalty(user, vectors), rel=1e-5, abs=1e-6)

    def of_free(moved):
        found = reference.vectors(positive, moved)
        return reference.loss(positive, step.negatives, found, items) + reference.penalty(user, found)

    if kernel.model.anchor == 1:
        assert not step.user_gradient.any()
    np.testing.assert_allclose(step.user_gradient[own], numeric_gradient(of_free, free), rtol=1e-4, atol=2e-5)
    rows = [kernel.train.indices[positive], *step.negatives]

    def of_rows(values):
        moved = items.copy()
        moved[rows] = values
        return reference.loss(positive, step.negatives, vectors, moved)

    np.testing.assert_allclose(step.item_gradient[rows], numeric_gradient(of_rows, items[rows]), rtol=1e-4, atol=2e-5)
    others = np.ones(len(step.user_gradient), bool)
    others[own] = False
    assert not step.user_gradient[others].any()
    assert not np.delete(step.item_gradient, rows, axis=0).any()


# ---- steps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("anchor", ANCHORS)
def test_epochs_are_what_plain_numpy_computes(anchor, optimizer, geometry):
    """Blocks, the optimizers' state, who moves when; a refresh before each epoch."""
    model = a_model(
        anchor, "hars", "mean", geometry, optimizer=optimizer, block_size=4, learning_rate=0.02, spread_weight=0.1
    )
    kernel = a_kernel(model)
    start, n = kernel.arrays["items"].copy(), kernel.train.n_interactions
    for epoch in range(2):
        refresh(kernel)
        reference = AnchoredReference(kernel)
        reference.learn(0, n, epoch_order(kernel.train.user_counts, epoch), epoch)
        kernel.learn(epoch=epoch)
        for name in ("users", "items", "user_first", "item_first", "item_second"):
            if kernel.arrays[name].size:
                np.testing.assert_allclose(
                    kernel.arrays[name], reference.state[name], rtol=2e-3, atol=2e-4, err_msg=name
                )
    assert np.abs(kernel.arrays["items"] - start).max() > 0.05


def test_with_anchor_1_free_vectors_are_not_learned():
    kernel = a_kernel(a_model(1.0, "unis", "mean", optimizer="adagrad"))
    before = {name: kernel.arrays[name].copy() for name in ("users", "user_first", "items")}
    kernel.learn()
    np.testing.assert_array_equal(kernel.arrays["users"], before["users"])
    np.testing.assert_array_equal(kernel.arrays["user_first"], before["user_first"])
    assert (kernel.arrays["items"] != before["items"]).any()


def test_the_step_of_an_item_sees_only_the_other_items():
    """Two items in one interest: the step of one has its vector at the other."""
    train = from_lists([[2, 5], [1, 3, 4]], 8)
    kernel = DpcmlKernel(a_model(1.0, margin=50.0, geometry="ball"), train, [1, 1])
    refresh(kernel)
    items = kernel.arrays["items"].astype(np.float64)
    for positive, (own, other) in enumerate([(2, 5), (5, 2)]):
        step = kernel.step(positive)
        to_negatives = np.square(items[step.negatives] - items[other]).sum(axis=1)
        wanted = 50 + np.square(items[own] - items[other]).sum() - to_negatives
        assert step.loss == pytest.approx(wanted.mean(), rel=1e-5)
        # The pair gradient of the positive: towards the other item, not to the mean of both.
        np.testing.assert_allclose(step.item_gradient[own], 2 * (items[own] - items[other]), rtol=1e-4)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_with_anchor_1_the_only_item_of_a_user_is_skipped_and_counted(threads):
    lists = [[0, 3, 7], [4], [1, 2, 8, 9], list(range(12))]
    kernel = DpcmlKernel(a_model(1.0), from_lists(lists, 12), [2, 2, 3, 2])
    refresh(kernel)
    start = kernel.arrays["items"].copy()
    totals = kernel.learn(threads=threads)
    assert (totals.n_steps, totals.n_skipped) == (7, 1 + 12)
    assert np.isfinite(kernel.arrays["items"]).all()
    assert (kernel.arrays["items"] != start).any()
    alone = kernel.step(3)
    assert len(alone.negatives) == 0
    assert alone.loss == 0
    assert not alone.item_gradient.any()


def test_with_less_anchor_the_only_item_of_a_user_is_learned_from():
    kernel = DpcmlKernel(a_model(0.9, margin=50.0), from_lists([[4], [1, 2]], 12), [1, 1])
    refresh(kernel)
    step = kernel.step(0)
    items, free = kernel.arrays["items"].astype(np.float64), kernel.arrays["users"][0].astype(np.float64)
    gaps = np.square(items[[4, *step.negatives]] - free).sum(axis=1)
    assert step.loss == pytest.approx((50 + gaps[0] - gaps[1:]).mean(), rel=1e-5)
    assert kernel.learn().n_skipped == 0


# ---- assignments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("iterations", [0, 1, 2, 10])
@pytest.mark.parametrize("anchor", ANCHORS)
def test_a_refresh_is_what_plain_numpy_computes(anchor, iterations, geometry):
    kernel = DpcmlKernel(a_model(anchor, geometry=geometry), random_lists(COUNTS, N_ITEMS), VECTORS)
    refresh(kernel, iterations)
    check_assignments(kernel, None, iterations)
    # Again, from what is assigned now, with other items.
    before = kernel.state.anchors.assignments.copy()
    kernel.arrays["items"][:] = kernel.arrays["items"][::-1].copy()
    refresh(kernel, iterations)
    check_assignments(kernel, before, iterations)
    assert (kernel.state.anchors.assignments == before).all() == (iterations == 0)


def check_assignments(kernel, before, iterations):
    anchors, items = kernel.state.anchors, kernel.arrays["items"].astype(np.float64)
    np.testing.assert_array_equal(anchors.snapshot, kernel.arrays["items"])
    offsets = kernel.train.offsets
    for user in range(kernel.train.n_users):
        mine, rows = slice(offsets[user], offsets[user + 1]), slice(*kernel.vector_offsets[user : user + 2])
        own, free = items[kernel.train.indices[mine]], kernel.arrays["users"][rows].astype(np.float64)
        wanted = lloyd(kernel.model, free, own, None if before is None else before[mine], iterations)
        np.testing.assert_array_equal(anchors.assignments[mine], wanted)
        np.testing.assert_array_equal(anchors.counts[rows], np.bincount(wanted, minlength=len(free)))
        sums = [own[wanted == c].sum(axis=0) for c in range(len(free))]
        np.testing.assert_allclose(anchors.sums[rows], sums, atol=1e-5)


@pytest.mark.parametrize("anchor", ANCHORS)
def test_no_interest_loses_all_items_to_another(anchor):
    """All items start with one interest, and the vectors of the others are far away."""
    kernel = DpcmlKernel(a_model(anchor), random_lists([9, 4, 3], 18), [4, 4, 4])
    kernel.arrays["users"][:] = -kernel.arrays["items"].sum(axis=0)
    kernel.state.anchors.assignments[:] = 0
    refresh(kernel)
    counts = kernel.state.anchors.counts.reshape(3, 4)
    assert counts.sum(axis=1).tolist() == [9, 4, 3]
    assert (counts > 0).sum(axis=1).tolist() == [4, 4, 3]  # as many as there are items


def test_items_at_the_same_place_are_spread_over_the_interests_once():
    kernel = DpcmlKernel(a_model(1.0), from_lists([[0, 1, 2, 3, 4], [6]], 8), [3, 1])
    kernel.arrays["items"][:5] = kernel.arrays["items"][0]
    refresh(kernel, 4)
    assert sorted(kernel.state.anchors.counts[:3].tolist()) == [1, 1, 3]


def test_a_user_without_items_has_no_assignments_and_free_vectors():
    kernel = DpcmlKernel(a_model(1.0), from_lists([[0, 1], [], [3]], 8), [2, 2, 2])
    refresh(kernel)
    assert kernel.state.anchors.counts.tolist() == [1, 1, 0, 0, 1, 0]
    found = _native.anchored_user_vectors(kernel.data, kernel.state, kernel.settings, threads=1)
    np.testing.assert_allclose(found[2:4], kernel.arrays["users"][2:4], rtol=1e-6)
    np.testing.assert_array_equal(found[4], found[5])  # one item, two vectors


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("anchor", ANCHORS)
def test_vectors_of_users_with_all_their_items(anchor, repeat, geometry):
    kernel = DpcmlKernel(a_model(anchor, geometry=geometry), random_lists(COUNTS, N_ITEMS), VECTORS)
    refresh(kernel)
    found = _native.anchored_user_vectors(kernel.data, kernel.state, kernel.settings, repeat_vectors=repeat, threads=1)
    train, anchors, items = kernel.train, kernel.state.anchors, kernel.arrays["items"].astype(np.float64)
    for user in range(train.n_users):
        mine, rows = slice(*train.offsets[user : user + 2]), slice(*kernel.vector_offsets[user : user + 2])
        free = kernel.arrays["users"][rows].astype(np.float64)
        wanted = anchored(kernel.model, free, items[train.indices[mine]], anchors.assignments[mine])
        empty = np.flatnonzero(anchors.counts[rows] == 0)
        if repeat or anchor == 1:
            wanted[empty] = np.resize(np.delete(wanted, empty, axis=0), (len(empty), 5))
        np.testing.assert_allclose(found[rows], wanted, atol=1e-5)
    assert (anchors.counts == 0).sum() == 2  # the user with two items and four vectors


@pytest.mark.parametrize("anchor", ANCHORS)
def test_the_same_bits_for_every_number_of_threads(anchor):
    train = random_lists([3 + n % 9 for n in range(60)], 40)
    kernels = [DpcmlKernel(a_model(anchor, "hars", "pairs", block_size=16, dim=19), train, [3] * 60) for _ in range(4)]
    for kernel, threads in zip(kernels, (1, 2, 3, 8), strict=True):
        for epoch in range(3):
            refresh(kernel, threads=threads)
            kernel.learn(epoch=epoch, threads=threads)
    for kernel in kernels[1:]:
        for name in ("users", "items"):
            np.testing.assert_array_equal(kernel.arrays[name], kernels[0].arrays[name])
        for name in ("assignments", "sums", "counts"):
            np.testing.assert_array_equal(getattr(kernel.state.anchors, name), getattr(kernels[0].state.anchors, name))


# ---- arguments ---------------------------------------------------------------------------------------------


def test_anchors_that_are_missing_or_do_not_fit():
    kernel = a_kernel(a_model(0.5))
    plain = DpcmlKernel(a_model(0.0), kernel.train, VECTORS)
    assert plain.state.anchors is None
    for function in (plain.learn, lambda: plain.step(0), lambda: refresh(plain)):
        plain.settings.anchor = 0.5
        with pytest.raises(ValueError, match=r"anchors: expected an AnchorState, because settings.anchor is above 0"):
            function()
    right = kernel.state.anchors
    arrays = {name: getattr(right, name) for name in ("assignments", "snapshot", "sums", "counts")}
    for name, array in arrays.items():
        state = _native.DpcmlState(
            user_vectors=kernel.state.user_vectors,
            item_vectors=kernel.state.item_vectors,
            gamma=kernel.state.gamma,
            user_optimizer=kernel.state.user_optimizer,
            item_optimizer=kernel.state.item_optimizer,
            anchors=_native.AnchorState(**{**arrays, name: array[:-1]}),
        )
        with pytest.raises(ValueError, match=f"{name}: expected {array.size} values"):
            _native.refresh_anchors(kernel.data, state, kernel.settings, iterations=1, threads=1)
        with pytest.raises(TypeError, match=f"{name}: expected a .*C-contiguous and writable array of"):
            _native.AnchorState(**{**arrays, name: array.astype(np.float64)})


# ---- without anchors ---------------------------------------------------------------------------------------

# SHA-256 of the vectors, taken anew when the order of an epoch changed; until then they were those of the kernel before
# it knew of anchors. Single steps are compared with NumPy in test_native_dpcml. The generic SIMD variant adds in one
# order and without fused operations, so that every x86-64 compiler gives these bits.
BEFORE = {
    "hardest": "101245e30152fc7633f9a217d413768ddec6e221742d6b1c4c85ae7985cc4d82",
    "differentiable": "2dd7305b8494cad7985ee31760457e368e164107dd60a0b1928b93edb799e564",
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
