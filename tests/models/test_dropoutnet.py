"""DPCML, CML and MGMF with DropoutNet: losses, both trainings, cold start, files, and bad input."""

import copy
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
import torch

import tastespace as ts
from tastespace.data import cold_start
from tastespace.data.ids import IdMap
from tastespace.errors import DataError, NotFittedError, ParameterError
from tastespace.evaluation.cold_start import evaluate_cold
from tastespace.models import create
from tastespace.models.dropoutnet import CMLDN, DPCMLDN, MGMFDN
from tastespace.models.neural.factorization import MGMF

pytestmark = pytest.mark.usefixtures("one_core")

SMALL = {
    "dim": 8,
    "layers": (16, 8),
    "negative_pool_size": 60,
    "batch_size": 256,
    "epochs": 3,
    "learning_rate": 0.01,
    "threads": 1,
}
MODELS = {"dpcml": DPCMLDN, "cml": CMLDN, "mgmf": MGMFDN}


@pytest.fixture(scope="module")
def town():
    return cold_start.load("town")


def fit(model, town, **more):
    return model.fit(town.train, user_features=town.user_features, item_features=town.item_features, **more)


@pytest.fixture(scope="module")
def fitted(town):
    return {name: fit(cls(**SMALL), town) for name, cls in MODELS.items()}


@pytest.fixture(params=MODELS)
def model(request, fitted):
    return copy.copy(fitted[request.param])


def as_tensors(model):
    return {name: torch.tensor(array) for name, array in model.weights_.items()}


def chance(town):
    """P@3 of cold-start items in random order."""
    return town.new_items.n_interactions / (town.new_items.n_users * town.new_items.n_items)


def first_batch(model, town):
    """A model in the middle of training: its weights, fixed tensors and a batch."""
    model = model.clone()
    model.encoders_, model._content, model.preference_scales_ = {}, {}, {"user": 0.35, "item": 0.35}
    for side in ("user", "item"):
        model._encode(side, getattr(town, f"{side}_features"))
    start = model._initial_weights(town.train, np.random.default_rng(0))
    weights = {name: torch.tensor(array) for name, array in start.items()}
    return model, weights, model._prepare(town.train, torch), next(model._batches(town.train, 0, torch))


# ---- losses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["unis", "pops", "2sts", "hars", "ndihars", "dihars"])
def test_the_loss_of_a_batch_is_that_of_its_pairs(town, sampler):
    model, weights, fixed, batch = first_batch(
        DPCMLDN(**SMALL, sampler=sampler, n_interests=2, n_hardest=2, beta=0.01, n_negatives=7, dcrs="mean"), town
    )
    rng = np.random.default_rng(1)
    users = rng.normal(size=(len(batch.user_rows), 2, 8)).astype(np.float32)
    items = rng.normal(size=(len(batch.item_rows), 8)).astype(np.float32)
    users /= np.linalg.norm(users, axis=2, keepdims=True)
    found = float(model._pair_loss(weights, fixed, batch, torch.tensor(users), torch.tensor(items)))
    losses, penalties = [], []
    n_items, counts = town.train.n_items, town.train.user_counts
    for row in range(len(batch.users)):
        own = users[int(batch.users[row])]
        usable = batch.usable[row].numpy()
        near = lambda item, own=own: np.square(own - items[int(item)]).sum(axis=1).min()  # noqa: E731
        negatives = batch.negatives[row].numpy()[usable]
        distances = np.array([near(item) for item in negatives])
        violations = 1.0 + near(batch.items[row]) - distances
        user = batch.user_rows[int(batch.users[row])]
        hard = max(1, int(0.01 * (n_items - counts[user])))
        inner = items[negatives] @ items[int(batch.items[row])]
        taken = {
            "2sts": np.argsort(-inner, kind="stable")[:2],
            "hars": np.argsort(distances, kind="stable")[:2],
            "ndihars": np.argsort(distances, kind="stable")[:hard],
        }.get(sampler, slice(None))
        if sampler == "dihars":
            gamma = max(0.0, np.sort(violations)[::-1][min(hard, len(violations)) - 1])
            losses.append(gamma + np.maximum(violations - gamma, 0).sum() / hard)
        else:
            losses.append(np.maximum(violations[taken], 0).mean())
        delta = np.square(own[0] - own[1]).sum() / 2
        share = town.train.n_interactions / (town.train.n_users * counts[user])
        penalties.append(share * (max(0, 0.05 - delta) + max(0, delta - 0.25)))
    assert found == pytest.approx(np.mean(losses) + 10 * np.mean(penalties), rel=1e-3)
    if sampler == "dihars":
        assert (weights["gamma"][batch.positives] >= 0).all()
        assert (weights["gamma"] < 0).sum() == len(weights["gamma"]) - len(batch.positives)


