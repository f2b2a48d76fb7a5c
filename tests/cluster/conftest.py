"""Small data for tests of partitions."""

import pytest

import tastespace as ts


@pytest.fixture(scope="session")
def parts():
    town = ts.synthetic.multi_interest(n_users=120, n_items=60, n_interactions=2500, seed=2).interactions
    return ts.split.per_user(town, seed=0)
