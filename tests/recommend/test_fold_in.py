"""Fold-in: users who were not in training."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.recommend.toy_models import Given, assert_best, by_vector, lists_of, past_rows, space_of, taken

from tastespace import (
    CML,
    DPCML,
    EASE,
    Interactions,
    datasets,
    split,
    synthetic,
)
from tastespace.errors import DataError, ParameterError, UnknownIdError
from tastespace.recommend.rerank.reranked import Reranked, rerank

pytestmark = pytest.mark.usefixtures("one_core")

HISTORY = ["i03", "i41", "i42", "i77", "i80"]
OTHER = ["i10", "i11", "i12"]


@pytest.fixture(params=["dpcml", "cml", "ease", "popular"])
def model(request):
    return request.getfixturevalue(request.param)


# ---- as good as if they had been there ---------------------------------------------------------------------


def test_ease_treats_a_new_user_exactly_as_somebody_with_the_same_history(ease):
    users = ["u003", "u117", "u040"]
    known = ease.recommend(users, k=20)
    new = ease.recommend_for({user: ease.train_.items_of(user) for user in users}, k=20)
    assert_frame_equal(new, known, check_exact=True)
    again = ease.recommend_for({user: ease.train_.items_of(user) for user in users}, k=20, exclude_seen=False)
    assert_frame_equal(again, ease.recommend(users, k=20, exclude_seen=False), check_exact=True)


def test_most_popular_offers_what_the_new_user_does_not_have(popular, shop):
    best = [item for _, item in sorted(zip(-shop.item_counts, shop.items.series, strict=True))]
    found = popular.recommend_for([best[:3], best[1:2], best[-1:]], k=3)
    assert lists_of(found) == {0: best[3:6], 1: [best[0], *best[2:4]], 2: best[:3]}
    assert popular.fold_in([best[1:]]).recommend(0)["item"].to_list() == best[:1]


def ndcg(model, test, users, k=10):
    """Mean NDCG of these users, by its definition."""
    lists, found = lists_of(model.recommend(users, k=k)), []
    for user in users:
        liked = set(test.items_of(user))
        if liked:
            gain = sum(1 / np.log2(rank + 2) for rank, item in enumerate(lists[user]) if item in liked)
            found.append(gain / sum(1 / np.log2(rank + 2) for rank in range(min(k, len(liked)))))
    return np.mean(found)


def there_and_new(data, seed, **parameters):
    """NDCG@10 of a fifth of the users, had they been in training, and folded in."""
    train, test = split.per_user(data, (0.8, 0.2), seed=seed)
    warm, cold = split.cold_users(train, 0.2, seed=seed)
    model = DPCML(seed=seed, threads=1, **parameters)
    new = model.clone().fit(warm).fold_in(cold)
    users = new.train_.users.series.to_list()
    assert len(users) == round(0.2 * data.n_users)
    return ndcg(model.fit(train), test, users), ndcg(new, test, users)


def test_fold_in_is_nearly_as_good_as_training_on_synthetic_data():
    figures = []
    for seed in (0, 1):
        town = synthetic.multi_interest(n_users=300, n_items=200, n_interactions=9_000, seed=seed).interactions
        figures.append(there_and_new(town, seed, dim=16, epochs=50))
    there, new = np.sum(figures, axis=0)
    assert there > 0.6  # the sum of two; it is worth comparing with
    assert new >= 0.9 * there


@pytest.mark.slow
def test_fold_in_is_nearly_as_good_as_training_on_ml_100k(dataset_dir):
    data = datasets.load("ml-100k", data_dirs=dataset_dir("ml-100k").parent, download=False)
    there, new = np.sum([there_and_new(data, seed, dim=32, epochs=60) for seed in (0, 1)], axis=0)
    assert there > 0.5
    assert new >= 0.9 * there


@pytest.mark.parametrize(
    "parameters",
    [
        {"optimizer": "adam", "learning_rate": 0.01},
        {"optimizer": "sgd", "learning_rate": 0.05},
        {"sampler": "dihars", "weighting": "user"},
        {"sampler": "2sts"},
        {"geometry": "ball", "radius": 2.0},
        {"geometry": "sphere-ball"},
        {"geometry": "sphere"},
        {"average": 1},
    ],
    ids=str,
)
def test_every_way_of_learning_has_a_fold_in(shop, parameters):
    model = DPCML(dim=8, epochs=5, threads=1, **parameters).fit(shop)
    new = model.fold_in([HISTORY, OTHER])
    vectors = new.vectors()
    norms = np.linalg.norm(vectors.user_vectors, axis=1)
    radius = parameters.get("radius", 1.0)
    if model.geometry in (None, "ball"):
        assert (norms <= radius * (1 + 1e-5)).all()
    else:
        np.testing.assert_allclose(norms, radius, rtol=1e-5)
    # What they took stands nearer than what they did not: on average, because for one of them five epochs of SGD leave
    # so little that it depends on the last bits, which differ between SIMD variants.
    nearer = []
    for row in range(2):
        best = by_vector(vectors, row).max(axis=0)
        past = past_rows(new.train_, row)
        nearer.append(best[past].mean() - np.delete(best, past).mean())
    assert np.mean(nearer) > 0.05


# ---- what stays as it is -----------------------------------------------------------------------------------


def test_the_model_itself_is_untouched(dpcml):
    before = {name: getattr(dpcml, name).copy() for name in ("user_vectors_", "user_offsets_", "item_vectors_")}
    train, lists = dpcml.train_, dpcml.recommend()
    new = dpcml.fold_in([HISTORY, OTHER])
    assert new is not dpcml
    assert new.train_.n_users == 2
    assert new.vectors().item_vectors.tobytes() == before["item_vectors_"].tobytes()
    assert dpcml.train_ is train
    for name, array in before.items():
        assert getattr(dpcml, name).tobytes() == array.tobytes()
    assert dpcml.recommend().equals(lists)
    assert new.get_params() == dpcml.get_params()


def test_the_same_histories_give_the_same_bits(model):
    one, other = (model.recommend_for([HISTORY, OTHER], k=20) for _ in range(2))
    assert one.equals(other)
    if model.vectors() is not None:
        one, other = (model.fold_in([HISTORY, OTHER]).vectors().user_vectors for _ in range(2))
        assert one.tobytes() == other.tobytes()


def test_the_order_and_repeats_of_a_history_do_not_matter(model):
    expected = model.recommend_for([HISTORY], k=20)
    assert model.recommend_for([HISTORY[::-1]], k=20).equals(expected)
    assert model.recommend_for([[*HISTORY, *HISTORY[1:3]]], k=20).equals(expected)


def test_threads_do_not_change_new_users(shop, monkeypatch):
    monkeypatch.setattr("tastespace.models.dpcml._fold_in._PARALLEL", 0)  # a second thread joins in at once
    model = DPCML(dim=8, epochs=3, threads=1).fit(shop)
    histories = shop.subset(shop.row_of_each() < 20)
    one = model.fold_in(histories).vectors().user_vectors
    two = model.set_params(threads=2).fold_in(histories).vectors().user_vectors
    assert one.tobytes() == two.tobytes()


# ---- the folded model answers as any other -----------------------------------------------------------------


def test_the_number_of_vectors_follows_the_history(shop):
    histories = [shop.items.series.to_list()[:n] for n in (1, 4, 9, 27, 80)]
    adaptive = DPCML(dim=4, epochs=1, min_interests=1, threads=1).fit(shop).fold_in(histories)
    assert np.diff(adaptive.vectors().user_offsets).tolist() == [1, 1, 2, 3, 3]  # floor of the logarithm to base 3
    fixed = DPCML(dim=4, epochs=1, n_interests=2, threads=1).fit(shop).fold_in(histories)
    assert np.diff(fixed.vectors().user_offsets).tolist() == [2] * 5
    one = CML(dim=4, epochs=1, threads=1).fit(shop).fold_in(histories)
    assert np.diff(one.vectors().user_offsets).tolist() == [1] * 5


def test_new_users_lists_are_the_best_by_their_vectors(dpcml):
    new = dpcml.fold_in({"ann": HISTORY, "bob": OTHER})
    for row, (user, past) in enumerate((("ann", HISTORY), ("bob", OTHER))):
        found = new.train_.items.index_of(new.recommend([user], k=12)["item"]).tolist()
        seen = new.train_.items.index_of(past)
        best = by_vector(new.vectors(), row).max(axis=0)
        assert_best(found, best, sorted(set(range(90)) - set(seen)), 12)
    assert new.recommend(k=12).equals(dpcml.recommend_for({"ann": HISTORY, "bob": OTHER}, k=12))


def test_new_users_have_shelves_and_explanations(dpcml):
    new = dpcml.fold_in({"ann": HISTORY})
    shelves = new.shelves("ann", k=90)
    assert sum(shelf.weight for shelf in shelves) == pytest.approx(1)
    assert sorted(item for shelf in shelves for item in shelf.items) == sorted(
        set(dpcml.train_.items.series) - set(HISTORY)
    )
    best = new.recommend("ann", k=1)["item"][0]
    found = new.explain("ann", best)
    assert (found.rank, found.seen) == (1, False)
    assert {item for item, _, _ in found.beside} == set(HISTORY)
    assert new.explain("ann", HISTORY[0]).seen
    assert new.interests("ann")["weight"].sum() == pytest.approx(1)
    assert new.similar_items("i41").equals(dpcml.similar_items("i41"))


def test_options_of_a_request_hold_for_new_users(model):
    whole = model.recommend_for([HISTORY], k=90)["item"].to_list()
    assert not set(whole) & set(HISTORY)
    assert len(whole) == 85
    late = {row["item"] for row in model.train_.item_attributes.iter_rows(named=True) if (row["year"] or 0) >= 1990}
    for filter in ("year >= 1990", lambda items: items["year"] >= 1990):
        found = model.recommend_for([HISTORY], k=4, filter=filter)
        assert found["item"].to_list() == [item for item in whole if item in late][:4]
    found = model.recommend_for([HISTORY], items=["i41", "i01"])
    assert found["item"].to_list() == ["i01"]
    found = model.recommend_for([HISTORY], items=["i41", "i01"], exclude_seen=False)
    assert set(found["item"]) == {"i41", "i01"}


# ---- how histories are given -------------------------------------------------------------------------------


def test_histories_may_come_in_many_forms(model):
    rows = [("zoe", item) for item in HISTORY] + [("ann", item) for item in OTHER]
    plain = {name: [row[at] for row in rows] for at, name in enumerate(("user", "item"))}
    expected = model.recommend_for({"zoe": HISTORY, "ann": OTHER}, k=4)
    assert expected["user"].to_list() == ["zoe"] * 4 + ["ann"] * 4  # the order of the question
    assert lists_of(model.recommend_for([HISTORY, OTHER], k=4)).keys() == {0, 1}
    for histories in (
        {"zoe": tuple(HISTORY), "ann": np.array(OTHER)},
        {"zoe": pl.Series(HISTORY), "ann": set(OTHER)},
        pl.DataFrame(plain),
        pl.DataFrame(plain).lazy(),
        pl.DataFrame(plain).with_columns(pl.all().cast(pl.Categorical)),
        pl.DataFrame({**plain, "when": list(range(8))}),
    ):
        assert_frame_equal(model.recommend_for(histories, k=4), expected)
    found = model.recommend_for(pd.DataFrame(plain), k=4)
    assert isinstance(found, pd.DataFrame)
    assert_frame_equal(pl.DataFrame(found.to_dict("list")), expected, check_dtypes=False)
    # Interactions know no order of users but that of their ids.
    interactions = Interactions.from_frame(pl.DataFrame(plain))
    by_id = pl.concat([expected[4:], expected[:4]])
    assert_frame_equal(model.recommend_for(interactions, k=4), by_id)
    assert (
        model.recommend_for([HISTORY, OTHER], k=4)
        .drop("user")
        .equals(model.recommend_for({0: HISTORY, 1: OTHER}, k=4).drop("user"))
    )


def test_answers_to_lists_come_in_the_library_of_the_data(pandas_shop):
    found = EASE(threads=1).fit(pandas_shop).recommend_for([HISTORY])
    assert isinstance(found, pd.DataFrame)


def test_items_may_be_numbers():
    model = EASE(regularization=1.0, threads=1).fit(taken({1: [5, 7], 2: [5, 7], 3: [9, 5]}, [5, 7, 9]))
    assert model.recommend_for([[5], [9]], k=1)["item"].to_list() == [7, 5]
    assert model.recommend_for([np.array([5, 9])], k=5)["item"].to_list() == [7]


# ---- what is unknown ---------------------------------------------------------------------------------------


def test_unknown_items_are_an_error_that_offers_the_nearest(model):
    with pytest.raises(UnknownIdError, match=r"1 of 4 item ids are unknown, the first is 'I41'.*Did you mean i41"):
        model.fold_in([[*OTHER, "I41"]])
    with pytest.raises(UnknownIdError, match=r"2 of 2 item ids are unknown, the first is 'I41'.*Did you mean i41"):
        model.recommend_for([["I41", "new"]])


def test_unknown_items_of_a_session_are_left_out_with_a_warning(model, caplog):
    expected = model.recommend_for([OTHER, HISTORY], k=5)
    assert not caplog.records
    assert model.recommend_for([["new", *OTHER], [*HISTORY, "newer"]], k=5).equals(expected)
    n = len(OTHER) + len(HISTORY) + 2
    assert f"2 of {n} items of the histories are not in the model and are left out, the first is 'new'" in caplog.text
    with pytest.raises(DataError, match=r"1 histories hold no item of the model, the first is that of 1"):
        model.recommend_for([OTHER, ["new"]])


def test_unknown_items_may_be_left_out(model):
    expected = model.recommend_for({"ann": HISTORY}, k=5)
    for on_unknown in ("skip", "popular"):
        found = model.recommend_for({"ann": [*HISTORY, "new", "newer"]}, k=5, on_unknown=on_unknown)
        assert found.equals(expected)
    new = model.fold_in({"ann": [*HISTORY, "new"]}, on_unknown="skip")
    assert new.train_.items_of("ann") == sorted(HISTORY)
    assert new.train_.items == model.train_.items


@pytest.mark.parametrize("nothing", [["new", "newer"], []])
def test_users_without_a_known_item(model, shop, nothing):
    histories = {"zoe": nothing, "ann": HISTORY, "eve": nothing}
    known = model.recommend_for({"ann": HISTORY}, k=3)
    assert model.recommend_for(histories, k=3, on_unknown="skip").equals(known)
    found = model.recommend_for(histories, k=3, on_unknown="popular")
    assert found["user"].to_list() == ["zoe"] * 3 + ["ann"] * 3 + ["eve"] * 3
    assert found[3:6].equals(known)
    most = sorted(zip(-shop.item_counts, shop.items.series, strict=True))
    for part in (found[:3], found[6:]):
        assert part["item"].to_list() == [item for _, item in most[:3]]
        assert part["score"].null_count() == 3
        assert part["rank"].to_list() == [1, 2, 3]
    with pytest.raises(DataError, match=r"2 histories hold no item of the model, the first is that of '"):
        model.fold_in(histories, on_unknown="skip")


def test_users_without_any_known_item_only(model, shop):
    expected = model.recommend_for([HISTORY], k=3)
    nobody = model.recommend_for([["new"], []], k=3, on_unknown="skip")
    assert len(nobody) == 0
    assert nobody.columns == expected.columns
    found = model.recommend_for([["new"], []], k=3, on_unknown="popular", filter="year >= 2000")
    dated = set(shop.item_attributes.filter(pl.col("year") >= 2000)["item"])
    most = sorted(
        (-count, item) for count, item in zip(shop.item_counts, shop.items.series, strict=True) if item in dated
    )
    assert lists_of(found) == {user: [item for _, item in most[:3]] for user in (0, 1)}


def test_empty_histories_are_an_error_unless_told_otherwise(model):
    with pytest.raises(
        DataError, match=r"1 histories hold no item of the model, the first is that of 'eve'.*on_unknown='popular'"
    ):
        model.recommend_for({"ann": HISTORY, "eve": []})
    with pytest.raises(DataError, match=r"1 histories hold no item of the model, the first is that of 'eve'"):
        model.fold_in({"ann": HISTORY, "eve": []})


@pytest.mark.parametrize(
    "histories", [[], {}, pl.DataFrame({"user": [], "item": []})], ids=["list", "mapping", "frame"]
)
def test_no_histories_at_all_are_an_error(model, histories):
    for ask in (model.recommend_for, model.fold_in):
        with pytest.raises(DataError, match="histories is empty: expected at least one user"):
            ask(histories)


def test_histories_that_make_no_sense_are_refused(model):
    for ask in (model.recommend_for, model.fold_in):
        with pytest.raises(
            DataError, match=r"histories is a list of str, expected a list of lists .*\[\[\.\.\.\]\] for one"
        ):
            ask(HISTORY)
        with pytest.raises(DataError, match=r"histories is a list of int.*\[\[\.\.\.\]\]"):
            ask([3, 4])
        with pytest.raises(DataError, match="histories have the columns 'who', 'item', expected user and item"):
            ask(pl.DataFrame({"who": ["ann"], "item": ["i41"]}))
        with pytest.raises(DataError, match="1 of 2 ids are null"):
            ask(pl.DataFrame({"user": ["ann", None], "item": ["i41", "i42"]}))
        with pytest.raises(DataError, match="expected a data frame"):
            ask("i41")
        with pytest.raises(DataError, match="mixes types"):
            ask({"ann": ["i41"], 3: ["i42"]})
    with pytest.raises(ParameterError, match="on_unknown='popular': expected 'error' or 'skip'"):
        model.fold_in([HISTORY], on_unknown="popular")


def test_models_without_fold_in_say_so():
    model = Given(space_of([[[0]], [[1]]], [[0], [1], [2]])).fit(taken({"ann": "ab", "bob": "c"}, "abc"))
    for ask in (model.recommend_for, model.fold_in):
        with pytest.raises(ParameterError, match="Given has no fold-in for users who were not in training; fit it"):
            ask([["a"]])


def test_a_list_does_not_depend_on_the_other_users_folded_in():
    town = synthetic.multi_interest(n_users=200, n_items=80, n_interactions=4_000, seed=3).interactions
    for gamma in ("statistic", "random"):
        model = DPCML(dim=12, epochs=4, sampler="dihars", n_negatives=20, beta=0.05, gamma=gamma, seed=1).fit(town)
        histories = [town.items_of(user) for user in (3, 50, 120)]
        alone = model.recommend_for([histories[1]], k=10)
        among = model.recommend_for(histories, k=10).filter(pl.col("user") == 1)
        assert alone["item"].to_list() == among["item"].to_list()
        assert alone["score"].to_list() == among["score"].to_list()


def test_popularity_is_that_of_training_for_new_users_too():
    town = synthetic.multi_interest(n_users=200, n_items=80, n_interactions=4_000, seed=3).interactions
    model = EASE().fit(town)
    new = model.fold_in([[3, 17, 21]])
    popular = town.items.take(np.argsort(-town.item_counts, kind="stable")[:3]).to_list()
    assert new.recommend([999], k=3, on_unknown="popular")["item"].to_list() == popular
    again = new.fold_in([[5]])
    assert again.popularity_source is town


def test_shelf_names_do_not_depend_on_the_other_new_users():
    town = synthetic.multi_interest(n_users=200, n_items=80, n_interactions=4_000, seed=3).interactions
    model = DPCML(dim=12, epochs=4, n_interests=3, seed=1).fit(town)
    histories = {user: town.items_of(user) for user in range(40)}
    alone = model.fold_in({7: histories[7]}).shelves(7)
    among = model.fold_in(histories).shelves(7)
    assert [shelf.name for shelf in alone] == [shelf.name for shelf in among]


@pytest.mark.parametrize("first", [EASE(), CML(dim=8, epochs=3, seed=0)])
def test_two_stages_have_a_fold_in(first):
    town = synthetic.multi_interest(n_users=200, n_items=80, n_interactions=4_000, seed=3).interactions
    model = Reranked.around(first.fit(town), how="mmr", weight=0.6, pool=30)
    lists = model.recommend_for([[3, 17, 21], [40, 41]], k=6)
    folded = first.fold_in([[3, 17, 21], [40, 41]])
    expected = rerank(folded.recommend(k=30), folded, how="mmr", k=6, weight=0.6)
    assert lists["item"].to_list() == expected["item"].to_list()
    assert lists["item"].to_list()[:6] != lists["item"].to_list()[6:]


def test_histories_as_an_array():
    town = synthetic.multi_interest(n_users=200, n_items=80, n_interactions=4_000, seed=3).interactions
    model = EASE().fit(town)
    assert_frame_equal(model.recommend_for(np.array([[3, 4], [5, 6]])), model.recommend_for([[3, 4], [5, 6]]))


@pytest.mark.parametrize("n_items", [30, 400], ids=["few items", "many items"])
def test_new_users_with_histories_of_the_same_length_learn_as_if_alone(n_items):
    """They share the draws of negatives, of which some are items of theirs."""
    town = synthetic.multi_interest(n_users=60, n_items=n_items, n_interactions=900).interactions
    model = DPCML(dim=8, n_interests=3, n_negatives=5, epochs=2, threads=1, seed=1).fit(town)
    random = np.random.default_rng(0)
    lengths = [6] * 20 + [1, 2, 12, 12]
    histories = [random.choice(town.items.series.to_numpy(), n, replace=False).tolist() for n in lengths]
    together = model.fold_in(histories).user_vectors_
    alone = np.concatenate([model.fold_in([one]).user_vectors_ for one in histories])
    np.testing.assert_array_equal(together, alone)
