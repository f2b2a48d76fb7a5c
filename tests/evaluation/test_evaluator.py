"""`evaluate`: bad input, unknown ids, both ways of scoring, threads and memory."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from tastespace import (
    EASE,
    Interactions,
    MostPopular,
    evaluate,
    split,
)
from tastespace.errors import DataError, ParameterError, UnknownIdError
from tastespace.models import Recommender, VectorSpace

ALL = ["P", "R", "NDCG", "HitRate", "MAP", "MRR", "AUC", "OPAUC(0.2)", "Coverage", "Novelty", "Gini"]


@pytest.fixture(scope="module")
def small(taken, scored):
    """Three users, five items, one test item for the first two."""
    train, test = taken([[0, 1], [0], [2]], 5), taken([[2, 3], [1], []], 5)
    return scored(train, [[9, 8, 3, 2, 1], [9, 1, 4, 3, 2], [1, 2, 9, 3, 4]]), train, test


# ---- bad input ---------------------------------------------------------------------------------------------


def test_k_larger_than_the_catalog(small):
    model, _, test = small
    for arguments in ({"k": 6}, {"k": [1, 6]}, {"metrics": "P@6"}):
        with pytest.raises(ParameterError, match="k=6 is larger than the catalog of 5 items"):
            evaluate(model, test, **arguments)
    whole = evaluate(model, test, k=5, metrics=["P", "R"])
    assert whole["R@5"] == 1.0
    assert whole.per_user["P@5"].tolist() == [0.4, 0.2]  # divided by k, although there are fewer candidates


@pytest.mark.parametrize("k", [0, -1, True, 3.0, "5", [2, 0], [2.5]])
def test_a_k_that_makes_no_sense(small, k):
    with pytest.raises(ParameterError, match="expected a length of list, 1 or more"):
        evaluate(small[0], small[2], k=k)


def test_lengths_may_be_given_in_any_way(small):
    model, _, test = small
    expected = ["P@2", "P@3"]
    for k in ([3, 2], (2, 3, 3), np.array([2, 3]), range(2, 4)):
        assert list(evaluate(model, test, k=k, metrics="P").metrics) == expected


def test_no_figure_at_all_is_a_mistake(small):
    for arguments in ({"metrics": []}, {"metrics": ["P"], "k": []}):
        with pytest.raises(ParameterError, match="selects no metric"):
            evaluate(small[0], small[2], **arguments)


def test_an_empty_test_set(small, taken):
    model, train, _ = small
    with pytest.raises(DataError, match=r"the test set Interactions\(3 users x 5 items, 0 interactions.*is empty"):
        evaluate(model, train.subset(np.zeros(train.n_interactions, bool)))
    with pytest.raises(DataError, match=r"evaluate expects test to be Interactions, a frame .*given list"):
        evaluate(model, [1, 2])


def test_frames_are_measured_like_interactions(small):
    model, train, test = small
    expected = evaluate(model, test, seen=train, k=2, metrics=ALL).metrics
    names = {"user": "who", "item": "sku", "rating": "stars", "min_rating": 3}
    frames = [
        pl.DataFrame(one.to_frame()).select(who="user", sku="item", stars=pl.lit(5)).to_pandas()
        for one in (test, train)
    ]
    frames[0].loc[len(frames[0])] = [*frames[0].iloc[0, :1], train.items[0], 1]  # not liked: no test item
    assert evaluate(model, frames[0], seen=frames[1], k=2, metrics=ALL, **names).metrics == expected
    assert evaluate(model, frames[0], seen=[train, frames[1]], k=2, metrics=ALL, **names).metrics == expected
    with pytest.raises(ParameterError, match="evaluate has no argument 'min_user'; of a frame it takes user, item"):
        evaluate(model, frames[0], min_user=2)
    with pytest.raises(ParameterError, match="user= is for a frame, but test is Interactions already"):
        evaluate(model, test, user="who")


def test_users_without_a_test_item_do_not_count(small):
    model, _, test = small
    report = evaluate(model, test, k=2, metrics=ALL)
    assert report.users.to_list() == [0, 1]
    assert set(report.n_users.values()) == {2}
    assert report.per_user["MRR"].tolist() == [1.0, 0.25]


def test_overlap_of_seen_and_test_is_warned_about_with_the_count(taken, scored):
    train, test = taken([[0, 1], [0], [1]], 5), taken([[1, 2], [0, 3], [4]], 5)
    model = scored(train, [[5, 4, 3, 2, 1]] * 3)
    with pytest.warns(UserWarning, match="2 of 5 test interactions are among the seen ones"):
        found = evaluate(model, test, k=3, metrics=ALL)
    clean = evaluate(model, taken([[2], [3], [4]], 5), k=3, metrics=ALL)
    assert found.metrics == clean.metrics  # what cannot be recommended again is no part of the test
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(model, test, seen=[], k=3)  # nothing seen, no overlap
    with pytest.warns(UserWarning, match="4 of 4"), pytest.raises(DataError, match="nothing to measure"):
        evaluate(model, train, k=3)


def test_the_papers_protocol_warns_of_overlap_with_training_only(taken, scored):
    train, valid, test = taken([[0], [1]], 5), taken([[1], [2]], 5), taken([[1], [3]], 5)
    model = scored(train, [[5, 4, 3, 2, 1]] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(model, test, seen=[train, valid], protocol="paper", k=1)
    with pytest.warns(UserWarning, match="1 of 2"):
        evaluate(model, test, seen=[train, valid], protocol="full", k=1)


def test_what_was_seen_must_be_data(small):
    model, train, test = small
    with pytest.raises(DataError, match=r"evaluate expects seen to be Interactions, a frame .*given int"):
        evaluate(model, test, seen=[train, 7])


def test_nan_scores_name_the_user(small, taken, scored):
    _, train, test = small
    table = np.zeros((3, 5))
    table[1, 4] = np.nan
    with pytest.raises(DataError, match="GivenScores gave a NaN score for user 1"):
        evaluate(scored(train, table), test, k=2)
    named = taken([[0, 1], [0], [2]], 5, users=["ann", "bob", "cyd"])
    with pytest.raises(DataError, match="NaN score for user 'bob'"):
        evaluate(scored(named, table), taken([[2], [3], []], 5, users=["ann", "bob", "cyd"]), k=2)


def test_nan_scores_of_vectors_are_found_too(small, with_vectors):
    """A maximum over a user's vectors would swallow them."""
    _, train, test = small
    ones = np.ones((3, 2), np.float32)
    bias = np.array([0, 0, 0, np.nan, 0], np.float32)
    with pytest.raises(DataError, match="item_bias holds NaN"):
        VectorSpace(ones, np.arange(4), np.ones((5, 2), np.float32), "dot", bias)
    huge = ones.copy()
    huge[1] = 1e25  # its square is infinite
    space = VectorSpace(huge, np.arange(4), np.ones((5, 2), np.float32))
    with pytest.raises(DataError, match="gave a NaN score for user 1: its vectors are too large"):
        evaluate(with_vectors(train, space), test, k=2)
    huge = np.ones((5, 2), np.float32)
    huge[2] = 1e25
    with pytest.raises(DataError, match="gave NaN scores for item 2"):
        evaluate(with_vectors(train, VectorSpace(ones, np.arange(4), huge)), test, k=2)


