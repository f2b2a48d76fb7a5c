"""The choice of the blend: members, weights, minority, tastes, balance."""

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
from tastespace.models.blend.members import Balance
from tastespace.models.blend.weights import CandidateScores, best_weights
from tastespace.recipe import _choice as choice_module
from tastespace.recipe._choice import choose
from tastespace.recipe._families import Family
from tastespace.recipe._trials import Budget, Setting, run_trials


def trials_of(train, held_out, *models):
    families = [Family(f"{at}", iter_once(model)) for at, model in enumerate(models)]
    return run_trials(families, Setting(train, held_out, Budget(None, len(models), 0.0), lambda text: None))


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
        **chosen.parameters,
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


def test_the_largest_taste_is_the_main_one_where_items_have_no_categories(bare):
    held_out, train = split.per_user(bare, (0.2, 0.8), seed=0)
    for models in ([EASE(), DPCML(dim=8, n_interests=3, epochs=5)], [EASE()]):
        tried = trials_of(train, held_out, *models)
        found = choose(tried, held_out, threads=1)
        assert not found.by_categories
        assert found.parameters["category_balance"] == 0.0
        assert 0 < found.figures.minority < 1
        assert found.tastes_per_user > 1
        assert 0 < found.several <= 1


@pytest.fixture(scope="module")
def candidates(trials, halves):
    """Scores of the trials, and what the tastes of a blend of two of them say."""
    scores = CandidateScores.of([trial.model for trial in trials], halves[1])
    blend = Blend.of([trials[0].model, trials[2].model], [0.7, 0.3], n_tastes=4)
    return scores, blend, choice_module._Tastes.of(blend, scores)


def test_minorities_are_outside_the_main_category_or_the_largest_taste(candidates, halves):
    train, (scores, blend, tastes) = halves[0], candidates
    by_category = choice_module._outside_category(scores, train)
    by_taste = tastes.outside_largest(scores)
    table = item_categories(train.item_attributes[category_column(train.item_attributes)]).table()
    for at, user in enumerate(scores.users):
        past = train.indices[train.offsets[user] : train.offsets[user + 1]]
        main = table[past].sum(axis=0).argmax()
        mine = slice(scores.test_offsets[at], scores.test_offsets[at + 1])
        items = scores.items[at, scores.test_places[mine]]
        np.testing.assert_array_equal(by_category[mine], table[items].any(axis=1) & ~table[items, main])
        strongest = blend.taste_parts(np.array([user])).strongest()[0]
        largest = np.bincount(blend.tastes().of_user(user)).argmax()
        np.testing.assert_array_equal(by_taste[mine], strongest[items] != largest)


@pytest.mark.parametrize(("focus", "lift"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.2), (0.6, 0.1)])
def test_scores_that_tastes_are_chosen_by_are_those_of_a_blend_but_for_a_constant(candidates, focus, lift):
    scores, blend, tastes = candidates
    model = Blend.of(blend.members_, [0.7, 0.3], n_tastes=4, focus=focus, lift=lift)
    whole, found = model.score_block(scores.users), tastes.totals(focus, lift)
    for at in range(len(scores.users)):
        items = scores.items[at][scores.items[at] >= 0]
        gap = whole[at, items] - found[at, : len(items)]
        np.testing.assert_allclose(gap, gap[0], atol=1e-4)


def test_tastes_are_the_best_that_cost_little_accuracy(candidates, halves):
    scores, blend, tastes = candidates
    fewer = choice_module._Tastes.of(Blend.of(blend.members_, [0.7, 0.3], n_tastes=2), scores)
    for minority in (choice_module._outside_category(scores, halves[0]), tastes.outside_largest(scores)):
        known = replace(scores, is_minority=minority)
        plain = tastes.totals(0.0, 0.0)
        before = known.accuracy(plain)
        chosen = choice_module._best_tastes(known, [fewer, tastes], plain)
        tried = {}
        for one in (fewer, tastes):
            for focus in choice_module._FOCUS:
                for lift in choice_module._LIFTS:
                    now = known.accuracy(one.totals(focus, lift))
                    if now.ndcg >= 0.995 * before.ndcg and now.recall >= 0.995 * before.recall:
                        tried[one, focus, lift] = now.objective
        best = max(tried.values())
        if best > before.objective * 1.001:
            assert tried[chosen] == best
        else:
            assert chosen == (tastes, 0.0, 0.0)


