"""A small shop with text for ids and attributes of several kinds, and models fitted on it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import tastespace as ts


@pytest.fixture(scope="session")
def shop_frames():
    """Who took what, and what is known of the items: title, genres (lists), year (some unknown), kinds ("a|b")."""
    town = ts.synthetic.multi_interest(n_users=120, n_items=90, n_interactions=2_400, n_categories=6, seed=5)
    data = town.interactions
    taken = data.to_frame().select(
        user=pl.format("u{}", pl.col("user").cast(pl.String).str.zfill(3)),
        item=pl.format("i{}", pl.col("item").cast(pl.String).str.zfill(2)),
    )
    category = np.array(town.categories)[town.item_category]
    items = pl.DataFrame(
        {
            "item": [f"i{row:02d}" for row in range(90)],
            "title": [f"{category[row]} no. {row}" for row in range(90)],
            "genres": [[name] for name in category],
            "year": [None if row % 11 == 0 else 1960 + (row * 7) % 60 for row in range(90)],
            "kinds": [f"{name}|{'new' if row % 3 else 'used'}" for row, name in enumerate(category)],
        }
    )
    return taken, items


@pytest.fixture(scope="session")
def shop(shop_frames):
    taken, items = shop_frames
    return ts.Interactions.from_frame(taken, item_attributes=items, catalog=items["item"].to_list(), threads=1)


@pytest.fixture(scope="session")
def pandas_shop(shop_frames):
    pd = pytest.importorskip("pandas")
    taken, items = shop_frames
    return ts.Interactions.from_frame(
        pd.DataFrame(taken.to_dict(as_series=False)),
        item_attributes=pd.DataFrame(items.to_dict(as_series=False)),
        catalog=items["item"].to_list(),
        threads=1,
    )


@pytest.fixture(scope="session")
def dpcml(shop):
    return ts.DPCML(dim=8, log_base=2.0, epochs=30, threads=1, seed=1).fit(shop)


@pytest.fixture(scope="session")
def cml(shop):
    return ts.CML(dim=8, epochs=10, threads=1, seed=1).fit(shop)


@pytest.fixture(scope="session")
def ease(shop):
    return ts.EASE(regularization=20.0, threads=1).fit(shop)


@pytest.fixture(scope="session")
def popular(shop):
    return ts.MostPopular().fit(shop)
