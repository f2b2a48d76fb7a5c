"""Names of regions of the map."""

from __future__ import annotations

import numpy as np
import polars as pl

import tastespace as ts
from tastespace.plots._taste_map import taste_map_regions

N = 200


def catalog(**columns):
    """Items 0 to 199; item i was taken by i + 1 users, so the last are the most popular."""
    pairs = [(user, item) for item in range(N) for user in range(item + 1)]
    frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row")
    about = pl.DataFrame({"item": range(N), **columns}) if columns else None
    return ts.Interactions.from_frame(frame, item_attributes=about, threads=1)


def two_clouds():
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal([0, 0], 1, size=(N // 2, 2)), rng.normal([20, 0], 1, size=(N // 2, 2))])


def test_categories_are_written_where_they_concentrate():
    points = two_clouds()
    genres = [["Noir"] if item < N // 2 else ["Western", "Film"] for item in range(N)]
    genres = [[*names, "Film"] if item < N // 2 else names for item, names in enumerate(genres)]  # all are films
    found = taste_map_regions(points, catalog(genres=genres), np.arange(0))
    assert {region.name for region in found} == {"Noir", "Western"}
    assert all(region.is_category for region in found)
    places = {region.name: region.place for region in found}
    assert np.linalg.norm(places["Noir"] - [0, 0]) < 2
    assert np.linalg.norm(places["Western"] - [20, 0]) < 2


def test_a_category_that_is_everywhere_names_nothing():
    genres = [["Odd"] if item % 2 else ["Even"] for item in range(N)]
    points = np.stack([np.arange(N) % 20, np.arange(N) // 20], axis=1) + 0.0
    assert [r for r in taste_map_regions(points, catalog(genres=genres), np.arange(0)) if r.is_category] == []


def test_without_categories_popular_items_of_the_crowd_name_regions():
    points = two_clouds()
    data = catalog(title=[f"T{item}" for item in range(N)])
    found = taste_map_regions(points, data, np.arange(N - 5))
    assert found[0].name == f"T{N - 6}"  # the most popular that may be named
    assert not any(region.is_category for region in found)
    assert {region.place[0] > 10 for region in found} == {True, False}  # both clouds have one
    width = np.ptp(points, axis=0).max()
    places = [region.place for region in found]
    assert all(np.linalg.norm(a - b) >= 0.16 * width for i, a in enumerate(places) for b in places[:i])
    assert [region.name for region in taste_map_regions(points, catalog(), np.array([3]))] == ["3"]
