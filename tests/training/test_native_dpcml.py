"""DPCML's kernel: gradients, steps, blocks, the order of an epoch, gamma, weights."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.training.reference import (
    SEED,
    DpcmlKernel,
    NumpyReference,
    epoch_order,
    from_lists,
    n_beta,
    numeric_gradient,
    random_lists,
)

from tastespace import DPCML, _native

# Who has how many items and vectors: one vector, several, a crowded user (4 negatives for 6 negatives).
COUNTS, VECTORS, N_ITEMS = [3, 5, 4, 14], [1, 3, 2, 4], 18

SAMPLERS = {
    "unis": {"sampler": "unis", "n_negatives": 6},
    "pops": {"sampler": "pops", "n_negatives": 6},
    "2sts-1": {"sampler": "2sts", "n_negatives": 6},
    "2sts-3": {"sampler": "2sts", "n_negatives": 6, "n_hardest": 3},
    "hars-1": {"sampler": "hars", "n_negatives": 6},
    "hars-3": {"sampler": "hars", "n_negatives": 6, "n_hardest": 3},
    "ndihars": {"sampler": "ndihars", "n_negatives": 6, "beta": 0.25},
    "dihars-statistic": {"sampler": "dihars", "n_negatives": 6, "beta": 0.25, "gamma": "statistic"},
    "dihars-random": {"sampler": "dihars", "n_negatives": 6, "beta": 0.25, "gamma": "random"},
    "dihars-average": {"sampler": "dihars", "n_negatives": 6, "beta": 0.25, "gamma": "average"},
}
# Thresholds that random vectors violate on the side in question, or not at all.
DCRS = {
    "off": {"dcrs": None},
    "mean, too small": {"dcrs": "mean", "min_spread": 3.0, "max_spread": 4.0},
    "mean, too large": {"dcrs": "mean", "min_spread": 0.0, "max_spread": 0.01},
    "mean, inside": {"dcrs": "mean", "min_spread": 0.0, "max_spread": 4.0},
    "mean, only low": {"dcrs": "mean", "min_spread": 3.0, "max_spread": None},
    "mean, only high": {"dcrs": "mean", "min_spread": None, "max_spread": 0.01},
    "pairs": {"dcrs": "pairs", "min_spread": 1.6, "max_spread": 1.7},
    "pairs, only low": {"dcrs": "pairs", "min_spread": 1.6, "max_spread": None},
    "pairs, only high": {"dcrs": "pairs", "min_spread": None, "max_spread": 1.7},
}
GEOMETRIES = {"sphere-ball": 0.6, "ball": 0.5, "sphere": 0.3}  # and a margin that some negatives violate


def a_model(sampler="unis", dcrs="off", geometry="sphere-ball", **changes):
    chosen = {
        "dim": 5,
        "geometry": geometry,
        "margin": GEOMETRIES[geometry],
        "spread_weight": 0.7,
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "seed": SEED,
        **SAMPLERS[sampler],
        **DCRS[dcrs],
        **changes,
    }
    return DPCML(**chosen)


def a_kernel(model, seed=SEED):
    kernel = DpcmlKernel(model, random_lists(COUNTS, N_ITEMS), VECTORS, seed)
    if model.sampler == "dihars":  # as after a first step
        kernel.arrays["gamma"][:] = np.random.default_rng(seed).uniform(0.05, 0.4, len(kernel.arrays["gamma"]))
    return kernel


def some_positives(train):
    """The last of each user."""
    return (train.offsets[1:] - 1).tolist()


# ---- gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dcrs", DCRS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_loss_and_gradient_of_every_combination(sampler, dcrs, geometry):
    kernel = a_kernel(a_model(sampler, dcrs, geometry))
    check_gradients(kernel)


@pytest.mark.parametrize("dim", [3, 4, 16, 23, 37])
def test_gradient_for_every_width_of_register(dim):
    check_gradients(a_kernel(a_model("hars-3", "mean, too small", dim=dim)))


@pytest.mark.parametrize("sampler", ["unis", "hars-3", "dihars-random"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_gradient_by_user_and_with_another_radius(sampler, geometry):
    check_gradients(a_kernel(a_model(sampler, "mean, too small", geometry, weighting="user", radius=1.7)))


def check_gradients(kernel):
    reference, active = NumpyReference(kernel), 0
    for positive in some_positives(kernel.train):
        step = kernel.step(positive)
        check_gradient(kernel, reference, positive, step)
        active += bool(step.item_gradient.any())
    assert active > 0


def check_gradient(kernel, reference, positive, step):
    user, items = reference.owner[positive], reference.state["items"]
    own = reference.rows_of(user)
    vectors = reference.state["users"][own]
    assert step.loss == pytest.approx(reference.loss(positive, step.negatives, vectors, items), rel=1e-5, abs=1e-6)
    assert step.dcrs == pytest.approx(reference.penalty(user, vectors), rel=1e-5, abs=1e-6)

    def of_user(moved):
        return reference.loss(positive, step.negatives, moved, items) + reference.penalty(user, moved)

    np.testing.assert_allclose(step.user_gradient[own], numeric_gradient(of_user, vectors), rtol=1e-4, atol=2e-5)
    rows = [kernel.train.indices[positive], *step.negatives]

    def of_rows(values):
        moved = items.copy()
        moved[rows] = values
        return reference.loss(positive, step.negatives, vectors, moved)

    np.testing.assert_allclose(step.item_gradient[rows], numeric_gradient(of_rows, items[rows]), rtol=1e-4, atol=2e-5)
    # No other row has a gradient.
    others = np.ones(len(step.user_gradient), bool)
    others[own] = False
    assert not step.user_gradient[others].any()
    assert not np.delete(step.item_gradient, rows, axis=0).any()


def test_loss_and_gradient_change_nothing():
    """Not even gamma, which a step moves."""
    kernel = a_kernel(a_model("dihars-random", "mean, too small"))
    before = {name: np.array(array) for name, array in kernel.arrays.items()}
    kernel.step(3)
    for name, array in kernel.arrays.items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


# ---- steps -------------------------------------------------------------------------------------------------


def position_of(positive, train, epoch=0):
    return epoch_order(train.user_counts, epoch).index(positive)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dcrs", ["off", "mean, too small", "pairs"])
@pytest.mark.parametrize("sampler", ["unis", "2sts-3", "hars-1", "ndihars", "dihars-random"])
def test_one_sgd_step_is_minus_rate_times_gradient_then_the_projection(sampler, dcrs, geometry):
    model = a_model(sampler, dcrs, geometry, block_size=1)
    kernel = a_kernel(model)
    reference = NumpyReference(kernel)
    positive = int(kernel.train.offsets[2]) - 1  # of the user with three vectors
    _, _, _, negatives, user_gradient, item_gradient = kernel.step(positive)
    pairs = reference.pair_gradients(positive, negatives)
    start = {name: kernel.arrays[name].copy() for name in ("users", "items")}
    place = position_of(positive, kernel.train)
    kernel.learn(place, place + 1)

    user_sphere, item_sphere = geometry != "ball", geometry == "sphere"
    users = projected(start["users"], start["users"] - 0.05 * user_gradient, user_sphere)
    np.testing.assert_allclose(kernel.arrays["users"], users, rtol=0, atol=2e-6)
    # Items move after the user, towards where the user's vectors are then.
    wanted = start["items"].astype(np.float64)
    for vector, item, derivative in pairs:
        wanted[item] -= 0.05 * 2 * derivative * (wanted[item] - kernel.arrays["users"][vector])
    np.testing.assert_allclose(
        kernel.arrays["items"], projected(start["items"], wanted, item_sphere), rtol=0, atol=2e-6
    )
    touched = item_gradient.any(axis=1)
    assert touched.any()
    np.testing.assert_array_equal(kernel.arrays["items"][~touched], start["items"][~touched])


def projected(before, after, sphere):
    """Rows that moved, brought back; the others as they were."""
    norms = np.linalg.norm(after, axis=1, keepdims=True)
    moved = (np.abs(after - before).max(axis=1, keepdims=True)) > 0
    return np.where(moved & (sphere | (norms > 1)), after / norms, after)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("sampler", ["unis", "hars-3", "ndihars", "dihars-random", "dihars-average", "2sts-1", "pops"])
def test_epochs_are_what_plain_numpy_computes(sampler, optimizer):
    """Two epochs in blocks: who moves when, the optimizers' state, gamma."""
    model = a_model(
        sampler, "mean, too small", optimizer=optimizer, block_size=4, learning_rate=0.02, spread_weight=0.1
    )
    kernel = a_kernel(model)
    compare_epochs(kernel, epochs=2)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("block_size", [1, 7, 1000])
