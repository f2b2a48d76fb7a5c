"""DPCML's kernel with a smooth minimum over a user's vectors."""

from __future__ import annotations

import numpy as np
import pytest
from tests.training import test_anchored_dpcml, test_native_dpcml
from tests.training.reference import SEED, DpcmlKernel, epoch_order, numeric_gradient, random_lists
from tests.training.smooth_reference import SmoothAnchoredReference, SmoothReference, smooth_minimum
from tests.training.test_native_dpcml import GEOMETRIES, SAMPLERS

TEMPERATURES = [0.02, 0.3, 4.0]


def a_kernel(temperature, *args, **changes):
    kernel = test_native_dpcml.a_kernel(test_native_dpcml.a_model(*args, **changes))
    kernel.settings.temperature = temperature
    return kernel


def anchored_kernel(temperature, anchor, **changes):
    kernel = test_anchored_dpcml.a_kernel(test_anchored_dpcml.a_model(anchor, **changes))
    kernel.settings.temperature = temperature
    return kernel


# ---- gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dcrs", ["off", "mean, too small", "pairs"])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_loss_and_gradient(temperature, sampler, dcrs, geometry):
    check_gradients(a_kernel(temperature, sampler, dcrs, geometry), SmoothReference)


@pytest.mark.parametrize("dim", [3, 4, 16, 23, 37])
def test_gradient_for_every_width_of_register(dim):
    check_gradients(a_kernel(0.3, "hars-3", "mean, too small", dim=dim), SmoothReference)


@pytest.mark.parametrize("n_vectors", [7, 8, 9, 17])
def test_gradient_of_many_vectors(n_vectors):
    model = test_native_dpcml.a_model("hars-3", geometry="ball")
    kernel = DpcmlKernel(model, random_lists([3, 5], 18), [n_vectors, 2])
    kernel.settings.temperature = 0.3
    check_gradients(kernel, SmoothReference)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("sampler", test_anchored_dpcml.SAMPLERS)
@pytest.mark.parametrize("anchor", [0.3, 1.0])
def test_gradient_with_anchors(anchor, sampler, geometry):
    check_gradients(anchored_kernel(0.3, anchor, sampler=sampler, geometry=geometry), SmoothAnchoredReference)


def check_gradients(kernel, kind):
    reference, active = kind(kernel), 0
    for positive in test_native_dpcml.some_positives(kernel.train):
        step = kernel.step(positive)
        if not len(step.negatives):
            continue
        check_gradient(kernel, reference, positive, step)
        active += bool(step.item_gradient.any())
    assert active > 0


def check_gradient(kernel, reference, positive, step):
    user, items = reference.owner[positive], reference.state["items"]
    own = reference.rows_of(user)
    learned = reference.state["users"][own]
    vectors = reference.vectors(positive, learned)
    assert step.loss == pytest.approx(reference.loss(positive, step.negatives, vectors, items), rel=1e-5, abs=1e-5)

    def of_user(moved):
        found = reference.vectors(positive, moved)
        return reference.loss(positive, step.negatives, found, items) + reference.penalty(user, found)

    # Vectors with less than a 10,000th of an item's distance get no gradient from it.
    wanted = numeric_gradient(of_user, learned) if kernel.model.anchor < 1 else np.zeros_like(learned)
    np.testing.assert_allclose(step.user_gradient[own], wanted, rtol=1e-3, atol=4e-4)
    rows = [kernel.train.indices[positive], *step.negatives]

    def of_rows(values):
        moved = items.copy()
        moved[rows] = values
        return reference.loss(positive, step.negatives, vectors, moved)

    np.testing.assert_allclose(step.item_gradient[rows], numeric_gradient(of_rows, items[rows]), rtol=1e-3, atol=4e-4)
    assert not np.delete(step.item_gradient, rows, axis=0).any()
    assert not np.delete(step.user_gradient, np.arange(own.start, own.stop), axis=0).any()


def test_the_smooth_minimum_lies_between_the_smallest_and_the_mean_distance():
    distances = np.random.default_rng(0).uniform(0, 4, (5, 30))
    for temperature in (1e-3, 0.1, 1.0, 1e3):
        found = smooth_minimum(distances, temperature)
        assert (found >= distances.min(axis=0) - 1e-9).all()
        assert (found <= distances.mean(axis=0) + 1e-9).all()
    np.testing.assert_allclose(smooth_minimum(distances, 1e-4), distances.min(axis=0), atol=1e-3)
    np.testing.assert_allclose(smooth_minimum(distances, 1e5), distances.mean(axis=0), atol=1e-3)