def test_mgmf_learns_by_cross_entropy_or_towards_the_scores_of_the_trained_model(town):
    model, weights, fixed, batch = first_batch(MGMFDN(**SMALL, n_interests=2, n_negatives=4), town)
    rng = np.random.default_rng(1)
    users = rng.normal(size=(len(batch.user_rows), 2, 8)).astype(np.float32)
    items = rng.normal(size=(len(batch.item_rows), 8)).astype(np.float32)
    found = float(model._pair_loss(weights, fixed, batch, torch.tensor(users), torch.tensor(items)))
    terms, errors = [], []
    goal_users = rng.normal(size=(town.train.n_users, 2, 8)).astype(np.float32)
    goal_items = rng.normal(size=(town.train.n_items, 8)).astype(np.float32)
    for row in range(len(batch.users)):
        at = int(batch.users[row])
        shown = [(int(batch.items[row]), -1.0)]
        shown += [(int(j), 1.0) for j, u in zip(batch.negatives[row], batch.usable[row], strict=True) if u]
        for item, sign in shown:
            scores = users[at] @ items[item]
            terms.append(np.log1p(np.exp(sign * scores.max())))
            goal = goal_users[batch.user_rows[at]] @ goal_items[batch.item_rows[item]]
            errors.append(np.square(scores - goal).mean())
    assert found == pytest.approx(np.mean(terms), rel=1e-3)
    fixed |= {"target_users": torch.tensor(goal_users), "target_items": torch.tensor(goal_items)}
    found = float(model._pair_loss(weights, fixed, batch, torch.tensor(users), torch.tensor(items)))
    assert found == pytest.approx(np.mean(errors), rel=1e-3)


def test_the_preference_of_half_the_batch_is_dropped(town, monkeypatch):
    model, weights, fixed, batch = first_batch(CMLDN(**SMALL, dropout=0.5), town)
    dropped = []
    original = type(model._fusion_network("user")).fuse

    def spy(network, weights, preference, content, normalize):
        dropped.append(float((preference == 0).all(dim=2).float().mean()))
        return original(network, weights, preference, content, normalize)

    monkeypatch.setattr(type(model._fusion_network("user")), "fuse", spy)
    model._loss(weights, fixed, batch)
    assert len(dropped) == 2
    assert all(0.3 < share < 0.7 for share in dropped)


@pytest.mark.parametrize(
    ("given", "dropped"),
    [
        ({"warm_vectors": "preference"}, [(True, True), (False, False)]),
        ({"warm_vectors": "preference", "dropout": 0.0}, [(False, False)]),
        ({"warm_vectors": "preference", "drop_both": False}, [(True, False), (False, True)]),
        ({"warm_vectors": "preference", "drop_both": False, "dropout": 0.0}, [(False, False)]),
        ({"warm_vectors": "preference", "drop_both": False, "user_columns": {}}, [(False, True)]),
        ({"warm_vectors": "fused"}, [(True, True)]),
    ],
)
def test_which_sides_of_a_pair_are_dropped(town, monkeypatch, given, dropped):
    model, weights, fixed, batch = first_batch(CMLDN(**{**SMALL, **given}), town)
    seen = []

    def spy(weights, fixed, batch, users, items):
        seen.append((users[:, 0], items))
        return (users.sum() + items.sum()) * 0.0

    monkeypatch.setattr(model, "_pair_loss", spy)
    model._loss(weights, fixed, batch)
    users, items = (
        weights["users"][torch.as_tensor(batch.user_rows)],
        weights["items"][torch.as_tensor(batch.item_rows)],
    )
    users = users / users.norm(dim=1, keepdim=True)
    items = items / items.norm(dim=1, keepdim=True).clamp_min(1.0)
    preferred = [(torch.allclose(u, users, atol=1e-5), torch.allclose(i, items, atol=1e-5)) for u, i in seen]
    assert preferred == [(not user, not item) for user, item in dropped]


