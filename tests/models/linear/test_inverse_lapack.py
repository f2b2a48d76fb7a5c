"""The inverse without the lock is the inverse."""

import sys
import threading
import time

import numpy as np
import scipy.linalg

from tastespace.models.linear.inverse import inverse_in_place


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
    turns, during = [0], []

    def invert() -> None:
        matrix = np.asfortranarray(np.eye(n) * 2 + 1 / n)
        before = turns[0]
        inverse_in_place(matrix)
        during.append(turns[0] - before)

    # Threads take turns only where one gives the lock away; on a busy machine this one may sleep through an inverse.
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e3)
    try:
        while not any(during) and len(during) < 100:
            thread = threading.Thread(target=invert)
            thread.start()
            while thread.is_alive():
                turns[0] += 1
                time.sleep(0.0001)
    finally:
        sys.setswitchinterval(usual)
    assert any(during)
