"""Metrics for users with several tastes: worked by hand, against TREC's ndeval, SciPy and plain loops."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy
from tests.required_services import optional_package

from tastespace import CML, DPCML, EASE, Blend, evaluate, split
from tastespace.errors import ParameterError
from tastespace.evaluation import _taste_metrics as taste_metrics
from tastespace.models import Recommender, VectorSpace

NAN = pytest.approx(math.nan, nan_ok=True)
GENRES = [["a"], ["a", "b"], ["b"], [], ["c"], None]


def values(expected):
    """For comparison with per-user values that may be NaN."""
    return pytest.approx(expected, nan_ok=True)


def random_genres(rng, n_items, n_genres=6):
    """Up to three genres for each item, none for some."""
    names = [f"g{c}" for c in range(n_genres)]
    return [[str(x) for x in rng.choice(names, rng.integers(0, 4), replace=False)] for _ in range(n_items)]


def random_case(rng, taken, scored, n_users=40, n_items=90):
    """A model with random scores: model, test, training and test items of each user, genres, scores."""
    genres = random_genres(rng, n_items)
    rows = [rng.permutation(n_items) for _ in range(n_users)]
    train_rows = [row[: rng.integers(0, 15)] for row in rows]
    test_rows = [row[20 : 20 + rng.integers(1, 25)] for row in rows]
    train, test = taken(train_rows, n_items, genres=genres), taken(test_rows, n_items)
    scores = rng.permuted(np.tile(np.arange(n_items), (n_users, 1)), axis=1)
    return scored(train, scores), test, train_rows, test_rows, genres, scores


def ranking(scores, seen):
    """Items from the best to the worst, without those that were seen."""
    return [int(item) for item in np.argsort(-scores, kind="stable") if item not in seen]


def mix_of(items, genres):
    """Shares of the categories by the definition, as an array; None if no item has one."""
    names = sorted({name for one in genres for name in one})
    total = dict.fromkeys(names, 0.0)
    for item in items:
        for name in genres[item]:
            total[name] += 1 / len(genres[item])
    shares = np.array([total[name] for name in names])
    return shares / shares.sum() if shares.sum() else None


# ---- calibration -------------------------------------------------------------------------------------------


def test_calibration_by_hand(taken, scored):
    # Users 0 to 2 took one a and one item of a and b: 3/4 a, 1/4 b. User 3 took an item without a category.
    train = taken([[0, 1], [0, 1], [0, 1], [3]], 8, genres=[*GENRES, ["a"], ["b", "c"]])
    test = taken([[2], [2], [2], [2]], 8)
    scores = [
        [0, 0, 8, 0, 0, 7, 9, 0],  # items 6, 2, 5: half a, half b; item 5 has no category
        [0, 0, 0, 0, 9, 8, 0, 7],  # items 4, 5, 7: 3/4 c, 1/4 b
        [0, 0, 0, 9, 0, 8, 0, 0],  # items 3, 5 have no category
        [9, 8, 7, 0, 0, 0, 0, 0],
    ]
    model = scored(train, scores)
    report = evaluate(model, test, metrics=["CalibrationKL@3", "CalibrationJS@3", "CalibrationJS@2"])
    kl = [
        0.75 * math.log(0.75 / (0.99 * 0.5 + 0.01 * 0.75)) + 0.25 * math.log(0.25 / (0.99 * 0.5 + 0.01 * 0.25)),
        0.75 * math.log(100) + 0.25 * math.log(1),
    ]
    assert report.per_user["CalibrationKL@3"][:2].tolist() == pytest.approx(kl)
    js = 0.5 * (0.75 * math.log2(0.75 / 0.625) + 0.25 * math.log2(0.25 / 0.375))
    js += 0.5 * (0.5 * math.log2(0.5 / 0.625) + 0.5 * math.log2(0.5 / 0.375))
    assert report.per_user["CalibrationJS@3"][:2].tolist() == pytest.approx([js, 0.75])
    assert report.per_user["CalibrationJS@2"][:3].tolist() == values([js, 1.0, math.nan])  # user 1: only c
    assert report.per_user["CalibrationKL@3"][3] == NAN
    assert report.n_users == {"CalibrationJS@2": 2, "CalibrationKL@3": 3, "CalibrationJS@3": 3}
    assert report.units["CalibrationKL@3"] == "nats"


@pytest.mark.parametrize("seed", range(3))
def test_calibration_is_scipys_divergence_of_the_mixes(seed, taken, scored, monkeypatch):
    rng = np.random.default_rng(seed)
    model, test, train_rows, _, genres, scores = random_case(rng, taken, scored)
    report = evaluate(model, test, metrics=["CalibrationKL@7", "CalibrationJS@7"])
    compared = 0
    for at, user in enumerate(report.users):
        history = mix_of(train_rows[user], genres)
        listed = mix_of(ranking(scores[user], train_rows[user])[:7], genres)
        kl, js = report.per_user["CalibrationKL@7"][at], report.per_user["CalibrationJS@7"][at]
        if history is None or listed is None:
            assert (kl, js) == (NAN, NAN)
            continue
        assert kl == pytest.approx(entropy(history, 0.99 * listed + 0.01 * history))
        assert js == pytest.approx(jensenshannon(history, listed, base=2) ** 2)
        compared += 1
    assert compared > 20
    monkeypatch.setattr(taste_metrics, "_ENTRIES_AT_ONCE", 20)  # three users at a time
    again = evaluate(model, test, metrics=["CalibrationKL@7", "CalibrationJS@7"])
    for label, found in report.per_user.items():
        assert np.array_equal(again.per_user[label], found, equal_nan=True)


def test_a_list_with_the_mix_of_the_history_has_no_calibration_error(taken, scored):
    genres = [["a"], ["a"], ["b"], ["a"], ["a"], ["b"]]
    train, test = taken([[0, 1, 2], [0, 3, 5]], 6, genres=genres), taken([[3], [4]], 6)
    report = evaluate(scored(train, np.zeros((2, 6))), test, metrics=["CalibrationKL@3", "CalibrationJS@3"])
    for found in report.per_user.values():
        assert found.tolist() == pytest.approx([0.0, 0.0], abs=1e-12)
        assert (found >= 0).all()


# ---- categories of the test items --------------------------------------------------------------------------


def test_minority_recall_by_hand(taken, scored):
    genres = [["a"], ["a"], ["b"], ["a"], ["a", "b"], ["b"], ["c"], []]
    # User 0 is mainly an "a" (2 : 1). Of the test items 3 and 4 are a's, 7 is nothing; 5 and 6 are the minority.
    # User 1 has as many a's as b's: the first by name is the main one, so item 5 is minority.
    # User 2's only test item is of the main category, user 3 has no category, user 4 nothing at all in training.
    train = taken([[0, 1, 2], [0, 2], [0, 1], [7], []], 8, genres=genres)
    test = taken([[3, 4, 5, 6, 7], [3, 5], [3], [5], [5]], 8)
    scores = np.array([[0, 0, 0, 9, 8, 7, 1, 6]] * 5)
    report = evaluate(scored(train, scores), test, metrics="MinorityRecall", k=[2, 3, 5])
    by_user = {k: report.per_user[f"MinorityRecall@{k}"].tolist() for k in (2, 3, 5)}
    # Item 5 stands at 3 and item 6 at 5 for user 0; for user 1 item 5 stands at 3.
    assert by_user[2] == pytest.approx([0, 0, math.nan, math.nan, math.nan], nan_ok=True)
    assert by_user[3] == pytest.approx([1 / 2, 1, math.nan, math.nan, math.nan], nan_ok=True)
    assert by_user[5] == pytest.approx([1, 1, math.nan, math.nan, math.nan], nan_ok=True)
    assert report.n_users["MinorityRecall@3"] == 2


def test_subtopic_recall_and_alpha_ndcg_by_hand(taken, scored):
    genres = [["a"], ["a", "b"], ["a"], ["c"], [], ["d"]]
    train = taken([[], [], [0]], 6, genres=genres)
    test = taken([[0, 1, 2, 3, 4], [4], [5]], 6)
    scores = [[8, 7, 9, 1, 6, 5], [9, 8, 7, 6, 5, 4], [9, 8, 7, 6, 5, 4]]
    report = evaluate(scored(train, scores), test, metrics=["SubtopicRecall", "AlphaNDCG"], k=[1, 3, 6])
    # User 0 sees 2 (a), 0 (a), 1 (a, b), 4 (nothing), 5 (no test item), 3 (c).
    assert report.per_user["SubtopicRecall@1"].tolist() == values([1 / 3, math.nan, 0])
    assert report.per_user["SubtopicRecall@3"].tolist() == values([2 / 3, math.nan, 0])
    assert report.per_user["SubtopicRecall@6"].tolist() == values([1, math.nan, 1])
    log = math.log2
    gain = {1: 1, 3: 1 + 0.5 / log(3) + (0.25 + 1) / 2}
    gain[6] = gain[3] + 1 / log(7)
    # The ideal list is 1 (a, b), 3 (c), then the remaining a's.
    ideal = {1: 2, 3: 2 + 1 / log(3) + 0.5 / 2}
    ideal[6] = ideal[3] + 0.25 / log(5)
    for k in (1, 3, 6):
        assert report.per_user[f"AlphaNDCG@{k}"][:2].tolist() == values([gain[k] / ideal[k], math.nan])
    assert report.per_user["AlphaNDCG@6"][2] == pytest.approx(1 / log(6))  # item 5 stands at 5
    assert report.n_users["AlphaNDCG@6"] == 2


@pytest.mark.parametrize("seed", range(4))
def test_subtopic_recall_and_alpha_ndcg_are_ndevals(seed, taken, scored, monkeypatch):
    trec = optional_package("ir_measures")
    rng = np.random.default_rng(seed)
    model, test, train_rows, test_rows, genres, scores = random_case(rng, taken, scored)
    by_k = {"AlphaNDCG": trec.alpha_nDCG, "SubtopicRecall": trec.StRecall}
    oracle = {f"{name}@{k}": measure @ k for name, measure in by_k.items() for k in (1, 5, 20)}
    report = evaluate(model, test, metrics=list(oracle))

    # ndeval takes the last name of documents with the same gain into its ideal list, we the first item.
    def name(item):
        return f"{999 - item:03d}"

    qrels = [
        trec.Qrel(str(user), name(item), 1, genre[1:])
        for user, row in enumerate(test_rows)
        for item in row
        for genre in genres[item]
    ]
    run = [
        trec.ScoredDoc(str(user), name(item), float(scores[user, item]))
        for user, seen in enumerate(train_rows)
        for item in ranking(scores[user], seen)
    ]
    found = {
        (one.query_id, str(one.measure)): one.value
        for one in trec.pyndeval.iter_calc(list(oracle.values()), qrels, run)
    }
    compared = 0
    for label, measure in oracle.items():
        for at, user in enumerate(report.users):
            expected = found.get((str(user), str(measure)), math.nan)
            assert report.per_user[label][at] == values(expected), (label, user)
            compared += not math.isnan(expected)
    assert compared > 200
    monkeypatch.setattr(taste_metrics, "_ENTRIES_AT_ONCE", 20)  # three users at a time
    again = evaluate(model, test, metrics=list(oracle))
    for label in oracle:
        assert np.array_equal(again.per_user[label], report.per_user[label], equal_nan=True)


def test_unknown_test_items_have_no_category(taken, scored):
    train = taken([[0], [0]], 3, genres=[["a"], ["a"], ["b"]])
    test = taken([[1, 3], [3]], 4)
    labels = ["SubtopicRecall@2", "AlphaNDCG@2", "R@2"]
    report = evaluate(scored(train, np.zeros((2, 3))), test, metrics=labels, on_unknown="zero")
    assert report.per_user["SubtopicRecall@2"].tolist() == values([1, math.nan])
    assert report.per_user["AlphaNDCG@2"].tolist() == values([1, math.nan])
    assert report.per_user["R@2"].tolist() == [0.5, 0]


# ---- categories within a list ------------------------------------------------------------------------------


def test_category_ild_by_hand(taken, scored):
    train, test = taken([[5], [5], [], [0]], 6, genres=GENRES), taken([[0], [0], [0], [1]], 6)
    scores = [
        [9, 8, 7, 0, 0, 0],  # items 0, 1, 2: distances 1/2, 1, 1/2
        [8, 0, 0, 9, 7, 0],  # items 3, 0, 4: item 3 has no category, and a and c have nothing in common
        [7, 0, 0, 9, 0, 8],  # items 3, 5, 0: only one with a category
        [0, 0, 9, 0, 0, 8],  # items 2, 5, 1: b against a, b
    ]
    report = evaluate(scored(train, scores), test, metrics="CategoryILD", k=[1, 2, 3])
    assert report.per_user["CategoryILD@3"].tolist() == pytest.approx([2 / 3, 1.0, math.nan, 0.5], nan_ok=True)
    assert report.per_user["CategoryILD@2"].tolist() == pytest.approx([0.5] + 3 * [math.nan], nan_ok=True)
    assert report["CategoryILD@1"] == NAN
    assert report.n_users == {"CategoryILD@1": 0, "CategoryILD@2": 1, "CategoryILD@3": 3}


def test_category_ild_in_small_portions_is_the_same(taken, scored, monkeypatch):
    rng = np.random.default_rng(2)
    genres = [[str(c) for c in range(5) if rng.random() < 0.4] for _ in range(30)]
    train, test = taken([[u] for u in range(20)], 30, genres=genres), taken([[u + 5] for u in range(20)], 30)
    model = scored(train, rng.normal(size=(20, 30)))
    whole = evaluate(model, test, metrics="CategoryILD@6").per_user["CategoryILD@6"]
    monkeypatch.setattr(taste_metrics, "_ENTRIES_AT_ONCE", 200)  # three users at a time
    assert np.array_equal(evaluate(model, test, metrics="CategoryILD@6").per_user["CategoryILD@6"], whole)


# ---- interests of the model --------------------------------------------------------------------------------


class RankedByOthers(Recommender):
    """Ranks by given scores, although its users have interests."""

    def _fit(self, train, valid, progress):
        pass

    def can_serve(self, users):
        return np.ones(len(users), dtype=bool)

    def score_block(self, users):
        return self.table_[users]

    def interest_space(self):
        return self.space_


def test_interest_coverage_by_hand(taken):
    # Items at 0, 1, ..., 5 on a line. User 0 has interests at 0, 3 and 9; the past items 0 and 4 belong to the first
    # two. User 1 has one interest, user 2 no past.
    items = np.arange(6, dtype=np.float32)[:, None]
    vectors = np.array([[0], [3], [9], [2], [0], [5]], np.float32)
    train, test = taken([[0, 4], [0], []], 6), taken([[1], [1], [1]], 6)
    model = RankedByOthers().fit(train)
    model.space_ = VectorSpace(vectors, np.array([0, 3, 4, 6]), items)
    model.table_ = np.array([[0, 9, 8, 7, 0, 6]] * 3, np.float32)  # items 1, 2, 3, 5
    report = evaluate(model, test, metrics="InterestCoverage", k=[1, 2, 3])
    assert report.per_user["InterestCoverage@1"].tolist() == values([0.5, 1, math.nan])
    assert report.per_user["InterestCoverage@2"].tolist() == values([1, 1, math.nan])  # item 2 is nearer to 3
    assert report.per_user["InterestCoverage@3"].tolist() == values([1, 1, math.nan])
    assert report.units["InterestCoverage@1"] == "share of the interests"


def test_interest_coverage_is_the_definition_on_a_trained_model(town):
    train, valid, test = split.per_user(town.interactions, seed=0)
    model = DPCML(dim=8, epochs=3, n_interests=4, threads=1, seed=1).fit(train)
    report = evaluate(model, test, seen=[train, valid], metrics=["InterestCoverage@3", "InterestCoverage@10"])
    space = model.vectors()

    def nearest(user, items):
        own = space.user_vectors[space.user_offsets[user] : space.user_offsets[user + 1]]
        return {int(((own - space.item_vectors[item]) ** 2).sum(axis=1).argmin()) for item in items}

    for k in (3, 10):
        for at, user in enumerate(report.users):
            past = set(train.items_of(user))
            scores = space.scores(np.array([user]))[0]
            listed = ranking(scores, past | set(valid.items_of(user)))[:k]
            used = nearest(user, past)
            expected = len(used & nearest(user, listed)) / len(used)
            assert report.per_user[f"InterestCoverage@{k}"][at] == pytest.approx(expected)
    assert 0.3 < report["InterestCoverage@3"] < report["InterestCoverage@10"]


def test_interest_coverage_does_not_depend_on_threads(town):
    train, _, test = split.per_user(town.interactions, seed=0)
    model = DPCML(dim=8, epochs=2, n_interests=4, threads=1).fit(train)
    one, two = (evaluate(model, test, metrics="InterestCoverage@5", threads=n).per_user for n in (1, 2))
    assert np.array_equal(one["InterestCoverage@5"], two["InterestCoverage@5"], equal_nan=True)


def test_interest_coverage_needs_interests(taken, scored):
    train, test = taken([[0], [0]], 3), taken([[1], []], 3)
    model = scored(train, np.zeros((2, 3)))
    with pytest.raises(ParameterError, match=r"InterestCoverage@2 needs a model whose users have interests, and Given"):
        evaluate(model, test, metrics=["P@2", "InterestCoverage@2"])
    assert model.blocks == []


# ---- the tastes of a model ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_tastes(town):
    train, _, test = split.per_user(town.interactions, seed=0)
    members = [CML(dim=8, epochs=5, threads=1).fit(train), EASE(threads=1).fit(train)]
    return Blend.of(members, [0.3, 0.7], n_tastes=4, lift=0.2, threads=1), test


def test_coverage_and_use_of_tastes_are_those_of_the_lists(with_tastes):
    model, test = with_tastes
    names = ["InterestCoverage@2", "InterestCoverage@9", "EffectiveInterests", "DeadInterests"]
    report = evaluate(model, test, metrics=names)
    several = 0
    for at, user in enumerate(report.users):
        tastes = model.tastes().of_user(user)
        n = np.bincount(tastes)
        several += len(n) > 1
        for k in (2, 9):
            listed = model.recommend(user, k=k)["interest"]
            assert report.per_user[f"InterestCoverage@{k}"][at] == pytest.approx(listed.n_unique() / len(n))
        assert report.per_user["EffectiveInterests"][at] == pytest.approx(math.exp(entropy(n)))
        assert report.per_user["DeadInterests"][at] == 0.0
    assert several > 20


def test_alpha_ndcg_by_tastes_is_that_of_items_whose_category_is_the_taste(with_tastes):
    model, test = with_tastes
    report = evaluate(model, test, metrics="TasteAlphaNDCG@6")
    some = [user for user in report.users if model.tastes().counts[user] > 1][:12]
    for user in some:
        parts = model.taste_parts(np.array([user])).values
        about = pl.DataFrame({"item": model.train_.items.series, "kind": [f"taste {x}" for x in parts.argmax(axis=0)]})
        own = test.subset(test.row_of_each() == user)
        expected = evaluate(model, own, metrics="AlphaNDCG@6", item_attributes=about, categories="kind")["AlphaNDCG@6"]
        at = report.users.to_list().index(user)
        assert report.per_user["TasteAlphaNDCG@6"][at] == pytest.approx(expected)
    assert len(some) == 12


# ---- attributes given at evaluation time -------------------------------------------------------------------


def test_attributes_may_be_given_with_the_evaluation(taken, scored):
    genres = [["a"], ["a"], ["b"], ["b"]]
    rows, test, scores = [[0, 2], [1]], taken([[1, 3], [2]], 4), np.array([[0, 1, 2, 3]] * 2)
    labels = ["CalibrationKL@2", "AlphaNDCG@2", "MinorityRecall@2", "CategoryILD@2"]
    expected = evaluate(scored(taken(rows, 4, genres=genres), scores), test, metrics=labels)
    about = pl.DataFrame({"item": [3, 2, 1, 0, 7], "kind": ["b", "b", "a", "a", "c"]})
    found = evaluate(scored(taken(rows, 4), scores), test, metrics=labels, item_attributes=about)
    assert found.metrics == pytest.approx(expected.metrics)
    # They replace those of the model.
    other = scored(taken(rows, 4, genres=[["a"], ["b"], ["c"], ["d"]]), scores)
    found = evaluate(other, test, metrics=labels, item_attributes=about, categories="kind")
    assert found.metrics == pytest.approx(expected.metrics)
    with pytest.raises(ParameterError, match="categories='genres': expected an item attribute"):
        evaluate(other, test, metrics=labels, item_attributes=about, categories="genres")