# ---- cold start --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"min_spread": 0.0, "max_spread": 0.2}, 0.1),
        ({"min_spread": None, "max_spread": 0.3}, 0.15),
        ({"min_spread": 0.2, "max_spread": None}, 0.6),
        ({"dcrs": None}, 1.0),
        ({"spread_weight": 0.0}, 1.0),
        ({"min_spread": None, "max_spread": None}, 1.0),
    ],
)
def test_the_initial_spread_of_preferences_is_in_the_middle_of_its_bounds(town, changes, wanted):
    _, weights, _, _ = first_batch(DPCMLDN(**{**SMALL, "dim": 64}, n_interests=3, **changes), town)
    vectors = weights["users"].detach().numpy().reshape(-1, 3, 64)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    delta = np.square(vectors[:, 0] - vectors[:, 1]).sum(axis=1).mean() / 2
    assert delta == pytest.approx(wanted, rel=0.1)


def test_network_decay_shrinks_networks_and_not_preferences(town):
    plain, decayed = (
        fit(DPCMLDN(**SMALL, warm_vectors="preference", network_decay=decay), town) for decay in (0.0, 0.05)
    )
    for side in ("user", "item"):
        assert decayed._fusion_network(side).l2_penalty(as_tensors(decayed)) < 0.7 * plain._fusion_network(
            side
        ).l2_penalty(as_tensors(plain))
    sizes = [np.linalg.norm(model.item_vectors_, axis=1).mean() for model in (plain, decayed)]
    assert sizes[1] > 0.9 * sizes[0]


def test_content_serves_cold_start_users_and_items(town):
    model = fit(DPCMLDN(**{**SMALL, "epochs": 8}, n_interests=3), town)
    popular = create("popular").fit(town.train)
    ours, theirs = evaluate_cold(model, town), evaluate_cold(popular, town)
    assert ours["cold user"]["NDCG@3"] > 1.2 * theirs["cold user"]["NDCG@3"]
    assert ours["cold item"]["P@3"] > 2 * chance(town)


def test_a_history_improves_on_content_alone(fitted, town):
    model = fitted["dpcml"]
    # Some of the training users under new ids.
    train, test = (replace(part, users=IdMap(part.users.series + 10_000, "user")) for part in (town.train, town.test))
    new_ids = [int(user) for user in train.users.series[:40]]
    histories = {user: train.items_of(user) for user in new_ids}
    features = town.user_features.with_columns(pl.col("user") + 10_000).filter(pl.col("user").is_in(new_ids))
    cold, warm = model.fold_in(features=features), model.fold_in(histories, features=features)
    test = test.subset(np.isin(test.row_of_each(), np.arange(40)))
    rules = {"seen": train, "metrics": ["NDCG"], "k": 10}
    figures = [ts.evaluate(one, test, on_unknown="skip", **rules)["NDCG@10"] for one in (cold, warm)]
    assert figures[1] > figures[0]
    assert warm.recommend(new_ids[0], k=400)["item"].is_in(histories[new_ids[0]]).sum() == 0
    alone = model.fold_in({new_ids[3]: histories[new_ids[3]]}, features=features.filter(pl.col("user") == new_ids[3]))
    difference = warm.user_vectors_.reshape(40, -1)[3] - alone.user_vectors_.reshape(-1)
    assert np.abs(difference).max() < 1e-3  # vectors do not depend on the other new users