@pytest.mark.parametrize(("n_users", "n_items", "n_vectors"), [(2, 5, 2), (3, 4, 3), (3, 5, 4), (3, 5, 2)])
def test_vectors_of_other_sizes_than_the_data_are_refused(small, with_vectors, n_users, n_items, n_vectors):
    _, train, test = small
    given = np.ones((n_vectors, 2), np.float32), np.arange(n_users + 1), np.ones((n_items, 2), np.float32)
    message = "expected 3 users and 5 items" if n_vectors == n_users else "the number of user vectors"
    with pytest.raises(DataError, match=message):
        evaluate(with_vectors(train, VectorSpace(*given)), test, k=2)


def test_scores_of_another_shape_are_refused(small, scored):
    _, train, test = small
    with pytest.raises(DataError, match=r"score_block gave shape \(2, 4\), expected \(2, 5\)"):
        evaluate(scored(train, np.zeros((3, 4))), test, k=2)


# ---- unknown users and items -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unknown_ids():
    """User 0 with one known and one unknown item, user 7 with one item, user 8 with three."""
    return Interactions.from_frame(pl.DataFrame({"user": [0, 0, 7, 8, 8, 8], "item": [2, 9, 3, 2, 3, 4]}))


def test_unknown_ids_are_an_error_by_default(small, unknown_ids):
    with pytest.raises(UnknownIdError, match="2 users and 1 items that the model has never seen"):
        evaluate(small[0], unknown_ids, k=2)
    with pytest.raises(ParameterError, match="on_unknown='drop'"):
        evaluate(small[0], unknown_ids, k=2, on_unknown="drop")