def test_blocks_and_geometries_are_what_plain_numpy_computes(block_size, geometry):
    model = a_model(
        "hars-3", "pairs", geometry, weighting="user", block_size=block_size, optimizer="adagrad", learning_rate=0.02
    )
    compare_epochs(a_kernel(model), epochs=1)


def compare_epochs(kernel, epochs):
    reference, n = NumpyReference(kernel), kernel.train.n_interactions
    start = kernel.arrays["items"].copy()
    for epoch in range(epochs):
        reference.learn(0, n, epoch_order(kernel.train.user_counts, epoch), epoch)
        kernel.learn(epoch=epoch)
    assert np.abs(kernel.arrays["items"] - start).max() > 0.05
    for name, wanted in reference.state.items():
        if kernel.arrays[name].size:
            np.testing.assert_allclose(kernel.arrays[name], wanted, rtol=2e-3, atol=2e-4, err_msg=name)
    for side in ("user", "item"):
        np.testing.assert_array_equal(
            kernel.arrays[f"{side}_steps"], reference.steps[side] if reference.steps[side].size else []
        )


def test_only_vectors_with_a_gradient_move():
    """Row-wise: with Adam's state of old gradients, a row without a gradient does not change."""
    kernel = a_kernel(a_model("hars-1", optimizer="adam", block_size=1))
    for name in ("user_first", "item_first", "user_second", "item_second"):
        kernel.arrays[name][:] = 0.5
    start = kernel.arrays["items"].copy(), kernel.arrays["users"].copy()
    assert kernel.learn(0, 1).n_pair_gradients in (0, 2)
    assert (kernel.arrays["items"] != start[0]).any(axis=1).sum() <= 2
    assert (kernel.arrays["users"] != start[1]).any(axis=1).sum() <= 2


