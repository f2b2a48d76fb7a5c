"""Small data with and without times."""

from __future__ import annotations

import polars as pl
import pytest

from tastespace import Interactions, synthetic


@pytest.fixture(scope="session")
def town() -> Interactions:
    return synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1_600, seed=1).interactions


@pytest.fixture(scope="session")
def frame(town: Interactions) -> pl.DataFrame:
    rows = town.to_frame()
    times = (pl.int_range(pl.len()) * 7919 % 5000) * 3600 + 1_600_000_000
    return rows.select(who="user", what="item", t=times)