def test_losing_vectors_get_a_gradient():
    hard, smooth = (a_kernel(temperature, "hars-1", geometry="ball") for temperature in (0.0, 4.0))
    positive = int(hard.train.offsets[2]) - 1  # of the user with three vectors
    own = slice(1, 4)
    assert (hard.step(positive).user_gradient[own] != 0).any(axis=1).sum() < 3
    assert (smooth.step(positive).user_gradient[own] != 0).any(axis=1).sum() == 3


def test_equal_vectors_act_as_one():
    """Of C equal vectors each gets a C-th of the gradient, and the items get that of one vector."""
    train = random_lists([6, 3], 18)
    model = test_native_dpcml.a_model("hars-3", geometry="ball")
    one, three = DpcmlKernel(model, train, [1, 1]), DpcmlKernel(model, train, [3, 3])
    three.arrays["users"][:] = np.repeat(one.arrays["users"], 3, axis=0)
    three.arrays["items"][:] = one.arrays["items"]
    three.settings.temperature = 0.7
    found, wanted = three.step(2), one.step(2)
    assert found.loss == pytest.approx(wanted.loss, rel=1e-5)
    np.testing.assert_allclose(found.user_gradient, np.repeat(wanted.user_gradient, 3, axis=0) / 3, atol=1e-5)
    np.testing.assert_allclose(found.item_gradient, wanted.item_gradient, atol=1e-5)


# ---- epochs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("sampler", ["unis", "hars-3", "ndihars", "dihars-random", "dihars-average", "2sts-1"])
def test_epochs_are_what_plain_numpy_computes(sampler, optimizer):
    kernel = a_kernel(0.3, sampler, "mean, too small", "ball", optimizer=optimizer, **EPOCHS)
    compare_epochs(kernel, SmoothReference(kernel), epochs=2)


@pytest.mark.parametrize("anchor", [0.3, 1.0])
def test_anchored_epochs_are_what_plain_numpy_computes(anchor):
    kernel = anchored_kernel(0.3, anchor, sampler="hars", geometry="ball", **EPOCHS)
    compare_epochs(kernel, SmoothAnchoredReference(kernel), epochs=1)


EPOCHS = {"block_size": 4, "learning_rate": 0.02, "spread_weight": 0.1}


def compare_epochs(kernel, reference, epochs):
    n, start = kernel.train.n_interactions, kernel.arrays["items"].copy()
    for epoch in range(epochs):
        reference.learn(0, n, epoch_order(kernel.train.user_counts, epoch), epoch)
        kernel.learn(epoch=epoch)
    assert np.abs(kernel.arrays["items"] - start).max() > 0.01
    for name, wanted in reference.state.items():
        if kernel.arrays[name].size:
            np.testing.assert_allclose(kernel.arrays[name], wanted, rtol=5e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("anchor", [0.0, 0.5])
@pytest.mark.parametrize("sampler", ["hars", "dihars"])
def test_the_same_bits_for_every_number_of_threads(sampler, anchor):
    found = []
    for threads in (1, 2, 3, 8):
        train = random_lists([3, 5, 2, 9, 7] * 30, 40)
        model = test_anchored_dpcml.a_model(anchor, sampler, "mean", "ball", optimizer="adagrad", block_size=64)
        kernel = DpcmlKernel(model, train, [4] * train.n_users, SEED)
        kernel.settings.temperature = 0.3
        if anchor:
            test_anchored_dpcml.refresh(kernel)
        totals = kernel.learn(threads=threads)
        found.append((totals.loss, kernel.arrays["users"].tobytes(), kernel.arrays["items"].tobytes()))
    assert len(set(found)) == 1


def test_a_temperature_of_zero_gives_the_bits_of_the_minimum():
    plain, zero = (test_native_dpcml.a_kernel(test_native_dpcml.a_model("hars-3", "pairs")) for _ in range(2))
    zero.settings.temperature = 0.0
    plain.learn()
    zero.learn()
    for name, array in plain.arrays.items():
        assert array.tobytes() == zero.arrays[name].tobytes(), name
