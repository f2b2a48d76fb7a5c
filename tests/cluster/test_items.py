"""Changes of partitions, combined: against steps taken one after the other, and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace.cluster.items import combine, halved, sparse_change


def changes_of(n_items, dim, n_partitions, seed):
    random = np.random.default_rng(seed)
    found = []
    for _ in range(n_partitions):
        rows = np.flatnonzero(random.random(n_items) < 0.5).astype(np.int32)
        shape = (len(rows), dim)
        squares = random.random(shape).astype(np.float32)
        steps = random.integers(1, 5, len(rows)).astype(np.int32)
        values = random.normal(size=shape).astype(np.float32)
        found.append(
            {"rows": rows, "items": values, "item_first": squares, "item_second": squares, "item_steps": steps}
        )
    return found


def shared_of(n_items, dim):
    return {
        "items": np.ones((n_items, dim), np.float32),
        "item_first": np.full((n_items, dim), 0.5, np.float32),
        "item_second": np.full((n_items, dim), 0.25, np.float32),
        "item_steps": np.full(n_items, 3, np.int32),
    }


@given(n_partitions=st.integers(1, 5), seed=st.integers(0, 99), optimizer=st.sampled_from(["sgd", "adagrad", "adam"]))
def test_every_row_is_the_sum_of_its_changes(n_partitions, seed, optimizer):
    changes, shared = changes_of(9, 3, n_partitions, seed), shared_of(9, 3)
    before = {name: array.copy() for name, array in shared.items()}
    touched = combine(shared, changes, optimizer)
    for item in range(9):
        own = [{k: v[list(c["rows"]).index(item)] for k, v in c.items()} for c in changes if item in c["rows"]]
        assert (item in touched) == bool(own)
        total = np.sum([c["items"] for c in own], axis=0, dtype=np.float64) if own else np.zeros(3)
        if optimizer == "adagrad" and own:
            start = before["item_first"][item].astype(np.float64)
            squares = np.array([c["item_first"] for c in own], dtype=np.float64)
            lengths = (np.sqrt(start + squares) - np.sqrt(start)).sum(axis=0)
            total *= (np.sqrt(start + squares.sum(axis=0)) - np.sqrt(start)) / lengths
            np.testing.assert_allclose(shared["item_first"][item], start + squares.sum(axis=0), rtol=1e-6)
        if optimizer == "adam" and own:
            steps = np.array([c["item_steps"] for c in own])
            assert shared["item_steps"][item] == 3 + steps.sum()
            mean = np.average([c["item_second"] for c in own], axis=0, weights=steps)
            np.testing.assert_allclose(shared["item_second"][item], 0.25 + mean, rtol=1e-5)
        np.testing.assert_allclose(shared["items"][item], 1 + total, rtol=1e-5, atol=1e-6)


def test_adagrad_steps_of_partitions_are_as_long_as_those_of_one():
    """Constant gradients: N steps one after the other against N / 4 steps in each of 4 partitions."""
    steps, lr = 400, 0.1

    def path(n, start):
        squares, x = start, 0.0
        for _ in range(n):
            squares += 1.0
            x += lr / np.sqrt(squares)
        return x, squares - start

    for start in (0.0, 50.0):
        alone, squares = path(steps, start)
        part, of_part = path(steps // 4, start)
        shared = {"items": np.zeros((1, 1), np.float32), "item_first": np.full((1, 1), start, np.float32)}
        one = {
            "rows": np.zeros(1, np.int32),
            "items": np.array([[part]], np.float32),
            "item_first": np.array([[of_part]], np.float32),
        }
        combine(shared, [one] * 4, "adagrad")
        assert shared["item_first"][0, 0] == pytest.approx(start + squares)
        assert shared["items"][0, 0] == pytest.approx(alone, rel=0.05)


def test_a_sparse_change_brings_one_state_to_the_other():
    random = np.random.default_rng(0)
    before = {"items": random.random((6, 2)).astype(np.float32), "bias": np.zeros(6, np.float32)}
    after = {name: array.copy() for name, array in before.items()}
    after["items"][4] += 1
    after["bias"][2] = 7
    change = sparse_change(before, after)
    assert change["rows"].tolist() == [2, 4]
    combine(before, [change], "sgd")
    np.testing.assert_allclose(before["items"], after["items"])
    np.testing.assert_array_equal(before["bias"], after["bias"])


def test_half_precision_loses_nothing_over_many_rounds():
    random = np.random.default_rng(1)
    residual = {}
    sent, exact = np.zeros((5, 4)), np.zeros((5, 4))
    for _ in range(300):
        rows = np.flatnonzero(random.random(5) < 0.6).astype(np.int32)
        values = (random.normal(size=(len(rows), 4)) + 3).astype(np.float32)
        small, residual = halved({"rows": rows, "items": values}, residual)
        assert small["items"].dtype == np.float16
        sent[rows] += small["items"].astype(np.float64)
        exact[rows] += values
    assert residual["rows"].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(sent + residual["items"], exact, rtol=1e-5)
    assert np.abs(sent - exact).max() < 0.01  # without feedback the errors would add up
