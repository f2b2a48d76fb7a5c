"""Each algorithm against a reference that follows the publication word by word and computes everything anew."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace.recommend.rerank import _algorithms as rerank_algorithms

WEIGHTS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


def greedy(size, k, value):
    """The plain loop: of equal values (but for rounding) the first."""
    chosen = []
    while len(chosen) < min(k, size):
        best, pick = -math.inf, None
        for j in range(size):
            if j not in chosen:
                now = value(j, chosen)
                if now > best + 1e-11:
                    best, pick = now, j
        chosen.append(pick)
    return chosen


def reference_bounded_greedy(relevance, distance, weight, k):
    def quality(j, chosen):
        diversity = sum(distance[j][i] for i in chosen) / len(chosen) if chosen else 1.0
        return (1 - weight) * relevance[j] + weight * diversity

    return greedy(len(relevance), k, quality)


def reference_mmr(relevance, similarity, weight, k):
    lam = 1 - weight

    def margin(j, chosen):
        return lam * relevance[j] - (1 - lam) * (max(similarity[j][i] for i in chosen) if chosen else 0.0)

    return greedy(len(relevance), k, margin)


def reference_dpp(relevance, similarity, weight, k):
    """The log-determinant of quality times similarity, for 0 < weight < 1."""
    theta = 1 - weight
    quality = np.exp(theta / (2 * (1 - theta)) * np.asarray(relevance))
    kernel = quality[:, None] * np.asarray(similarity) * quality[None, :]

    def volume(j, chosen):
        rows = [*chosen, j]
        return np.linalg.slogdet(kernel[np.ix_(rows, rows)])[1]

    return greedy(len(relevance), k, volume)


def divergence(target, shares_of_list, smoothing):
    """Steck's KL(p, q~)."""
    known = [row for row in shares_of_list if sum(row) > 0]
    total = 0.0
    for g, p in enumerate(target):
        q = sum(row[g] for row in known) / len(known) if known else 0.0
        if p > 0:
            total += p * math.log(p / ((1 - smoothing) * q + smoothing * p))
    return total


def reference_calibrated(relevance, shares, target, weight, k, smoothing):
    def worth(j, chosen):
        rows = [*chosen, j]
        gained = sum(relevance[i] for i in rows)
        return (1 - weight) * gained - weight * divergence(target, [shares[i] for i in rows], smoothing)

    return greedy(len(relevance), k, worth)


def points(rng, n, size, dim=6):
    """Random items: relevance, distances, and a similarity that is positive definite."""
    relevance = -np.sort(-rng.random((n, size)), axis=1)
    vectors = rng.normal(size=(n, size, dim))
    distance = np.linalg.norm(vectors[:, :, None] - vectors[:, None], axis=-1)
    return relevance, distance, np.exp(-(distance**2) / 12)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 12), st.integers(1, 14), st.sampled_from(WEIGHTS))
def test_pairwise_algorithms_choose_what_the_references_choose(seed, n, size, k, weight):
    relevance, distance, similarity = points(np.random.default_rng(seed), n, size)
    pairs = [
        (rerank_algorithms.bounded_greedy, reference_bounded_greedy, distance),
        (rerank_algorithms.maximal_marginal_relevance, reference_mmr, similarity - 0.3),  # some below 0
    ]
    if 0 < weight < 1:
        pairs.append((rerank_algorithms.determinantal, reference_dpp, similarity))
    for fast, slow, table in pairs:
        found = fast(relevance, table, weight, k)
        assert found.tolist() == [slow(relevance[u], table[u], weight, k) for u in range(n)], fast.__name__


def test_pure_diversity_of_a_determinantal_process_is_the_largest_volume():
    relevance, _, similarity = points(np.random.default_rng(5), 3, 10)

    def volume(u):
        return lambda j, chosen: np.linalg.slogdet(similarity[u][np.ix_([*chosen, j], [*chosen, j])])[1]

    found = rerank_algorithms.determinantal(relevance, similarity, 1.0, 6)
    assert found.tolist() == [greedy(10, 6, volume(u)) for u in range(3)]


@given(
    st.integers(0, 10**6),
    st.integers(1, 10),
    st.integers(1, 5),
    st.integers(1, 12),
    st.sampled_from(WEIGHTS),
    st.sampled_from([0.01, 0.2]),
)
def test_calibrated_chooses_what_the_reference_chooses(seed, size, n_categories, k, weight, smoothing):
    rng = np.random.default_rng(seed)
    relevance = -np.sort(-rng.random((3, size)), axis=1)
    member = rng.random((3, size, n_categories)) < 0.4  # several categories, one, or none
    shares = member / np.maximum(1, member.sum(axis=2, keepdims=True))
    target = rng.random((3, n_categories)) * (rng.random((3, n_categories)) < 0.7)
    target /= np.maximum(target.sum(axis=1, keepdims=True), 1e-9)
    target[2] = 0.0  # a user of whom nothing is known
    found = rerank_algorithms.calibrated(relevance, shares, target, weight, k, smoothing)
    assert found.tolist() == [
        reference_calibrated(relevance[u], shares[u], target[u], weight, k, smoothing) for u in range(3)
    ]