def test_unknown_ids_may_be_skipped(small, unknown_ids, taken):
    found = evaluate(small[0], unknown_ids, k=2, metrics=ALL, on_unknown="skip")
    known = evaluate(small[0], taken([[2], [], []], 5), k=2, metrics=ALL)
    assert found.metrics == known.metrics
    assert found.users.to_list() == [0]


def test_unknown_ids_may_count_as_zero(small, unknown_ids):
    report = evaluate(small[0], unknown_ids, k=2, metrics=ALL, on_unknown="zero")
    assert report.users.to_list() == [0, 7, 8]
    # User 0 finds item 2 at once and item 9 never; the others are served nothing.
    expected = {
        "P@2": [1 / 2, 0, 0],
        "R@2": [1 / 2, 0, 0],
        "NDCG@2": [1 / (1 + 1 / np.log2(3)), 0, 0],
        "HitRate@2": [1, 0, 0],
        "MAP": [1 / 2, 0, 0],
        "MRR": [1, 0, 0],
        "AUC": [1 / 2, 0, 0],
        "OPAUC(0.2)": [1 / 2, 0, 0],
    }
    for label, values in expected.items():
        assert report.per_user[label].tolist() == pytest.approx(values), label
        assert report.n_users[label] == 3
    for label in ("Novelty@2", "Coverage@2", "Gini@2"):  # of lists, and there is one
        assert report.n_users[label] == 1
    assert report["Coverage@2"] == 2 / 5


def test_an_unknown_user_needs_enough_test_items_for_the_protocol_too(small, unknown_ids):
    report = evaluate(small[0], unknown_ids, k=[1, 3], protocol="paper", on_unknown="zero")
    assert report.n_users == {"P@1": 3, "R@1": 3, "NDCG@1": 3, "P@3": 1, "R@3": 1, "NDCG@3": 1, "MAP": 1, "MRR": 1}
    assert report["MAP"] == 0.0


def test_a_known_user_with_unknown_items_only_scores_zero(small):
    # One candidate would be left without its negatives: nothing is known of the test item but that it was not found.
    test = Interactions.from_frame(pl.DataFrame({"user": [0, 1], "item": [9, 1]}))
    report = evaluate(small[0], test, k=1, on_unknown="zero", metrics=ALL)
    for label in ("P@1", "R@1", "NDCG@1", "HitRate@1", "MAP", "MRR", "AUC", "OPAUC(0.2)"):
        assert report.per_user[label][0] == 0.0
    assert report.n_users["Coverage@1"] == 2  # the user was served a list


