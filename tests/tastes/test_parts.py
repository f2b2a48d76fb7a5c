"""Scores split by taste: totals and the strongest taste against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace.tastes import TasteParts

COUNTS = [2, 1, 4, 0, 3]
"""Tastes of each user of a block; one has none left."""


@pytest.fixture(params=["a number for each user", "a number for each item"])
def parts(request):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((sum(COUNTS), 37)).astype(np.float32)
    values[:2, :5] = 0.5  # equal parts
    added = rng.standard_normal((len(COUNTS), 1 if "user" in request.param else 37)).astype(np.float32)
    return TasteParts(np.concatenate([[0], np.cumsum(COUNTS)]), values, added)


def scored_by_loops(parts, focus, factors):
    scores = np.zeros((len(COUNTS), 37))
    strongest = np.zeros((len(COUNTS), 37), dtype=int)
    for user in range(len(COUNTS)):
        rows = range(parts.first[user], parts.first[user + 1])
        for item in range(37):
            said = [factors[row] * float(parts.values[row, item]) for row in rows]
            left = [one for one, row in zip(said, rows, strict=True) if factors[row] != 0]
            if left:
                scores[user, item] = (1 - focus) * sum(left) + focus * max(left)
                strongest[user, item] = next(x for x, one in enumerate(said) if one == max(left) and factors[rows[x]])
    return scores + parts.added, strongest


@pytest.mark.parametrize("focus", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("choice", ["none", "boosted", "muted", "all muted"])
def test_scores_are_those_of_loops(parts, focus, choice):
    one = TasteParts(parts.first, parts.values, parts.added, focus)
    factors = np.ones(len(parts.values))
    if choice != "none":
        factors = np.random.default_rng(1).uniform(0.1, 4.0, len(factors))
    if choice == "muted":
        factors[[0, 4, 8]] = 0.0
    if choice == "all muted":
        factors[:] = 0.0
    expected, strongest = scored_by_loops(one, focus, factors)
    found, numbers = one.scored(None if choice == "none" else factors)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert found.dtype == np.float32
    if choice != "all muted":
        some = [0, 1, 2, 4]  # of users with a taste
        np.testing.assert_array_equal(numbers[some], strongest[some])
    np.testing.assert_array_equal(one.totals(None if choice == "none" else factors), found)
    np.testing.assert_array_equal(one.strongest(None if choice == "none" else factors), numbers)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_every_number_of_threads_gives_the_same_bits(threads):
    rng = np.random.default_rng(2)
    first = np.concatenate([[0], np.cumsum(rng.integers(1, 6, 200))])
    values = rng.standard_normal((first[-1], 300)).astype(np.float32)
    parts = TasteParts(first, values, np.zeros((200, 1), np.float32), focus=0.4)
    factors = rng.uniform(0, 2, first[-1])
    for one, several in zip(parts.scored(factors), parts.scored(factors, threads=threads), strict=True):
        np.testing.assert_array_equal(one, several)


def test_an_empty_block():
    parts = TasteParts(np.zeros(1, np.int64), np.zeros((0, 7), np.float32), np.zeros((0, 1), np.float32))
    assert parts.totals().shape == parts.strongest().shape == (0, 7)
