"""OPAUC, hard sampling and the paper's theorems, against definitions, brute force and scikit-learn."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.required_services import optional_package

from tastespace.errors import ParameterError
from tastespace.evaluation.theory import (
    average_top_k,
    average_top_k_dual,
    differentiable_hard_sampling_loss,
    effective_sample_size,
    flat_hinge,
    generalization_bound,
    generalization_log10_failure,
    hard_sampling_loss,
    n_beta,
    nested_hinge,
    opauc,
    opauc_hinge_loss,
    opauc_of_each,
    precision_lower_bound,
    recall_lower_bound,
)

# Quarters: sums and differences are exact, and ties are frequent.
quarters = st.integers(-40, 40).map(lambda n: n / 4)
lists_of_quarters = st.lists(quarters, min_size=1, max_size=12)
betas = st.floats(0.01, 1.0)


# ---- N_beta ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "beta", "expected"),
    [
        (100, 0.29, 29),  # 28.999999999999996 in floating point
        (100, 0.57, 57),
        (49, 1 / 49, 1),  # 0.9999999999999999
        (10, 0.1 + 0.2, 3),
        (5000, 0.0011, 5),
        (3, 0.1, 1),  # the floor of 1
        (1, 1e-9, 1),
        (7, 1.0, 7),
        (1000, 0.0019999, 1),  # just below stays below
        (10**9, 0.1 - 1e-12, 99_999_999),
    ],
)
def test_n_hardest(n: int, beta: float, expected: int) -> None:
    assert n_beta(n, beta) == expected


def test_n_hardest_undoes_every_division() -> None:
    # Proposition 1 takes beta = U / n- and expects U back.
    n, u = np.meshgrid(np.arange(1, 1201), np.arange(1, 1201))
    n, u = n[u <= n], u[u <= n]
    assert np.array_equal(n_beta(n, u / n), u)
    assert not np.array_equal(np.floor(n * (u / n)), u)  # what a plain floor would do


@given(n=st.integers(1, 10**6), digits=st.integers(1, 10_000))
def test_n_hardest_agrees_with_exact_arithmetic_on_decimals(n: int, digits: int) -> None:
    beta = Fraction(digits, 10_000)
    assert n_beta(n, float(beta)) == max(1, math.floor(n * beta))


# ---- Eq. 4 -------------------------------------------------------------------------------------------------


def opauc_by_definition(positive: list[float], negative: list[float], beta: float) -> float:
    hard = sorted(negative, reverse=True)[: n_beta(len(negative), beta)]
    wrong = sum(p - n < 0 for p in positive for n in hard)
    return 1 - wrong / (len(positive) * len(hard))


@given(positive=lists_of_quarters, negative=lists_of_quarters, beta=betas)
def test_opauc_is_its_definition(positive: list[float], negative: list[float], beta: float) -> None:
    assert opauc(positive, negative, beta) == opauc_by_definition(positive, negative, beta)


@given(
    n_positives=st.integers(1, 30),
    n_negatives=st.integers(2, 60),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_opauc_is_sklearns_partial_auc(n_positives: int, n_negatives: int, share: float, seed: int) -> None:
    """Equal where ``beta * n-`` is whole and nothing ties: elsewhere scikit-learn interpolates the curve."""
    roc_auc_score = optional_package("sklearn.metrics").roc_auc_score
    hard = 1 + int(share * (n_negatives - 1))
    beta = hard / n_negatives
    ranks = np.random.default_rng(seed).permutation(n_positives + n_negatives).astype(float)
    labels = np.repeat([1, 0], [n_positives, n_negatives])
    standardized = roc_auc_score(labels, ranks, max_fpr=beta)
    if hard == n_negatives:
        area = standardized  # no standardization at max_fpr = 1
    else:
        least = beta**2 / 2
        area = least + (2 * standardized - 1) * (beta - least)  # McClish, undone
    assert opauc(ranks[:n_positives], ranks[n_positives:], beta) == pytest.approx(area / beta, abs=1e-9)


def test_a_tie_counts_as_correct() -> None:
    assert opauc([1.0], [1.0, 1.0], 1.0) == 1.0
    assert opauc([1.0], [np.nextafter(1.0, 2), 1.0], 1.0) == 0.5
    assert opauc([0.0], [-0.0], 1.0) == 1.0


def test_opauc_takes_infinities_and_the_hardest_negatives_only() -> None:
    assert opauc([0.0], [-np.inf, np.inf, -1.0, -2.0], 0.25) == 0.0
    assert opauc([0.0], [-np.inf, np.inf, -1.0, -2.0], 0.5) == 0.5
    assert opauc([0.0], [-np.inf, np.inf, -1.0, -2.0], 1.0) == 0.75


def test_opauc_falls_as_beta_falls() -> None:
    rng = np.random.default_rng(0)
    positive, negative = rng.normal(0.5, 1, 20), rng.normal(0, 1, 50)
    values = [opauc(positive, negative, n / 50) for n in range(1, 51)]
    assert values == sorted(values)
    assert values[0] < values[-1]


def test_opauc_of_each_is_opauc_of_one_after_the_other() -> None:
    rng = np.random.default_rng(1)
    positive, negative = rng.integers(0, 9, (40, 5)), rng.integers(0, 9, (40, 11))
    rows = [opauc(p, n, 0.4) for p, n in zip(positive, negative, strict=True)]
    assert opauc_of_each(positive, negative, 0.4).tolist() == rows


def test_opauc_of_a_large_user_needs_no_table_of_pairs() -> None:
    rng = np.random.default_rng(2)
    positive, negative = rng.normal(size=20_000), rng.normal(size=1_000_000)  # 10^9 hard pairs
    tracemalloc.start()
    try:
        value = opauc(positive, negative, 0.05)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    cut = np.sort(negative)[-50_000:]
    assert value == pytest.approx(np.searchsorted(cut, positive, side="right").mean() / 50_000)


# ---- Proposition 1 -----------------------------------------------------------------------------------------


@given(positive=lists_of_quarters, negative=lists_of_quarters, data=st.data(), margin=st.sampled_from([0.5, 2.0]))
def test_hard_sampling_is_the_hinge_surrogate_of_opauc(
    positive: list[float], negative: list[float], data: st.DataObject, margin: float
) -> None:
    u = data.draw(st.integers(1, len(negative)))
    loss = hard_sampling_loss(positive, negative, u, margin)
    scores = np.negative(positive), np.negative(negative)
    assert loss == pytest.approx(opauc_hinge_loss(*scores, u / len(negative), margin))

    nearest = sorted(negative)[:u]
    by_definition = sum(max(0.0, margin + p - n) for p in positive for n in nearest) / (len(positive) * u)
    assert loss == pytest.approx(by_definition)
    # The surrogate lies above what it stands for.
    assert loss >= margin * (1 - opauc(*scores, u / len(negative))) - 1e-12


def test_less_loss_is_not_more_opauc() -> None:
    """Why Proposition 1 is about the surrogate only: here the two prefer different models."""
    negatives = [1.0]
    steady, bold = [1.1, 1.1], [0.0, 9.0]
    assert hard_sampling_loss(steady, negatives, 1) < hard_sampling_loss(bold, negatives, 1)
    assert opauc(np.negative(steady), [-1.0], 1.0) < opauc(np.negative(bold), [-1.0], 1.0)


# ---- Theorem 2 ---------------------------------------------------------------------------------------------


def random_rankings(
    rng: np.random.Generator, rankings: int, n_positives: int, n_negatives: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of positives and negatives without ties, from hopeless to perfect."""
    lift = rng.choice([-1.0, 0.0, 1.0, 3.0], size=(rankings, 1))
    return rng.normal(size=(rankings, n_positives)) + lift, rng.normal(size=(rankings, n_negatives))