def test_all_users_are_unknown(small):
    test = Interactions.from_frame(pl.DataFrame({"user": [7, 8], "item": [2, 3]}))
    report = evaluate(small[0], test, k=1, on_unknown="zero", metrics=["P", "MAP", "Coverage"])
    assert report.metrics == {"P@1": 0.0, "Coverage@1": 0.0, "MAP": 0.0}
    assert report.n_users == {"P@1": 2, "Coverage@1": 0, "MAP": 2}
    with pytest.raises(DataError, match="nothing to measure"):
        evaluate(small[0], test, k=1, on_unknown="skip")


def test_unknown_users_of_a_wider_type_keep_their_ids(scored):
    narrow = pl.DataFrame({"user": [1, 2], "item": [1, 2]}, schema_overrides={"user": pl.Int32})
    train = Interactions.from_frame(narrow)
    test = Interactions.from_frame(pl.DataFrame({"user": [1, 2**40], "item": [2, 1]}))
    report = evaluate(scored(train, np.zeros((2, 2))), test, k=1, on_unknown="zero")
    assert report.users.to_list() == [1, 2**40]


def test_seen_items_that_are_not_in_the_model_do_not_matter(small, unknown_ids):
    model, train, test = small
    with_unknown = evaluate(model, test, seen=[train, unknown_ids.subset([False, True, True, True, True, True])], k=2)
    assert with_unknown.metrics == evaluate(model, test, seen=train, k=2).metrics
    texts = Interactions.from_frame(pl.DataFrame({"user": ["0", "1"], "item": [1, 2]}))
    with pytest.raises(UnknownIdError, match="user ids of the seen data are String"):
        evaluate(model, test, seen=texts, k=2)


def test_ids_may_be_anything_and_the_test_set_may_have_fewer(scored):
    train = Interactions.from_frame(pl.DataFrame({"user": ["b", "a", "c"], "item": ["x", "y", "z"]}))
    test = Interactions.from_frame(pl.DataFrame({"user": ["c", "a", "a"], "item": ["x", "x", "z"]}))
    report = evaluate(scored(train, [[3, 9, 2], [0, 0, 0], [1, 2, 9]]), test, k=1)
    assert report.users.to_list() == ["a", "c"]
    assert report.per_user["P@1"].tolist() == [1.0, 0.0]  # y is a's own, so x comes first; y comes first for c


# ---- awkward rankings --------------------------------------------------------------------------------------


def test_infinite_scores_are_the_best_and_the_worst_candidates(taken, scored):
    train, test = taken([[0], [0]], 5), taken([[1], [4]], 5)
    inf = np.inf
    report = evaluate(scored(train, [[9, -inf, 1, inf, -inf], [9, -inf, 1, 0, inf]]), test, k=3, metrics=ALL)
    # User 0: 3, 2, then 1 and 4 tie at the end: by index. User 1: item 4 leads.
    assert report.per_user["MRR"].tolist() == pytest.approx([1 / 3, 1])
    assert report.per_user["AUC"].tolist() == pytest.approx([1 - 2.5 / 3, 1])
    lost = evaluate(scored(train, np.full((2, 5), -inf)), test, k=3, metrics=ALL)
    assert lost.per_user["AUC"].tolist() == [0.5, 0.5]
    assert lost.per_user["MRR"].tolist() == [1.0, 0.25]


def test_a_user_who_has_taken_everything_is_not_measured(taken, scored):
    train = taken([range(4), [0]], 4)
    test = taken([[2], [1, 2, 3]], 4)
    with pytest.warns(UserWarning, match="1 of 4"):
        report = evaluate(scored(train, np.zeros((2, 4))), test, k=4, metrics=["P", "R", "AUC", "Novelty"])
    assert report.users.to_list() == [1]
    assert report["R@4"] == 1.0
    assert report.n_users["AUC"] == 0  # all candidates are test items


