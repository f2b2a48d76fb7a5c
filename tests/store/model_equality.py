"""When a loaded model is the one that was saved."""

import math

import numpy as np
import scipy.sparse as sp

from tastespace.data.features import FeatureEncoder
from tastespace.models import Recommender


def assert_same_model(one, other):
    """Class, parameters, data, everything learned and all scores agree in every bit."""
    assert type(one) is type(other)
    assert_same_parameters(one, other)
    assert_same_data(one.train_, other.train_)
    assert learned(one).keys() == learned(other).keys()
    for name, value in learned(one).items():
        assert_same_value(value, learned(other)[name])
    users = np.arange(one.train_.n_users)
    np.testing.assert_array_equal(one.score_block(users), other.score_block(users))


def assert_same_parameters(one, other):
    """Models among the parameters have the same class and the same parameters."""
    assert repr(one) == repr(other)
    assert list(one.get_params()) == list(other.get_params())
    for name, value in one.get_params(deep=False).items():
        if name == "members" and value is not None:
            for mine, theirs in zip(value, other.members, strict=True):
                assert_same_parameters(mine, theirs)
        else:
            assert value == getattr(other, name)


def is_same_model(one, other):
    try:
        assert_same_model(one, other)
    except AssertionError:
        return False
    return True


def names(folder):
    """Names of everything in a directory, sorted."""
    return sorted(path.name for path in folder.iterdir())


def assert_same_data(one, other):
    assert one.users == other.users
    assert one.items == other.items
    assert one.fingerprint() == other.fingerprint()
    assert one.backend == other.backend
    assert one.cleaning == other.cleaning
    for kind in ("user_attributes", "item_attributes"):
        mine, theirs = getattr(one, kind), getattr(other, kind)
        assert (mine is None) == (theirs is None)
        assert mine is None or (mine.schema == theirs.schema and mine.equals(theirs))


def learned(model):
    hidden = ("_", "train_", "valid_")
    return {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith(hidden)}


def assert_same_value(one, other):
    if sp.issparse(one):
        assert type(one) is type(other)
        assert one.shape == other.shape
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
        return
    assert type(one) is type(other) or isinstance(one, np.memmap)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same_value(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same_value(mine, theirs)
    elif isinstance(one, (np.ndarray, np.number, np.bool_)):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, Recommender):
        assert_same_model(one, other)
    elif isinstance(one, FeatureEncoder):
        assert_same_value(one.to_plain(), other.to_plain())
    elif isinstance(one, float) and math.isnan(one):
        assert math.isnan(other)
    else:
        assert one == other
