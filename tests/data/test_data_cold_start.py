"""Cold-start data: users and items are warm or new, never both."""

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from tests.required_services import optional_package

from tastespace.data import cold_start
from tastespace.errors import DataError, ParameterError


@pytest.fixture(scope="module")
def held(town):
    data = town.interactions
    users = pl.DataFrame({"user": data.users.series, "x": np.arange(data.n_users)})
    items = sp.eye_array(data.n_items).tocsr()
    return data, cold_start.hold_out("t", data, users, items, users=0.2, items=0.1, seed=3)


def test_users_and_items_are_warm_or_new(held):
    data, parts = held
    for side in ("users", "items"):
        warm = set(getattr(parts.train, side).series)
        new = set(getattr(parts.new_users if side == "users" else parts.new_items, side).series)
        assert not warm & new
        assert warm | new == set(getattr(data, side).series)
    assert parts.new_users.items == parts.new_items.users.__class__(parts.train.items.series, "item")
    assert parts.new_items.users == parts.train.users


def test_all_pairs_are_kept_but_those_of_new_users_with_new_items(held):
    data, parts = held
    found = [
        set(part.to_frame().rows()) for part in (parts.train, parts.valid, parts.test, parts.new_users, parts.new_items)
    ]
    assert sum(map(len, found)) == len(set().union(*found))
    new_users, new_items = set(parts.new_users.users.series), set(parts.new_items.items.series)
    lost = set(data.to_frame().rows()) - set().union(*found)
    assert lost == {(u, i) for u, i in data.to_frame().rows() if u in new_users and i in new_items}


def test_features_follow_their_owners(held):
    data, parts = held
    assert parts.user_features["user"].to_list() == parts.train.users.series.to_list()
    assert parts.new_user_features["user"].to_list() == parts.new_users.users.series.to_list()
    at = data.items.find(parts.new_items.items.series)
    np.testing.assert_array_equal(parts.new_item_features.toarray(), np.eye(data.n_items)[at])


def test_seeds_and_shares(held):
    data, parts = held
    again = cold_start.hold_out("t", data, None, None, users=0.2, items=0.1, seed=3)
    assert again.train.fingerprint() == parts.train.fingerprint()
    other = cold_start.hold_out("t", data, None, None, users=0.2, items=0.1, seed=4)
    assert other.train.fingerprint() != parts.train.fingerprint()
    nobody = cold_start.hold_out("t", data, None, None, users=0.0, items=0.1)
    assert nobody.new_users is None
    assert nobody.train.n_users == data.n_users
    with pytest.raises(ParameterError, match=r"users=1.5 are to be held out"):
        cold_start.hold_out("t", data, None, None, users=1.5)
    with pytest.raises(ParameterError, match="Did you mean xing-2017"):
        cold_start.load("xing")


def test_xing_is_the_subset_that_is_described(dataset_dir):
    dataset_dir("xing-2017")
    parts = cold_start.load("xing-2017")
    warm = (parts.train, parts.valid, parts.test)
    assert (parts.train.n_users, parts.train.n_items, sum(p.n_interactions for p in warm)) == (3_135, 10_658, 97_828)
    assert (parts.new_users.n_users, parts.new_users.n_interactions) == (7_553, 144_430)
    assert (parts.new_items.n_items, parts.new_items.n_interactions) == (1_712, 15_241)
    shapes = [f.shape for f in (parts.user_features, parts.item_features)]
    assert shapes == [(3_135, 831), (10_658, 2_738)]
    assert parts.new_user_features.shape[0], parts.new_item_features.shape == (7_553, (1_712, 2_738))


def test_movies_and_articles(dataset_dir):
    dataset_dir("ml-1m")
    dataset_dir("citeulike-a")
    movies, articles = cold_start.load("ml-1m"), cold_start.load("citeulike-a")
    assert set(movies.settings["user_columns"]) <= set(movies.user_features.columns)
    assert (movies.new_users.n_users, movies.new_items.n_items) == (603, 353)
    assert articles.new_users is None
    assert (articles.new_items.n_items, articles.new_items.n_interactions) == (2_378, 27_739)


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "polars"])
def test_features_of_any_library_go_back_into_it(town, library):
    data = town.interactions
    plain = pl.DataFrame({"user": data.users.series, "tags": [["a"]] * data.n_users})
    module = optional_package(library)
    people = plain.to_arrow() if library == "pyarrow" else module.DataFrame(plain.to_dict(as_series=False))
    parts = cold_start.hold_out("t", data, people, None, users=0.2, items=0.1)
    assert type(parts.user_features) is type(people)
    assert list(parts.new_user_features["user"].to_numpy()) == parts.new_users.users.series.to_list()


def test_what_cannot_be_held_out(town):
    data = town.interactions
    people = pl.DataFrame({"user": data.users.series[:-1]})
    with pytest.raises(DataError, match=r"the user features have \d+ rows, expected one for each"):
        cold_start.hold_out("t", data, people, None)
    with pytest.raises(DataError, match="the item features have 3 rows"):
        cold_start.hold_out("t", data, None, np.eye(3))
    with pytest.raises(DataError, match="features are a list"):
        cold_start.hold_out("t", data, [1], None)
    for share in ("a", None, True, float("nan"), -0.1):
        with pytest.raises(ParameterError, match=r"users=.* are to be held out: expected a share"):
            cold_start.hold_out("t", data, None, None, users=share)


def test_interests_and_categories_of_the_town_have_the_same_names():
    parts = cold_start.load("town")
    assert set(parts.item_features["category"]) == set(parts.user_features["likes"].explode())
