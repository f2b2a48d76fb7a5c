"""BPR as users see it; the kernel's mathematics is tested in tests/training/test_native_bpr.py."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import (
    MostPopular,
    datasets,
    evaluate,
    load,
    split,
    synthetic,
)
from tastespace.errors import ParameterError, TrainingError
from tastespace.models.bpr import BPR

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def parts():
    town = synthetic.multi_interest(n_users=150, n_items=100, n_interactions=4000, seed=2).interactions
    return split.per_user(town, seed=0)


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("user_vectors_", "item_vectors_", "item_bias_")
    )


def test_the_score_is_inner_product_plus_bias(parts):
    model = BPR(dim=6, epochs=3).fit(parts[0])
    expected = model.user_vectors_[:5] @ model.item_vectors_.T + model.item_bias_
    np.testing.assert_allclose(model.score_block(np.arange(5)), expected, rtol=1e-5, atol=1e-6)
    assert model.item_bias_.std() > 0


def test_the_loss_goes_down_and_pairs_come_into_order(parts):
    history = BPR(dim=16, epochs=20).fit(parts[0]).history_
    losses, correct = ([row[name] for row in history] for name in ("loss", "correct"))
    assert losses[0] == pytest.approx(np.log(2), abs=0.15)  # nothing is known yet
    assert losses[-1] < 0.6 * losses[0]
    assert correct[-1] > correct[0] + 0.1


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "sgd"])
def test_the_same_bits_for_every_number_of_threads(parts, optimizer):
    train, valid, _ = parts
    settings = {"dim": 19, "epochs": 4, "block_size": 128, "seed": 5, "optimizer": optimizer, "schedule": "cosine"}
    one = BPR(threads=1, **settings).fit(train, valid)
    for threads in (2, 3, 8):
        assert same(one, BPR(threads=threads, **settings).fit(train, valid))
    assert not same(one, BPR(threads=1, **{**settings, "seed": 6}).fit(train, valid))


def test_the_best_epoch_is_kept(parts):
    train, valid, _ = parts
    model = BPR(dim=16, epochs=40, patience=4, learning_rate=0.2, regularization=0.0).fit(train, valid)
    scores = [row["NDCG@10"] for row in model.history_]
    assert model.stopped_ == "early"
    assert model.best_epoch_ == 1 + int(np.argmax(scores)) == len(scores) - 4
    assert evaluate(model, valid, seen=train)["NDCG@10"] == max(scores)


def test_a_run_that_was_stopped_and_resumed_ends_in_the_same_bits(parts, tmp_path):
    train, valid, _ = parts
    settings = {"dim": 8, "epochs": 6, "seed": 3, "patience": 0}
    whole = BPR(**settings).fit(train, valid)
    settings |= {"checkpoint": str(tmp_path / "run"), "checkpoint_epochs": 1}
    cut = BPR(**settings).fit(train, valid, callbacks=[lambda row: row["epoch"] < 3])
    assert (len(cut.history_), cut.stopped_) == (3, "callback")
    resumed = BPR(**settings).fit(train, valid)
    assert same(resumed, whole)
    assert [row["loss"] for row in resumed.history_] == [row["loss"] for row in whole.history_]
    with pytest.raises(TrainingError, match="regularization was"):
        BPR(**settings, regularization=0.5).fit(train, valid)


def test_regularization_shrinks_vectors_and_biases(parts):
    loose, tight = (
        BPR(dim=8, epochs=30, regularization=reg, bias_regularization=reg).fit(parts[0]) for reg in (0.0, 1.0)
    )
    for name in ("user_vectors_", "item_vectors_", "item_bias_"):
        assert np.abs(getattr(tight, name)).mean() < 0.5 * np.abs(getattr(loose, name)).mean()


def test_folded_in_users_get_lists_as_good_as_known_users(parts, tmp_path):
    """The items stay fixed, and a user's vector does not depend on the other new users."""
    train, valid, test = parts
    model = BPR(dim=16, epochs=30).fit(train)
    folded = model.fold_in(train)
    assert folded.item_vectors_ is model.item_vectors_
    known, new = (evaluate(m, test, seen=[train, valid])["NDCG@10"] for m in (model, folded))
    assert new > 0.9 * known
    assert new > 1.2 * evaluate(MostPopular().fit(train), test, seen=[train, valid])["NDCG@10"]
    alone = model.fold_in([train.items_of(train.users[9])])
    np.testing.assert_array_equal(alone.user_vectors_[0], folded.user_vectors_[9])  # whoever else is new
    model.save(tmp_path / "model")  # a loaded model's arrays cannot be written to
    again = load(tmp_path / "model").fold_in(train)
    np.testing.assert_array_equal(again.user_vectors_, folded.user_vectors_)


def test_divergence_is_reported(parts):
    with pytest.raises(TrainingError, match=r"diverged in epoch \d+: .* Lower learning_rate"):
        BPR(dim=4, epochs=5, optimizer="sgd", learning_rate=1e20, regularization=1e5).fit(parts[0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dim": 0}, "dim=0: expected a whole number"),
        ({"block_size": 0}, "block_size=0"),
        ({"average": 0}, "average=0"),
        ({"epochs": 0}, "epochs=0"),
        ({"learning_rate": 0.0}, r"learning_rate=0\.0: expected a positive"),
        ({"regularization": -0.1}, r"regularization=-0\.1: expected a number, 0 or more"),
        ({"bias_regularization": np.inf}, "bias_regularization=inf"),
        ({"optimizer": "rmsprop"}, "optimizer='rmsprop': expected one of 'sgd', 'adagrad', 'adam'"),
        ({"schedule": "steps"}, "schedule='steps': expected one of"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_parameters(parts, parameters, message):
    with pytest.raises(ParameterError, match=message):
        BPR(**parameters).fit(parts[0])


def test_it_beats_most_popular_on_the_town(town):
    train, valid, test = split.per_user(town.interactions)
    models = MostPopular(), BPR(dim=16, epochs=40)
    popular, bpr = (evaluate(m.fit(train, valid), test, seen=[train, valid])["NDCG@10"] for m in models)
    assert bpr > 1.3 * popular


def test_it_beats_most_popular_on_ml_100k(dataset_dir):
    dataset_dir("ml-100k")
    train, valid, test = split.per_user(datasets.load("ml-100k"), seed=0)
    models = MostPopular(), BPR(epochs=60)
    popular, bpr = (evaluate(m.fit(train, valid), test, seen=[train, valid])["NDCG@10"] for m in models)
    assert bpr > 1.5 * popular
