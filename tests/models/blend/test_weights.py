"""The choice of a blend's weights: accuracy as `evaluate` measures it, and properties of the weights found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.given_scores import Given

from tastespace import (
    EASE,
    MostPopular,
    evaluate,
    split,
    synthetic,
)
from tastespace.errors import DataError
from tastespace.models import ItemKNN
from tastespace.models.blend.weights import (
    MINORITY_WEIGHT,
    Accuracy,
    CandidateScores,
    best_weights,
)


@pytest.fixture(scope="module")
def parts():
    town = synthetic.multi_interest(n_users=90, n_items=70, n_interactions=1800, seed=5).interactions
    return split.per_user(town, (0.6, 0.2, 0.2), seed=0)


@pytest.fixture(scope="module")
def members(parts):
    return [EASE(regularization=30.0).fit(parts[0]), ItemKNN().fit(parts[0]), MostPopular().fit(parts[0])]


@pytest.fixture(scope="module")
def scores(parts, members):
    return CandidateScores.of(members, parts[1])


def test_accuracy_of_a_member_is_that_of_evaluate(scores, members, parts):
    for at, member in enumerate(members):
        found = scores.accuracy(scores.scores[at])
        expected = evaluate(member, parts[1], seen=parts[0], metrics=["NDCG@10", "R@20"])
        assert found.ndcg == pytest.approx(expected["NDCG@10"], abs=1e-6)
        assert found.recall == pytest.approx(expected["R@20"], abs=1e-6)
        assert np.isnan(found.minority)


def test_the_accuracy_of_a_large_catalog_is_exact_for_members():
    """Only the first 100 of each member and the held-out items are ranked; the first 20 count."""
    town = synthetic.multi_interest(n_users=40, n_items=500, n_interactions=1600, seed=6).interactions
    train, valid, _ = split.per_user(town, seed=0)
    members = [EASE(regularization=30.0).fit(train), MostPopular().fit(train)]
    scores = CandidateScores.of(members, valid)
    assert scores.items.shape[1] < train.n_items
    for at, member in enumerate(members):
        expected = evaluate(member, valid, seen=train, metrics=["NDCG@10", "R@20"])
        assert scores.accuracy(scores.scores[at])[:2] == pytest.approx(
            [expected["NDCG@10"], expected["R@20"]], abs=1e-6
        )


def test_candidates_hold_held_out_items_and_nothing_of_training(scores, parts):
    train, valid = parts[:2]
    for at, user in enumerate(scores.users):
        items = scores.items[at][scores.items[at] >= 0]
        assert (np.diff(items) > 0).all()
        assert not set(items) & set(train.indices[train.offsets[user] : train.offsets[user + 1]])
        places = scores.test_places[scores.test_offsets[at] : scores.test_offsets[at + 1]]
        held_out = valid.indices[valid.offsets[user] : valid.offsets[user + 1]]
        np.testing.assert_array_equal(scores.items[at, places], held_out)


def test_recall_of_minorities_counts_half_where_it_is_known(scores):
    assert Accuracy(0.2, 0.4).objective == pytest.approx((0.2 * 0.4) ** (1 / 2))
    assert Accuracy(0.2, 0.4, 0.1).objective == pytest.approx((0.2 * 0.4 * 0.1**0.5) ** (1 / 2.5))
    assert Accuracy(0.2, 0.4, 0.1).plain == Accuracy(0.2, 0.4).objective
    assert MINORITY_WEIGHT == 0.5
    rng = np.random.default_rng(0)
    minority = rng.random(len(scores.test_places)) < 0.3
    known = replace(scores, is_minority=minority)
    ranks, found = known.ranks(known.scores[0]), []
    for first, last in zip(known.test_offsets[:-1], known.test_offsets[1:], strict=True):
        mine = minority[first:last]
        if mine.any():
            found.append((ranks[first:last][mine] <= 20).mean())
    assert known.accuracy(known.scores[0]).minority == pytest.approx(np.mean(found))
    np.testing.assert_allclose(known.minority_recalls(known.scores[0]), found)


def test_accuracy_below_the_best_member_costs_more_than_minorities_gain():
    floor = Accuracy(0.2, 0.4, 0.1)
    assert Accuracy(0.21, 0.4, 0.1).objective_above(floor) == Accuracy(0.21, 0.4, 0.1).objective
    assert Accuracy(0.198, 0.4, 0.11).objective_above(floor) < floor.objective_above(floor)
    assert Accuracy(0.2, 0.396, 0.11).objective_above(floor) < floor.objective_above(floor)
    assert Accuracy(0.2, 0.4, 0.11).objective_above(floor) > floor.objective_above(floor)
    assert Accuracy(0.1, 0.1).objective_above(Accuracy(0.0, 0.0)) == pytest.approx(0.1)


def test_ranks_are_those_of_sorting(scores):
    total = scores.scores[0]
    ranks = scores.ranks(total)
    for at in range(len(scores.users)):
        n = int((scores.items[at] >= 0).sum())
        order = np.argsort(-total[at, :n], kind="stable")
        position = np.empty(n, dtype=np.int64)
        position[order] = np.arange(1, n + 1)
        mine = slice(scores.test_offsets[at], scores.test_offsets[at + 1])
        np.testing.assert_array_equal(ranks[mine], position[scores.test_places[mine]])


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 4), st.floats(0.0, 2.0))
def test_chosen_weights_are_never_worse_than_any_member(parts, seed, n_members, noise):
    rng = np.random.default_rng(seed)
    truth = parts[1].matrix.toarray()
    tables = [rng.random() * truth + noise * rng.standard_normal(truth.shape) for _ in range(n_members)]
    scores = CandidateScores.of([Given(table).fit(parts[0]) for table in tables], parts[1], threads=1)
    weights = best_weights(scores)
    assert weights.shape == (n_members,)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0)
    best = max(scores.accuracy(own).objective for own in scores.scores)
    assert scores.accuracy(scores.mixed(weights)).objective >= best - 1e-9


def test_members_that_know_different_halves_are_both_used(parts):
    rng = np.random.default_rng(1)
    truth = parts[1].matrix.toarray()
    half = rng.random(truth.shape) < 0.5
    tables = [truth * half, truth * ~half]
    members = [Given(table + 0.01 * rng.standard_normal(truth.shape)).fit(parts[0]) for table in tables]
    weights = best_weights(CandidateScores.of(members, parts[1]))
    assert (weights > 0.2).all()


def test_an_only_member_has_all_the_weight(parts, members):
    np.testing.assert_array_equal(best_weights(CandidateScores.of(members[:1], parts[1])), [1.0])


def test_some_members_only(scores):
    some = scores.of_members([2, 0])
    np.testing.assert_array_equal(some.scores, scores.scores[[2, 0]])
    np.testing.assert_array_equal(some.items, scores.items)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_every_number_of_threads_gives_the_same_weights(parts, members, threads):
    one, several = (CandidateScores.of(members, parts[1], threads=n) for n in (1, threads))
    np.testing.assert_array_equal(one.scores, several.scores)
    np.testing.assert_array_equal(best_weights(one), best_weights(several))


def test_blocks_of_users_change_nothing(parts, members, scores, monkeypatch):
    monkeypatch.setattr("tastespace.models.blend.weights._SCORES_AT_ONCE", 5 * parts[0].n_items)
    again = CandidateScores.of(members, parts[1])
    np.testing.assert_array_equal(again.scores, scores.scores)
    np.testing.assert_array_equal(again.items, scores.items)


def test_held_out_data_that_does_not_fit_is_refused(parts, members):
    other = synthetic.multi_interest(n_users=10, n_items=20, n_interactions=60).interactions
    with pytest.raises(DataError, match="other users or items"):
        CandidateScores.of(members, other)