# ---- both ways of scoring, threads -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def same_model_twice(town, with_vectors, scored):
    """The same model twice: by vectors and by scores. Small whole numbers make both exact, with many ties."""
    train, valid, test = split.per_user(town.interactions, seed=0)
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 5, train.n_users)
    models = {}
    for metric in ("l2", "dot"):
        space = VectorSpace(
            rng.integers(-2, 3, (counts.sum(), 6)).astype(np.float32),
            np.concatenate([[0], np.cumsum(counts)]),
            rng.integers(-2, 3, (train.n_items, 6)).astype(np.float32),
            metric,
            rng.integers(0, 3, train.n_items).astype(np.float32) if metric == "dot" else None,
        )
        by_scores = scored(train, space.scores(np.arange(train.n_users)))
        models[metric] = with_vectors(train, space), by_scores
    return models, train, valid, test


@pytest.mark.parametrize("protocol", ["paper", "full"])
@pytest.mark.parametrize("metric", ["l2", "dot"])
def test_the_path_of_vectors_equals_the_path_of_scores(same_model_twice, metric, protocol):
    models, train, valid, test = same_model_twice
    direct, plain = (
        evaluate(m, test, seen=[train, valid], protocol=protocol, metrics=ALL, k=[1, 5, 200]) for m in models[metric]
    )
    assert direct.n_users == plain.n_users
    assert list(direct.metrics.values()) == pytest.approx(list(plain.metrics.values()), abs=0, rel=0, nan_ok=True)
    for label, values in direct.per_user.items():
        assert np.array_equal(values, plain.per_user[label], equal_nan=True)


def test_the_figures_do_not_depend_on_threads(same_model_twice):
    models, train, valid, test = same_model_twice
    wanted = [*ALL, "CategoryILD", "MinorityRecall", "CategoryMAP"]
    rng = np.random.default_rng(9)
    rough = VectorSpace(
        rng.normal(size=(2 * train.n_users, 33)).astype(np.float32),
        2 * np.arange(train.n_users + 1),
        rng.normal(size=(train.n_items, 33)).astype(np.float32),
    )
    vectors, scores = models["l2"]
    for model, extra in (
        (vectors, ["MaxDiv"]),
        (scores, []),
        (type(vectors)().fit(train).with_vectors(rough), ["ILS"]),
    ):
        one, *others = (
            evaluate(model, test, seen=[train, valid], metrics=wanted + extra, threads=n) for n in (1, 2, 3, 8)
        )
        for other in others:
            assert list(one.metrics.values()) == pytest.approx(list(other.metrics.values()), abs=0, rel=0, nan_ok=True)
            for label, values in one.per_user.items():
                assert np.array_equal(values, other.per_user[label], equal_nan=True)


def test_wrong_threads(small):
    with pytest.raises(ParameterError, match="threads=-1"):
        evaluate(small[0], small[2], threads=-1)


def test_the_rank_of_a_user_does_not_depend_on_the_others(same_model_twice):
    """Blocks and tiles of users must not leak into each other."""
    models, train, valid, test = same_model_twice
    whole = evaluate(models["l2"][0], test, seen=[train, valid], metrics="MAP")
    some = np.isin(test.row_of_each(), [3, 117, 250])
    part = evaluate(models["l2"][0], test.subset(some), seen=[train, valid], metrics="MAP")
    at = [whole.users.to_list().index(user) for user in part.users]
    assert part.per_user["MAP"].tolist() == whole.per_user["MAP"][at].tolist()


# ---- streaming ---------------------------------------------------------------------------------------------


class Wide(Recommender):
    """A model of many items that records how many scores are requested at once."""

    def _fit(self, train, valid, progress):
        self.most, self.n_scored = 0, 0

    def score_block(self, users):
        scores = np.zeros((len(users), self.train_.n_items), np.float32)
        scores[:, 5] = 1.0
        self.most = max(self.most, scores.size)
        self.n_scored += len(users)
        return scores


