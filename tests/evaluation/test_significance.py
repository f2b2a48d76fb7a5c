"""Tests against SciPy and exact arithmetic, Holm by hand, and how often the bootstrap interval covers the truth."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.stats

from tastespace.evaluation.significance import (
    bootstrap_interval,
    hierarchical_bootstrap,
    holm,
    paired_t_test,
    wilcoxon_test,
)


def test_p_values_are_scipys():
    rng = np.random.default_rng(0)
    for n in (2, 5, 80):
        a, b = rng.gamma(2.0, 10.0, (2, n))
        assert paired_t_test(b - a) == pytest.approx(scipy.stats.ttest_rel(b, a).pvalue)
        assert wilcoxon_test(b - a) == pytest.approx(scipy.stats.wilcoxon(b, a).pvalue)


def sign_flip_test(differences):
    """Share of all ways to flip signs whose mean is at least as far from 0."""
    flips = np.array(list(itertools.product([-1, 1], repeat=len(differences))))
    means = np.abs(flips @ differences) / len(differences)
    return np.mean(means >= (1 - 1e-12) * np.abs(np.mean(differences)))


@pytest.mark.parametrize("gain", [0.2, -3.0, 1e-12, 1e9])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
def test_a_constant_difference_gets_the_exact_sign_flip_test(n, gain):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paired_t_test(np.full(n, gain)) == sign_flip_test(np.full(n, gain)) == 2 / 2**n


def test_a_difference_that_varies_by_rounding_only_is_constant():
    values = np.array([0.1, 0.2, 0.7])
    gaps = (values + 0.2) - values
    assert np.ptp(gaps) > 0
    assert paired_t_test(gaps) == 0.25
    assert paired_t_test(np.full(6040, 0.01)) == 0.0  # the same gain for thousands of users is no chance


def test_no_difference_and_no_pairs():
    for test in (paired_t_test, wilcoxon_test):
        assert test(np.zeros(5)) == 1.0
        assert math.isnan(test(np.array([])))


def test_few_pairs_get_the_exact_wilcoxon_test():
    assert wilcoxon_test([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 2**5)  # all five signs agree, either way
    assert wilcoxon_test([3.0]) == 1.0


def test_wilcoxon_does_not_depend_on_the_unit():
    """Differences of fractions such as 1/3 - 1/6 and 1/2 - 1/3 tie, whatever the rounding says."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 7, 300) / rng.integers(6, 9, 300) for _ in range(2))
    assert wilcoxon_test(b - a) == wilcoxon_test(100 * b - 100 * a)


def test_holm_by_hand():
    # Ascending 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04, which may not fall again.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    found = holm([0.02, math.nan, 0.03])  # NaN is no test: two remain
    assert found[::2] == pytest.approx([0.04, 0.04])
    assert math.isnan(found[1])
    assert holm([]) == []


def test_holm_is_never_below_the_plain_value_and_keeps_the_order():
    plain = [0.001, 0.3, 0.02, 0.02, 0.9]
    found = holm(plain)
    assert all(a <= b <= 1 for a, b in zip(plain, found, strict=True))
    assert [found[at] for at in np.argsort(plain)] == sorted(found)
    assert found[0] == pytest.approx(0.005)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    for confidence, least, most in ((0.95, 0.90, 0.98), (0.5, 0.43, 0.57)):
        runs = 500
        covered = 0
        for seed in range(runs):
            values = rng.exponential(2.0, 80) - 1.0  # skewed, with mean 1
            low, high = bootstrap_interval(values, 300, confidence, seed)
            covered += low <= 1.0 <= high
        assert least <= covered / runs <= most


def test_the_interval_is_the_percentiles_of_resampled_means():
    values = np.random.default_rng(2).exponential(size=90)
    rng = np.random.default_rng(7)
    means = values[rng.integers(0, 90, size=(400, 90))].mean(axis=1)
    assert bootstrap_interval(values, 400, 0.9, seed=7) == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])))
    assert bootstrap_interval(np.array([3.0])) == (3.0, 3.0)
    assert bootstrap_interval(np.full(4, 3.0)) == (3.0, 3.0)


def test_scipys_statistics_are_not_imported_with_the_package():
    code = "import sys, tastespace.evaluation; print('scipy.stats' in sys.modules, 'scipy.spatial' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


def test_the_bootstrap_over_seeds_and_users_knows_both_sources_of_chance():
    rng = np.random.default_rng(0)
    of_users, of_seeds = rng.normal(0.1, 1, 400), np.array([-0.4, 0.4, -0.3, 0.3, 0.0])
    one = paired_t_test(of_users)
    assert hierarchical_bootstrap(of_users) == pytest.approx(one, rel=0.25)  # with one seed: users alone
    quiet, loud = np.tile(of_users, (5, 1)), of_users + of_seeds[:, None]
    assert hierarchical_bootstrap(quiet) == pytest.approx(one, rel=0.25)
    spread = np.sqrt(of_seeds.var() / 5 + of_users.var() / 400)  # of a mean over both
    assert hierarchical_bootstrap(loud) == pytest.approx(2 * norm_sf(of_users.mean() / spread), rel=0.1)
    holes = quiet.copy()
    holes[:, :200] = np.nan
    assert hierarchical_bootstrap(holes) == pytest.approx(paired_t_test(of_users[200:]), rel=0.25)
    assert np.isnan(hierarchical_bootstrap(np.full((2, 3), np.nan)))
    assert hierarchical_bootstrap(np.zeros((2, 3))) == 1.0


def norm_sf(z):
    from scipy.stats import norm

    return norm.sf(z)
