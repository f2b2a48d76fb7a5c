"""Intervals, comparisons that are looked at again and again, and estimators, against what is known."""

import numpy as np
import pytest

from tastespace.errors import DataError
from tastespace.online.estimators import ips, snips
from tastespace.online.statistics import compare, rate, wilson


def test_wilson_solves_its_equation():
    for won, n in ((0, 5), (3, 7), (50, 1_000), (9, 9)):
        p, z = won / n, 1.959963984540054
        for end in wilson(won, n):
            assert abs(p - end) == pytest.approx(z * np.sqrt(end * (1 - end) / n), abs=1e-9)


def clicks(rng, n_users, mean, spread=8.0):
    """Lists and clicked lists of users who differ: a beta distribution of rates."""
    lists = rng.integers(1, 12, n_users)
    return rng.binomial(lists, rng.beta(spread * mean, spread * (1 - mean), n_users)), lists


def test_intervals_of_rates_hold_as_often_as_they_say():
    rng, held, as_if_alone = np.random.default_rng(0), 0, 0
    for _ in range(600):
        won, tried = clicks(rng, 300, 0.15, 3.0)
        found = rate(won, tried)
        held += found.low < 0.15 < found.high
        low, high = wilson(won.sum(), tried.sum())
        as_if_alone += low < 0.15 < high
    assert 0.925 < held / 600 < 0.975
    assert as_if_alone / 600 < 0.9  # what the plain interval would miss


def test_looking_every_day_finds_no_difference_that_is_not_there():
    rng, false, naive, found = np.random.default_rng(1), 0, 0, 0
    for _ in range(300):
        a, b, c = clicks(rng, 2_000, 0.12), clicks(rng, 2_000, 0.12), clicks(rng, 2_000, 0.16)
        seen = {"same": False, "naive": False, "other": False}
        for n in range(150, 2_001, 50):
            one, other, better = ((won[:n], tried[:n]) for won, tried in (a, b, c))
            same = compare((one[0], other[0]), (one[1], other[1]))
            seen["same"] |= same.is_different
            fixed = (same.high - same.low) / 2 / np.sqrt(2 * (1 + 1e-12))
            seen["naive"] |= abs(same.difference) > 1.96 * _error(one, other) and fixed > 0
            seen["other"] |= compare((one[0], better[0]), (one[1], better[1])).is_different
        false, naive, found = false + seen["same"], naive + seen["naive"], found + seen["other"]
    assert false / 300 < 0.05
    assert naive / 300 > 0.15  # a plain test, looked at as often
    assert found / 300 > 0.8


def _error(*arms):
    """Standard error of the difference by a bootstrap-free second way: the jackknife over users."""
    total = 0.0
    for won, tried in arms:
        n = len(won)
        left = (won.sum() - won) / (tried.sum() - tried)
        total += (n - 1) / n * ((left - left.mean()) ** 2).sum()
    return np.sqrt(total)


def test_a_comparison_is_the_mixture_test():
    rng = np.random.default_rng(2)
    a, b = clicks(rng, 900, 0.1), clicks(rng, 1_100, 0.12)
    found = compare((a[0], b[0]), (a[1], b[1]), alpha=0.1, planned=3_000)
    v = _error(a, b) ** 2
    tau = np.sqrt(v * 2_000 / 3_000)
    thetas = np.linspace(-8 * tau, 8 * tau, 200_001)  # the likelihood ratio, integrated over the mixture
    ratios = np.exp(found.difference * thetas / v - thetas**2 / (2 * v) - thetas**2 / (2 * tau**2))
    evidence = ratios.sum() * (thetas[1] - thetas[0]) / (tau * np.sqrt(2 * np.pi))
    assert found.p_value == pytest.approx(min(1.0, 1 / evidence), rel=0.01)
    assert found.difference == pytest.approx(b[0].sum() / b[1].sum() - a[0].sum() / a[1].sum())
    at_edge = compare((a[0], b[0]), (a[1], b[1]), alpha=found.p_value, planned=3_000)
    assert min(abs(at_edge.low), abs(at_edge.high)) == pytest.approx(0, abs=1e-9)  # interval and p-value agree


def test_too_little_says_nothing_and_nonsense_is_refused():
    few = compare(([1] * 30, [0] * 30), ([1] * 30, [1] * 30))
    assert (few.is_enough, few.is_different, few.p_value, few.low) == (False, False, 1.0, -1.0)
    assert np.isnan(rate([], []).value)
    with pytest.raises(DataError, match="more successes than trials"):
        rate([3], [2])
    with pytest.raises(DataError, match="above 0"):
        ips([1.0], [0.0], [1.0])
    with pytest.raises(DataError, match="at least one"):
        snips([], [], [])


def test_estimates_of_another_policy_hold_as_often_as_they_say():
    rng, truth, held = np.random.default_rng(3), 0.0, {"ips": 0, "snips": 0}
    worth = np.array([0.05, 0.1, 0.2, 0.4])
    logged, wanted = np.array([0.1, 0.4, 0.3, 0.2]), np.array([0.4, 0.1, 0.1, 0.4])
    truth = float(worth @ wanted)
    values = []
    for _ in range(300):
        action = rng.choice(4, 2_000, p=logged)
        reward = rng.random(2_000) < worth[action]
        for name, estimator in (("ips", ips), ("snips", snips)):
            found = estimator(reward, logged[action], wanted[action])
            held[name] += found.low < truth < found.high
        values.append(found.value)
        grouped = snips(reward, logged[action], wanted[action], np.repeat(np.arange(1_000), 2))
        assert grouped.value == found.value
        assert grouped.high - grouped.low == pytest.approx(found.high - found.low, rel=0.25)
    assert 0.92 < held["ips"] / 300 < 0.98
    assert 0.92 < held["snips"] / 300 < 0.98
    assert np.mean(values) == pytest.approx(truth, abs=0.004)
