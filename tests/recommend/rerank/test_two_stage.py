"""Mixed lists as a model: its ranking, its figures, its parameters."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.recommend.toy_models import blend_of

import tastespace as ts
from tastespace import Mixed
from tastespace.errors import NotFittedError, ParameterError

pytestmark = pytest.mark.usefixtures("one_core")

MIXES = [{}, {"diversity": 0.4}, {"mix": "scaled"}, {"mix": "calibrated"}, {"mix": "calibrated", "column": "interest"}]


@pytest.fixture(scope="module")
def parts(shop):
    return ts.split.per_user(shop, (0.6, 0.2, 0.2), seed=0)


@pytest.fixture(scope="module")
def fitted(parts):
    return ts.DPCML(dim=8, log_base=2.0, epochs=20, threads=1, seed=1).fit(parts[0])


@pytest.mark.parametrize("arguments", MIXES)
def test_its_list_is_the_mixed_list_and_then_the_models(dpcml, arguments):
    model = Mixed(dpcml, k=20, **arguments)
    found, plain = model.recommend(k=60), dpcml.recommend(k=90)
    expected = dpcml.recommend(k=20, **{"mix": "proportional", **arguments})
    for (user,), mine in found.group_by("user", maintain_order=True):
        head = expected.filter(user=user)
        columns = ["item", "interest", "distance"]
        assert mine[:20].select(columns).equals(head.select(columns))
        rest = plain.filter(user=user).filter(~pl.col("item").is_in(head["item"].to_list()))[:40]
        tail = mine[20:].join(plain.filter(user=user), on="item", how="left", maintain_order="left")
        # Scores of all items at once are rounded otherwise: items at nearly the same distance may change places.
        np.testing.assert_allclose(tail["distance_right"], rest["distance"], rtol=1e-6)


@pytest.mark.parametrize("arguments", MIXES)
def test_figures_are_those_of_the_lists(parts, fitted, arguments):
    train, _, test = parts
    model = Mixed(fitted, **arguments)
    report = ts.evaluate(model, test, seen=train, k=5, metrics=["P", "CategoryILD"])
    lists = model.recommend(k=5)
    hits = len(lists.join(test.to_frame(), on=["user", "item"], how="semi"))
    assert report["P@5"] == pytest.approx(hits / 5 / int((test.user_counts > 0).sum()))
    plain = ts.evaluate(fitted, test, seen=train, k=5, metrics=["P", "CategoryILD"])
    none = ts.evaluate(Mixed(fitted, **{**arguments, "diversity": 0.0}), test, seen=train, k=5, metrics=["P"])
    assert none["P@5"] == plain["P@5"]
    assert lists["item"].to_list() != fitted.recommend(k=5)["item"].to_list()


def test_mixed_blends_and_models_without_interests(dpcml, ease):
    blend = blend_of(dpcml, scale=0.3)
    assert (
        Mixed(blend).recommend(k=7).select("user", "item").equals(
            blend.recommend(k=7, mix="proportional").select("user", "item")
        )
    )  # fmt: skip
    calibrated = Mixed(ease, mix="calibrated", diversity=0.7, k=7)
    assert not calibrated.has_interests
    assert calibrated.recommend(k=7)["item"].equals(ease.recommend(k=7, mix="calibrated", diversity=0.7)["item"])
    with pytest.raises(ParameterError, match="mix='proportional' needs interests, and EASE has no vectors"):
        Mixed(ease).recommend(k=7)


def test_interests_shelves_and_explanations_are_the_models(dpcml):
    model = Mixed(dpcml)
    assert model.has_interests
    assert model.interests("u003").drop("name").equals(dpcml.interests("u003").drop("name"))
    whole = model.recommend("u003", k=90)
    for shelf in model.shelves("u003", k=4):
        assert shelf.items == whole.filter(whole["interest"].is_in(shelf.interests))["item"].to_list()[:4]
    third = whole["item"][2]
    assert model.explain("u003", third).rank == 3
    assert model.explain("u003", third).rank_without == dpcml.explain("u003", third).rank_without


def test_a_clone_is_fitted_and_the_model_given_stays_as_it_is(parts, fitted):
    inner = ts.DPCML(dim=8, log_base=2.0, epochs=20, threads=1, seed=1)
    model = Mixed(inner, diversity=0.5)
    with pytest.raises(NotFittedError, match="this Mixed is not fitted yet"):
        model.recommend()
    model.fit(parts[0])
    assert not inner.is_fitted
    assert model.recommend(k=5).equals(Mixed(fitted, diversity=0.5).recommend(k=5))
    clone = Mixed(fitted, diversity=0.5).clone()
    assert not clone.is_fitted
    assert (clone.mix, clone.diversity, clone.model.dim) == ("proportional", 0.5, 8)


def test_new_users(dpcml):
    histories = {"zoe": ["i03", "i40", "i41", "i77"]}
    found = Mixed(dpcml).recommend_for(histories, k=6)
    assert found["item"].equals(dpcml.recommend_for(histories, k=6, mix="proportional")["item"])


def test_other_scores_only_order(dpcml):
    scores = Mixed(dpcml, k=10).score_block(np.array([3, 5]))
    own = dpcml.score_block(np.array([3, 5]))
    top, _ = dpcml.recommend_indices([3, 5], k=10, mix="proportional")
    for row in range(2):
        assert scores[row, top[row]].tolist() == list(range(10, 0, -1))
        rest = np.setdiff1d(np.arange(90), top[row])
        assert (scores[row, rest] == own[row, rest]).all()


def test_what_is_refused(dpcml, shop, tmp_path):
    for parameters, message in (
        ({"mix": "propotional"}, "mix='propotional': expected one of.*Did you mean proportional"),
        ({"diversity": 2}, "diversity=2: expected a number from 0"),
        ({"k": 0}, "k=0: expected"),
    ):
        with pytest.raises(ParameterError, match=message):
            Mixed(ts.DPCML(), **parameters).fit(shop)
        with pytest.raises(ParameterError, match=message):
            Mixed(dpcml, **parameters).recommend("u003")
    with pytest.raises(ParameterError, match=r"expected a recommender, such as EASE\(\)"):
        Mixed("dpcml").fit(shop)
    with pytest.raises(ParameterError, match=r"Save its model, model.model_.save\(path\)"):
        Mixed(dpcml).save(tmp_path / "mixed.model")