def test_blocks_of_users_and_threads_change_nothing(trials, halves, chosen, monkeypatch):
    monkeypatch.setattr(choice_module, "_VALUES_AT_ONCE", 7 * halves[0].n_items)
    for threads in (1, 2):
        again = choose(trials, halves[1], threads)
        np.testing.assert_array_equal(again.weights, chosen.weights)
        assert (again.parameters, again.figures) == (chosen.parameters, chosen.figures)
        assert (again.tastes_per_user, again.several) == (chosen.tastes_per_user, chosen.several)


def test_balance_is_the_best_for_minorities_that_costs_little_accuracy(candidates, halves):
    scores, _, _ = candidates
    scores = replace(scores, is_minority=choice_module._outside_category(scores, halves[0]))
    logs = np.take_along_axis(Balance(halves[0]).of_users(scores.users), np.maximum(scores.items, 0), axis=1)
    for total in scores.scores:
        plain = scores.accuracy(total)
        found = {b: scores.accuracy(total + np.float32(b) * logs) for b in choice_module._BALANCES}
        for lead in (0.0, 0.02, 0.3):  # of NDCG@10 over the best member: half of it may be given, at most 2 %
            member = plain._replace(ndcg=(1 - lead) * plain.ndcg)
            least = 1 - min(max(0.005, lead / 2), 0.02)
            tried = {
                balance: figures.minority
                for balance, figures in found.items()
                if balance == 0 or (figures.ndcg >= least * plain.ndcg and figures.recall >= 0.995 * plain.recall)
            }
            balanced, best = choice_module._balanced(scores, total, total, halves[0], member)
            assert tried[best] == max(tried.values())
            np.testing.assert_array_equal(balanced, total + np.float32(best) * logs)


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


def test_without_tastes_are_the_same_members_and_weights(chosen, trials, halves):
    at = [next(n for n, one in enumerate(trials) if one is trial) for trial in chosen.trials]
    scores = CandidateScores.of([trial.model for trial in trials], halves[1]).of_members(at)
    plain = scores.accuracy(scores.mixed(chosen.weights))
    assert chosen.without_tastes[:2] == pytest.approx(plain[:2])
    assert chosen.by_categories
    if not any(chosen.parameters[name] for name in ("focus", "lift", "category_balance")):
        assert chosen.figures == chosen.without_tastes
        assert chosen.minority_p is None


def test_the_advantage_for_minorities_is_tested(trials, halves):
    """Against the same blend nothing differs; a ranking by the truth beats everything."""
    plain = CandidateScores.of([trials[0].model], halves[1])
    scores = replace(plain, is_minority=np.ones(len(plain.test_places), dtype=bool))
    total, truth = scores.scores[0], scores.scores[0].copy()
    owner = np.repeat(np.arange(len(scores.users)), np.diff(scores.test_offsets))
    truth[owner, scores.test_places] += 100.0
    assert choice_module._minority_p(scores, total, total) is None
    assert choice_module._minority_p(scores, total + 1, total) == 1.0
    assert choice_module._minority_p(scores, truth, total) < 1e-6
    assert choice_module._minority_p(plain, truth, total) is None


def test_a_single_model_that_cannot_be_split(halves):
    found = choose(trials_of(*halves, DPCML(dim=8, n_interests=2, epochs=2)), halves[1], threads=1)
    np.testing.assert_array_equal(found.weights, [1.0])
    assert set(found.parameters) == {"n_tastes", "focus", "lift", "category_balance"}
    assert found.without_tastes.ndcg > 0
