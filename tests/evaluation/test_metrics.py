"""Metrics against oracles that others wrote (trec_eval, scikit-learn) and against tables worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.required_services import optional_package

from tastespace import Interactions, evaluate
from tastespace.data.attributes import item_categories
from tastespace.errors import ParameterError
from tastespace.evaluation import (
    _inputs as metric_inputs,
)
from tastespace.evaluation import (
    metrics,
    theory,
)
from tastespace.evaluation._taste_metrics import TASTE_METRICS
from tastespace.evaluation.metrics import METRICS, columns_for
from tastespace.models import MostPopular, VectorSpace

NAN = pytest.approx(math.nan, nan_ok=True)


def random_rows(rng, taken, n_users=60, n_items=120, most_test=60):
    """Train, validation and test rows without overlap; users with one test item and users with very many."""
    train, valid, test = [], [], []
    for user in range(n_users):
        items = rng.permutation(n_items)
        n_test = 1 if user % 5 == 0 else int(rng.integers(1, 1 + (most_test if user % 5 == 1 else 6)))
        n_train, n_valid = int(rng.integers(0, 20)), int(rng.integers(0, 8))
        test.append(items[:n_test])
        train.append(items[n_test : n_test + n_train])
        valid.append(items[n_test + n_train : n_test + n_train + n_valid])
    test[7] = []  # users without a test item must not count
    return (*(taken(rows, n_items) for rows in (train, valid, test)), train, valid, test)


# ---- trec_eval ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_full_is_what_trec_eval_computes(seed, ties, taken, scored):
    trec = optional_package("ir_measures")
    by_k = {"P": trec.P, "R": trec.R, "NDCG": trec.nDCG, "HitRate": trec.Success}
    oracle = {f"{name}@{k}": measure @ k for name, measure in by_k.items() for k in (1, 3, 10, 100)}
    oracle |= {"MAP": trec.AP, "MRR": trec.RR}
    rng = np.random.default_rng(seed)
    train, valid, test, train_rows, valid_rows, test_rows = random_rows(rng, taken)
    all_different = rng.permuted(np.tile(np.arange(120), (60, 1)), axis=1)
    scores = all_different // 12 if ties else all_different
    report = evaluate(scored(train, scores), test, seen=[train, valid], metrics=list(oracle), protocol="full")

    # trec_eval breaks ties by its own rule, so it is given our order (score, then item) as distinct scores.
    order = np.argsort(-scores, axis=1, kind="stable")
    distinct = np.empty_like(scores)
    np.put_along_axis(distinct, order, np.tile(120 - np.arange(120), (60, 1)), axis=1)
    qrels = {str(u): {str(i): 1 for i in row} for u, row in enumerate(test_rows) if len(row)}
    run = {
        user: {
            str(i): float(distinct[int(user), i])
            for i in range(120)
            if i not in train_rows[int(user)] and i not in valid_rows[int(user)]
        }
        for user in qrels
    }
    position = {str(user): at for at, user in enumerate(report.users)}
    compared = 0
    for found in trec.pytrec_eval.iter_calc(list(oracle.values()), qrels, run):
        label = next(name for name, measure in oracle.items() if measure == found.measure)
        ours = report.per_user[label][position[found.query_id]]
        assert ours == pytest.approx(found.value, abs=1e-6), (label, found.query_id)
        compared += 1
    assert compared == len(qrels) * len(oracle)
    means = trec.pytrec_eval.calc_aggregate(list(oracle.values()), qrels, run)
    for label, measure in oracle.items():
        assert report[label] == pytest.approx(means[measure], abs=1e-6)
        assert report.n_users[label] == 59


# ---- scikit-learn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
def test_auc_is_scikit_learns_and_ties_count_one_half(ties, taken, scored):
    roc_auc_score = optional_package("sklearn.metrics").roc_auc_score
    rng = np.random.default_rng(5)
    train, valid, test, train_rows, valid_rows, test_rows = random_rows(rng, taken)
    scores = (rng.integers(0, 5, size=(60, 120)) if ties else rng.normal(size=(60, 120))).astype(np.float32)
    report = evaluate(scored(train, scores), test, seen=[train, valid], metrics="AUC")
    for at, user in enumerate(report.users):
        candidates = np.setdiff1d(np.arange(120), np.concatenate([train_rows[user], valid_rows[user]]))
        expected = roc_auc_score(np.isin(candidates, test_rows[user]), scores[user, candidates])
        assert report.per_user["AUC"][at] == pytest.approx(expected)


@pytest.mark.parametrize("beta", [0.1, 0.3, 0.5, 1.0])
def test_opauc_is_scikit_learns_partial_auc_without_its_standardization(beta, taken, scored):
    """Equal where beta * n- is whole and nothing ties: here n- is 80 or 50."""
    roc_auc_score = optional_package("sklearn.metrics").roc_auc_score
    rng = np.random.default_rng(6)
    rows = [rng.permutation(100) for _ in range(30)]
    n_test = [10 if user % 2 else 40 for user in range(30)]
    train, test = (
        taken([row[:10] for row in rows], 100),
        taken([row[10 : 10 + n] for row, n in zip(rows, n_test, strict=True)], 100),
    )
    scores = rng.normal(size=(30, 100)).astype(np.float32)
    report = evaluate(scored(train, scores), test, metrics=f"OPAUC({beta})")
    for user, (row, n) in enumerate(zip(rows, n_test, strict=True)):
        truth = np.isin(row[10:], row[10 : 10 + n])
        standardized = roc_auc_score(truth, scores[user, row[10:]], max_fpr=beta)
        if beta == 1:  # scikit-learn gives the plain AUC then
            expected = standardized
        else:
            least, most = beta**2 / 2, beta
            expected = (least + (2 * standardized - 1) * (most - least)) / beta
        assert report.per_user[f"OPAUC({beta})"][user] == pytest.approx(expected)


@pytest.mark.parametrize("beta", [0.001, 0.07, 0.5, 1.0])
def test_opauc_agrees_with_the_definition_where_beta_is_not_whole_and_scores_tie(beta, taken, scored):
    rng = np.random.default_rng(7)
    train, valid, test, train_rows, valid_rows, test_rows = random_rows(rng, taken)
    scores = rng.integers(0, 6, size=(60, 120)).astype(np.float32)
    report = evaluate(scored(train, scores), test, seen=[train, valid], metrics=f"OPAUC({beta})")
    for at, user in enumerate(report.users):
        gone = np.concatenate([train_rows[user], valid_rows[user], test_rows[user]])
        negatives = np.setdiff1d(np.arange(120), gone)
        expected = theory.opauc(scores[user, test_rows[user]], scores[user, negatives], beta)
        assert report.per_user[f"OPAUC({beta})"][at] == pytest.approx(expected)


def test_test_items_that_the_model_does_not_know_are_below_all_negatives():
    train = pl.DataFrame({"user": ["ann", "bob", "bob", "bob"], "item": ["a", "b", "c", "d"]})
    model = MostPopular().fit(Interactions.from_frame(train))
    test = Interactions.from_frame(pl.DataFrame({"user": ["ann", "ann"], "item": ["b", "new"]}), part=True)
    report = evaluate(model, test, metrics=["AUC", "OPAUC(0.5)"], on_unknown="zero")
    assert report.per_user["AUC"].tolist() == [0.25]  # b ties with c and d; nothing is below the new item
    assert report.per_user["OPAUC(0.5)"].tolist() == [0.5]


def test_a_user_without_negatives_has_no_auc(taken, scored):
    train, test = taken([[0], [0]], 4), taken([[1, 2, 3], [1]], 4)
    report = evaluate(scored(train, np.zeros((2, 4))), test, metrics=["AUC", "OPAUC(0.5)", "MAP"])
    assert report.per_user["AUC"].tolist() == [NAN, 0.5]
    assert report.per_user["OPAUC(0.5)"].tolist() == [NAN, 1.0]  # a tie is correct in Eq. 4
    assert report.n_users == {"AUC": 1, "OPAUC(0.5)": 1, "MAP": 2}


# ---- worked by hand: reach ---------------------------------------------------------------------------------


def test_coverage_and_gini_by_hand(taken, scored):
    # Lists of two: user 0 sees items 3, 2; user 1 sees 3, 1; user 2 (item 3 is taken) sees 2, 1.
    train, test = taken([[], [], [3], [0]], 5), taken([[3], [3], [2], []], 5)
    scores = [[0, 0, 1, 2, -1], [0, 1, 0.5, 2, -1], [0, 1, 2, 9, -1], [0, 0, 0, 0, 9]]
    report = evaluate(scored(train, scores), test, metrics=["Coverage", "Gini"], k=[1, 2])
    # First places: items 3, 3, 2: exposure 0, 0, 1, 2, 0. First two: items 1 (2 x), 2 (2 x), 3 (2 x).
    assert report["Coverage@1"] == 2 / 5
    assert report["Coverage@2"] == 3 / 5
    # Sorted 0 0 0 1 2 with weights -4 -2 0 2 4: (2 + 8) / (5 * 3). Then 0 0 2 2 2: (0 + 4 + 8) / (5 * 6).
    assert report["Gini@1"] == pytest.approx(10 / 15)
    assert report["Gini@2"] == pytest.approx(12 / 30)
    assert report.n_users == dict.fromkeys(report.metrics, 3)  # user 3 has no test item and no list
    assert report.per_user == {}


def test_gini_is_zero_for_equal_exposure_and_near_one_for_a_single_item():
    assert metrics.gini(np.array([4, 4, 4])) == 0.0
    assert metrics.gini(np.array([0, 0, 0, 7])) == pytest.approx(3 / 4)
    assert metrics.gini(np.array([0, 0, 1, 3])) == pytest.approx(10 / 16)
    assert metrics.gini(np.array([0, 0])) == NAN


def test_novelty_by_hand(taken, scored):
    # Four people have training items (the fifth has none): counts 4, 2, 1, 0, so 0, 1, 2 and 2 bits.
    train = taken([[0, 1], [0, 1], [0, 2], [0], []], 4)
    test = taken([[2], [], [], [], [3]], 4)
    scores = [[0, 9, 1, 2]] * 5
    report = evaluate(scored(train, scores), test, metrics="Novelty", k=[1, 2, 4])
    # User 0 has items 0 and 1 already, sees 3, 2 and then nothing; user 4 sees 1, 3, 2, 0.
    assert report.per_user["Novelty@1"].tolist() == [2.0, 1.0]
    assert report.per_user["Novelty@2"].tolist() == [2.0, 1.5]
    assert report.per_user["Novelty@4"].tolist() == [2.0, 5 / 4]
    assert report["Novelty@2"] == 1.75


# ---- worked by hand: diversity -----------------------------------------------------------------------------


def test_max_div_and_ils_by_hand(taken, with_vectors):
    items = np.array([[0, 0], [3, 4], [0, 1], [6, 8]], np.float32)
    space = VectorSpace(np.zeros((2, 2), np.float32), np.arange(3), items)
    train, test = taken([[], [2, 3]], 4), taken([[3], [1]], 4)
    report = evaluate(with_vectors(train, space), test, metrics=["MaxDiv", "ILS"], k=[1, 2, 3])
    # User 0: items 0, 2, 1: squared distances 1 (0-2), 25 (0-1), 9 + 9 = 18 (2-1). User 1: items 0, 1 and no more.
    assert report.per_user["MaxDiv@1"].tolist() == [0, 0]
    assert report.per_user["MaxDiv@2"].tolist() == [2, 50]
    assert report.per_user["MaxDiv@3"].tolist() == [2 * (1 + 25 + 18), 50]
    assert report.per_user["ILS@3"].tolist() == [1 + 25 + 18, 25]
    assert report["ILS@2"] == 13


def test_max_div_is_a_sum_over_ordered_pairs(taken, with_vectors):
    rng = np.random.default_rng(1)
    items = rng.normal(size=(40, 6)).astype(np.float32)
    space = VectorSpace(rng.normal(size=(30, 6)).astype(np.float32), np.arange(0, 31, 3), items)
    train, test = taken([[u, u + 1] for u in range(10)], 40), taken([[u + 20] for u in range(10)], 40)
    report = evaluate(with_vectors(train, space), test, metrics=["MaxDiv@7"])
    scores = space.scores(np.arange(10))
    for user in range(10):
        scores[user, [user, user + 1]] = -np.inf
        mine = items[np.argsort(-scores[user])[:7]].astype(np.float64)
        expected = sum(((a - b) ** 2).sum() for a in mine for b in mine)
        assert report.per_user["MaxDiv@7"][user] == pytest.approx(expected)


def test_relative_max_div_has_no_scale(taken, with_vectors):
    rng = np.random.default_rng(1)
    items, users = rng.normal(size=(40, 6)) + 3, rng.normal(size=(10, 6)) + 3
    train, test = taken([[u] for u in range(10)], 40), taken([[u + 20] for u in range(10)], 40)
    found = []
    for scale in (1.0, 7.0):
        space = VectorSpace((scale * users).astype(np.float32), np.arange(11), (scale * items).astype(np.float32))
        found.append(evaluate(with_vectors(train, space), test, metrics=["RelativeMaxDiv@5", "RelativeMaxDiv@39"]))
    assert found[0].metrics == pytest.approx(found[1].metrics, rel=1e-4)
    pairs = [((a - b) ** 2).sum() for k, a in enumerate(items) for b in items[:k]]
    mine = [((a - b) ** 2).sum() for k, a in enumerate(items[1:]) for b in items[1:][:k]]  # all but the user's own
    assert found[0].per_user["RelativeMaxDiv@39"][0] == pytest.approx(np.mean(mine) / np.mean(pairs), rel=1e-4)


def test_the_sum_of_reciprocal_ranks_counts_every_hit(taken, scored):
    train, test = taken([[0], [0], [3]], 6), taken([[1, 2, 5], [4], []], 6)
    scores = [[9, 4, 1, 5, 3, 2], [6, 5, 4, 3, 2, 1], [6, 5, 4, 3, 2, 1]]
    report = evaluate(scored(train, scores), test, metrics=["SumRR", "MRR"])
    assert report.per_user["SumRR"].tolist() == pytest.approx([1 / 2 + 1 / 4 + 1 / 5, 1 / 4])
    assert report.per_user["MRR"].tolist() == [1 / 2, 1 / 4]


def test_metrics_of_vectors_say_so_for_models_without(taken, scored):
    train, test = taken([[0], [0]], 3), taken([[1], []], 3)
    for label in ("MaxDiv@2", "ILS@2"):
        with pytest.raises(ParameterError, match=f"{label} measures distances between item vectors, and GivenScores"):
            evaluate(scored(train, np.zeros((2, 3))), test, metrics=["P@2", label])


def test_map_of_each_category_by_hand(taken, scored):
    genres = [["x"], ["a"], ["a", "b"], ["x"], ["b"], []]
    train, test = taken([[0], [], [3]], 6, genres=genres), taken([[1, 2, 5], [4], [5]], 6)
    scores = [[9, 4, 1, 5, 3, 2], [6, 5, 4, 3, 2, 1], [6, 5, 4, 3, 2, 1]]
    report = evaluate(scored(train, scores), test, metrics=["CategoryMAP", "MAP"])
    # User 0 (item 0 is taken) sees 3, 1, 4, 5, 2. Category a: hits at 2 and 5; category b: one hit at 5.
    # User 1 sees 0 ... 5: category b's item 4 stands at 5. User 2 has no test item with a category.
    assert report.per_user["MAP[a]"].tolist() == pytest.approx([(1 / 2 + 2 / 5) / 2, math.nan, math.nan], nan_ok=True)
    assert report.per_user["MAP[b]"].tolist() == pytest.approx([1 / 5, 1 / 5, math.nan], nan_ok=True)
    assert report.n_users == {"MAP[a]": 1, "MAP[b]": 2, "MAP[x]": 0, "MAP": 3}
    assert report["MAP[x]"] == NAN
    assert report.per_user["MAP"][0] == pytest.approx((1 / 2 + 2 / 4 + 3 / 5) / 3)


def test_the_main_category_in_small_portions_is_the_same(town, monkeypatch):
    train = town.interactions
    genres = item_categories(train.item_attributes["genres"])
    totals = (train.matrix != 0).astype(int) @ genres.table().astype(int)
    monkeypatch.setattr(metric_inputs, "_USERS_AT_ONCE", 7)
    found = metric_inputs.MetricInputs("", train, None, None, "genres", None, None, 1)
    assert found.categories == genres.names
    assert found.main_category.tolist() == totals.argmax(axis=1).tolist()


def test_categories_split_at_bars_and_the_column_is_found(taken, scored):
    lists = [["a"], ["a", "b"], ["b"], [], ["c"], None]
    train, test = taken([[5], [5], [], [0]], 6, genres=lists), taken([[0], [0], [0], [1]], 6)
    texts = ["a", " a | b", "b", "", "c", None]
    attributes = train.item_attributes.select("item").with_columns(kinds=pl.Series(texts))
    wanted = {"metrics": ["CategoryILD", "MinorityRecall", "CategoryMAP"], "k": [1, 3]}
    scores = np.random.default_rng(0).normal(size=(4, 6))
    expected = evaluate(scored(train, scores), test, **wanted)
    model = scored(replace(train, item_attributes=attributes), scores)
    for categories in (None, "kinds"):
        found = evaluate(model, test, categories=categories, **wanted)
        assert list(found.metrics) == list(expected.metrics)
        for label, values in expected.per_user.items():
            np.testing.assert_array_equal(found.per_user[label], values)


def test_metrics_by_category_need_categories(taken, scored):
    rows, test, zeros = [[0], [0]], taken([[1], []], 3), np.zeros((2, 3))
    for metric in ("CategoryMAP", *(f"{name}@2" for name in TASTE_METRICS if METRICS[name].needs == "categories")):
        with pytest.raises(
            ParameterError, match="a metric by category needs item categories, and the data has no item attributes"
        ):
            evaluate(scored(taken(rows, 3), zeros), test, metrics=metric)
        model = scored(taken(rows, 3, genres=[["a"], [], []]), zeros)
        with pytest.raises(
            ParameterError,
            match=r"categories='genre': expected an item attribute; .* are 'genres'\. Did you mean genres",
        ):
            evaluate(model, test, metrics=metric, categories="genre")
        with pytest.raises(ParameterError, match="no item has a"):
            evaluate(scored(taken(rows, 3, genres=[[], [], []]), zeros), test, metrics=metric)
        assert model.blocks == []  # the mistake is found before the work begins


# ---- names -------------------------------------------------------------------------------------------------


def test_columns_are_grouped_by_k_and_each_comes_once():
    labels = [c.label for c in columns_for(["MAP", "P", "R", "P@3", "OPAUC(0.1)", "P@1"], (3, 5))]
    assert labels == ["P@1", "P@3", "R@3", "P@5", "R@5", "MAP", "OPAUC(0.1)"]


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("NDGC", "no metric 'NDGC'.*Did you mean NDCG"),
        ("P@0", "k=0: expected a length of list, 1 or more"),
        ("P@-1", "no metric 'P@-1'"),
        ("P@x", "no metric 'P@x'"),
        ("P(0.5)", r"metric 'P\(0.5\)': P takes a k"),
        ("MAP@5", "metric 'MAP@5': MAP takes no k"),
        ("CategoryMAP@5", "metric 'CategoryMAP@5': CategoryMAP takes no k"),
        ("OPAUC", r"expected OPAUC\(beta\) with beta in \(0, 1\]"),
        ("OPAUC(0)", r"expected OPAUC\(beta\)"),
        ("OPAUC(1.5)", r"expected OPAUC\(beta\)"),
        ("OPAUC(nan)", r"expected OPAUC\(beta\)"),
        ("OPAUC(low)", r"expected OPAUC\(beta\)"),
        ("OPAUC@5", r"expected OPAUC\(beta\)"),
        (5, "no metric 5"),
        ("", "no metric ''"),
    ],
)
def test_names_that_make_no_sense(label, message):
    with pytest.raises(ParameterError, match=message):
        columns_for([label], (3,))


def test_every_metric_runs_and_stays_in_its_range(town):
    from tastespace import split
    from tastespace.models import create

    train, valid, test = split.per_user(town.interactions, seed=0)
    wanted = [
        f"{name}(0.05)" if name == "OPAUC" else name for name, m in METRICS.items() if m.needs in ("", "categories")
    ]
    report = evaluate(create("ease", threads=1).fit(train, valid), test, metrics=wanted, k=[1, 10, 200])
    assert {label.split("@")[0].split("[")[0].split("(")[0] for label in report.metrics} >= {
        "P", "R", "NDCG", "MAP", "MRR", "HitRate", "AUC", "OPAUC", "Coverage", "CategoryILD", "Novelty", "Gini",
        "MinorityRecall", "SubtopicRecall", "AlphaNDCG", "CalibrationKL", "CalibrationJS",
    }  # fmt: skip
    for label, values in report.per_user.items():
        known = values[~np.isnan(values)]
        if label == "CategoryILD@1":
            assert not len(known)
            continue
        assert report[label] == pytest.approx(known.mean())
        assert report.n_users[label] == len(known)
        top = {"Novelty": math.log2(300), "CalibrationKL": math.log(100), "SumRR": math.inf}.get(
            label.split("@")[0], 1.0
        )
        assert known.min() >= 0.0
        assert known.max() <= top + 1e-9
    # The whole catalog is on every list: all test items are found.
    assert report["R@200"] == 1.0
    assert report["HitRate@200"] == 1.0
    # Every figure has a unit; all but novelty, KL divergence and the distances of vectors lie between 0 and 1.
    assert {label.split("@")[0]: unit for label, unit in report.units.items() if unit != "fraction"} == {
        "Coverage": "share of the catalog", "CategoryILD": "Jaccard distance", "Novelty": "bits", "Gini": "Gini index",
        "CalibrationKL": "nats", "CalibrationJS": "bits", "SumRR": "sum of reciprocals",
    }  # fmt: skip
    assert {name for name, metric in METRICS.items() if metric.range != "0 to 1"} == {
        "SumRR", "MaxDiv", "RelativeMaxDiv", "ILS", "Novelty", "CalibrationKL", "EffectiveInterests",
    }  # fmt: skip
    assert {name for name, metric in METRICS.items() if metric.lower_is_better} == {
        "Gini", "CalibrationKL", "CalibrationJS", "DeadInterests", "CollapsedInterests",
    }  # fmt: skip
    assert all(0.0 <= report[label] <= 1.0 for label, unit in report.units.items() if unit == "fraction")
