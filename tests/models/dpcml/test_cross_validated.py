"""DPCML(n_interests="cross-validated"): vectors by left-out items of the own history."""

import numpy as np
import polars as pl
import pytest

from tastespace import DPCML, Interactions, load, split, synthetic
from tastespace.cluster import ClusterOptions
from tastespace.errors import ParameterError
from tastespace.models.dpcml import _cross_validated as module
from tastespace.models.dpcml._cross_validated import OFFERED, cross_validated_numbers

SMALL = {"dim": 8, "epochs": 6, "seed": 3, "threads": 1}
RULE = {"n_interests": "cross-validated"}


@pytest.fixture(scope="module")
def parts():
    town = synthetic.multi_interest(n_users=120, n_items=80, n_interactions=2500, seed=2).interactions
    return split.per_user(town, seed=0)


@pytest.fixture(scope="module")
def fitted(parts):
    return DPCML(**SMALL, **RULE).fit(parts[0])


def interactions(users, items):
    return Interactions.from_frame(pl.DataFrame({"user": users, "item": items}))


def planted(tastes_of_users, n_groups=6, per_group=30, dim=6, seed=0):
    """Items in groups far from each other, and users with 12 items of each of their groups."""
    rng = np.random.default_rng(seed)
    centres = 0.9 * np.eye(n_groups, dim)
    items = np.repeat(centres, per_group, axis=0) + 0.03 * rng.standard_normal((n_groups * per_group, dim))
    users, taken = [], []
    for user, n_tastes in enumerate(tastes_of_users):
        for group in rng.permutation(n_groups)[:n_tastes]:
            taken += (group * per_group + rng.permutation(per_group)[:12]).tolist()
            users += [user] * 12
    every = np.arange(len(items))
    users += [len(tastes_of_users)] * len(items)  # a user of everything, so that all items are there
    taken += every.tolist()
    return items.astype(np.float32), interactions(users, taken)


def numbers(items, data, threads=1, **settings):
    model = DPCML(**{"dim": items.shape[1], "geometry": "ball", "seed": 0, **settings})
    return cross_validated_numbers(model, items, data, threads)


def test_users_with_several_planted_tastes_get_several_vectors():
    tastes = [1, 2, 4] * 20
    items, data = planted(tastes)
    found = numbers(items, data, margin=0.3)[: len(tastes)]
    of = {n: found[np.array(tastes) == n] for n in (1, 2, 4)}
    assert of[1].mean() < of[2].mean() < of[4].mean()
    assert of[4].min() >= 4


def test_a_user_gets_the_same_number_alone_in_blocks_and_with_every_number_of_threads(parts, monkeypatch):
    train = parts[0]
    items = DPCML(**SMALL, n_interests=1).fit(train).item_vectors_
    model = DPCML(**SMALL)
    whole = cross_validated_numbers(model, items, train, 1)
    assert set(whole.tolist()) <= set(OFFERED)
    assert len(set(whole.tolist())) > 1
    np.testing.assert_array_equal(cross_validated_numbers(model, items, train, 2), whole)
    few = train.subset(train.row_of_each() % 7 == 0)
    np.testing.assert_array_equal(cross_validated_numbers(model, items, few, 1)[::7], whole[::7])
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 500)
    np.testing.assert_array_equal(cross_validated_numbers(model, items, train, 1), whole)


def test_short_histories():
    """A number as large as what is left of a history is not tried: none, one, two and six items."""
    items, data = planted([4])
    own = np.array([0, 30, 31, 60, 61, 90, 91, 120, 121])
    counts = [0, 1, 2, 6]
    lists = [own[:n] for n in counts] + [np.arange(len(items))]
    users = np.repeat(np.arange(5), [len(one) for one in lists])
    everything = interactions(np.append(users, 0), np.append(np.concatenate(lists), 5))
    data = everything.subset(everything.row_of_each() > 0)
    found = numbers(items, data)
    assert found[:3].tolist() == [1, 1, 1]
    assert found[3] in OFFERED


def test_a_fit_uses_the_numbers_of_a_model_with_one_vector(fitted, parts):
    one = DPCML(**{**SMALL, "epochs": 3}, n_interests=1).fit(parts[0])
    expected = cross_validated_numbers(fitted, one.item_vectors_, parts[0], 1)
    np.testing.assert_array_equal(np.diff(fitted.user_offsets_), expected)
    assert fitted.n_interests_ == "cross-validated"
    assert len(fitted.history_) == 6
    again = DPCML(**{**SMALL, "threads": 2}, **RULE).fit(parts[0])
    assert again.user_vectors_.tobytes() == fitted.user_vectors_.tobytes()


def test_saved_and_opened(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    opened = load(tmp_path / "m")
    assert opened.n_interests == "cross-validated"
    np.testing.assert_array_equal(opened.user_offsets_, fitted.user_offsets_)
    assert opened.as_chosen().n_interests == "cross-validated"


def test_new_users_get_their_numbers_from_their_own_items(fitted, parts):
    train = parts[0]
    histories = [train.items.take(train.indices[train.offsets[u] : train.offsets[u + 1]]).to_list() for u in (3, 9, 40)]
    folded = fitted.fold_in(histories)
    alone = [fitted.fold_in([one]).user_offsets_[1] for one in histories]
    assert np.diff(folded.user_offsets_).tolist() == alone


def test_an_update_keeps_known_users_numbers(parts):
    train = parts[0]
    is_old = train.row_of_each() < 100
    old = train.subset(is_old)
    frame = old.to_frame()
    model = DPCML(**SMALL, **RULE).fit(Interactions.from_frame(frame))
    before = np.diff(model.user_offsets_)
    model.partial_fit(Interactions.from_frame(train.subset(~is_old).to_frame()))
    after = np.diff(model.user_offsets_)
    assert model.train_.n_users == 120
    assert len(after) == 120
    np.testing.assert_array_equal(after[: len(before)], before)
    assert set(after.tolist()) <= set(OFFERED)


def test_a_run_that_is_interrupted_and_resumed(parts, tmp_path):
    files = {"checkpoint": str(tmp_path / "run.ckpt"), "checkpoint_epochs": 1}
    whole = DPCML(**SMALL, **RULE).fit(parts[0])
    calls = []

    def fail(row):
        calls.append(row)
        if len(calls) == 5:  # in the second epoch of the second training
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        DPCML(**SMALL, **files, **RULE).fit(parts[0], callbacks=[fail])
    resumed = DPCML(**SMALL, **files, **RULE).fit(parts[0])
    assert resumed.user_vectors_.tobytes() == whole.user_vectors_.tobytes()


def test_stopped_in_the_first_training(parts, caplog):
    model = DPCML(**SMALL, **RULE).fit(parts[0], callbacks=[lambda row: False])
    assert np.diff(model.user_offsets_).tolist() == [1] * 120
    assert "stopped before numbers were chosen" in caplog.text


def test_not_on_a_cluster(parts):
    with pytest.raises(ParameterError, match="n_interests='cross-validated' is for training in one process"):
        DPCML(**SMALL, **RULE).fit(parts[0], cluster=ClusterOptions("processes:1"))