def hits_at(k: int, positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    order = np.argsort(-np.concatenate([positive, negative], axis=1), axis=1)[:, :k]
    return np.asarray((order < positive.shape[1]).sum(axis=1))


def test_theorem_2_on_100_000_rankings() -> None:
    rng = np.random.default_rng(2024)
    total = informative = tight = 0
    for _ in range(200):
        k = int(rng.integers(1, 9))
        n_positives, n_negatives = k + int(rng.integers(0, 12)), k + int(rng.integers(0, 25))
        hard = int(rng.integers(k, n_negatives + 1))
        positive, negative = random_rankings(rng, 500, n_positives, n_negatives)
        value = opauc_of_each(positive, negative, hard / n_negatives)
        hits = hits_at(k, positive, negative)
        bound = precision_lower_bound(value, n_positives, hard, k)
        assert np.all(hits / k >= bound)
        assert np.all(hits / n_positives >= recall_lower_bound(value, n_positives, hard, k))
        sharp = precision_lower_bound(value, n_positives, hard, k, sharp=True)
        assert np.all(hits / k >= sharp)
        assert np.all(sharp >= bound)
        total += len(hits)
        informative += int(np.sum(bound > 0))
        tight += int(np.sum((hits / k == bound) & (bound > 0) & (bound < 1)))
    assert total == 100_000
    # The bound must have had a chance to be wrong.
    assert informative > 10_000
    assert tight > 500


def test_theorem_2_also_holds_with_fewer_positives_than_places() -> None:
    rng = np.random.default_rng(5)
    informative = 0
    for _ in range(60):
        k = int(rng.integers(2, 9))
        n_positives, n_negatives = int(rng.integers(1, k)), k + int(rng.integers(0, 20))
        hard = int(rng.integers(k, n_negatives + 1))
        positive, negative = random_rankings(rng, 200, n_positives, n_negatives)
        value = opauc_of_each(positive, negative, hard / n_negatives)
        bound = precision_lower_bound(value, n_positives, hard, k, sharp=True)
        assert np.all(hits_at(k, positive, negative) / k >= bound)
        informative += int(np.sum(bound > 0))
    assert informative > 1000


def test_theorem_2_needs_as_many_hard_negatives_as_places() -> None:
    """The counter-example: - - - + + + with N_beta = 1 < N = 3."""
    positive, negative = [3.0, 2.0, 1.0], [6.0, 5.0, 4.0]
    value = opauc(positive, negative, 1 / 3)
    assert n_beta(3, 1 / 3) == 1
    assert value == 0.0
    assert hits_at(3, np.array([positive]), np.array([negative])).tolist() == [0]
    # floor((3 + 3 - sqrt(0 + 4 * 3 * 1 * 1)) / 2) = floor(1.27) = 1 hit promised, none there.
    assert precision_lower_bound(value, 3, 1, 3, check=False) == pytest.approx(1 / 3)
    assert recall_lower_bound(value, 3, 1, 3, check=False) == pytest.approx(1 / 3)
    with pytest.raises(ParameterError, match="larger beta"):
        precision_lower_bound(value, 3, 1, 3)
    # With N_beta = N the same ranking is no exception.
    assert precision_lower_bound(opauc(positive, negative, 1.0), 3, 3, 3) == 0.0


def test_theorem_2_needs_ties_in_the_positives_favor() -> None:
    """All scores equal: OPAUC is 1, a perfect list is promised, and the negatives may still come first."""
    positive, negative = [0.0, 0.0], [0.0, 0.0]
    assert precision_lower_bound(opauc(positive, negative, 1.0), 2, 2, 2) == 1.0
    first_two = np.argsort(np.negative([*negative, *positive]), kind="stable")[:2]
    assert np.sum(first_two >= len(negative)) == 0  # hits
    # A hair in the positives' favor restores the theorem, a hair against them shows in OPAUC.
    assert precision_lower_bound(opauc([1e-9, 1e-9], negative, 1.0), 2, 2, 2) == 1.0
    assert precision_lower_bound(opauc([-1e-9, -1e-9], negative, 1.0), 2, 2, 2) == 0.0


@pytest.mark.parametrize(("n_positives", "n_negatives"), [(3, 4), (4, 4), (2, 6), (5, 3)])
def test_the_sharp_bound_is_tight(n_positives: int, n_negatives: int) -> None:
    """Over ALL rankings: the fewest hits that an OPAUC allows are exactly the sharp bound."""
    size = n_positives + n_negatives
    chosen = np.array(list(itertools.combinations(range(size), n_positives)))
    is_positive = np.zeros((len(chosen), size), dtype=bool)
    np.put_along_axis(is_positive, chosen, True, axis=1)
    scores = np.arange(size, 0, -1.0) * np.ones((len(chosen), 1))
    positive = scores[is_positive].reshape(len(chosen), n_positives)
    negative = scores[~is_positive].reshape(len(chosen), n_negatives)
    for k in range(1, n_negatives + 1):
        hits = is_positive[:, :k].sum(axis=1)
        for hard in range(k, n_negatives + 1):
            value = opauc_of_each(positive, negative, hard / n_negatives)
            for one in np.unique(value):
                promised = precision_lower_bound(float(one), n_positives, hard, k, sharp=True) * k
                assert hits[value == one].min() == pytest.approx(promised)


def test_a_perfect_opauc_promises_everything() -> None:
    assert precision_lower_bound(1.0, 10, 7, 5) == 1.0
    assert recall_lower_bound(1.0, 10, 7, 5) == 0.5
    assert precision_lower_bound(0.0, 10, 100, 5) == 0.0


@given(
    n_positives=st.integers(1, 5000),
    extra=st.integers(0, 10**6),
    k=st.integers(1, 50),
    hits=st.integers(0, 50),
)
def test_rounding_does_not_lose_a_hit(n_positives: int, extra: int, k: int, hits: int) -> None:
    """Just as many wrong pairs as ``hits`` hits allow must promise ``hits`` hits, not one less."""
    assume(hits <= min(k, n_positives))
    hard = k + extra
    wrong = (n_positives - hits) * (k - hits)
    value = 1.0 - wrong / (n_positives * hard)
    assert precision_lower_bound(value, n_positives, hard, k) == hits / k
    assert precision_lower_bound(value, n_positives, hard, k, sharp=True) == hits / k


def test_bounds_take_arrays_of_users() -> None:
    value, positives, hard = np.array([0.95, 1.0]), np.array([10, 4]), np.array([20, 6])
    each = [precision_lower_bound(0.95, 10, 20, 5), precision_lower_bound(1.0, 4, 6, 5)]
    assert precision_lower_bound(value, positives, hard, 5).tolist() == each
    assert recall_lower_bound(value, positives, hard, 5).tolist() == [0.3, 1.0]


# ---- Theorem 1: the formula and its warnings; nothing here claims that the bound is verified ---------------


def test_effective_sample_size_is_the_formula() -> None:
    inner = (4 + 3) ** 2 / 2 + 2 / 4 * ((1 / 2 + 1 / 8) + (1 / 4 + 1 / 6))
    assert effective_sample_size([2, 4], [8, 6], spread_weight=3, radius=0.5) == pytest.approx(
        (4 * 0.25 * math.sqrt(inner)) ** -2
    )


def test_generalization_bound_is_the_formula() -> None:
    counts = {"n_positives": [5] * 9000, "n_negatives": [995] * 9000}
    size = effective_sample_size(**counts, spread_weight=1, radius=0.7)
    assert generalization_bound(**counts, dim=16, spread_weight=1, radius=0.7) == pytest.approx(
        math.sqrt(2 * 16 * math.log(3 * 0.7 * size) / size)
    )


def test_generalization_bound_is_vacuous_at_the_sizes_of_the_paper() -> None:
    steam: dict[str, Any] = {"n_positives": [18] * 3757, "n_negatives": [5095] * 3757, "dim": 100}
    assert generalization_bound(**steam, spread_weight=10) == pytest.approx(14.6, abs=0.05)
    largest_loss = 1 + 4  # margin + 4 r^2, all that the loss can reach without the regularization
    assert generalization_bound(**steam, spread_weight=0) > largest_loss
    assert generalization_log10_failure(**steam, spread_weight=10) > 200
    assert generalization_bound(**steam, spread_weight=30) == math.inf
    assert generalization_log10_failure(**steam, spread_weight=30) == math.inf


# ---- Lemmas 2 and 3, Theorem 3 -----------------------------------------------------------------------------


@given(values=lists_of_quarters, data=st.data())
def test_lemma_2_holds_exactly_where_the_kth_value_is_not_negative(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    ordered = sorted(values, reverse=True)
    top, dual = average_top_k(values, k), average_top_k_dual(values, k)
    assert top == pytest.approx(sum(ordered[:k]) / k)
    assert (abs(dual - top) < 1e-12) == (ordered[k - 1] >= 0)
    assert average_top_k_dual(values, k, signed=True) == pytest.approx(top)
    # The minimum of a convex piecewise linear function lies at a corner: try them all.
    corners = [gamma for gamma in [0.0, *values] if gamma >= 0]
    assert dual == pytest.approx(min(gamma + sum(max(0.0, z - gamma) for z in values) / k for gamma in corners))


@given(values=st.lists(quarters.map(abs), min_size=1, max_size=12), data=st.data())
def test_lemma_2_is_an_identity_for_values_that_are_not_negative(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    assert average_top_k_dual(values, k) == pytest.approx(average_top_k(values, k))
    elsewhere = data.draw(st.floats(0, 12))
    assert average_top_k_dual(values, k, elsewhere) >= average_top_k(values, k) - 1e-9


def test_lemma_2_fails_for_negative_values() -> None:
    assert average_top_k([-1.0, -2.0], 1) == -1.0
    assert average_top_k_dual([-1.0, -2.0], 1) == 0.0
    for gamma in np.linspace(0, 3, 31):
        assert average_top_k_dual([-1.0, -2.0], 1, float(gamma)) >= 0.0


@given(constant=quarters, score=quarters, threshold=quarters)
def test_lemma_3_needs_only_a_threshold_that_is_not_negative(constant: float, score: float, threshold: float) -> None:
    nested, flat = nested_hinge(constant, score, threshold), flat_hinge(constant, score, threshold)
    assert nested == max(0.0, max(0.0, constant - score) - threshold)
    assert flat == max(0.0, constant - threshold - score)
    # Below 0 it fails as soon as the inner hinge cuts something off.
    assert (nested == flat) == (threshold >= 0 or constant >= score)


@given(positive=lists_of_quarters, negative=lists_of_quarters, data=st.data())
def test_theorem_3(positive: list[float], negative: list[float], data: st.DataObject) -> None:
    u = data.draw(st.integers(1, len(negative)))
    loss = hard_sampling_loss(positive, negative, u, 0.75)
    assert differentiable_hard_sampling_loss(positive, negative, u, 0.75) == pytest.approx(loss)
    size = len(positive)
    gamma = np.array(data.draw(st.lists(quarters.map(abs), min_size=size, max_size=size)))
    elsewhere = differentiable_hard_sampling_loss(positive, negative, u, 0.75, gamma)
    assert elsewhere >= loss - 1e-12
    # As training writes it, with Lemma 3 applied.
    flat = flat_hinge(0.75 + np.array(positive)[:, None], negative, gamma[:, None])
    assert elsewhere == pytest.approx(np.mean(gamma + flat.sum(axis=1) / u))


# ---- bad input ---------------------------------------------------------------------------------------------

users: dict[str, Any] = {"n_positives": [3], "n_negatives": [5]}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: n_beta(10, 0.0), r"beta is 0.0.*\(0, 1\]"),
        (lambda: n_beta(10, 1.5), "beta is 1.5"),
        (lambda: n_beta(10, math.nan), "beta is nan"),
        (lambda: n_beta(0, 0.5), "n_negatives is 0"),
        (lambda: n_beta(2.5, 0.5), "whole numbers"),  # type: ignore[call-overload]
        (lambda: n_beta(np.array([3, 4]), np.array([0.5, -1.0])), "beta"),
        (lambda: opauc([], [1.0], 0.5), r"positive_scores has shape \(0,\)"),
        (lambda: opauc([1.0], [], 0.5), "negative_scores"),
        (lambda: opauc([[1.0]], [1.0], 0.5), "flat list"),
        (lambda: opauc([1.0, math.nan], [1.0], 0.5), "1 NaN of 2 values, the first at position 1"),
        (lambda: opauc([1.0], [1.0], 2.0), "beta is 2.0"),
        (lambda: opauc_of_each([[1.0]], [[1.0], [2.0]], 0.5), "1 rankings.* 2"),
        (lambda: opauc_of_each([1.0], [[1.0]], 0.5), "one row per ranking"),
        (lambda: opauc_hinge_loss([math.inf], [1.0], 0.5), "infinite"),
        (lambda: opauc_hinge_loss([1.0], [1.0], 0.5, margin=0.0), "margin is 0.0"),
        (lambda: hard_sampling_loss([1.0], [1.0], 2), "hardest is 2.*from 1 to 1"),
        (lambda: hard_sampling_loss([1.0], [1.0], 0), "hardest is 0"),
        (lambda: differentiable_hard_sampling_loss([1.0], [1.0], 1, thresholds=[-1.0]), "smallest value -1"),
        (
            lambda: differentiable_hard_sampling_loss([1.0], [1.0], 1, thresholds=[1.0, 2.0]),
            "the 1 positives",
        ),
        (lambda: average_top_k([1.0, 2.0], 3), "k is 3.*from 1 to 2"),
        (lambda: average_top_k([1.0, 2.0], 1.0), "k is 1.0"),  # type: ignore[arg-type]
        (lambda: average_top_k_dual([1.0], 0), "k is 0"),
        (lambda: average_top_k_dual([1.0], 1, -1.0), "threshold is -1.0"),
        (lambda: precision_lower_bound(1.5, 3, 5, 2), "opauc is 1.5"),
        (lambda: precision_lower_bound(math.nan, 3, 5, 2), "opauc is nan"),
        (lambda: precision_lower_bound(0.5, 0, 5, 2), "n_positives is 0"),
        (lambda: recall_lower_bound(0.5, 3, 1, 2), "n_hard is 1 and k is 2"),
        (lambda: effective_sample_size([0], [5], spread_weight=1), "n_positives"),
        (lambda: effective_sample_size([1, 2], [5], spread_weight=1), "2 users and n_negatives 1"),
        (lambda: effective_sample_size([1], [5], spread_weight=-1), "spread_weight is -1"),
        (lambda: effective_sample_size([1], [5], spread_weight=1, radius=0), "radius is 0"),
        (lambda: generalization_bound(**users, dim=0, spread_weight=1), "dim is 0"),
    ],
)
def test_bad_input_says_what_was_given(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(ParameterError, match=words):
        call()
