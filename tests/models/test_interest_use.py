"""Use of interest vectors: effective number, dead and nearly equal ones."""

import math

import numpy as np
import polars as pl
import pytest

from tastespace import CML, DPCML, EASE, Interactions, evaluate, load, split, synthetic
from tastespace.errors import ParameterError
from tastespace.evaluation import interest_use as use_frame
from tastespace.models import interest_use as module
from tastespace.models.interest_use import interest_findings, interest_use
from tastespace.models.vector_space import VectorSpace


@pytest.fixture(scope="module")
def parts():
    return split.per_user(synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions)


@pytest.fixture(scope="module")
def model(parts):
    return DPCML(dim=8, n_interests=3, epochs=10, seed=3).fit(parts[0])


@pytest.fixture
def by_hand():
    """Items at 0, 1, 2, ..., 9 on a line; ann, bob, cid and dan have histories, eve has none."""
    taken = {"ann": [0, 1, 8, 9], "bob": [0, 1, 2, 9], "cid": [4, 5], "dan": [3], "eve": [0, 1, 2, 3, 4, 5, 6, 7]}
    rows = [(user, item) for user, items in taken.items() for item in items]
    everything = Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item"], orient="row"))
    data = everything.subset(everything.row_of_each() < 4)
    places = np.array([int(item) for item in data.items.series.to_list()], dtype=np.float32)
    vectors = {"ann": [0, 9], "bob": [0, 8, 50], "cid": [4.5, 4.501, 4.5], "dan": [3, 3], "eve": [1, 2]}
    numbers = [vectors[user] for user in data.users.series.to_list()]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in numbers])]).astype(np.int64)
    column = np.array([x for one in numbers for x in one], dtype=np.float32)[:, None]
    return VectorSpace(column, offsets, places[:, None]), data


def test_figures_of_small_histories(by_hand):
    space, data = by_hand
    use = interest_use(space, data, threads=1)
    assert use.n_vectors.tolist() == [2, 3, 3, 2, 2]
    assert use.n_past.tolist() == [4, 4, 2, 1, 0]
    assert use.n_used[[0, 1, 3, 4]].tolist() == [2, 2, 1, 0]
    quarter = math.exp(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    assert use.effective[:2] == pytest.approx([2.0, quarter])
    assert use.effective[3] == 1.0
    assert math.isnan(use.effective[4])
    assert use.counts.tolist() == [True, True, True, True, False]
    assert use.collapsed.tolist() == [False, False, True, False, False]  # dan has one item: nothing to tell apart


def test_any_rows_in_any_order_and_in_parts(by_hand, monkeypatch):
    space, data = by_hand
    whole = interest_use(space, data)
    monkeypatch.setattr(module, "_VALUES_AT_ONCE", 5)
    rows = np.array([3, 0, 4, 1])
    for users, expected in ((None, whole), (rows, [column[rows] for column in whole])):
        for found, wanted in zip(interest_use(space, data, users), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    nobody = interest_use(space, data, rows[:0])
    assert all(len(column) == 0 for column in nobody)


def test_as_counted_one_by_one(model, parts):
    train = parts[0]
    use = interest_use(model.vectors(), train, threads=2)
    items = model.item_vectors_.astype(np.float64)
    of_items = ((items - items.mean(axis=0)) ** 2).sum(axis=1).mean()
    for user in range(train.n_users):
        own = model.user_vectors_[3 * user : 3 * user + 3].astype(np.float64)
        past = items[train.indices[train.offsets[user] : train.offsets[user + 1]]]
        shares = np.bincount(((past[:, None] - own) ** 2).sum(axis=2).argmin(axis=1)) / len(past)
        shares = shares[shares > 0]
        assert use.n_used[user] == len(shares)
        assert use.effective[user] == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))
        variance = ((own - own.mean(axis=0)) ** 2).sum(axis=1).mean()
        assert use.relative_variance[user] == pytest.approx(variance / of_items, rel=1e-4)


def test_a_fit_keeps_the_figures_and_saves_them(model, tmp_path):
    (row,) = [one for one in model.diagnostics_ if one["kind"] == "interests"]
    use = interest_use(model.vectors(), model.train_)
    assert row["n_users"] == 80
    assert row["n_vectors"] == 240
    assert row["n_dead"] == 240 - use.n_used.sum()
    assert row["n_collapsed"] == 0
    assert row["effective"] == pytest.approx(use.effective.mean())
    assert row["effective_quantiles"]["50%"] == pytest.approx(np.median(use.effective))
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").diagnostics_ == model.diagnostics_
    assert CML(dim=8, epochs=1).fit(model.train_).diagnostics_ == []


def test_dead_vectors_are_one_warning(parts, caplog):
    far_too_many = DPCML(dim=8, n_interests=30, epochs=3, seed=3).fit(parts[0])
    (row,) = [one for one in far_too_many.diagnostics_ if one["kind"] == "dead-interests"]
    assert row["n_dead"] > row["n_vectors"] / 3
    warnings = [one.getMessage() for one in caplog.records if "interest vectors are dead" in one.getMessage()]
    assert len(warnings) == 1
    assert f"{row['n_dead']:,} of {row['n_vectors']:,} interest vectors are dead" in warnings[0]
    assert "n_interests=" in warnings[0]


def test_collapsed_vectors_are_one_warning(parts, caplog):
    # All epochs train one vector per user: the others are equal to it.
    model = DPCML(dim=8, n_interests=2, epochs=2, one_vector_epochs=2, seed=3).fit(parts[0])
    assert [one["kind"] for one in model.diagnostics_] == ["interests", "collapsed-interests"]
    assert caplog.text.count("users are nearly equal: they rank as one vector does") == 1


def test_a_number_chosen_on_validation_data_is_diagnosed_once(parts):
    train, valid, _ = parts
    model = DPCML(dim=8, n_interests="auto", epochs=3, seed=0).fit(train, valid=valid)
    kinds = [one["kind"] for one in model.diagnostics_]
    assert len(kinds) == len(set(kinds))


def test_metrics_and_frame_agree(model, parts):
    train, valid, test = parts
    names = ["EffectiveInterests", "DeadInterests", "CollapsedInterests"]
    report = evaluate(model, test, seen=[train, valid], metrics=names)
    frame = use_frame(model)
    of_users = report.to_frame(per_user=True).join(frame, on="user", how="left", maintain_order="left")
    assert of_users["EffectiveInterests"].to_list() == of_users["effective"].to_list()
    dead = 1 - of_users["n_used"].to_numpy() / of_users["n_vectors"].to_numpy()
    assert of_users["DeadInterests"].to_list() == dead.tolist()
    assert report["CollapsedInterests"] == 0.0
    assert report.units["EffectiveInterests"] == "interests"
    assert frame.height == train.n_users


def test_models_without_interests(parts):
    ease = EASE().fit(parts[0])
    assert interest_findings(ease) == []
    with pytest.raises(ParameterError, match="interest_use needs a model whose users have interests, and EASE"):
        use_frame(ease)
    assert use_frame(CML(dim=8, epochs=1).fit(parts[0]))["effective"].to_list() == [1.0] * 80
