"""Small models to save."""

import inspect

import pytest

from tastespace import (
    DPCML,
    MostPopular,
    models,
    split,
    synthetic,
)
from tastespace.store import save


@pytest.fixture(scope="session")
def parts():
    """Train, validation and test data; items have attributes."""
    town = synthetic.multi_interest(n_users=40, n_items=30, n_interactions=500, seed=1).interactions
    return split.per_user(town, seed=0)


@pytest.fixture(scope="session")
def fitted(parts):
    """A function from a name of the registry to a small fitted model of that class."""
    made = {}

    def fit(name):
        if name not in made:
            wanted = {"dim": 4, "epochs": 3, "threads": 1}
            accepted = inspect.signature(models.registry()[name]).parameters
            model = models.create(name, **{key: value for key, value in wanted.items() if key in accepted})
            made[name] = model.fit(parts[0], valid=parts[1])
        return made[name]

    return fit


@pytest.fixture(scope="session")
def old(parts):
    """The model that is already there in tests of overwriting."""
    return DPCML(dim=6, n_interests=2, epochs=2, threads=1).fit(parts[0])


@pytest.fixture(scope="session")
def new(parts):
    """The one that is saved over it."""
    return MostPopular().fit(parts[1])


@pytest.fixture
def folder(tmp_path, old):
    """A directory with the old model."""
    save(old, tmp_path / "model")
    return tmp_path / "model"
