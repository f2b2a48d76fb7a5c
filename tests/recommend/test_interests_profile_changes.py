"""Muted interests do not come back, and profiles: muted and boosted interests that a model remembers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.errors import DataError, ParameterError, UnknownIdError
from tastespace.recommend import lists as topk


@pytest.fixture(scope="module")
def blend(shop):
    members = [ts.DPCML(dim=8, n_interests=4, epochs=10, threads=1, seed=1), ts.EASE(regularization=20.0)]
    return ts.Blend(members, weights=[0.5, 0.5], threads=1).fit(shop)


@pytest.fixture
def model(shop):
    return ts.DPCML(dim=8, n_interests=3, epochs=8, threads=1, seed=1).fit(shop)


MIXES = [{}, {"mix": "scaled"}, {"diversity": 0.4}, {"mix": "calibrated"}, {"mix": "calibrated", "column": "interest"}]


@pytest.mark.parametrize("merge", [0.8, 0.05])  # with 0.05 several interests share the first shelf
def test_nothing_of_a_muted_shelf_comes_back(dpcml, blend, shop, merge):
    shared = 0
    for model in (dpcml, blend, dpcml.fold_in({user: shop.items_of(user) for user in ("u001", "u002", "u003")})):
        for user in ("u001", "u002", "u003"):
            first = model.shelves(user, 6, merge=merge)[0]
            shared += len(first.interests) > 1
            assert set(first.item_interests) <= set(first.interests)
            if len(first.interests) == len(model.interests(user)):
                continue
            gone = set(first.items)
            for mute in (first, first.interests):
                after = model.shelves(user, 90, mute=mute, merge=merge).to_frame()
                assert not gone & set(after["item"])
                assert not set(first.interests) & set(after["interest"])
            for mix in MIXES:
                if model is not blend or mix.get("mix") != "scaled":
                    assert not gone & set(model.recommend(user, k=90, mute=first.interests, **mix)["item"])
    assert shared > 0 or merge == 0.8


def test_numbers_on_shelves_are_those_of_lists(dpcml):
    shelves = dpcml.shelves("u003", 8, merge=0.05).to_frame()
    lists = dpcml.recommend("u003", k=90)
    both = shelves.join(lists, on="item", suffix="_list")
    assert len(both) == len(shelves)
    assert (both["interest"] == both["interest_list"]).all()


def test_profiles_apply_by_default_in_every_verb(model, tmp_path, shop):
    plain = model.recommend(k=20)
    assert model.mute("u003", [2]) is model
    model.mute("u007", 0)
    for_one = plain.filter(user="u004")
    whole = model.recommend(k=20)
    assert 2 not in whole.filter(user="u003")["interest"]
    assert 0 not in whole.filter(user="u007")["interest"]
    assert whole.filter(user="u004").equals(for_one)
    assert whole.filter(user="u003").equals(model.recommend("u003", k=20, mute=[2], profile=False))
    assert model.recommend(k=20, profile=False).equals(plain)
    model.recommend_to(tmp_path / "all.parquet", k=20)
    assert pl.read_parquet(tmp_path / "all.parquet").equals(whole)
    top, _ = model.recommend_indices(k=20)
    assert shop.items.take(top[top >= 0]).to_list() == whole["item"].to_list()
    assert model.recommend_indices(k=20, profile=False)[0].tolist() != top.tolist()
    shelves = model.shelves("u003", 8)
    assert 2 not in shelves.to_frame()["interest"]
    assert shelves.to_frame().equals(model.shelves("u003", 8, mute=[2], profile=False).to_frame())
    assert 2 in model.shelves("u003", 8, profile=False).to_frame()["interest"]
    for mix in MIXES[1:]:
        assert 2 not in model.recommend("u003", k=20, **mix)["interest"]
    both = model.recommend("u003", k=20, mute=[1])
    assert both["interest"].unique().to_list() == [0]


def test_boosts_of_a_profile_concern_their_user_alone(model, monkeypatch):
    plain, mixed = model.recommend(k=10), model.recommend(k=10, diversity=1.0)
    model.boost("u003", {1: 50.0}).boost("u003", {0: 1.0})
    monkeypatch.setattr(topk, "_USERS_AT_ONCE", 7)
    whole = model.recommend(k=10)
    assert whole.filter(user="u003").equals(model.recommend("u003", k=10, boost={1: 50.0}, profile=False))
    assert whole.filter(user="u003")["interest"].to_list().count(1) > plain.filter(user="u003")[
        "interest"
    ].to_list().count(1)
    assert whole.remove(user="u003").equals(plain.remove(user="u003"))
    assert whole["user"].to_list() == plain["user"].to_list()
    again = model.recommend(k=10, diversity=1.0)
    assert again.remove(user="u003").equals(mixed.remove(user="u003"))
    assert again.filter(user="u003").equals(whole.filter(user="u003"))
    for unused in ({"mix": "nearest"}, {"mix": "scaled"}, {"diversity": 0.0}):  # which do not use weights
        assert model.recommend(k=10, **unused).equals(model.recommend(k=10, profile=False, **unused))
    assert model.recommend("u003", k=10, boost={1: 1.0}).equals(
        model.recommend("u003", k=10, boost={1: 1.0}, profile=False)  # the factor of the request counts
    )
    assert model.shelves("u003", 4)[0].interest == 1
    assert model.recommend(k=10, rules=ts.Rules(max_per={"genres": 99})).equals(whole)


def test_many_muted_users_are_worked_through_in_parts(model, monkeypatch):
    for user in model.train_.users.series[:30]:
        model.mute(user, [1])
    whole = model.recommend(k=5)
    monkeypatch.setattr(topk, "_MUTED_AT_ONCE", 4 * model.train_.n_items)
    assert model.recommend(k=5).equals(whole)


def test_what_is_remembered(model):
    model.mute("u003", [2]).mute("u003", 1).boost("u003", {0: 2}).boost("u004", {1: 3.0})
    assert model.profiles["u003"] == ts.Profile(frozenset({1, 2}), {0: 2.0})
    assert list(model.profiles) == ["u003", "u004"]
    assert model.profiles.to_frame().rows() == [("u003", [1, 2], [0], [2.0]), ("u004", [], [1], [3.0])]
    model.unmute("u003", [1, 0]).boost("u004", {1: 1})
    assert model.profiles["u003"].muted == {2}
    assert "u004" not in model.profiles
    assert len(model.clear_profile("u003").profiles) == 0
    assert isinstance(model.profiles, ts.Profiles)
    model.mute("u003", model.shelves("u003", merge=2.0)[0])
    assert len(model.profiles["u003"].muted) == 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda m: m.mute("u003", [3]),
            ParameterError,
            "interest 3 was named, but user 'u003' has the interests 0 to 2",
        ),
        (
            lambda m: m.unmute("u003", [3]),
            ParameterError,
            "interest 3 was named, but user 'u003' has the interests 0 to",
        ),
        (lambda m: m.mute("u003", [0, 1, 2]), DataError, "all 3 interests are muted"),
        (
            lambda m: m.mute("u003", [0, 1]).mute("u003", 2),
            DataError,
            r"would have muted all.*Muted before are \[0, 1\]",
        ),
        (lambda m: m.mute("nobody", [0]), UnknownIdError, "'nobody'"),
        (lambda m: m.mute(["u003"], [0]), ParameterError, "expected one id"),
        (lambda m: m.boost("u003", {5: 2.0}), ParameterError, "interest 5 was named"),
        (lambda m: m.boost("u003", {0: 0.0}), ParameterError, "expected positive factors"),
        (lambda m: m.boost("u003", [0]), ParameterError, "expected factors by interest"),
        (lambda m: m.clear_profile("nobody"), UnknownIdError, "'nobody'"),
        (
            lambda m: m.mute("u003", [0, 1]).recommend("u003", mute=2),
            DataError,
            r"all 3 interests of user 'u003' are muted, \[0, 1\] by the profile.*profile=False",
        ),
        (lambda m: m.mute("u003", [0, 1]).shelves("u003", mute=2), DataError, r"\[0, 1\] by the profile"),
    ],
)
def test_errors(model, change, error, message):
    with pytest.raises(error, match=message):
        change(model)


def test_models_without_interests(ease):
    with pytest.raises(ParameterError, match="EASE has no vectors, so it has no interests to mute or boost"):
        ease.mute("u003", [0])


def test_what_happens_to_profiles_when_the_model_changes(model, shop, blend, caplog):
    model.mute("u003", [2])
    assert len(model.fold_in({"u003": shop.items_of("u003")}).profiles) == 0  # another user with the same id
    assert len(model.clone().profiles) == 0
    before = model.vectors().user_vectors.copy()
    model.set_params(epochs=1)
    model.partial_fit(shop.subset(np.arange(shop.n_interactions) < 30))
    assert model.vectors().user_vectors.shape == before.shape
    assert model.profiles["u003"].muted == {2}
    assert 2 not in model.recommend("u003", k=20)["interest"]
    model.fit(shop)
    assert "renumbers interests: the profiles of 1 users are dropped" in caplog.text
    assert len(model.profiles) == 0
    blend.mute("u003", [1])
    assert 1 not in blend.recommend("u003", k=20)["interest"]
    blend.clear_profile("u003")


def test_evaluation_knows_no_profiles(model, shop):
    mixed = ts.Mixed(model, diversity=0.5, k=5)
    before = mixed.score_block(np.arange(shop.n_users))
    model.mute("u003", [0])
    assert np.array_equal(mixed.score_block(np.arange(shop.n_users)), before)
