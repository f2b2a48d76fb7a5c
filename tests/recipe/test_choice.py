"""The choice of the blend: members, weights, minority, balance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tastespace import (
    CML,
    DPCML,
    EASE,
    Blend,
    MostPopular,
    evaluate,
    split,
)
from tastespace.data.attributes import category_column, item_categories
from tastespace.models import SparseEASE
from tastespace.models.blend.weights import CandidateScores, best_weights
from tastespace.recipe import _choice as choice_module
from tastespace.recipe._choice import choose
from tastespace.recipe._trials import Budget, Family, run_trials


def trials_of(train, held_out, *models):
    families = [Family(f"{at}", iter_once(model)) for at, model in enumerate(models)]
    return run_trials(families, train, held_out, Budget(None, len(models), 0.0), lambda text: None)


def iter_once(model):
    yield model


@pytest.fixture(scope="module")
def trials(halves):
    several = DPCML(dim=16, n_interests=3, anchor=0.5, epochs=15, patience=3)
    return trials_of(*halves, SparseEASE(), CML(dim=16, epochs=15, patience=3), several, MostPopular())


@pytest.fixture(scope="module")
def chosen(trials, halves):
    return choose(trials, halves[1], threads=0)


def test_the_figures_are_those_of_the_blend_that_is_built(chosen, halves):
    train, held_out = halves
    model = Blend.of(
        [trial.model for trial in chosen.trials],
        [float(weight) for weight in chosen.weights],
        balance=chosen.balance,
        balance_by=chosen.balance_by,
    )
    found = evaluate(model, held_out, seen=train, metrics=["NDCG@10", "R@20", "MinorityRecall@20"])
    assert list(chosen.figures) == pytest.approx(list(found.metrics.values()), abs=2e-3)


def test_it_is_not_worse_than_the_best_member(chosen, trials):
    best = chosen.best_member[1]
    assert chosen.figures.objective_above(best) >= best.objective
    assert chosen.weights.sum() == pytest.approx(1.0)
    assert all(len(repr(float(weight))) <= 14 for weight in chosen.weights)  # 0.3, and not 0.30000000000000004
    assert chosen.best_member[0] in trials
    assert max(trial.figures.plain for trial in trials) == pytest.approx(best.plain, abs=1e-6)


def test_the_model_with_several_vectors_is_a_member_even_without_weight(chosen, trials):
    assert any(trial.model.has_interests for trial in chosen.trials)


def test_by_interests_where_items_have_no_categories(bare):
    held_out, train = split.per_user(bare, (0.2, 0.8), seed=0)
    found = choose(trials_of(train, held_out, EASE(), DPCML(dim=8, n_interests=3, epochs=5)), held_out, threads=1)
    assert found.balance_by == "interests"
    assert not np.isnan(found.figures.minority)
    alone = choose(trials_of(train, held_out, EASE()), held_out, threads=1)
    assert np.isnan(alone.figures.minority)  # nothing tells what an interest is
    assert alone.balance == 0.0


def test_minorities_are_outside_the_main_interest_or_category(trials, halves):
    train, held_out = halves
    scores = CandidateScores.of([trial.model for trial in trials], held_out)
    by_category = choice_module._Minorities(scores, train, trials[2].model)
    table = item_categories(train.item_attributes[category_column(train.item_attributes)]).table()
    space = trials[2].model.vectors()
    outside = choice_module._Minorities._outside_interest(by_category, space)
    for at, user in enumerate(scores.users):
        past = train.indices[train.offsets[user] : train.offsets[user + 1]]
        main = table[past].sum(axis=0).argmax()
        items = scores.items[at, scores.test_places[scores.test_offsets[at] : scores.test_offsets[at + 1]]]
        mine = by_category.is_minority[scores.test_offsets[at] : scores.test_offsets[at + 1]]
        np.testing.assert_array_equal(mine, table[items].any(axis=1) & ~table[items, main])
        nearest = space.nearest_interests(np.array([user]))[0]
        largest = np.bincount(nearest[past]).argmax()
        valid = scores.items[at] >= 0
        np.testing.assert_array_equal(outside[at, valid], nearest[scores.items[at, valid]] != largest)


def test_blocks_of_users_and_threads_change_nothing(trials, halves, chosen, monkeypatch):
    monkeypatch.setattr(choice_module, "_VALUES_AT_ONCE", 7 * halves[0].n_items)
    for threads in (1, 2):
        again = choose(trials, halves[1], threads)
        np.testing.assert_array_equal(again.weights, chosen.weights)
        assert (again.balance, again.figures) == (chosen.balance, chosen.figures)


def test_balance_is_the_best_for_minorities_that_costs_little_accuracy(trials, halves):
    scores = CandidateScores.of([trial.model for trial in trials], halves[1])
    minorities = choice_module._Minorities(scores, halves[0], trials[2].model)
    scores = replace(scores, is_minority=minorities.is_minority)
    for total in scores.scores:
        plain = scores.accuracy(total)
        found = {b: scores.accuracy(minorities.with_balance(total, b)) for b in choice_module._BALANCES}
        for lead in (0.0, 0.02, 0.3):  # of NDCG@10 over the best member: half of it may be given, at most 2 %
            member = plain._replace(ndcg=(1 - lead) * plain.ndcg)
            least = 1 - min(max(0.005, lead / 2), 0.02)
            tried = {
                balance: figures.minority
                for balance, figures in found.items()
                if figures.ndcg >= least * plain.ndcg and figures.recall >= 0.995 * plain.recall
            }
            best = minorities.best_balance(scores, total, member)
            assert tried[best] == max(tried.values())


def test_small_weights_are_left_out_but_never_below_the_best_member(trials, halves):
    scores = CandidateScores.of([trial.model for trial in trials], halves[1])
    weights = np.array([0.9, 0.03, 0.03, 0.04])
    floor = scores.accuracy(scores.mixed(weights))
    kept = choice_module._without_small(scores, weights, floor)
    assert kept.sum() == pytest.approx(1.0)
    assert scores.accuracy(scores.mixed(kept)).objective_above(floor) >= 0.998 * floor.objective
    bad = np.array([0.03, 0.0, 0.0, 0.97])  # most popular items, which the others improve
    left = choice_module._without_small(scores, bad, scores.accuracy(scores.mixed(bad)))
    worse = scores.accuracy(scores.scores[3]).objective < 0.998 * scores.accuracy(scores.mixed(bad)).objective
    np.testing.assert_array_equal(left, bad if worse else [0.0, 0.0, 0.0, 1.0])


def test_without_categories_weights_go_by_accuracy_alone(bare):
    held_out, train = split.per_user(bare, (0.2, 0.8), seed=0)
    tried = trials_of(train, held_out, EASE(), CML(dim=8, epochs=5), DPCML(dim=8, n_interests=3, epochs=5))
    found = choose(tried, held_out, threads=1)
    plain = best_weights(CandidateScores.of([trial.model for trial in tried], held_out, 1))
    members = [at for at, trial in enumerate(tried) if any(trial is one for one in found.trials)]
    kept = np.where(plain >= 0.04, plain, 0.0)
    assert any(np.allclose(found.weights, expected[members]) for expected in (plain, kept / kept.sum()))


def test_one_vector_is_compared_with_the_same_help_by_categories(trials, halves):
    found = choose([trial for trial in trials if not trial.model.has_interests], halves[1], threads=1)
    assert found.balance_by == "categories"
    assert found.one_vector == found.figures  # the same members, weights and balance


def test_the_advantage_for_minorities_is_tested(trials, halves):
    """Against the same blend nothing differs; a ranking by the truth beats everything."""
    plain = CandidateScores.of([trials[0].model], halves[1])
    scores = replace(plain, is_minority=np.ones(len(plain.test_places), dtype=bool))
    total, truth = scores.scores[0], scores.scores[0].copy()
    owner = np.repeat(np.arange(len(scores.users)), np.diff(scores.test_offsets))
    truth[owner, scores.test_places] += 100.0
    assert choice_module._minority_p(scores, total, total) == 1.0
    assert choice_module._minority_p(scores, truth, total) < 1e-6
    assert choice_module._minority_p(plain, truth, total) is None


def test_without_models_of_one_vector_there_is_nothing_to_compare_with(halves):
    found = choose(trials_of(*halves, DPCML(dim=8, n_interests=2, epochs=2)), halves[1], threads=1)
    assert found.one_vector is None
    np.testing.assert_array_equal(found.weights, [1.0])
