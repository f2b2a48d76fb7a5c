"""The kernel's mathematics: gradients, steps, blocks, gamma, the order of visits, learning rates."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from reference import SEED, Bench, Twin, from_lists, n_beta, random_lists, slope, visit_order

from tastespace import DPCML, _native
from tastespace.training.kernel_run import Pace, Rates, optimizer_memory
from tastespace.training.metric import MetricTrainer

# Who has how many items and vectors: one vector, several, a crowded user (4 negatives for 6 candidates).
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
GEOMETRIES = {"sphere-ball": 0.6, "ball": 0.5, "sphere": 0.3}  # and a margin that some candidates violate


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


def a_bench(model, seed=SEED):
    bench = Bench(model, random_lists(COUNTS, N_ITEMS), VECTORS, seed)
    if model.sampler == "dihars":  # as if visited before
        bench.arrays["gamma"][:] = np.random.default_rng(seed).uniform(0.05, 0.4, len(bench.arrays["gamma"]))
    return bench


def some_positives(train):
    """The last of each user."""
    return (train.offsets[1:] - 1).tolist()


# ---- gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dcrs", DCRS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_loss_and_gradient_of_every_combination(sampler, dcrs, geometry):
    bench = a_bench(a_model(sampler, dcrs, geometry))
    check_gradients(bench)


@pytest.mark.parametrize("dim", [3, 4, 16, 23, 37])
def test_gradient_for_every_width_of_register(dim):
    check_gradients(a_bench(a_model("hars-3", "mean, too small", dim=dim)))


@pytest.mark.parametrize("sampler", ["unis", "hars-3", "dihars-random"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_gradient_by_user_and_with_another_radius(sampler, geometry):
    check_gradients(a_bench(a_model(sampler, "mean, too small", geometry, weighting="user", radius=1.7)))


def check_gradients(bench):
    twin, active = Twin(bench), 0
    items = twin.state["items"]
    for positive in some_positives(bench.train):
        user = twin.owner[positive]
        mine = twin.rows_of(user)
        vectors = twin.state["users"][mine]
        loss, dcrs, _, candidates, user_gradient, item_gradient = bench.probe(positive)
        assert loss == pytest.approx(twin.loss(positive, candidates, vectors, items), rel=1e-5, abs=1e-6)
        assert dcrs == pytest.approx(twin.penalty(user, vectors), rel=1e-5, abs=1e-6)

        of_users = slope(lambda x: twin.loss(positive, candidates, x, items) + twin.penalty(user, x), vectors)  # noqa: B023
        np.testing.assert_allclose(user_gradient[mine], of_users, rtol=1e-4, atol=2e-5)
        rows = [bench.train.indices[positive], *candidates]

        def of_rows(values):
            moved = items.copy()
            moved[rows] = values  # noqa: B023
            return twin.loss(positive, candidates, vectors, moved)  # noqa: B023

        np.testing.assert_allclose(item_gradient[rows], slope(of_rows, items[rows]), rtol=1e-4, atol=2e-5)
        # Nobody else has a gradient.
        others = np.ones(len(user_gradient), bool)
        others[mine] = False
        assert not user_gradient[others].any()
        assert not np.delete(item_gradient, rows, axis=0).any()
        active += bool(item_gradient.any())
    assert active > 0


def test_probe_learns_nothing():
    """It says so; gamma, which its visit would move, included."""
    bench = a_bench(a_model("dihars-random", "mean, too small"))
    before = {name: np.array(array) for name, array in bench.arrays.items()}
    gradients = np.zeros_like(bench.arrays["users"]), np.zeros_like(bench.arrays["items"])
    _native.probe(bench.arrays, bench.settings, SEED, 0, 3, *gradients)
    for name, array in bench.arrays.items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


# ---- steps -------------------------------------------------------------------------------------------------


def position_of(positive, n, epoch=0):
    return visit_order(n, epoch).index(positive)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dcrs", ["off", "mean, too small", "pairs"])
@pytest.mark.parametrize("sampler", ["unis", "2sts-3", "hars-1", "ndihars", "dihars-random"])
def test_one_sgd_step_is_minus_rate_times_gradient_then_the_projection(sampler, dcrs, geometry):
    model = a_model(sampler, dcrs, geometry, block_size=1)
    bench = a_bench(model)
    twin, n = Twin(bench), bench.train.n_interactions
    positive = int(bench.train.offsets[2]) - 1  # of the user with three vectors
    _, _, _, candidates, user_gradient, item_gradient = bench.probe(positive)
    pulls = twin.pulls(positive, candidates)
    start = {name: bench.arrays[name].copy() for name in ("users", "items")}
    place = position_of(positive, n)
    bench.learn(place, place + 1)

    user_sphere, item_sphere = geometry != "ball", geometry == "sphere"
    users = projected(start["users"], start["users"] - 0.05 * user_gradient, user_sphere)
    np.testing.assert_allclose(bench.arrays["users"], users, rtol=0, atol=2e-6)
    # Items move after the user, towards where the user's vectors are then.
    wanted = start["items"].astype(np.float64)
    for vector, item, strength in pulls:
        wanted[item] -= 0.05 * 2 * strength * (wanted[item] - bench.arrays["users"][vector])
    np.testing.assert_allclose(bench.arrays["items"], projected(start["items"], wanted, item_sphere), rtol=0, atol=2e-6)
    touched = item_gradient.any(axis=1)
    assert touched.any()
    np.testing.assert_array_equal(bench.arrays["items"][~touched], start["items"][~touched])


def projected(before, after, sphere):
    """Rows that moved, brought back; the others as they were."""
    norms = np.linalg.norm(after, axis=1, keepdims=True)
    moved = (np.abs(after - before).max(axis=1, keepdims=True)) > 0
    return np.where(moved & (sphere | (norms > 1)), after / norms, after)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("sampler", ["unis", "hars-3", "ndihars", "dihars-random", "dihars-average", "2sts-1", "pops"])
def test_epochs_are_what_plain_numpy_computes(sampler, optimizer):
    """Two epochs in blocks: who moves when, the optimizers' memory, gamma."""
    model = a_model(
        sampler, "mean, too small", optimizer=optimizer, block_size=4, learning_rate=0.02, spread_weight=0.1
    )
    bench = a_bench(model)
    compare_epochs(bench, epochs=2)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("block_size", [1, 7, 1000])
