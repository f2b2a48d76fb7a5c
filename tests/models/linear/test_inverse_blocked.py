"""The blocked inverse against NumPy's, whatever the sizes of blocks."""

import numpy as np
import pytest

from tastespace.models.linear import inverse as module
from tastespace.models.linear.inverse import blocked_inverse


def lower_of(n, kind, seed=0):
    """A positive definite matrix, and its lower triangle with something else above the diagonal."""
    rows = np.random.default_rng(seed).standard_normal((2 * n, n))
    whole = rows.T @ rows + np.eye(n)
    return whole, np.asfortranarray(np.tril(whole) + np.triu(np.full((n, n), np.nan), 1), dtype=kind)


@pytest.mark.parametrize(("kind", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-13)])
@pytest.mark.parametrize(("n", "block"), [(1, 8), (7, 8), (8, 8), (65, 8), (130, 64), (100, 1024)])
def test_it_is_the_inverse(kind, tolerance, n, block, monkeypatch):
    monkeypatch.setattr(module, "_TILE", 24)
    whole, lower = lower_of(n, kind)
    again = lower.copy(order="F")
    assert blocked_inverse(lower, 2, block) == 0
    expected = np.linalg.inv(whole)
    assert np.abs(np.tril(lower) - np.tril(expected)).max() <= tolerance * np.abs(expected).max()
    blocked_inverse(again, 1, block)
    np.testing.assert_array_equal(np.tril(again), np.tril(lower))  # the same bits for every number of threads


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_matrix_that_is_not_positive_definite_is_told(kind):
    assert blocked_inverse(np.asfortranarray(np.diag([1.0, 1.0, 1.0, -1.0, 1.0]).astype(kind)), 1, block=2) == 4
    assert blocked_inverse(np.asfortranarray(np.diag([1.0, np.nan]).astype(kind)), 1, block=2) > 0
