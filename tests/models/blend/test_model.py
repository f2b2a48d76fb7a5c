"""Blend: scores against the plain formula, weights, fold-in, partial_fit, parameters, interests, files."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.models.given_scores import Given

import tastespace
from tastespace import (
    CML,
    DPCML,
    EASE,
    Blend,
    Interactions,
    MostPopular,
    evaluate,
    split,
    synthetic,
)
from tastespace.data.merge import concat
from tastespace.errors import DataError, NotFittedError, ParameterError
from tastespace.models import (
    ALS,
    ItemKNN,
    SparseEASE,
    create,
)
from tastespace.models.blend.members import checked_weights
from tastespace.models.blend.weights import CandidateScores

FIRST = {"dim": 8, "n_interests": 3, "epochs": 4, "seed": 0}


@pytest.fixture(scope="module")
def data():
    """80 users and 60 items with text ids; the items have categories."""
    made = synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1600, seed=3).interactions
    frame = made.to_frame().select(pl.format("u{}", "user").alias("user"), pl.format("i{}", "item").alias("item"))
    kinds = pl.DataFrame({"item": frame["item"].unique(maintain_order=True)}).with_row_index()
    kinds = kinds.select("item", genre=pl.format("genre {}", pl.col("index") % 4))
    return Interactions.from_frame(frame, item_attributes=kinds)


@pytest.fixture(scope="module")
def parts(data):
    return split.per_user(data, (0.6, 0.2, 0.2), seed=0)


@pytest.fixture(scope="module")
def members(parts):
    return [DPCML(**FIRST).fit(parts[0]), EASE(regularization=20.0).fit(parts[0])]


@pytest.fixture(scope="module")
def blend(members):
    return Blend.of(members, [0.6, 0.4])


def plain_scores(members, weights, users):
    """The formula of the class, in double precision."""
    total = 0.0
    for member, weight in zip(members, weights, strict=True):
        scores = member.score_block(users).astype(np.float64)
        mean, deviation = scores.mean(axis=1, keepdims=True), scores.std(axis=1, keepdims=True)
        total = total + weight * (scores - mean) / np.where(deviation == 0, 1.0, deviation)
    return total


def only(data, keep):
    """Some of the interactions, with the users and items that they have."""
    return Interactions.from_frame(data.subset(keep).to_frame())


# ---- scores ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[0.6, 0.4], [1.0, 0.0], [0.0, 1.0]])
def test_scores_are_those_of_the_formula(members, weights, data):
    users = np.arange(data.n_users)
    found = Blend.of(members, weights).score_block(users)
    np.testing.assert_allclose(found, plain_scores(members, weights, users), rtol=1e-4, atol=1e-5)


def test_scales_and_offsets_of_members_do_not_matter(parts):
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal(parts[0].matrix.shape) for _ in range(2)]
    one = Blend.of([Given(table).fit(parts[0]) for table in tables], [0.5, 0.5])
    other = Blend.of([Given(1000 * tables[0] - 5e4).fit(parts[0]), Given(tables[1]).fit(parts[0])], [0.5, 0.5])
    users = np.arange(10)
    np.testing.assert_allclose(one.score_block(users), other.score_block(users), atol=1e-4)


def test_a_member_that_scores_all_items_alike_adds_nothing(parts, members):
    table = np.ones(parts[0].matrix.shape)
    model = Blend.of([Given(table).fit(parts[0]), members[1]], [0.9, 0.1])
    expected = plain_scores(members[1:], [0.1], np.arange(5))
    np.testing.assert_allclose(model.score_block(np.arange(5)), expected, rtol=1e-4, atol=1e-5)


def test_a_single_member_keeps_its_lists(members):
    for member in members:
        found, own = Blend.of([member], [1.0]).recommend(k=10), member.recommend(k=10)
        assert found["item"].to_list() == own["item"].to_list()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_name_the_member_and_the_user(parts, members, bad):
    table = np.zeros(parts[0].matrix.shape)
    table[4, 7] = bad
    broken = Given(table).fit(parts[0])
    message = rf"Given.* NaN or infinite score for user '{parts[0].users[4]}'"
    with pytest.raises(DataError, match=message):
        Blend.of([members[1], broken], [0.5, 0.5]).score_block(np.arange(10))
    with pytest.raises(DataError, match=message):
        Blend.of([members[1], broken], valid=parts[1])
    Blend.of([members[1], broken], [1.0, 0.0]).score_block(np.arange(10))  # a member without weight is not asked


# ---- weights -----------------------------------------------------------------------------------------------------


def test_given_weights_are_not_changed_by_rounding():
    given = [0.3, 0.3, 0.3, 0.1]
    assert sum(given) != 1.0
    assert checked_weights(given, 4).tolist() == given


def test_given_weights_are_kept_and_members_are_fitted_to_everything(data, parts):
    model = Blend([CML(dim=8, epochs=2), EASE()], [0.7, 0.3]).fit(parts[0], valid=parts[1])
    np.testing.assert_allclose(model.weights_, [0.7, 0.3])
    assert [type(member) for member in model.members_] == [CML, EASE]
    assert all(member.train_ is parts[0] for member in model.members_)
    assert model.members[0] is not model.members_[0]
    assert not model.members[0].is_fitted


def test_chosen_weights_sum_to_1_and_are_not_worse_than_the_best_member(parts):
    for seed in range(3):
        templates = [CML(dim=8, epochs=6, seed=seed), EASE(regularization=30.0), MostPopular()]
        model = Blend(templates).fit(parts[0], valid=parts[1])
        assert model.weights_.sum() == pytest.approx(1.0)
        assert (model.weights_ >= 0).all()

        def objective(one):
            found = evaluate(one, parts[1], seen=parts[0], metrics=["NDCG@10", "R@20"])
            return (found["NDCG@10"] + found["R@20"]) / 2

        best = max(objective(Blend.of([member], [1.0])) for member in model.members_)
        assert objective(model) >= best - 1e-6


def test_a_useless_member_gets_no_weight_and_a_perfect_one_all(parts):
    """0 and 1 can be reached."""
    rng = np.random.default_rng(0)
    truth = parts[1].matrix.toarray() + 1e-3 * rng.random(parts[1].matrix.shape)
    perfect, inverse = Given(truth).fit(parts[0]), Given(-truth).fit(parts[0])
    np.testing.assert_array_equal(Blend.of([inverse, perfect], valid=parts[1]).weights_, [0.0, 1.0])


def test_without_validation_data_a_part_is_held_out_and_members_get_everything(data):
    templates = [CML(dim=8, epochs=12, patience=2, validate_every=1), EASE(regularization=30.0)]
    model = Blend(templates).fit(data)
    held_out, rest = split.per_user(data, (0.2, 0.8), seed=0)
    by_hand = Blend(templates).fit(rest, valid=held_out)
    np.testing.assert_array_equal(model.weights_, by_hand.weights_)
    assert all(member.train_ is data for member in model.members_)
    assert len(model.members_[0].history_) == by_hand.members_[0].best_epoch_
    assert model.valid_ is None


def test_histories_too_short_to_hold_out_a_part_give_equal_weights(caplog):
    frame = pl.DataFrame({"user": [1, 1, 2, 2, 3, 3], "item": ["a", "b", "b", "c", "a", "c"]})
    model = Blend([EASE(), MostPopular()]).fit(frame)
    np.testing.assert_array_equal(model.weights_, [0.5, 0.5])
    assert "too short" in caplog.text


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.4], r"weights=\[0.5, 0.4\] sum to 0.9, expected 1"),
        ([1.0], "1 weights for 2 members, expected one each"),
        ([1.5, -0.5], r"weights=-0.5: expected a number, 0 or more"),
        ([float("nan"), 1.0], "weights=nan"),
        (["a", 1.0], "weights='a'"),
    ],
)
def test_bad_weights(members, parts, weights, message):
    with pytest.raises(ParameterError, match=message):
        Blend.of(members, weights)
    with pytest.raises(ParameterError, match=message):
        Blend([CML(), EASE()], weights).fit(parts[0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], r"members=\[\]: expected at least one model"),
        (EASE(), "expected a list of models"),
        ("ease", "'ease' is not a model|'e' is not a model"),
        ([EASE(), EASE], "is not a model"),
        (3, "expected a list of models"),
    ],
)
def test_bad_members(parts, given, message):
    with pytest.raises(ParameterError, match=message):
        Blend(given).fit(parts[0])
    with pytest.raises(ParameterError, match=message):
        Blend.of(given, [1.0])


def test_other_bad_parameters(members, parts):
    for changes, message in (
        ({"category_balance": -0.1}, "category_balance=-0.1: expected a number, 0 or more"),
        ({"lift": -0.1}, "lift=-0.1: expected a number, 0 or more"),
        ({"lift": float("nan")}, "lift=nan: expected a number, 0 or more"),
        ({"focus": -0.1}, "focus=-0.1: expected a number, 0 or more"),
        ({"focus": 1.5}, r"focus=1.5: expected a number from 0 \(sum\) to 1 \(strongest taste\)"),
        ({"n_tastes": 0}, "n_tastes=0"),
        ({"n_tastes": 2.5}, "n_tastes=2.5"),
        ({"threads": -1}, "threads=-1"),
    ):
        with pytest.raises(ParameterError, match=message):
            Blend.of(members, [0.5, 0.5], **changes).score_block(np.arange(2))


def test_of_refuses_members_that_do_not_belong_together(data, parts, members):
    fewer = only(data, data.indices < 30)
    with pytest.raises(DataError, match=r"DPCML has 60 items, EASE 30\. Fit all of them"):
        Blend.of([members[0], EASE().fit(fewer)], [0.5, 0.5])
    renamed = Interactions.from_frame(data.to_frame().with_columns(pl.format("x{}", "user").alias("user")))
    with pytest.raises(DataError, match=r"DPCML has 80 users, EASE 80 with other ids\. Fit all"):
        Blend.of([members[0], EASE().fit(renamed)], [0.5, 0.5])
    with pytest.raises(NotFittedError, match="EASE is not fitted"):
        Blend.of([members[0], EASE()], [0.5, 0.5])
    with pytest.raises(ParameterError, match="neither weights nor valid"):
        Blend.of(members)
    with pytest.raises(DataError, match="other users or items"):
        Blend.of(members, valid=renamed)
    with pytest.raises(DataError, match="is empty: weights cannot be chosen"):
        Blend.of(members, valid=parts[1].subset(np.zeros(parts[1].n_interactions, dtype=bool)))


def test_of_keeps_what_the_members_have_learned(blend, members):
    assert blend.members_[0] is members[0]
    assert blend.is_fitted
    again = blend.clone().fit(members[0].train_)
    np.testing.assert_array_equal(again.score_block(np.arange(9)), blend.score_block(np.arange(9)))


# ---- weighted data -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weighted(data):
    frame = data.to_frame().with_columns(weight=pl.int_range(pl.len()) % 5 + 1.0)
    return Interactions.from_frame(frame, weight="weight")


def test_weights_of_interactions_go_to_the_members_that_use_them(weighted, tmp_path):
    model = Blend([CML(dim=8, epochs=2), EASE()], [0.5, 0.5]).fit(weighted)
    cml, ease = CML(dim=8, epochs=2).fit(weighted.without_weights()), EASE().fit(weighted)
    users = np.arange(weighted.n_users)
    np.testing.assert_array_equal(model.score_block(users), Blend.of([cml, ease], [0.5, 0.5]).score_block(users))
    assert model.train_.weights is not None
    assert Blend.of([cml, ease], [0.5, 0.5]).train_.weights is not None
    model.save(tmp_path / "model")
    loaded = tastespace.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.score_block(users), model.score_block(users))
    assert loaded.members_[0].train_.weights is None
    loaded.partial_fit(weighted)


def test_weights_are_chosen_on_weighted_data(weighted):
    model = Blend([CML(dim=8, epochs=2), EASE()]).fit(weighted)
    assert model.weights_.sum() == pytest.approx(1.0)


def test_partial_fit_wants_weights_where_fit_had_them(weighted):
    model = Blend([EASE(), MostPopular()], [0.5, 0.5]).fit(weighted)
    with pytest.raises(DataError, match=r"with no weights.*Give both or neither"):
        model.partial_fit(weighted.without_weights())


# ---- fold-in and partial_fit -------------------------------------------------------------------------------------


def test_fold_in_of_training_histories_equals_training_for_linear_members(parts):
    train = parts[0]
    model = Blend.of([EASE().fit(train), SparseEASE().fit(train), ItemKNN().fit(train)], [0.4, 0.3, 0.3])
    names = [user for user in train.users.series if len(train.items_of(user))]
    folded = model.fold_in({user: train.items_of(user) for user in names})
    users = train.users.index_of(names)
    order = folded.train_.users.index_of(names)
    np.testing.assert_allclose(folded.score_block(order), model.score_block(users), rtol=1e-4, atol=1e-5)
    assert folded.members_[0].train_ is folded.train_
    assert model.members_[0].train_ is train


@pytest.mark.parametrize("balance", [0.0, 0.4])
def test_fold_in_with_tastes_and_balance(members, data, balance):
    model = Blend.of(members, [0.6, 0.4], category_balance=balance)
    model.score_block(np.arange(3))  # the balance of the users of training must not stay
    history = data.items_of(data.users[3])
    folded = model.fold_in({"zoe": history})
    parts_of = [member.fold_in({"zoe": history}) for member in members]
    expected = Blend.of(parts_of, [0.6, 0.4], category_balance=balance)
    np.testing.assert_allclose(folded.score_block([0]), expected.score_block([0]), rtol=1e-5, atol=1e-5)
    frame = model.recommend_for({"zoe": history}, k=4)
    assert frame.columns == ["user", "item", "rank", "score", "interest"]
    assert not set(frame["item"]) & set(history)


def test_fold_in_names_the_member_that_has_none(parts, members):
    model = Blend.of([members[1], Given(np.zeros(parts[0].matrix.shape)).fit(parts[0])], [1.0, 0.0])
    assert not model.supports_fold_in
    with pytest.raises(ParameterError, match="Given, a member of the Blend, has no fold-in"):
        model.fold_in([["i1"]])
    assert Blend.of(members, [0.5, 0.5]).supports_fold_in


def test_partial_fit_with_new_users_and_items(data):
    is_old = (data.row_of_each() < 70) & (data.indices < 50)
    old, rest = only(data, is_old), only(data, ~is_old)
    assert (old.n_users, old.n_items) == (70, 50)
    model = Blend([DPCML(**FIRST), EASE(regularization=20.0)], [0.5, 0.5]).fit(old)
    model.recommend(k=3)  # the tastes of the old users must not stay
    first = model.members_[0]
    before = first.item_vectors_.copy()
    assert model.partial_fit(rest) is model
    assert model.train_.n_users == data.n_users
    assert model.train_.n_items == data.n_items
    np.testing.assert_array_equal(first.item_vectors_, before)  # the members given are not changed
    dpcml = DPCML(**FIRST).fit(old).partial_fit(rest)
    ease = EASE(regularization=20.0).fit(concat(old, rest))
    users = np.arange(data.n_users)
    expected = Blend.of([dpcml, ease], [0.5, 0.5]).score_block(users)
    np.testing.assert_allclose(model.score_block(users), expected, rtol=1e-5, atol=1e-5)


def test_partial_fit_of_an_unfitted_model_and_of_other_data(parts, blend):
    with pytest.raises(NotFittedError):
        Blend([EASE()]).partial_fit(parts[1])
    with pytest.raises(DataError, match=r"partial_fit expects new to be Interactions, .*given list"):
        blend.partial_fit([[1]])


# ---- parameters ----------------------------------------------------------------------------------------------------


def test_parameters_of_members_have_nested_names():
    model = Blend([DPCML(dim=8), EASE(100.0), DPCML(dim=4)])
    assert model.get_params()["dpcml__dim"] == 8
    assert model.get_params()["dpcml_2__dim"] == 4
    assert model.get_params()["ease__regularization"] == 100.0
    assert "dpcml__dim" not in model.get_params(deep=False)
    model.set_params(dpcml_2__dim=5, ease__regularization=3.0, threads=1)
    assert (model.members[0].dim, model.members[1].regularization, model.members[2].dim) == (8, 3.0, 5)
    assert model.threads == 1
    with pytest.raises(ParameterError, match=r"no parameter cml__dim: its members are dpcml, ease, dpcml_2"):
        model.set_params(cml__dim=3)
    with pytest.raises(ParameterError, match="no parameter 'di'"):
        model.set_params(dpcml__di=3)
    model.set_params(members=[CML()], cml__dim=7)
    assert model.members[0].dim == 7


def test_default_members_change_by_nested_names_and_stay_none_otherwise():
    model = Blend()
    assert model.set_params(**model.get_params()).members is None
    model.set_params(dpcml__dim=7)
    assert model.get_params()["dpcml__dim"] == 7
    assert repr(model) == "Blend(members=[DPCML(dim=7), SparseEASE()])"


def test_clones_share_no_members(blend):
    sklearn = pytest.importorskip("sklearn.base")
    for clone in (blend.clone(), sklearn.clone(blend)):
        assert not clone.is_fitted
        assert repr(clone) == repr(blend)
        assert clone.members[0] is not blend.members[0]
        clone.set_params(dpcml__dim=3)
        assert blend.members[0].dim == 8


def test_create_makes_blends_by_name():
    model = create("blend:dpcml+ease", dpcml__dim=5, focus=0.2)
    assert repr(model) == "Blend(members=[DPCML(dim=5), EASE()], focus=0.2)"
    assert repr(create("blend:dpcml+dn+ease").members) == "[DPCMLDN(), EASE()]"
    for name in ("blend:dpcml+eas", "blend:", "blend:+ease"):
        with pytest.raises(ParameterError, match="is no model; expected names joined by a plus sign"):
            create(name)


@pytest.mark.parametrize("change", [{"category_balance": 0.5}, {"focus": 0.5}, {"lift": 0.3}])
def test_how_tastes_make_a_score_may_change_after_fit(members, data, change):
    model = Blend.of(members, [0.5, 0.5])
    users = np.arange(data.n_users)
    before = model.score_block(users)
    after = model.set_params(**change).score_block(users)
    np.testing.assert_array_equal(after, Blend.of(members, [0.5, 0.5], **change).score_block(users))
    assert not np.array_equal(after, before)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_number_of_threads_gives_the_same_bits(members, parts, data, threads):
    users = np.arange(data.n_users)
    settings = {"focus": 0.4, "lift": 0.2, "category_balance": 0.3}
    one = Blend.of(members, valid=parts[1], **settings, threads=1)
    other = Blend.of(members, valid=parts[1], **settings, threads=threads)
    np.testing.assert_array_equal(one.weights_, other.weights_)
    np.testing.assert_array_equal(one.taste_of_past_, other.taste_of_past_)
    np.testing.assert_array_equal(one.score_block(users), other.score_block(users))


def test_a_second_fit_forgets_the_recipe(parts):
    model = Blend([EASE()], [1.0]).fit(parts[0])
    model.recipe_ = {"trials": []}
    assert model.fit(parts[0]).recipe_ is None


# ---- interests -----------------------------------------------------------------------------------------------------


def test_lists_say_the_taste_that_says_most_for_each_item(blend, data):
    frame = blend.recommend(k=6)
    assert frame.columns == ["user", "item", "rank", "score", "interest"]
    users, items = data.users.index_of(frame["user"]), data.items.index_of(frame["item"])
    strongest = blend.taste_parts(np.arange(data.n_users)).strongest()
    np.testing.assert_array_equal(frame["interest"], strongest[users, items])
    np.testing.assert_allclose(frame["score"], blend.score_block(np.arange(data.n_users))[users, items], atol=1e-6)
    assert frame["interest"].n_unique() > 1


def test_shelves_explanations_and_interests(blend, data):
    user = data.users[2]
    whole = blend.recommend(user, k=data.n_items)
    interest_of = dict(whole.select("item", "interest").iter_rows())
    for shelf in blend.shelves(user, k=data.n_items):
        assert shelf.items
        assert {interest_of[item] for item in shelf.items} == {shelf.interest}
    for row in whole.head(5).iter_rows(named=True):
        explained = blend.explain(user, row["item"])
        assert (explained.rank, explained.interest) == (row["rank"], row["interest"])
    assert blend.interests(user)["weight"].sum() == pytest.approx(1.0)
    assert len(blend.recommend(user, k=5, mix="proportional")) == 5


def test_items_are_compared_by_the_member_with_several_vectors_that_weighs_most(parts):
    models = [DPCML(dim=4, n_interests=n, epochs=2).fit(parts[0]) for n in (2, 3)]
    for weights, expected in (([0.7, 0.3], models[0]), ([0.3, 0.7], models[1])):
        blend = Blend.of(models, weights)
        np.testing.assert_array_equal(blend.item_space().item_vectors, expected.item_vectors_)
    one = Blend.of([EASE().fit(parts[0]), models[0]], [0.9, 0.1])
    np.testing.assert_array_equal(one.item_space().item_vectors, models[0].item_vectors_)


def test_a_blend_has_interests_whatever_its_members_are(parts, data):
    model = Blend.of([CML(dim=4, epochs=1).fit(parts[0]), EASE().fit(parts[0])], [0.5, 0.5])
    assert model.has_interests
    assert model.recommend(k=2).columns == ["user", "item", "rank", "score", "interest"]
    assert len(model.shelves(data.users[0])) >= 1
    assert model.interests(data.users[0])["weight"].sum() == pytest.approx(1.0)
    assert model.item_space() is not None  # CML's
    assert len(model.similar_items(data.items[0], k=3)) == 3


def test_unfitted_blends_say_so():
    for call in (lambda m: m.item_space(), lambda m: m.interest_space(), lambda m: m.score_block(np.arange(1))):
        with pytest.raises(NotFittedError):
            call(Blend([EASE()]))


# ---- files -----------------------------------------------------------------------------------------------------------


def test_a_saved_blend_comes_back_with_its_recipe(tmp_path, members, data):
    model = Blend.of([members[0], Blend.of([members[1], ALS(dim=4).fit(members[0].train_)], [0.5, 0.5])], [0.3, 0.7])
    model.recipe_ = {"trials": [{"model": "EASE()", "weight": None, "NDCG@10": 0.5}], "notes": ["one"]}
    model.save(tmp_path / "model")
    loaded = tastespace.load(tmp_path / "model", verify=True)
    users = np.arange(data.n_users)
    np.testing.assert_array_equal(loaded.score_block(users), model.score_block(users))
    assert loaded.recipe_ == model.recipe_
    assert loaded.recommend(k=3).equals(model.recommend(k=3))
    assert loaded.fold_in([["i1", "i2"]]).recommend(k=2).equals(model.fold_in([["i1", "i2"]]).recommend(k=2))
    assert repr(loaded) == repr(model)
    text = (tmp_path / "model" / "model.json").read_text()
    assert json.loads(text)["learned"]["members_"][0]["$model"] == "dpcml"


# ---- the scores that weights are chosen by --------------------------------------------------------------------------


def test_a_member_may_be_evaluated_on_part_of_the_users(members, parts):
    scores = CandidateScores.of(members, parts[1], max_users=10)
    assert len(scores.users) == 10
    assert (np.diff(scores.users) > 0).all()


def test_of_refuses_members_of_other_interactions_the_same_member_twice_and_other_data(members, parts):
    other = EASE().fit(parts[0].subset(np.arange(parts[0].n_interactions) % 3 > 0))
    with pytest.raises(DataError, match=r"fitted on the same interactions: DPCML has [\d,]+, EASE"):
        Blend.of([members[0], other], [0.5, 0.5])
    with pytest.raises(ParameterError, match="the same model twice"):
        Blend.of([members[0], members[0]], [0.5, 0.5])
    with pytest.raises(DataError, match="valid is DataFrame, expected Interactions"):
        Blend.of(members, valid=parts[1].to_frame())
    for weights in (1, {0: 0.5, 1: 0.5}, np.array([0.5, 0.5]), "0.5,0.5"):
        with pytest.raises(ParameterError, match="expected a list of numbers"):
            Blend.of(members, weights)


def test_a_balance_that_is_impossible_is_refused_at_once(data):
    bare = EASE().fit(Interactions.from_frame(data.to_frame()))
    with pytest.raises(ParameterError, match="category_balance needs item categories"):
        Blend.of([bare], [1.0], category_balance=0.3)


def test_members_may_have_checkpoints(data, tmp_path):
    first = DPCML(**FIRST, checkpoint=str(tmp_path / "run.ckpt"), log_file=str(tmp_path / "run.csv"))
    Blend([first, EASE()]).fit(data)
    assert {path.name for path in tmp_path.iterdir()} == {"run.ckpt", "run-final.ckpt", "run.csv", "run-final.csv"}


def test_as_chosen_keeps_weights_and_epochs(parts):
    fitted = Blend([DPCML(**{**FIRST, "n_interests": "auto"}), EASE()]).fit(parts[0], parts[1])
    again = fitted.as_chosen()
    assert again.weights == fitted.weights_.tolist()
    assert again.members[0].n_interests == fitted.members_[0].n_interests_
    assert again.members[0].epochs == fitted.members_[0].best_epoch_
    assert not again.is_fitted


def test_people_who_are_folded_in_share_the_categories_of_items():
    town = synthetic.multi_interest(n_users=200, n_items=1_500, n_interactions=6_000, seed=1).interactions
    names = [[f"c{n % 18}", f"d{n % 7}"] for n in range(town.n_items)]
    frame = pl.DataFrame({"item": town.items.series, "genres": names})
    model = Blend.of([EASE().fit(replace(town, item_attributes=frame))], [1.0], category_balance=0.5)
    model.recommend_for([[1, 2, 3]], k=3)

    def held(n: int) -> tuple[list[Blend], int]:
        before = tracemalloc.get_traced_memory()[0]
        people = [model.fold_in([[n, n + 1, n + 2]]) for n in range(n)]
        for one in people:
            one.recommend(k=3)
        return people, (tracemalloc.get_traced_memory()[0] - before) // n

    tracemalloc.start()
    try:
        held(20)
        people, each = held(20)
    finally:
        tracemalloc.stop()
    assert each < 40_000  # 117 KB for each when they had tables of their own
    assert people[0]._balance._membership is model._balance._membership
