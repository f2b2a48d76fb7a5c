"""SoftmaxMF as users see it; the kernel's mathematics is tested in tests/training/test_native_softmax_mf.py."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

import tastespace as ts
from tastespace import EASE, MostPopular, evaluate, split, synthetic
from tastespace.errors import DataError, ParameterError
from tastespace.models import ALS, Blend, SoftmaxMF

pytestmark = pytest.mark.usefixtures("one_core")
SMALL = {"dim": 16, "epochs": 12, "users_per_batch": 32, "n_negatives": 60}


@pytest.fixture(scope="module")
def parts():
    town = synthetic.multi_interest(n_users=300, n_items=150, n_interactions=6000, seed=2).interactions
    return split.per_user(town, seed=0)


@pytest.fixture(scope="module")
def fitted(parts):
    return SoftmaxMF(**SMALL).fit(parts[0])


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("user_vectors_", "item_vectors_"))


def figure(model, parts):
    return evaluate(model, parts[2], seen=list(parts[:2]), metrics=["NDCG@20"])["NDCG@20"]


def test_it_learns_what_users_like(parts, fitted):
    losses = [row["loss"] for row in fitted.history_]
    assert losses[-1] < losses[0] - 0.1
    assert figure(fitted, parts) > 1.3 * figure(MostPopular().fit(parts[0]), parts)
    assert figure(fitted, parts) > figure(ALS(dim=16).fit(parts[0]), parts)


def test_training_starts_at_singular_vectors(parts):
    """Already the start is a model, and noise alone is none."""
    train = parts[0]
    users, items = SoftmaxMF(dim=16)._start(train)
    np.testing.assert_allclose(np.linalg.norm(users, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(items, axis=1), 1, rtol=1e-5)
    start = SoftmaxMF(dim=16)._snapshot(train, user_vectors_=users, item_vectors_=items)
    assert figure(start, parts) > figure(MostPopular().fit(train), parts)
    wide = SoftmaxMF(dim=200)._start(train)[0]  # more than the matrix has singular vectors
    assert wide.shape == (300, 200)
    assert wide[:, 150:].any()


def test_scores_are_exponentials_in_the_order_of_the_cosines(fitted):
    rows = np.arange(7)
    cosines = fitted.user_vectors_[rows] @ fitted.item_vectors_.T
    expected = np.exp((cosines - cosines.max(axis=1, keepdims=True)) / 0.2)
    np.testing.assert_allclose(fitted.score_block(rows), expected, rtol=1e-4)
    other = fitted.clone().set_params(score_temperature=0.05)
    vars(other).update({name: value for name, value in vars(fitted).items() if name.endswith("_")})
    np.testing.assert_allclose(other.score_block(rows), expected**4, rtol=1e-3)
    np.testing.assert_array_equal(other.recommend_indices(k=9)[0], fitted.recommend_indices(k=9)[0])


@pytest.mark.parametrize("threads", [2, 3])
def test_the_same_bits_for_every_number_of_threads(parts, fitted, threads):
    assert same(fitted, SoftmaxMF(**SMALL, threads=threads).fit(parts[0]))


def test_the_seed_matters(parts, fitted):
    assert not same(fitted, SoftmaxMF(**SMALL, seed=1).fit(parts[0]))


def test_a_resumed_run_ends_in_the_same_bits(parts, fitted, tmp_path):
    path = str(tmp_path / "run")
    settings = {**SMALL, "checkpoint": path, "checkpoint_epochs": 1}
    first = SoftmaxMF(**settings).fit(parts[0], callbacks=[lambda row: row["epoch"] < 5])
    assert (first.stopped_, len(first.history_)) == ("callback", 5)
    again = SoftmaxMF(**settings).fit(parts[0])
    assert len(again.history_) == SMALL["epochs"]
    assert same(fitted, again)


def test_validation_keeps_the_best_epoch(parts):
    model = SoftmaxMF(**{**SMALL, "validate_every": 3}).fit(parts[0], parts[1])
    figures = {row["epoch"]: row["NDCG@10"] for row in model.history_ if "NDCG@10" in row}
    assert sorted(figures) == [3, 6, 9, 12]
    assert figures[model.best_epoch_] == max(figures.values())
    assert evaluate(model, parts[1], seen=parts[0], metrics=["NDCG@10"])["NDCG@10"] == max(figures.values())


def test_ctrl_c_leaves_a_usable_model(parts):
    model = SoftmaxMF(**{**SMALL, "epochs": 100_000})
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    model.fit(parts[0], callbacks=[lambda row: timer.start() if row["epoch"] == 1 else None])
    timer.join()
    assert model.stopped_ == "interrupted"
    assert np.isfinite(model.item_vectors_).all()
    assert len(model.recommend_indices(np.array([0, 1]), k=5)[0]) == 2


def test_users_who_are_folded_in_get_nearly_the_lists_of_users_who_were_there(parts, fitted):
    train = parts[0]
    folded = fitted._fold_in(train)
    np.testing.assert_allclose(np.linalg.norm(folded.user_vectors_, axis=1), 1, rtol=1e-5)
    cosines = (folded.user_vectors_ * fitted.user_vectors_).sum(axis=1)
    assert np.median(cosines) > 0.9
    assert figure(folded, parts) > 0.9 * figure(fitted, parts)
    histories = [train.items_of(train.users[user]) for user in (5, 11)]
    both, one = fitted.fold_in(histories), fitted.fold_in(histories[1:])
    np.testing.assert_array_equal(both.user_vectors_[1], one.user_vectors_[0])


def test_past_items_share_the_score_by_their_cosines(parts, fitted):
    train, user = parts[0], 3
    past = train.indices[train.offsets[user] : train.offsets[user + 1]]
    item = int(fitted.recommend_indices(np.array([user]), k=1)[0][0, 0])
    shares = fitted.evidence(user, np.array([item]))[:, 0]
    assert shares.sum() == pytest.approx(fitted.score_block(np.array([user]))[0, item], rel=1e-5)
    assert past[shares.argmax()] == past[(fitted.item_vectors_[past] @ fitted.item_vectors_[item]).argmax()]
    assert (shares >= 0).all()
    blend = Blend.of([fitted, EASE().fit(train)], [0.5, 0.5])
    assert len(blend.explain(train.users[user], train.items[item]).because) > 0


def test_items_that_nobody_took_are_not_recommended(parts):
    """They are among the negatives only, so that they end far from all users."""
    import polars as pl

    frame = pl.DataFrame(parts[0].to_frame()).select("user", "item")
    catalog = [*frame["item"].unique(), 10_001, 10_002, 10_003]
    data = ts.Interactions.from_frame(frame, catalog=catalog)
    model = SoftmaxMF(**SMALL).fit(data)
    top = model.recommend_indices(k=10)[0]
    assert not np.isin(top, np.flatnonzero(data.item_counts == 0)).any()


def test_weights_are_refused(parts):
    data = ts.Interactions.from_scipy(2.0 * parts[0].matrix, weight=True)
    with pytest.raises(DataError, match="weights"):
        SoftmaxMF(**SMALL).fit(data)


@pytest.mark.parametrize(
    "parameters",
    [{"dim": 0}, {"temperature": 0}, {"score_temperature": -1.0}, {"n_negatives": 0}, {"learning_rate": 0.0},
     {"users_per_batch": 0}, {"temperature": float("nan")}],
)  # fmt: skip
def test_invalid_parameters(parameters):
    with pytest.raises(ParameterError, match=f"{next(iter(parameters))}="):
        SoftmaxMF(**parameters)
