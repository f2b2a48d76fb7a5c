"""Data that the tests of the recipe share."""

from __future__ import annotations

import polars as pl
import pytest

from tastespace import Interactions, split, synthetic


@pytest.fixture(scope="session")
def data() -> Interactions:
    """100 users and 60 items whose items have categories."""
    return synthetic.multi_interest(n_users=100, n_items=60, n_interactions=2000, seed=7).interactions


@pytest.fixture(scope="session")
def bare(data: Interactions) -> Interactions:
    """The same without attributes of the items."""
    return Interactions.from_frame(data.to_frame())


@pytest.fixture(scope="session")
def halves(data: Interactions) -> tuple[Interactions, Interactions]:
    """Training data and held-out data."""
    held_out, train = split.per_user(data, (0.2, 0.8), seed=0)
    return train, held_out


@pytest.fixture(scope="session")
def frame(data: Interactions) -> pl.DataFrame:
    """The interactions as a table with names of its own."""
    return pl.DataFrame(data.to_frame()).rename({"user": "who", "item": "what"})
