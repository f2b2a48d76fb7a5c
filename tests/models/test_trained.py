"""Trainings that end in a useless model say so."""

import numpy as np
import pytest

from tastespace import (
    CML,
    DPCML,
    load,
    split,
    synthetic,
)
from tastespace.models.trained import collapsed_vectors, relative_variance


@pytest.fixture(scope="module")
def parts():
    return split.per_user(synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions)


def problems(model):
    return [one["kind"] for one in model.diagnostics_ if one["kind"] != "interests"]


def test_a_good_training_has_nothing_to_say(parts, caplog):
    model = DPCML(dim=16, epochs=30, start="random", seed=3).fit(parts[0], valid=parts[1])
    assert problems(model) == []
    assert "validation data" not in caplog.text
    assert CML(dim=8, epochs=1).fit(parts[0]).diagnostics_ == []


def test_below_most_popular_is_a_warning_that_is_saved(parts, caplog, tmp_path):
    train, valid, _ = parts
    model = CML(dim=4, epochs=1, learning_rate=1e-9, anchor=0.0, seed=3).fit(train, valid=valid)
    assert problems(model) == ["below-popular"]
    (found,) = model.diagnostics_
    assert found["value"] < found["popular"]
    assert "that of the most popular items" in caplog.text
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").diagnostics_ == model.diagnostics_
    again = model.set_params(epochs=40, learning_rate=CML().learning_rate, dim=16).fit(train, valid=valid)
    assert again.diagnostics_ == []  # of this fit, not of the one before


def test_collapsed_vectors_are_found(parts):
    model = CML(dim=8, epochs=1).fit(parts[0])
    assert collapsed_vectors(model) == []
    rng = np.random.default_rng(0)
    nearly = (np.ones((60, 8)) + 1e-3 * rng.standard_normal((60, 8))).astype(np.float32)
    model.item_vectors_ = nearly
    assert [one["kind"] for one in collapsed_vectors(model)] == ["collapsed-items"]
    expected = ((nearly - nearly.mean(axis=0)) ** 2).sum(axis=1).mean() / (nearly**2).sum(axis=1).mean()
    assert relative_variance(nearly) == pytest.approx(expected, rel=1e-2)
    assert relative_variance(np.zeros((20, 3))) is None
    assert relative_variance(rng.standard_normal((200, 3))) > 0.9