def one_item_each(n_users, n_items=20_000):
    def interactions(item):
        table = (np.ones(n_users), np.full(n_users, item), np.arange(n_users + 1))
        return Interactions.from_scipy(sp.csr_array(table, shape=(n_users, n_items)))

    return interactions(0), interactions(7)


def test_blocks_are_bounded_and_memory_does_not_grow_with_users():
    peaks = []
    for n_users in (500, 4000):
        train, test = one_item_each(n_users)
        model = Wide().fit(train)
        tracemalloc.start()
        report = evaluate(model, test, metrics=[*ALL, "Coverage@20"], k=10)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert model.n_scored == n_users
        assert model.most <= 8_000_000  # 32 MB of scores
        # Item 5 leads, items 1 ... 6 tie with the test item 7 and come before it by index.
        assert report["MRR"] == pytest.approx(1 / 7)
        assert report["Coverage@20"] == 20 / 20_000
    # The whole table of the second would be 320 MB; its values per user are all that may grow.
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 80e6


def test_blocks_of_vectors_give_the_same_as_one_block(same_model_twice, monkeypatch):
    from tastespace.ranking import blocks as ranking

    models, train, valid, test = same_model_twice
    for model in models["dot"]:
        whole = evaluate(model, test, seen=[train, valid], metrics=ALL)
        with monkeypatch.context() as patch:
            patch.setattr(ranking, "_USERS_PER_BLOCK", 7)
            parts = evaluate(model, test, seen=[train, valid], metrics=ALL)
        assert parts.metrics == whole.metrics


def test_end_to_end_with_the_two_simplest_models(town):
    train, valid, test = split.per_user(town.interactions, seed=0)
    popular, ease = (evaluate(m.fit(train, valid), test) for m in (MostPopular(), EASE(threads=1)))
    assert ease["NDCG@10"] > 1.3 * popular["NDCG@10"]
    assert ease.model == "EASE(threads=1)"
    assert ease.seconds > 0


# ---- users without a training history ------------------------------------------------------------------------


def test_users_without_a_training_history_are_told_apart(taken, scored):
    train, test = taken([[0, 1], [0], []], 5), taken([[2], [1], [4]], 5)
    model = scored(train, [[9, 8, 3, 2, 1], [9, 1, 4, 3, 2], [1, 2, 3, 4, 9]])
    both = evaluate(model, test, k=1, metrics="P")
    assert (both.n_warm, both.n_cold) == (2, 1)
    assert both.per_user["P@1"].tolist() == [1.0, 0.0, 1.0]
    assert "2 users with and 1 without a training history: both are in the means" in str(both)
    warm = evaluate(model, test, k=1, metrics=["P", "Coverage"], only="warm")
    assert (warm.n_warm, warm.n_cold, warm["P@1"]) == (2, 1, 0.5)
    assert warm["Coverage@1"] == 1 / 5
    assert "the former are in the means" in str(warm)
    cold = evaluate(model, test, k=1, metrics="P", only="cold")
    assert (cold["P@1"], len(cold.users)) == (1.0, 1)
    assert cold.to_dict()["n_cold"] == cold.in_percent().n_cold == 1
    with pytest.raises(ParameterError, match="only='hot': expected 'warm'"):
        evaluate(model, test, only="hot")
    with pytest.raises(DataError, match="only='cold': none of the 1 users with test items is without training data"):
        evaluate(model, test.subset([True, False, False]), k=1, only="cold")


def test_unknown_users_are_cold(small):
    model, _, test = small
    more = Interactions.from_frame(pl.concat([test.to_frame(), pl.DataFrame({"user": [77], "item": [1]})]))
    report = evaluate(model, more, k=1, metrics="P", on_unknown="zero")
    assert (report.n_warm, report.n_cold, len(report.users)) == (2, 1, 3)
    assert len(evaluate(model, more, k=1, metrics="P", on_unknown="zero", only="warm").users) == 2
