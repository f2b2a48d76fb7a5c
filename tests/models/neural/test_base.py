"""What the models that learn with torch have in common: they learn, resume, and answer each person alone.

One row a model in each table; tests of one model are in its own file.
"""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.models import create

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("one_core")


# ---- learning ----------------------------------------------------------------------------------------------

# The share of its start below which the loss ends, and the parameters.
ON_THE_TOWN = {
    "adacml": (0.7, {"dim": 16, "epochs": 12, "batch_size": 256, "threads": 1}),
    "hlr": (0.7, {"dim": 16, "epochs": 12, "batch_size": 256, "threads": 1}),
    "transcf": (0.7, {"dim": 16, "epochs": 15, "batch_size": 256, "threads": 1}),
    "lrml": (0.7, {"dim": 16, "epochs": 15, "batch_size": 256, "threads": 1}),
    "gmf": (0.7, {"dim": 16, "epochs": 30, "batch_size": 128, "learning_rate": 3e-3, "threads": 1}),
    "mlp": (0.7, {"dim": 16, "epochs": 30, "batch_size": 128, "learning_rate": 3e-3, "threads": 1}),
    "neumf": (0.7, {"dim": 16, "epochs": 30, "batch_size": 128, "learning_rate": 3e-3, "threads": 1}),
    "m2f": (0.7, {"dim": 16, "epochs": 20, "batch_size": 128, "learning_rate": 3e-3, "threads": 1}),
    "mgmf": (0.7, {"dim": 16, "epochs": 20, "batch_size": 128, "learning_rate": 3e-3, "threads": 1}),
    # Most of their loss is the entropy of a user's items, which cannot be reduced.
    "mult-vae": (
        0.95,
        {"n_hidden": 20, "dim": 32, "epochs": 40, "batch_size": 32, "learning_rate": 5e-3, "threads": 1},
    ),
    "mult-dae": (0.95, {"dim": 32, "epochs": 40, "batch_size": 32, "learning_rate": 5e-3, "threads": 1}),
    "lightgcn": (0.7, {"dim": 16, "epochs": 20, "batch_size": 256, "threads": 1}),
}

# By which factor most popular is beaten, and the parameters.
ON_ML_100K = {
    "adacml": (1.2, {"epochs": 4, "validate_every": 2, "patience": 2, "threads": 1}),
    "hlr": (1.2, {"epochs": 4, "validate_every": 2, "patience": 2, "threads": 1}),
    "transcf": (1.2, {"epochs": 8, "validate_every": 4, "patience": 2, "threads": 1}),
    "lrml": (1.2, {"epochs": 8, "validate_every": 4, "patience": 2, "threads": 1}),
    "gmf": (1.3, {"epochs": 30, "batch_size": 1024, "validate_every": 3, "patience": 3}),
    "mlp": (1.3, {"epochs": 30, "batch_size": 1024, "validate_every": 3, "patience": 3}),
    "neumf": (1.3, {"epochs": 30, "batch_size": 1024, "validate_every": 3, "patience": 3}),
    "m2f": (1.3, {"epochs": 30, "batch_size": 1024, "validate_every": 3, "patience": 3}),
    "mgmf": (1.3, {"epochs": 30, "batch_size": 1024, "validate_every": 3, "patience": 3}),
    "mult-vae": (1.5, {"epochs": 30, "batch_size": 64, "validate_every": 3, "patience": 3}),
    "mult-dae": (1.5, {"epochs": 30, "batch_size": 64, "validate_every": 3, "patience": 3}),
    "lightgcn": (1.5, {"epochs": 40, "batch_size": 2048, "validate_every": 4, "patience": 3}),
    "prd": (1.35, {"epochs": 20, "batch_size": 1024, "validate_every": 2, "patience": 3}),
    "idcf": (1.65, {"epochs": 20, "batch_size": 1024, "validate_every": 2, "patience": 3}),
    "recnet": (1.35, {"epochs": 20, "batch_size": 1024, "validate_every": 2, "patience": 3}),
    "dp-recnet": (1.35, {"epochs": 20, "batch_size": 1024, "validate_every": 2, "patience": 3}),
    "gcn-accdiv": (1.55, {"epochs": 2}),
}