def test_blocks_and_geometries_are_what_plain_numpy_computes(block_size, geometry):
    model = a_model(
        "hars-3", "pairs", geometry, weighting="user", block_size=block_size, optimizer="adagrad", learning_rate=0.02
    )
    compare_epochs(a_bench(model), epochs=1)


def compare_epochs(bench, epochs):
    twin, n = Twin(bench), bench.train.n_interactions
    start = bench.arrays["items"].copy()
    for epoch in range(epochs):
        twin.learn(0, n, visit_order(n, epoch), epoch)
        bench.learn(epoch=epoch)
    assert np.abs(bench.arrays["items"] - start).max() > 0.05
    for name, wanted in twin.state.items():
        if bench.arrays[name].size:
            np.testing.assert_allclose(bench.arrays[name], wanted, rtol=2e-3, atol=2e-4, err_msg=name)
    for side in ("user", "item"):
        np.testing.assert_array_equal(bench.arrays[f"{side}_steps"], twin.steps[side] if twin.steps[side].size else [])


def test_only_vectors_with_a_gradient_move():
    """Row-wise: with Adam's memory of old gradients, a row that is not touched still stands still."""
    bench = a_bench(a_model("hars-1", optimizer="adam", block_size=1))
    for name in ("user_first", "item_first", "user_second", "item_second"):
        bench.arrays[name][:] = 0.5
    start = bench.arrays["items"].copy(), bench.arrays["users"].copy()
    assert bench.learn(0, 1)[4] in (0, 2)
    assert (bench.arrays["items"] != start[0]).any(axis=1).sum() <= 2
    assert (bench.arrays["users"] != start[1]).any(axis=1).sum() <= 2


# ---- the order of visits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 300])
def test_an_epoch_visits_every_positive_once(n):
    assert sorted(visit_order(n, epoch=0)) == list(range(n))


def test_epochs_and_seeds_visit_in_different_orders():
    orders = [visit_order(60, epoch, seed) for epoch in range(4) for seed in (5, 6)]
    assert len({tuple(order) for order in orders}) == 8
    assert visit_order(60, 2) == visit_order(60, 2)
    # No trace of the order in the file: neighbors are visited far apart, the first is not first.
    places = np.argsort([visit_order(60, epoch) for epoch in range(40)], axis=1)
    assert abs(places[:, 0].mean() - 29.5) < 4 * 17.3 / np.sqrt(40)
    assert abs(np.abs(np.diff(places, axis=1)).mean() - 61 / 3) < 2


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pieces", [[0, 26], [0, 8, 26], [0, 4, 8, 12, 16, 26]])
def test_ranges_of_whole_blocks_add_up_to_an_epoch(pieces, threads):
    whole, parts = (a_bench(a_model("hars-3", "pairs", block_size=4)) for _ in range(2))
    totals = whole.learn(threads=1)
    sums = np.sum([parts.learn(a, b, threads=threads) for a, b in pairwise(pieces)], axis=0)
    assert sums == pytest.approx(totals, rel=1e-12)
    for name in ("users", "items"):
        np.testing.assert_array_equal(parts.arrays[name], whole.arrays[name])