def test_recommendations_from_features(model, town):
    features = town.new_user_features.head(5)
    found = model.recommend_for(features=features, k=4)
    assert found["user"].unique(maintain_order=True).to_list() == features["user"].to_list()
    assert len(found) == 20
    taken = town.train.items.series[0]
    some = model.recommend_for({features["user"][2]: [taken]}, features=features, k=town.train.n_items)
    mine = some.filter(pl.col("user") == features["user"][2])
    assert taken not in mine["item"]
    assert len(mine) == town.train.n_items - 1
    unnamed = model.recommend_for(features=features.drop("user"), k=1)
    assert unnamed["user"].to_list() == [0, 1, 2, 3, 4]
    assert unnamed["item"].to_list() == found.filter(pl.col("rank") == 1)["item"].to_list()


def test_added_users_and_items_are_in_all_answers(model, town, tmp_path):
    before = model.recommend(k=5)
    vectors = model.item_vectors_
    grown = model.add_items(town.new_item_features)
    assert grown is model
    assert model.train_.n_items == town.train.n_items + town.new_items.n_items
    at = model.train_.items.index_of(town.train.items.series)
    np.testing.assert_array_equal(model.item_vectors_[at], vectors)
    old = model.recommend(k=5, items=town.train.items.series)
    assert old.drop("score").equals(before.drop("score")) or old["item"].equals(before["item"])
    new = town.new_items.items.series
    assert model.recommend(k=3, items=new)["item"].is_in(new.implode()).all()
    assert new[0] not in model.similar_items(new[0], k=3)["similar"].to_list()
    users = town.new_user_features
    model.add_users(users)
    assert len(model.recommend(users["user"], k=2)) == 2 * len(users)
    if model.has_interests:
        assert len(model.shelves(users["user"][0], k=3)) >= 1
    model.save(tmp_path / "m")
    opened = ts.load(tmp_path / "m", verify=True)
    assert opened.recommend(k=5).equals(model.recommend(k=5))
    more = pl.DataFrame({"item": [10_000], "category": ["no such"]})
    np.testing.assert_array_equal(opened.add_items(more).item_vectors_, model.add_items(more).item_vectors_)
    opened.export(tmp_path / "vectors")


def test_features_may_be_a_pandas_frame(fitted, town):
    pytest.importorskip("pandas")
    import pandas as pd

    features = town.new_user_features.head(3)
    frame = pd.DataFrame(features.to_dict(as_series=False))
    found = fitted["cml"].recommend_for(features=frame, k=2)
    assert isinstance(found, pd.DataFrame)
    assert found["item"].tolist() == fitted["cml"].recommend_for(features=features, k=2)["item"].to_list()


def test_matrices_as_content(town):
    rng = np.random.default_rng(0)
    users = sp.random_array((town.train.n_users, 12), density=0.3, rng=rng, format="csr")
    model = CMLDN(**SMALL).fit(town.train, user_features=users)
    assert len(model.recommend_for(features=users[:3], k=2)) == 6
    assert model.add_users(users[:2].toarray(), ids=[90_001, 90_000]).train_.n_users == town.train.n_users + 2
    named = model.recommend_for({"b": town.train.items.series[:2].to_list(), "a": []}, features=users[:2], k=1)
    assert named["user"].to_list() == ["b", "a"]


def test_extractors_are_learned_and_kept(town, tmp_path):
    model = fit(CMLDN(**SMALL, user_extractor="dense:6", item_extractor="dense:5"), town)
    assert model.weights_["user_content"].shape[0] == 6
    model.save(tmp_path / "m")
    features = town.new_user_features.head(3)
    opened = ts.load(tmp_path / "m")
    assert opened.recommend_for(features=features).equals(model.recommend_for(features=features))


# ---- pre-trained -------------------------------------------------------------------------------------------


def test_pretrained_vectors_are_fixed(town, tmp_path):
    of_paper = {**ts.DPCML.paper_form(), "learning_rate": 0.1}
    plain = ts.DPCML(dim=8, n_interests=2, epochs=10, sampler="unis", threads=1, **of_paper).fit(town.train)
    plain.save(tmp_path / "plain")
    setting = {**SMALL, "n_interests": 2, "training": "pretrained"}
    from_path = fit(DPCMLDN(**setting), town, latent=tmp_path / "plain")
    given = fit(DPCMLDN(**setting), town, latent=plain)
    np.testing.assert_array_equal(from_path.item_vectors_, given.item_vectors_)
    own = fit(DPCMLDN(**setting, latent={"epochs": 10}), town)
    np.testing.assert_array_equal(own.item_vectors_, given.item_vectors_)
    assert not {"users", "items"} & set(given.weights_)