@pytest.mark.parametrize("name", ON_THE_TOWN)
def test_learning_lowers_the_loss_and_beats_most_popular(town, name):
    share, parameters = ON_THE_TOWN[name]
    train, _, test = ts.split.per_user(town.interactions, seed=0)
    model = create(name, **parameters).fit(train)
    losses = [row["loss"] for row in model.history_]
    assert losses[-1] < share * losses[0]
    ours, popular = (ts.evaluate(m, test, k=10)["NDCG@10"] for m in (model, ts.MostPopular().fit(train)))
    assert ours > 1.3 * popular


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_ML_100K)
def test_they_beat_most_popular_on_ml_100k(dataset_dir, name):
    dataset_dir("ml-100k")
    margin, parameters = ON_ML_100K[name]
    train, valid, test = ts.datasets.load_split("ml-100k")
    model = create(name, **parameters).fit(train, valid)
    seen = [train, valid]
    ours, popular = (ts.evaluate(m, test, seen=seen)["NDCG@10"] for m in (model, ts.MostPopular().fit(train)))
    assert ours > margin * popular


# ---- resuming ----------------------------------------------------------------------------------------------


def everything(town):
    return [town.interactions]


def train_only(town):
    return ts.split.per_user(town.interactions, seed=0)[:1]


def train_and_valid(town):
    return ts.split.per_user(town.interactions, seed=0)[:2]


FACTORS = {"dim": 16, "batch_size": 512, "learning_rate": 0.02, "n_negatives": 2, "epochs": 4, "threads": 1}
NETWORK = {**FACTORS, "n_hidden": 8, "regularization": 1e-3, "n_negatives": 8}