# ---- the index of the positives ----------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [[5, 40, 1], [200, 3, 150]], ids=["few of the items", "some with many of the items"])
@pytest.mark.parametrize("sampler", ["unis", "pops"])
def test_the_index_of_the_positives_does_not_change_what_is_drawn(sampler, counts):
    """An epoch builds it. Before, items are searched for; after, users of either kind are looked up by bits."""
    train = random_lists(counts, 4000)
    kernel = DpcmlKernel(a_model(sampler, n_negatives=300), train, [2, 2, 2])
    positives = [0, counts[0], train.n_interactions - 1]
    before = [kernel.step(positive).negatives for positive in positives]
    kernel.learn()
    for user, (positive, drawn) in enumerate(zip(positives, before, strict=True)):
        again = kernel.step(positive).negatives
        np.testing.assert_array_equal(again, drawn)
        assert len(set(again)) == 300
        assert not set(again) & set(train.indices[train.offsets[user] : train.offsets[user + 1]])


# ---- the order of an epoch ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 300])
def test_an_epoch_takes_every_positive_once(n):
    assert sorted(epoch_order([n, 0, 3], epoch=0)) == list(range(n + 3))


def test_epochs_and_seeds_have_different_orders():
    orders = [epoch_order([60, 0], epoch, seed) for epoch in range(4) for seed in (5, 6)]
    assert len({tuple(order) for order in orders}) == 8
    assert epoch_order([60, 0], 2) == epoch_order([60, 0], 2)
    # No trace of the order in the file: neighbors are far apart, the first is not first.
    places = np.argsort([epoch_order([60, 0], epoch) for epoch in range(40)], axis=1)
    assert abs(places[:, 0].mean() - 29.5) < 4 * 17.3 / np.sqrt(40)
    assert abs(np.abs(np.diff(places, axis=1)).mean() - 61 / 3) < 2


def test_an_epoch_goes_through_runs_of_a_users_positives():
    counts, run = [16] * 40, 8
    owners = np.repeat(np.arange(40), 16)
    orders = [epoch_order(counts, epoch) for epoch in range(2)]
    for order in orders:
        assert np.count_nonzero(np.diff(owners[order])) <= 2 * len(owners) / run  # a run has at most two users
        assert np.count_nonzero(np.diff(owners[order])) >= len(owners) / run / 2  # runs are in random order
    companions = [{frozenset(order[i : i + 2]) for i in range(0, 640, 2)} for order in orders]
    assert len(companions[0] & companions[1]) < 60  # each epoch has other runs


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("pieces", [[0, 26], [0, 8, 26], [0, 4, 8, 12, 16, 26]])
def test_ranges_of_whole_blocks_add_up_to_an_epoch(pieces, threads):
    whole, parts = (a_kernel(a_model("hars-3", "pairs", block_size=4)) for _ in range(2))
    totals = whole.learn(threads=1)
    sums = sum((parts.learn(a, b, threads=threads) for a, b in pairwise(pieces)), _native.DpcmlTotals())
    assert (sums.loss, sums.dcrs) == pytest.approx((totals.loss, totals.dcrs), rel=1e-12)
    assert sums.n_steps == totals.n_steps
    assert sums.n_skipped == totals.n_skipped
    assert sums.n_pair_gradients == totals.n_pair_gradients
    for name in ("users", "items"):
        np.testing.assert_array_equal(parts.arrays[name], whole.arrays[name])