def test_warm_vectors_may_be_those_of_the_pretrained_model(town, tmp_path):
    plain = ts.CML(dim=8, epochs=10, sampler="unis", threads=1, **ts.CML.paper_form()).fit(town.train)
    model = fit(CMLDN(**SMALL, training="pretrained", warm_vectors="preference"), town, latent=plain)
    np.testing.assert_allclose(model.user_vectors_, plain.user_vectors_, atol=1e-5)
    np.testing.assert_allclose(model.item_vectors_, plain.item_vectors_, atol=1e-5)
    features = town.new_user_features.head(4)
    model.save(tmp_path / "m")
    opened = ts.load(tmp_path / "m")
    history = {user: town.new_users.items_of(user)[:3] for user in features["user"].head(2)}
    assert opened.recommend_for(history, features=features).equals(model.recommend_for(history, features=features))


@pytest.mark.parametrize("training", ["joint", "pretrained"])
def test_preference_as_warm_vectors_learns(town, training):
    setting = {**SMALL, "epochs": 8, "learning_rate": 0.03, "n_interests": 2, "warm_vectors": "preference"}
    model = fit(DPCMLDN(**setting, training=training), town)
    assert model.history_[-1]["loss"] < model.history_[0]["loss"]
    assert evaluate_cold(model, town)["cold item"]["P@3"] > 2 * chance(town)


def test_a_batch_without_dropped_preferences_is_no_error(town):
    given = {
        **SMALL,
        "batch_size": 4,
        "epochs": 1,
        "training": "pretrained",
        "warm_vectors": "preference",
        "latent": {"epochs": 1},
    }
    fit(DPCMLDN(**given, n_interests=2, dropout=0.01), town)
    with pytest.raises(ParameterError, match="needs dropout above 0"):
        fit(DPCMLDN(**given, n_interests=2, dropout=0.0), town)
    with pytest.raises(ParameterError, match="content of users or of items"):
        fit(DPCMLDN(**given, n_interests=2, user_columns={}, item_columns={}), town)


def test_mgmf_reproduces_the_scores_of_a_trained_one(town):
    plain = MGMF(dim=8, n_interests=2, epochs=15, threads=1).fit(town.train)
    setting = {**SMALL, "n_interests": 2, "training": "pretrained", "epochs": 10, "dropout": 0.0, "layers": (64,)}
    model = fit(MGMFDN(**setting), town, latent=plain)
    rows = np.arange(50)
    found, wanted = model.score_block(rows), plain.score_block(rows)
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.8


def test_validation_includes_cold_start_users_and_items(town):
    model = CMLDN(**{**SMALL, "epochs": 2})
    fit(model, town, valid=town.valid)
    plain = ts.evaluate(model, town.valid, seen=town.train, metrics=["NDCG@10"])["NDCG@10"]
    assert model.history_[model.best_epoch_ - 1]["NDCG@10"] != pytest.approx(plain, rel=1e-6)


# ---- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"drop_both": "no", "warm_vectors": "preference"},
        {"drop_both": False},
        {"training": "both"}, {"layers": ()}, {"layers": (0,)}, {"layers": 3}, {"dropout": 1.0}, {"dropout": -0.1},
        {"negative_pool_size": 0}, {"warm_vectors": "both"}, {"latent": 3},
        {"user_extractor": "none"}, {"n_interests": 0}, {"margin": 0},
        {"sampler": "all"}, {"n_hardest": 0}, {"beta": 0.0}, {"geometry": "cube"}, {"gamma_rate": 0},
        {"popularity_power": -1}, {"dcrs": "max"}, {"min_count": 0}, {"network_decay": -1.0},
    ],
)  # fmt: skip
def test_bad_parameters(bad, town):
    with pytest.raises(ParameterError):
        DPCMLDN(**{**SMALL, **bad}).fit(town.train)


