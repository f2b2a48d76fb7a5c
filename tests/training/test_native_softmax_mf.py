"""The kernels of SoftmaxMF against the same mathematics in NumPy, and the gradients against differences of the loss."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tastespace import Interactions, _native

TEMPERATURE, RATE = 0.2, 0.03
# Users, items, dimension, negatives, users per batch: on both sides of the sizes in which the kernel pads.
SHAPES = [(70, 50, 40, 33, 40), (33, 17, 7, 17, 64), (5, 90, 32, 8, 2), (64, 65, 65, 64, 32)]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


class Case:
    """Random interactions, parameters of any length, and batches; every fourth user has no history."""

    def __init__(self, n_users: int, n_items: int, dim: int, n_negatives: int, batch_size: int) -> None:
        random = np.random.default_rng(3)
        matrix = sp.random_array((n_users, n_items), density=0.15, rng=random, format="lil")
        matrix[::4] = 0
        matrix[1, 0] = 1
        self.train = Interactions.from_scipy((sp.csr_array(matrix) != 0).astype(float))
        self.batch_size = batch_size
        self.users = random.permutation(np.flatnonzero(self.train.user_counts)).astype(np.int32)
        n_batches = -(-len(self.users) // batch_size)
        self.pools = random.integers(0, n_items, (n_batches, n_negatives), dtype=np.int32)
        self.state = {}
        for side, n in (("user", n_users), ("item", n_items)):
            self.state[f"{side}_rows"] = random.normal(0, 1, (n, dim)).astype(np.float32)
            self.state[f"{side}_first"] = random.normal(0, 0.01, (n, dim)).astype(np.float32)
            self.state[f"{side}_second"] = random.uniform(0.1, 1, n).astype(np.float32)

    def past(self, user):
        return self.train.indices[self.train.offsets[user] : self.train.offsets[user + 1]]

    def run(self, state, threads=1, first_step=0, **changes):
        given = {
            "offsets": self.train.offsets, "positives": self.train.indices, "users": self.users, "pools": self.pools,
            "batch_size": self.batch_size, "temperature": TEMPERATURE, "learning_rate": RATE,
        }  # fmt: skip
        return _native.train_softmax_mf(**{**given, **state, **changes}, first_step=first_step, threads=threads)


def loss_of(case, users, pool, user_rows, item_rows):
    """The loss as it is defined, of parameters of any length."""
    a, c = unit(user_rows), unit(item_rows)
    total = 0.0
    for user in users:
        logits = a[user] @ c[pool].T / TEMPERATURE
        past = case.past(user)
        total += len(past) * np.log(np.exp(logits).sum()) - (a[user] @ c[past].T).sum() / TEMPERATURE
    return total


def gradients_of(case, users, pool, user_rows, item_rows):
    """Gradients with respect to the parameters: those of unit vectors, without their radial part, over the lengths."""
    a, c = unit(user_rows), unit(item_rows)
    of_users, of_items = np.zeros_like(a), np.zeros_like(c)
    for user in users:
        past = case.past(user)
        weights = np.exp(a[user] @ c[pool].T / TEMPERATURE)
        weights *= len(past) / weights.sum()
        of_users[user] = (weights @ c[pool] - c[past].sum(axis=0)) / TEMPERATURE
        np.add.at(of_items, pool, np.outer(weights, a[user]) / TEMPERATURE)
        of_items[past] -= a[user] / TEMPERATURE
    return [
        (gradient - (gradient * units).sum(axis=1, keepdims=True) * units) / np.linalg.norm(rows, axis=1, keepdims=True)
        for gradient, units, rows in ((of_users, a, user_rows), (of_items, c, item_rows))
    ]


def test_the_gradients_of_the_reference_are_differences_of_the_loss():
    case = Case(6, 5, 4, 7, 8)
    rows = [case.state[f"{side}_rows"].astype(np.float64) for side in ("user", "item")]
    pool, step = case.pools[0], 1e-5
    for side, gradient in enumerate(gradients_of(case, case.users, pool, *rows)):
        found = np.zeros_like(gradient)
        for place in np.ndindex(found.shape):
            values = []
            for sign in (1, -1):
                moved = [one.copy() for one in rows]
                moved[side][place] += sign * step
                values.append(loss_of(case, case.users, pool, *moved))
            found[place] = (values[0] - values[1]) / (2 * step)
        np.testing.assert_allclose(found, gradient, atol=1e-6)
        assert np.abs(gradient).max() > 0.5


@pytest.mark.parametrize("shape", SHAPES)
def test_an_epoch_is_that_of_the_reference(shape):
    case = Case(*shape)
    expected = {name: array.astype(np.float64) for name, array in case.state.items()}
    loss, first_step = 0.0, 5
    for batch, pool in enumerate(case.pools):
        users = case.users[batch * case.batch_size : (batch + 1) * case.batch_size]
        rows = expected["user_rows"].copy(), expected["item_rows"].copy()
        loss += loss_of(case, users, pool, *rows)
        past = np.concatenate([case.past(user) for user in users])
        step = first_step + batch + 1
        for side, gradient, touched in zip(
            ("user", "item"), gradients_of(case, users, pool, *rows), (users, np.union1d(past, pool)), strict=True
        ):
            first, second = expected[f"{side}_first"], expected[f"{side}_second"]
            first[touched] = 0.9 * first[touched] + 0.1 * gradient[touched]
            second[touched] = 0.99 * second[touched] + 0.01 * (gradient[touched] ** 2).mean(axis=1)
            scale = RATE / (1 - 0.9**step) / (np.sqrt(second[touched] / (1 - 0.99**step)) + 1e-8)
            expected[f"{side}_rows"][touched] -= scale[:, None] * first[touched]
    found_loss, n = case.run(case.state, first_step=first_step)
    assert n == case.train.n_interactions
    assert found_loss == pytest.approx(loss, rel=1e-5)
    for name, array in case.state.items():
        np.testing.assert_allclose(array, expected[name], rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_bits_for_every_number_of_threads(shape):
    case = Case(*shape)
    states = []
    for threads in (1, 2, 5):
        state = {name: array.copy() for name, array in case.state.items()}
        loss = case.run(state, threads)
        states.append([np.float64(loss[0]), *state.values()])
    for other in states[1:]:
        for one, two in zip(states[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_small_temperatures_neither_overflow_nor_vanish():
    case = Case(*SHAPES[0])
    loss, _ = case.run(case.state, temperature=1e-3)
    assert np.isfinite(loss)
    assert all(np.isfinite(array).all() for array in case.state.values())


@pytest.mark.parametrize("n_users", [1, 40])
def test_fold_in_goes_to_the_least_loss(n_users):
    """Compared with many small steps of the definition, for users together and alone."""
    case = Case(n_users + 3, 60, 12, 1, 8)
    items = unit(case.state["item_rows"])
    pool = np.random.default_rng(0).integers(0, 60, 45, dtype=np.int32)
    start = unit(np.random.default_rng(1).normal(size=(case.train.n_users, 12))).astype(np.float32)

    def fold_in(histories, vectors, threads=1):
        _native.fold_in_softmax_mf(
            offsets=histories.offsets, positives=histories.indices, vectors=vectors, item_vectors=items, pool=pool,
            temperature=0.3, n_steps=40, threads=threads,
        )  # fmt: skip
        return vectors

    found = fold_in(case.train, start.copy())
    np.testing.assert_array_equal(found, fold_in(case.train, start.copy(), threads=3))
    for user in range(case.train.n_users):
        past = case.past(user)
        if not len(past):
            np.testing.assert_array_equal(found[user], start[user])
            continue
        vector = start[user].astype(np.float64)
        for _ in range(3000):
            weights = np.exp(items[pool] @ vector / 0.3)
            gradient = weights @ items[pool] / weights.sum() - items[past].mean(axis=0)
            vector = unit(vector - 0.05 * gradient)
        np.testing.assert_allclose(found[user], vector, atol=1e-3)
        alone = Interactions.from_scipy(case.train.matrix[[user, 1]])
        np.testing.assert_array_equal(fold_in(alone, start[[user, 1]].copy())[0], found[user])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": np.array([70], np.int32)}, "users: expected indices within 0"),
        ({"pools": np.full((2, 33), 50, np.int32)}, "pools: expected indices within 0"),
        ({"pools": np.zeros((1, 33), np.int32)}, "pools: expected 2 values"),
        ({"pools": np.zeros((2, 0), np.int32)}, "negatives: expected 1 or more"),
        ({"user_rows": np.zeros((70, 39), np.float32)}, "user_rows: expected 2800"),
        ({"item_first": np.zeros((50, 39), np.float32)}, "item_first: expected 2000"),
        ({"user_second": np.zeros(69, np.float32)}, "user_second: expected 70"),
        ({"offsets": np.zeros(70, np.int64)}, "offsets: expected 71"),
        ({"batch_size": 0}, "batch_size: expected 1 or more"),
    ],
)
def test_arguments_are_checked(change, message):
    case = Case(*SHAPES[0])
    with pytest.raises(ValueError, match=message):
        case.run(case.state, **change)
