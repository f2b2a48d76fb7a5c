"""What new interactions add to old ones."""

import numpy as np
import polars as pl
import pytest

from tastespace import Interactions
from tastespace.data.merge import added, concat
from tastespace.errors import DataError


def make(rows):
    return Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item"], orient="row"), part=True)


def test_new_pairs_users_and_items_are_found_among_all():
    rng = np.random.default_rng(3)
    old_pairs = {(int(u), int(i)) for u, i in rng.integers(0, 30, (200, 2))}
    new_pairs = {(int(u), int(i)) for u, i in rng.integers(10, 45, (150, 2))}
    old, new = make(sorted(old_pairs)), make(sorted(new_pairs))
    found = added(old, new)
    assert found.data.fingerprint() == concat(old, new).fingerprint()
    pairs = found.data.to_frame().rows()
    assert [bool(one) for one in found.is_new] == [pair not in old_pairs for pair in pairs]
    assert found.n_interactions == len(new_pairs - old_pairs)
    assert found.n_duplicates == len(new_pairs & old_pairs)
    assert found.n_users == len({u for u, _ in new_pairs} - {u for u, _ in old_pairs})
    assert found.n_items == len({i for _, i in new_pairs} - {i for _, i in old_pairs})
    for row, user in enumerate(found.data.users.series):
        assert found.old_users[row] == (old.users.index_of([user])[0] if user in old.users else -1)
    assert not found.nothing
    assert str(found).startswith(f"{found.n_interactions} new interactions")


def test_nothing_new_and_other_types():
    old = make([("ann", 1), ("bob", 2)])
    assert added(old, make([("bob", 2)])).nothing
    assert not added(old, make([("bob", 1)])).nothing
    with pytest.raises(DataError, match="user ids have type String in one table and Int64"):
        added(old, make([(1, 2)]))


def test_a_part_may_hold_one_user_but_not_none():
    frame = pl.DataFrame({"user": [1], "item": [2], "stars": [3]})
    assert Interactions.from_frame(frame, part=True).n_users == 1
    with pytest.raises(DataError, match="holds 1 user; at least 2 are needed, since"):
        Interactions.from_frame(frame)
    with pytest.raises(DataError, match="drops everything"):
        Interactions.from_frame(frame, min_user=2, part=True)