def test_totals_are_sums_over_the_visits():
    bench = a_bench(a_model("unis", "mean, too small", block_size=1000, learning_rate=1e-12))
    probes = [bench.probe(p) for p in range(bench.train.n_interactions)]
    loss, dcrs, visited, skipped, _ = bench.learn()
    assert (visited, skipped) == (26, 0)
    assert loss == pytest.approx(sum(p[0] for p in probes), rel=1e-5)
    assert dcrs == pytest.approx(sum(p[1] for p in probes), rel=1e-5)


# ---- users without negatives -------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_user_who_has_everything_is_skipped_and_counted(sampler, threads):
    train = from_lists([list(range(12)), [0, 3], list(range(11))], 12)
    bench = Bench(a_model(sampler, "mean, too small"), train, [2, 2, 3])
    start = bench.arrays["users"].copy()
    assert bench.learn(threads=threads)[2:4] == (13, 12)
    np.testing.assert_array_equal(bench.arrays["users"][:2], start[:2])
    assert np.isfinite(bench.arrays["users"]).all()


# ---- gamma (Theorem 3) -------------------------------------------------------------------------------------


def frozen(gamma, rate, beta=0.25, seed=SEED):
    """DiHarS on vectors that do not move, with every negative as a candidate."""
    model = a_model("dihars-statistic", gamma=gamma, gamma_rate=rate, n_negatives=N_ITEMS, beta=beta)
    bench = Bench(model, random_lists(COUNTS, N_ITEMS), VECTORS, seed)
    bench.settings["learning_rate"] = 0.0
    return bench


def order_statistics(bench):
    """The N_beta-th and the next largest violation of every positive, not below 0."""
    twin, out = Twin(bench), []
    for positive in range(bench.train.n_interactions):
        candidates = bench.probe(positive)[3]
        excess = np.append(twin.excess(positive, candidates), -np.inf)
        hard = n_beta(bench.model, int(twin.n_negatives[twin.owner[positive]]), len(candidates))
        out.append((max(0.0, excess[hard - 1]), max(0.0, excess[hard])))
    return np.array(out).T


@pytest.mark.parametrize("gamma", ["statistic", "random", "average"])
@pytest.mark.parametrize("beta", [0.05, 0.25, 0.6])
def test_gamma_converges_to_the_order_statistic_of_a_frozen_model(gamma, beta):
    """Every gamma between the N-th and the (N + 1)-th violation minimizes Lemma 2: steps from above end at the one,
    from below at the other.
    """
    rate = 0.002
    bench = frozen(gamma, rate, beta)
    nth, next_one = order_statistics(bench)
    assert (nth > 0.1).sum() > 5
    start = bench.arrays["gamma"].copy()
    for epoch in range(1500):
        bench.learn(epoch=epoch)
    learned = bench.arrays["gamma"]
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
        for positive in range(bench.train.n_interactions):
            loss, _, _, candidates, *_ = bench.probe(positive)
            top = np.maximum(Twin(bench).excess(positive, candidates), 0)
            hard = n_beta(bench.model, int(N_ITEMS - bench.train.user_counts[Twin(bench).owner[positive]]), len(top))
            assert loss == pytest.approx(top[:hard].mean(), abs=2 * rate * N_ITEMS / hard)