def test_totals_are_sums_over_the_steps():
    kernel = a_kernel(a_model("unis", "mean, too small", block_size=1000, learning_rate=1e-12))
    steps = [kernel.step(p) for p in range(kernel.train.n_interactions)]
    totals = kernel.learn()
    assert (totals.n_steps, totals.n_skipped) == (26, 0)
    assert totals.loss == pytest.approx(sum(step.loss for step in steps), rel=1e-5)
    assert totals.dcrs == pytest.approx(sum(step.dcrs for step in steps), rel=1e-5)


# ---- users without negatives -------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_a_user_who_has_everything_is_skipped_and_counted(sampler, threads):
    train = from_lists([list(range(12)), [0, 3], list(range(11))], 12)
    kernel = DpcmlKernel(a_model(sampler, "mean, too small"), train, [2, 2, 3])
    start = kernel.arrays["users"].copy()
    totals = kernel.learn(threads=threads)
    assert (totals.n_steps, totals.n_skipped) == (13, 12)
    np.testing.assert_array_equal(kernel.arrays["users"][:2], start[:2])
    assert np.isfinite(kernel.arrays["users"]).all()


# ---- gamma (Theorem 3) -------------------------------------------------------------------------------------


def frozen(gamma, rate, beta=0.25, seed=SEED):
    """DiHarS on vectors that do not move, with every negative drawn."""
    model = a_model("dihars-statistic", gamma=gamma, gamma_rate=rate, n_negatives=N_ITEMS, beta=beta)
    kernel = DpcmlKernel(model, random_lists(COUNTS, N_ITEMS), VECTORS, seed)
    kernel.settings.optimizer.learning_rate = 0.0
    return kernel


def order_statistics(kernel):
    """The N_beta-th and the next largest violation of every positive, not below 0."""
    reference, out = NumpyReference(kernel), []
    for positive in range(kernel.train.n_interactions):
        negatives = kernel.step(positive).negatives
        excess = np.append(reference.excess(positive, negatives), -np.inf)
        hard = n_beta(kernel.model, int(reference.n_negatives[reference.owner[positive]]), len(negatives))
        out.append((max(0.0, excess[hard - 1]), max(0.0, excess[hard])))
    return np.array(out).T


@pytest.mark.parametrize("gamma", ["statistic", "random", "average"])
@pytest.mark.parametrize("beta", [0.05, 0.25, 0.6])
def test_gamma_converges_to_the_order_statistic_of_a_frozen_model(gamma, beta):
    """Every gamma between the N-th and the (N + 1)-th violation minimizes Lemma 2: steps from above end at the one,
    from below at the other.
    """
    rate = 0.002
    kernel = frozen(gamma, rate, beta)
    nth, next_one = order_statistics(kernel)
    assert (nth > 0.1).sum() > 5
    start = kernel.arrays["gamma"].copy()
    for epoch in range(1500):
        kernel.learn(epoch=epoch)
    learned = kernel.arrays["gamma"]
    most = rate * N_ITEMS  # a step downhill is at most the rate times (active - N) / N
    assert (learned >= np.maximum(0, next_one - rate)).all()
    assert (learned <= nth + most).all()
    if gamma == "average":
        np.testing.assert_allclose(learned, nth, atol=1e-5)
    if gamma == "statistic":
        np.testing.assert_allclose(learned, nth, atol=rate * 1.01)
    if gamma == "random":
        from_above = start > nth
        assert from_above.any() == (beta > 0.1)
        assert not from_above.all()
        np.testing.assert_allclose(learned[from_above], nth[from_above], atol=rate * 1.01)
        # Lemma 2: at the minimum N gamma + sum [z - gamma]_+ is the sum of the N largest.
        for positive in range(kernel.train.n_interactions):
            loss, _, _, negatives, *_ = kernel.step(positive)
            top = np.maximum(NumpyReference(kernel).excess(positive, negatives), 0)
            hard = n_beta(
                kernel.model, int(N_ITEMS - kernel.train.user_counts[NumpyReference(kernel).owner[positive]]), len(top)
            )
            assert loss == pytest.approx(top[:hard].mean(), abs=2 * rate * N_ITEMS / hard)