def test_content_that_does_not_fit(town):
    with pytest.raises(DataError, match="1 of 540 users have no row of features"):
        CMLDN(**SMALL).fit(town.train, user_features=town.user_features.head(539))
    with pytest.raises(DataError, match="3 rows, expected one for each of the 360 items"):
        CMLDN(**SMALL).fit(town.train, item_features=np.eye(3))
    with pytest.raises(ParameterError, match="user_columns"):
        CMLDN(**SMALL, user_columns={"age": "number"}).fit(town.train)
    with pytest.raises(DataError, match="no column 'age'"):
        CMLDN(**SMALL, user_columns={"age": "number"}).fit(town.train, user_features=town.user_features)
    spoilt = np.zeros((town.train.n_users, 2))
    spoilt[7, 1] = np.nan
    with pytest.raises(DataError, match="the first in row 7"):
        CMLDN(**SMALL).fit(town.train, user_features=spoilt)


def test_latent_models_that_do_not_fit(town):
    pretrained = {**SMALL, "n_interests": 2, "training": "pretrained"}
    wrong = ts.DPCML(dim=8, n_interests=3, epochs=1).fit(town.train)
    with pytest.raises(ParameterError, match="expected 2 vectors of dimension 8 for every user"):
        DPCMLDN(**pretrained).fit(town.train, latent=wrong)
    with pytest.raises(ParameterError, match="has no vectors"):
        DPCMLDN(**pretrained).fit(town.train, latent=ts.MostPopular().fit(town.train))
    with pytest.raises(NotFittedError):
        DPCMLDN(**pretrained).fit(town.train, latent=ts.DPCML(dim=8, n_interests=2))
    other = ts.DPCML(dim=8, n_interests=2, epochs=1).fit(town.new_users)
    with pytest.raises(ParameterError, match="users or items are not those"):
        DPCMLDN(**pretrained).fit(town.train, latent=other)
    with pytest.raises(ParameterError, match="training='joint' learns its own"):
        DPCMLDN(**SMALL).fit(town.train, latent=wrong)


def test_users_and_items_that_cannot_be_added(model, town, caplog):
    known = town.item_features.head(2)
    with pytest.raises(DataError, match="2 of 2 items are known already"):
        model.add_items(known)
    with pytest.raises(DataError, match="'category' held text in training and holds numbers"):
        model.add_items(pl.DataFrame({"item": [9_000], "category": [3]}))
    with pytest.raises(DataError, match="no column 'category'"):
        model.add_items(pl.DataFrame({"item": [9_000]}))
    with pytest.raises(DataError, match="same type"):
        model.add_items(pl.DataFrame({"item": ["x"], "category": ["1"]}))
    n_items = model.train_.n_items
    assert len(model.item_vectors_) == n_items  # a refusal changes nothing
    model.add_items(pl.DataFrame({"item": [9_000], "category": ["never seen"]}))
    assert "1 values of item column 'category' were not there in training" in caplog.text
    assert "1 of 1 new items have no feature at all" in caplog.text
    with pytest.raises(DataError, match="users without a row of features"):
        model.recommend_for(
            {"ann": [town.train.items.series[0]]}, features=pl.DataFrame({"user": ["bob"], "likes": [[]]})
        )
    with pytest.raises(ParameterError, match="does not learn from features"):
        ts.MostPopular().fit(town.train).recommend_for(features=town.new_user_features)
    with pytest.raises(NotFittedError):
        CMLDN().add_items(known)


@pytest.mark.slow
def test_dpcml_serves_cold_start_users_and_items_of_xing(dataset_dir):
    dataset_dir("xing-2017")
    parts = cold_start.load("xing-2017")
    setting = {
        "training": "pretrained",
        "warm_vectors": "preference",
        "layers": (128,),
        "learning_rate": 3e-3,
        "negative_pool_size": 300,
    }
    model = DPCMLDN(**setting, epochs=4, latent={"epochs": 10})
    model.fit(parts.train, user_features=parts.user_features, item_features=parts.item_features)
    ours, theirs = evaluate_cold(model, parts), evaluate_cold(ts.MostPopular().fit(parts.train), parts)
    assert ours["cold user"]["NDCG@3"] > theirs["cold user"]["NDCG@3"]
    assert ours["cold item"]["P@3"] > 0.05


