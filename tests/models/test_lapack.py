"""The inverse without the lock is the inverse."""

import threading
import time

import numpy as np
import scipy.linalg

from tastespace.models.lapack import inverse_in_place


def test_the_lower_triangle_is_that_of_the_inverse():
    rows = np.random.default_rng(0).standard_normal((60, 40))
    gram = np.asfortranarray(rows.T @ rows + np.eye(40))
    expected = scipy.linalg.lapack.dpotri(scipy.linalg.cho_factor(gram, lower=True)[0], lower=True)[0]
    inverse = gram.copy(order="F")
    assert inverse_in_place(inverse) == 0
    np.testing.assert_array_equal(np.tril(inverse), np.tril(expected))
    np.testing.assert_allclose(np.tril(inverse), np.tril(np.linalg.inv(gram)), atol=1e-10)


def test_a_matrix_that_is_not_positive_definite_is_told():
    assert inverse_in_place(np.asfortranarray(np.diag([1.0, -1.0, 1.0]))) == 2


def test_other_threads_run_meanwhile():
    n = 1500
    matrix = np.asfortranarray(np.eye(n) * 2 + 1 / n)
    thread = threading.Thread(target=inverse_in_place, args=(matrix,))
    thread.start()
    waits = []
    while thread.is_alive():
        start = time.perf_counter()
        time.sleep(0.001)
        waits.append(time.perf_counter() - start)
    assert len(waits) > 3