@pytest.mark.parametrize("rule", ["statistic", "random", "average"])
def test_each_step_of_gamma(rule):
    """Projected gradient: gamma - rate * (1 - active / N), not below 0; or a step of the running average."""
    kernel = frozen(rule, 0.17, beta=0.25)
    reference = NumpyReference(kernel)
    start = kernel.arrays["gamma"].copy()
    assert ((start < 0) if rule != "random" else ((start >= 0) & (start < kernel.model.margin))).all()
    nth, _ = order_statistics(kernel)
    for epoch in range(4):
        before = kernel.arrays["gamma"].copy()
        kernel.learn(epoch=epoch)
        for positive, gamma in enumerate(before):
            negatives = kernel.step(positive).negatives
            hard = n_beta(kernel.model, int(reference.n_negatives[reference.owner[positive]]), len(negatives))
            fresh = gamma < 0
            gamma = nth[positive] if fresh else gamma
            # At its first step the violation that gamma was set to counts; later, only larger ones, and one that
            # equals gamma counts or not as it is rounded.
            reaches = [gamma - 1e-6] if fresh and gamma > 0 else [gamma + 1e-6, gamma - 1e-6]
            active = [np.sum(reference.excess(positive, negatives) > reach) for reach in reaches]
            moves = [0.17 * (nth[positive] - gamma) if rule == "average" else -0.17 * (1 - n / hard) for n in active]
            found = kernel.arrays["gamma"][positive]
            assert any(found == pytest.approx(max(0.0, gamma + move), abs=1e-5) for move in moves)
        assert (kernel.arrays["gamma"] >= 0).all()


def test_gamma_is_never_negative_while_training():
    kernel = a_kernel(a_model("dihars-random", gamma_rate=0.9, optimizer="adagrad", learning_rate=0.1))
    for epoch in range(30):
        kernel.learn(epoch=epoch)
        assert (kernel.arrays["gamma"] >= 0).all()


@pytest.mark.parametrize("beta", [1e-3, 0.25])
@pytest.mark.parametrize("rule", ["statistic", "average"])
def test_the_first_step_of_dihars_learns_from_the_n_hardest(rule, beta):
    """Started at the N_beta-th violation, gamma must not switch that one off: with N_beta = 1 nothing would be left."""
    train = random_lists(COUNTS, N_ITEMS)
    kernel = DpcmlKernel(a_model("dihars-statistic", gamma=rule, beta=beta), train, VECTORS)
    sort = DpcmlKernel(a_model("ndihars", beta=beta), train, VECTORS)
    for positive in range(train.n_interactions):
        learned, wanted = kernel.step(positive), sort.step(positive)
        assert learned.loss == pytest.approx(wanted.loss, abs=1e-6)
        np.testing.assert_allclose(learned.user_gradient, wanted.user_gradient, atol=1e-5)
        np.testing.assert_allclose(learned.item_gradient, wanted.item_gradient, atol=1e-5)


# ---- weights -----------------------------------------------------------------------------------------------


def test_weighting_by_user_scales_the_gradient_of_a_positive():
    by_positive, by_user = (a_kernel(a_model("hars-3", weighting=w)) for w in ("positive", "user"))
    train = by_user.train
    for positive in some_positives(train):
        factor = train.n_interactions / (train.n_users * train.user_counts[train.row_of_each()[positive]])
        plain, weighted = by_positive.step(positive), by_user.step(positive)
        assert weighted.loss == pytest.approx(factor * plain.loss, rel=1e-6)
        for part in ("user_gradient", "item_gradient"):
            np.testing.assert_allclose(
                getattr(weighted, part), factor * getattr(plain, part), rtol=1e-5, atol=1e-7, err_msg=part
            )


@pytest.mark.parametrize("weighting", ["positive", "user"])
def test_dcrs_weighs_every_user_alike_over_an_epoch(weighting):
    """Eq. 9 averages psi over users, so a user's steps of an epoch carry eta N / |U| together."""
    model = a_model("unis", "mean, too small", weighting=weighting)
    kernel = a_kernel(model)
    train = kernel.train
    totals = np.zeros(train.n_users)
    np.add.at(totals, train.row_of_each(), [kernel.step(p).dcrs for p in range(train.n_interactions)])
    reference = NumpyReference(kernel)
    psi = np.array(
        [
            reference.penalty(u, reference.state["users"][reference.rows_of(u)]) / reference.user_weight[u]
            for u in range(4)
        ]
    )
    np.testing.assert_allclose(totals, psi * train.n_interactions / train.n_users, rtol=1e-5)
    assert totals[0] == 0  # one vector
    assert (totals[1:] > 0).all()
