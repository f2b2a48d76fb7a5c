"""Samplers: distributions by chi-square, true and distinct negatives, crowded users, reproducible pieces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare
from tests.training.reference import SEED, DpcmlKernel, from_lists, random_lists

from tastespace import DPCML
from tastespace.errors import ParameterError
from tastespace.training import samplers
from tastespace.training.samplers import (
    SAMPLERS,
    NegativeDrawer,
    alias_table,
    find_sampler,
    popularity_weights,
)

MANY = 40_000
PLAUSIBLE = 1e-4  # all draws are seeded: a test that passes once passes always


def a_village(n_items=12):
    """Items of very unequal popularity (item 11 has nobody); user 0 has three of them."""
    rng = np.random.default_rng(3)
    rows = [[1, 4, 7]]
    for _ in range(40):
        rows.append([i for i in range(n_items - 1) if rng.random() < 0.9 / (1 + i)])
    return from_lists(rows, n_items)


def probabilities(train, power, user=0):
    """Of each item to be drawn first for a user."""
    weights = popularity_weights(train, power) if power is not None else np.ones(train.n_items)
    weights[train.indices[train.offsets[user] : train.offsets[user + 1]]] = 0
    return weights / weights.sum()


def assert_follows(counts, expected):
    possible = expected > 0
    assert counts[~possible].sum() == 0
    assert chisquare(counts[possible], expected[possible] * counts.sum()).pvalue > PLAUSIBLE


# ---- distributions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [None, 0.0, 0.5, 1.0, 2.0])
def test_first_and_second_draw_follow_the_weights(power):
    train = a_village()
    drawn = NegativeDrawer(train, popularity_power=power, seed=1).draw(np.zeros(MANY, np.int32), n=2)
    first = probabilities(train, power)
    assert_follows(np.bincount(drawn[:, 0], minlength=12), first)
    # Without replacement, one after the other: the second is drawn from what the first left.
    pairs = np.where(np.eye(12), 0, np.outer(first, first) / np.maximum(1 - first, 1e-300)[:, None])
    counts = np.zeros((12, 12))
    np.add.at(counts, (drawn[:, 0], drawn[:, 1]), 1)
    busy = pairs * MANY > 5
    assert counts[pairs == 0].sum() == 0
    statistic = np.sum((counts - pairs * MANY)[busy] ** 2 / (pairs * MANY)[busy])
    assert chi2.sf(statistic, busy.sum() - 1) > PLAUSIBLE


@pytest.mark.parametrize("n", [4, 6, 9])
def test_uniform_sets_of_every_size_are_uniform(n):
    """Crowded (more than half the catalog taken or wanted) or not, each negative is as likely as the next."""
    train = a_village()
    drawn = NegativeDrawer(train, seed=2).draw(np.zeros(MANY // 4, np.int32), n=n)
    for column in range(n):
        assert_follows(np.bincount(drawn[:, column], minlength=12), probabilities(train, None))


def test_popularity_of_a_user_who_has_nearly_all_that_is_popular():
    """What is left is still drawn by its popularity, and an item that nobody has never comes before one that has."""
    rows = [[0, 1, 2]] + [[0, 1, 2]] * 3000 + [[3]] * 12 + [[4]] * 6 + [[5]] * 2
    train = from_lists(rows, 400)
    drawn = NegativeDrawer(train, popularity_power=1.0, seed=4).draw(np.zeros(MANY // 4, np.int32), n=2)
    assert_follows(np.bincount(drawn[:, 0], minlength=400), probabilities(train, 1.0))
    assert drawn.max() <= 5


@pytest.mark.parametrize(("sampler", "power"), [("unis", None), ("hars", None), ("ndihars", None), ("dihars", None)])
def test_the_kernel_draws_uniform_negatives(sampler, power):
    assert_follows(first_negatives(sampler, 1.0), probabilities(a_village(), power))


@pytest.mark.parametrize("sampler", ["pops", "2sts"])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_the_kernel_draws_negatives_by_popularity(sampler, power):
    assert_follows(first_negatives(sampler, power), probabilities(a_village(), power))


def first_negatives(sampler, power):
    model = DPCML(dim=2, n_interests=1, sampler=sampler, n_negatives=3, popularity_power=power, beta=0.3)
    kernel = DpcmlKernel(model, a_village())
    return np.bincount([kernel.step(0, epoch).negatives[0] for epoch in range(4000)], minlength=12)


def test_samplers_have_the_documented_kinds():
    names = ["uniform", "popularity", "two-stage", "hard", "hard-sorted", "hard-differentiable"]
    assert list(SAMPLERS) == names
    paper_names = [kind.paper_name for kind in SAMPLERS.values()]
    assert paper_names == ["UniS", "PopS", "2stS", "HarS", "NDiHarS", "DiHarS"]
    for name, paper_name in zip(names, paper_names, strict=True):
        for spelling in (name, name.upper(), paper_name, paper_name.lower()):
            assert find_sampler(spelling) is SAMPLERS[name]
    assert {name for name, kind in SAMPLERS.items() if kind.by_popularity} == {"popularity", "two-stage"}
    assert {name for name, kind in SAMPLERS.items() if kind.uses_beta} == {"hard-sorted", "hard-differentiable"}
    assert all(kind.paper_name in samplers.__doc__ for kind in SAMPLERS.values())
    assert all(name in samplers.__doc__ for name in SAMPLERS)
    with pytest.raises(ParameterError, match=r"sampler='har': expected one of uniform, .* Did you mean hars or hard"):
        find_sampler("har")


# ---- true, distinct negatives ------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([None, 0.0, 1.0]))
def test_negatives_are_true_distinct_and_as_many_as_there_are(seed, n, power):
    train = random_lists([0, 1, 5, 10, 13, 14, 15], 15, seed)
    users = np.repeat(np.arange(7, dtype=np.int32), 3)
    drawn = NegativeDrawer(train, popularity_power=power, seed=seed, n_threads=1).draw(users, n)
    assert drawn.shape == (21, n)
    for user, row in zip(users, drawn, strict=True):
        real = row[row >= 0]
        assert len(real) == min(n, 15 - train.user_counts[user])
        assert (row[len(real) :] == -1).all()
        assert len(set(real)) == len(real)
        assert not set(real) & set(train.indices[train.offsets[user] : train.offsets[user + 1]])


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("n_negatives", [1, 7, 100])
def test_negatives_of_the_kernel_are_true_and_distinct(sampler, n_negatives):
    train = random_lists([1, 5, 13, 14], 15)
    model = DPCML(
        dim=3, n_interests=2, sampler=sampler, n_negatives=n_negatives, n_hardest=min(3, n_negatives), beta=0.2
    )
    kernel = DpcmlKernel(model, train)
    for positive, user in enumerate(train.row_of_each()):
        drawn = kernel.step(positive).negatives
        assert len(set(drawn)) == len(drawn) == min(n_negatives, 15 - train.user_counts[user])
        assert not set(drawn) & set(train.indices[train.offsets[user] : train.offsets[user + 1]])


def test_a_draw_depends_on_seed_epoch_and_positive_only():
    kernel = DpcmlKernel(
        DPCML(dim=3, n_interests=1, sampler="unis", n_negatives=10, seed=SEED), random_lists([5] * 8, 200)
    )
    draws = {(p, e): tuple(kernel.step(p, e).negatives) for p in range(20) for e in range(3)}
    assert len(set(draws.values())) == len(draws)
    assert all(tuple(kernel.step(p, e).negatives) == draw for (p, e), draw in reversed(draws.items()))


# ---- arrays of negatives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("power", [None, 1.0])
def test_pieces_equal_one_call(power, threads):
    train = random_lists([3, 9, 20, 29], 30)
    users = np.random.default_rng(0).integers(0, 4, 500).astype(np.int32)
    whole = NegativeDrawer(train, popularity_power=power, seed=7, n_threads=1).draw(users, n=6, epoch=2)
    source = NegativeDrawer(train, popularity_power=power, seed=7, n_threads=threads)
    edges = [0, 1, 130, 131, 500]
    pieces = [source.draw(users[a:b], n=6, epoch=2, first=a) for a, b in pairwise(edges)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    assert (source.draw(users, n=6, epoch=3) != whole).any()
    assert (NegativeDrawer(train, popularity_power=power, seed=8).draw(users, n=6, epoch=2) != whole).any()


def test_no_users_and_no_negatives():
    train = from_lists([[0, 1, 2], [1]], 3)
    assert NegativeDrawer(train).draw(np.array([], np.int32), n=4).shape == (0, 4)
    assert NegativeDrawer(train).draw([0, 1], n=2).tolist()[0] == [-1, -1]


@pytest.mark.parametrize(
    ("users", "n", "words"),
    [
        ([0], 0, "n=0: expected a number of negatives"),
        ([0], 2.0, "n=2.0: expected a number"),
        ([2], 1, "outside 0 ... 1"),
        ([-1], 1, "outside 0 ... 1"),
        ([2**32], 1, "outside 0 ... 1"),
        ([0.7], 1, "expected whole numbers"),
        ([[0]], 1, "expected whole numbers in one row"),
    ],
)
def test_bad_calls(users, n, words):
    with pytest.raises(ParameterError) as caught:
        NegativeDrawer(from_lists([[0], [1]], 3)).draw(np.array(users), n)
    assert words in str(caught.value)


# ---- weights and alias tables ------------------------------------------------------------------------------


def test_weights_are_powers_of_counts_and_zero_for_what_nobody_has():
    train = from_lists([[0, 1], [0, 1], [0], [0]], 3)
    for power in (0.0, 0.5, 1.0, 3.0):
        weights = popularity_weights(train, power)
        assert weights[0] / weights[1] == pytest.approx(2**power)
        assert weights[2] == 0
    assert np.isfinite(popularity_weights(random_lists([9] * 50, 20), 1e4)).all()


@pytest.mark.parametrize("power", [-1, float("nan"), float("inf")])
def test_powers_that_make_no_sense(power):
    with pytest.raises(ParameterError, match=r"popularity_power=.* expected a number, 0 or more"):
        popularity_weights(random_lists([3, 3], 8), power)


def alias_probabilities(keep, other):
    out = keep.astype(np.float64)
    np.add.at(out, other, 1 - keep.astype(np.float64))
    return out / len(keep)


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e6)), min_size=1, max_size=60).filter(any))
def test_alias_tables_give_the_weights_back(weights):
    weights = np.array(weights)
    keep, other = alias_table(weights)
    assert keep.dtype == np.float32
    assert other.dtype == np.int32
    assert ((keep >= 0) & (keep <= 1)).all()
    found = alias_probabilities(keep, other)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(found, weights / weights.sum(), rtol=0, atol=2e-7)
    assert (found[weights == 0] == 0).all()


def test_alias_table_of_a_long_tail():
    weights = (np.arange(50_000) + 1.0) ** -1.3
    weights[::7] = 0
    found = alias_probabilities(*alias_table(weights))
    np.testing.assert_allclose(found, weights / weights.sum(), rtol=2e-6, atol=2e-12)
    assert (found[::7] == 0).all()