# What is learned from, the epoch after which the run is stopped, and the parameters.
RESUMED = {
    "adacml": (train_and_valid, 2, {"dim": 8, "max_history": 6, "epochs": 5, "threads": 1}),
    "transcf": (train_and_valid, 2, {"dim": 8, "epochs": 5, "threads": 1}),
    "lrml": (train_and_valid, 2, {"dim": 8, "epochs": 5, "threads": 1}),
    "neumf": (train_and_valid, 3, {"dim": 8, "batch_size": 256, "epochs": 6, "threads": 1}),
    "mult-vae": (everything, 2, {"n_hidden": 20, "dim": 6, "batch_size": 64, "epochs": 5, "threads": 1}),
    "lightgcn": (everything, 2, {"dim": 8, "batch_size": 1024, "epochs": 5, "threads": 1}),
    "prd": (train_only, 2, FACTORS),
    "idcf": (train_only, 2, FACTORS),
    "recnet": (train_only, 2, NETWORK),
    "dp-recnet": (train_only, 2, NETWORK),
    "gcn-accdiv": (train_only, 2, {"batch_size": 512, "epochs": 4, "threads": 1}),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_ends_in_the_same_bits(town, tmp_path, name):
    given, last, parameters = RESUMED[name]
    data, path = given(town), str(tmp_path / "run")
    whole = create(name, **parameters).fit(*data)
    stopped = create(name, **parameters, checkpoint=path, checkpoint_epochs=1)
    stopped.fit(*data, callbacks=[lambda row: row["epoch"] < last])
    assert (len(stopped.history_), stopped.stopped_) == (last, "callback")
    resumed = create(name, **parameters, checkpoint=path).fit(*data)
    assert len(resumed.history_) == parameters["epochs"]
    for part, array in whole.weights_.items():
        np.testing.assert_array_equal(resumed.weights_[part], array)
    users = np.arange(20)
    np.testing.assert_array_equal(resumed.score_block(users), whole.score_block(users))


# ---- threads -----------------------------------------------------------------------------------------------

# Batches so large that torch would divide its sums among threads: these models gave other bits then.
DIVIDED = {
    "lrml": {"epochs": 1},
    "cml+dn": {"layers": (128, 64), "latent": {"epochs": 1}, "epochs": 2},
    "mgmf+dn": {"layers": (128, 64), "latent": {"epochs": 1}, "epochs": 2},
}


@pytest.mark.parametrize("name", DIVIDED)
def test_the_same_bits_for_every_number_of_threads_and_after_resuming(tmp_path, name):
    data = ts.synthetic.multi_interest(n_users=300, n_items=200, n_interactions=6000, seed=3).interactions
    kinds = pl.DataFrame({"item": data.items.series, "kind": ["abcdefg"[i % 7] for i in range(200)]})
    data = replace(data, item_attributes=kinds)
    parameters, path = DIVIDED[name], str(tmp_path / "run")
    one = create(name, **parameters, threads=1).fit(data)
    stopped = create(name, **parameters, threads=4, checkpoint=path, checkpoint_epochs=1)
    stopped.fit(data, callbacks=[lambda row: False])
    four = create(name, **parameters, threads=4, checkpoint=path).fit(data)
    assert four.deterministic_threads
    for part, array in one.weights_.items():
        np.testing.assert_array_equal(four.weights_[part], array)


def test_all_threads_where_asked_for(town):
    import torch

    seen = []
    model = create("gmf", dim=4, epochs=1, threads=3, deterministic=False)
    model.fit(town.interactions, callbacks=[lambda row: seen.append(torch.get_num_threads())])
    create("gmf", dim=4, epochs=1, threads=3).fit(
        town.interactions, callbacks=[lambda row: seen.append(torch.get_num_threads())]
    )
    assert seen == [3, 1]
    assert not model.deterministic_threads
    with pytest.raises(ts.errors.ParameterError, match="deterministic"):
        create("gmf", deterministic="yes").fit(town.interactions)


# ---- what comes out ----------------------------------------------------------------------------------------

# Users scored in one block, step between the users scored alone, parameters.
SCORED_ALONE = {
    "adacml": (100, 7, {"dim": 50, "epochs": 2, "threads": 1, "max_history": 6}),
    "hlr": (100, 7, {"dim": 50, "epochs": 2, "threads": 1, "max_history": 6}),
    "lrml": (30, 1, {"dim": 50, "epochs": 2, "threads": 1}),
}

FACTORISED = {"dim": 8, "epochs": 2, "batch_size": 256, "learning_rate": 0.1, "threads": 1}
ENCODED = {"dim": 6, "epochs": 2, "batch_size": 64, "learning_rate": 0.01, "threads": 1}
LISTED_ALONE = {
    "gmf": ("gmf", FACTORISED),
    "mlp": ("mlp", FACTORISED),
    "neumf": ("neumf", FACTORISED),
    "mult-vae": ("mult-vae", {"n_hidden": 20, **ENCODED}),
    "mult-dae": ("mult-dae", ENCODED),
    "deep mult-dae": ("mult-dae", {"n_hidden": 20, **ENCODED}),
    "shallow mult-vae": ("mult-vae", {"n_hidden": 0, **ENCODED}),
}

# Those whose vectors have norm 1 or less, and the parameters.
IN_THE_BALL = {
    "adacml": {"dim": 8, "epochs": 2, "threads": 1, "max_history": 6},
    "hlr": {"dim": 8, "epochs": 2, "threads": 1, "max_history": 6},
    "transcf": {"dim": 8, "epochs": 2, "threads": 1},
    "lrml": {"dim": 8, "epochs": 2, "threads": 1},
}


@pytest.mark.parametrize("name", SCORED_ALONE)
def test_scores_do_not_depend_on_the_other_users_of_a_block(town, name):
    together, step, parameters = SCORED_ALONE[name]
    model = create(name, **parameters).fit(town.interactions)
    every = model.score_block(np.arange(together))
    for user in range(0, together, step):
        np.testing.assert_array_equal(model.score_block(np.array([user]))[0], every[user])


@pytest.mark.parametrize("name", LISTED_ALONE)
def test_a_list_does_not_depend_on_the_other_users_of_a_request(town, name):
    kind, parameters = LISTED_ALONE[name]
    model = create(kind, **parameters).fit(town.interactions)
    every = model.recommend_indices(k=10)
    alone = [model.recommend_indices([user], k=10) for user in range(40)]
    for part in (0, 1):
        np.testing.assert_array_equal(np.concatenate([found[part] for found in alone]), every[part][:40])


@pytest.mark.parametrize("name", IN_THE_BALL)
def test_vectors_stay_in_the_ball(town, name):
    model = create(name, **IN_THE_BALL[name], learning_rate=0.5).fit(town.interactions)
    for side in ("users", "items"):
        norms = np.linalg.norm(model.weights_[side], axis=1)
        assert norms.max() <= 1 + 1e-5
        assert norms.max() > 0.9
    if name in ("hlr", "lrml"):
        assert np.linalg.norm(model.weights_["memory"], axis=1).max() <= 1 + 1e-5
        assert np.linalg.norm(model.weights_["keys"], axis=0).max() <= 1 + 1e-5
