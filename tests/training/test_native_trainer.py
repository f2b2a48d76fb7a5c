"""Native trainers: learning rates, running means, the state of a run, and what the kernels refuse."""

from __future__ import annotations

import numpy as np
import pytest
from tests.training.reference import SEED, BprKernel, DpcmlKernel, random_lists
from tests.training.test_native_dpcml import COUNTS, N_ITEMS, a_kernel, a_model

from tastespace import _native
from tastespace.training.native_trainer import (
    BprTrainer,
    DpcmlTrainer,
    LearningRateSchedule,
    TrainingSettings,
    optimizer_arrays,
    optimizer_state,
    project,
)


def test_project_moves_rows_in_place():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=np.float32)
    for region, expected in (
        (_native.Region.BALL, [[1.2, 1.6], [0.3, 0.4], [0, 0]]),
        (_native.Region.SPHERE, [[1.2, 1.6], [1.2, 1.6], [0, 0]]),
    ):
        own = rows.copy()
        assert project(own, region, 2.0) is own
        np.testing.assert_allclose(own, expected, atol=1e-6)


# ---- learning rates and means ------------------------------------------------------------------------------


def test_schedules_of_the_learning_rate():
    assert [LearningRateSchedule(0.2, "constant", 4).at(e) for e in range(4)] == [0.2] * 4
    assert [LearningRateSchedule(0.2, "linear", 4).at(e) for e in range(4)] == pytest.approx([0.2, 0.15, 0.1, 0.05])
    cosine = [LearningRateSchedule(0.2, "cosine", 4).at(e) for e in range(4)]
    assert cosine == pytest.approx([0.2, 0.1 * (1 + 0.5**0.5), 0.1, 0.1 * (1 - 0.5**0.5)])
    assert all(LearningRateSchedule(1.0, s, 1).at(0) == 1.0 for s in ("constant", "linear", "cosine"))


def test_the_schedule_reaches_the_kernel():
    kernel = a_kernel(a_model("unis", optimizer="sgd", block_size=1000))
    trainer = trainer_of(kernel, LearningRateSchedule(0.08, "linear", 2), average=1)
    by_hand = a_kernel(a_model("unis", optimizer="sgd", block_size=1000))
    for epoch, rate in enumerate((0.08, 0.04)):
        trainer.train_epoch(epoch, lambda done, loss: None)
        by_hand.settings.optimizer.learning_rate = rate
        by_hand.learn(epoch=epoch)
    np.testing.assert_array_equal(kernel.arrays["items"], by_hand.arrays["items"])


def trainer_of(kernel, learning_rates, average):
    run = TrainingSettings(learning_rates, average, SEED, 1)
    return DpcmlTrainer(kernel.train, kernel.data, kernel.state, kernel.settings, run)


def test_the_running_mean_is_plain_at_first_and_then_has_a_window():
    kernel = a_kernel(a_model("unis", optimizer="adagrad", learning_rate=0.1))
    trainer = trainer_of(kernel, LearningRateSchedule(0.1, "constant", 9), average=3)
    seen, before = [], np.zeros_like(kernel.arrays["items"])
    for epoch in range(5):
        trainer.train_epoch(epoch, lambda done, loss: None)
        seen.append(kernel.arrays["items"].astype(np.float64))
        mean = trainer.result()["items"]
        if epoch < 3:
            np.testing.assert_allclose(mean, np.mean(seen, axis=0), atol=1e-6)
        else:
            np.testing.assert_allclose(mean, before + (seen[-1] - before) / 3, atol=1e-6)
        before = mean.copy()
    users = trainer.result()["users"]  # a mean of points of the sphere is brought back to it
    np.testing.assert_allclose(np.linalg.norm(users, axis=1), 1, atol=1e-6)
    last = trainer_of(kernel, LearningRateSchedule(0.1, "constant", 9), average=1).result()["items"]
    np.testing.assert_allclose(last, kernel.arrays["items"], atol=1e-6)


def test_ticks_cover_the_epoch_and_rows_say_what_happened():
    train = random_lists([40] * 2000, 300)
    model = a_model("unis", "mean, too small", dim=2)
    kernel = DpcmlKernel(model, train, [2] * 2000)
    ticks = []
    row = trainer_of(kernel, LearningRateSchedule(0.01, "constant", 1), 1).train_epoch(
        0, lambda done, loss: ticks.append((done, loss))
    )
    assert len(ticks) > 1  # Ctrl-C and the progress bar are served more often than once an epoch
    assert sum(done for done, _ in ticks) == 80_000
    assert ticks[-1][1] == pytest.approx(row["hinge"])
    assert row["loss"] == pytest.approx(row["hinge"] + row["dcrs"])
    assert row["dcrs"] > 0
    assert 0 < row["pair_gradients"] <= 7


def test_the_state_is_all_that_another_epoch_depends_on():
    model = a_model("dihars-statistic", "pairs", optimizer="adam")
    one, other = (trainer_of(a_kernel(model), LearningRateSchedule(0.05, "cosine", 4), average=2) for _ in range(2))
    for epoch in range(2):
        one.train_epoch(epoch, lambda done, loss: None)
    other.load_state({name: array.copy() for name, array in one.state().items()})
    for trainer in (one, other):
        for epoch in range(2, 4):
            trainer.train_epoch(epoch, lambda done, loss: None)
    for name, array in one.state().items():
        np.testing.assert_array_equal(array, other.state()[name], err_msg=name)


# ---- BPR ---------------------------------------------------------------------------------------------------


