"""Which interactions an update visits."""

import numpy as np
import pytest

from tastespace import synthetic
from tastespace.data.merge import added
from tastespace.training.visits import UpdateVisits


@pytest.fixture(scope="module")
def found():
    """New interactions of the first 20 of 200 users."""
    town = synthetic.multi_interest(n_users=200, n_items=100, n_interactions=4_000, seed=2).interactions
    is_new = (town.row_of_each() < 20) & (np.arange(town.n_interactions) % 2 == 0)
    return added(town.subset(~is_new), town.subset(is_new))


def test_every_new_one_and_a_share_of_the_old_ones(found):
    visits = UpdateVisits(found, n_old=3, seed=0)
    new = set(np.flatnonzero(found.is_new).tolist())
    assert len(visits) == 4 * len(new)
    seen = set()
    for epoch in range(12):
        visited = visits.of_epoch(epoch)
        assert len(visited) == len(visits) == len(set(visited.tolist()))
        assert new <= set(visited.tolist())
        seen |= set(visited.tolist())
    assert len(seen) > 2 * len(visits)  # others in every epoch
    owners = found.data.row_of_each()
    old = np.array(sorted(set(visits.of_epoch(0).tolist()) - new))
    # Half of 3 for each new one, but there are no more: as many old ones of these users as new ones.
    assert (owners[old] < 20).sum() == pytest.approx(len(new), abs=20)
    assert (owners[old] >= 20).any()


def test_the_same_seed_and_epoch_visit_the_same(found):
    first, again, other = (UpdateVisits(found, n_old=2, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.of_epoch(57), again.of_epoch(57))
    assert not np.array_equal(first.of_epoch(57), first.of_epoch(58))
    assert not np.array_equal(first.of_epoch(57), other.of_epoch(57))


@pytest.mark.parametrize(("n_old", "expected"), [(0, "new"), (1e9, "all")])
def test_none_and_all_of_the_old_ones(found, n_old, expected):
    visited = UpdateVisits(found, n_old, seed=0).of_epoch(0)
    whole = np.arange(found.data.n_interactions)
    np.testing.assert_array_equal(visited, np.flatnonzero(found.is_new) if expected == "new" else whole)
