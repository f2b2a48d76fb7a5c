"""Data that the tests of several models share."""

from __future__ import annotations

import pytest

from tastespace.data.interactions import Interactions
from tastespace.data.synthetic import SyntheticData


@pytest.fixture
def patchy(town: SyntheticData) -> Interactions:
    """Data in which somebody has nothing and some things nobody has."""
    keep = (town.interactions.row_of_each() != 5) & (town.interactions.indices % 50 != 3)
    return town.interactions.subset(keep)