def test_the_pretrained_model_takes_over_parameters():
    given = {"dim": 12, "margin": 0.7, "sampler": "2sts", "n_hardest": 3, "popularity_power": 0.5, "seed": 5}
    found = DPCMLDN(**given, n_negatives=7, n_interests=4, max_spread=0.4)._latent_model().get_params()
    wanted = {**given, "n_negatives": 7, "n_interests": 4, "max_spread": 0.4, "min_spread": 0.05}
    assert {name: found[name] for name in wanted} == wanted
    single = CMLDN(**given, n_negatives=7, latent={"margin": 0.9})._latent_model()
    assert type(single) is ts.CML
    assert (single.margin, single.n_negatives, single.n_hardest) == (0.9, 7, 3)
    assert DPCMLDN(geometry="sphere", margin=0.7)._latent_model().margin == 0.35  # in 1 - cos
    ball = DPCMLDN(geometry="sphere", margin=0.7, gamma_rate=0.2, latent={"geometry": "ball"})._latent_model()
    assert (ball.margin, ball.gamma_rate) == (0.7, 0.2)
    sphere = DPCMLDN(margin=0.7, gamma_rate=0.2, latent={"geometry": "sphere"})._latent_model()
    assert (sphere.margin, sphere.gamma_rate) == (0.35, 0.1)


def test_latent_of_the_wrong_sort(town):
    pretrained = {**SMALL, "n_interests": 2, "training": "pretrained"}
    with pytest.raises(ParameterError, match=r"was given a dict, expected a fitted model.*DPCMLDN\(latent="):
        DPCMLDN(**pretrained).fit(town.train, latent={"epochs": 1})
    for model in (DPCMLDN, MGMFDN):
        with pytest.raises(ParameterError, match=r"has no parameter 'epoch'.*Did you mean epochs"):
            model(**pretrained, latent={"epoch": 1}).fit(town.train)
    distances = ts.DPCML(dim=8, n_interests=2, epochs=1).fit(town.train)
    with pytest.raises(ParameterError, match=r"DPCML scores by distances, MGMFDN by inner products.*such as MGMF"):
        MGMFDN(**pretrained).fit(town.train, latent=distances)


def test_columns_must_be_a_dict(town):
    for columns in (["likes"], "likes"):
        with pytest.raises(ParameterError, match=r"user_columns=.*expected a dict"):
            fit(CMLDN(**SMALL, user_columns=columns), town)


def test_a_model_without_content_of_users_says_so(town):
    model = CMLDN(**SMALL).fit(town.train, item_features=town.item_features)
    new = pl.DataFrame({"user": [9_001], "likes": [["Jazz"]]})
    for ask in (model.add_users, lambda features: model.recommend_for(features=features)):
        with pytest.raises(ParameterError, match="the model has no user content"):
            ask(new)


def test_new_users_with_known_ids_and_without_input(model, town):
    known = pl.DataFrame({"user": [int(town.train.users[3]), 9_001], "likes": [["Jazz"], ["Jazz"]]})
    for ask in (model.recommend_for, model.fold_in):
        with pytest.raises(DataError, match=rf"1 of 2 users with features are known .* such as {town.train.users[3]}"):
            ask(features=known)
        with pytest.raises(DataError, match=r"expected histories .* or features="):
            ask()
        with pytest.raises(DataError, match="features are a list") as refusal:
            ask(features=[1, 2])
        assert "from_file" not in str(refusal.value)


def test_cold_start_users_have_several_shelves(town):
    model = fit(DPCMLDN(**{**SMALL, "epochs": 8}, n_interests=3), town)
    model.add_users({"user": [9_001], "likes": [["Jazz", "Poetry"]]})
    found = model.shelves(9_001, merge=1.1)
    assert len(found) == 3
    assert [shelf.weight for shelf in found] == pytest.approx([1 / 3] * 3)
    assert sorted(x for shelf in found for x in shelf.interests) == [0, 1, 2]
    assert model.interests(9_001)["weight"].to_list() == pytest.approx([1 / 3] * 3)