@pytest.mark.parametrize("rule", ["statistic", "random", "average"])
def test_each_step_of_gamma(rule):
    """Projected gradient: gamma - rate * (1 - active / N), not below 0; or a step of the running average."""
    bench = frozen(rule, 0.17, beta=0.25)
    twin = Twin(bench)
    start = bench.arrays["gamma"].copy()
    assert ((start < 0) if rule != "random" else ((start >= 0) & (start < bench.model.margin))).all()
    nth, _ = order_statistics(bench)
    for visit in range(4):
        before = bench.arrays["gamma"].copy()
        bench.learn(epoch=visit)
        for positive, gamma in enumerate(before):
            candidates = bench.probe(positive)[3]
            hard = n_beta(bench.model, int(twin.n_negatives[twin.owner[positive]]), len(candidates))
            fresh = gamma < 0
            gamma = nth[positive] if fresh else gamma
            # At its first visit the violation that gamma was set to counts; later, only larger ones.
            reach = gamma - 1e-6 if fresh and gamma > 0 else gamma + 1e-6
            active = np.sum(twin.excess(positive, candidates) > reach)
            move = 0.17 * (nth[positive] - gamma) if rule == "average" else -0.17 * (1 - active / hard)
            assert bench.arrays["gamma"][positive] == pytest.approx(max(0.0, gamma + move), abs=1e-5)
        assert (bench.arrays["gamma"] >= 0).all()


def test_gamma_is_never_negative_while_training():
    bench = a_bench(a_model("dihars-random", gamma_rate=0.9, optimizer="adagrad", learning_rate=0.1))
    for epoch in range(30):
        bench.learn(epoch=epoch)
        assert (bench.arrays["gamma"] >= 0).all()


@pytest.mark.parametrize("beta", [1e-3, 0.25])
@pytest.mark.parametrize("rule", ["statistic", "average"])
def test_the_first_visit_of_dihars_learns_from_the_n_hardest(rule, beta):
    """Started at the N_beta-th violation, gamma must not switch that one off: with N_beta = 1 nothing would be left."""
    train = random_lists(COUNTS, N_ITEMS)
    bench = Bench(a_model("dihars-statistic", gamma=rule, beta=beta), train, VECTORS)
    sort = Bench(a_model("ndihars", beta=beta), train, VECTORS)
    for positive in range(train.n_interactions):
        learned, wanted = bench.probe(positive), sort.probe(positive)
        assert learned[0] == pytest.approx(wanted[0], abs=1e-6)
        for part in (4, 5):
            np.testing.assert_allclose(learned[part], wanted[part], atol=1e-5)


# ---- weights -----------------------------------------------------------------------------------------------