def bpr_trainer(average):
    kernel = BprKernel(random_lists(COUNTS, N_ITEMS), optimizer="adagrad")
    run = TrainingSettings(LearningRateSchedule(0.05, "linear", 6), average, SEED, 1)
    return BprTrainer(kernel.train, kernel.data, kernel.state, kernel.settings, run)


def test_the_result_of_bpr_is_the_running_mean_of_the_epochs():
    plain, averaged = bpr_trainer(1), bpr_trainer(3)
    mean = None
    for epoch in range(6):
        plain.train_epoch(epoch, lambda done, loss: None)
        averaged.train_epoch(epoch, lambda done, loss: None)
        now = {name: array.astype(np.float64) for name, array in plain.result().items()}
        weight = 1 / min(epoch + 1, 3)
        mean = now if mean is None else {name: mean[name] + weight * (now[name] - mean[name]) for name in now}
    for name, array in averaged.result().items():
        np.testing.assert_allclose(array, mean[name], atol=1e-5)
        np.testing.assert_array_equal(averaged.state()[name], plain.state()[name])
    plain.result()["users"][:] = 0  # a copy
    assert plain.state()["users"].all()


def test_a_state_of_bpr_is_all_that_another_epoch_needs():
    one, other = bpr_trainer(3), bpr_trainer(3)
    for epoch in range(2):
        one.train_epoch(epoch, lambda done, loss: None)
    other.load_state({name: array.copy() for name, array in one.state().items()})
    for each in (one, other):
        each.train_epoch(2, lambda done, loss: None)
    for name, array in one.result().items():
        np.testing.assert_array_equal(array, other.result()[name])


# ---- optimizer state ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "filled"), [("sgd", set()), ("adagrad", {"first"}), ("adam", {"first", "second", "steps"})]
)
def test_optimizers_keep_only_the_state_they_need(optimizer, filled):
    state = optimizer_state(optimizer, np.ones((4, 3), np.float32))
    for part, array in optimizer_arrays(state).items():
        assert array.shape == (((4,) if part == "steps" else (4, 3)) if part in filled else (0,))
        assert not array.any()


# ---- what the binding refuses ------------------------------------------------------------------------------


def dpcml_state(kernel, **changes):
    state = kernel.state
    names = ("user_vectors", "item_vectors", "gamma", "user_optimizer", "item_optimizer")
    return _native.DpcmlState(**{**{name: getattr(state, name) for name in names}, **changes})


def test_the_state_gives_its_arrays_back_unchanged():
    users = np.ones((2, 3), np.float32)
    state = dpcml_state(a_kernel(a_model()), user_vectors=users)
    assert state.user_vectors is users


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "user_vectors",
            np.ones((4, 3)),
            r"user_vectors: .*writable array of float32, given float64 of shape \(4, 3\)",
        ),
        (
            "user_vectors",
            np.ones(4, np.float32),
            r"user_vectors: expected a 2-dimensional, .*given float32 of shape \(4,\)",
        ),
        (
            "item_vectors",
            np.ones((4, 6), np.float32)[:, ::2],
            "item_vectors: expected a 2-dimensional, C-contiguous and writable",
        ),
        ("gamma", [0.5], "gamma: expected a 1-dimensional, .*given list"),
        ("gamma", None, "gamma: NoneType"),
    ],
)
def test_arrays_of_another_type_are_refused_rather_than_copied(name, value, message):
    with pytest.raises(TypeError, match=message):
        dpcml_state(a_kernel(a_model()), **{name: value})


def test_read_only_arrays_are_refused_where_something_is_learned():
    users = np.ones((4, 3), np.float32)
    users.flags.writeable = False
    with pytest.raises(TypeError, match="user_vectors: expected a 2-dimensional, C-contiguous and writable array"):
        dpcml_state(a_kernel(a_model()), user_vectors=users)


def test_arrays_that_are_only_read_are_checked_too():
    train = random_lists(COUNTS, N_ITEMS)
    with pytest.raises(
        TypeError, match="positives: expected a 1-dimensional, C-contiguous array of int32, given int64"
    ):
        _native.BprData(offsets=train.offsets, positives=train.indices.astype(np.int64))


def test_a_wrong_name_is_refused():
    with pytest.raises(TypeError, match="users"):
        dpcml_state(a_kernel(a_model()), users=np.ones((4, 3), np.float32))
    with pytest.raises(TypeError, match="stepsize"):
        _native.OptimizerSettings(optimizer=_native.Optimizer.SGD, stepsize=0.1)


def test_a_number_is_no_enum():
    with pytest.raises(TypeError, match="Optimizer"):
        _native.OptimizerSettings(optimizer=2, learning_rate=0.1)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("user_vectors", (9, 5), "vector_offsets: expected numbers that ascend from 0 to 9"),
        ("gamma", (3,), "gamma: expected 26 values .one per positive., given 3"),
    ],
)
def test_arrays_of_another_size_are_refused(name, shape, message):
    kernel = a_kernel(a_model("dihars-random"))
    kernel.state = dpcml_state(kernel, **{name: np.zeros(shape, np.float32)})
    with pytest.raises(ValueError, match=message):
        kernel.learn()


def test_optimizer_state_of_another_optimizer_is_refused():
    kernel = a_kernel(a_model(optimizer="adagrad"))
    kernel.settings.optimizer.optimizer = _native.Optimizer.ADAM
    with pytest.raises(ValueError, match=r"user_optimizer.second: expected 50 values .one per coordinate., given 0"):
        kernel.learn()


def test_a_range_outside_the_positives_is_refused():
    with pytest.raises(ValueError, match=r"positives 20 ... 27: expected a range within 0 ... 26"):
        a_kernel(a_model()).learn(20, 27)