def run(name, relevance, table, weight, k):
    if name == "calibrated":
        return rerank_algorithms.calibrated(
            relevance, table, np.full((len(relevance), table.shape[2]), 0.25), weight, k
        )
    return getattr(rerank_algorithms, name)(relevance, table, weight, k)


ALL = ("bounded_greedy", "maximal_marginal_relevance", "determinantal", "calibrated")


def tables(rng, n, size):
    relevance, distance, similarity = points(rng, n, size)
    shares = np.eye(4)[rng.integers(0, 4, (n, size))]
    return relevance, dict(zip(ALL, (distance, similarity, similarity, shares), strict=True))


@pytest.mark.parametrize("name", ALL)
def test_short_pools_end_in_minus_one_and_do_not_feel_their_padding(name):
    relevance, table = tables(np.random.default_rng(3), 4, 9)
    sizes = [9, 5, 1, 0]
    padded = np.where(np.arange(9) < np.array(sizes)[:, None], relevance, -np.inf)
    for weight in WEIGHTS:
        found = run(name, padded, table[name], weight, 7)
        assert found.shape == (4, 7)
        for u, size in enumerate(sizes):
            own = table[name][u : u + 1, :size]
            own = own if name == "calibrated" else own[:, :, :size]
            alone = run(name, relevance[u : u + 1, :size], own, weight, 7)[0].tolist() if size else []
            assert found[u].tolist() == alone + [-1] * (7 - min(7, size)), (weight, size)


@pytest.mark.parametrize("name", ALL)
def test_no_weight_keeps_the_order_and_equal_values_go_by_place(name):
    relevance, table = tables(np.random.default_rng(4), 3, 8)
    assert (run(name, relevance, table[name], 0.0, 8) == np.arange(8)).all()
    same = np.ones_like(table[name])
    same = same / same.shape[2] if name == "calibrated" else same
    for weight in WEIGHTS:
        assert (run(name, np.full((3, 8), 0.5), same, weight, 8) == np.arange(8)).all(), weight


def test_duplicates_come_last_in_a_determinantal_process_and_by_relevance():
    vectors = np.eye(3)[[0, 0, 1, 1, 2, 0]]
    similarity = (vectors @ vectors.T)[None]
    relevance = np.array([[1.0, 0.9, 0.5, 0.4, 0.1, 0.0]])
    assert rerank_algorithms.determinantal(relevance, similarity, 0.2, 6).tolist() == [[0, 2, 4, 1, 3, 5]]
    assert rerank_algorithms.determinantal(relevance, similarity, 0.0, 6).tolist() == [[0, 1, 2, 3, 4, 5]]


def test_a_first_place_is_relevance_for_bounded_greedy_unless_weight_is_one():
    relevance = np.array([[0.2, 0.9]])  # not in order: the algorithm looks at values
    apart = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    assert rerank_algorithms.bounded_greedy(relevance, apart, 0.9, 1).tolist() == [[1]]
    assert rerank_algorithms.bounded_greedy(relevance, apart, 1.0, 1).tolist() == [[0]]


def test_unit_range_is_linear_per_pool_and_survives_odd_numbers():
    given = np.array([[4.0, 3.0, 0.0, np.nan], [7.0, 7.0, np.nan, np.nan], [np.inf, 2.0, 1.0, -np.inf]])
    expected = [[1.0, 0.75, 0.0, -np.inf], [1.0, 1.0, -np.inf, -np.inf], [1.0, 1.0, 0.0, 0.0]]
    assert rerank_algorithms.unit_range(given).tolist() == expected
    assert rerank_algorithms.unit_range(np.array([[np.inf, -np.inf]])).tolist() in ([[1.0, 0.0]], [[1.0, 1.0]])
    assert rerank_algorithms.unit_range(np.array([[np.nan]])).tolist() == [[-np.inf]]
    for scale, shift in ((3.0, -8.0), (1e-3, 1e3)):
        scores = np.array([[0.9, 0.4, 0.1]])
        assert np.allclose(rerank_algorithms.unit_range(scores * scale + shift), rerank_algorithms.unit_range(scores))