def test_weighting_by_user_scales_the_gradient_of_a_positive():
    by_positive, by_user = (a_bench(a_model("hars-3", weighting=w)) for w in ("positive", "user"))
    train = by_user.train
    for positive in some_positives(train):
        factor = train.n_interactions / (train.n_users * train.user_counts[train.row_of_each()[positive]])
        plain, weighted = by_positive.probe(positive), by_user.probe(positive)
        assert weighted[0] == pytest.approx(factor * plain[0], rel=1e-6)
        for part in (4, 5):
            np.testing.assert_allclose(weighted[part], factor * plain[part], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("weighting", ["positive", "user"])
def test_dcrs_weighs_every_user_alike_over_an_epoch(weighting):
    """Eq. 9 averages psi over users, so a user's visits of an epoch carry eta N / |U| together."""
    model = a_model("unis", "mean, too small", weighting=weighting)
    bench = a_bench(model)
    train = bench.train
    totals = np.zeros(train.n_users)
    np.add.at(totals, train.row_of_each(), [bench.probe(p)[1] for p in range(train.n_interactions)])
    twin = Twin(bench)
    psi = np.array([twin.penalty(u, twin.state["users"][twin.rows_of(u)]) / twin.share[u] for u in range(4)])
    np.testing.assert_allclose(totals, psi * train.n_interactions / train.n_users, rtol=1e-5)
    assert totals[0] == 0  # one vector
    assert (totals[1:] > 0).all()


# ---- learning rates and means ------------------------------------------------------------------------------


def test_schedules_of_the_learning_rate():
    assert [Rates(0.2, "constant", 4).at(e) for e in range(4)] == [0.2] * 4
    assert [Rates(0.2, "linear", 4).at(e) for e in range(4)] == pytest.approx([0.2, 0.15, 0.1, 0.05])
    cosine = [Rates(0.2, "cosine", 4).at(e) for e in range(4)]
    assert cosine == pytest.approx([0.2, 0.1 * (1 + 0.5**0.5), 0.1, 0.1 * (1 - 0.5**0.5)])
    assert all(Rates(1.0, s, 1).at(0) == 1.0 for s in ("constant", "linear", "cosine"))


def test_the_schedule_reaches_the_kernel():
    bench = a_bench(a_model("unis", optimizer="sgd", block_size=1000))
    trainer = trainer_of(bench, Rates(0.08, "linear", 2), average=1)
    by_hand = a_bench(a_model("unis", optimizer="sgd", block_size=1000))
    for epoch, rate in enumerate((0.08, 0.04)):
        trainer.train_epoch(epoch, lambda done, loss: None)
        by_hand.settings["learning_rate"] = rate
        by_hand.learn(epoch=epoch)
    np.testing.assert_array_equal(trainer.result()["items"], by_hand.arrays["items"])


def trainer_of(bench, rates, average):
    known = ("offsets", "positives", "vector_offsets", "users", "items")
    kernel = {name: array for name, array in bench.arrays.items() if name not in known}
    own = bench.arrays
    pace = Pace(rates, average, SEED, 1)
    return MetricTrainer(bench.train, own["users"], own["vector_offsets"], own["items"], kernel, bench.settings, pace)


def test_the_running_mean_is_plain_at_first_and_then_has_a_window():
    bench = a_bench(a_model("unis", optimizer="adagrad", learning_rate=0.1))
    trainer = trainer_of(bench, Rates(0.1, "constant", 9), average=3)
    seen, before = [], np.zeros_like(bench.arrays["items"])
    for epoch in range(5):
        trainer.train_epoch(epoch, lambda done, loss: None)
        seen.append(bench.arrays["items"].astype(np.float64))
        mean = trainer.result()["items"]
        if epoch < 3:
            np.testing.assert_allclose(mean, np.mean(seen, axis=0), atol=1e-6)
        else:
            np.testing.assert_allclose(mean, before + (seen[-1] - before) / 3, atol=1e-6)
        before = mean.copy()
    users = trainer.result()["users"]  # a mean of points of the sphere is brought back to it
    np.testing.assert_allclose(np.linalg.norm(users, axis=1), 1, atol=1e-6)
    last = trainer_of(bench, Rates(0.1, "constant", 9), average=1).result()["items"]
    np.testing.assert_allclose(last, bench.arrays["items"], atol=1e-6)


def test_ticks_cover_the_epoch_and_rows_say_what_happened():
    train = random_lists([40] * 2000, 300)
    model = a_model("unis", "mean, too small", dim=2)
    bench = Bench(model, train, [2] * 2000)
    ticks = []
    row = trainer_of(bench, Rates(0.01, "constant", 1), 1).train_epoch(0, lambda done, loss: ticks.append((done, loss)))
    assert len(ticks) > 1  # Ctrl-C and the progress bar are served more often than once an epoch
    assert sum(done for done, _ in ticks) == 80_000
    assert ticks[-1][1] == pytest.approx(row["hinge"])
    assert row["loss"] == pytest.approx(row["hinge"] + row["dcrs"])
    assert row["dcrs"] > 0
    assert 0 < row["active"] <= 7


def test_the_state_is_all_that_another_epoch_depends_on():
    model = a_model("dihars-statistic", "pairs", optimizer="adam")
    one, other = (trainer_of(a_bench(model), Rates(0.05, "cosine", 4), average=2) for _ in range(2))
    for epoch in range(2):
        one.train_epoch(epoch, lambda done, loss: None)
    other.load_state({name: array.copy() for name, array in one.state().items()})
    for trainer in (one, other):
        for epoch in range(2, 4):
            trainer.train_epoch(epoch, lambda done, loss: None)
    for name, array in one.state().items():
        np.testing.assert_array_equal(array, other.state()[name], err_msg=name)


@pytest.mark.parametrize(
    ("method", "filled"), [("sgd", set()), ("adagrad", {"first"}), ("adam", {"first", "second", "steps"})]
)
def test_optimizers_keep_only_the_memory_they_need(method, filled):
    users, items = np.ones((4, 3), np.float32), np.ones((5, 3), np.float32)
    memory = optimizer_memory(method, user=users, item=items)
    for side, rows in (("user", 4), ("item", 5)):
        for part in ("first", "second", "steps"):
            array = memory[f"{side}_{part}"]
            assert array.shape == (((rows,) if part == "steps" else (rows, 3)) if part in filled else (0,))
            assert not array.any()


def test_arrays_of_another_type_are_refused_rather_than_copied():
    bench = a_bench(a_model())
    for name, other in (("users", np.float64), ("positives", np.int64), ("gamma", np.float64)):
        with pytest.raises(TypeError, match=f"array '{name}' is missing or has another type"):
            _native.train_range({**bench.arrays, name: bench.arrays[name].astype(other)}, bench.settings, 0, 0, 0, 1, 1)
