"""Vectors per user (BPA, APA) and hard negatives per user (N_beta), against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace.errors import ParameterError
from tastespace.models.dpcml.kernel import interests_per_user
from tastespace.training.samplers import n_beta


def floor_log(base, n):
    """The largest power of the base, a fraction, that n reaches."""
    power = 0
    while Fraction(base) ** (power + 1) <= n:
        power += 1
    return power


def apa(n, base, least=1):
    return interests_per_user(np.atleast_1d(n), "adaptive", least, base).tolist()


@pytest.mark.parametrize(
    ("n", "base", "expected"),
    [(243, 3, 5), (242, 3, 4), (1000, 10, 3), (999, 10, 2), (125, 5, 3), (2**29, 2, 29), (2**29 - 1, 2, 28)],
)
def test_whole_powers_are_reached_exactly(n, base, expected):
    assert apa(n, base) == [expected]


@pytest.mark.parametrize("base", ["2", "3", "5", "10", "2.5", "1.1", "7.3", "1.5", "100"])
def test_floor_of_the_logarithm_against_fractions(base):
    n = np.unique(np.concatenate([np.arange(1, 700), [10**k + d for k in range(3, 7) for d in (-1, 0, 1)]]))
    assert apa(n, float(base)) == [max(1, floor_log(base, int(v))) for v in n]


@given(st.integers(1, 10**6), st.integers(101, 2000), st.integers(1, 8))
def test_adaptive_counts_for_any_decimal_base(n, hundredths, least):
    base = Fraction(hundredths, 100)
    assert apa(n, hundredths / 100, least) == [max(least, floor_log(base, n))]


@given(st.lists(st.integers(0, 5000), min_size=2, max_size=30), st.sampled_from([2, 3, 5, 10]))
def test_more_items_never_give_fewer_vectors(n, base):
    assert np.all(np.diff(apa(np.sort(n), base)) >= 0)


def test_the_fewest_count_for_those_with_little_or_nothing():
    assert apa([0, 1, 2, 3, 9, 81], 3, least=3) == [3, 3, 3, 3, 3, 4]
    assert interests_per_user(np.array([], dtype=np.int64), "adaptive").tolist() == []


@pytest.mark.parametrize("interests", [1, 5, np.int64(4)])
def test_a_number_gives_all_users_the_same(interests):
    out = interests_per_user(np.array([0, 1, 10_000]), interests)
    assert out.tolist() == [interests] * 3
    assert out.dtype == np.int64


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_interests": 0}, "n_interests=0: expected at least 1 vector per user, or 'adaptive'"),
        ({"n_interests": -2}, "n_interests=-2: expected at least 1"),
        ({"n_interests": 2.0}, "n_interests=2.0: expected a whole number or 'adaptive'"),
        ({"n_interests": True}, "n_interests=True: expected a whole number"),
        ({"n_interests": "adaptiv"}, "n_interests='adaptiv': expected a whole number or 'adaptive'"),
        ({"log_base": 1}, "log_base=1: expected a number larger than 1"),
        ({"log_base": 0.5}, "log_base=0.5: expected a number larger than 1"),
        ({"log_base": float("nan")}, "log_base=nan: expected a number larger than 1"),
        ({"log_base": float("inf")}, "log_base=inf: expected a number larger than 1"),
        ({"log_base": "3"}, "log_base='3': expected a number larger than 1"),
        ({"log_base": 1.0001}, "log_base=1.0001 is so close to 1"),
        ({"least": 0}, "min_interests=0: expected a whole number, 1 or more"),
        ({"least": 1.5}, "min_interests=1.5: expected a whole number"),
    ],
)
def test_bad_parameters(parameters, words):
    chosen = {"n_interests": "adaptive", **parameters}
    with pytest.raises(ParameterError) as caught:
        interests_per_user(np.array([3, 10_000]), **chosen)
    assert words in str(caught.value)


# ---- N_beta ------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**7), st.integers(1, 10**6))
def test_n_beta_is_the_floor_of_the_exact_product_but_at_least_one(n, millionths):
    exact = Fraction(millionths, 10**6) * n
    assert n_beta(n, millionths / 10**6) == max(1, exact.numerator // exact.denominator)


def test_n_beta_of_the_papers_betas_never_is_zero():
    """Floor alone gives 0, 0, 0, 1, 1, 3, 5 on ML-1M."""
    betas = (1e-5, 5e-5, 1e-4, 3e-4, 5e-4, 1e-3, 1.5e-3)
    assert [n_beta(3_900, beta) for beta in betas] == [1, 1, 1, 1, 1, 3, 5]


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_beta_of_k_over_n_gives_k(n, k):
    """Proposition 1: HarS with U of n negatives is beta = U / n."""
    k = min(k, n)
    assert n_beta(n, k / n) == k


@pytest.mark.parametrize("beta", [0, -0.1, 1.0001, float("nan")])
def test_beta_outside_its_range(beta):
    with pytest.raises(ParameterError, match=r"give a number in \(0, 1\]"):
        n_beta(10, beta)


@pytest.mark.parametrize("n", [0, -3, 2.5])
def test_there_must_be_negatives(n):
    with pytest.raises(ParameterError, match="at least 1"):
        n_beta(n, 0.1)
